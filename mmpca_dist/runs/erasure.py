"""The stage of a run that tells how right probes are on erased rows that neither they nor erasers have seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import cast

from mmpca_dist.belonging.held_out import HeldOutScores
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.erasure import count_right, named, probes_of, shares_right
from mmpca_dist.evaluation.splits import PartSizes
from mmpca_dist.evaluation.training import SplitMoments
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import solved_methods
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.stored_arrays import load_value, save_value
from mmpca_dist.jobs.stored_belonging import FOLDS
from mmpca_dist.methods.concept_eraser import ConceptEraser
from mmpca_dist.passes.rows import Rows
from mmpca_dist.runs.evaluation_scores import in_folds
from mmpca_dist.runs.fold_pass import FoldPass


def refuse_unprobed(job: Job, parts: PartSizes, kind: str) -> None:
    """Raise InputError where there are no moments of folds, or too few for eraser, probe and test."""
    if kind != "dense" or job.dataset.widening is not None or parts.n_parts < 3:
        raise InputError("it takes class moments of 3 folds or more (solver.kind: dense), no covariates, no gaps")


@dataclass(frozen=True)
class FoldProbing(FoldPass):
    """How a run tells what linear probes find in erased rows: eraser, probe and test are of different folds."""

    merges = True

    @classmethod
    def of(cls, job: Job) -> FoldProbing:
        """Return it; raise InputError where rows have no probes."""
        parts = in_folds(job).splits
        refuse_unprobed(job, parts, job.results.of(records.PLAN)["choice"]["kind"])
        return cls(job, parts)

    def fit(self, rows: Rows, folds: SplitMoments) -> list[str]:
        try:
            return [save_value(self.job.run, FOLDS, self._probes(folds))]
        except InputError:  # the stage says why
            return []

    def _probes(self, folds: SplitMoments) -> list:
        config = self.job.config
        erasers = {label: cast(ConceptEraser, config.reducer(label, None)) for label in config.erasing}
        return probes_of(folds, erasers)

    def scoring(self) -> HeldOutScores:
        return self._scoring(load_value(self.job.run, self.job.results.of(records.REDUCE), FOLDS))

    def _scoring(self, probes: list) -> HeldOutScores:
        scorers = [partial(named, probes=each) for each in probes]
        return HeldOutScores(self.splits, scorers, partial(count_right, classes=self.splits.classes))

    def keep(self) -> records.ErasureRecord:
        """Return how right probes are, after passes for what was not found on the way."""
        job, parts, rows = self.job, self.splits, self.job.rows(records.ERASURE)
        counts = self.counted(rows)
        if counts is None:
            counts = self._scoring(self._probes(self.moments(rows))).over(rows)
        probed = {"rows": int(parts.n_tested.min()) * ((parts.n_parts - 1) // 2)}
        solved = solved_methods(job.run, job.config.erasing)
        return {"right": {label: {**shares_right(counts[label], parts), **probed} for label in solved}, "why": ""}
