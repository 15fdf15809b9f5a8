"""New rows through the methods of a finished run, out of core."""

from __future__ import annotations

from typing import Any

from mmpca_dist.datasets import open_dataset, storage
from mmpca_dist.errors import InputError, MmpcaError, OutputError, did_you_mean
from mmpca_dist.runs.cluster import connect, open_cluster
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.events import Callback
from mmpca_dist.runs.job import make_projectors
from mmpca_dist.runs.projection import project_rows


def transform(
    output: str,
    source: str,
    destination: str,
    *,
    methods: list[str] | None = None,
    features: str | None = None,
    label: str | None = None,
    callback: Callback | None = None,
) -> dict[str, Any]:
    """Project the rows of a data set with the methods of a run.

    Parameters
    ----------
    output : str
        Folder of the finished run.
    source : str
        Labelled rows, as for ``open_dataset``.
    destination : str
        New folder; gets ``METHOD.zarr`` (and ``METHOD.parquet``, as the run was told).
    methods : list of str, optional
        By default all of the run's.

    Raises
    ------
    InputError
        Where the run or its methods are not there, or the rows do not fit.
    OutputError
        Where the destination exists.
    """
    callback = callback or Callback()
    run = RunDirectory(storage.normalize(output))
    config = run.config
    for method in methods or []:
        if method not in config.methods:
            raise InputError(
                f"The run in {run.uri} has no method {method!r}; it has {', '.join(config.methods)}."
                f"{did_you_mean(method, config.methods)}"
            )
    destination = storage.normalize(destination)
    if storage.exists(destination):
        raise OutputError(f"{destination} exists already. Choose another destination, or delete it.")
    dataset = open_dataset(source, features=features, label=label)
    expected = (run.record("count") or {}).get("n_features")
    if expected is None:
        raise InputError(f"The run in {run.uri} has no model yet; run it to the end first.")
    if dataset.n_features != expected:
        raise InputError(
            f"{source} has {dataset.n_features} features, but the run in {run.uri} was fitted to {expected}."
        )
    projectors = make_projectors(run, config, methods or config.methods, destination)
    try:
        with open_cluster(config.compute) as address, connect(config.compute, address) as scheduler:
            callback.on_stage_start("project")
            written = project_rows(
                dataset,
                projectors,
                scheduler=scheduler,
                progress=lambda done, total: callback.on_progress("project", done, total),
            )
    except MmpcaError:
        fs, path = storage.filesystem(destination)  # it did not exist before: nothing half-written stays
        if fs.exists(path):
            fs.rm(path, recursive=True)
        raise
    manifest = {"rows": dataset.n_rows, "written": written, "methods": [p.name for p in projectors]}
    callback.on_stage_end("project", manifest, False)
    return manifest
