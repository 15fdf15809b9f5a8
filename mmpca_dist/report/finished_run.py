"""A finished run, as the sections of its report see it."""

from __future__ import annotations

from dataclasses import dataclass

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.jobs.records import Results
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.tables.dataset import Table


@dataclass(frozen=True)
class FinishedRun:
    """A run whose stages before the report are done."""

    run: RunDirectory
    config: RunConfig
    table: Table
    results: Results

    @property
    def n_rows(self) -> int:
        """How many rows its data set has."""
        return self.table.n_rows

    def model(self, label: str) -> MomentReducer:
        """Return the fitted estimator of a method."""
        return load_model(self.run.uri, label)
