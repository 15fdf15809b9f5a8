"""Runs with regressions, chosen columns and random projection: models, reports, smaller numbers, new rows, refusals."""

import json
from pathlib import Path

import naive
import numpy as np
import pytest
from helpers.runs import refreshed
from helpers.tables import make_config, mixed, write_npz
from sklearn.datasets import load_breast_cancer, load_digits

from mmpca_dist import LassoSelection, load_model, open_dataset, run
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions, choose_solver
from mmpca_dist.errors import InputError, PlanError
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.fit import preview

NO_REPORT = pytest.mark.usefixtures("no_report")

NEW = ["pls", "ridge", "lasso", "fisher-score", "random-projection"]
SETTINGS = {"ridge": {"alpha": 3.0}, "random-projection": {"seed": 4}}
FORMED = ["pls", "ridge", "lasso"]


def config_of(output, uri, **changes):
    methods = [{"name": name, **SETTINGS.get(name, {})} for name in NEW]
    return make_config(output, uri, **{"methods": methods, **changes})


def fitted(method, config, n_components, X, y):
    """Return the estimator of a method with the settings of a run; fewer components where there are no more."""
    most = len(set(y.tolist())) - 1 if method == "ridge" else n_components
    return config.reducer(method, min(n_components, most)).fit(X, y)


@pytest.mark.parametrize("standardize", [pytest.param(False, marks=pytest.mark.e2e), True])
@pytest.mark.parametrize(
    ("name", "load"),
    [("breast_cancer", load_breast_cancer), pytest.param("digits", load_digits, marks=pytest.mark.slow)],
)
def test_a_run_has_the_models_of_the_estimators(name, load, standardize, tmp_path):
    X, y = load(return_X_y=True)
    config = config_of(tmp_path / "out", f"bundled:{name}", standardize=standardize)
    results = run(config)
    for method in NEW:
        for k in (2, 5):
            expected = fitted(method, config, k, X, y)
            found = load_model(str(tmp_path / "out"), method, None if k == 5 else len(expected.components_))
            np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9, err_msg=method)
            np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9, err_msg=method)
            assert found.transform(X).shape == (len(X), len(expected.components_))
            np.testing.assert_allclose(found.transform(X), expected.transform(X), rtol=1e-6, atol=1e-6)
        stored = open_dataset(str(tmp_path / "out" / "projected" / f"{method}.zarr"))
        np.testing.assert_allclose(stored.read_rows(0, len(X)), load_model(config.output, method).transform(X))
    page = Path(results["report"]["html"]).read_text()
    for method in NEW:
        assert f"In place of eigenvalues: {METHODS[method].values}." in page
    assert "spectrum" in {figure["name"] for figure in results["report"]["figures"]}
    rows = {row["method"]: row for row in result_in(config.output).rows}
    assert all(row["residual"] == "-" for row in rows.values())
    assert rows["lasso"]["share"] == "-"


@NO_REPORT
def test_smaller_numbers_have_the_factor_and_the_columns_that_are_theirs(tmp_path):
    X, y = mixed(15, 25, 2, seed=0)
    config = config_of(tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), n_components=[2, 8], methods=NEW)
    run(config)
    nested = []
    for k in range(1, 9):
        columns = load_model(config.output, "lasso", k).columns_.tolist()
        assert columns == LassoSelection(k, precision="double").fit(X, y).columns_.tolist()
        nested.append(columns)
        directions = naive.random_directions(8, 25, 0)[:k]
        found = load_model(config.output, "random-projection", k)
        np.testing.assert_allclose(found.transform(X), np.sqrt(25 / k) * X @ directions.T, atol=1e-10)
    seeds = [s for s in range(12) if (LassoSelection(8).fit(*mixed(15, 25, 2, s)).path_[:, 2] == 0).any()]
    assert seeds  # paths that columns leave are tested as such
    X, y = mixed(15, 25, 2, seeds[0])
    config = config_of(tmp_path / "left", write_npz(tmp_path / "left.npz", X, y), n_components=8, methods="lasso")
    run(config)
    for k in range(1, 9):
        found, expected = load_model(config.output, "lasso", k), LassoSelection(k, precision="double").fit(X, y)
        assert found.columns_.tolist() == expected.columns_.tolist()
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-12)


@NO_REPORT
@pytest.mark.parametrize("standardize", [False, True])
def test_fewer_rows_than_columns(standardize, tmp_path):
    X, y = mixed(15, 25, 3, seed=2)
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "wide.npz", X, y), standardize=standardize, methods=[*NEW, "pca"]
    )
    results = run(config)
    assert results["plan"]["choice"]["kind"] == "dual"
    for method in NEW:
        expected, found = fitted(method, config, 5, X, y), load_model(config.output, method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9, err_msg=method)
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9, err_msg=method)


@NO_REPORT
@pytest.mark.parametrize("others", [[], ["pca", "m-pca0"]])
@pytest.mark.parametrize("standardize", [False, True])
def test_columns_and_random_directions_beside_solvers_in_passes(others, standardize, tmp_path):
    X, y = mixed(60, 20, 3, seed=3)
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), solver={"kind": "krylov"}, standardize=standardize,
        methods=["fisher-score", "random-projection", *others], n_components=3,
    )  # fmt: skip
    results = run(config)
    if not others:
        assert results["reduce"]["passes"] == ["sample", "moments"]
    for method in ("fisher-score", "random-projection"):
        expected, found = fitted(method, config, 3, X, y), load_model(config.output, method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-12)
        np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-8)
    np.testing.assert_allclose(
        load_model(config.output, "fisher-score").eigenvalues_,
        fitted("fisher-score", config, 3, X, y).eigenvalues_, rtol=1e-9,
    )  # fmt: skip


def test_solvers_in_passes_are_refused_by_the_plan(tmp_path):
    for method in FORMED:
        config = config_of(tmp_path / "out", "bundled:digits", methods=["pca", method], solver={"kind": "krylov"})
        with pytest.raises(InputError, match=f"solver='krylov' never forms a scatter, and '{method}' needs it"):
            preview(config)
    assert not (tmp_path / "out").exists()


def test_the_whole_scatter_is_formed_however_many_columns_there_are(tmp_path):
    needs = Needs(full_scatter=("pls",), n_components=5)
    for rows, columns, kind in (
        (10**6, LIMITS.dense_columns + 1, "dense"), (10**6, 100, "dense"), (1000, 10**6, "dual"), (50, 100, "dual"),
    ):  # fmt: skip
        found = choose_solver(SolverOptions(), rows, columns, needs)
        assert (found.kind, found.full_scatter) == (kind, ("pls",))
        assert not choose_solver(SolverOptions(), rows, columns, Needs(n_components=5)).full_scatter
    uri = "synthetic:gaussian?n=20000&d=8000"
    with pytest.raises(PlanError, match=r"solver\.kind: krylov without 'pls', 'ridge', 'lasso', which need the whole"):
        preview(config_of(tmp_path / "out", uri)).refuse_if_too_large()
    preview(config_of(tmp_path / "out", uri, methods=["pca", "fisher-score"])).refuse_if_too_large()


@pytest.mark.parametrize("kind", ["auto", "krylov"])
@pytest.mark.e2e
def test_infinite_scores_are_in_models_and_no_trouble_for_reports(kind, tmp_path):
    rng = np.random.default_rng(4)
    y = np.arange(60) % 2
    X = np.column_stack([rng.standard_normal((60, 3)) + y[:, None], y * 2.0, np.full(60, 0.3)])
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), solver={"kind": kind}, n_components=5,
        methods=["fisher-score", "random-projection"],
    )  # fmt: skip
    results = run(config)
    model = load_model(config.output, "fisher-score")
    assert len(model.columns_) == 4 and model.columns_[0] == 3
    assert np.isinf(model.eigenvalues_[0]) and np.isnan(model.total_)
    assert any("Fisher score has 4 components where 5 were asked for" in note for note in results["report"]["notes"])
    (row, _) = result_in(config.output).rows
    assert row["share"] == "-" and row["leading eigenvalues"].startswith("-, ")
    for place in (tmp_path / "out").rglob("*.json"):
        if "records" in place.parts:
            json.loads(place.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@NO_REPORT
def test_new_rows_extend_them(tmp_path):
    X, y = mixed(200, 8, 3, seed=5)
    first, more, whole = (
        write_npz(tmp_path / f"{name}.npz", X[rows], y[rows])
        for name, rows in (("first", np.s_[:120]), ("more", np.s_[120:]), ("whole", np.s_[:]))
    )
    run(config_of(tmp_path / "base", first))
    run(config_of(tmp_path / "expected", whole))
    manifest = refreshed(tmp_path / "base", more, tmp_path / "live")
    assert manifest["methods"] == NEW and manifest["left_out"] == {}
    for method in NEW:
        extended = load_model(str(tmp_path / "base"), method).partial_fit(X[120:], y[120:])
        expected = load_model(str(tmp_path / "expected"), method)
        for found in (load_model(manifest["folder"], method), extended):
            np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9, err_msg=method)
            np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9, err_msg=method)
