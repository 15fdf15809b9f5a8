"""Transform new rows by the methods of a finished run, out of core."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.datasets.changes import Watch, identities
from mmpca_dist.datasets.dataset import Dataset, make_spans
from mmpca_dist.datasets.stores import storage
from mmpca_dist.datasets.stores.lease import Lease, held
from mmpca_dist.datasets.stores.overlaps import refuse_inside
from mmpca_dist.datasets.stores.zarr_stores import reading_own
from mmpca_dist.errors import DamageError, InputError, MmpcaError, OutputError, did_you_mean
from mmpca_dist.jobs.cluster import connect, open_cluster, refuse_private, tell_dashboard
from mmpca_dist.jobs.directory import RunDirectory, is_claim
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.finished_runs import note_of_missing_labels, open_rows_for, open_run
from mmpca_dist.jobs.first_stages import resources_of
from mmpca_dist.jobs.object_records import AGAIN, GROUP, check_outputs, recorded
from mmpca_dist.jobs.records import COUNT
from mmpca_dist.methods.registry import METHODS
from mmpca_dist.planning.plan import Plan
from mmpca_dist.planning.run_plan import plan_projection
from mmpca_dist.runs.projection import Projector, Written, make_projectors, project_rows
from mmpca_dist.settings import Section, as_list, setting
from mmpca_dist.statistics.tree_reduction import Tasks

RECORD = "transform.json"
"""Says that a destination is complete, and what it holds; written last."""
BEGUN = "transform.begun.json"
"""Names what is being written; gone once that is complete."""
FORMS = ("zarr", "parquet")


class TransformConfig(Section):
    """Which rows go through which methods of which run, and where to."""

    output: str = setting(example="runs/mine", description="Folder of the finished run")
    dataset: str = setting(example="new_rows.parquet", description="The rows, as for a run; they may do without labels")
    destination: str = setting(
        example="runs/mine-new",
        description="New folder; gets METHOD.zarr, and METHOD.parquet where the run was told so",
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

    Where the run and the rows have names of features, they must be the same: columns of Parquet are taken by name.
    Labels that are there are carried along; a label array is written only then. What was begun is removed when
    anything fails; what a killed call has left, the same call removes, and begins anew. The destination has a record
    ``transform.json`` once it is complete, and is not written to again: the same call then returns what was done.

    Parameters
    ----------
    config : TransformConfig
    callback : Callback, optional
        Who hears of plan and progress.

    Returns
    -------
    dict
        ``dataset``, ``rows``, ``methods``, ``destination``, ``outputs`` (addresses of what was written), ``written``
        (bytes), ``seconds``, ``labels`` (whether there were any), ``key`` (of the run, the rows and the settings).

    Raises
    ------
    InputError
        Where the run or its methods are not there, or the rows do not fit.
    OutputError
        Where the destination holds something else, or another process works on it.
    PlanError
        Where memory or disk do not suffice.
    """
    callback = callback or Callback()
    task = _Task.of(config)
    damage = task.damage
    if task.done is not None and damage is None:
        callback.on_stage_start("project")
        callback.on_stage_end("project", task.done, True)
        return task.done
    if damage is not None:
        callback.on_note(f"{damage.removesuffix(AGAIN)}The rows are projected again.")
    note = note_of_missing_labels(task.dataset)
    if note is not None:
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
    places = ", ".join(place.rsplit("/", 1)[-1] for place in manifest["outputs"])
    return f"{manifest['rows']} rows, {labels}, projected into {manifest['destination']}: {places}"


def _project(task: _Task, lease: Lease, callback: Callback) -> Written:
    """Project all rows, while the lease is held."""

    def progress(done: int, total: int) -> None:
        lease.check()
        callback.on_progress("project", done, total)

    compute = task.fitted.compute
    with open_cluster(compute) as cluster, connect(compute, cluster, callback.on_note) as scheduler:
        tell_dashboard(scheduler, callback)
        return project_rows(task.dataset, task.projectors, Tasks(scheduler=scheduler, progress=progress))


def check_transform(config: TransformConfig) -> None:
    """Refuse what can be refused at once, as ``transform`` does: it reads no rows.

    Raises
    ------
    InputError, OutputError
    """
    _Task.of(config)


@dataclass(frozen=True)
class _Task:
    """What is to be projected, with what, and where to; ``done`` is the record of a destination that is complete."""

    fitted: RunConfig
    methods: list[str]
    dataset: Dataset
    watch: Watch
    destination: str
    projectors: list[Projector]
    key: str
    done: dict[str, Any] | None

    @classmethod
    def of(cls, config: TransformConfig) -> _Task:
        """Open the run and the rows; refuse a destination that holds something else."""
        run, destination = open_run(config.output), storage.normalize(config.destination)
        fitted = run.config
        labels = fitted.labels
        methods = list(dict.fromkeys(config.methods)) or labels
        for method in methods:
            if method not in labels:
                raise InputError(
                    f"The run in {run.uri} has no method {method!r}; it has {', '.join(labels)}."
                    f"{did_you_mean(method, labels)}"
                )
        dataset = _open(config, run, fitted)
        projectors = make_projectors(run, fitted, methods, destination)
        outputs = _places(projectors)
        run_key, watch = run.header()["key"], Watch.of(dataset.addresses)
        keys = [storage.digest(run_key, one, config.features, config.label, outputs) for one in identities(dataset)]
        done = _record(destination)
        if done is None or done["key"] not in keys:
            _refuse_what_is_there(destination)
            refuse_inside(destination, (dataset.uri,))
            done = None
        return cls(fitted, methods, dataset, watch, destination, projectors, keys[0], done)

    @property
    def outputs(self) -> list[str]:
        """Addresses of what is written."""
        return _places(self.projectors)

    @property
    def begun(self) -> list[str]:
        """Names of what is written, in the folder of the destination."""
        return [place.removeprefix(f"{self.destination}/") for place in self.outputs]

    @property
    def names(self) -> list[str]:
        """Names of what is written, as records have them."""
        return [f"{name}{GROUP}" if name.endswith(".zarr") else name for name in self.begun]

    def plan(self) -> Plan:
        """Return what the projection will cost."""
        return plan_projection(
            self.dataset,
            make_spans(self.dataset),
            resources_of(self.fitted, self.destination),
            widths=[projector.matrix.shape[1] for projector in self.projectors],
            formats=len(self.projectors[0].places),
        )

    def manifest(self, written: Written) -> dict[str, Any]:
        """Return the record of a destination that is complete."""
        files = {name.removeprefix(f"{self.destination}/"): known for name, known in written.files}
        return {
            "key": self.key,
            "dataset": self.dataset.uri,
            "rows": self.dataset.n_rows,
            "methods": self.methods,
            "destination": self.destination,
            "outputs": self.outputs,
            "written": written.n_bytes,
            "objects": recorded(self.destination, self.names, files),
            "labels": self.dataset.has_labels,
        }

    @property
    def damage(self) -> str | None:
        """What is wrong with a destination that is complete, or None."""
        if self.done is None:
            return None
        try:
            check_outputs(self.destination, {"outputs": self.names, "objects": self.done.get("objects")})
        except DamageError as error:
            return str(error)
        return None


def _places(projectors: list[Projector]) -> list[str]:
    return [place for projector in projectors for place in projector.places]


def discard_unfinished(destination: str) -> list[str]:
    """Remove what a transform has left that died, and return the names; nothing of one that lives, or is finished."""
    place = storage.normalize(destination)
    try:
        if _record(place) is not None or not any(map(is_claim, storage.names_in(place))):
            return []
        with held(place):
            return _clear(place)
    except (DamageError, OutputError):
        return []


def _open(config: TransformConfig, run: RunDirectory, fitted: RunConfig) -> Dataset:
    """Open the rows, and see that they are what the run was fitted to."""
    count = run.record(COUNT)
    if count is None:
        raise InputError(f"The run in {run.uri} has no model yet; run it to the end first.")
    refuse_private(fitted.compute, [config.dataset, config.label, config.destination])
    own = fitted.dataset.label
    if config.label is None and own is not None and not own.endswith(".npy"):
        with suppress(InputError):  # the rows may do without the labels of the run
            return open_rows_for(run, count, config.dataset, features=config.features, label=own)
    return open_rows_for(run, count, config.dataset, features=config.features, label=config.label)


def _record(destination: str) -> dict[str, Any] | None:
    """Return what a finished transform has left."""
    place, remedy = storage.join(destination, RECORD), "Restore it from a copy, or choose another destination."
    with reading_own(place, remedy):
        done = storage.read_json(place, remedy) if storage.exists(place) else None
    if done is not None and not {"key", "rows", "dataset"} <= set(done):
        raise OutputError(f"{place} was written by another program. Choose another destination.")
    return done


def _refuse_what_is_there(destination: str) -> None:
    """Refuse a destination that holds anything but what a killed transform leaves: outputs beside its lease."""
    done, names = _record(destination), storage.names_in(destination)
    if done is not None:
        raise OutputError(
            f"{destination} exists already: it holds {done['rows']} rows of {done['dataset']}, projected otherwise or "
            "before something changed. Choose another destination."
        )
    mine = _begun(destination) if any(map(is_claim, names)) else frozenset()
    name = next((name for name in names if not is_claim(name) and name not in mine), None)
    if name is not None:
        raise OutputError(f"{destination} exists already, with {name!r}. Choose another destination.")


def _begun(destination: str) -> frozenset[str]:
    """Return the names of what a transform writes, or wrote until it died."""
    place = storage.join(destination, BEGUN)
    names = [f"{method}.{form}" for method in METHODS for form in FORMS]  # as earlier versions, which left no such file
    with suppress(DamageError):
        begun = storage.read_json(place)["outputs"] if storage.exists(place) else []
        names += [name for name in begun if name.endswith(tuple(f".{form}" for form in FORMS))]
    return frozenset([*names, BEGUN])


def _clear(destination: str) -> list[str]:
    """Remove what a transform has written, and return the names of the outputs."""
    begun = _begun(destination)
    names = [name for name in storage.names_in(destination) if name in begun]
    storage.remove_children(destination, names)
    return [name for name in names if name != BEGUN]


@contextmanager
def _claimed(task: _Task, callback: Callback) -> Iterator[Lease]:
    """Hold the lease of a destination; what was begun is removed where anything fails, be it an interrupt.

    What is complete, and damaged, is replaced.
    """
    destination, damaged = task.destination, task.done
    with held(destination, callback.on_note) as lease:
        if damaged is not None and _record(destination) == damaged:
            storage.remove(storage.join(destination, RECORD))
            _clear(destination)
        _refuse_what_is_there(destination)  # by now
        left = _clear(destination)
        if left:
            callback.on_note(f"Removed {', '.join(left)} from {destination}: half-written by a run that has ended.")
        storage.write_json(storage.join(destination, BEGUN), {"outputs": task.begun})
        try:
            yield lease
        except BaseException:
            with suppress(MmpcaError):  # where even that fails, the first reason is the one to tell
                if not lease.is_lost:
                    _clear(destination)
            raise
        with suppress(MmpcaError):  # all is written, and this file says nothing more
            storage.remove(storage.join(destination, BEGUN))
