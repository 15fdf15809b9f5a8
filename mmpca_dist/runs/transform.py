"""Transform new rows by the methods of a finished run, out of core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.configuration.requests import TransformConfig
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import AccessError, ColumnError, InputError, OutputError
from mmpca_dist.faults import Fault, render, showing
from mmpca_dist.ingest.csv import CsvRows
from mmpca_dist.jobs import records
from mmpca_dist.jobs.cluster import refuse_private
from mmpca_dist.jobs.directory import FORMATS, RunDirectory, format_of, transform_folder
from mmpca_dist.jobs.events import Callback, told
from mmpca_dist.jobs.finished_runs import counted, finished, fits_of, open_run, require_method, solved_methods
from mmpca_dist.jobs.first_stages import planned, resources_of
from mmpca_dist.jobs.inputs import Inputs, readable_rows
from mmpca_dist.jobs.job import Job, Stage, claimable, open_inputs, run_stage
from mmpca_dist.jobs.object_records import GROUP
from mmpca_dist.planning.run_plan import RunRequest
from mmpca_dist.runs.pilots import PilotRun, plan_of_pass
from mmpca_dist.runs.projection import PROJECT, Projector, project, projectors_of
from mmpca_dist.runs.row_tables import RowTable, join_parts
from mmpca_dist.runs.write_back import check, put
from mmpca_dist.stores import storage
from mmpca_dist.tables.column_faults import MAX_LISTED
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import notes_on_missing
from mmpca_dist.tables.readers.formats import text_form
from mmpca_dist.tables.roles import KNOWN
from mmpca_dist.tables.side_columns import kept_columns

SUFFIX = re.compile(r"\w\.([a-z]{2,}|h5|bz2)$", re.I)
"""How names of files end; folders may have a version, such as rows.v2."""


def transform(config: TransformConfig, callbacks: list[Callback] | None = None, client: Any = None) -> dict[str, Any]:
    """Project the rows of a data set with the methods of a run.

    Where the run and the rows have names of features, they must be the same: columns of Parquet are found by name.
    Labels are written with the rows, if there are any, and kept columns too. The same call goes on where it was killed;
    where all is there it does nothing, or refuses to replace a file.
    """
    destination, callback = storage.normalize(config.table), told(callbacks)
    suffix, into = format_of(destination), config.into
    stages = list(STAGES)
    if suffix is not None:
        table = partial(_one_table, destination if suffix == "zarr" else None, into)
        stages[1] = replace(PROJECT, function=partial(project, tables_of=table))
    with _cleared(destination):
        inputs = inputs_of(config, callback)
        opened = inputs.dataset.uri
        with open_inputs(inputs, callback, client) as job:
            notes = notes_on_missing(job.dataset.label_column)
            column = None if into or job.dataset.has_labels else job.dataset.stored.label
            if column is not None:
                notes.append(
                    f"Some rows of {opened} have no label, so the labels go with the projected rows as a column "
                    f"{column!r}, which has gaps."
                )
            for note in [*notes, *filter(None, [job.dataset.stored.note])]:
                job.callback.on_note(render([Fault(note)]))
            for stage in stages:
                run_stage(job, stage)
            record = job.results.of(records.PROJECT)
            outputs = [job.run.path(name.removesuffix(GROUP)) for name in record["outputs"]]
            if into is not None:
                job.check_lease()
                put(job.run.path("projected", INSIDE), opened, into, job.run.path("scratch"))
            if suffix is not None:
                outputs = [destination := f"{config.dataset.rstrip('/')}/{into}" if into else destination]
                if suffix != "zarr":
                    job.check_lease()
                    join_parts(job.run.path("projected"), destination, suffix, job.config.project.quote_formulas)
            manifest = {
                "dataset": inputs.shown.get(opened, opened),
                "rows": job.dataset.n_rows,
                "methods": job.config.projected,
                "destination": destination,
                "outputs": outputs,
                "written": record["written"],
                "labels": None if into else job.dataset.has_labels,
                "labels_in_part": column,
                "seconds": record["seconds"],
                "reused": PROJECT.name in job.reused,
            }
    if suffix is not None:
        storage.remove(job.run.uri)
        storage.remove(job.run.uri + CONVERTED)
    return manifest


@contextmanager
def _cleared(destination: str) -> Iterator[None]:
    """Remove rows that were text if they are refused; they stay where a transform into one file may go on."""
    try:
        yield
    except InputError as error:
        if not isinstance(error, AccessError) and (folder := transform_folder(destination)) != destination:
            storage.remove(folder + CONVERTED)
        raise


def _one_table(group: str | None, into: str | None, job: Job, projectors: list[Projector]) -> list[RowTable]:
    """Return one table for the components of all methods side by side: a Zarr group, or parts that become one file."""
    columns = [column for projector in projectors for column in projector.columns]
    uri, format = (job.run.path("projected"), "arrow") if group is None else (group, "zarr")
    if into is not None:
        check(job.dataset.uri, into, len(columns))
        uri = job.run.path("projected", INSIDE)
    return [RowTable(uri, format, tuple(projector.name for projector in projectors), tuple(columns))]


def _refuse_suffix(destination: str) -> None:
    name = destination.rpartition("/")[2]
    if SUFFIX.search(name) and format_of(destination) is None:
        known = ", ".join(f".{format}" for format in FORMATS)
        raise InputError(
            f"{name} ends like a file, and files for projected rows end with {known}. Name one of these, or a folder "
            "without a suffix."
        )


def transformed(manifest: dict[str, Any]) -> str:
    """Return a finished transform in words."""
    column = manifest["labels_in_part"]
    labels = "without labels, as there are none" if column is None else f"with the labels of some as column {column!r}"
    labels = "with their labels" if manifest["labels"] else labels
    said = f"{manifest['rows']} rows" + f", {labels}," * (manifest["labels"] is not None)
    destination = manifest["destination"]
    names = ", ".join(uri.removeprefix(f"{destination}/") for uri in manifest["outputs"] if uri != destination)
    return f"{said} projected into {destination}" + (f": {names}" if names else "")


def check_transform(config: TransformConfig, callback: Callback | None = None) -> None:
    """Make the checks of ``transform`` that need no rows; raise its errors."""
    with _cleared(storage.normalize(config.table)):
        claimable(inputs_of(config, callback or Callback()))


def _plan(job: Job) -> records.PlanRecord:
    config, widths = job.config, [projector.width for projector in projectors_of(job)]
    formats, keep = tuple(dict.fromkeys(config.project.format)), config.project.keep
    request = RunRequest(
        job.dataset, job.spans, np.empty(0, np.int64), Needs(), resources_of(config, job.run.uri), widths=widths,
        formats=len(formats), kept=len(kept_columns(job.dataset, keep)),
    )  # fmt: skip
    matrices = 2 * 8 * job.dataset.n_features * sum(widths)
    pilot = PilotRun(request, None, formats=formats, keep=keep)
    return planned(job, plan_of_pass(job.scheduler, pilot, matrices, output=request.projected_bytes))


INSIDE = "rows.zarr"
"""The table of rows on their way into the data set, below the projected ones."""
CONVERTED = ".rows"
"""Ends the folder of rows that were text, which goes with the folder that one file is made in."""
STAGES = [Stage(records.PLAN, "Plan", _plan), PROJECT]


def inputs_of(config: TransformConfig, callback: Callback) -> Inputs:
    """Open the run and the rows; the settings are those of the run, with other rows, methods and folder."""
    run, destination = open_run(config.output), storage.normalize(config.table)
    _refuse_suffix(destination)
    finished(run, records.SOLVE)
    folder = RunDirectory(transform_folder(destination))
    if folder.uri != destination and not folder.exists and storage.exists(destination):
        raise OutputError(f"{destination} is there already: name another destination.")
    fitted = run.config
    methods = list(dict.fromkeys(config.methods)) or fitted.labels
    for method in methods:
        require_method(run, method, fitted.labels)
    methods = solved_methods(run, methods)
    if not methods:
        raise InputError(f"No method of {run.uri} has components: there is nothing to transform by.")
    if config.into is not None:
        _refuse_several(config, methods, folder)
    refuse_private(fitted.compute, [config.dataset, config.label, destination])
    kept = folder.uri == destination
    beside = destination if kept else storage.join(folder.uri + CONVERTED, "rows")
    source = config.dataset
    uri = readable_rows(source, beside, fitted.dataset, callback, kept, counted(run).of_text)
    asked = {"features": config.features or fitted.dataset.features, "label": "none" if config.into else config.label}
    config = config.model_copy(update={"dataset": uri, **asked})
    with showing({uri: source}):
        try:
            dataset = _open(config, run)
        except ColumnError as error:
            if not any(fault.kind in ("text", "words") for fault in error.faults):
                raise
            raise _of_columns_needed(source, fitted.dataset, error) from error
    quotes = config.quote_formulas or fitted.project.quote_formulas
    rows = {"uri": dataset.uri, "data_dir": None, "features": config.features, "label": config.label}
    project = {"methods": methods, "quote_formulas": quotes} | ({"keep": []} if config.into else {})
    settings = fitted.model_copy(
        update={
            "dataset": fitted.dataset.model_copy(update=rows),
            "project": fitted.project.model_copy(update=project),
            "output": folder.uri,
        }
    )
    shown = {uri: source}
    return Inputs(settings, dataset, folder, settings, "transform", fitted=run, inverse=config.inverse, shown=shown)


def _refuse_several(config: TransformConfig, methods: list[str], folder: RunDirectory) -> None:
    """Refuse more than one method for one array, and data sets that cannot take it."""
    if len(methods) > 1:
        raise InputError(f"{config.into} is one array: name one of the methods {', '.join(methods)} (--method).")
    try:
        check(storage.normalize(config.dataset), str(config.into))
    except OutputError:  # a process may have been killed between the last two steps
        storage.remove(folder.uri)
        raise


def _of_columns_needed(source: str, section: DatasetConfig, error: ColumnError) -> InputError:
    """Return the error for columns that the models need, and that nobody can leave out; of CSV with row and line."""
    faults = error.faults
    if text_form(storage.normalize(source)) == "csv":
        rows = CsvRows.of_table(storage.normalize(source), section.missing_values, section.decimal)
        names = [fault.facts["name"] for fault in faults]
        faults = getattr(rows.refusal([i for i in rows.features if rows.name_of(i) in names]), "faults", faults)
    told = "; ".join(f"{fault.facts['name']!r}: {fault.text}" for fault in faults[:MAX_LISTED])
    return InputError(f"The models need numbers in columns of {source} that hold something else: {told}. Correct them.")


def _open(config: TransformConfig, run: RunDirectory) -> Dataset:
    """Open the rows, and check that their features are those of the run; their labels only where all have one."""
    section, dataset = run.config.dataset, None
    opened = partial(counted(run).open_like, config.dataset, features=config.features, fits=False)
    label = section.outcome
    if config.label == "none":
        dataset = opened(section, label=None, labelled=False).unlabelled()
    elif config.label is None:  # new rows need no labels
        any_label = section.model_copy(update={"unlabelled_value": None})
        if label is not None and not label.endswith(".npy"):
            with suppress(InputError):
                dataset = opened(any_label, label=label, labelled=section.target is not None)
        dataset = dataset or opened(any_label, label=None, labelled=False)
    else:
        dataset = opened(section, label=config.label, labelled=False)
    dataset = dataset.with_maps(section.maps, fits_of(run))
    partly = dataset.has_labels and config.label is None and not _all_labelled(dataset, section.unlabelled_value)
    return dataset.unlabelled() if partly else dataset


def _all_labelled(dataset: Dataset, none: str | int | None) -> bool:
    """Tell whether all rows have a label, and not the one that says there is ``none``, from a look at the labels."""
    values = dataset.unlabelled().values(dataset.stored.column(None, "label"))
    return all(KNOWN.encode(known, place, ("skip", none)).all() for known, place, _ in values)
