"""Scores over rows with gaps, covariates, weights, maps, sparse rows in passes, and methods that are swept."""

import naive_belonging
import numpy as np
import pandas as pd
import pytest
import zarr
from helpers.runs import through
from helpers.tables import labelled, write_npz
from scipy.sparse import csr_array

from mmpca_dist import load_model, run
from mmpca_dist.errors import InputError

NAMES = [f"f{j}" for j in range(6)]


def compared(found, expected, rtol=1e-7):
    for name in ("t2", "q", "distance"):
        np.testing.assert_allclose(
            found[name], expected[name], rtol=rtol, atol=1e-9 * expected["q"].max(), err_msg=name
        )


def run_of(folder, frame, **settings):
    frame.to_parquet(folder / "rows.parquet")
    dataset = {"uri": str(folder / "rows.parquet"), "label": "label", **settings.pop("dataset", {})}
    settings = {"methods": ["pca", "fisher"], "n_components": 2, "belonging": {"alpha": 0.05}} | settings
    run({"dataset": dataset, "output": str(folder / "run"), "precision": "double", **settings})
    return [load_model(str(folder / "run"), method) for method in ("pca", "fisher")]


def frame_of(X, y):
    return pd.DataFrame(X, columns=NAMES).assign(label=y)


@pytest.mark.parametrize("columns", [["missing"], ["covariates"], ["missing", "covariates"]])
def test_scores_of_the_projection_s_pass_are_those_of_a_pass_of_their_own(columns, tmp_path):
    X, y = labelled(200, 6, 3, 5)
    frame = frame_of(X, y).assign(age=np.random.default_rng(0).normal(50, 10, 200))
    if "missing" in columns:
        frame.loc[::7, "f2"] = np.nan
    dataset = {name: {"missing": "mean", "covariates": ["age"]}[name] for name in columns}
    if columns == ["missing"]:
        frame = frame.drop(columns="age")
    rows, found = frame.drop(columns="label"), []
    for name, project in (("shared", {}), ("apart", {"methods": []})):
        (tmp_path / name).mkdir()
        models = run_of(tmp_path / name, frame, dataset=dataset, project=project)
        found.append([model.belongs(rows)[["t2_p", "q_p", "distance_p"]] for model in models])
    for method, model, shared, apart in zip(("pca", "fisher"), models, *found, strict=True):
        np.testing.assert_allclose(shared, apart, atol=1.01 / 201)  # a score between two steps may be in either
        projected = zarr.open_group(str(tmp_path / "shared" / "run" / "projected" / f"{method}.zarr"), mode="r")
        np.testing.assert_allclose(projected["X"][:], model.transform(rows), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("standardize", [False, True])
def test_gaps_are_filled_by_means(standardize, tmp_path):
    X, y = labelled(200, 6, 3, 5)
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    models = run_of(tmp_path, frame_of(gaps, y), dataset={"missing": "mean"}, standardize=standardize)
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    for model in models:
        compared(model.belongs(gaps), naive_belonging.scores(filled, y, filled, model.components_, scale=model.scale_))


def test_covariates_are_removed(tmp_path):
    X, y = labelled(200, 6, 3, 5)
    age = np.random.default_rng(0).normal(50, 10, 200)
    X = X + age[:, None] * np.arange(6)
    models = run_of(tmp_path, frame_of(X, y).assign(age=age), dataset={"covariates": ["age"]})
    within = [age[y == c] - age[y == c].mean() for c in range(3)]
    slopes = sum(own @ X[y == c] for c, own in enumerate(within)) / sum(own @ own for own in within)
    rows = X - np.outer(age - age.mean(), slopes)
    for model in models:
        expected = naive_belonging.scores(rows, y, rows, model.components_)
        compared(model.belongs(pd.DataFrame(X, columns=NAMES).assign(age=age)), expected)
    through(tmp_path / "run", tmp_path / "rows.parquet", tmp_path / "out.parquet", methods=["fisher"])
    compared(pd.read_parquet(tmp_path / "out.parquet"), expected)


def test_a_row_of_weight_two_is_that_row_twice(tmp_path):
    X, y = labelled(200, 6, 3, 5)
    weights = np.arange(200) % 3
    models = run_of(tmp_path, frame_of(X, y).assign(n=weights), dataset={"weight": "n"})
    twice, labels = np.repeat(X, weights, axis=0), np.repeat(y, weights)
    for model in models:
        compared(model.belongs(X), naive_belonging.scores(twice, labels, X, model.components_))


def test_weights_that_are_no_counts_of_rows_are_refused(tmp_path):
    X, y = labelled(200, 6, 3, 5)
    with pytest.raises(InputError, match="those of 200 rows sum to 1: scale them"):
        run_of(tmp_path, frame_of(X, y).assign(n=1 / 200), dataset={"weight": "n"})


@pytest.mark.parametrize(("methods", "solver"), [
    (["pca", "fisher"], {"kind": "krylov", "passes": 12, "tolerance": 0}),
    (["bm2pca"], {}),
    (["logistic-discriminant"], {}),
])  # fmt: skip
def test_moments_of_reduced_rows_from_a_pass_where_statistics_do_not_tell_them(methods, solver, tmp_path):
    X, y = labelled(150, 30, 2, 5)
    X[np.abs(X) < 1] = 0
    uri = write_npz(tmp_path / "rows.npz", X, y, sparse=True)
    settings = {
        "methods": methods,
        "n_components": 2,
        "precision": "double",
        "solver": solver,
        "belonging": {"alpha": 0.05},
    }
    run({"dataset": {"uri": uri}, "output": str(tmp_path / "run"), **settings})
    for method in methods:
        model = load_model(str(tmp_path / "run"), method)
        expected = naive_belonging.scores(X, y, X, model.projection()[0].T)
        compared(model.belongs(csr_array(X)), expected, rtol=1e-6)
