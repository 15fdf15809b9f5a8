"""Class moments of CSR rows from products of their stored values alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.passes.rows import class_groups
from mmpca_dist.passes.units import read_batches
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.outer_products import class_blocks
from mmpca_dist.statistics.precision import DOUBLE, refuse_too_large
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

DENSITY = 0.05
"""Share of stored values up to which they are multiplied, and rows are not made dense. For units of 64 MiB with 2,000
and 10,000 columns products take a thirteenth of the time at 3%, an eleventh at 5%, a third at 8%, and up to 2.5 times
as long at 15%."""

LEFT = {"single": 2.0**-24, "double": 2.0**-10}
"""The least share of the sum of squares of a column that the mean may leave: rounding of that sum, in double
precision, is then still below that of products of centred rows, or a thousand times as large in double precision."""

EXACT = 2.0**32
"""With whole numbers of a smaller sum of squares, in up to 2^19 classes, rounding cannot hide a scatter: it is zero, or
a half or more."""


def multiplies_stored(dataset: Dataset) -> bool:
    """Tell whether the moments of a table come from its stored values alone."""
    return dataset.sparse and dataset.nnz <= DENSITY * dataset.n_rows * dataset.n_features


def sparse_moments(
    dataset: Dataset,
    span: Span,
    classes: NDArray,
    precision: str,
    weights: NDArray | None,
) -> ClassMoments | None:
    """Return the moments of a span of CSR rows; None where the means are too large for sums of raw products.

    Source: sum_i (x_i - m) (x_i - m)^T = sum_i x_i x_i^T - n m m^T.
    """
    from mmpca_dist.statistics.sparse_products import add_rows  # compiled: slow to import

    labels = dataset.batch(span.start, span.stop, X=False, roles=("label", "weight"))
    every, row_weights, n_classes = labels.codes(classes), labels.weight, len(classes)
    sums = ClassMoments.empty(np.arange(n_classes), dataset.n_features, weights)
    whole = np.ones(dataset.n_features, bool)
    sums.sizes[:] = np.bincount(every, minlength=n_classes)
    sums.counts[:] = sums.sizes if row_weights is None else np.bincount(every, row_weights, n_classes)
    if row_weights is not None and np.any(row_weights != np.rint(row_weights)):
        whole[:] = False
    for batch in read_batches(dataset, span, (), sparse=True):
        start, X = batch.start, batch.X
        whole[X.indices[X.data != np.rint(X.data)]] = False
        within = slice(start - span.start, start - span.start + X.shape[0])
        codes, weighted = every[within], X.data
        with np.errstate(over="ignore", invalid="ignore"):
            if row_weights is not None:
                weighted = X.data * np.repeat(row_weights[within], np.diff(X.indptr))
            add_rows(weighted, X.indices, X.indptr, codes, sums.means)
            _add_products(sums, X, weighted, codes)
    return _centred(sums, whole, LEFT[precision])


def _add_products(sums: ClassMoments, rows: csr_array, others: NDArray, codes: NDArray[np.intp]) -> None:
    """Add one triangle of the products of rows and of ``others``, which are stored in the same places.

    A class with one row is left out: its scatter is zero.
    """
    from mmpca_dist.statistics.sparse_products import add_products

    places = (others, rows.indices, rows.indptr)
    counting = sums.sizes[codes] > 1
    if sums.weights is None:
        for label, chosen in class_groups(codes):
            add_products(rows.data, *places, chosen[counting[chosen]], sums.scatters[label])
        return
    for scatter, weights in zip(sums.scatters, sums.weights[:, codes], strict=True):
        chosen = np.flatnonzero(counting & (weights != 0))  # of pooled parts, the rows of one
        is_plain = np.all(weights[chosen] == 1)
        weighted = rows.data if is_plain else rows.data * np.repeat(weights, np.diff(rows.indptr))
        add_products(weighted, *places, chosen, scatter)


def _centred(sums: ClassMoments, whole: NDArray[np.bool_], left: float) -> ClassMoments | None:
    """Subtract the products of the means in place; return None where too little is left of a column.

    Nothing is left of a column of ``whole`` numbers that is constant within classes.
    """
    from mmpca_dist.statistics.sparse_products import mirror

    refuse_too_large(sums.scatters, DOUBLE)
    raw, seen = np.einsum("kii->ki", sums.scatters).copy(), np.flatnonzero(sums.counts)
    for block in class_blocks(seen, sums):
        totals, counts = sums.means[block], sums.counts[block, None]
        sums.means[block] = means = totals / counts
        # Products of totals and means are exact for a column with one integer in each class, whose scatter is zero.
        if sums.weights is not None and np.count_nonzero(totals) > DENSITY * totals.size:
            totals[sums.sizes[block] == 1] = 0
            for scatter, weights in zip(sums.scatters, sums.weights[:, block], strict=True):
                counting = weights != 0
                scatter -= (totals[counting] * weights[counting, None]).T @ means[counting]
        else:
            _add_products(sums, csr_array(-totals), means[totals != 0], block)
    rest = np.einsum("kii->ki", sums.scatters)
    constant = (rest == 0) & whole & (raw < EXACT)
    if ((rest < left * raw) & ~constant).any():
        return None
    for scatter, columns in zip(sums.scatters, constant & (raw != 0), strict=True):
        scatter[:, columns] = 0
        scatter[columns] = 0
        mirror(scatter)
    return sums.of_seen(seen)
