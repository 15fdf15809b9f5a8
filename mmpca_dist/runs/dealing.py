"""The splits that a configuration asks for."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets import Dataset, open_rows, storage
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.splits import Splits, fold_splits, given_splits, share_splits
from mmpca_dist.runs.config import RunConfig
from mmpca_dist.runs.job import Job


def splits_of(job: Job) -> Splits:
    """Return the splits of an evaluation, from passes over the labels alone, which are made once.

    Raises
    ------
    InputError
        Where a class has too few rows, or a column of parts does not fit.
    """
    if job.splits is None:
        job.splits = _dealt(job)
    return job.splits


def _dealt(job: Job) -> Splits:
    wanted, dataset, census = job.config.evaluation, job.dataset, job.counted()
    if wanted.splits == "shares":
        return share_splits(
            dataset, census, job.spans, wanted.train, n_splits=wanted.count, seed=wanted.seed, scheduler=job.scheduler
        )
    if wanted.splits == "folds":
        return fold_splits(
            dataset, census, job.spans, wanted.folds, n_splits=wanted.count, seed=wanted.seed, scheduler=job.scheduler
        )
    column = _column(job.config, dataset)
    return given_splits(dataset, census, job.spans, column, wanted.held_out, scheduler=job.scheduler)


def _column(config: RunConfig, dataset: Dataset) -> Dataset | NDArray:
    """Return the parts of the rows: a column of the data set itself, or an array in a file."""
    column = config.evaluation.column
    assert column is not None  # noqa: S101  (the configuration is checked)
    if not column.endswith(".npy"):
        return _own_column(column, config, dataset)
    uri = storage.normalize(column)
    storage.require(uri)
    try:
        return np.load(io.BytesIO(storage.read_bytes(uri)), allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{uri} is no readable .npy array: {error}.") from error


def _own_column(column: str, config: RunConfig, dataset: Dataset) -> Dataset:
    if dataset.uri.startswith(("bundled:", "synthetic:")):
        raise InputError(
            f"evaluation.column is {column!r}, and {dataset.uri} has no columns but its features. Name a .npy file "
            "that holds the part of each row."
        )
    names = dataset.feature_names if dataset.named_columns else None
    try:
        return open_rows(dataset.uri, features=config.dataset.features, label=column, names=names)
    except InputError as error:
        found = str(error).replace(" (dataset.label)", "").replace("no label column", "no column")
        raise type(error)(f"evaluation.column is {column!r}: {found}") from error


def describe(config: RunConfig, n_splits: int) -> str:
    """Return in words how rows are held out."""
    wanted = config.evaluation
    if wanted.splits == "shares":
        times = f"{wanted.count} stratified splits" if wanted.count > 1 else "one stratified split"
        return f"{times}, {wanted.train} of each class trains"
    if wanted.splits == "folds":
        again = f", dealt {wanted.count} times" if wanted.count > 1 else ""
        return f"{wanted.folds} stratified folds{again}"
    return f"{n_splits} part{'s' * (n_splits > 1)} of {wanted.column} held out"
