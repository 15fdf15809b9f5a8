"""Scores of rows, their limits from folds, and contributions, against the slow twin."""

import dask
import dask.array as da
import dask.dataframe as dd
import naive_belonging
import numpy as np
import pandas as pd
import pytest
from helpers.tables import labelled, write_zarr
from scipy.sparse import csr_array
from sklearn.decomposition import PCA

from mmpca_dist import load_model, run
from mmpca_dist.belonging.limits import ScoreCounts, refuse_few, with_p
from mmpca_dist.belonging.theory import theory_limits
from mmpca_dist.errors import InputError
from mmpca_dist.jobs.finished_runs import open_run, statistics_of
from mmpca_dist.results.run_result import run_result

METHODS = ["pca", "m-pca0", "m-pca1b", "m-pca2", "fisher"]


def run_of(folder, X, y, **settings):
    dataset = {"uri": write_zarr(folder / "rows.zarr", X, y, 50), **settings.pop("dataset", {})}
    settings = {"methods": METHODS, "n_components": 3, "precision": "double", "belonging": {"alpha": 0.05}} | settings
    return run({"dataset": dataset, "output": str(folder / "run"), "project": {"methods": []}, **settings})


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("shape", [(200, 8), (70, 90)])
def test_scores_are_those_of_the_rows(shape, standardize, tmp_path):
    X, y = labelled(*shape, 3, 5)
    run_of(tmp_path, X, y, standardize=standardize)
    new = np.concatenate([X[:20], X[:20] * 3 + 1])
    for method in METHODS:
        model = load_model(str(tmp_path / "run"), method)
        found = model.belongs(new)
        expected = naive_belonging.scores(X, y, new, model.components_, scale=model.scale_)
        squares = np.sum(((new - X.mean(axis=0)) / (1 if model.scale_ is None else model.scale_)) ** 2, axis=1)
        np.testing.assert_allclose(found["q"], expected["q"], rtol=0, atol=1e-10 * squares.max(), err_msg=method)
        assert (found["q"] >= 0).all()
        for name in ("t2", "distance"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-8, err_msg=f"{method} {name}")
        assert found["nearest_class"].tolist() == expected["nearest_class"].tolist()


def test_sparse_rows_have_the_scores_of_dense_ones(tmp_path):
    X, y = labelled(200, 8, 3, 5)
    run_of(tmp_path, X, y)
    model = load_model(str(tmp_path / "run"), "m-pca0")
    dense, sparse = model.belongs(X), model.belongs(csr_array(X))
    for name in ("t2", "q", "distance"):
        np.testing.assert_allclose(sparse[name], dense[name], rtol=1e-9, atol=1e-9)


def test_contributions_add_up_to_the_scores(tmp_path):
    X, y = labelled(200, 8, 3, 5)
    run_of(tmp_path, X, y)
    model = load_model(str(tmp_path / "run"), "m-pca0")
    found = model.belongs(X[:5])
    for score in ("t2", "q"):
        parts = model.contributions(X[:5], score)
        np.testing.assert_allclose(parts.sum(axis=1), found[score], rtol=1e-9)
        for x, own in zip(X[:5], parts, strict=True):
            expected = naive_belonging.contributions(X, x, model.components_, score)
            np.testing.assert_allclose(own, expected, rtol=1e-8, atol=1e-10)
    with pytest.raises(InputError, match="There are contributions to t2 and q, not to 'distance'"):
        model.contributions(X, "distance")


def test_counts_in_steps_are_nearly_those_of_the_scores():
    rng = np.random.default_rng(0)
    held_out, new = rng.chisquare(4, 5000), rng.chisquare(4, 300)
    parts = [ScoreCounts.of(part) for part in np.array_split(held_out, 7)]
    counts = sum(parts[1:], parts[0])
    whole = ScoreCounts.of(held_out)
    assert np.array_equal(counts.steps, whole.steps)
    assert np.array_equal(counts.counts, whole.counts)
    expected = naive_belonging.p_values(held_out, new)
    assert (counts.p(new) >= expected).all()
    assert np.abs(counts.p(new) - expected).max() < 3 / 5001
    assert counts.limit(0.05) == pytest.approx(np.sort(held_out)[int(np.ceil(5001 * 0.95)) - 1], rel=2**-12)
    assert whole.p(np.array([0.0, np.inf])).tolist() == [1.0, 1 / 5001]


def test_the_smallest_p_counts_for_all_scores():
    counts = {"t2": ScoreCounts.of(np.arange(1.0, 100)), "q": ScoreCounts.of(np.arange(1.0, 100))}
    found = with_p({"t2": np.array([99.0, 1]), "q": np.array([50.0, 1])}, counts, 0.05)
    assert found["p"].tolist() == [2 * found["t2_p"][0], 1.0]
    assert found["belongs"].tolist() == [False, True]


def test_too_few_rows_are_refused():
    refuse_few(299, 0.01, 3)
    with pytest.raises(InputError, match="that takes 299 rows"):
        refuse_few(298, 0.01, 3)


@pytest.mark.parametrize("follows", [False, True])
def test_rows_that_follow_each_other_are_noted(follows, tmp_path):
    """An autoregression of 0.95 has scores whose neighbours correlate; those of independent rows do not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 5))
    for i in range(1, 1000 if follows else 0):
        X[i] = 0.95 * X[i - 1] + 0.3 * X[i]
    result = run_of(tmp_path, X, rng.integers(2, size=1000), methods=["pca"])
    notes = [note for note in result["belonging"]["notes"] if "Rows follow each other" in note]
    assert bool(notes) is follows
    assert set(notes) <= set(run_result(str(tmp_path / "run")).notes)


def test_correlation_is_that_of_neighbours_within_batches():
    scores = np.random.default_rng(0).chisquare(3, 400).cumsum()
    counts = ScoreCounts.of(scores)
    roots = np.cbrt(scores)
    expected = (np.mean(roots[1:] * roots[:-1]) - roots.mean() ** 2) / roots.var()
    assert counts.correlation == pytest.approx(expected)


@pytest.mark.parametrize("frame", [False, True])
def test_lazy_rows_are_scored_lazily(frame, tmp_path):
    X, y = labelled(200, 6, 3, 2)
    run_of(tmp_path, X, y, methods=["pca"])
    model = load_model(str(tmp_path / "run"), "pca")
    lazy = da.from_array(X, chunks=(70, 4))
    found = model.belongs(dd.from_dask_array(lazy, columns=list("abcdef")) if frame else lazy)
    assert dask.is_dask_collection(found)
    pd.testing.assert_frame_equal(found.compute().reset_index(drop=True), model.belongs(X))


def test_all_columns_as_a_method_give_distances_in_all_columns(tmp_path):
    X, y = labelled(200, 8, 3, 4)
    run_of(tmp_path, X, y, methods=["all-columns"])
    found = load_model(str(tmp_path / "run"), "all-columns").belongs(X[:30] * 2)
    expected = naive_belonging.scores(X, y, X[:30] * 2, np.eye(8))
    for name in ("t2", "distance"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-8)
    assert found["nearest_class"].tolist() == expected["nearest_class"].tolist()


def test_scores_and_limits_by_theory_are_those_of_chemotools(tmp_path):
    outliers = pytest.importorskip("chemotools.outliers", reason="chemotools is not installed")
    X, y = labelled(300, 10, 3, 7)
    run_of(tmp_path, X, y, methods=["pca"])
    model, new = load_model(str(tmp_path / "run"), "pca"), X[:40] * 3
    found, reference = model.belongs(new), PCA(3, svd_solver="full").fit(X)
    t2 = outliers.HotellingT2(reference, confidence=0.95).fit(X)
    q = outliers.QResiduals(reference, confidence=0.95, method="jackson-mudholkar").fit(X)
    np.testing.assert_allclose(found["t2"], t2.predict_residuals(new), rtol=1e-8)
    np.testing.assert_allclose(found["q"], q.predict_residuals(new), rtol=1e-8, atol=1e-9)
    statistics = statistics_of(open_run(str(tmp_path / "run")), as_asked=True)
    limits = theory_limits(model._belonging(), 0.05, statistics)
    # theirs is for the rows that were fitted, without the factor (n + 1) / n of new ones
    assert limits["t2"] == pytest.approx(t2.critical_value_ * 301 / 300)
    assert limits["q"] == pytest.approx(q.critical_value_, rel=0.01)
