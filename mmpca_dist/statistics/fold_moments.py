"""Class moments of folds of the rows, from one pass, and of the rows that train while each fold is held out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.passes.census import Census
from mmpca_dist.passes.folds import Folds
from mmpca_dist.passes.rows import Rows
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.from_rows import take_moments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.outer_products import add_outer_products, class_blocks
from mmpca_dist.statistics.precision import DOUBLE
from mmpca_dist.statistics.scatters import pooled_weights
from mmpca_dist.tables.batch import Batch


def class_fold_moments(rows: Rows, folds: Folds, *, precision: str, pools: bool = True) -> list[ClassMoments]:
    """Return the class moments of each fold, from one pass over the rows.

    They are C F d^2 doubles for F folds, and so is what a task leaves; where that is too large, and this
    ``pools``, scatters are pooled over the classes. Raises InputError for rows that are not finite.
    """
    classes, n_folds = rows.census.classes, folds.n_folds
    cells = Census(np.arange(n_folds * len(classes)), np.tile(rows.census.sizes // n_folds, n_folds), ())
    keyed = rows.dataset.keyed(partial(_fold_and_class, folds=folds, classes=classes))
    is_pooled = pools and use_pooled(len(cells.classes), rows.dataset.n_features)
    weights = np.repeat(np.eye(n_folds), len(classes), axis=1) if is_pooled else None
    moments, _ = take_moments(replace(rows, dataset=keyed, census=cells), precision=precision, weights=weights)
    return moments_of_parts(moments, classes, n_folds)


def _fold_and_class(batch: Batch, folds: Folds, classes: NDArray) -> NDArray[np.intp]:
    """Return the number of each row's fold and class: fold by fold, class by class."""
    codes = batch.codes(classes)
    return folds.of_rows(codes, batch.start) * len(classes) + codes


def moments_of_parts(cells: ClassMoments, classes: NDArray, n_parts: int) -> list[ClassMoments]:
    """Return the moments of each of P parts, given those of every part and class, part by part.

    Pooled ones have the sum of the scatters of the part alone, see `weights_of_parts`.
    """
    parts = np.arange(n_parts * len(classes)).reshape(n_parts, -1)
    return [
        replace(cells.select(part).summed() if cells.pooled else cells.select(part), classes=classes) for part in parts
    ]


def weights_of_parts(trains: NDArray[np.bool_], counts: NDArray, *, by_counts: bool) -> NDArray[np.float64]:
    """Return the weights of scatters that are pooled over the classes, by part and class, shape (k, P C).

    The first P sum up the scatters of each part. H more, for m-pca0, sum up those of what trains while each of H parts
    is held out, by its class counts: as these differ from part to part, no sums of single parts would do. It is
    ``trains`` (H, P) that tells which parts train; ``counts`` (C, P) are the rows of every class in every part, or sums
    of their weights.
    """
    n_classes, n_parts = counts.shape
    sums = np.repeat(np.eye(n_parts), n_classes, axis=1)
    if not by_counts:
        return sums
    training = (counts @ trains.T).T
    return np.concatenate([sums, (trains[:, :, None] * training[:, None, :]).reshape(len(trains), -1)])


def with_counted_scatter(
    training: ClassMoments, parts: Sequence[ClassMoments], scatter: NDArray[np.float64]
) -> ClassMoments:
    """Return pooled moments of what trains, in ``parts``, with their second scatter, which class counts weight.

    ``scatter`` (d, d) is the sum of n_c G_cp over their classes c and parts p, with n_c the rows of the class in all of
    these parts.
    """
    weights = pooled_weights(training.counts)
    between = replace(training, scatters=scatter.copy()[None], weights=weights[1:])
    for part in parts:
        for block in class_blocks(np.flatnonzero(part.counts), training):
            offsets = (part.means[block] - training.means[block]) * np.sqrt(part.counts[block])[:, None]
            with single_blas_thread():
                add_outer_products(between, block, offsets, DOUBLE)
    return replace(training, scatters=np.concatenate([training.scatters, between.scatters]), weights=weights)


def training_moments(parts: Sequence[ClassMoments]) -> Iterator[ClassMoments]:
    """Yield, for each part in turn, the moments of all other parts: what trains while it is held out.

    They are merges of those before it and of those after it, fewer than 3 P merges in all. Subtracting a part from the
    whole would lose everything where it holds nearly all of a class. Next to ``parts``, about as many moments are held
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


def pair_moments(parts: Sequence[ClassMoments]) -> Iterator[ClassMoments]:
    """Yield, for each pair of parts (0, 1), (0, 2), ..., (P - 2, P - 1), the moments of all other parts.

    They are fewer than 3 merges a pair; as many moments are held at once as by `training_moments`.
    """
    yield from training_moments(parts[1:])
    before = parts[0]
    for first in range(1, len(parts) - 1):
        yield from itertools.islice(training_moments([before, *parts[first + 1 :]]), 1, None)
        before = _merged(before, parts[first])


def earlier_moments(parts: Sequence[ClassMoments]) -> Iterator[ClassMoments]:
    """Yield, for each part but the first, the moments of all parts before it, in P - 2 merges."""
    return itertools.accumulate(parts[:-1], _merged)


def _merged(left: ClassMoments, right: ClassMoments) -> ClassMoments:
    with single_blas_thread():
        return left.merge(right)
