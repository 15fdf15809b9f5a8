"""Queries: the rows of a segment, a sample of them, or other rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.neighbors.cells import Cells
from mmpca_dist.neighbors.layout import Layout
from mmpca_dist.neighbors.scratch import Scratch

FEW_CLASSES = 3
"""With so few classes each faces the others in matrix products of its own, which leave out pairs within the class; with
more, small products would cost more than leaving out saves."""


@dataclass(frozen=True)
class Queries:
    """Queries grouped by cell, and by class within it.

    Attributes
    ----------
    x, z, tail, codes, rows, positions
        Rows, coordinates relative to the centres of their cells, class codes, row numbers, and positions in the
        layout (-1 for rows from elsewhere), one a query.
    starts : int array of shape (g + 1,)
        Where groups begin.
    cell : int array of shape (g,)
    radii, tail_radii : arrays of shape (g,)
        Bounds on the norms of the coordinates.
    """

    x: NDArray
    z: NDArray[np.float32]
    tail: NDArray[np.float32]
    codes: NDArray[np.int64]
    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    cell: NDArray[np.intp]
    radii: NDArray[np.float64]
    tail_radii: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)

    def blocks(self, n_classes: int) -> NDArray[np.int64]:
        """Return the stretches for `kernels.Asking`, sorted by class: group, start, stop, class or -1."""
        groups = np.arange(len(self.cell))
        if n_classes > FEW_CLASSES:
            return np.stack([groups, self.starts[:-1], self.starts[1:], np.full(len(groups), -1)], axis=1)
        group = np.repeat(groups, np.diff(self.starts))
        key, first, count = np.unique(self.codes * len(groups) + group, return_index=True, return_counts=True)
        return np.stack([key % len(groups), first, first + count, key // len(groups)], axis=1)


def queries_of(layout: Layout, scratch: Scratch, first: int, last: int, chosen: NDArray[np.int64] | None) -> Queries:
    """Return the rows of segments ``first`` to ``last``, or those whose numbers are in ``chosen`` (sorted)."""
    parts = [_rows_of(layout, scratch, segment, chosen) for segment in range(first, last)]
    x, z, tail, rows, positions, piece, codes = (
        np.concatenate(arrays) if len(arrays) > 1 else arrays[0] for arrays in zip(*parts, strict=True)
    )
    pieces, starts = np.unique(piece, return_index=True)
    return Queries(
        x, z, tail, codes, rows, positions, np.append(starts, len(rows)).astype(np.int64),
        layout.cell[pieces], layout.radii[pieces], layout.tail_radii[pieces],
    )  # fmt: skip


def _rows_of(layout: Layout, scratch: Scratch, segment: int, chosen: NDArray[np.int64] | None) -> tuple[NDArray, ...]:
    piece, codes = membership(layout, segment)
    names = ("x", "z", "tail", "rows")
    positions = np.arange(*layout.positions(segment))
    if chosen is None:
        return (*scratch.get(f"segment-{segment}", names), positions, piece, codes)
    (rows,) = scratch.get(f"segment-{segment}", ("rows",))
    wanted = np.flatnonzero(is_among(rows, chosen))
    taken = scratch.take(f"segment-{segment}", names, wanted)
    return (*taken, positions[wanted], piece[wanted], codes[wanted])


def membership(layout: Layout, segment: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the piece and the class code of every position of a segment."""
    first, last = layout.segments[segment], layout.segments[segment + 1]
    counts = np.diff(layout.classes[first:last], axis=1)
    n_classes = counts.shape[1]
    piece = np.repeat(np.arange(first, last), counts.sum(axis=1))
    codes = np.repeat(np.tile(np.arange(n_classes), len(counts)), counts.ravel())
    return piece, codes


def is_among(rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows are in a sorted array."""
    found = np.searchsorted(chosen, rows)
    return (found < len(chosen)) & (chosen[np.minimum(found, len(chosen) - 1)] == rows)


def queries_from(cells: Cells, X: NDArray, codes: NDArray[np.int64]) -> Queries:
    """Return rows that are not in the layout as queries, numbered as they come (but grouped)."""
    frame = cells.frame
    x = frame.rows(X)
    along, along_tail = frame.coordinates(x)
    cell = cells.assign(along)
    order = np.lexsort((codes, cell))
    z = (along - cells.centres[cell]).astype(np.float32)[order]
    tail = (along_tail - cells.tail_centres[cell]).astype(np.float32)[order] if along_tail.size else \
        np.empty((len(x), 0), np.float32)  # fmt: skip
    groups, starts = np.unique(cell[order], return_index=True)
    radii = [
        np.sqrt(np.maximum.reduceat(np.einsum("ij,ij->i", a, a, dtype=np.float64), starts)) * (1 + 1e-6)
        for a in (z, tail)
    ]
    ends = np.append(starts, len(x)).astype(np.int64)
    nowhere = np.full(len(x), -1)
    return Queries(x[order], z, tail, codes[order], order.astype(np.int64), nowhere, ends, groups, *radii)
