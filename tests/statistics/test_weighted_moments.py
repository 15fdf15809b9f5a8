"""Moments of weighted rows are those of repeated rows; moments are mapped, reweighted, selected and merged exactly."""

import functools

import numpy as np
import pytest
from naive import exact_class_moments

from mmpca_dist import class_moments
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.moments import join_moments
from mmpca_dist.statistics.scatters import pooled_weights
from mmpca_dist.tables.batch import Batch

UNIT = {"single": 4e-7, "double": 4e-15}
"""Errors of sums of products, as a share of the largest: several roundings."""


def rows(n=900, d=5, n_classes=3, mean=0.0, dtype="float64", seed=1):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    return (rng.standard_normal((n, d)) * np.arange(1, d + 1) + y[:, None] + mean).astype(dtype), y


def add(X, y, w, precision, chunk=100, span=300, pooled=None):
    """Return the moments of weighted rows from chunks of spans, merged."""
    parts = []
    for start in range(0, len(X), span):
        adder = ChunkAdder(int(y.max()) + 1, X.shape[1], X.dtype, precision, pooled)
        for first in range(start, min(start + span, len(X)), chunk):
            some = slice(first, min(first + chunk, start + span))
            adder.add(Batch.of_arrays(X[some], weight=w[some]), y[some])
        parts.append(adder.moments())
    return functools.reduce(join_moments, parts)


def assert_close(found, counts, means, scatters, precision, mean=0.0):
    unit = UNIT[precision]
    np.testing.assert_allclose(found.counts, counts, rtol=1e-12)
    unit += 100 * np.finfo(np.float64).eps * abs(mean)  # a mean is a double, and columns spread by 1 or more
    np.testing.assert_allclose(found.means, means, rtol=0, atol=10 * unit * np.abs(means - mean).max())
    for scatter, expected in zip(found.scatters, scatters, strict=True):
        np.testing.assert_allclose(scatter, expected, rtol=0, atol=unit * np.abs(expected).max())


WEIGHTS = {
    "whole": lambda rng, n: rng.integers(1, 5, n).astype(float),
    "over sixteen decades": lambda rng, n: 10.0 ** rng.uniform(-8, 8, n),
    "huge": lambda rng, n: 1e36 * rng.integers(1, 4, n),
    "tiny": lambda rng, n: 1e-30 * rng.integers(1, 4, n),
    "one heavy row": lambda rng, n: np.where(np.arange(n) == n // 2, 1e8, 1e-8),
}


@pytest.mark.parametrize("kind", list(WEIGHTS))
@pytest.mark.parametrize("precision", ["single", "double"])
def test_weighted_moments_are_those_of_the_definition(precision, kind):
    for mean in (0.0, 3.0, 1e4):
        for is_pooled in (False, True):
            X, y = rows(mean=mean, dtype="float32" if precision == "single" else "float64")
            w = WEIGHTS[kind](np.random.default_rng(2), len(X))
            counts, means, scatters = exact_class_moments(X, y, range(3), w)
            pooled = pooled_weights(counts) if is_pooled else None
            found = add(X, y, w, precision, pooled=pooled)
            np.testing.assert_array_equal(found.sizes, np.bincount(y))
            expected = scatters if pooled is None else np.tensordot(pooled, scatters, axes=1)
            assert_close(found, counts, means, expected, precision, mean)


def test_whole_numbers_are_repeated_rows():
    X, y = rows(n=200)
    w = np.random.default_rng(3).integers(1, 5, len(X))
    found = add(X, y, w.astype(float), "double")
    again = class_moments(np.repeat(X, w, axis=0), np.repeat(y, w), precision="double")
    assert_close(found, again.counts, again.means, again.scatters, "double")
    np.testing.assert_array_equal(found.sizes, np.bincount(y))


@pytest.mark.parametrize("value", [1 / 3, 1e4 / 3])
def test_a_constant_column_has_no_scatter_whatever_its_weights(value):
    X, y = rows(n=200)
    X[:, 2] = value
    w = 10.0 ** np.random.default_rng(4).uniform(-6, 6, len(X))
    found = add(X, y, w, "single")
    assert not found.scatters[:, 2].any()
    np.testing.assert_array_equal(found.means[:, 2], value)


def test_a_power_of_four_scales():
    """No bit of a product changes."""
    X, y = rows()
    ones, fours = (add(X, y, np.full(len(X), w), "single") for w in (1.0, 4.0))
    assert_close(ones, *exact_class_moments(X, y, range(3)), "single")
    np.testing.assert_array_equal(ones.scatters * 4, fours.scatters)
    np.testing.assert_array_equal(ones.means, fours.means)


def test_mapped_rows():
    X, y = rows()
    rng = np.random.default_rng(5)
    A, b = rng.standard_normal((5, 3)), rng.standard_normal(3)
    found = class_moments(X, y, precision="double").mapped(A, b)
    assert_close(found, *exact_class_moments(X @ A + b, y, range(3)), "double", 1.0)


def test_reweighted_classes():
    X, y = rows()
    factors = np.asarray([2.0, 0.0, 0.5])
    moments = class_moments(X, y, precision="double")
    found = moments.reweighted(factors)
    kept = y != 1
    counts, means, scatters = exact_class_moments(X[kept], y[kept], range(3), factors[y[kept]])
    assert_close(found, counts, means, scatters, "double")
    np.testing.assert_array_equal(found.sizes, np.bincount(y) * (factors > 0))
    # Pooled moments of these weights are as good; what was pooled with a class cannot do without it.
    pooled = add(X, y, np.ones(len(X)), "double", pooled=np.asarray([factors]))
    assert_close(pooled.reweighted(factors), counts, means, scatters.sum(axis=0)[None], "double")
    with pytest.raises(InputError, match="pool the scatters"):
        moments.summed().reweighted(factors)


@pytest.mark.parametrize("is_pooled", [False, True])
def test_cells_selected_and_merged(is_pooled):
    """Cells of class and group answer for any of the groups without a look at the rows."""
    X, y = rows(mean=3.0)
    group = np.random.default_rng(6).integers(4, size=len(X))
    cells, classes = 3 * group + y, np.asarray([0, 1, 2])
    pooled = np.repeat(np.eye(4), 3, axis=1) if is_pooled else None
    w = np.random.default_rng(7).integers(1, 4, len(X)).astype(float)
    moments = add(X, cells, w, "double", pooled=pooled)
    for kept in ([0], [1, 3], [0, 1, 2, 3]):
        chosen = np.concatenate([3 * g + classes for g in kept])
        if is_pooled and len(kept) > 1:
            with pytest.raises(InputError, match="other weights"):
                moments.select(chosen).merged(np.tile(classes, len(kept)), classes)
            continue
        found = moments.select(chosen).merged(np.tile(classes, len(kept)), classes)
        among = np.isin(group, kept)
        counts, means, scatters = exact_class_moments(X[among], y[among], classes, w[among])
        assert_close(found, counts, means, scatters.sum(axis=0)[None] if is_pooled else scatters, "double", 3.0)
        np.testing.assert_array_equal(found.sizes, np.bincount(y[among]))
    merged = moments.summed().merged(np.tile(classes, 4), classes)
    counts, means, scatters = exact_class_moments(X, y, classes, w)
    assert_close(merged, counts, means, scatters.sum(axis=0)[None], "double", 3.0)
    if is_pooled:
        with pytest.raises(InputError, match="none can be taken alone"):
            moments.summed().select(classes)
