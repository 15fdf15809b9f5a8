"""Read finished runs: folder, records, rows that fit them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.datasets.readers.formats import open_rows
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import DamageError, InputError, some_names
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.object_records import AGAIN, check_outputs, objects_in
from mmpca_dist.jobs.records import COMPARE, COUNT, PUBLISH, REDUCE, CountRecord, R, StageName
from mmpca_dist.jobs.stored_arrays import load_statistics
from mmpca_dist.statistics.coordinates import Statistics

STATISTICS = "statistics.zarr"


def open_run(output: str) -> RunDirectory:
    """Return the folder of a run; of a refreshed run the newest that is complete, which is a run in itself."""
    run = RunDirectory(storage.normalize(output))
    published = run.record(PUBLISH)
    return run if published is None else RunDirectory(run.path(published["folder"]))


def finished(run: RunDirectory, stage: StageName[R]) -> R:
    """Return the record of a stage that is done.

    Raises InputError where there is no run, or the stage is not done; DamageError where the record is damaged, or was
    copied from another run.
    """
    record = run.record(stage)
    if record is not None:
        if record.get("key") != run.header()["key"]:
            raise DamageError(f"{run.record_path(stage)} is of another run than {run.path('run.json')}. {AGAIN}")
        return record
    if not run.exists:
        raise InputError(f"There is no run in {run.uri}: it holds no run.json.")
    if run.purpose == "evaluation" and stage != COMPARE:
        raise InputError(f"{run.uri} holds an evaluation, which keeps no models: fit them with 'mmpca run'.")
    raise InputError(f"The run in {run.uri} is not finished; run it to the end first.")


def is_whole(run: RunDirectory, stages: Iterable[StageName[Any]]) -> bool:
    """Tell whether all outputs of some stages are there, as they were written."""
    try:
        for stage in stages:
            record = run.record(stage)
            if record is None:
                return False
            check_outputs(run.uri, record)
    except DamageError:
        return False
    return True


def classes_of(count: CountRecord) -> NDArray:
    """Return the classes of a run, from its record of the count."""
    return np.asarray(count["classes"], dtype=count["class_type"])


def statistics_of(run: RunDirectory, standardize: bool = False) -> Statistics:
    """Return the statistics that a run keeps of its rows, in their own units unless standardised.

    Raises InputError where there is no run, or it has none yet; DamageError where they are damaged.
    """
    record, config = finished(run, REDUCE), run.config
    return load_statistics(
        run.path(STATISTICS),
        classes_of(finished(run, COUNT)),
        precision=config.precision,
        standardize=standardize,
        pairings=config.needs().medians,
        objects=objects_in(record, STATISTICS),
    )


def open_rows_for(
    run: RunDirectory,
    count: CountRecord,
    uri: str,
    *,
    features: str | None,
    label: str | None,
    labelled: bool = False,
) -> Dataset:
    """Open rows, with labels or without; raise InputError where their features are not those of the run."""
    dataset = open_rows(
        uri,
        features=features,
        label=label,
        missing_chunks=run.config.dataset.missing_chunks,
        names=count["feature_names"],
        labelled=labelled,
    )
    if dataset.n_features != count["n_features"]:
        raise InputError(
            f"{dataset.uri} has {dataset.n_features} features, but the run in {run.uri} was fitted to "
            f"{count['n_features']}.{_differences(dataset.feature_names, count['feature_names'])}"
        )
    return dataset


def _differences(names: list[str] | None, fitted: list[str] | None) -> str:
    """Return sentences that name the features that are too many, or lacking, where there are names."""
    if names is None or fitted is None:
        return ""
    more, lacking = [name for name in names if name not in fitted], [name for name in fitted if name not in names]
    lack = f" It lacks {some_names(lacking)}." if lacking else ""
    if not more:
        return lack
    options = " ".join(f"--drop {shlex.quote(name)}" for name in more)
    return f"{lack} It has {some_names(more)} beside them: leave them out as it is ingested, with {options}."


def note_of_missing_labels(dataset: Dataset) -> str | None:
    """Return the note that some label chunks are not stored, where that is so."""
    if not dataset.missing_label_rows:
        return None
    return (
        f"{dataset.uri} lacks label chunks of {dataset.missing_label_rows} rows; their labels become the fill value "
        f"{dataset.label_fill}."
    )
