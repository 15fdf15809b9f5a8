"""Principal coordinates that never lengthen a distance, and cells: groups of near rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from mmpca_dist.blas import alone, single_blas_thread
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.options import MAX_FIRST, MAX_SECOND
from mmpca_dist.passes.units import blocks, rows_within

FIRST_SHARE, SECOND_SHARE = 0.6, 0.93
"""Shares of the variance that the coordinates of the matrix products, and those of the second bound, explain."""
FEWEST_FIRST = 32
"""Coordinates that the matrix products have at least, where rows have more than `SMALL` columns: a product costs as
much again with every 32, and fewer let through so many candidates that the second bound costs more than they save."""
SMALL = 40
"""Rows of up to so many columns are only rotated: nothing is left over."""
CANCELS = 0.01
"""Share of a row's square that must be missed for it to be known from the difference of two squares."""
BALL = 256.0
"""Coordinates are brought into a ball of this radius, which lengthens no distance: rows far from all that was sampled
neither overflow single precision nor spoil the bounds of the others."""
FAR, LARGEST_SCALE = 2.0**256, 2.0**500
"""Scaled columns are clipped to +-FAR before anything is squared: a projection onto a convex set, like that into the
ball, so it lengthens no distance. Rows are below 1e150 (`layout.LARGEST_VALUE`) and the scale is at most 2^500: a
scaled column is below 1e301, and a sum of d clipped squares below d 2^512. So no coordinate is infinite or NaN."""
TYPICAL = 0.9
"""Share of the sample that is to lie in the unit ball."""
LARGEST_EIGENPROBLEM = 1536
"""Beyond so many rows and columns of the sample, its axes come from a randomized decomposition."""
MAX_CELLS, ITERATIONS = 8192, 8
SAMPLE_PER_CELL = 32
"""Rows of the sample a cell; more rows do not make better cells."""


@dataclass(frozen=True)
class Frame:
    """Maps rows to coordinates that never lengthen a distance."""

    centre: NDArray[np.float64]  # (d,)
    axes: NDArray[np.float64]  # (d, k): orthonormal columns, those of largest variance first
    first: int  # how many axes the matrix products use
    scale: float  # a power of two that brings most of the sample's rows into the unit ball
    deviations: NDArray[np.float64] | None = None  # (d,): what columns are divided by before anything else

    @property
    def complete(self) -> bool:
        """Whether the coordinates of the products hold all of a row."""
        return self.first == len(self.centre)

    @property
    def width(self) -> int:
        """Coordinates of the products."""
        return self.first + (not self.complete)

    @property
    def tail_width(self) -> int:
        """Coordinates of the second bound; none where the first is complete."""
        return 0 if self.complete else self.axes.shape[1] + (self.axes.shape[1] < len(self.centre))

    def rows(self, X: NDArray) -> NDArray:
        """Return rows as they are compared: standardised if asked, in single precision if that loses nothing."""
        if self.deviations is not None:
            return np.asarray(X, np.float64) / self.deviations
        return np.ascontiguousarray(X, dtype=row_type(X.dtype))

    def coordinates(self, rows: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return coordinates for the products, (n, width), and for the second bound, (n, tail_width).

        The last of each is the length of what the axes before it miss, unless they miss nothing. What lies outside
        the ball of radius `BALL` is brought to its surface.
        """
        centred = rows - self.centre
        centred *= self.scale
        np.clip(centred, -FAR, FAR, out=centred)
        with single_blas_thread():
            along = centred @ self.axes
            if self.complete:
                return _into_ball(along), np.empty((len(rows), 0))
            missed = self._missed(centred, along)
        later = along[:, self.first :]
        beyond = np.sqrt(np.einsum("ij,ij->i", later, later) + missed**2)
        parts = [along, missed[:, None]] if self.axes.shape[1] < len(self.centre) else [along]
        first = np.concatenate([along[:, : self.first], beyond[:, None]], axis=1)
        return _into_ball(first), _into_ball(np.concatenate(parts, axis=1))

    def _missed(self, centred: NDArray[np.float64], along: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the length of what the axes miss of every row."""
        if self.axes.shape[1] == len(self.centre):
            return np.zeros(len(centred))
        squares = np.einsum("ij,ij->i", centred, centred)
        missed = np.maximum(squares - np.einsum("ij,ij->i", along, along), 0)
        # Where little is missed the difference of squares would cancel; that of the rows does not.
        little = missed < CANCELS * squares
        if little.any():
            rest = centred[little]
            rest -= along[little] @ self.axes.T
            missed[little] = np.einsum("ij,ij->i", rest, rest)
        return np.sqrt(missed)

    @property
    def rounding(self) -> float:
        """The rounding error of double precision in the coordinates' distance of two rows."""
        return 64 * len(self.centre) * np.sqrt(self.axes.shape[1] + 1) * np.finfo(np.float64).eps * BALL


def _into_ball(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move points outside the ball to its nearest ones; as for any convex set, no two end up farther apart."""
    norms = np.sqrt(np.einsum("ij,ij->i", points, points))
    outside = norms > BALL
    if outside.any():
        points[outside] *= (BALL / norms[outside])[:, None]
    return points


def row_type(dtype: np.dtype) -> np.dtype:
    """Return the float type that holds such numbers exactly (64-bit integers up to 2^53)."""
    single = dtype == np.float32 or dtype.itemsize <= 2
    return np.dtype(np.float32 if single else np.float64)


def relative_rounding(n_features: int) -> float:
    """Return how much larger, relatively, the defined distance may be than the true one."""
    return 1e-12 + n_features * np.finfo(np.float64).eps


def train_frame(sample: NDArray, deviations: NDArray[np.float64] | None = None) -> Frame:
    """Return the frame of the principal axes of sampled rows; any frame gives the same neighbours, this one soon."""
    rows = np.asarray(sample, np.float64) if deviations is None else sample / deviations
    centre = rows.mean(axis=0)
    rows = rows - centre
    _, exponent = np.frexp(np.abs(rows).max(initial=0.0))
    rows = np.ldexp(rows, -exponent)  # so that no square overflows or vanishes
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    typical = float(np.quantile(norms, TYPICAL, method="higher")) or float(norms.max())
    scale = float(np.ldexp(1.0, -exponent - int(np.ceil(np.log2(typical))))) if typical > 0 else 1.0
    scale = min(scale, LARGEST_SCALE)
    variances, axes = _principal_axes(rows)
    total = float(np.einsum("ij,ij->", rows, rows))
    d = len(centre)
    if d <= SMALL or total == 0:
        first = min(SMALL, axes.shape[1])
        return Frame(centre, np.ascontiguousarray(axes[:, :first]), first, scale, deviations)
    explained = np.cumsum(variances) / total
    first = 1 + int(np.searchsorted(explained, FIRST_SHARE))
    first = min(max(-(-(first + 1) // 8) * 8 - 1, FEWEST_FIRST - 1), MAX_FIRST, d, axes.shape[1])
    second = min(max(1 + int(np.searchsorted(explained, SECOND_SHARE)), first), MAX_SECOND, axes.shape[1])
    if first >= d - 1:
        first = second = min(d, axes.shape[1])
    return Frame(centre, np.ascontiguousarray(axes[:, :second]), first, scale, deviations)


def _principal_axes(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scatter along, and the orthonormal columns of, the leading principal axes of centred rows."""
    n, d = rows.shape
    n_axes = min(MAX_SECOND, d)
    with single_blas_thread():
        if d <= LARGEST_EIGENPROBLEM:
            values, vectors = scipy.linalg.eigh(rows.T @ rows, check_finite=False)
            return values[::-1][:n_axes], np.ascontiguousarray(vectors[:, ::-1][:, :n_axes])
        _, values, axes = randomized_svd(rows, min(n_axes, n), n_iter=2, random_state=0)
        return values**2, np.ascontiguousarray(np.linalg.qr(axes.T)[0])


@dataclass(frozen=True)
class Cells:
    """Centres of the cells in a frame, in an order that keeps neighbours together; single precision."""

    frame: Frame
    centres: NDArray[np.float32]  # (k, width)
    tail_centres: NDArray[np.float32]  # (k, tail_width)

    def assign(self, coordinates: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the cell of every row, one of the nearest; which one of them matters for speed alone."""
        z = coordinates.astype(np.float32)
        halves = 0.5 * np.einsum("ij,ij->i", self.centres, self.centres)
        with np.errstate(invalid="ignore"):  # OpenBLAS multiplies what its buffers held before, too
            product = z @ self.centres.T
        return np.argmin(np.subtract(halves, product, out=product), axis=1)

    def locate(self, X: NDArray) -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]:
        """Return the cell of every row, and coordinates relative to its centre, (n, width) and (n, tail_width)."""
        frame = self.frame
        cell = np.empty(len(X), np.intp)
        z, tail = (np.empty((len(X), width), np.float32) for width in (frame.width, frame.tail_width))
        for block in blocks(len(X), block_rows(X.shape[1])):
            along, along_tail = frame.coordinates(frame.rows(X[block]))
            cell[block] = own = self.assign(along)
            z[block] = along - self.centres[own]
            if tail.size:
                tail[block] = along_tail - self.tail_centres[own]
        return cell, z, tail


def block_rows(n_features: int) -> int:
    """Return how many rows are brought to coordinates at a time."""
    return rows_within(LIMITS.layout_block_bytes, 8 * n_features, LIMITS.layout_block_rows)


def group_radii(coordinates: NDArray[np.float32], starts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return upper bounds on the norms of groups of rows: the largest norm, raised by more than its rounding."""
    squares = np.einsum("ij,ij->i", coordinates, coordinates, dtype=np.float64)
    return np.sqrt(np.maximum.reduceat(squares, starts)) * (1 + 1e-6)


def n_cells(n_rows: int) -> int:
    """Return how many cells so many rows are divided into."""
    return int(np.clip(n_rows // LIMITS.rows_per_cell, 1, MAX_CELLS))


def train_cells(frame: Frame, sample: NDArray, count: int) -> Cells:
    """Return ``count`` cells from k-means on sampled rows, the same for the same sample."""
    z, tail = frame.coordinates(frame.rows(sample))
    single = z.astype(np.float32)
    distinct = len(np.unique(single, axis=0)) if len(single) < 10 * count else len(single)
    count = max(1, min(count, len(single), distinct))
    # One thread, so that sums do not depend on their number; cells that stay empty, after many equal rows, do no harm.
    with single_blas_thread(), threadpool_limits(1, "openmp"), alone():
        means = KMeans(count, n_init=1, init="random", max_iter=ITERATIONS, random_state=0).fit(single)
    order = _along_the_tree(means.cluster_centers_, np.arange(count))
    owner = np.argsort(order)[means.labels_]
    sizes = np.maximum(np.bincount(owner, minlength=count), 1)[:, None]
    tails = np.stack([np.bincount(owner, column, count) for column in tail.T], 1) / sizes if tail.size else tail[:count]
    centres = np.ascontiguousarray(means.cluster_centers_[order], dtype=np.float32)
    return Cells(frame, centres, np.ascontiguousarray(tails.reshape(count, -1), dtype=np.float32))


def _along_the_tree(points: NDArray, group: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order some points by halving them again and again along their widest coordinate."""
    if len(group) <= 2:
        return group
    widest = int(np.argmax(np.ptp(points[group], axis=0)))
    ordered = group[np.argsort(points[group, widest], kind="stable")]
    return np.concatenate([_along_the_tree(points, half) for half in np.split(ordered, [len(ordered) // 2])])
