"""Transform new rows by the methods of a finished run, out of core."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import DamageError, InputError, MmpcaError, OutputError
from mmpca_dist.jobs.cluster import open_scheduler, refuse_private
from mmpca_dist.jobs.directory import RunDirectory, is_claim
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.finished_runs import open_rows_for, open_run, require_method
from mmpca_dist.jobs.first_stages import resources_of
from mmpca_dist.jobs.object_records import AGAIN, GROUP, check_outputs, recorded
from mmpca_dist.jobs.records import COUNT
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.planning.plan import Plan
from mmpca_dist.planning.run_plan import plan_projection
from mmpca_dist.runs.projection import Projector, Written, make_projectors, project_rows
from mmpca_dist.settings import Section, as_list, setting
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import Lease, held
from mmpca_dist.stores.overlaps import refuse_inside
from mmpca_dist.stores.zarr_stores import reading_own
from mmpca_dist.tables.changes import Watch
from mmpca_dist.tables.dataset import Dataset, make_spans
from mmpca_dist.tables.labels import notes_on_missing_labels

RECORD = "transform.json"
"""Says that a destination is complete, and what it holds; written last."""
BEGUN = "transform.begun.json"
"""Names what is being written; gone once that is complete."""
SUFFIXES = (".zarr", ".parquet")


class TransformConfig(Section):
    """Which rows go through which methods of which run, and where to."""

    output: str = setting(example="runs/mine", description="Folder of the finished run")
    dataset: str = setting(example="new_rows.parquet", description="The rows, as for a run; they may do without labels")
    destination: str = setting(
        example="runs/mine-new",
        description="New folder, for METHOD.zarr, METHOD.parquet or both, as project.format of the run says",
    )
    methods: Annotated[list[str], BeforeValidator(as_list)] = setting(
        [],
        values="labels of methods",
        example=["m-pca0"],
        description="Some of the run's methods; all where none is named",
    )
    features: str | None = setting(
        None, example="X", description="Array or column of the rows, where it has another name than expected"
    )
    label: str | None = setting(
        None,
        example="species",
        description="Array or column of the labels; by default that of the run, y or label, where there is one",
    )


def transform(config: TransformConfig, callback: Callback | None = None) -> dict[str, Any]:
    """Project the rows of a data set with the methods of a run.

    Where the run and the rows have names of features, they must be the same: columns of Parquet are found by name.
    Labels are written beside the rows, if there are any. The destination has a record ``transform.json`` once it is
    complete, and is not written to again: the same call then returns this record. A call that fails removes what it
    has written; the same call removes what a killed one has left, and begins again.

    Parameters
    ----------
    config : TransformConfig
    callback : Callback, optional
        Called with plan and progress.

    Returns
    -------
    dict
        ``dataset``, ``rows``, ``methods``, ``destination``, ``outputs`` (addresses of what was written), ``written``
        (bytes), ``seconds``, ``labels`` (whether there are any), ``key`` (of the run, the rows and the settings).

    Raises
    ------
    InputError
        Where the run or its methods are not there, or the rows do not fit.
    OutputError
        Where the destination holds something else, or another process works on it.
    PlanError
        Where memory or disk do not suffice.
    """
    callback, task = callback or Callback(), _Task.of(config)
    if task.done is not None:
        damage = task.damage(task.done)
        if damage is None:
            callback.on_stage_start("project")
            callback.on_stage_end("project", task.done, True)
            return task.done
        callback.on_note(f"{damage.removesuffix(AGAIN)}The rows are projected again.")
    for note in task.notes:
        callback.on_note(note)
    plan = task.plan()
    callback.on_plan(plan)
    plan.refuse_if_too_large()
    callback.on_stage_start("project")
    begin = time.perf_counter()
    with _claimed(task, callback) as lease:
        written = _project(task, lease, callback)
        task.watch.refuse_change(task.dataset.addresses)
        manifest = {**task.manifest(written), "seconds": time.perf_counter() - begin}
        lease.check()
        storage.write_json(storage.join(task.destination, RECORD), manifest)
    callback.on_stage_end("project", manifest, False)
    return manifest


def transformed(manifest: dict[str, Any]) -> str:
    """Return in words what ``transform`` has done."""
    labels = "with their labels" if manifest["labels"] else "without labels, as there are none"
    names = ", ".join(uri.rsplit("/", 1)[-1] for uri in manifest["outputs"])
    return f"{manifest['rows']} rows, {labels}, projected into {manifest['destination']}: {names}"


def _project(task: _Task, lease: Lease, callback: Callback) -> Written:
    """Project all rows, while the lease is held."""

    def progress(done: int, total: int) -> None:
        lease.check()
        callback.on_progress("project", done, total)

    with open_scheduler(task.fitted.compute, callback) as scheduler:
        return project_rows(task.dataset, task.projectors, Tasks(scheduler=scheduler, progress=progress))


def check_transform(config: TransformConfig) -> None:
    """Make the checks of ``transform`` that need no rows; raise its errors."""
    _Task.of(config)


@dataclass(frozen=True)
class _Task:
    """Rows to project, by which methods, and where to; ``done`` is the record of a destination that is complete."""

    fitted: RunConfig
    methods: list[str]
    dataset: Dataset
    watch: Watch
    destination: str
    projectors: list[Projector]
    outputs: list[str]
    key: str
    done: dict[str, Any] | None

    @classmethod
    def of(cls, config: TransformConfig) -> _Task:
        """Open the run and the rows; refuse a destination that holds something else."""
        run, destination = open_run(config.output), storage.normalize(config.destination)
        fitted = run.config
        methods = list(dict.fromkeys(config.methods)) or fitted.labels
        for method in methods:
            require_method(run, method, fitted.labels)
        dataset = _open(config, run, fitted)
        projectors = make_projectors(run, fitted, methods, destination)
        outputs = [uri for projector in projectors for uri in projector.uris]
        run_key, watch = run.header()["key"], Watch.of(dataset.addresses)
        names = (config.features, config.label, outputs)
        key = storage.digest(run_key, dataset.fingerprint(), *names)
        done = _record(destination)
        if done is None or done["key"] != key:
            _refuse_content(destination)
            refuse_inside(destination, (dataset.uri,))
            done = None
        return cls(fitted, methods, dataset, watch, destination, projectors, outputs, key, done)

    @property
    def recorded_names(self) -> list[str]:
        """Names of the outputs in records."""
        return [name for projector in self.projectors for name in projector.outputs(self.destination)]

    @property
    def notes(self) -> list[str]:
        """What the user should know of the rows."""
        return notes_on_missing_labels(self.dataset) if self.dataset.has_labels else []

    def plan(self) -> Plan:
        """Return what the projection will cost."""
        return plan_projection(
            self.dataset,
            make_spans(self.dataset),
            resources_of(self.fitted, self.destination),
            widths=[projector.matrix.shape[1] for projector in self.projectors],
            formats=len(self.projectors[0].uris),
        )

    def manifest(self, written: Written) -> dict[str, Any]:
        """Return the record of a destination that is complete."""
        return {
            "key": self.key,
            "dataset": self.dataset.uri,
            "rows": self.dataset.n_rows,
            "notes": self.notes,
            "methods": self.methods,
            "destination": self.destination,
            "outputs": self.outputs,
            "written": written.n_bytes,
            "objects": recorded(self.destination, self.recorded_names, written.objects(self.destination)),
            "labels": self.dataset.has_labels,
        }

    def damage(self, done: dict[str, Any]) -> str | None:
        """Return what is wrong with a destination that is complete, or None."""
        try:
            check_outputs(self.destination, {"outputs": self.recorded_names, "objects": done.get("objects")})
        except DamageError as error:
            return str(error)
        return None


def discard_unfinished(destination: str) -> list[str]:
    """Remove the outputs of a transform that died, and return their names; leave one that lives or is finished."""
    uri = storage.normalize(destination)
    try:
        if _record(uri) is not None or not any(map(is_claim, storage.names_in(uri))):
            return []
        with held(uri):
            return _clear(uri)
    except (DamageError, OutputError):
        return []


def _open(config: TransformConfig, run: RunDirectory, fitted: RunConfig) -> Dataset:
    """Open the rows, and check that their features are those of the run."""
    count = run.record(COUNT)
    if count is None:
        raise InputError(f"The run in {run.uri} has no model yet; run it to the end first.")
    refuse_private(fitted.compute, [config.dataset, config.label, config.destination])
    label = fitted.dataset.label
    if config.label is None and label is not None and not label.endswith(".npy"):
        with suppress(InputError):  # new rows need no labels
            return open_rows_for(run, count, config.dataset, features=config.features, label=label)
    return open_rows_for(run, count, config.dataset, features=config.features, label=config.label)


def _record(destination: str) -> dict[str, Any] | None:
    """Return the record of a finished transform, or None."""
    path, remedy = storage.join(destination, RECORD), "Restore it from a copy, or choose another destination."
    with reading_own(path, remedy):
        return storage.read_json(path, remedy) if storage.exists(path) else None


def _refuse_content(destination: str) -> None:
    """Refuse a destination that holds anything but what a killed transform leaves: outputs beside its lease."""
    done, names = _record(destination), storage.names_in(destination)
    if done is not None:
        raise OutputError(
            f"{destination} exists already: it holds {done['rows']} rows of {done['dataset']}, projected otherwise or "
            "before something changed. Choose another destination."
        )
    removable = _begun(destination) if any(map(is_claim, names)) else frozenset()
    name = next((name for name in names if not is_claim(name) and name not in removable), None)
    if name is not None:
        raise OutputError(f"{destination} exists already, with {name!r}. Choose another destination.")


def _begun(destination: str) -> frozenset[str]:
    """Return the names of what a transform writes, or wrote until it died."""
    path = storage.join(destination, BEGUN)
    names = [method + suffix for method in METHODS for suffix in SUFFIXES]  # of earlier versions, which left no file
    with suppress(DamageError):
        begun = storage.read_json(path)["outputs"] if storage.exists(path) else []
        names += [name for name in begun if name.endswith(SUFFIXES)]
    return frozenset([*names, BEGUN])


def _clear(destination: str) -> list[str]:
    """Remove what a transform has written, and return the names of the outputs."""
    begun = _begun(destination)
    names = [name for name in storage.names_in(destination) if name in begun]
    storage.remove_children(destination, names)
    return [name for name in names if name != BEGUN]


@contextmanager
def _claimed(task: _Task, callback: Callback) -> Iterator[Lease]:
    """Hold the lease of a destination, replace damaged outputs, and remove new ones on any error or interrupt."""
    destination, damaged = task.destination, task.done
    with held(destination, callback.on_note) as lease:
        if damaged is not None and _record(destination) == damaged:
            storage.remove(storage.join(destination, RECORD))
            _clear(destination)
        _refuse_content(destination)  # by now
        left = _clear(destination)
        if left:
            callback.on_note(f"Removed {', '.join(left)} from {destination}: half-written by a run that has ended.")
        names = [name.removesuffix(GROUP) for name in task.recorded_names]
        storage.write_json(storage.join(destination, BEGUN), {"outputs": names})
        try:
            yield lease
        except BaseException:
            with suppress(MmpcaError):  # where even that fails, the first reason is the one to tell
                if not lease.is_lost:
                    _clear(destination)
            raise
        with suppress(MmpcaError):  # all is written, and this file says nothing more
            storage.remove(storage.join(destination, BEGUN))
