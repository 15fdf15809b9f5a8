"""``ChunkAdder``: adds chunks of rows to the moments of their classes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError
from mmpca_dist.passes.rows import rows_by_class
from mmpca_dist.passes.units import BLOCK_ROWS, rows_of_classes
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.outer_products import add_outer_products, class_blocks
from mmpca_dist.statistics.precision import (
    CENTRE_ROWS,
    DOUBLE,
    SAFE_EXPONENT,
    SMALLEST_SQUARE,
    explain_not_finite,
    refuse_too_large,
    scale_of_squares,
    single_of_half,
    work_type,
)
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.tables.batch import Batch

PANEL = 3 * BLOCK_ROWS // 2
"""Rows of a panel, which is multiplied with itself: at most, as runs of rows are cut into about even panels."""

GROWTH = 8
"""The scatter about a centre is then at most eight times that about the mean."""


class ChunkAdder:
    """Adds chunks of rows to the moments of their classes, with buffers of its own.

    All rows of a class are taken relative to one provisional centre, so that chunks add up: the scatter about the mean
    m of n rows is that about the centre a, less n (m - a) (m - a)^T, which is subtracted once, at the end. Where a is
    the mean of s of the rows, that is at most n/s times the scatter about m; so whenever the rows of a class have
    become ``GROWTH`` times as many, its centre moves to about their mean.

    Parameters
    ----------
    n_classes, n_features : int
    dtype : dtype
        Type of the rows.
    precision : {"single", "double"}
        Precision of the products; sums of products are double.
    weights : array of shape (k, C), optional
        Keep k weighted sums of the class scatters in place of every one.
    widening : Widening, optional
        What rows of fewer columns are widened by, block by block.
    """

    def __init__(
        self, n_classes: int, n_features: int, dtype: np.dtype, precision: str, weights: NDArray | None = None,
        widening: Widening | None = None,
    ) -> None:  # fmt: skip
        d, work = n_features, work_type(precision)
        # Pages of zeros that no row of a class touches take no memory. Means are sums until the end.
        self._sums = ClassMoments.empty(np.arange(n_classes), d, weights)
        native = np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")
        self._centres = np.zeros((n_classes, d), np.result_type(native, work))
        self._centred = np.zeros(n_classes)  # weights of the rows of which the centres are about the means
        self._widening = widening
        pooled = [] if weights is None else [np.flatnonzero(own) for own in weights if set(own[own > 0]) == {1}]
        # Classes of parts follow each other; those of a level of a group may be anywhere, and take larger blocks.
        self._scattered = any(len(own) and own[-1] - own[0] >= len(own) for own in pooled)
        self.block_rows = rows_of_classes(len(pooled) if self._scattered else n_classes, d)
        if weights is not None and not self._scattered:
            self.block_rows = BLOCK_ROWS
        n_panel = max(PANEL, 0 if weights is None else self.block_rows)
        self._panel = np.empty((n_panel, d), work)
        self._product = np.empty((d, d), work)
        self._near = np.empty((0 if weights is None else self.block_rows, d), self._centres.dtype)  # centres of rows
        self._ones = np.ones(n_panel, work)
        # Rows of the type of the panel are taken into it, and centred there.
        self._raw = self._panel
        if widening is not None or native != work:
            self._raw = np.empty((n_panel, d if widening is None else widening.n_columns), native)
        self._wide = np.empty((0 if widening is None else n_panel, d), self._centres.dtype)
        # Sums over all classes take rows as they come; those of each class, or of some classes, take these one by one.
        self._by_class = weights is None or not np.all(weights)

    def add(self, batch: Batch, codes: NDArray) -> None:
        """Add a batch of up to ``block_rows`` dense rows, with the position of each one's class, shape (n,).

        Raises InputError for rows that are not finite.
        """
        X = batch.X.view(np.uint8) if batch.X.dtype == bool else batch.X
        rows = X, None if self._widening is None else batch.beside()
        if not self._add_rows(rows, _Runs.of(codes, batch.weight, self._by_class)):
            raise InputError(explain_not_finite(self._widened(rows, slice(None)), self._panel.dtype, batch))

    def _add_rows(self, rows: _Rows, runs: _Runs) -> bool:
        """Add a block of rows; tell whether their squares are finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            self._set_centres(rows, runs)
            finite = self._add_together(rows, runs) if self._sums.pooled else self._add_apart(rows, runs)
        self._sums.counts[runs.labels] += runs.counts
        self._sums.sizes[runs.labels] += np.diff(runs.edges)
        return finite

    def _add_apart(self, rows: _Rows, runs: _Runs) -> bool:
        """Add the rows of each class to its own scatter."""
        finite, edges = True, runs.edges.tolist()
        for label, first, last in zip(runs.labels.tolist(), edges, edges[1:], strict=False):
            for some in even_blocks(first, last):
                which = some if runs.as_they_come else runs.order[some]
                weights = None if runs.row_weights is None else runs.row_weights[some]
                panel, roots, power = self._centre(rows, which, self._centres[label], weights)
                factors = self._ones[: len(panel)] if roots is None else roots
                self._sums.means[label] += power * (factors @ panel).astype(np.float64)  # which holds weights of 1e-300
                finite = self._add_products(self._sums.scatters[label], panel, power) and finite
        return finite

    def _add_together(self, rows: _Rows, runs: _Runs) -> bool:
        """Add a block of rows to sums of scatters."""
        labels, which = runs.labels, slice(None) if runs.as_they_come else runs.order
        centres = np.take(self._centres, runs.codes, axis=0, out=self._near[: len(runs.codes)], mode="clip")
        panel, roots, power = self._centre(rows, which, centres, runs.row_weights)
        sums = sums_of_runs(panel, runs.edges, roots, None if self._by_class else runs.order)
        self._sums.means[runs.classes] += power * sums.astype(np.float64)
        finite = True
        assert self._sums.weights is not None  # noqa: S101  (they are pooled)
        for scatter, weights in zip(self._sums.scatters, self._sums.weights, strict=True):
            counting = np.flatnonzero(weights[labels])
            if not len(counting):
                continue
            some: slice | NDArray[np.intp] = slice(None)
            if self._by_class:  # of pooled parts, the rows of one
                some = slice(runs.edges[counting[0]], runs.edges[counting[-1] + 1])
            if self._scattered:
                some = np.flatnonzero(weights[runs.codes])
            weighted, more = panel[some], 1.0
            if not np.all(weights[runs.codes[some]] == 1):
                roots, more = _roots(weights[runs.codes[some]], panel.dtype)
                weighted = weighted * roots[:, None]
            finite = self._add_products(scatter, weighted, power * more) and finite
        return finite

    def _centre(
        self, rows: _Rows, which: NDArray[np.intp] | slice, centres: NDArray, weights: NDArray[np.float64] | None
    ) -> tuple[NDArray, NDArray | None, float]:
        """Return rows less their centres in the panel, times the roots of their weights, and these as `_roots` does."""
        X = self._widened(rows, which, self._raw, self._wide)
        panel = self._panel[: len(X)]
        if X.dtype == np.float16 and panel.dtype == np.float32:
            X = np.take(single_of_half(), X.view(np.uint16), out=panel, mode="clip")
        np.subtract(X, centres, out=panel, casting="same_kind")
        if weights is None:
            return panel, None, 1.0
        roots, power = _roots(weights, panel.dtype)
        panel *= roots[:, None]
        return panel, roots, power

    def _widened(
        self, rows: _Rows, some: NDArray[np.intp] | slice, raw: NDArray | None = None, wide: NDArray | None = None
    ) -> NDArray:
        """Return some rows of a block, widened; in buffers, where these are given."""
        X, beside = rows
        if isinstance(some, slice):
            X = X[some]
        else:
            X = np.take(X, some, axis=0, out=None if raw is None else raw[: len(some)], mode="clip")
        if self._widening is None:
            return X
        out = np.empty((len(X), self._wide.shape[1]), self._wide.dtype) if wide is None else wide[: len(X)]
        return self._widening.rows(X, None if beside is None else beside[some], out)

    def _set_centres(self, rows: _Rows, runs: _Runs) -> None:
        """Centre classes that have grown on about the mean of their rows; on a constant column exactly on its value.

        Its scatter is then zero.
        """
        counts, centred = runs.counts, self._centred[runs.labels]
        due = (counts > 0) & (self._sums.counts[runs.labels] + counts >= GROWTH * centred)
        for labels, picks, edges in _sampled(runs, due):
            sample = self._widened(rows, runs.order[picks]).astype(self._centres.dtype, copy=False)
            counts, more = self._sums.counts[labels, None], runs.counts[np.searchsorted(runs.labels, labels), None]
            origins = np.where(counts > 0, self._centres[labels], sample[edges[:-1]])
            sample -= np.repeat(origins, np.diff(edges), axis=0)
            sampled = sums_of_runs(sample, edges) / np.diff(edges)[:, None]
            total = self._sums.means[labels] + more * sampled
            centres = (origins + total / (counts + more)).astype(self._centres.dtype)
            if self._widening is not None:
                # With 0 or 1 as centres of indicators, sums of their products are exact.
                indicators = slice(self._widening.n_columns, self._widening.filled)
                centres[:, indicators] = np.rint(centres[:, indicators])
            self._move_centres(labels, centres)
            self._centred[labels] = (counts + more)[:, 0]

    def _move_centres(self, labels: NDArray[np.intp], centres: NDArray) -> None:
        """Change the centres a of classes to b: S + s (a - b)^T + (a - b) s^T + n (a - b) (a - b)^T, s + n (a - b)."""
        old = self._sums.counts[labels] > 0
        for block in class_blocks(np.flatnonzero(old), self._sums):
            counts, totals = self._sums.counts[labels[block], None], self._sums.means[labels[block]]
            shift = self._centres[labels[block]].astype(np.float64) - centres[block]
            roots = np.sqrt(counts)
            # An outer product of sums, less one: what is added is the difference of two squares.
            add_outer_products(self._sums, labels[block], totals / roots + roots * shift, DOUBLE)
            add_outer_products(self._sums, labels[block], totals / roots, DOUBLE, sign=-1)
            self._sums.means[labels[block]] = totals + counts * shift
        self._centres[labels] = centres

    def _add_products(self, scatter: NDArray, panel: NDArray, power: float) -> bool:
        """Add the products of rows to a scatter; tell whether they are finite."""
        np.matmul(panel.T, panel, out=self._product)
        squares = np.diagonal(self._product)
        if squares.min() > SMALLEST_SQUARE and squares.max() < 1 / SMALLEST_SQUARE and power == 1:
            scatter += self._product
            return True
        scale = scale_of_squares(squares, panel)
        if scale is None:
            scatter += np.multiply(self._product, power, dtype=np.float64)
        else:
            np.matmul((panel * scale).T, panel * scale, out=self._product)
            exact = scale.astype(np.float64)
            scatter += self._product / exact[:, None] / exact * power
        return bool(np.isfinite(squares).all())

    def moments(self) -> ClassMoments:
        """Finish and return the moments, pooled over the classes that had rows. The adder cannot be used afterwards."""
        sums, self._sums = self._sums, None  # type: ignore[assignment]
        seen = np.flatnonzero(sums.counts)
        unit = float(np.finfo(self._panel.dtype).eps)
        floors = np.einsum("kii->ki", sums.scatters) * unit / max(len(seen), 1)
        for block in class_blocks(seen, sums):
            counts, total = sums.counts[block, None], sums.means[block]
            sums.means[block] = self._centres[block] + total / counts
            offsets = total / np.sqrt(counts)
            if sums.weights is not None:
                # Together, what is left out is no more than a rounding of the scatter: of classes of a few rows, which
                # are centred on their mean from the start, and are many.
                squares, counting = offsets**2, np.zeros(len(block), bool)
                for weights, floor in zip(sums.weights[:, block], floors, strict=True):
                    counting |= (weights[:, None] * squares > floor).any(axis=1)
                block, offsets = block[counting], offsets[counting]
            add_outer_products(sums, block, offsets, self._panel.dtype, sign=-1)
        del self._centres
        refuse_too_large(sums.scatters, self._panel.dtype)
        return sums.of_seen(seen)


def _roots(weights: NDArray, dtype: np.dtype) -> tuple[NDArray, float]:
    """Return square roots of weights over a power of four, and that power: 1, unless their mean is far from it.

    The squares are about the size of the rows, which single precision holds, and roots of a power of four are exact.
    """
    exponent = math.frexp(float(weights.sum()) / len(weights))[1] // 2 * 2
    power = math.ldexp(1.0, exponent) if abs(exponent) > SAFE_EXPONENT else 1.0
    return np.sqrt(weights / power).astype(dtype), power


_Rows = tuple[NDArray, "NDArray[np.float64] | None"]
"""A block of rows as they are read, and the numbers beside them."""


@dataclass(frozen=True)
class _Runs:
    """Rows of a block by class, and the order that they are added in: by class, or as they come."""

    order: NDArray[np.intp]  # (n,): the rows by class
    labels: NDArray[np.intp]  # (m,): the classes that have rows; where those are most, all
    edges: NDArray[np.intp]  # (m + 1,): where the rows of each begin in ``order``
    codes: NDArray[np.intp]  # (n,): class of each row, as they are added
    as_they_come: bool
    row_weights: NDArray[np.float64] | None = None  # (n,): as rows are added

    @classmethod
    def of(cls, codes: NDArray, row_weights: NDArray | None, by_class: bool) -> _Runs:
        order, counts = rows_by_class(codes)
        labels = np.flatnonzero(counts)
        if 2 * len(labels) > len(counts):
            labels = np.arange(len(counts))
        edges = np.append(0, np.cumsum(counts[labels]))
        if not by_class or np.all(codes[1:] >= codes[:-1]):
            return cls(order, labels, edges, codes, True, row_weights)
        return cls(order, labels, edges, codes[order], False, None if row_weights is None else row_weights[order])

    @functools.cached_property
    def counts(self) -> NDArray[np.float64]:
        """Sums of the weights of the rows of each class, shape (m,)."""
        if self.row_weights is None:
            return np.diff(self.edges).astype(np.float64)
        return np.bincount(self.codes, self.row_weights, self.labels[-1] + 1)[self.labels].astype(np.float64)

    @property
    def classes(self) -> slice | NDArray[np.intp]:
        """The classes as a slice where they follow each other: it is added to in place."""
        first, last = self.labels[[0, -1]]
        return slice(first, last + 1) if last - first + 1 == len(self.labels) else self.labels


def _sampled(
    runs: _Runs, due: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]]:
    """Yield classes, rows of each, and where those of each begin: about a panel of rows at a time.

    Rows are evenly spaced, or, where they have weights, in proportion to these: one may then come several times.
    """
    if not due.any():  # in most chunks none is
        return
    labels, starts, stops = runs.labels[due], runs.edges[:-1][due], runs.edges[1:][due]
    steps = -(-(stops - starts) // CENTRE_ROWS)
    sizes = -(-(stops - starts) // np.maximum(steps, 1))
    batches = np.cumsum(sizes) // BLOCK_ROWS
    below = None
    if runs.row_weights is not None:  # by class, as shares of it; each begins at a whole number
        weights = runs.row_weights[runs.order] if runs.as_they_come else runs.row_weights
        below = np.cumsum(weights / np.repeat(runs.counts, np.diff(runs.edges)))
    for batch in np.split(np.arange(len(labels)), np.flatnonzero(np.diff(batches)) + 1):
        if not len(batch):
            continue
        edges = np.append(0, np.cumsum(sizes[batch]))
        number = np.arange(edges[-1]) - np.repeat(edges[:-1], sizes[batch])
        if below is None:
            picks = np.repeat(starts[batch], sizes[batch]) + number * np.repeat(steps[batch], sizes[batch])
        else:
            classes = np.repeat(np.flatnonzero(due)[batch], sizes[batch])
            shares = (number + 0.5) / np.repeat(sizes[batch], sizes[batch])
            picks = np.clip(np.searchsorted(below, classes + shares), runs.edges[classes], runs.edges[classes + 1] - 1)
        yield labels[batch], picks, edges


def even_blocks(first: int, last: int) -> Iterator[slice]:
    """Yield stretches of about ``BLOCK_ROWS`` rows, none of which is much shorter than others."""
    count = max(round((last - first) / BLOCK_ROWS), 1 if last > first else 0)
    edges = [first + (last - first) * i // count for i in range(count + 1)] if count else []
    return (slice(start, stop) for start, stop in itertools.pairwise(edges))


def sums_of_runs(
    rows: NDArray, edges: NDArray[np.intp], factors: NDArray | None = None, order: NDArray[np.intp] | None = None
) -> NDArray:
    """Return the sum of each stretch of rows, in an ``order``, which ``factors`` may multiply, shape (m, d)."""
    # A product with a CSR matrix; ``np.add.reduceat`` takes 15 to 60 times as long.
    order = np.arange(len(rows)) if order is None else order
    factors = np.ones(len(rows), rows.dtype) if factors is None else factors[order]
    return csr_array((factors, order, edges), shape=(len(edges) - 1, len(rows))) @ rows
