"""``Job`` and ``Stage``: a run in progress, and a step of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.jobs.records import Results, StageName, StageRecord
from mmpca_dist.jobs.stored_arrays import load_fits
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.census import Census, take_census
from mmpca_dist.passes.checkpoint import Checkpoint
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.passes.tree_reduction import OnPass, PeakMemory, Tasks
from mmpca_dist.statistics.widened_rows import widened
from mmpca_dist.stores.lease import Lease
from mmpca_dist.tables.changes import Watch
from mmpca_dist.tables.dataset import Dataset, Span, make_spans
from mmpca_dist.tables.mapped_rows import MappedRows


def sizes_of(config: RunConfig, results: Results, method: str) -> list[int]:
    """Return the numbers of components of a method, ascending: as asked for, or the one that a stage has chosen."""
    choice = results.find(records.CHOOSE)
    return config.sizes if choice is None else [choice["methods"][method]["chosen"]]


@dataclass
class Job:
    """A run in progress: its inputs, its callbacks, its scheduler, and what is known of it so far."""

    inputs: Inputs
    key: str
    scheduler: Scheduler
    callback: Callback
    lease: Lease | None = None
    watch: Watch | None = None
    """The input as it was before anything of it was read."""
    census: Census | None = None
    splits: Splits | None = None
    results: Results = field(default_factory=Results)
    reused: set[str] = field(default_factory=set)
    """The stages whose results were there already."""
    current_checkpoint: Checkpoint | None = None
    """The checkpoint for the passes of the stage at work."""
    memory: PeakMemory = field(default_factory=PeakMemory)
    left_out: str = ""
    """Why an evaluation does not compare with all columns; empty where it does."""
    held: int = 0
    """Memory of this process that is no part of the work."""

    @property
    def config(self) -> RunConfig:
        return self.inputs.config

    @property
    def run(self) -> RunDirectory:
        return self.inputs.run

    @property
    def dataset(self) -> Dataset:
        """The rows, after their row maps once these are fitted, with covariates and indicators of gaps once counted."""
        rows = self.inputs.dataset
        if isinstance(rows, MappedRows) and rows.needs_fit and records.MAPS in self.results:
            fits = load_fits(self.run, self.results.of(records.MAPS), len(rows.maps))
            rows = MappedRows(rows.source, rows.maps, fits)
            self.inputs = replace(self.inputs, table=rows)
        count = self.results.find(records.COUNT)
        if count is None:
            return rows
        gaps = (count["missing"], count["means"]) if "missing" in count else ()
        return widened(rows, *map(np.asarray, gaps))

    def sizes(self, method: str) -> list[int]:
        """Return the numbers of components of a method, ascending: as asked for, or the one that was chosen."""
        return sizes_of(self.config, self.results, method)

    @property
    def largest(self) -> int:
        return max(self.sizes(method)[-1] for method in self.config.labels)

    @property
    def spans(self) -> list[Span]:
        return make_spans(self.dataset)

    def counted(self) -> Census:
        """Return the census, taken again where the stage was reused: it is a pass over labels only."""
        if self.census is None:
            self.census = take_census(self.dataset, self.spans, self.tasks())
        return self.census

    def drawn_splits(self) -> Splits:
        """Return the splits of an evaluation, which are drawn once."""
        if self.splits is None:
            rows = self.rows()
            self.splits = self.inputs.held_out.draw(rows).weighed(rows)
        return self.splits

    def rows(self, stage: str | None = None, on_pass: OnPass | None = None) -> Rows:
        """Return the rows for the passes of a stage, which reports its progress, or for other work."""
        context = vars(self.tasks(stage, on_pass))
        scratch = None if stage is None else self.run.path("scratch", stage)
        return Rows(dataset=self.dataset, census=self.counted(), spans=self.spans, scratch=scratch, **context)

    def tasks(self, stage: str | None = None, on_pass: OnPass | None = None) -> Tasks:
        """Return the context of the passes of a stage, which reports its progress, or of other work."""
        progress = None if stage is None else self.progress(stage)
        return Tasks(
            scheduler=self.scheduler,
            progress=progress,
            on_pass=on_pass,
            on_sweep=None if stage is None else partial(self.callback.on_sweep, stage),
            checkpoint=self.current_checkpoint,
            memory=self.memory,
        )

    @property
    def resumable(self) -> bool:
        """Whether groups of spans are kept; of little data a stage is soon repeated."""
        return self.inputs.table.n_bytes >= LIMITS.resumable_bytes

    def progress(self, stage: str) -> Callable[[int, int], None]:
        """Return a function that reports progress, and ends the work where the folder is no longer this run's."""

        def report(done: int, total: int) -> None:
            self.check_lease()
            self.callback.on_progress(stage, done, total)

        return report

    def check_lease(self) -> None:
        """Raise OutputError where the folder is no longer this run's."""
        if self.lease is not None:
            self.lease.check()

    @contextmanager
    def checkpoint(self, stage: str) -> Iterator[None]:
        """Let passes over the rows keep checkpoints until the stage is done, unless there is little data."""
        if not self.resumable:
            yield
            return
        self.run.begin_scratch(self.key)
        self.current_checkpoint = Checkpoint(self.run.path("scratch", stage, "passes"), self.inputs.table.n_bytes)
        try:
            yield
        finally:
            self.current_checkpoint = None


@dataclass(frozen=True)
class Stage:
    """A named step; its function returns the record of what it leaves."""

    name: StageName[Any]
    title: str
    function: Callable[[Job], StageRecord]
