"""Blocks of rows are widened as they are added to class moments: these are those of rows that were widened before."""

import numpy as np
import pytest
import scipy.sparse
from naive import exact_class_moments

from mmpca_dist.errors import InputError
from mmpca_dist.statistics import moments as class_moments_module
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.from_rows import moments_of
from mmpca_dist.statistics.moments import ClassMoments, add_outer_products, join_moments
from mmpca_dist.statistics.widened_rows import widened
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.covariates import given_covariates
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted, with_covariates

UNIT = {"single": 1e-6, "double": 2e-14}
"""Errors of sums of products, as a share of the roots of those on the diagonal: several roundings."""


def rows(n, d, mean, dtype, seed=1):
    """Return rows with gaps in every second column, in one of them in nearly all rows, labels and covariates."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    y[:3] = [0, 1, 2]
    X = (rng.standard_normal((n, d)) * np.arange(1, d + 1) + y[:, None] + mean).astype(dtype)
    if X.dtype.kind == "f":
        X[:, ::2][rng.random((n, len(range(0, d, 2)))) < 0.2] = np.nan
        X[rng.random(n) < 0.97, 2] = np.nan
    return X, y, rng.standard_normal((n, 2))


def before(X, Z, widening):
    """Return rows that are widened one by one."""
    whole = []
    for row, covariates in zip(X.astype(float), Z, strict=True):
        gaps = [float(np.isnan(row[j])) for j in widening.gaps]
        values = row.copy()
        for j, fill in zip(widening.gaps, widening.fills, strict=True):
            values[j] = fill if np.isnan(row[j]) else row[j]
        whole.append([*values, *gaps, *covariates])
    return np.asarray(whole)


def assert_close(found, expected, weights, precision, mean):
    counts, means, scatters = expected
    scatters = scatters if weights is None else np.einsum("kc,cij->kij", weights, scatters)
    unit = UNIT[precision] + 100 * np.finfo(float).eps * abs(mean)
    np.testing.assert_allclose(found.counts, counts, rtol=1e-12)
    np.testing.assert_allclose(found.means, means, rtol=unit, atol=30 * unit)
    sizes = np.sqrt(np.einsum("kii->ki", scatters))
    assert (np.abs(found.scatters - scatters) <= unit * sizes[:, :, None] * sizes[:, None]).all()


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("with_weights", [False, True])
def test_blocks_are_widened_as_rows_are(with_weights, pooled, dtype, mean, precision):
    X, y, Z = rows(300, 5, mean, dtype)
    gaps = np.arange(0, 5, 2) if X.dtype.kind == "f" else np.zeros(0, np.intp)
    fills = np.asarray([np.nanmean(X[:, j]) for j in gaps]).astype("f4").astype(float)
    widening = Widening(5, gaps, fills, ("a", "b"))
    w = np.random.default_rng(2).uniform(0.1, 3, 300) if with_weights else None
    weights = np.asarray([[1.0, 1.0, 1.0], [1.0, 3.0, 0.5]]) if pooled else None
    parts = []
    for start in (0, 120):
        adder = ChunkAdder(3, widening.width, X.dtype, precision, weights, widening)
        for first in range(start, [120, 300][start > 0], 90):
            some = slice(first, min(first + 90, [120, 300][start > 0]))
            adder.add(Batch.of_arrays(X[some], weight=None if w is None else w[some], covariates=Z[some]), y[some])
        parts.append(adder.moments())
    expected = exact_class_moments(before(X, Z, widening), y, np.arange(3), np.ones(300) if w is None else w)
    assert_close(join_moments(*parts), expected, weights, precision, mean)


@pytest.mark.parametrize("form", ["dense", "sparse", "weighted"])
def test_moments_of_data_sets(form):
    X, y, Z = rows(600, 5, 0.0, "f4")
    w = np.random.default_rng(2).integers(1, 4, 600).astype(float) if form == "weighted" else np.ones(600)
    given = scipy.sparse.csr_array(np.nan_to_num(X)) if form == "sparse" else X
    dataset = rows_in_memory(given, y, "X")
    counted = weighted(dataset, w) if form == "weighted" else dataset
    gaps = () if form == "sparse" else (np.isnan(X).sum(axis=0), np.nanmean(X, axis=0))
    dataset = widened(with_covariates(counted, given_covariates(Z, 600)), *gaps)
    assert dataset.unwidened is not dataset
    u = before(np.nan_to_num(X) if form == "sparse" else X, dataset.read_rows(0, 600)[:, -2:], dataset.widening)
    np.testing.assert_array_equal(dataset.read_rows(0, 600), u)
    for precision in ("single", "double"):
        expected = exact_class_moments(u, y, np.arange(3), w)
        assert_close(moments_of(dataset, precision=precision), expected, None, "double", 0.0)  # covariates imply it


def test_values_that_are_not_finite_are_named_where_they_are():
    X, y, Z = rows(60, 5, 0.0, "f4")
    for value, column in ((np.nan, 1), (np.inf, 2)):
        bad = X.copy()
        bad[40, column] = value
        dataset = with_covariates(rows_in_memory(bad, y, "X"), given_covariates(Z, 60))
        dataset = widened(dataset, np.asarray([9, 0, 9, 0, 9]), np.zeros(5))
        with pytest.raises(InputError, match=f"{value} in row 40, column {column}"):
            moments_of(dataset, precision="single")


def test_scatters_of_many_columns_have_the_bits_of_few(monkeypatch):
    rng = np.random.default_rng(0)
    parts = []
    for seed in range(2):
        part = ClassMoments.empty(np.arange(4), 300, None)
        part.counts[:], part.sizes[:] = rng.integers(1, 9, (2, 4))
        part.means[:] = rng.standard_normal((4, 300))
        for row in rng.standard_normal((5, 300)):
            add_outer_products(part, np.arange(seed, 4), np.tile(row, (4 - seed, 1)), np.dtype("f8"), sign=-1.0)
        parts.append(part)
    found = join_moments(*parts)
    monkeypatch.setattr(class_moments_module, "LARGE", 10**6)
    np.testing.assert_array_equal(join_moments(*parts).scatters, found.scatters)
