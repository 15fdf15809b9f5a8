"""Moments of up to 20,000 classes are those of the definition, and take memory for the classes that rows have."""

import numpy as np
import pytest
from helpers.samples import assert_same_on_threads, even_edges, product_bound, take
from helpers.watching import allocated, watched
from naive import exact_class_moments

from mmpca_dist import PLS, FisherDiscriminant, MarginPCA, SupervisedPCA, class_moments
from mmpca_dist.errors import InputError
from mmpca_dist.statistics import from_rows
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.costs import join_spans, moments_spans
from mmpca_dist.statistics.scatters import pooled_weights
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.spans import Span


def many(n_classes, n_more, d=3, seed=0, text=False):
    """Rows in random order: one of every class, and ``n_more`` of any; far means, and a constant column."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.append(np.arange(n_classes), rng.integers(n_classes, size=n_more)))
    X = rng.standard_normal((len(y), d)) + 10 * rng.standard_normal((n_classes, d))[y]
    X[:, -1] = 0.1
    return X, np.char.add("class ", y.astype(str)) if text else y


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(
    ("n_classes", "n_more", "text"),
    [(1, 40, False), (2, 90, True), (3, 0, False), (70, 150, True), (3000, 2000, True), (20_000, 5000, False)],
)
def test_sums_of_class_scatters_are_those_of_the_definition(n_classes, n_more, precision, text):
    """Classes of one row, classes that only some spans have, and spans of several units, whose sums share centres."""
    X, y = many(n_classes, n_more, text=text)
    classes, counts = np.unique(y, return_counts=True)
    exact_counts, means, scatters = exact_class_moments(X, y, classes)
    size = -(-len(X) // 70)  # of 70 units, two make a span
    found, _ = take(
        X, y, edges=even_edges(len(X), size), precision=precision, weights=pooled_weights(counts), threads=2
    )
    np.testing.assert_array_equal(found.classes, classes)
    np.testing.assert_array_equal(found.counts, exact_counts)
    unit = np.finfo(np.float32 if precision == "single" else np.float64).eps
    np.testing.assert_allclose(found.means, means, rtol=0, atol=8 * unit * np.abs(X).max())
    for weights in (np.ones(n_classes), len(X) - counts):
        expected = np.tensordot(weights, scatters, axes=1)
        # Twice, as both ends of a difference are rounded, and rows relative to a centre that is off.
        allowed = 4 * product_bound(expected, len(X), precision)
        assert (np.abs(found.scatter(weights) - expected) <= allowed).all()
    np.testing.assert_array_equal(found.scatters[:, -1], 0)


def test_classes_of_one_row_each_have_no_scatter_at_all():
    X, y = many(500, 0)
    found, _ = take(X, y, edges=even_edges(500, 30), weights=np.ones((1, 500)), precision="single")
    np.testing.assert_array_equal(found.scatters, 0)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("weights", [None, np.ones((1, 900))])
def test_bits_do_not_depend_on_threads(precision, weights):
    X, y = many(900, 3000, d=5, seed=1)
    assert_same_on_threads(X, y, edges=even_edges(3900, 40), precision=precision, weights=weights)


def test_what_a_span_leaves_is_of_the_classes_that_it_has_seen():
    X, y = many(1000, 0)
    adder = ChunkAdder(1000, 3, X.dtype, "double", np.ones((1, 1000)))
    adder.add(Batch.of_arrays(X[:20]), y[:20])
    adder.add(Batch.of_arrays(X[20:30]), y[20:30])
    found = adder.moments()
    np.testing.assert_array_equal(found.classes, np.sort(y[:30]))
    assert found.means.shape == (30, 3)


@pytest.mark.parametrize("pooled_bytes", [0, 1 << 30])
@pytest.mark.e2e
def test_memory_grows_with_classes_not_with_their_square(pooled_bytes, limits):
    limits.pooled_bytes = pooled_bytes
    X, y = many(20_000, 10_000, d=8)
    with allocated() as memory:
        class_moments(X.astype(np.float32), y)
    assert memory.peak < 40 * 8 * 20_000 * 8 + (100 << 20)  # an identity of the classes takes 3 GiB


def test_scatters_that_do_not_fit_are_pooled(limits):
    X, y = many(40, 400, d=6, seed=2)
    separate = class_moments(X, y, precision="double")
    limits.pooled_bytes = 8 * 40 * 6 * 6 - 1
    pooled = class_moments(X, y, precision="double")
    assert pooled.scatters.shape == (2, 6, 6)
    for reducer in (MarginPCA, FisherDiscriminant):
        found, expected = (reducer.from_moments(moments, n_components=2) for moments in (pooled, separate))
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


def test_pooled_scatters_of_two_sets_of_rows_leave_their_sum(limits):
    limits.pooled_bytes = 0
    X, y = many(40, 400, d=6, seed=3)
    every, half = np.unique(y), slice(0, 200)
    parts = [class_moments(X[s], y[s], precision="double", classes=every) for s in (half, slice(200, None))]
    both, whole = parts[0].merge(parts[1]), class_moments(X, y, precision="double")
    np.testing.assert_allclose(both.means, whole.means, atol=1e-13)
    np.testing.assert_allclose(both.scatter(np.ones(40)), whole.scatter(np.ones(40)), atol=1e-9)
    with pytest.raises(InputError, match="m-pca0 needs moments of all rows from one pass"):
        MarginPCA.from_moments(both, "m-pca0", 2)


def test_more_rows_extend_a_fit_of_pooled_scatters(limits):
    limits.pooled_bytes = 0
    X, y = many(40, 400, d=6, seed=4)
    found = MarginPCA(2, "pca", precision="double").fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    expected = MarginPCA(2, "pca", precision="double").fit(X, y)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


def test_classes_that_come_in_turn_are_pooled_once_their_scatters_do_not_fit(limits):
    limits.pooled_bytes = 8 * 10 * 6 * 6
    X, y = many(40, 400, d=6, seed=6)
    reducer = MarginPCA(2, "pca", precision="double")
    for part in range(8):
        some = y // 5 == part
        reducer.partial_fit(X[some], y[some])
        assert len(reducer.moments_.scatters) == (5, 10)[part] if part < 2 else reducer.moments_.pooled
    expected = MarginPCA(2, "pca", precision="double").fit(X, y)
    np.testing.assert_allclose(reducer.components_, expected.components_, atol=1e-9)


@pytest.mark.parametrize("variant", ["one-vs-one", "hsic", "pls"])
def test_methods_hold_nothing_for_each_pair_of_classes(variant):
    X, y = many(3000, 3000, d=4, seed=7)
    moments = class_moments(X, y)
    reducers = {
        "one-vs-one": lambda: MarginPCA.from_moments(moments, "m-pca1a", 2, pairing="one-vs-one"),
        "hsic": lambda: SupervisedPCA.from_moments(moments, n_components=2),
        "pls": lambda: PLS.from_moments(moments, n_components=2),
    }
    with allocated() as memory:
        reducers[variant]()
    assert memory.peak < 3000 * 3000  # bytes: one for each pair


def test_a_second_scatter_is_formed_for_m_pca0_alone(limits, monkeypatch):
    limits.pooled_bytes = 0
    X, y = many(40, 400, d=6, seed=5)
    shapes = watched(monkeypatch, from_rows, "take_moments", lambda *_, weights, **__: weights.shape)
    for reducer in (MarginPCA(2, "pca"), FisherDiscriminant(2), MarginPCA(2, "m-pca0")):
        reducer.fit(X, y)
    assert shapes == [(1, 40), (1, 40), (2, 40)]


@pytest.mark.parametrize(("n_units", "n_rows", "sizes"), [
    (40, 45, [4] * 10),
    (40, 1000, [10] * 4),
    (40, 19, [1] * 40),
    (18, 30, [3] * 6),
    (9, 99, [2] * 4 + [1]),
    (1, 9, [1]),
])  # fmt: skip
def test_spans_are_joined_until_four_are_left(n_units, n_rows, sizes):
    """Spans of ten rows; every unit of theirs is kept."""
    spans = [Span(i, (10 * i, 10 * i + 4, 10 * i + 10)) for i in range(n_units)]
    joined = join_spans(spans, n_rows)
    assert [len(span.units) // 2 for span in joined] == sizes
    assert [span.index for span in joined] == list(range(len(sizes)))
    assert [unit for span in joined for unit in span.units] == [unit for span in spans for unit in span.units]


@pytest.mark.parametrize(
    ("n_classes", "n_features", "scatters", "left"),
    [(2, 1000, 2, 16), (10, 1000, 10, 4), (10, 20, 10, 16), (500, 20, 500, 4), (100, 1000, 2, 8), (50, 10, 1, 16)],
)
def test_spans_of_moments_have_rows_enough_for_their_scatters(n_classes, n_features, scatters, left):
    spans = [Span(i, (1250 * i, 1250 * (i + 1))) for i in range(16)]  # 20,000 rows
    joined = moments_spans(spans, n_classes, n_features, scatters)
    assert len(joined) == left and (joined[0].start, joined[-1].stop) == (0, 20_000)
