"""Class moments are those of the definition, whatever the type, the chunks, the precision and the scale."""

import functools

import numpy as np
import pytest
from helpers.samples import even_edges, product_bound, take
from helpers.tables import labelled
from hypothesis import given
from hypothesis import strategies as st
from naive import exact_class_moments

from mmpca_dist import ClassMoments, class_moments
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.scatters import pooled_weights
from mmpca_dist.tables.batch import Batch

PRECISIONS = ("single", "double")
EPS32 = np.finfo(np.float32).eps


def assert_moments(found, X, y, precision, classes=None):
    """Counts exact, means within rounding of the spread and of themselves, scatters within ``product_bound``."""
    classes = np.unique(y) if classes is None else classes
    counts, means, scatters = exact_class_moments(X, y, classes)
    np.testing.assert_array_equal(found.classes, classes)
    np.testing.assert_array_equal(found.counts, counts)
    unit = np.finfo(np.float32 if precision == "single" else np.float64).eps
    for c in range(len(classes)):
        bound = product_bound(scatters[c], len(X), precision, means[c])
        assert (np.abs(found.scatters[c] - scatters[c]) <= bound).all()
        spread = np.sqrt(np.diagonal(scatters[c]))  # sum |x - m| <= sqrt(n) spread
        allowed = 2 * unit * np.sqrt(len(X)) * spread + 4 * np.finfo(np.float64).eps * np.abs(means[c])
        assert (np.abs(found.means[c] - means[c]) <= allowed).all()


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dtype", [*INTEGERS, "bool", "float16", "float32", "float64", ">f4", "<f8", ">i2"])
def test_every_type_of_rows(dtype, precision):
    rng = np.random.default_rng(1)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        X = rng.random((90, 4)) < 0.3
    elif kind.kind in "iu":
        low, high = max(np.iinfo(kind).min, -(10**6)), min(np.iinfo(kind).max, 10**6)
        X = rng.integers(low, high, size=(90, 4), endpoint=True).astype(kind)
        X[0], X[1] = low, high  # the ends of the type, where a subtraction in the type itself would wrap round
    else:
        X = (rng.standard_normal((90, 4)) * 3 + 1).astype(kind)
    y = rng.integers(3, size=90)
    found, _ = take(X, y, edges=even_edges(90, 37), precision=precision)
    assert_moments(found, X, y, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("n", "d", "size"), [
    (60, 3, 60),  # one chunk
    (60, 3, 1),  # a chunk a row
    (61, 3, 7),  # a short last chunk
    (6, 9, 2),  # fewer rows than columns
    (300, 2, 100),
])  # fmt: skip
def test_every_chunking(n, d, size, precision):
    X, y = labelled(n, d, 3, seed=2)
    found, _ = take(X, y, edges=even_edges(n, size), precision=precision)
    assert_moments(found, X, y, precision)


def test_blocks_of_the_product_are_joined():
    """A class larger than a block (2,048 rows), and a chunk of several classes that shares blocks."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((5000, 3)) + 2, (rng.random(5000) < 0.1).astype(int)
    for weights in (None, pooled_weights(np.bincount(y))):
        found, _ = take(X, y, edges=[0, 4900, 5000], weights=weights)
        for w in ([1.0, 1.0], np.bincount(y)):
            expected = sum(w[c] * len(X[y == c]) * np.cov(X[y == c].T, bias=True) for c in (0, 1))
            bound = product_bound(expected, 5000, "double")
            assert (np.abs(found.scatter(w) - expected) <= bound).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_class_with_one_row_and_a_class_absent_from_chunks(precision):
    X, _ = labelled(50, 3, 2, seed=4)
    y = np.zeros(50, int)
    y[49], y[10:14] = 2, 1
    found, _ = take(X, y, edges=even_edges(50, 10), precision=precision)
    assert_moments(found, X, y, precision)
    np.testing.assert_array_equal(found.scatters[2], 0)


def test_a_class_without_rows_is_empty_and_harmless():
    X, y = labelled(40, 3, 2, seed=5)
    found, _ = take(X, y, classes=np.arange(4), edges=even_edges(40, 9))
    assert_moments(found, X, y, "double", classes=np.arange(4))
    assert found.n_rows == 40


@given(
    rows=st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50), st.integers(0, 2)), min_size=3, max_size=24),
    cuts=st.tuples(st.integers(0, 24), st.integers(0, 24)),
    exponent=st.sampled_from([-20, 0, 20]),
)
def test_merging_is_exact_and_associative(rows, cuts, exponent):
    """Any split into three parts, empty ones too, merged from the left or the right, gives the moments of all."""
    table = np.asarray(rows, dtype=float)
    X, y = table[:, :2] * 2.0**exponent, table[:, 2].astype(int)
    a, b = sorted(min(cut, len(X)) for cut in cuts)
    parts = [
        class_moments(X[s], y[s], precision="double", classes=[0, 1, 2])
        if len(X[s])
        else ClassMoments.empty(np.arange(3), 2)
        for s in (slice(0, a), slice(a, b), slice(b, None))
    ]
    left = parts[0].merge(parts[1]).merge(parts[2])
    right = parts[0].merge(parts[1].merge(parts[2]))
    _, _, scatters = exact_class_moments(X, y, [0, 1, 2])
    for merged in (left, right):
        np.testing.assert_array_equal(merged.counts, np.bincount(y, minlength=3))
        # The merged parts lie up to a range of 100 units apart, whatever the scatter within a part.
        slack = 100 * np.finfo(float).eps * len(X) * (100 * 2.0**exponent) ** 2
        np.testing.assert_allclose(merged.scatters, scatters, rtol=0, atol=slack)


def test_merging_leaves_its_operands_alone():
    X, y = labelled(30, 2, 2, seed=6)
    one, two = class_moments(X[:15], y[:15], classes=[0, 1]), class_moments(X[15:], y[15:], classes=[0, 1])
    assert repr(one) == f"<ClassMoments: 15 rows, {X.shape[1]} features, 2 classes>"
    before = one.scatters.copy(), one.means.copy(), one.counts.copy()
    one.merge(two)
    for kept, now in zip(before, (one.scatters, one.means, one.counts), strict=True):
        np.testing.assert_array_equal(kept, now)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("value", [0.1, 1e30, -7.0, 1e-30, 12345.678])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constant_columns_have_no_scatter_at_all(value, dtype, precision):
    """Not 1e-9, not 1e-17: zero, so that standardising and rank decisions see a constant column."""
    X, y = labelled(200, 3, 2, seed=7)
    X = X.astype(dtype)
    X[:, 1] = value
    found, _ = take(X, y, edges=even_edges(200, 23), precision=precision)
    np.testing.assert_array_equal(found.scatters[:, 1, :], 0)
    np.testing.assert_array_equal(found.scatters[:, :, 1], 0)
    np.testing.assert_array_equal(found.means[:, 1], X[0, 1])
    assert (found.scatters[:, 0, 0] > 0).all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_mean_of_ten_thousand_spreads_costs_no_digits(dtype, precision):
    X, y = labelled(120, 3, 2, seed=8, mean=0)
    X = (X / X.std(axis=0) + 1e4).astype(dtype)
    found, _ = take(X, y, edges=even_edges(120, 50), precision=precision)
    assert_moments(found, X, y, precision)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40, 1e-30, 1e30])
def test_single_precision_survives_tiny_and_huge_columns(factor, dtype):
    """Squares of 1e30 and 1e-30 are beyond single precision, their moments are not beyond double."""
    X, y = labelled(80, 3, 2, seed=9)
    X[:, :2] *= factor
    X = X.astype(dtype)
    found, _ = take(X, y, edges=even_edges(80, 33), precision="single")
    assert_moments(found, X, y, "single")


def test_pooled_scatters_determine_what_the_separate_ones_do():
    X, y = labelled(300, 4, 4, seed=10)
    counts = np.bincount(y)
    pooled, _ = take(X, y, edges=even_edges(300, 41), weights=pooled_weights(counts))
    separate, _ = take(X, y, edges=even_edges(300, 41))
    assert pooled.scatters.shape == (2, 4, 4)
    for weights in (np.ones(4), counts, 300.0 - counts):
        expected = np.tensordot(weights, separate.scatters, axes=1)
        allowed = 4 * product_bound(expected, 300, "double")
        assert (np.abs(pooled.scatter(weights) - expected) <= allowed).all()
    with pytest.raises(InputError, match="Take the moments of all rows at once"):
        pooled.scatter(np.arange(4) ** 2)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_value_that_is_not_finite_is_named_by_row_and_column(value, dtype, precision):
    X, y = labelled(90, 3, 2, seed=11)
    X = X.astype(dtype)
    X[57, 2] = value
    with pytest.raises(InputError, match=rf"Found {value} in row 57, column 2, .*[Ff]ill or drop"):
        take(X, y, edges=even_edges(90, 20), precision=precision)


def test_one_row_far_beyond_the_others_is_scaled_wherever_it_stands():
    """A power of two is found for the block in which it stands, not for a sample of the rows."""
    X, y = labelled(1000, 2, 2, seed=12)
    X[333] = [1e30, 1e-30]
    X[:, 1] *= 1e-25
    single, double = (take(X, y, precision=precision)[0] for precision in ("single", "double"))
    np.testing.assert_allclose(single.scatters, double.scatters, rtol=1e-5, atol=1e-5 * double.scatters[0, 1, 1])


def test_single_precision_overflow_says_what_to_do():
    """Where no power of two helps, as single precision cannot hold a value, the message names the way out."""
    X, y = labelled(1000, 2, 2, seed=12)
    X[333] = 1e60
    with pytest.raises(InputError, match="set precision: double"):
        take(X, y, precision="single")
    found, _ = take(X, y, precision="double")
    assert np.isfinite(found.scatters).all()
    assert found.scatters.max() > 1e119


def test_moments_merge_only_with_their_like():
    X, y = labelled(30, 2, 2, seed=13)
    with pytest.raises(InputError, match="Moments merge only where"):
        class_moments(X, y).merge(class_moments(X, y + 1))


def test_more_classes_may_be_announced_than_are_found():
    X, y = labelled(30, 2, 2, seed=14)
    names = np.asarray(["ham", "spam"])[y]
    found = class_moments(X, names, classes=["eggs", "ham", "spam"])
    assert found.classes.tolist() == ["eggs", "ham", "spam"]
    assert found.counts.tolist() == [0, *np.bincount(y)]
    with pytest.raises(InputError, match="none of the known classes"):
        class_moments(X, names, classes=["eggs", "ham"])


def test_rescaled_moments_are_those_of_rescaled_rows():
    X, y = labelled(60, 3, 2, seed=15)
    factors = np.asarray([0.5, 4.0, 2.0])  # powers of two: nothing is rounded
    scaled, direct = class_moments(X, y, precision="double").scaled(factors), take(X * factors, y)[0]
    np.testing.assert_array_equal(scaled.scatters, direct.scatters)
    np.testing.assert_array_equal(scaled.means, direct.means)


@functools.cache
def rows_of_which_the_first_are_unlike(n_unlike):
    """Return rows, labels, and their exact moments, which take seconds."""
    X = np.concatenate([np.zeros((n_unlike, 4)), np.random.default_rng(0).standard_normal((10_000, 4)) + 1e4])
    X, y = X.astype(np.float32), np.arange(len(X)) % 2
    X[y == 0, 0] = 7.0
    return X, y, exact_class_moments(X, y, np.unique(y))


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.e2e), 50, 2000])
@pytest.mark.parametrize("n_unlike", [pytest.param(10, marks=pytest.mark.e2e), 500])
def test_first_rows_unlike_all_others_cost_no_digits(n_unlike, size, pooled):
    X, y, (counts, means, scatters) = rows_of_which_the_first_are_unlike(n_unlike)
    weights = np.array([[1.0, 1.0], [1.0, 3.0]]) if pooled else None
    adder = ChunkAdder(2, 4, X.dtype, "single", weights)
    for start in range(0, len(X), size):
        adder.add(Batch.of_arrays(X[start : start + size]), y[start : start + size])
    found = adder.moments()
    expected = np.einsum("kc,cij->kij", weights, scatters) if pooled else scatters
    spreads = np.sqrt(np.einsum("kii->ki", expected))
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_allclose(found.means, means, rtol=1e-6)
    assert (np.abs(found.scatters - expected) <= 40 * EPS32 * spreads[:, :, None] * spreads[:, None]).all()
