"""The splits of a configuration, and the column that names the part of each row."""

from __future__ import annotations

import hashlib
import io
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.datasets.dataset import Dataset, Span, make_spans
from mmpca_dist.datasets.labels import notes_on_missing_labels
from mmpca_dist.datasets.readers.formats import open_column
from mmpca_dist.datasets.readers.npy import NpyHeader, read_again
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.splits import Splits, as_column, fold_splits, given_splits, share_splits
from mmpca_dist.jobs.job import Job
from mmpca_dist.statistics.schedulers import Threads
from mmpca_dist.statistics.tree_reduction import Tasks


def splits_of(job: Job) -> Splits:
    """Return the splits of an evaluation, from passes over the labels alone, which are made once.

    Raises InputError where a class has too few rows, or a column of parts does not fit.
    """
    if job.splits is None:
        section, rows = job.config.evaluation, job.rows()
        if section.splits == "shares":
            job.splits = share_splits(rows, section.train, n_splits=section.count, seed=section.seed)
        elif section.splits == "folds":
            job.splits = fold_splits(rows, section.folds, n_splits=section.count, seed=section.seed)
        else:
            job.splits = given_splits(rows, open_parts(job.config, job.dataset), section.held_out)
    return job.splits


def describe(config: RunConfig, n_splits: int) -> str:
    """Return in words how rows are held out."""
    section = config.evaluation
    if section.splits == "shares":
        times = f"{section.count} stratified splits" if section.count > 1 else "one stratified split"
        return f"{times}, {section.train} of each class trains"
    if section.splits == "folds":
        again = f", dealt {section.count} times" if section.count > 1 else ""
        return f"{section.folds} stratified folds{again}"
    parts = f"{n_splits} parts" if section.held_out is None else f"part {section.held_out}"
    return f"{parts} of {section.column} held out"


def notes_on(config: RunConfig, dataset: Dataset, classes: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Return a note on every class that some folds hold no row of, or on rows whose part is not stored."""
    folds = config.evaluation.folds
    if config.evaluation.splits == "given":
        return notes_on_missing_labels(open_parts(config, dataset), "part")
    if config.evaluation.splits != "folds":
        return []
    return [
        f"Class {name} has {n} row{'s' * (n != 1)}: {folds - n} of the {folds} folds hold none of it."
        for name, n in zip(classes, counts, strict=True)
        if n < folds
    ]


def open_parts(config: RunConfig, dataset: Dataset) -> Dataset:
    """Return the parts of the rows as labels: of a column of the data set itself, or of an array in a file.

    Raises InputError where there is no such column or file, or it does not hold a name for each row.
    """
    column = config.evaluation.column
    assert column is not None  # noqa: S101  (the configuration is checked)
    if not column.endswith(".npy"):
        if dataset.uri.startswith(storage.NAMED):
            raise InputError(
                f"evaluation.column is {column!r}, and {dataset.uri} has no columns but its features. Name a .npy file "
                "that holds the part of each row."
            )
        return open_column(dataset, column, setting="evaluation.column")
    uri = storage.normalize(column)
    storage.require(uri)
    data = storage.read_bytes(uri)
    NpyHeader.read(io.BytesIO(data), uri)
    try:
        names = _array_of(data)
    except ValueError as error:
        raise InputError(f"{uri} is not a readable .npy file: {str(error).rstrip('.')}. Write it again.") from error
    return as_column(names, uri)


@read_again
def _array_of(data: bytes) -> NDArray:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def addresses_of_parts(config: RunConfig, dataset: Dataset, purpose: Purpose) -> list[str]:
    """Return the addresses of the parts of the rows; none where no column names them."""
    column = config.evaluation.column
    if purpose == "run" or config.evaluation.splits != "given" or column is None:
        return []
    return [storage.normalize(column)] if column.endswith(".npy") else open_parts(config, dataset).addresses


def digest_of_parts(config: RunConfig, dataset: Dataset, purpose: Purpose) -> str | None:
    """Return a digest of the parts of the rows, from a pass over their column alone; None where none is named.

    Neither a file beside the rows nor an array of a Zarr group enters the fingerprint of the data set.
    """
    if purpose == "run" or config.evaluation.splits != "given":
        return None
    column = open_parts(config, dataset)
    tasks = Tasks(scheduler=Threads(config.compute.n_threads))
    digests = tasks.run(_Digest(column), make_spans(column), operator.add, "parts")
    return storage.digest(digests)


@dataclass(frozen=True)
class _Digest:
    """Task: the digest of the parts of a span's rows, in a list of one."""

    column: Dataset
    labels_only = True

    def __call__(self, span: Span) -> list[str]:
        names = self.column.read_labels(span.start, span.stop)
        return [names.dtype.str + hashlib.sha256(names.tobytes()).hexdigest()]
