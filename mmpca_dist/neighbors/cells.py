"""Cells: groups of near rows, by k-means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.principal_coordinates import Frame

MOST_CELLS = 8192
SAMPLE_PER_CELL = 32
"""Rows of the sample a cell; more rows do not make better cells."""
ITERATIONS = 8


@dataclass(frozen=True)
class Cells:
    """Centres of the cells in a frame, in an order that keeps neighbours together; single precision.

    Attributes
    ----------
    centres : array of shape (k, width)
    tail_centres : array of shape (k, tail_width)
    """

    frame: Frame
    centres: NDArray[np.float32]
    tail_centres: NDArray[np.float32]

    def assign(self, coordinates: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the cell of every row, one of the nearest; which one of them matters for speed alone."""
        z = coordinates.astype(np.float32)
        halves = 0.5 * np.einsum("ij,ij->i", self.centres, self.centres)
        with threadpool_limits(1):
            product = z @ self.centres.T
            return np.argmin(np.subtract(halves, product, out=product), axis=1)


def n_cells(n_rows: int) -> int:
    """Return how many cells so many rows are divided into."""
    return int(np.clip(n_rows // LIMITS.rows_per_cell, 1, MOST_CELLS))


def train_cells(frame: Frame, sample: NDArray, count: int) -> Cells:
    """Return ``count`` cells from k-means on sampled rows, the same for the same sample."""
    z, tail = frame.coordinates(frame.rows(sample))
    single = z.astype(np.float32)
    distinct = len(np.unique(single, axis=0)) if len(single) < 10 * count else len(single)
    count = max(1, min(count, len(single), distinct))
    # One thread, so that sums do not depend on their number; cells that stay empty, after many equal rows, do no harm.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = KMeans(count, n_init=1, init="random", max_iter=ITERATIONS, random_state=0).fit(single)
    order = _along_the_tree(means.cluster_centers_)
    owner = np.argsort(order)[means.labels_]
    sizes = np.maximum(np.bincount(owner, minlength=count), 1)[:, None]
    tails = np.stack([np.bincount(owner, column, count) for column in tail.T], 1) / sizes if tail.size else tail[:count]
    centres = np.ascontiguousarray(means.cluster_centers_[order], dtype=np.float32)
    return Cells(frame, centres, np.ascontiguousarray(tails.reshape(count, -1), dtype=np.float32))


def _along_the_tree(points: NDArray) -> NDArray[np.intp]:
    """Order points by halving them again and again along their widest coordinate."""
    finished: list[NDArray[np.intp]] = []
    waiting = [np.arange(len(points))]
    while waiting:
        group = waiting.pop()
        if len(group) <= 2:
            finished.append(group)
            continue
        widest = int(np.argmax(np.ptp(points[group], axis=0)))
        ordered = group[np.argsort(points[group, widest], kind="stable")]
        waiting += [ordered[len(ordered) // 2 :], ordered[: len(ordered) // 2]]
    return np.concatenate(finished)
