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
from mmpca_dist.configuration.sections import BY_COLUMN, EvaluationConfig
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.column_splits import TimesInMemory, as_column, given_splits, group_splits, time_splits
from mmpca_dist.evaluation.splits import Splits, fold_splits, share_splits
from mmpca_dist.jobs.job import Job
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, Span, make_spans
from mmpca_dist.tables.labels import notes_on_missing_labels
from mmpca_dist.tables.readers.formats import open_column
from mmpca_dist.tables.readers.npy import NpyHeader, read_again

SHARE = "4/5"
"""Of the rows of each class that train in shares."""
MANY = 100
"""More fits of every method than this are pointed out before they begin."""


def splits_of(job: Job) -> Splits:
    """Return the splits of an evaluation, from passes over the labels alone, which are made once.

    Raises InputError where a class has too few rows, or a column of parts does not fit.
    """
    if job.splits is None:
        job.splits = _draw(job)
    return job.splits


def _draw(job: Job) -> Splits:
    section, rows = job.config.evaluation, job.rows()
    if section.splits == "shares":
        return share_splits(rows, section.train or SHARE, n_splits=section.count, seed=section.seed)
    if section.splits == "folds":
        return fold_splits(rows, section.folds, n_splits=section.count, seed=section.seed)
    column = open_parts(job.config, job.dataset)
    if section.splits == "groups":
        return group_splits(
            rows, column, folds=section.folds, share=section.train, n_splits=section.count, seed=section.seed
        )
    if section.splits == "time":
        return time_splits(rows, column, windows=section.windows, boundary=section.boundary)
    return given_splits(rows, column, section.held_out)


def many_splits(section: EvaluationConfig, splits: Splits) -> str:
    """Return a sentence on a number of fits that one would not expect, or nothing."""
    n_held_out = splits.n_splits * len(splits.held_out)
    if n_held_out <= MANY:
        return ""
    fewer = {"given": "splits: groups deals the names in the column into folds", "time": "lower windows"}.get(
        section.splits, "lower count" if splits.n_splits > 1 else "lower folds"
    )
    return f"Every method is fitted {n_held_out:,} times: for fewer, {fewer}."


def describe(config: RunConfig, n_splits: int) -> str:
    """Return in words how rows are held out."""
    section = config.evaluation
    if section.splits == "shares":
        times = f"{section.count} stratified splits" if section.count > 1 else "one stratified split"
        return f"{times}, {section.train or SHARE} of each class trains"
    if section.splits == "folds":
        again = f", dealt {section.count} times" if section.count > 1 else ""
        return f"{section.folds} stratified folds{again}"
    if section.splits == "groups" and section.train is None:
        again = f", dealt {section.count} times" if section.count > 1 else ""
        return f"{section.folds} folds of the groups in {section.column}{again}"
    if section.splits == "groups":
        times = f"{section.count} splits" if section.count > 1 else "one split"
        return f"{times}, {section.train} of the groups in {section.column} trains"
    if section.boundary is not None:
        return f"rows from {section.boundary} on held out, by {section.column}"
    if section.windows is not None:
        return f"{section.windows} windows of {section.column} held out, after all that train"
    parts = f"{n_splits} parts" if section.held_out is None else f"part {section.held_out}"
    return f"{parts} of {section.column} held out"


def notes_on(config: RunConfig, dataset: Dataset, classes: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Return a note on every class that some folds hold no row of, or on rows whose part is not stored."""
    folds = config.evaluation.folds
    if config.evaluation.splits in ("given", "groups"):
        what = "part" if config.evaluation.splits == "given" else "group"
        return notes_on_missing_labels(open_parts(config, dataset), what)
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
        values = _array_of(data)
    except ValueError as error:
        raise InputError(f"{uri} is not a readable .npy file: {str(error).rstrip('.')}. Write it again.") from error
    return TimesInMemory(values, uri) if config.evaluation.splits == "time" else as_column(values, uri)


@read_again
def _array_of(data: bytes) -> NDArray:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def addresses_of_parts(config: RunConfig, dataset: Dataset, purpose: Purpose) -> list[str]:
    """Return the addresses of the parts of the rows; none where no column names them."""
    column = config.evaluation.column
    if column is None or not _reads_parts(config, purpose):
        return []
    return [storage.normalize(column)] if column.endswith(".npy") else open_parts(config, dataset).addresses


def digest_of_parts(config: RunConfig, dataset: Dataset, purpose: Purpose) -> str | None:
    """Return a digest of the parts of the rows, from a pass over their column alone; None where none is named.

    Neither a file beside the rows nor an array of a Zarr group enters the fingerprint of the data set.
    """
    if not _reads_parts(config, purpose):
        return None
    column = open_parts(config, dataset)
    tasks = Tasks(scheduler=Threads(config.compute.n_threads))
    digests = tasks.run(_Digest(column, config.evaluation.splits == "time"), make_spans(column), operator.add, "parts")
    return storage.digest(digests)


def _reads_parts(config: RunConfig, purpose: Purpose) -> bool:
    """Tell whether a column tells rows that are held out, in an evaluation or a choice of a number of components."""
    splits = config.evaluation.splits
    return splits in BY_COLUMN and (purpose == "evaluation" or (config.chooses and splits == "groups"))


@dataclass(frozen=True)
class _Digest:
    """Task: the digest of the parts, or times, of a span's rows, in a list of one."""

    column: Dataset
    times: bool
    labels_only = True

    def __call__(self, span: Span) -> list[str]:
        read = self.column.read_times if self.times else self.column.read_labels
        names = read(span.start, span.stop)
        return [names.dtype.str + hashlib.sha256(names.tobytes()).hexdigest()]
