"""Blocks of rows less a centre, over scales, that sweeps multiply with vectors; CSR rows are not made dense."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.tables.batch import Batch

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CentredRows:
    """A block of n rows less a centre, over scales: (x - centre) / scale. CSR rows are not made dense."""

    X: Any  # array (n, d), already centred and scaled, or CSR matrix, as it is stored
    centre: Array | None = None  # (d,), for CSR rows
    scale: Array | None = None  # (d,), for CSR rows

    def images(self, directions: Array) -> Array:
        """Return the products of vectors (b, d) with the rows, shape (b, n)."""
        if self.centre is None or self.scale is None:
            return np.asarray(directions @ self.X.T)
        vectors = directions / self.scale
        return np.asarray((self.X @ vectors.T - vectors @ self.centre).T)

    def cross(self, weights: Array) -> Array:
        """Return the sums of the rows with weights (b, n), shape (b, d)."""
        if self.centre is None or self.scale is None:
            return np.asarray(weights @ self.X)
        sums = (self.X.T @ weights.T).T - np.outer(weights.sum(axis=1), self.centre)
        return np.asarray(sums / self.scale)

    def squares(self) -> Array:
        """Return the squared length of every row, shape (n,)."""
        if self.centre is None or self.scale is None:
            return np.einsum("ij,ij->i", self.X, self.X)
        middle = self.centre / self.scale**2
        scaled = self.X.multiply(1 / self.scale).tocsr()
        squares = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel() - 2 * (self.X @ middle)
        return np.asarray(squares + self.centre @ middle)

    def scatter(self, weights: Array) -> Array:
        """Return the sum of outer products of the rows with themselves, with weights (n,) >= 0, shape (d, d)."""
        if self.centre is None or self.scale is None:
            weighted = self.X * np.sqrt(weights)[:, None]
            return np.asarray(weighted.T @ weighted)
        products = np.asarray((self.X.T @ self.X.multiply(weights[:, None]).tocsr()).toarray())
        total = np.asarray(self.X.T @ weights)
        products -= np.outer(total, self.centre) + np.outer(self.centre, total - weights.sum() * self.centre)
        return products / np.outer(self.scale, self.scale)


@dataclass(frozen=True)
class RowUnits:
    """Brings rows, as they are read, to the units of a fit: less a centre, over scales.

    In double precision, whatever that of the moments: residuals are what is left of squares when products of rows are
    subtracted, and nothing may be left of them in single precision.
    """

    centre: Array
    scale: Array | None

    def __call__(self, X: Any) -> CentredRows:
        if issparse(X):
            return CentredRows(X, self.centre, np.ones_like(self.centre) if self.scale is None else self.scale)
        rows = X.astype(np.float64)
        rows -= self.centre  # casting within the subtraction takes 1.7 times as long
        if self.scale is not None:
            rows /= self.scale
        return CentredRows(rows)

    def blocks(self, batch: Batch, size: int) -> Iterator[tuple[slice, CentredRows]]:
        """Yield the rows of a unit in blocks of at most ``size``."""
        for block in batch.blocks(size):
            yield slice(block.start - batch.start, block.stop - batch.start), self(block.X)
