"""Extend the class moments of a finished run by new rows, and solve its methods again."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from mmpca_dist.configuration.requests import RefreshConfig
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import AccessError, InputError, MmpcaError, OutputError, plural
from mmpca_dist.faults import Fault, render, showing
from mmpca_dist.jobs import records
from mmpca_dist.jobs.cluster import compute_on, open_scheduler, refuse_private
from mmpca_dist.jobs.counted import Counted
from mmpca_dist.jobs.directory import Generations, RunDirectory
from mmpca_dist.jobs.events import Callback, told
from mmpca_dist.jobs.finished_runs import counted, finished, fits_of, is_whole, open_run
from mmpca_dist.jobs.first_stages import resources_of
from mmpca_dist.jobs.inputs import Inputs, readable_rows
from mmpca_dist.jobs.job import Job, Stage, run_stage, sizes_of
from mmpca_dist.passes.census import check_missing_labels, count_labels
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.planning.run_plan import RunRequest
from mmpca_dist.runs import refresh_inputs
from mmpca_dist.runs.fit import REPORT, SOLVE
from mmpca_dist.runs.monitor import heed_drift
from mmpca_dist.runs.pilots import PilotRun, plan_of_pass
from mmpca_dist.statistics.costs import summary_bytes
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import Lease, held
from mmpca_dist.stores.overlaps import canonical
from mmpca_dist.tables.changes import Watch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.facts import Facts, Table
from mmpca_dist.tables.labels import unite
from mmpca_dist.tables.spans import make_spans


def refresh(config: RefreshConfig, callbacks: list[Callback] | None = None, client: Any = None) -> dict[str, Any]:
    """Extend the class moments of a run by new rows, each data set in one pass, and solve its methods again.

    The result is that of one run over all rows together, within rounding. Methods that do not follow from class
    moments are left out. A data set counts once; its name and fingerprint identify it. After a kill at any moment the
    same call continues, with the same result. Readers of the output keep the old models until the new ones are
    complete.
    """
    begin, callback = time.perf_counter(), told(callbacks)
    job = _RefreshJob(config, callback)
    with held(job.output.uri, callback.on_note) as job.lease, job.lease.cleared(job.output.discard_removed):
        job.data_sets = refresh_inputs.data_sets_of(job.current)
        new = refresh_inputs.new_arrivals(refresh_inputs.arrivals(config.new), job.data_sets)
        if new:
            job.add(new, client)
        solved = job.solve()
        number = job.output.published
    folder = job.output.folder(number) if number else None
    report = None if folder is None else folder.record(records.REPORT)
    return {
        "taken": job.data_sets[len(job.data_sets) - len(new) :],
        "solved": solved,
        "data_sets": len(job.data_sets),
        "rows": sum(entry["rows"] for entry in job.data_sets),
        "methods": job.config.labels,
        "left_out": job.left_out,
        "folder": None if folder is None else folder.uri,
        "report": report and report["html"],
        "seconds": time.perf_counter() - begin,
    }


def in_words(config: RefreshConfig, manifest: dict[str, Any]) -> str:
    """Return the result of ``refresh`` in words."""
    new, n = manifest["taken"], manifest["data_sets"]
    total = f"{n} data set{'' if n == 1 else 's'} with {manifest['rows']} rows {'is' if n == 1 else 'are'} in"
    if not manifest["solved"]:
        return f"Nothing new in {config.new}: {total}, and nothing was changed."
    names = ", ".join(entry["name"] for entry in new)
    done = f"{sum(entry['rows'] for entry in new)} rows taken up from {names}" if new else "Methods solved"
    return f"{done}: {total}. Report: {manifest['report']}"


def check_refresh(config: RefreshConfig) -> None:
    """Make the checks of ``refresh`` that need no rows, without claiming the output; raise its errors."""
    _RefreshJob(config, Callback())
    refresh_inputs.arrivals(config.new)


class _RefreshJob:
    """A refreshed run in progress: its ``base``, what identifies that (``origin``), and its own settings."""

    lease: Lease
    data_sets: list[dict[str, Any]]
    """Those in its newest statistics."""

    def __init__(self, request: RefreshConfig, callback: Callback) -> None:
        """Open a finished run; raise InputError or OutputError where it, or the output, does not serve."""
        self.request, self.callback, self.output = request, callback, Generations(storage.normalize(request.output))
        if canonical(request.run) == canonical(self.output.uri):
            raise OutputError(
                f"{self.output.uri} is the run itself. Give what is refreshed a folder of its own; the same command "
                "then goes on from there."
            )
        if not self.output.top.exists:
            self.output.top.refuse_inside()
        self.base = open_run(request.run)
        finished(self.base, records.SOLVE)
        if request.label is not None and (request.label == "none") != self.base.config.dataset.classless:
            has = "labels: leave out --no-label" if request.label == "none" else "no labels: leave out --label"
            raise InputError(f"The run in {self.base.uri} has {has}.")
        self.config, self.left_out = refresh_inputs.refreshable_config(self.base, self.output.uri)
        self.origin = storage.digest("refresh", self.base.header()["key"])
        self.output.check(self.origin, self.base.uri)

    @property
    def current(self) -> RunDirectory:
        """The folder with the newest statistics."""
        number = self.output.taken
        return self.output.folder(number) if number else self.base

    @property
    def count(self) -> Counted:
        return counted(self.current)

    def add(self, new: list[refresh_inputs.Arrival], client: Any) -> None:
        """Reduce data sets, one after the other, and merge each with the newest statistics."""
        compute = compute_on(client, self.config.compute)
        refuse_private(compute, [*(arrival.uri for arrival in new), self.request.label, self.output.uri])
        datasets = [self._open(arrival) for arrival in new]
        with ExitStack() as stack:
            shown = {dataset.uri: arrival.uri for arrival, dataset in zip(new, datasets, strict=True)}
            stack.enter_context(showing(shown))
            watches = [Watch.of(dataset.addresses) for dataset in datasets]
            for method, reason in self.left_out.items():
                self.callback.on_note(f"{method} is left out: {reason}.")
            opened = open_scheduler(compute, self.callback, self.output.top.label, client)
            scheduler = stack.enter_context(opened)
            tables = self._count_all(datasets, scheduler)
            self._plan(tables, self.config.model_copy(update={"compute": compute}))
            key = self.output.begin(self.config, self.origin, self.base.uri)
            try:
                for arrival, rows, watch in zip(new, tables, watches, strict=True):
                    self._merge(arrival, rows, watch, key, scheduler)
            except MmpcaError as error:
                # Delete the output of a refused data set; keep it after a failure of a disk or network.
                with suppress(MmpcaError):  # if that fails too, report the first error
                    if not isinstance(error, AccessError) and not self.lease.is_lost:
                        self.output.discard_unfinished()
                raise

    def _open(self, arrival: refresh_inputs.Arrival) -> Dataset:
        section, request = self.base.config.dataset, self.request
        label = None if section.uri.endswith(".npy") else section.outcome  # a file of labels is for those rows only
        uri = readable_rows(arrival.uri, self.output.top.uri, section, self.callback, fitted=self.count.of_text)
        with showing({uri: arrival.uri}):
            rows = self.count.open_like(
                uri, section, features=request.features or section.features, fits=True, weight=request.weight,
                label=None if section.classless else request.label or label, labelled=not section.classless,
            )  # fmt: skip
            return rows.with_maps(section.maps, fits_of(self.base))

    def _count_all(self, datasets: list[Dataset], scheduler: Scheduler) -> list[Rows]:
        """Count the classes of all data sets before reading any row, and check that their labels go together."""
        self.callback.on_stage_start("count")
        begin, classes, tables = time.perf_counter(), self.count.classes, []
        for number, dataset in enumerate(datasets, 1):
            spans = make_spans(dataset)
            census = count_labels(dataset, spans, Tasks(scheduler=scheduler))
            union = unite(classes, census.classes, dataset.uri)
            check_missing_labels(dataset, census, classes)
            for note in refresh_inputs.notes_on(dataset):
                self.callback.on_note(note)
            new = [repr(str(label)) for label in np.setdiff1d(census.classes, classes)]
            if new:
                listed = ", ".join([*new[:5], "..."] if len(new) > 5 else new)
                what = f"the class {listed}" if len(new) == 1 else f"{len(new)} classes ({listed})"
                self.callback.on_note(render([Fault(f"{dataset.uri} brings {what}, not seen before.")]))
            classes = union
            tables.append(Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler))
            self.callback.on_progress("count", number, len(datasets))
        self.callback.on_stage_end("count", {"seconds": time.perf_counter() - begin}, False)
        return tables

    def _plan(self, tables: list[Rows], config: RunConfig) -> None:
        """Show the plan: the largest of those of the data sets, whose moments come in turn."""
        classes = {*self.count.classes.tolist(), *(c for rows in tables for c in rows.census.classes.tolist())}
        choice = records.Results({records.CHOOSE: finished(self.current, records.CHOOSE)} if config.chooses else {})
        most = self.count.record["n_features"] if config.by_share else 0
        n_vectors = sum(most or int(sizes_of(config, choice, method)[-1]) for method in config.labels)
        pooled, resources, plans = refresh_inputs.is_pooled(self.current), resources_of(config, self.output.uri), []
        for rows in tables:
            weights = np.ones((1, len(rows.census.classes))) if pooled else None
            request = RunRequest(rows.dataset, rows.spans, rows.census.sizes, Needs(), resources)
            d = rows.dataset.n_features
            moments = summary_bytes(len(classes), d, 1 if pooled else len(classes))
            floor = 5 * moments + 5 * d * d * 8  # stored and new moments, both also over all classes, and their sum
            output = 2 * moments + n_vectors * self.count.record["n_features"] * 8
            pilot = PilotRun(request, rows.census, moments_alone=True, weights=weights)
            plans.append(plan_of_pass(rows.scheduler, pilot, floor, solver=f"dense, {d} x {d}", output=output))
        largest = max(plans, key=lambda plan: plan.memory)
        plan = replace(largest, passes=[each for plan in plans for each in plan.passes])
        self.callback.on_plan(plan)
        plan.refuse_if_too_large()

    def _merge(self, arrival: refresh_inputs.Arrival, rows: Rows, watch: Watch, key: str, scheduler: Scheduler) -> None:
        self.lease.check()
        before, number = self.current, self.output.taken + 1
        names = {"features": self.request.features, "label": self.request.label}
        data_sets = [*self.data_sets, {**asdict(arrival), "rows": rows.dataset.n_rows, **names}]
        identifying = ("name", "fingerprint", "rows", *names)
        digest = storage.digest([[entry.get(name) for name in identifying] for entry in data_sets])
        run, run_key = self.output.begin_next(self.config, digest)
        uri = f"{data_sets[0]['uri']} and {plural(len(data_sets) - 1, 'more data set')}"
        run.finish(records.COUNT, run_key, self.count.merged(rows, uri, refresh_inputs.notes_on(rows.dataset)))
        if fits := fits_of(self.base):
            run.finish(records.MAPS, run_key, refresh_inputs.maps_record(self.base, run, fits))
        if self.config.chooses:
            run.finish(records.CHOOSE, run_key, refresh_inputs.choice_record(before, self.config.labels))
        inputs = Inputs(self.config, rows.dataset, run, self.config, "run")
        job = Job(inputs, run_key, scheduler, self.callback, self.lease, watch)
        job.census = rows.census
        heed = partial(heed_drift, self.request.drift or self.config.refresh.drift, self.base)
        merge = partial(refresh_inputs.merge_rows, before, arrival, data_sets, heed)
        run_stage(job, Stage(records.REDUCE, f"Take up {arrival.name}", merge, measured=True))
        self.lease.check()
        storage.remove(run.path("scratch"))
        self.output.take(number, key)
        self.data_sets = finished(run, records.REDUCE)["taken"]

    def solve(self) -> bool:
        """Solve the methods from the newest statistics and publish the models; return False if that is already done.

        Repairs damaged models and reports.
        """
        number = self.output.taken
        run = self.output.folder(number)
        if number == self.output.published and (not number or is_whole(run, (SOLVE.name, REPORT.name))):
            return False
        count, table = self.count.record, Table()  # for the report: all rows, without access to them
        table.facts = Facts(count["uri"], count["n_rows"], count["n_features"], np.dtype(count["dtype"]))
        inputs = Inputs(self.config, table, run, self.config, "run")
        job = Job(inputs, run.header()["key"], Threads(1), self.callback, self.lease)
        choose = [records.CHOOSE] if self.config.chooses else []
        stages: list[records.StageName[Any]] = [records.COUNT, *choose, records.REDUCE]
        job.results = records.Results({stage: finished(run, stage) for stage in stages})
        for stage in (SOLVE, REPORT):
            run_stage(job, stage)
        self.lease.check()
        storage.remove(run.path("scratch"))
        if number != self.output.published:
            self.output.publish(number, self.output.top.header()["key"])
        return True
