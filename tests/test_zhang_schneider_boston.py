"""The experiment on housing compares the models that the paper names, here on the diabetes data of scikit-learn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mmpca_paper import zhang_schneider_boston as boston
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge


@pytest.fixture
def table(tmp_path):
    """A Parquet file with the ten columns, and the target in the middle."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    columns = [*X.T[:5], y, *X.T[5:]]
    names = [f"f{i}" for i in range(5)] + ["target"] + [f"f{i}" for i in range(5, 10)]
    pq.write_table(pa.table(columns, names), tmp_path / "diabetes.parquet")
    return tmp_path / "diabetes.parquet"


def test_the_target_is_no_column_of_the_rows(table):
    X, y = boston.load_rows(table)
    expected = load_diabetes(return_X_y=True, scaled=False)
    np.testing.assert_array_equal(X, expected[0])
    np.testing.assert_array_equal(y, expected[1])


@pytest.mark.parametrize("reading", [boston.Reading(), boston.Reading("raw", "ridge", "relative")])
def test_a_run_has_a_score_for_every_published_model(table, reading, monkeypatch):
    monkeypatch.setattr(boston, "ALPHAS", np.asarray([1.0, 1e4]))
    scores = boston.run_scores(*boston.load_rows(table), reading, seed=0)
    assert {(50, model) for model in scores} == set(boston.published(boston.TABLES))
    assert all(0 < score < 60 for score in scores.values())  # all 442 rows reach 52


@pytest.mark.parametrize(("weight", "inside"), [("absolute", 1000.0), ("relative", 10.0 * 1000)])
def test_the_penalty_in_the_reduced_space_is_that_of_the_reading(table, weight, inside):
    X, y = boston.load_rows(table)
    X, alpha = boston.scaled(X, X, boston.Reading())[0], 10.0
    model = boston.models_for(X, y, boston.Reading(weight=weight))["Proj-PCR"](alpha).fit(X, y)
    directions = np.linalg.svd(X, full_matrices=False)[2][: boston.COMPONENTS["Proj-PCR"]]
    # least over v of alpha |w - P^T v|^2 + inside |v|^2: the weight of w^2 inside of the subspace
    least = alpha * inside / (alpha + inside)
    penalty = alpha * np.eye(X.shape[1]) + (least - alpha) * directions.T @ directions
    expected = np.linalg.solve(X.T @ X + penalty, X.T @ (y - y.mean()))
    # its solver adds up squares in another order: rounding times the condition, about 1000
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_a_relative_weight_makes_ridge_regression(table):
    X, y = boston.load_rows(table)
    X = boston.scaled(X, X, boston.Reading())[0]
    model = boston.models_for(X, y, boston.Reading(weight="relative"))["Proj-PLS"](10.0).fit(X, y)
    ridge = Ridge(10.0).fit(X, y)
    # penalties that differ by a thousandth at most
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-3 * np.abs(ridge.coef_).max())


def test_absent_data_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("MMPCA_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"boston\.parquet: set MMPCA_DATA .* or give its path by --data"):
        boston.data_path("boston.parquet", or_option="--data")
    with pytest.raises(SystemExit, match=r"There is no .*housing\.parquet"):
        boston.load_rows(tmp_path / "housing.parquet")


def test_a_file_without_a_target_is_refused(tmp_path):
    pq.write_table(pa.table({"crim": [0.1]}), tmp_path / "rows.parquet")
    with pytest.raises(SystemExit, match="no column target, only crim"):
        boston.load_rows(tmp_path / "rows.parquet")
