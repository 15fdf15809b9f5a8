"""Outer products of rows, added to the scatters of class moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.units import BLOCK_ROWS, blocks, rows_within
from mmpca_dist.statistics.precision import LARGE, PANEL_ROWS


def add_outer_products(moments: Any, at: NDArray, rows: NDArray[np.float64], work: np.dtype, sign: float = 1.0) -> None:
    """Add to the scatter of each of the classes ``at``, or to sums over classes, the outer product of a row (m, d)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if moments.weights is None:
            if rows.shape[1] < LARGE:
                moments.scatters[at] += (sign * rows)[:, :, None] * rows[:, None, :]
                return
            for position, row in zip(at, rows, strict=True):
                for some in blocks(len(row), PANEL_ROWS):
                    moments.scatters[position, some] += (sign * row[some, None]) * row
            return
        for scatter, weights in zip(moments.scatters, moments.weights[:, at], strict=True):
            counting = np.flatnonzero(weights)  # of pooled parts, those of one
            weighted = rows if len(counting) == len(rows) else rows[counting]
            if not np.all(weights[counting] == 1):
                weighted = weighted * np.sqrt(weights[counting])[:, None]
            scatter += sign * _symmetric_product(weighted, work)


def _symmetric_product(rows: NDArray[np.float64], work: np.dtype) -> NDArray[np.float64]:
    """Return rows^T rows; in single precision after columns are brought to about 1 by powers of two."""
    if work == np.float64 or not len(rows):
        return rows.T @ rows
    _, exponents = np.frexp(np.maximum(rows.max(axis=0), -rows.min(axis=0)))
    exponents = np.clip(exponents, -1000, 1000)  # whose powers of two are doubles
    scaled = np.empty(rows.shape, work)
    np.multiply(rows, np.ldexp(1.0, -exponents), out=scaled, casting="same_kind")
    return np.ldexp((scaled.T @ scaled).astype(np.float64), exponents[:, None] + exponents)


def class_blocks(positions: NDArray[np.intp], moments: Any) -> Iterator[NDArray[np.intp]]:
    """Cut positions of classes so that a row, or the scatter, of each class of a block fits the panel of a pass."""
    size = BLOCK_ROWS if moments.pooled else rows_within(BLOCK_ROWS, max(moments.n_features, 1))
    return (positions[start : start + size] for start in range(0, len(positions), size))
