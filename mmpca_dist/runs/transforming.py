"""New rows through the methods of a finished run, out of core."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

from pydantic import BeforeValidator

from mmpca_dist.datasets import Dataset, make_spans, storage
from mmpca_dist.errors import InputError, MmpcaError, OutputError, did_you_mean
from mmpca_dist.planning import plan_projection
from mmpca_dist.runs.cluster import connect, open_cluster, refuse_private, tell_dashboard
from mmpca_dist.runs.config import RunConfig
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.events import Callback
from mmpca_dist.runs.finished import note_of_missing_labels, open_rows_for, open_run
from mmpca_dist.runs.projection import Projector, project_rows
from mmpca_dist.runs.sections import MethodName, Section, as_list, setting
from mmpca_dist.runs.stages import make_projectors, resources_of


class TransformConfig(Section):
    """Which rows go through which methods of which run, and where to."""

    output: str = setting(example="runs/mine", description="Folder of the finished run")
    dataset: str = setting(example="new_rows.parquet", description="The rows, as for a run; they may do without labels")
    destination: str = setting(
        example="runs/mine-new",
        description="New folder; gets METHOD.zarr, and METHOD.parquet where the run was told so",
    )
    methods: Annotated[list[MethodName], BeforeValidator(as_list)] = setting(
        [],
        values="names of methods",
        example=["m-pca0"],
        description="Some of the run's methods; all where none is named",
    )
    features: str | None = setting(
        None, example="X", description="Array or column of the rows, where it has another name than expected"
    )
    label: str | None = setting(
        None, example="species", description="Array or column of the labels, where it has another name than expected"
    )


def transform(config: TransformConfig, callback: Callback | None = None) -> dict[str, Any]:
    """Project the rows of a data set with the methods of a run.

    Where the run and the rows have names of features, they must be the same: columns of Parquet are taken by name.
    Labels that are there are carried along; a label array is written only then. What was begun is removed when
    anything fails.

    Parameters
    ----------
    config : TransformConfig
    callback : Callback, optional
        Who hears of plan and progress.

    Returns
    -------
    dict
        ``rows``, ``methods``, ``destination``, ``outputs`` (addresses of what was written), ``written`` (bytes),
        ``seconds``, ``labels`` (whether there were any).

    Raises
    ------
    InputError
        Where the run or its methods are not there, or the rows do not fit.
    OutputError
        Where the destination exists.
    PlanError
        Where memory or disk do not suffice.
    """
    callback = callback or Callback()
    run, destination = open_run(config.output), storage.normalize(config.destination)
    fitted = run.config
    methods = list(dict.fromkeys(config.methods)) or fitted.methods
    for method in methods:
        if method not in fitted.methods:
            raise InputError(
                f"The run in {run.uri} has no method {method!r}; it has {', '.join(fitted.methods)}."
                f"{did_you_mean(method, fitted.methods)}"
            )
    if storage.exists(destination):
        raise OutputError(f"{destination} exists already. Choose another destination, or delete it.")
    dataset = _open(config, run, fitted)
    note = note_of_missing_labels(dataset)
    if note is not None:
        callback.on_note(note)
    projectors = make_projectors(run, fitted, methods, destination)
    plan = plan_projection(
        dataset,
        make_spans(dataset),
        resources_of(fitted, destination),
        widths=[p.matrix.shape[1] for p in projectors],
        formats=len(projectors[0].places),
    )
    callback.on_plan(plan)
    plan.refuse_if_too_large()
    callback.on_stage_start("project")
    begin = time.perf_counter()
    with (
        _removed_on_failure(destination, projectors),
        open_cluster(fitted.compute) as cluster,
        connect(fitted.compute, cluster, callback.on_note) as scheduler,
    ):
        tell_dashboard(scheduler, callback)
        written = project_rows(
            dataset,
            projectors,
            scheduler=scheduler,
            progress=lambda done, total: callback.on_progress("project", done, total),
        )
    manifest = {
        "rows": dataset.n_rows,
        "methods": methods,
        "destination": destination,
        "outputs": [place for projector in projectors for place in projector.places],
        "written": written,
        "seconds": time.perf_counter() - begin,
        "labels": dataset.has_labels,
    }
    callback.on_stage_end("project", manifest, False)
    return manifest


def _open(config: TransformConfig, run: RunDirectory, fitted: RunConfig) -> Dataset:
    """Open the rows, and see that they are what the run was fitted to."""
    count = run.record("count")
    if count is None:
        raise InputError(f"The run in {run.uri} has no model yet; run it to the end first.")
    refuse_private(fitted.compute, [config.dataset, config.label, config.destination])
    return open_rows_for(run, count, config.dataset, features=config.features, label=config.label)


@contextmanager
def _removed_on_failure(destination: str, projectors: list[Projector]) -> Iterator[None]:
    """Remove what has been written where not all of it was, be it by an interrupt; nothing else is touched."""
    try:
        yield
    except BaseException:
        names = [place.rsplit("/", 1)[-1] for projector in projectors for place in projector.places]
        with suppress(MmpcaError):  # where even that fails, the first reason is the one to tell
            storage.remove_children(destination, names)
        raise
