"""Transform new rows by the methods of a finished run, out of core."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

from pydantic import BeforeValidator

from mmpca_dist.errors import InputError
from mmpca_dist.jobs import records
from mmpca_dist.jobs.cluster import refuse_private
from mmpca_dist.jobs.conversion import readable_rows
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.events import Callback, Callbacks
from mmpca_dist.jobs.finished_runs import finished, open_rows_for, open_run, require_method
from mmpca_dist.jobs.first_stages import planned, resources_of
from mmpca_dist.jobs.held_out import HeldOut
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.object_records import GROUP
from mmpca_dist.jobs.open_job import claimable, open_inputs
from mmpca_dist.jobs.records import PlanRecord
from mmpca_dist.jobs.run_stage import run_stage
from mmpca_dist.planning.run_plan import plan_projection
from mmpca_dist.runs.projection import PROJECT, projectors_of
from mmpca_dist.settings import Section, as_list, setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import notes_on_missing_labels
from mmpca_dist.tables.proxies import Unlabelled
from mmpca_dist.tables.readers.formats import all_labelled


class TransformConfig(Section):
    """Which rows go through which methods of which run, and where to."""

    output: str = setting(example="runs/mine", description="Folder of the finished run")
    dataset: str = setting(example="new_rows.parquet", description="The rows, as for a run; labels may be absent")
    destination: str = setting(
        example="runs/mine-new",
        description="New folder, for projected/METHOD.zarr, METHOD.parquet or both, as project.format of the run says",
    )
    methods: Annotated[list[str], BeforeValidator(as_list)] = setting(
        [],
        values="labels of methods",
        example=["m-pca0"],
        description="Some of the run's methods; all where none is named",
    )
    features: str | None = setting(
        None, example="X", description="Array or column of the rows; by default that of the run"
    )
    label: str | None = setting(
        None,
        example="species",
        description="Array or column of the labels; by default that of the run, y or label, where there is one",
    )


def transform(config: TransformConfig, callbacks: list[Callback] | None = None, client: Any = None) -> dict[str, Any]:
    """Project the rows of a data set with the methods of a run.

    Where the run and the rows have names of features, they must be the same: columns of Parquet are found by name.
    Labels are written with the rows, if there are any. The same call goes on where it was killed, and does nothing
    where all is there.

    Parameters
    ----------
    config : TransformConfig
    callbacks : list of Callback, optional
        Called with plan, stages and progress.
    client : Dask client, optional
        Does the work in place of the run's own cluster.

    Returns
    -------
    dict
        ``dataset``, ``rows``, ``methods``, ``destination``, ``outputs`` (addresses of what was written), ``written``
        (bytes), ``seconds``, ``labels`` (whether there are any).

    Raises
    ------
    InputError
        Where the run or its methods are not there, or the rows do not fit.
    OutputError
        Where the destination holds something else, or another process works on it.
    PlanError
        Where memory or disk do not suffice.
    """
    told = Callbacks(callbacks or [])
    with open_inputs(_inputs(config, told), told, client) as job:
        if job.dataset.has_labels:
            for note in notes_on_missing_labels(job.dataset):
                job.callback.on_note(note)
        if isinstance(job.dataset, Unlabelled):
            job.callback.on_note(
                f"Some rows of {job.dataset.uri} have no label, so the projected rows are written without labels. "
                "Label all rows to keep them."
            )
        if job.dataset.stored.note is not None:
            job.callback.on_note(job.dataset.stored.note)
        for stage in STAGES:
            run_stage(job, stage)
        record = job.results.of(records.PROJECT)
        return {
            "dataset": job.dataset.uri,
            "rows": job.dataset.n_rows,
            "methods": job.config.projected,
            "destination": job.run.uri,
            "outputs": [job.run.path(name.removesuffix(GROUP)) for name in record["outputs"]],
            "written": record["written"],
            "labels": job.dataset.has_labels,
            "seconds": record["seconds"],
        }


def transformed(manifest: dict[str, Any]) -> str:
    """Return in words what ``transform`` has done."""
    labels = "with their labels" if manifest["labels"] else "without labels, as there are none"
    names = ", ".join(uri.removeprefix(f"{manifest['destination']}/") for uri in manifest["outputs"])
    return f"{manifest['rows']} rows, {labels}, projected into {manifest['destination']}: {names}"


def check_transform(config: TransformConfig, callback: Callback | None = None) -> None:
    """Make the checks of ``transform`` that need no rows; raise its errors."""
    claimable(_inputs(config, callback or Callback()))


def _plan(job: Job) -> PlanRecord:
    projectors = projectors_of(job)
    plan = plan_projection(
        job.dataset,
        job.spans,
        resources_of(job.config, job.run.uri),
        widths=[projector.matrix.shape[1] for projector in projectors],
        formats=len(job.config.project.format),
    )
    return planned(job, plan)


STAGES = [Stage(records.PLAN, "Plan", _plan), PROJECT]


def _inputs(config: TransformConfig, callback: Callback) -> Inputs:
    """Open the run and the rows; the settings are those of the run, with other rows, methods and folder."""
    run, destination = open_run(config.output), storage.normalize(config.destination)
    finished(run, records.SOLVE)
    fitted = run.config
    methods = list(dict.fromkeys(config.methods)) or fitted.labels
    for method in methods:
        require_method(run, method, fitted.labels)
    config = config.model_copy(update={"features": config.features or fitted.dataset.features})
    refuse_private(fitted.compute, [config.dataset, config.label, destination])
    config = config.model_copy(update={"dataset": readable_rows(config.dataset, destination, callback)})
    dataset = _open(config, run)
    rows = {"uri": dataset.uri, "data_dir": None, "features": config.features, "label": config.label}
    settings = fitted.model_copy(
        update={
            "dataset": fitted.dataset.model_copy(update=rows),
            "project": fitted.project.model_copy(update={"methods": methods}),
            "output": destination,
        }
    )
    folder, held_out = RunDirectory(destination), HeldOut(settings.evaluation)
    return Inputs(settings, dataset, folder, settings, "transform", held_out, run)


def _open(config: TransformConfig, run: RunDirectory) -> Dataset:
    """Open the rows, and check that their features are those of the run; their labels only where all have one."""
    dataset = _with_labels(config, run)
    partly = dataset.has_labels and config.label is None and not all_labelled(dataset)
    return Unlabelled(dataset) if partly else dataset


def _with_labels(config: TransformConfig, run: RunDirectory) -> Dataset:
    count, section = finished(run, records.COUNT), run.config.dataset
    label = section.label if section.target is None else section.target.column[0]
    if config.label is None and label is not None and not label.endswith(".npy"):
        with suppress(InputError):  # new rows need no labels
            is_target = section.target is not None
            return open_rows_for(run, count, config.dataset, features=config.features, label=label, labelled=is_target)
    return open_rows_for(run, count, config.dataset, features=config.features, label=config.label)
