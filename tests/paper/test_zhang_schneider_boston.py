"""The experiment on housing compares the models that the paper names, here on the diabetes data of scikit-learn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.tables import table
from mmpca_paper.zhang_schneider import boston
from mmpca_paper.zhang_schneider.table import Figure, published
from sklearn.datasets import load_diabetes

from mmpca_dist.errors import InputError

OPEN = {"columns": "standardised", "weight": "absolute", "epsilon": 1000, "reduced": "plain", "constant": "free"}
"""A reading of what the paper leaves open."""


@pytest.fixture
def file(tmp_path):
    """A Parquet file with the ten columns, and the target in the middle."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    columns = [*X.T[:5], y, *X.T[5:]]
    names = [f"f{i}" for i in range(5)] + ["target"] + [f"f{i}" for i in range(5, 10)]
    pq.write_table(pa.table(columns, names), tmp_path / "diabetes.parquet")
    return tmp_path / "diabetes.parquet"


def test_the_target_is_no_column_of_the_rows(file, capsys):
    X, y = table("boston", data=str(file)).load()
    expected = load_diabetes(return_X_y=True, scaled=False)
    np.testing.assert_array_equal(X, expected[0])
    np.testing.assert_array_equal(y, expected[1])
    assert "of other data: 506 rows of 13 columns" in capsys.readouterr().out


@pytest.mark.parametrize("changes", [{}, {"columns": "raw", "reduced": "ridge", "weight": "relative"}])
def test_a_run_has_a_score_for_every_published_model(file, changes):
    config = table("boston", data=str(file), **{**OPEN, "alphas": [1.0, 1e4], **changes})
    scores = config.run(config.load(), 50, seed=0)
    assert {(50, model) for model in scores} == set(published(config.NUMBERS))
    assert all(0 < score < 60 for score in scores.values())  # all 442 rows reach 52


@pytest.mark.parametrize(("weight", "inside"), [("absolute", 1000.0), ("relative", 10.0 * 1000)])
def test_the_penalty_in_the_reduced_space_is_that_of_the_configuration(file, weight, inside):
    config = table("boston", data=str(file), **{**OPEN, "weight": weight})
    X, y = config.load()
    X, alpha = config.scaled(X, X)[0], 10.0
    model = config.models(X, y)["Proj-PCR"](alpha).fit(X, y)
    directions = np.linalg.svd(X, full_matrices=False)[2][: boston.COMPONENTS["Proj-PCR"]]
    # least over v of alpha |w - P^T v|^2 + inside |v|^2: the weight of w^2 inside of the subspace
    least = alpha * inside / (alpha + inside)
    penalty = alpha * np.eye(X.shape[1]) + (least - alpha) * directions.T @ directions
    expected = np.linalg.solve(X.T @ X + penalty, X.T @ (y - y.mean()))
    # its solver adds up squares in another order: rounding times the condition, about 1000
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_a_penalised_constant_is_the_coefficient_of_ones(file):
    config = table("boston", data=str(file), **{**OPEN, "constant": "penalised"})
    X, y = config.load()
    ones, alpha = np.column_stack([np.ones(len(X)), X]), 10.0
    coefficients = np.linalg.solve(ones.T @ ones + alpha * np.eye(ones.shape[1]), ones.T @ y)
    # the condition of the normal equations is about 1e6, and solvers differ by rounding times as much
    np.testing.assert_allclose(config.models(X, y)["Ridge"](alpha).fit(X, y).predict(X), ones @ coefficients, rtol=1e-8)


def test_a_file_without_a_target_is_refused(tmp_path):
    pq.write_table(pa.table({"crim": [0.1]}), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="no column target, only crim"):
        table("boston", data=str(tmp_path / "rows.parquet")).load()
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match="not readable as Parquet"):
        table("boston", data=str(tmp_path / "text.parquet")).load()


@pytest.mark.slow
def test_all_runs_of_the_paper_have_its_figures_within_three_standard_errors(real_path):
    config = table("boston", data=str(real_path("boston.parquet")))
    config = config.model_copy(update={"runs": config.FULL})
    figures = published(config.NUMBERS)
    for model, values in config.values(config.load(), boston.TRAINING).items():
        own, stated = Figure.of(values), figures[boston.TRAINING, model]
        assert abs(own.mean - stated.mean) < 3 * np.hypot(own.error, stated.error), model
