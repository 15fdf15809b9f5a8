"""New rows into the class moments of a finished run, exactly, and its methods solved again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets import Dataset, make_spans, storage
from mmpca_dist.datasets.addresses import canonical, refuse_inside
from mmpca_dist.datasets.labels import unite
from mmpca_dist.datasets.lease import Lease, held
from mmpca_dist.datasets.watching import Watch
from mmpca_dist.errors import AccessError, MmpcaError, OutputError
from mmpca_dist.planning import plan_moments
from mmpca_dist.runs.arriving import Arrival, arrivals, not_taken, taken_by
from mmpca_dist.runs.cluster import connect, open_cluster, refuse_private, tell_dashboard
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.events import Callback, Callbacks
from mmpca_dist.runs.extending import Part, content_of, count_with, extendable, is_pooled, kept_choice, reduce_part
from mmpca_dist.runs.finished import classes_of, finished, is_whole, note_of_missing_labels, open_rows_for, open_run
from mmpca_dist.runs.generations import Generations
from mmpca_dist.runs.job import Job, Stage, run_stage, sizes_of
from mmpca_dist.runs.sections import Section, setting
from mmpca_dist.runs.stages import REPORT, SOLVE, resources_of
from mmpca_dist.statistics.census import check_missing_labels, count_labels
from mmpca_dist.statistics.reduction import Scheduler, Threads


class RefreshConfig(Section):
    """Which run is extended by which rows, and where to."""

    run: str = setting(
        example="runs/mine", description="Folder of the finished run whose statistics are extended; it is left as it is"
    )
    new: str = setting(
        example="inbox",
        description="The new labelled rows: a data set, or a folder (the inbox) of *.zarr, *.parquet and *.npz, of "
        "which those that are not in yet are taken up, sorted by name",
    )
    output: str = setting(
        example="runs/live", description="Folder of the refreshed run, which the same command goes on from"
    )
    features: str | None = setting(
        None, example="X", description="Array or column of the new rows; by default as for the run"
    )
    label: str | None = setting(
        None, example="species", description="Array or column of their labels; by default as for the run"
    )


def refresh(config: RefreshConfig, callbacks: list[Callback] | None = None) -> dict[str, Any]:
    """Extend the class moments of a run by new rows, each data set in one pass, and solve its methods again.

    What is found is what one run over all rows together would find, within rounding. Methods that do not follow from
    class moments are left out. A data set is taken up once, known by its name and fingerprint; after a kill at any
    moment the same call goes on, with the same result. Readers of the output keep the models before until the new
    ones are complete.

    Parameters
    ----------
    config : RefreshConfig
    callbacks : list of Callback, optional
        Who hears of plan, stages and progress.

    Returns
    -------
    dict
        ``taken`` (what is new: name, uri, fingerprint, rows), ``solved`` (whether anything was to be done),
        ``data_sets`` and ``rows`` (all that is in), ``methods``, ``left_out`` (reasons by method), ``folder`` and
        ``report`` (addresses; None where nothing was ever taken up), ``seconds``.

    Raises
    ------
    InputError
        Where the run keeps no moments that can be extended, or rows do not fit.
    OutputError
        Where the output holds something else.
    PlanError
        Where memory or disk do not suffice.

    Examples
    --------
    >>> import tempfile
    >>> from mmpca_dist import load_moments, run
    >>> from mmpca_dist.runs.refreshing import RefreshConfig, refresh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = {"methods": "pca", "n_components": 2, "output": f"{folder}/first"}
    ...     _ = run({"dataset": {"uri": "synthetic:gaussian?n=1000&d=4&seed=1"}, **settings})
    ...     new = "synthetic:gaussian?n=500&d=4&seed=2"
    ...     _ = refresh(RefreshConfig(run=f"{folder}/first", new=new, output=f"{folder}/both"))
    ...     load_moments(f"{folder}/both").n_rows
    1500
    """
    begin, callback = time.perf_counter(), Callbacks(callbacks or [])
    _refuse_output(config)
    with held(storage.normalize(config.output), callback.on_note) as lease:
        work = _Refresh(config, callback, lease)
        fresh = not_taken(arrivals(config.new), work.taken)
        if fresh:
            work.take_up(fresh)
        solved = work.solve()
    folder = work.solved_folder
    report = None if folder is None else folder.record("report")
    return {
        "taken": work.taken[len(work.taken) - len(fresh) :],
        "solved": solved,
        "data_sets": len(work.taken),
        "rows": sum(entry["rows"] for entry in work.taken),
        "methods": work.config.methods,
        "left_out": work.left_out,
        "folder": None if folder is None else folder.uri,
        "report": report and report["html"],
        "seconds": time.perf_counter() - begin,
    }


def check_refresh(config: RefreshConfig) -> None:
    """Refuse what can be refused at once, as ``refresh`` does: it opens no rows, and claims nothing.

    Raises
    ------
    InputError, OutputError
    """
    _refuse_output(config)
    base = open_run(config.run)
    finished(base, "solve")
    extendable(base, storage.normalize(config.output))
    arrivals(config.new)


def _refuse_output(config: RefreshConfig) -> None:
    output = storage.normalize(config.output)
    if canonical(config.run) == canonical(output):
        raise OutputError(
            f"{output} is the run itself. Give what is refreshed a folder of its own; the same command then goes on "
            "from there."
        )
    if not RunDirectory(output).exists:
        refuse_inside(output)


class _Refresh:
    """A refreshed run in progress."""

    def __init__(self, config: RefreshConfig, callback: Callback, lease: Lease) -> None:
        self.given, self.callback, self.lease = config, callback, lease
        self.output = Generations(storage.normalize(config.output))
        base = open_run(config.run)
        finished(base, "solve")
        self.origin = storage.digest("refresh", base.header()["key"])
        self.output.check(self.origin, base.uri)
        self.base = base
        self.config, self.left_out = extendable(base, self.output.uri)
        self.taken = taken_by(self.current, finished(self.current, "reduce"), self.count["n_rows"])

    @property
    def current(self) -> RunDirectory:
        """The folder whose statistics come next to be extended."""
        number = self.output.taken
        return self.output.folder(number) if number else self.base

    @property
    def count(self) -> dict[str, Any]:
        return finished(self.current, "count")

    def take_up(self, fresh: list[Arrival]) -> None:
        """Reduce data sets, one after the other, and merge each with what is there."""
        compute = self.config.compute
        refuse_private(compute, [*(arrival.uri for arrival in fresh), self.given.label, self.output.uri])
        watches = [Watch.of([arrival.uri]) for arrival in fresh]
        datasets = [self._open(arrival) for arrival in fresh]
        for method, reason in self.left_out.items():
            self.callback.on_note(f"{method} is left out: {reason}.")
        with open_cluster(compute) as cluster, connect(compute, cluster, self.callback.on_note) as scheduler:
            tell_dashboard(scheduler, self.callback)
            parts = self._counted(datasets, scheduler)
            self._plan(parts)
            key = self.output.begin(self.config, self.origin, self.base.uri)
            with self._discarded_where_refused():
                for arrival, part, watch in zip(fresh, parts, watches, strict=True):
                    self._take(arrival, part, watch, key, scheduler)

    def _open(self, arrival: Arrival) -> Dataset:
        section, given = self.base.config.dataset, self.given
        own = None if section.uri.endswith(".npy") else section.label  # a file of labels is those rows' alone
        dataset = open_rows_for(
            self.base,
            self.count,
            arrival.uri,
            features=given.features or section.features,
            label=given.label or own,
            labelled=True,
        )
        note = note_of_missing_labels(dataset)
        if note is not None:
            self.callback.on_note(note)
        return dataset

    def _counted(self, datasets: list[Dataset], scheduler: Scheduler) -> list[Part]:
        """Count the classes of all data sets before a row of any is read, and see that they go together."""
        self.callback.on_stage_start("count")
        begin, known, parts = time.perf_counter(), classes_of(self.count), []
        for number, dataset in enumerate(datasets):
            spans = make_spans(dataset)
            census = count_labels(dataset, spans, scheduler)
            classes = unite(known, census.classes, dataset.uri)
            check_missing_labels(dataset, census, known)
            new = [str(label) for label in np.setdiff1d(census.classes, known)]
            if new:
                self.callback.on_note(f"{dataset.uri} brings {_classes_in_words(new)}, not seen before.")
            known = classes
            parts.append(Part(dataset, spans, census))
            self.callback.on_progress("count", number + 1, len(datasets))
        self.callback.on_stage_end("count", {"seconds": time.perf_counter() - begin}, False)
        return parts

    def _plan(self, parts: list[Part]) -> None:
        d, config = self.count["n_features"], self.config
        classes = classes_of(self.count)
        for part in parts:
            classes = np.union1d(classes, part.census.classes)
        plan = plan_moments(
            [(part.dataset, part.spans, len(part.census.classes)) for part in parts],
            resources_of(config, self.output.uri),
            n_classes=len(classes),
            pooled=is_pooled(self.current),
            models=sum(self._sizes(method)[-1] for method in config.methods) * d * 8,
        )
        self.callback.on_plan(plan)
        plan.refuse_if_too_large()

    def _sizes(self, method: str) -> list[int]:
        chosen = {"choose": finished(self.current, "choose")} if self.config.chooses else {}
        return sizes_of(self.config, chosen, method)

    def _take(self, arrival: Arrival, part: Part, watch: Watch, key: str, scheduler: Scheduler) -> None:
        self.lease.check()
        before, number = self.current, self.output.taken + 1
        read_as = {"features": self.given.features, "label": self.given.label}
        taken = [*self.taken, {**asdict(arrival), "rows": part.dataset.n_rows, **read_as}]
        run, run_key = self.output.begin_next(self.config, content_of(taken))
        run.finish("count", run_key, count_with(self.count, part.census, taken))
        if self.config.chooses:
            run.finish("choose", run_key, kept_choice(before, self.config.methods))
        job = Job(self.config, part.dataset, run, run_key, scheduler, self.callback, self.lease, part.census)
        job.watch, job.watched = watch, [arrival.uri]
        run_stage(job, Stage("reduce", f"Take up {arrival.name}", partial(reduce_part, before, arrival, part, taken)))
        self.lease.check()
        storage.remove(run.path("scratch"))
        self.output.take(number, key)
        self.taken = taken

    @contextmanager
    def _discarded_where_refused(self) -> Iterator[None]:
        """Leave nothing of a data set that is refused; but what a failing disk or network stopped may go on."""
        try:
            yield
        except MmpcaError as error:
            with suppress(MmpcaError):  # where even that fails, the first reason is the one to tell
                if not isinstance(error, AccessError) and not self.lease.is_lost:
                    self.output.discard_unfinished()
            raise

    def solve(self) -> bool:
        """Solve the methods from the newest statistics and let readers have them, where that is yet to be done.

        Models and reports that are damaged are made again.
        """
        number = self.output.taken
        run = self.output.folder(number)
        if number == self.output.published and (not number or is_whole(run, (SOLVE.name, REPORT.name))):
            return False
        key = run.header()["key"]
        job = Job(self.config, _Described(self.count, self.taken), run, key, Threads(1), self.callback, self.lease)
        stages = ("count", *(["choose"] if self.config.chooses else []), "reduce")
        job.results = {name: finished(run, name) for name in stages}
        for stage in (SOLVE, REPORT):
            run_stage(job, stage)
        self.lease.check()
        storage.remove(run.path("scratch"))
        if number != self.output.published:
            self.output.publish(number, self.output.top.header()["key"])
        return True

    @property
    def solved_folder(self) -> RunDirectory | None:
        """The folder that readers are given, if there is one."""
        number = self.output.published
        return self.output.folder(number) if number else None


def _classes_in_words(names: list[str], most: int = 5) -> str:
    listed = ", ".join(repr(name) for name in names[:most]) + (", ..." if len(names) > most else "")
    return f"the class {listed}" if len(names) == 1 else f"{len(names)} classes ({listed})"


class _Described(Dataset):
    """All rows that were taken up, for the report: described, and not to be read again."""

    readable = False

    def __init__(self, count: dict[str, Any], taken: list[dict[str, Any]]) -> None:
        self.uri, self.n_rows, self.n_features = count["uri"], count["n_rows"], count["n_features"]
        self.dtype, self._taken = np.dtype(count["dtype"]), taken

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        self._refuse()

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        self._refuse()

    def read_labels(self, start: int, stop: int) -> NDArray:
        self._refuse()

    def fingerprint(self) -> str:
        return content_of(self._taken)

    def _refuse(self) -> NoReturn:
        raise TypeError(f"the rows of {self.uri} are not read again")
