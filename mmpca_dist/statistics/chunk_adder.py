"""``ChunkAdder``: adds chunks of rows to the moments of their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError
from mmpca_dist.statistics.moments import (
    BLOCK_ROWS,
    CENTRE_ROWS,
    DOUBLE,
    ClassMoments,
    add_outer_products,
    class_blocks,
    explain_not_finite,
    refuse_too_large,
    safe_scale,
    work_type,
)

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
    """

    def __init__(
        self, n_classes: int, n_features: int, dtype: np.dtype, precision: str, weights: NDArray | None = None
    ) -> None:
        d, work = n_features, work_type(precision)
        native = np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")
        # Pages of zeros that no row of a class touches take no memory. Means are sums until the end.
        self._sums = ClassMoments.empty(np.arange(n_classes), d, weights)
        self._centres = np.zeros((n_classes, d), np.result_type(native, work))
        self._centred = np.zeros(n_classes, np.int64)  # numbers of rows of which the centres are about the means
        self._raw = np.empty((BLOCK_ROWS, d), native)
        self._panel = np.empty((BLOCK_ROWS, d), work)
        self._product = np.empty((d, d), work)

    def add(self, X: NDArray, codes: NDArray, locate: Callable[[int, int, float], str]) -> None:
        """Add a chunk.

        Parameters
        ----------
        X : array of shape (n, d)
        codes : int array of shape (n,)
            Position of each row's class.
        locate : callable
            Returns the message for a value that is not finite: called with its row in the chunk, column and value.
        """
        if X.dtype == bool:
            X = X.view(np.uint8)
        runs = _Runs.of(codes)
        scale = safe_scale(X, self._panel.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            self._set_centres(X, runs)
            for start, stop in runs.blocks(apart=not self._sums.pooled):
                rows, block = runs.order[start:stop], runs.within(start, stop)
                raw = self._raw[: len(rows)]
                np.take(X, rows, axis=0, out=raw, mode="clip")
                if not self._add_block(raw, block, scale):
                    raise InputError(explain_not_finite(X, rows, self._panel.dtype, locate))
        self._sums.counts[runs.labels] += np.diff(runs.edges)

    def _set_centres(self, X: NDArray, runs: _Runs) -> None:
        """Centre classes that have grown on about the mean of their rows; on a constant column exactly on its value.

        Its scatter is then zero.
        """
        sizes, centred = np.diff(runs.edges), self._centred[runs.labels]
        due = (sizes > 0) & (self._sums.counts[runs.labels] + sizes >= GROWTH * centred)
        for labels, picks, edges in _sampled(runs.labels[due], runs.edges[:-1][due], runs.edges[1:][due]):
            sample = X[runs.order[picks]].astype(self._centres.dtype)
            counts, more = self._sums.counts[labels, None], runs.sizes_of(labels)[:, None]
            origins = np.where(counts > 0, self._centres[labels], sample[edges[:-1]])
            sample -= np.repeat(origins, np.diff(edges), axis=0)
            sampled = sums_of_runs(sample, edges) / np.diff(edges)[:, None]
            total = self._sums.means[labels] + more * sampled
            self._move_centres(labels, (origins + total / (counts + more)).astype(self._centres.dtype))
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

    def _add_block(self, raw: NDArray, block: _Runs, scale: NDArray | None) -> bool:
        """Add a block of rows in the order of their classes; tell whether their squares are finite."""
        panel, labels = self._panel[: len(raw)], block.labels
        np.subtract(raw, self._centres_of(block, panel), out=panel, casting="same_kind")
        if scale is not None:
            panel *= scale
        sums = sums_of_runs(panel, block.edges)
        self._sums.means[block.classes] += sums if scale is None else sums / scale.astype(np.float64)
        if self._sums.weights is None:
            return self._add_products(self._sums.scatters[labels[0]], panel, scale)
        finite = True
        for scatter, weights in zip(self._sums.scatters, self._sums.weights[:, labels], strict=True):
            counting = np.flatnonzero(weights)
            if not len(counting):
                continue
            inside = slice(counting[0], counting[-1] + 1)  # of pooled parts, the rows of one
            weights, edges = weights[inside], block.edges[counting[0] : counting[-1] + 2]
            weighted = panel[edges[0] : edges[-1]]
            if not np.all(weights == 1):
                weighted = weighted * np.sqrt(np.repeat(weights, np.diff(edges)))[:, None].astype(panel.dtype)
            finite = self._add_products(scatter, weighted, scale) and finite
        return finite

    def _centres_of(self, block: _Runs, panel: NDArray) -> NDArray:
        """Return the centre of each row's class, in the panel itself if it has their type."""
        if len(block.labels) == 1:
            return self._centres[block.labels]
        codes = np.repeat(block.labels, np.diff(block.edges))
        out = panel if panel.dtype == self._centres.dtype else None
        return np.take(self._centres, codes, axis=0, out=out, mode="clip")

    def _add_products(self, scatter: NDArray, panel: NDArray, scale: NDArray | None) -> bool:
        np.matmul(panel.T, panel, out=self._product)
        if scale is None:
            scatter += self._product
        else:
            exact = scale.astype(np.float64)  # squares of single-precision scales over- or underflow
            scatter += self._product / exact[:, None] / exact
        return bool(np.isfinite(np.trace(self._product)))

    def moments(self) -> ClassMoments:
        """Return the moments, of pooled scatters over the classes that had rows; nothing can be added afterwards."""
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


@dataclass(frozen=True)
class _Runs:
    """Rows in the order of their classes.

    Attributes
    ----------
    order : int array of shape (n,)
    labels : int array of shape (m,)
        The classes that have rows; where those are most, all.
    edges : int array of shape (m + 1,)
        Where the rows of each begin in ``order``.
    """

    order: NDArray[np.intp]
    labels: NDArray[np.intp]
    edges: NDArray[np.intp]

    @classmethod
    def of(cls, codes: NDArray) -> _Runs:
        counts = np.bincount(codes)
        # 16-bit keys are sorted by radix, in linear time.
        keys = codes.astype(np.uint16) if len(counts) <= 1 << 16 else codes
        labels = np.flatnonzero(counts)
        if 2 * len(labels) > len(counts):
            labels = np.arange(len(counts))
        return cls(np.argsort(keys, kind="stable"), labels, np.append(0, np.cumsum(counts[labels])))

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

    def sizes_of(self, labels: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the numbers of rows of some of the classes."""
        return np.diff(self.edges)[np.searchsorted(self.labels, labels)]

    def within(self, start: int, stop: int) -> _Runs:
        """Return the runs of a block, whose edges count from its beginning."""
        first, last = np.searchsorted(self.edges, start, "right") - 1, np.searchsorted(self.edges, stop)
        edges = np.clip(self.edges[first : last + 1], start, stop) - start
        return _Runs(self.order[start:stop], self.labels[first:last], edges)


def _sampled(
    labels: NDArray, starts: NDArray, stops: NDArray
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]]:
    """Yield classes, evenly spaced rows of each, and where those of each begin: about a panel of rows at a time."""
    steps = -(-(stops - starts) // CENTRE_ROWS)
    sizes = -(-(stops - starts) // np.maximum(steps, 1))
    batches = np.cumsum(sizes) // BLOCK_ROWS
    for batch in np.split(np.arange(len(labels)), np.flatnonzero(np.diff(batches)) + 1):
        if not len(batch):
            continue
        edges = np.append(0, np.cumsum(sizes[batch]))
        number = np.arange(edges[-1]) - np.repeat(edges[:-1], sizes[batch])
        picks = np.repeat(starts[batch], sizes[batch]) + number * np.repeat(steps[batch], sizes[batch])
        yield labels[batch], picks, edges


def sums_of_runs(rows: NDArray, edges: NDArray[np.intp]) -> NDArray:
    """Return the sum of each stretch of rows, shape (m, d)."""
    # A product with a CSR matrix of ones; ``np.add.reduceat`` takes 15 to 60 times as long.
    ones = csr_array((np.ones(len(rows), rows.dtype), np.arange(len(rows)), edges), shape=(len(edges) - 1, len(rows)))
    return ones @ rows
