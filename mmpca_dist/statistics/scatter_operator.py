"""Class scatters as operators: one pass over the rows applies weighted sums of them to blocks of vectors.

``sum_c w_c G_c V = sum_c w_c [X_c^T (X_c V) - n_c d_c (d_c^T V)]`` with rows X_c less a provisional centre of their
class, and d_c the mean of the remainder: it is small, so nothing cancels however far the mean lies from zero. Sparse
rows stay sparse. A column that all rows of a class store is centred in place; for the others the centre is subtracted
from the products, in double precision. If one of n rows does not store a column, its spread is at least its mean over
sqrt(n), so that no more than sqrt(n) roundings are lost.

Covariates of sparse rows, the last columns of widened rows u = [x | z], are removed from vectors, not from rows: with
A = [I; -B] for slopes B, the scatter of x - B^T z is A^T G A, and ``A^T (G (A V))`` takes the stored values alone.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from mmpca_dist.blas import over_panels, products
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import OnRows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import ArraySums
from mmpca_dist.passes.units import read_batches, rows_within
from mmpca_dist.statistics.adjustment import Adjustment, lost_columns
from mmpca_dist.statistics.column_units import weighted_mean
from mmpca_dist.statistics.precision import explain_not_finite, too_large
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

SPARSE_TASKS = 32
"""Most tasks of sparse rows, each of which leaves sums as large as the dense vectors."""


def centre_type(rows: np.dtype, work: np.dtype) -> np.dtype:
    """Return the type of provisional centres: wide enough for a value of the rows."""
    return np.dtype(np.result_type(rows, work))


def panel_bytes(n_features: int, work: np.dtype, centres: np.dtype) -> int:
    """Return the bytes of a row that is centred, and of its centre where that is of another type."""
    return n_features * (work.itemsize + (centres.itemsize if centres != work else 0))


def panel_rows(n_features: int, work: np.dtype, centres: np.dtype) -> int:
    """Return how many rows are centred at once."""
    return rows_within(LIMITS.centred_bytes, panel_bytes(n_features, work, centres), minimum=64)


SPARSE_COLUMNS = 32
"""Vectors that sparse rows are multiplied by at once: the products are dense and as long as the vectors."""


@dataclass(frozen=True)
class Block:
    """Vectors, shape (d, b), and the class weights w, shape (C,), of the scatter that is applied to them."""

    weights: NDArray[np.float64]
    vectors: NDArray[np.float64]


@storable
@dataclass(frozen=True)
class Sums(ArraySums):
    """Sums over rows less the provisional centre of their class."""

    images: tuple[NDArray[np.float64], ...]  # X^T W X V, (d, b), for every block
    moments: NDArray[np.float64] | None  # (2, C, d): of rows, and of their squares


@dataclass(frozen=True)
class _Application:
    """Applies scatters to blocks over the rows of a span, and sums rows and squares if asked for."""

    classes: NDArray
    centres: NDArray
    work: np.dtype
    sums: np.dtype
    powers: NDArray | None
    blocks: tuple[Block, ...]
    with_moments: bool
    unit: float = 1.0
    slopes: NDArray[np.float64] | None = None

    def run(self, dataset: Dataset, span: Span) -> Sums:
        d, n_classes = dataset.n_features, len(self.classes)
        images = tuple(np.zeros(block.vectors.shape, self.sums) for block in self.blocks)
        sums = Sums(images, np.zeros((2, n_classes, d)) if self.with_moments else None)
        add: Callable[..., None] = _add_sparse
        if not dataset.sparse:
            vectors = [np.empty((d, 0), self.work), *(block.vectors.astype(self.work) for block in self.blocks)]
            add = partial(_add_dense, vectors=np.concatenate(vectors, axis=1))
        for batch in read_batches(dataset, span, ("label", "weight"), sparse=dataset.sparse, by_blocks=True):
            if batch.weight is not None:
                batch = replace(batch, roles={**batch.roles, "weight": batch.weight / self.unit})
            add(self, sums, batch, batch.codes(self.classes))
        if not all(np.isfinite(part).all() for part in (*images, sums.moments) if part is not None):
            raise InputError(too_large(min(self.work, self.sums, key=lambda kind: kind.itemsize)))
        return sums


def _add_dense(task: _Application, sums: Sums, batch: Batch, codes: NDArray, vectors: NDArray) -> None:
    work, centres, d = task.work, task.centres, task.centres.shape[1]
    size = min(panel_rows(d, work, centres.dtype), len(batch))
    panel = np.empty((size, d), work)
    near = panel if centres.dtype == work else np.empty(panel.shape, centres.dtype)
    partial = [np.zeros(block.vectors.shape, work) for block in task.blocks]
    product = np.empty((d, max((p.shape[1] for p in partial), default=0)), work)
    for block in batch.blocks(size):
        rows, row_weights = block.X.view(np.uint8) if block.X.dtype == bool else block.X, block.weight
        classes = codes[block.start - batch.start :][: len(block)]
        part = panel[: len(rows)]
        centre = np.take(centres, classes, axis=0, out=near[: len(rows)], mode="clip")
        with np.errstate(invalid="ignore", over="ignore"):
            np.subtract(rows, centre, out=part, casting="same_kind")
            if task.powers is not None:
                part *= task.powers
            along = part @ vectors
            if sums.moments is not None:
                _add_moments(sums.moments, part, classes, row_weights)
            finite = np.isfinite(along).all() if along.size else np.isfinite(part).all()
        if not finite:
            raise InputError(explain_not_finite(block.X, work, block))
        column = 0
        for image, applied in zip(partial, task.blocks, strict=True):
            width = image.shape[1]
            with np.errstate(invalid="ignore", over="ignore"):  # refused when the span is done
                factors = applied.weights[classes] * (1.0 if row_weights is None else row_weights)
                weighted = along[:, column : column + width] * factors[:, None].astype(work)
                image += np.matmul(part.T, weighted, out=product[:, :width] if width == product.shape[1] else None)
            column += width
    for total, image in zip(sums.images, partial, strict=True):
        total += image


def _add_moments(moments: NDArray, part: NDArray, codes: NDArray, row_weights: NDArray | None) -> None:
    members = _members(codes, moments.shape[1], part.dtype, row_weights)
    moments[0] += members @ part
    moments[1] += members @ np.square(part)


def _members(codes: NDArray, n_classes: int, dtype: np.dtype, row_weights: NDArray | None = None) -> Any:
    """Return the membership of rows in classes, shape (C, n): its product with rows sums them by class, in order."""
    values = np.ones(len(codes), dtype) if row_weights is None else row_weights.astype(dtype)
    return scipy.sparse.csc_array((values, codes, np.arange(len(codes) + 1)), shape=(n_classes, len(codes)))


def _add_sparse(task: _Application, sums: Sums, batch: Batch, codes: NDArray) -> None:
    n, members = len(codes), _members(codes, len(task.classes), np.dtype(np.float64))
    with np.errstate(invalid="ignore", over="ignore"):  # refused when the span is done
        X, rest = centre_sparse(batch, codes, task.centres, sums.moments, task.slopes)
        both = scipy.sparse.vstack([X, -rest], format="csr")  # one product of each kind for rows and centres
        for image, block in zip(sums.images, task.blocks, strict=True):
            weights = block.weights[codes, None]
            if batch.weight is not None:
                weights = weights * batch.weight[:, None]
            for start in range(0, image.shape[1], SPARSE_COLUMNS):
                some = slice(start, start + SPARSE_COLUMNS)
                vectors = np.ascontiguousarray(block.vectors[:, some], np.float64)
                along = both @ vectors
                along[:n] += along[n:][codes]
                along[:n] *= weights
                along[n:] = members @ along[:n]
                image[:, some] += (both.T @ along).astype(image.dtype, copy=False)


def centre_sparse(
    batch: Batch, codes: NDArray, centres: NDArray, moments: NDArray | None = None, slopes: NDArray | None = None
) -> tuple[Any, Any]:
    """Return CSR rows, centred in the columns that all rows of their class store, and the centres of the others.

    Adds up the rows less their centres, and squares, if asked for.
    """
    X, row_weights, shape = batch.X, batch.weight, centres.shape
    n_cells = shape[0] * shape[1]
    cells = np.repeat(codes, np.diff(X.indptr))  # of a class and a column
    cells *= shape[1]
    cells += X.indices
    absent = np.bincount(codes, minlength=shape[0])[:, None] - np.bincount(cells, minlength=n_cells).reshape(shape)
    values, rest = X.data.astype(np.float64), np.where(absent, centres, 0.0)
    near = np.empty_like(values)
    if moments is not None:
        totals, squares = moments
        np.subtract(values, np.take(centres, cells, out=near, mode="clip"), out=near)
        of_values, lacking = np.ones(1), absent
        if row_weights is not None:
            of_values = np.repeat(row_weights, np.diff(X.indptr))
            stored = np.bincount(cells, of_values, n_cells).reshape(shape)
            lacking = np.where(absent, np.bincount(codes, row_weights, shape[0])[:, None] - stored, 0.0)
        totals += np.bincount(cells, near * of_values, n_cells).reshape(shape)
        totals -= lacking * rest
        np.square(near, out=near)
        squares += np.bincount(cells, near * of_values, n_cells).reshape(shape)
        squares += lacking * np.square(rest)
        del of_values, lacking
    values -= np.take(np.where(absent, 0.0, centres), cells, out=near, mode="clip")
    del near
    rows = scipy.sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)
    if moments is not None and slopes is not None:
        _remove_covariates(moments[1], slopes, rows, rest, cells, codes, row_weights)
    return rows, scipy.sparse.csr_array(rest)


def _remove_covariates(
    squares: NDArray[np.float64], slopes: NDArray[np.float64], rows: scipy.sparse.csr_array, rest: NDArray[np.float64],
    cells: NDArray[np.intp], codes: NDArray[np.intp], row_weights: NDArray[np.float64] | None,
) -> None:  # fmt: skip
    """Make of the sums of squares of x those of x - B^T z: less 2 B^T z x, plus the squares of B^T z."""
    q, d = slopes.shape
    z = rows[:, d : d + q].toarray() - rest[codes, d : d + q]
    weighted = z if row_weights is None else z * row_weights[:, None]
    members = _members(codes, len(squares), z.dtype)
    totals = members @ weighted
    for k, slope in enumerate(slopes):
        along = np.repeat(weighted[:, k], np.diff(rows.indptr))
        along *= rows.data
        cross = np.bincount(cells, along, squares.size).reshape(squares.shape)[:, :d] - rest[:, :d] * totals[:, k, None]
        squares[:, :d] += slope * (members @ (z[:, k, None] * weighted) @ slopes - 2 * cross)


def sparse_spans(dataset: Dataset, spans: list[Span]) -> list[Span]:
    """Join spans of sparse rows to a few with long units; their units are as small as those of dense rows."""
    edges = np.asarray([*(start for span in spans for start, _ in span.units), spans[-1].stop])
    rows = max(1, LIMITS.unit_bytes * dataset.n_rows // max(dataset.n_bytes, 1))
    count = int(np.clip(dataset.n_bytes // LIMITS.sparse_task_bytes, 2, SPARSE_TASKS))
    ends = np.unique(np.searchsorted(edges, np.linspace(edges[0], edges[-1], count + 1)))
    joined: list[Span] = []
    for first, last in itertools.pairwise(ends.tolist()):
        part = edges[first : last + 1]
        kept = [int(part[0])]
        for edge, following in itertools.pairwise([*part[1:].tolist(), None]):
            if following is None or following - kept[-1] > rows:
                kept.append(edge)
        joined.append(Span(len(joined), tuple(kept)))
    return joined


@dataclass
class ScatterOperator:
    """Applies weighted sums of class scatters of a data set's (standardised) rows, one pass at a time."""

    rows: Rows
    # (C, d): provisional, in the type of the rows or a wider one, so that a constant column less its centre is zero
    centres: NDArray
    work: np.dtype  # type of the products
    scale: NDArray[np.float64] | None = None  # (d,): standard deviations that columns are divided by
    # (d,): powers of two that columns are multiplied by, so that squares neither overflow nor vanish; unseen outside
    powers: NDArray | None = None
    # type of the sums of products: double, or single for sparse rows, compared with which sums are large
    sums: np.dtype = field(default_factory=lambda: np.dtype(np.float64))
    # removes the covariates of sparse rows: ``centres`` and ``offsets`` are those of widened rows, all else is that
    # of their columns without what covariates explain
    adjustment: Adjustment | None = None
    read_with: Adjustment | None = None  # the adjustment, be it of vectors or of rows as they are read
    passes: int = field(default=0, init=False)  # over the rows, so far
    # From the first pass on:
    offsets: NDArray[np.float64] = field(init=False)  # (C, d): class means less ``centres``
    squares: NDArray[np.float64] = field(init=False)  # (C, d): diagonals of the class scatters
    lost: NDArray[np.bool_] = field(init=False)  # (d,): columns that are constant but for errors of adjusting

    @property
    def means(self) -> NDArray[np.float64]:
        """Class means of the rows in their own units, shape (C, d)."""
        means = self.centres + self.offsets
        if self.adjustment is not None:
            means = self.adjustment.rows(means)
        means[:, self.lost] = means[0, self.lost]
        return means

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of all rows in their own units, shape (d,)."""
        return weighted_mean(self.means, self.rows.census.counts)

    @property
    def _unit(self) -> float:
        """A power of two near the mean weight of a row: weights over it leave sums in the range of single precision."""
        census = self.rows.census
        return 1.0 if census.totals is None else float(2.0 ** np.round(np.log2(census.counts.sum() / census.n_rows)))

    def apply(self, blocks: list[Block]) -> list[NDArray[np.float64]]:
        """Return ``sum_c w_c G_c V`` for every block, from one pass over the rows.

        Raises InputError for rows that are not finite.
        """
        dataset, counts = self.rows.dataset, self.rows.census.counts
        d = dataset.n_columns
        self.rows.begins("apply" if blocks else "moments", dataset.n_bytes)
        first = not self.passes
        powers = 1.0 if self.powers is None else self.powers.astype(np.float64)
        plain = self.powers is None and self.scale is None
        units = np.reshape(powers if self.scale is None else powers * self.scale, (-1, 1))
        scaled = tuple(blocks if plain else (Block(block.weights, block.vectors / units) for block in blocks))
        slopes, unit = None, self._unit
        if self.adjustment is not None:
            slopes = self.adjustment.slopes
            scaled = tuple(Block(block.weights, self.adjustment.widened(block.vectors)) for block in scaled)
        task = _Application(
            self.rows.census.classes, self.centres, self.work, self.sums, self.powers, scaled, first, unit,
            slopes,
        )  # fmt: skip
        spans = sparse_spans(dataset, self.rows.spans) if dataset.sparse else self.rows.spans
        sums = self.rows.run(OnRows(dataset, task.run), spans, operator.add, "apply")
        counts = counts / unit
        self.passes += 1
        if sums.moments is not None:
            self._keep_moments(sums.moments, counts, unit, powers)
        offsets, images = self.offsets * powers, []
        for image, block in zip(sums.images, scaled, strict=True):
            shares = (block.weights * counts)[:, None] * products(offsets.T, block.vectors)

            beside = image[self._beside] - offsets[:, self._beside].T @ shares
            image = image[:d]

            def correct(
                rows: slice, image: NDArray = image, shares: NDArray = shares, beside: NDArray = beside
            ) -> None:
                image[rows] -= (offsets[:, :d][:, rows].T @ shares).astype(image.dtype)
                if slopes is not None:
                    image[rows] -= slopes[:, rows].T @ beside
                if unit != 1:
                    image[rows] *= unit
                if not plain:
                    image[rows] /= units[rows].astype(image.dtype)

            for _ in over_panels(len(image), correct):  # in place: images are as long as the vectors
                pass
            images.append(image)
        return images

    def _keep_moments(
        self, moments: NDArray[np.float64], counts: NDArray[np.float64], unit: float, powers: NDArray | float
    ) -> None:
        """Keep what the first pass finds of means and squares, with the weights of classes over ``unit``."""
        d, adjustment = self.rows.dataset.n_columns, self.adjustment
        totals, squares = moments
        offsets = totals / np.where(counts > 0, counts, 1)[:, None]
        self.offsets = offsets / powers
        if adjustment is not None:
            offsets[:, :d] -= offsets[:, self._beside] @ adjustment.slopes
        squares = np.maximum(squares - counts[:, None] * offsets**2, 0) * unit / powers**2
        self.squares, self.lost = squares[:, :d], np.zeros(d, bool)
        if self.read_with is not None:
            means, total = self.means, unit * counts.sum()
            mean = weighted_mean(means, counts)
            spread = self.squares.sum(axis=0) + unit * counts @ (means - mean) ** 2
            self.lost = lost_columns(spread / total, mean, self.read_with)
            self.squares[:, self.lost] = 0

    @property
    def subtracted(self) -> float:
        """Squares of what the adjustment takes from columns, in working units; 0 of rows that are read with it."""
        if self.adjustment is None:
            return 0.0
        taken = np.where(self.lost, 0, self.adjustment.taken * self.rows.census.counts.sum())
        return float(np.sum(taken if self.scale is None else taken / self.scale**2))

    @property
    def _beside(self) -> slice:
        """Where covariates are in widened rows."""
        d = self.rows.dataset.n_columns
        return slice(d, d if self.adjustment is None else d + len(self.adjustment.slopes))

    def trace(self, weights: NDArray[np.float64]) -> float:
        """Return the trace of ``sum_c w_c G_c``."""
        squares = self.squares if self.scale is None else self.squares / self.scale**2
        return float(np.sum(weights @ squares))
