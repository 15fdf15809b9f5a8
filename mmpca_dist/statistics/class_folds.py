"""Folds of labelled rows: the rows of every class are dealt in turn, so that each fold has its share of each class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import spans_of
from mmpca_dist.statistics.census import count_labels
from mmpca_dist.statistics.rows import Rows


@dataclass(frozen=True)
class ClassFolds:
    """The fold of a row is its number within its class, modulo ``n_folds``.

    Attributes
    ----------
    n_folds : int
    edges : int array of shape (chunks,)
        The first row of each chunk.
    before : int array of shape (chunks, C)
        How many rows of each class come before it.
    """

    n_folds: int
    edges: NDArray[np.int64]
    before: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows, n_folds: int) -> Self:
        """Return the folds of rows, after a pass over their labels."""
        spans = spans_of(rows.dataset.chunk_edges)
        census = count_labels(rows.dataset, spans, replace(rows, progress=None, checkpoint=None))
        units = sorted(census.units, key=lambda unit: unit[0])
        counts = np.zeros((len(units), len(rows.census.classes)), np.int64)
        for chunk, (_, _, labels, numbers) in zip(counts, units, strict=True):
            chunk[np.searchsorted(rows.census.classes, labels)] = numbers
        return cls(n_folds, np.asarray([unit[0] for unit in units], np.int64), np.cumsum(counts, axis=0) - counts)

    def of_rows(self, codes: NDArray[np.intp], start: int) -> NDArray[np.int64]:
        """Return the folds of rows from ``start``, where a chunk begins, given the positions of their classes."""
        return (numbers_within(codes) + self.before[np.searchsorted(self.edges, start)][codes]) % self.n_folds


def numbers_within(codes: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the number of each row among those of its class, from 0."""
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.searchsorted(sorted_codes, sorted_codes)
    return numbers
