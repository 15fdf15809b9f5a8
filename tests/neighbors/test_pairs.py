"""M-PCA2: the scatter of differences to nearest rows, its estimator, its standard errors, its runs."""

import dask.array as da
import naive
import numpy as np
import pytest
from helpers.pairs import EPS, assert_components
from helpers.samples import even_edges, find, largest_angle
from helpers.tables import labelled
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mmpca_dist import MarginPCA
from mmpca_dist.errors import InputError
from mmpca_dist.neighbors import nearest
from mmpca_dist.neighbors.pair_statistics import apply_pairs, pair_scatter, sum_pairs
from mmpca_dist.passes.scratch import ZarrScratch
from mmpca_dist.statistics.medians import PAIRINGS

SINGLE = float(np.finfo(np.float32).eps)


@pytest.fixture
def small_blocks(limits):
    limits.pair_block_rows = 7


def close(found, expected, n_rows, unit):
    """Compare scatters up to what rounding n products does, relative to the trace."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=(n_rows + 8) * unit * np.trace(expected))


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=40)
@given(
    st.integers(2, 60), st.sampled_from([1, 3, 17, 40]), st.integers(0, 2**20), st.sampled_from([2, 3, 5]),
    st.sampled_from(PAIRINGS), st.sampled_from(["twice", "once"]), st.sampled_from(["single", "double"]),
    st.booleans(),
)  # fmt: skip
def test_the_scatter_is_that_of_the_difference_rows(n, d, seed, n_classes, pairing, mutual, precision, grid):
    """With ties and duplicates too, whichever way mutual pairs count."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, d)).astype(float) if grid else rng.standard_normal((n, d))
    y = rng.permutation(np.arange(n) % n_classes)
    rows = naive.mpca2_rows(X, y, pairing, mutual)
    found = pair_scatter(find(X, y, pairing=pairing, mutual=mutual), precision=precision)
    assert found.weight == len(rows)
    unit = SINGLE if precision == "single" else EPS
    close(found.mean_outer_product(), naive.mean_outer_product(rows), n, unit)
    basis, _ = np.linalg.qr(rng.standard_normal((d, min(d, 4))))
    turned = pair_scatter(find(X, y, pairing=pairing, mutual=mutual), precision=precision, basis=basis)
    expected = basis.T @ naive.mean_outer_product(rows) @ basis
    atol = (n + d + 8) * unit * (np.trace(naive.mean_outer_product(rows)) + EPS)
    np.testing.assert_allclose(turned.mean_outer_product(), expected, rtol=0, atol=atol)


@pytest.fixture
def few_bytes(limits):
    """Limits in bytes so low that cells of few rows are in pieces, and their segments and tasks in blocks."""
    limits.rows_per_cell, limits.smallest_piece, limits.segment_bytes = 40, 8, 1000
    limits.layout_block_bytes, limits.pair_block_bytes = 3000, 1500
    limits.task_bytes, limits.smallest_task, limits.scratch_chunk_bytes = 1000, 10, 2000
    limits.calibration_queries = 40


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize(("search", "mutual", "stored"), [
    ({}, "twice", False),
    pytest.param({}, "once", True, marks=pytest.mark.e2e),
    ({"mode": "approximate", "recall": 0.7}, "twice", True),
    ({"mode": "approximate", "recall": 0.7}, "once", False),
    ({"max_queries": 50}, "twice", True),
])  # fmt: skip
def test_wide_rows_in_small_pieces_and_blocks(search, mutual, stored, tmp_path):
    """The scatter, and what it makes of vectors, are those of the differences to what was found."""
    X, y = labelled(200, 60, 3, seed=10)
    found = find(
        X, y, edges=even_edges(200, 90), scratch=ZarrScratch(str(tmp_path)) if stored else None, **search, mutual=mutual
    )
    layout = found.layout
    assert np.diff(layout.starts).max() == 8 and np.diff(layout.segments).max() == 1
    assert np.bincount(layout.cell).max() > 1, "cells are in pieces"
    queries, neighbours, distances = found.arrays()
    neighbours = neighbours[:, 0]
    expected, least = naive.nearest_opposite(X, y, queries=queries)
    if found.search.mode == "exact":
        np.testing.assert_array_equal(neighbours, expected[:, 0])
    else:
        assert found.recall is not None and (distances >= least).all()
    weights = np.ones(len(queries))
    if mutual == "once":
        weights[neighbours[neighbours] == np.arange(len(X))] = 0.5
    rows = X[queries] - X[neighbours]
    scatter = sum(w * np.outer(row, row) for w, row in zip(weights, rows, strict=True))
    sums = pair_scatter(found, precision="double")
    assert sums.weight == weights.sum() and sums.counts.sum() == len(queries)
    close(sums.scatter, scatter, len(queries), EPS)
    vectors = np.random.default_rng(11).standard_normal((60, 5))
    atol = (len(queries) + 60) * EPS * np.trace(scatter) * np.linalg.norm(vectors, axis=0).max()
    np.testing.assert_allclose(apply_pairs(found, vectors), scatter @ vectors, rtol=0, atol=atol)
    first, _ = sum_pairs(found, precision="double", vectors=vectors)
    np.testing.assert_array_equal(first.scatter, apply_pairs(found, vectors))


@pytest.mark.usefixtures("few_bytes")
def test_tasks_in_great_number_send_no_more_rows_to_the_sample(limits):
    limits.sampled_pair_bytes, limits.fewest_sampled_pairs = 20 * 60 * 8, 5
    X, y = labelled(400, 60, 3, seed=10)
    found = find(X, y)
    assert len(found.tables.spans) > 40
    assert len(pair_scatter(found, precision="double").sample) == 20


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_what_pictures_are_drawn_from(pairing, limits):
    """All distances in a histogram, and differences of pairs spread evenly over all of them."""
    X, y = labelled(300, 6, 4, seed=1)
    found = pair_scatter(find(X, y, pairing=pairing), precision="double")
    _, distances = naive.nearest_opposite(X, y, pairing)
    distances = distances[np.isfinite(distances)]
    assert found.counts.sum() == len(distances) and found.edges[0] == 0
    np.testing.assert_array_equal(found.counts, np.histogram(distances, found.edges)[0])
    assert found.edges[-1] == distances.max()
    differences = np.asarray(naive.mpca2_rows(X, y, pairing))
    np.testing.assert_array_equal(in_order(found.sample), in_order(differences))  # few rows: all of them
    limits.sampled_pairs = 90
    some = pair_scatter(find(X, y, pairing=pairing), precision="double").sample
    assert 90 <= len(some) < len(differences)
    known = {row.tobytes() for row in differences}
    assert all(row.tobytes() in known for row in some)


def in_order(rows):
    return rows[np.lexsort(rows.T)]


# ------------------------------------------------------------------------------------------------- the estimator


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("mutual", ["twice", "once"])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("shape", [(90, 6), (14, 40)])
def test_components_are_those_of_the_difference_rows(shape, pairing, mutual, standardize):
    """Tall and wide, as they are and standardised."""
    X, y = labelled(*shape, 3, seed=2)
    X = X * np.linspace(1, 5, shape[1])
    reducer = MarginPCA(2, "m-pca2", pairing=pairing, mutual=mutual, standardize=standardize, precision="double")
    reducer.fit(X, y)
    scaled = X / X.std(axis=0) if standardize else X
    assert_components(reducer, naive.mpca2_rows(scaled, y, pairing, mutual), EPS)
    assert reducer.certificate_["proved_exact"] == 1
    assert reducer.certificate_["sampling_error"] == {"eigenvalues": [0.0, 0.0], "angle": 0.0}
    expected = (X - X.mean(axis=0)) / X.std(axis=0) if standardize else X
    np.testing.assert_allclose(reducer.transform(X), expected @ reducer.components_.T, atol=1e-10 * np.abs(X).max())


@pytest.mark.parametrize("form", ["float32", "bool", "dask", "store"])
def test_rows_of_other_kinds(form, tmp_path):
    X, y = labelled(120, 6, 3, seed=3)
    options = {"scratch": str(tmp_path)} if form == "store" else {}
    reducer = MarginPCA(2, "m-pca2", precision="double", **options)
    rows = {"float32": X.astype(np.float32), "bool": X > 3, "dask": da.from_array(X, (50, 4))}.get(form, X)
    reducer.fit(rows, y)
    plain = X if form in ("dask", "store") else np.asarray(rows).astype(float)
    assert_components(reducer, naive.mpca2_rows(plain, y), EPS)
    assert not list(tmp_path.iterdir())


def test_searching_for_some_rows_takes_the_differences_of_those():
    X, y = labelled(300, 5, 3, seed=4)
    reducer = MarginPCA(2, "m-pca2", max_queries=100, precision="double").fit(X, y)
    rows = nearest.draw_rows(300, 100)
    neighbours, _ = naive.nearest_opposite(X, y, queries=rows)
    assert_components(reducer, X[rows] - X[neighbours[:, 0]], EPS)
    errors = reducer.certificate_["sampling_error"]
    assert reducer.certificate_["queries"] == 100 and min(errors["eigenvalues"]) > 0 and errors["angle"] > 0


def test_an_approximate_fit_is_near_the_exact_one(limits):
    limits.calibration_queries = 300
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((1500, 10)) / np.arange(1, 11), rng.integers(0, 3, 1500)
    X[:, 0] += 3 * y  # a leading direction that stands out
    exact = MarginPCA(1, "m-pca2").fit(X, y)
    rough = MarginPCA(1, "m-pca2", search="approximate", recall=0.9).fit(X, y)
    assert rough.certificate_["mode"] == "approximate" and rough.certificate_["recall"]["low"] >= 0.9
    np.testing.assert_allclose(rough.eigenvalues_, exact.eigenvalues_, rtol=0.2)
    assert rough.total_ >= exact.total_ * (1 - 1e-5), "no row is nearer than the nearest"
    assert largest_angle(rough.components_, exact.components_.T) < 0.2


def test_rows_that_come_later_are_refused_with_the_reason():
    X, y = labelled(40, 4, 2, seed=6)
    for reducer in (MarginPCA(2, "m-pca2"), MarginPCA(2, "m-pca2").fit(X, y)):
        assert not hasattr(reducer, "partial_fit")
        with pytest.raises(AttributeError, match=r"no partial_fit: rows that come may be nearer .* fitted at once"):
            reducer.partial_fit(X, y)
    with pytest.raises(AttributeError, match="rows that come may be nearer"):
        _ = MarginPCA(2, "m-pca2").fit(X, y).moments_
    assert hasattr(clone(reducer).set_params(variant="m-pca0"), "partial_fit")


def test_class_moments_do_not_suffice():
    X, y = labelled(40, 4, 2, seed=6)
    moments = MarginPCA(2).fit(X, y).moments_
    with pytest.raises(InputError, match="m-pca2 needs the nearest rows of other classes: class moments do not"):
        MarginPCA.from_moments(moments, "m-pca2", 2)


def test_equal_rows_of_two_classes_have_no_difference_to_look_at():
    X = np.repeat(np.random.default_rng(7).standard_normal((10, 3)), 2, axis=0)
    with pytest.raises(InputError, match="finds no component in 20 rows of 3 features: its limit is the rank"):
        MarginPCA(1, "m-pca2").fit(X, np.arange(20) % 2)


# ------------------------------------------------------------------------------------------------- standard errors


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_standard_errors_are_those_of_drawing_again_and_again(pairing):
    """Against 600 subsets of the exact differences: standard deviations of eigenvalues, angle of the first axis.

    600 draws know a standard deviation to 3% (one standard error); the eight fits know theirs to some 5%, for fourth
    moments of 250 rows are behind each.
    """
    rng = np.random.default_rng(8)
    n, m, K = 1000, 250, 2
    y = rng.permutation(np.arange(n) % 6)
    X = rng.standard_normal((n, 5)) * [4, 2, 1, 0.5, 0.25]
    X += 3 * (rng.standard_normal((6, 5)) * [4, 2, 1, 0.5, 0.25])[y]
    neighbours, _ = naive.nearest_opposite(X, y, pairing)
    whole = subset_scatter(X, neighbours, np.arange(n))
    values, vectors = naive.eigenpairs(whole)
    eigenvalues, angles = [], []
    for _ in range(600):
        found, turned = naive.eigenpairs(subset_scatter(X, neighbours, rng.choice(n, m, replace=False)))
        eigenvalues.append(found[:K])
        angles.append(largest_angle(turned[:, :1].T, vectors[:, :1]))
    expected = np.std(eigenvalues, axis=0)
    reported = []
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(n)  # so that other rows are drawn
        for k in (K, 1):
            reducer = MarginPCA(k, "m-pca2", pairing=pairing, max_queries=m, precision="double").fit(X[order], y[order])
            reported.append(reducer.certificate_["sampling_error"])
    errors = np.mean([report["eigenvalues"] for report in reported[::2]], axis=0)
    np.testing.assert_allclose(errors, expected, rtol=0.15)
    angle = np.degrees(np.sqrt(np.mean(np.square(angles))))
    np.testing.assert_allclose(np.mean([report["angle"] for report in reported[1::2]]), angle, rtol=0.2)
    assert values[0] > 1.5 * values[1], "without a gap the first order says nothing"


def subset_scatter(X, neighbours, rows):
    differences = np.concatenate([(X[rows] - X[found])[found >= 0] for found in neighbours[rows].T])
    return differences.T @ differences / len(differences)


# ------------------------------------------------------------------------------------------------- runs


def test_chunks_of_the_rows_do_not_change_the_pairs():
    X, y = labelled(200, 7, 3, seed=9)
    expected = naive.mean_outer_product(naive.mpca2_rows(X, y))
    for size in (200, 33, 1):
        found = pair_scatter(find(X, y, edges=even_edges(200, size)), precision="double")
        close(found.mean_outer_product(), expected, 200, EPS)
