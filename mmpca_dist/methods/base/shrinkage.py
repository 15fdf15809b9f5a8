"""The shrinkage of a scatter under which rows that were held out are most likely, from moments of folds.

It is Gaussian, with (1 - g) S + g tr(S) / d I as covariance and the means of the rows that train. All g share the
eigenvectors of S, so that its eigenvalues, and the squares of rows held out along them, suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.named_scatters import position_of
from mmpca_dist.statistics.cells import CellMoments
from mmpca_dist.statistics.class_weights import class_factors
from mmpca_dist.statistics.fold_moments import training_moments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working_statistics import EPS, ColumnStatistics, Statistics, tall_statistics

FOLDS = 5
TRIED = np.logspace(-6, 0, 121)
"""Values of g: neighbours differ by an eighth, far less than estimates from other rows do."""
Moments = ClassMoments | CellMoments | Sequence[ClassMoments]
"""Of all rows, or of each of several parts."""
Name = tuple[str, str, bool]
"""A scatter as `terms_of` names it, and whether columns are standardised."""


def chosen_shrinkage(shrinkage: Any, statistics: Statistics, names: Sequence[Name]) -> float:
    """Return g as it is given, or that of the folds for the one name; raise InputError where these are not known."""
    if any(name not in statistics.shrinkages for name in names):
        raise InputError("shrinkage='auto' takes moments of folds: fit the rows themselves, or give a number.")
    return statistics.shrinkages[names[0]] if names else float(shrinkage)


def statistics_of_parts(
    moments: Moments, names: Sequence[Name], medians: Any = None, **options: Any
) -> ColumnStatistics:
    """Return the statistics of all rows with shrinkages, given moments of them or of parts, and options for both."""
    moments = moments.by_class() if isinstance(moments, CellMoments) else moments
    parts = [moments] if isinstance(moments, ClassMoments) else moments
    return with_shrinkages(tall_statistics(reduce(ClassMoments.merge, parts), medians, **options), parts, names)


def with_shrinkages(statistics: Any, parts: Sequence[ClassMoments], names: Sequence[Name]) -> Any:
    """Return statistics with the shrinkages of named scatters, given the moments of their rows by fold.

    Those of few rows are in working coordinates. Raises InputError for a single fold.
    """
    if names and len(parts) < 2:
        raise InputError("shrinkage='auto' takes moments of two folds or more that train: give it as a number.")
    with single_blas_thread():
        return replace(statistics, shrinkages={name: _best(name, statistics, parts) for name in names})


def _best(name: Name, whole: Statistics, parts: Sequence[ClassMoments]) -> float:
    losses, dimensions = np.zeros(len(TRIED)), _dimensions(whole, _alone(name, whole.moments))
    for training, held_out in zip(training_moments(parts), parts, strict=True):
        if isinstance(whole, ColumnStatistics):
            options: dict[str, Any] = {"precision": whole.precision, "class_weight": whole.class_weight}
            own = tall_statistics(training, standardize=name[2], **options)
            if whole.class_weight is not None:
                factors = class_factors(whole.class_weight, training.classes, training.counts)
                held_out = held_out.reweighted(factors)
            held_out, training = own.adjusted(held_out), own.moments
            held_out = held_out if own.scale is None else held_out.scaled(1 / own.scale)
        if name[0] == "class" and not all(_has(name[1], each) for each in (training, held_out)):
            continue
        training, held_out = _alone(name, training), _alone(name, held_out)
        values, vectors = scipy.linalg.eigh(_within(training) / training.total, check_finite=False)
        offsets = np.where(training.counts[:, None] > 0, held_out.means - training.means, 0)
        squares = _within(held_out) + (offsets * held_out.counts[:, None]).T @ offsets
        along, values = np.sum(vectors * (squares @ vectors), axis=0), np.maximum(values, 0)
        for at, g in enumerate(TRIED):
            ridge = g * values.sum() / whole.n_features
            shrunk = (1 - g) * values + ridge
            logs = np.log(shrunk).sum() + (dimensions - len(values)) * np.log(ridge)
            losses[at] += held_out.total * logs + np.sum(along / shrunk)
    return float(TRIED[np.argmin(losses)])


def _alone(name: Name, moments: ClassMoments) -> ClassMoments:
    """Return moments of which the scatter within classes is the one that is named."""
    if name[0] == "class":
        at = position_of(name[1], moments.classes, moments.counts, moments.pooled)
        return moments.select(np.asarray([at], np.intp))
    one = np.zeros(len(moments.counts), np.intp)
    return moments.merged(one, one[:1]) if name[0] == "total" else moments


def _has(label: str, moments: ClassMoments) -> bool:
    return label in map(str, moments.classes[moments.counts > 0].tolist())


def _within(moments: ClassMoments) -> NDArray[np.float64]:
    return moments.scatter(np.ones(len(moments.counts)))


def _dimensions(whole: Statistics, moments: ClassMoments) -> int:
    """Return in how many dimensions rows vary: in all columns that do, unless columns, and not few rows, leave less."""
    S, varies = _within(moments), int(np.sum(whole.moments.varies if whole.basis is None else whole.basis.any(axis=1)))
    sizes = np.sqrt(np.diagonal(S)) if whole.basis is None else np.ones(len(S))  # coordinates in it are mixed
    sizes = np.where(sizes > 0, sizes, 1.0)
    values = scipy.linalg.eigvalsh(S / sizes / sizes[:, None], check_finite=False)
    rank = int(np.sum(values > max(whole.epsilon, 10 * len(S) * EPS) * values.sum()))
    by_rows = moments.n_rows - int(np.count_nonzero(moments.counts))
    return rank if rank < min(by_rows, varies) else varies
