"""Class moments of folds of the rows, from one pass, and of the rows that train while each fold is held out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.datasets.labels import encode
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.class_folds import Folds
from mmpca_dist.statistics.moments import ClassMoments, join_moments
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.sparse_moments import multiplies_stored, sparse_moments
from mmpca_dist.statistics.units import locator, read_units


def class_fold_moments(rows: Rows, folds: Folds, *, precision: str) -> list[ClassMoments]:
    """Return the class moments of each fold, from one pass over the rows.

    They are C F d^2 doubles for F folds, and so is what a task leaves. Raises InputError for rows that are not finite.
    """
    task = _ReadFolds(rows.dataset, rows.census.classes, folds, precision)
    return moments_of_parts(rows.pass_over(task, join_moments, "folds", kept=False), rows.census.classes, folds.n_folds)


@dataclass(frozen=True)
class _ReadFolds:
    """The task: the moments of every class and fold, in this order."""

    dataset: Dataset
    classes: NDArray
    folds: Folds
    precision: str

    def __call__(self, span: Span) -> ClassMoments:
        dataset, n_cells = self.dataset, len(self.classes) * self.folds.n_folds
        if multiplies_stored(dataset):
            of_sparse = sparse_moments(dataset, span, self._cells, n_cells, self.precision, None)
            if of_sparse is not None:
                return of_sparse
        adder = ChunkAdder(n_cells, dataset.n_features, dataset.dtype, self.precision)
        for start, X in read_units(dataset, span):
            adder.add(X, self._cells(dataset.read_labels(start, start + len(X)), start), locator(dataset, start))
        return adder.moments()

    def _cells(self, labels: NDArray, start: int) -> NDArray[np.intp]:
        """Return the position of each row's class and fold."""
        codes = encode(labels, self.classes, self.dataset.uri)
        return codes * self.folds.n_folds + self.folds.of_rows(codes, start)


def moments_of_parts(cells: ClassMoments, classes: NDArray, n_parts: int) -> list[ClassMoments]:
    """Return the moments of each of P parts, given those of every class and part, class by class."""
    return [
        ClassMoments(classes, cells.counts[part::n_parts], cells.means[part::n_parts], cells.scatters[part::n_parts])
        for part in range(n_parts)
    ]


def training_moments(parts: Sequence[ClassMoments]) -> Iterator[ClassMoments]:
    """Yield, for each part in turn, the moments of all other parts: what trains while it is held out.

    They are merges of those before it and of those after it, fewer than 3 P merges in all. Subtracting a part from the
    whole would lose everything where it holds nearly all of a class. Beside ``parts``, about as many moments are held
    at once.

    Source: Chan, Golub & LeVeque 1983, for the merge.
    """
    after = [parts[-1]]
    for part in reversed(parts[1:-1]):
        after.append(_merged(part, after[-1]))
    yield after.pop()
    before = parts[0]
    for part in parts[1:-1]:
        yield _merged(before, after.pop())
        before = _merged(before, part)
    yield before


def earlier_moments(parts: Sequence[ClassMoments]) -> Iterator[ClassMoments]:
    """Yield, for each part but the first, the moments of all parts before it, in P - 2 merges."""
    return itertools.accumulate(parts[:-1], _merged)


def _merged(left: ClassMoments, right: ClassMoments) -> ClassMoments:
    with single_blas_thread():
        return left.merge(right)
