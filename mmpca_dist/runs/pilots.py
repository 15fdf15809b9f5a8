"""Pilots of jobs: the code of their stages, over two units of the rows, to measure what all rows will take."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, PlanError
from mmpca_dist.evaluation.engine import evaluate
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.evaluation.training import merged_moments, own_passes
from mmpca_dist.jobs.first_stages import request_of
from mmpca_dist.jobs.job import Job
from mmpca_dist.methods.base.statistics_for import class_statistics, with_sweeps
from mmpca_dist.passes.census import Census
from mmpca_dist.passes.pilot import TRIED, EnoughError, Pilot, traced
from mmpca_dist.passes.rows import Rows, fit_row_maps
from mmpca_dist.passes.schedulers import Cluster, Scheduler, telling_of_lost_connections
from mmpca_dist.passes.scratch import MemoryScratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.planning.evaluation_plan import is_measured, plan_evaluation
from mmpca_dist.planning.plan import Plan
from mmpca_dist.planning.run_plan import Measured, RunRequest, make_plan, plan_of
from mmpca_dist.runs.projection import Projector, project_rows
from mmpca_dist.runs.row_tables import RowTable
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.from_rows import take_moments
from mmpca_dist.statistics.widened_rows import filled_rows
from mmpca_dist.tables.dataset import Dataset

_TRIED_ENOUGH = suppress(EnoughError, InputError, ValueError)
"""Two units may lack what all rows have, such as a class or a column that varies; the run says what is wrong."""


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress warnings of numbers: those of two units tell nothing."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class PilotRun:
    """The pilot of a run; picklable."""

    request: RunRequest
    census: Census | None
    """None where rows are projected alone."""
    class_weight: ClassWeight = None
    formats: Sequence[str] = ()
    keep: str | Sequence[str] = ()
    moments_alone: bool = False
    weights: NDArray[np.float64] | None = None
    """Of the class scatters that moments alone keep, as `take_moments` has them."""

    def measure(self) -> Measured:
        """Make the passes of the run over two units of its rows, and measure them."""
        request, pilot = self.request, Pilot()
        with traced(), _quietly():
            dataset, tasks = fitted_maps(request.dataset), Tasks(scheduler=pilot, on_pass=pilot.begins)
            if self.census is not None:
                with _TRIED_ENOUGH:
                    self._fit(Rows(dataset=dataset, census=self.census, spans=request.spans, **vars(tasks)))
            if request.widths:
                with _TRIED_ENOUGH:
                    self._project(dataset, tasks)
            pilot.end()
        seen = 1.0 if self.census is None else share_of_classes(self.census)
        return Measured(pilot.footprints, pilot.between, seen)

    def _fit(self, rows: Rows) -> None:
        request, needs = self.request, self.request.needs
        if self.moments_alone:
            take_moments(rows, precision=request.resources.precision, weights=self.weights)
            return
        if request.choice.kind == "dual":
            return  # a formula says what rows in memory take
        statistics = class_statistics(
            rows, needs, request.solver, precision=request.resources.precision, standardize=request.standardize,
            class_weight=self.class_weight,
        )  # fmt: skip
        for need in needs.swept:
            # Of a method that begins with a search, or with sweeps that went on for long, no sweeps are tried.
            with _TRIED_ENOUGH:
                statistics = with_sweeps(statistics, rows, need, [needs.n_components or 1], MemoryScratch())

    def _project(self, rows: Dataset, tasks: Tasks) -> None:
        dtype, d = np.dtype(f"f{self.request.resources.item}"), rows.unwidened.n_features
        projectors = [
            Projector(f"method-{number}", np.zeros((d, width), dtype), None, fills=np.zeros(d))
            for number, width in enumerate(self.request.widths)
        ]
        rows = rows.unwidened if rows.widening is None else filled_rows(rows.unwidened, np.zeros(d), None)
        with tempfile.TemporaryDirectory() as folder:
            tables = [
                RowTable(f"{folder}/{one.name}.{format}", format, (one.name,), tuple(one.columns))
                for one in projectors
                for format in self.formats
            ]
            tasks.begins("project", rows.n_bytes)
            project_rows(rows, projectors, tables, tasks, self.keep)


@dataclass(frozen=True)
class PilotEvaluation:
    """The pilot of an evaluation by passes over the rows; picklable."""

    request: RunRequest
    census: Census
    splits: Splits
    """One split, of which one part is held out."""
    evaluation: EvaluationRequest

    def measure(self) -> Measured:
        """Evaluate the part, as far as two units of the rows allow, and measure the passes."""
        pilot, training = Pilot(), merged_moments if self.evaluation.merged else own_passes
        with traced(), _quietly():
            rows = Rows(
                dataset=fitted_maps(self.request.dataset), census=self.census, spans=self.request.spans,
                scheduler=pilot, on_pass=pilot.begins,
            )  # fmt: skip
            with _TRIED_ENOUGH:
                for _ in evaluate(rows, self.splits, self.evaluation, training):
                    pass
            pilot.end()
        return Measured(pilot.footprints, pilot.between, share_of_classes(self.census))


def share_of_classes(census: Census) -> float:
    """Return the share of the classes that the two largest units have."""
    units = sorted(census.units, key=lambda unit: unit[0] - unit[1])[:TRIED]
    return len(np.unique(np.concatenate([unit[2] for unit in units]))) / len(census.classes)


def fitted_maps(dataset: Dataset) -> Dataset:
    """Return a data set with its row maps, fitted to a sample of no rows that has the size of theirs, if they are not.

    What maps take depends on the size of their sample alone.
    """
    if dataset.mapped is None or dataset.mapped.fits is not None:
        return dataset

    def sample(source: Dataset, count: int, seed: int) -> Any:
        values = np.random.default_rng(seed).standard_normal((min(count, source.n_rows), source.n_features))
        values = values.astype(source.dtype if source.dtype.kind == "f" else np.float32)
        return scipy.sparse.csr_array(values) if source.sparse else values

    maps = dataset.mapped.maps
    return dataset.unmapped.with_maps(maps, fit_row_maps(dataset, sample))


def planned_by_pilot(job: Job, request: RunRequest) -> Plan:
    """Return the plan of a run by its pilot, which little data does without, and what is far too large."""
    floor, config = make_plan(request), job.config
    if floor.memory > floor.memory_limit or request.n_units <= TRIED:
        return floor
    formats = tuple(dict.fromkeys(config.project.format))
    pilot = PilotRun(request, job.census, config.class_weight, formats, config.project.keep)
    return make_plan(request, measured(job.scheduler, pilot))


def planned_evaluation(job: Job, evaluation: EvaluationRequest) -> Plan:
    """Return the plan of an evaluation; passes over much data have a pilot of one part held out."""
    request = request_of(job)
    floor = plan_evaluation(request, evaluation)
    if floor.memory > floor.memory_limit or evaluation.in_memory or not is_measured(request, evaluation):
        return floor
    one = job.splits.only(0)
    # The last part, before which most train, if those before it do; all of them where one pass takes medians for all.
    alone = one if request.needs.medians else replace(one, held_out=one.held_out[-1:])
    pilot = PilotEvaluation(request, job.census, alone, replace(evaluation, intervals=False))
    return plan_evaluation(request, evaluation, measured(job.scheduler, pilot))


def plan_of_pass(scheduler: Scheduler, pilot: PilotRun, floor: int, **others: Any) -> Plan:
    """Return the plan of a single pass by its pilot, with ``floor`` bytes or more."""
    request, found = pilot.request, Measured([], 0)
    if request.n_units > TRIED:
        found = measured(scheduler, pilot)
    return plan_of(request, found.footprints, max(floor, found.memory(request.resources.process_threads)), **others)


def measured(scheduler: Scheduler, pilot: PilotRun | PilotEvaluation) -> Measured:
    """Return what a pilot measures, in this process or on one worker of the cluster.

    Raises `PlanError` where the worker dies of it, and `ClusterError` where the scheduler goes.
    """
    if not isinstance(scheduler, Cluster):
        return pilot.measure()
    from distributed import KilledWorker

    try:
        with telling_of_lost_connections():
            return scheduler.client.submit(pilot.measure, pure=False, key=f"{scheduler.label}pilot").result()
    except KilledWorker as error:
        raise PlanError(
            f"A worker died of a pilot over two reading units, with {pilot.request.resources.memory_limit >> 20} MiB "
            "a worker. Raise compute.memory_limit, or write smaller chunks (mmpca ingest)."
        ) from error
