"""``ChunkAdder``: adds chunks of rows to the moments of their classes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError
from mmpca_dist.passes.rows import by_class
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.statistics.moments import ClassMoments, add_outer_products, class_blocks
from mmpca_dist.statistics.precision import (
    CENTRE_ROWS,
    DOUBLE,
    SAFE_EXPONENT,
    explain_not_finite,
    refuse_too_large,
    safe_scale,
    work_type,
)
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.tables.batch import Batch

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
        native = np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")
        # Pages of zeros that no row of a class touches take no memory. Means are sums until the end.
        self._sums = ClassMoments.empty(np.arange(n_classes), d, weights)
        self._centres = np.zeros((n_classes, d), np.result_type(native, work))
        self._centred = np.zeros(n_classes)  # weights of the rows of which the centres are about the means
        self._widening = widening
        self._raw = np.empty((BLOCK_ROWS, d if widening is None else widening.n_columns), native)
        self._panel = np.empty((BLOCK_ROWS, d), work)
        self._product = np.empty((d, d), work)
        self._ones = np.ones(BLOCK_ROWS, work)

    def add(self, batch: Batch, codes: NDArray) -> None:
        """Add a batch of dense rows, with the position of each one's class, shape (n,).

        Raises InputError for rows that are not finite.
        """
        X = batch.X.view(np.uint8) if batch.X.dtype == bool else batch.X
        beside = None if self._widening is None else batch.beside()
        runs = _Runs.of(codes, batch.weight)
        few = slice(None, None, max(-(-len(X) // CENTRE_ROWS), 1))
        scale = safe_scale(self._sample(X, beside, few), self._panel.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            self._set_centres(X, beside, runs)
            for start, stop in runs.blocks(apart=not self._sums.pooled):
                rows, block = runs.order[start:stop], runs.within(start, stop)
                raw = self._raw[: len(rows)]
                np.take(X, rows, axis=0, out=raw, mode="clip")
                own = None if beside is None else np.take(beside, rows, axis=0)
                if not self._add_block(raw, own, block, scale):
                    X = self._sample(X, beside, slice(None))
                    raise InputError(explain_not_finite(X, rows, self._panel.dtype, batch))
        self._sums.counts[runs.labels] += runs.counts
        self._sums.sizes[runs.labels] += np.diff(runs.edges)

    def _sample(self, X: NDArray, beside: NDArray | None, some: NDArray[np.intp] | slice) -> NDArray:
        """Return some rows, widened."""
        X = X[some]
        if self._widening is None:
            return X
        out = np.empty((len(X), self._centres.shape[1]), np.result_type(X.dtype, self._panel.dtype))
        return self._widening.rows(X, None if beside is None else beside[some], out)

    def _set_centres(self, X: NDArray, beside: NDArray | None, runs: _Runs) -> None:
        """Centre classes that have grown on about the mean of their rows; on a constant column exactly on its value.

        Its scatter is then zero.
        """
        counts, centred = runs.counts, self._centred[runs.labels]
        due = (counts > 0) & (self._sums.counts[runs.labels] + counts >= GROWTH * centred)
        for labels, picks, edges in _sampled(runs, due):
            sample = self._sample(X, beside, runs.order[picks]).astype(self._centres.dtype, copy=False)
            counts, more = self._sums.counts[labels, None], runs.counts_of(labels)[:, None]
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

    def _add_block(self, raw: NDArray, beside: NDArray | None, block: _Runs, scale: NDArray | None) -> bool:
        """Add a block of rows in the order of their classes; tell whether their squares are finite."""
        panel, labels = self._panel[: len(raw)], block.labels
        if self._widening is not None:
            in_place = panel.dtype == self._centres.dtype
            raw = self._widening.rows(raw, beside, panel if in_place else np.empty(panel.shape, self._centres.dtype))
        np.subtract(raw, self._centres_of(block, panel), out=panel, casting="same_kind")
        if scale is not None:
            panel *= scale
        roots, power = None, 1.0
        if block.row_weights is not None:
            roots, power = _roots(block.row_weights, panel.dtype)
            panel *= roots[:, None]
        factors = self._ones[: len(panel)] if roots is None and self._widening is not None else roots
        sums = sums_of_runs(panel, block.edges, factors)
        self._sums.means[block.classes] += power * (sums if scale is None else sums / scale.astype(np.float64))
        if self._sums.weights is None:
            return self._add_products(self._sums.scatters[labels[0]], panel, scale, power)
        finite = True
        for scatter, weights in zip(self._sums.scatters, self._sums.weights[:, labels], strict=True):
            counting = np.flatnonzero(weights)
            if not len(counting):
                continue
            inside = slice(counting[0], counting[-1] + 1)  # of pooled parts, the rows of one
            weights, edges = weights[inside], block.edges[counting[0] : counting[-1] + 2]
            weighted, more = panel[edges[0] : edges[-1]], 1.0
            if not np.all(weights == 1):
                roots, more = _roots(np.repeat(weights, np.diff(edges)), panel.dtype)
                weighted = weighted * roots[:, None]
            finite = self._add_products(scatter, weighted, scale, power * more) and finite
        return finite

    def _centres_of(self, block: _Runs, panel: NDArray) -> NDArray:
        """Return the centre of each row's class, in the panel itself if it has their type."""
        if len(block.labels) == 1:
            return self._centres[block.labels]
        codes = np.repeat(block.labels, np.diff(block.edges))
        out = panel if panel.dtype == self._centres.dtype and self._widening is None else None
        return np.take(self._centres, codes, axis=0, out=out, mode="clip")

    def _add_products(self, scatter: NDArray, panel: NDArray, scale: NDArray | None, power: float) -> bool:
        np.matmul(panel.T, panel, out=self._product)
        if scale is not None:  # squares of single-precision scales over- or underflow
            exact = scale.astype(np.float64)
            scatter += self._product / exact[:, None] / exact * power
        elif power == 1:
            scatter += self._product
        else:
            scatter += np.multiply(self._product, power, dtype=np.float64)
        return bool(np.isfinite(np.trace(self._product)))

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


@dataclass(frozen=True)
class _Runs:
    """Rows in the order of their classes."""

    order: NDArray[np.intp]  # (n,)
    labels: NDArray[np.intp]  # (m,): the classes that have rows; where those are most, all
    edges: NDArray[np.intp]  # (m + 1,): where the rows of each begin in ``order``
    row_weights: NDArray[np.float64] | None = None  # (n,): in that order

    @classmethod
    def of(cls, codes: NDArray, row_weights: NDArray | None) -> _Runs:
        order, counts = by_class(codes)
        labels = np.flatnonzero(counts)
        if 2 * len(labels) > len(counts):
            labels = np.arange(len(counts))
        ordered = None if row_weights is None else row_weights[order]
        return cls(order, labels, np.append(0, np.cumsum(counts[labels])), ordered)

    @functools.cached_property
    def counts(self) -> NDArray[np.float64]:
        """Sums of the weights of the rows of each class, shape (m,)."""
        if self.row_weights is None:
            return np.diff(self.edges).astype(np.float64)
        counts, filled = np.zeros(len(self.labels)), np.diff(self.edges) > 0
        counts[filled] = np.add.reduceat(self.row_weights, self.edges[:-1][filled])
        return counts

    @property
    def classes(self) -> slice | NDArray[np.intp]:
        """The classes as a slice where they follow each other: it is added to in place."""
        first, last = self.labels[[0, -1]]
        return slice(first, last + 1) if last - first + 1 == len(self.labels) else self.labels

    def blocks(self, *, apart: bool) -> Iterator[tuple[int, int]]:
        """Yield where blocks of rows begin and end; with classes ``apart`` a block has rows of one."""
        stretches = zip(self.edges[:-1], self.edges[1:], strict=True) if apart else [(0, len(self.order))]
        for first, last in stretches:
            for start in range(int(first), int(last), BLOCK_ROWS):
                yield start, min(start + BLOCK_ROWS, int(last))

    def counts_of(self, labels: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the sums of weights of some of the classes."""
        return self.counts[np.searchsorted(self.labels, labels)]

    def within(self, start: int, stop: int) -> _Runs:
        """Return the runs of a block, whose edges count from its beginning."""
        first, last = np.searchsorted(self.edges, start, "right") - 1, np.searchsorted(self.edges, stop)
        edges = np.clip(self.edges[first : last + 1], start, stop) - start
        weights = None if self.row_weights is None else self.row_weights[start:stop]
        return _Runs(self.order[start:stop], self.labels[first:last], edges, weights)


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
    if runs.row_weights is not None:  # as shares of their class, which begins at a whole number
        below = np.cumsum(runs.row_weights / np.repeat(runs.counts, np.diff(runs.edges)))
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


def sums_of_runs(rows: NDArray, edges: NDArray[np.intp], factors: NDArray | None = None) -> NDArray:
    """Return the sum of each stretch of rows, which ``factors`` may multiply, shape (m, d)."""
    if factors is not None and len(edges) == 2:
        return (factors @ rows)[None]
    # A product with a CSR matrix; ``np.add.reduceat`` takes 15 to 60 times as long.
    factors = np.ones(len(rows), rows.dtype) if factors is None else factors
    return csr_array((factors, np.arange(len(rows)), edges), shape=(len(edges) - 1, len(rows))) @ rows
