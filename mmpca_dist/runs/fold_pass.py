"""Passes of a run that serve folds of its rows as well: of the reduction, and of the projection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce

from mmpca_dist.belonging.held_out import Counts, HeldOutScores
from mmpca_dist.evaluation.splits import PartSizes, Splits
from mmpca_dist.evaluation.training import SplitMoments, moments_by_fold, scatters_of_parts
from mmpca_dist.jobs import records
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.stored_arrays import load_value
from mmpca_dist.jobs.stored_belonging import FOLDS, HELD_OUT
from mmpca_dist.passes.rows import Rows
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working_statistics import ColumnStatistics, tall_statistics


def shares_reduction(job: Job, parts: PartSizes, merges: bool) -> bool:
    """Tell whether moments of folds, which ``merges``, serve the run as well: all that it needs follows from sums."""
    needs, d, n_classes = job.config.needs(), job.dataset.n_features, parts.counts.shape[1]
    if not merges or needs.medians or needs.searches or needs.swept or job.config.dataset.predicts:
        return False
    if scatters_of_parts(parts, d, needs.scatters) == parts.counts[0].size:
        return True
    return use_pooled(n_classes, d) and not needs.scatters and job.config.class_weight is None


def shares_projection(job: Job, shared: bool) -> bool:
    """Tell whether rows are scored as they are projected, where scorers are there by then."""
    return shared and bool(job.config.projected) and job.dataset.widening is None


@dataclass(frozen=True)
class FoldPass(ABC):
    """What a run learns of rows by models of the other folds, from passes that it makes in any case."""

    job: Job
    splits: Splits

    @property
    @abstractmethod
    def merges(self) -> bool:
        """Whether models follow from merged moments of folds."""

    @abstractmethod
    def fit(self, rows: Rows, folds: SplitMoments) -> list[str]:
        """Store models for each fold as `FOLDS`, and return the name of the output; none where there are none."""

    @abstractmethod
    def scoring(self) -> HeldOutScores:
        """Return what scores rows by the models that are stored."""

    @property
    def shares_reduction(self) -> bool:
        """Whether the reduction is of folds."""
        return shares_reduction(self.job, self.splits, self.merges)

    def reduce(self) -> tuple[ColumnStatistics, list[str]]:
        """Return the statistics of all rows from a pass for the moments of folds, whose models are stored."""
        rows, config = self.job.rows(records.REDUCE), self.job.config
        folds = self.moments(rows)
        whole = reduce(ClassMoments.merge, folds.parts)
        statistics = tall_statistics(whole, {}, precision=config.precision, class_weight=config.class_weight)
        return statistics, self.fit(rows, folds)

    def moments(self, rows: Rows) -> SplitMoments:
        """Return the moments of the folds, from a pass over the rows."""
        parts, config = self.splits, self.job.config
        kept = scatters_of_parts(parts, rows.dataset.n_features, config.needs().scatters)
        return moments_by_fold(rows, parts, precision=config.precision, pooled=kept < parts.counts[0].size)

    def held_out(self) -> HeldOutScores | None:
        """Return what scores rows while these are projected, where the reduction has left the models."""
        shared = FOLDS in self.job.results.of(records.REDUCE)["outputs"]
        return self.scoring() if shares_projection(self.job, shared) else None

    def counted(self, rows: Rows) -> Counts | None:
        """Return the counts of scores, after a pass where the projection has left none; None without models."""
        done = self.job.results
        if FOLDS not in done.of(records.REDUCE)["outputs"]:
            return None
        if HELD_OUT in done.of(records.PROJECT)["outputs"]:
            counts: Counts = load_value(self.job.run, done.of(records.PROJECT), HELD_OUT)
            return counts
        return self.scoring().over(rows)
