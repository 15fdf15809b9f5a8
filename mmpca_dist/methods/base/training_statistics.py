"""Statistics of the rows that train while one fold after the other is held out."""

from __future__ import annotations

from collections.abc import Iterator

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.statistics_for import statistics_for
from mmpca_dist.passes.folds import folds_of
from mmpca_dist.passes.rows import Rows, collect_rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.coordinates import SpanStatistics, Statistics, tall_statistics
from mmpca_dist.statistics.fold_moments import class_fold_moments, training_moments
from mmpca_dist.statistics.moments import use_pooled
from mmpca_dist.tables.labels import encode
from mmpca_dist.tables.readers.memory import rows_in_memory


def training_statistics(rows: Rows, n_folds: int, needs: Needs, whole: Statistics) -> Iterator[Statistics] | None:
    """Return what is needed of the rows that train, fold by fold, given the statistics of all rows.

    Moments of the folds come from one pass where they suffice; else rows are taken into memory. None where there are
    too many of them.
    """
    if _moments_suffice(rows, n_folds, needs, whole):
        return _from_moments(rows, n_folds, whole)
    if isinstance(whole, SpanStatistics) or rows.dataset.n_bytes <= LIMITS.direct_bytes:
        return _from_rows(rows, n_folds, needs, whole)
    return None


def _moments_suffice(rows: Rows, n_folds: int, needs: Needs, whole: Statistics) -> bool:
    dataset, census = rows.dataset, rows.census
    if needs.searches or needs.swept or needs.medians or whole.approximation is not None:
        return False
    training = dataset.n_rows - -(-dataset.n_rows // n_folds) - len(census.classes)  # at least
    return training >= dataset.n_features and not use_pooled(len(census.classes) * n_folds, dataset.n_features)


def _from_moments(rows: Rows, n_folds: int, whole: Statistics) -> Iterator[Statistics]:
    parts = class_fold_moments(rows, folds_of(rows, n_folds), precision=whole.precision)
    for moments in training_moments(parts):
        yield tall_statistics(moments, None, precision=whole.precision, standardize=whole.scale is not None)


def _from_rows(rows: Rows, n_folds: int, needs: Needs, whole: Statistics) -> Iterator[Statistics]:
    X, y = collect_rows(rows.dataset, rows.spans, rows)
    folds = folds_of(rows, n_folds).of_rows(encode(y, rows.census.classes, rows.dataset.uri), 0)
    for fold in range(n_folds):
        part = rows_in_memory(X[folds != fold], y[folds != fold], rows.dataset.uri)
        yield statistics_for(
            Rows.of(part, Threads(), scratch=rows.scratch), needs, SolverOptions(), precision=whole.precision,
            standardize=whole.scale is not None,
        )  # fmt: skip
