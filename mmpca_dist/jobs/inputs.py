"""What a job reads, with text converted once; how its rows are held out; and where it writes."""

from __future__ import annotations

import hashlib
import operator
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mmpca_dist.configuration.dataset_section import located
from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.configuration.sections import BY_COLUMN, EvaluationConfig
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.column_splits import given_splits, group_splits, time_splits
from mmpca_dist.evaluation.splits import Splits, fold_splits, share_splits
from mmpca_dist.ingest.csv import CSV_SUFFIXES
from mmpca_dist.ingest.job import ingest
from mmpca_dist.jobs.cluster import refuse_misfit, refuse_private
from mmpca_dist.jobs.directory import Identity, RunDirectory, folder_of
from mmpca_dist.jobs.events import Callback
from mmpca_dist.methods.base.statistics_for import refuse_weights
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.settings import renamed, settings_named
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import held
from mmpca_dist.tables import memory_limits
from mmpca_dist.tables.chosen_columns import listed
from mmpca_dist.tables.covariates import with_covariates
from mmpca_dist.tables.dataset import Dataset, Span, Table, make_spans
from mmpca_dist.tables.labels import notes_on_missing_labels
from mmpca_dist.tables.mapped_rows import MappedRows, mapped
from mmpca_dist.tables.readers.beside import FILE, open_beside
from mmpca_dist.tables.readers.formats import TEXT, open_dataset, stem_of
from mmpca_dist.tables.readers.named_columns import refuse_gaps
from mmpca_dist.tables.target_rows import TargetRows, sliced
from mmpca_dist.tables.times import read_times
from mmpca_dist.tables.weights import balanced_by, weighted_by, with_weighed_levels

SHARE = "4/5"
"""Share of the rows of each class that train, by default."""
MANY = 100
"""More fits of every method than this are pointed out before they begin."""


@dataclass(frozen=True)
class HeldOut:
    """How rows are held out: the settings, and what names the part of each row, where a column tells that."""

    section: EvaluationConfig
    column: Dataset | None = None
    """The parts, groups or times as labels."""

    @classmethod
    def of(cls, config: RunConfig, dataset: Dataset, purpose: Purpose) -> HeldOut:
        """Open the column of an evaluation, or of a choice of a number of components; other jobs hold out no rows."""
        section = config.evaluation
        reads = purpose == "evaluation" or (config.chooses and section.splits == "groups")
        if not (reads and section.splits in BY_COLUMN):
            return cls(section)
        assert section.column is not None  # noqa: S101  (the configuration is checked)
        return cls(section, open_beside(dataset, section.column, "evaluation.column"))

    @property
    def addresses(self) -> list[str]:
        """What is read to know the parts."""
        return [] if self.column is None else self.column.addresses or [self.column.uri]

    def digest(self, scheduler: Scheduler) -> str | None:
        """Return a digest of the parts of the rows, from a pass over their column alone; None where there is none.

        Neither a file of its own nor an array of a Zarr group enters the fingerprint of the data set.
        """
        if self.column is None:
            return None
        task, spans = _Digest(self.column, self.section.splits == "time"), make_spans(self.column)
        return storage.digest(Tasks(scheduler=scheduler).run(task, spans, operator.add, "parts"))

    def draw(self, rows: Rows) -> Splits:
        """Return the splits of the rows, from passes over labels alone."""
        section, column = self.section, self.column
        options = {"n_splits": section.count, "seed": section.seed}
        if section.splits == "shares":
            return share_splits(rows, section.train or SHARE, **options)
        if section.splits == "folds":
            return fold_splits(rows, section.folds, **options)
        assert column is not None  # noqa: S101  (the configuration is checked)
        if section.splits == "groups":
            return group_splits(rows, column, folds=section.folds, share=section.train, **options)
        if section.splits == "time":
            return time_splits(rows, column, windows=section.windows, boundary=section.boundary)
        return given_splits(rows, column, section.held_out)

    def note_on_many(self, splits: Splits) -> str:
        """Return a sentence on a number of fits that one would not expect, or nothing."""
        n_held_out = splits.n_splits * len(splits.held_out)
        if n_held_out <= MANY:
            return ""
        fewer = {"given": "splits: groups deals the names in the column into folds", "time": "lower windows"}.get(
            self.section.splits, "lower count" if splits.n_splits > 1 else "lower folds"
        )
        return f"Every method is fitted {n_held_out:,} times: for fewer, {fewer}."

    def words(self, n_splits: int) -> str:
        """Return in words how rows are held out."""
        section = self.section
        if section.splits == "shares":
            times = f"{section.count} stratified splits" if section.count > 1 else "one stratified split"
            return f"{times}, {section.train or SHARE} of each class trains"
        if section.in_folds:
            again = f", dealt {section.count} times" if section.count > 1 else ""
            what = "stratified folds" if section.splits == "folds" else f"folds of the groups in {section.column}"
            return f"{section.folds} {what}{again}"
        if section.splits == "groups":
            times = f"{section.count} splits" if section.count > 1 else "one split"
            return f"{times}, {section.train} of the groups in {section.column} trains"
        if section.boundary is not None:
            return f"rows from {section.boundary} on held out, by {section.column}"
        if section.windows is not None:
            return f"{section.windows} windows of {section.column} held out, after all that train"
        parts = f"{n_splits} parts" if section.held_out is None else f"part {section.held_out}"
        return f"{parts} of {section.column} held out"

    def notes(self, classes: Sequence[str], counts: Sequence[int]) -> list[str]:
        """Return a note on every class that some folds hold no row of, or on rows whose part is not stored."""
        folds = self.section.folds
        if self.column is not None and self.section.splits != "time":
            return notes_on_missing_labels(self.column, "part" if self.section.splits == "given" else "group")
        if self.section.splits != "folds":
            return []
        return [
            f"Class {name} has {n} row{'s' * (n != 1)}: {folds - n} of the {folds} folds hold none of it."
            for name, n in zip(classes, counts, strict=True)
            if n < folds
        ]


@dataclass(frozen=True)
class _Digest:
    """Task: the digest of the parts, or times, of a span's rows, in a list of one."""

    column: Dataset
    times: bool
    labels_only = True

    def __call__(self, span: Span) -> list[str]:
        names = (
            read_times(self.column, span.start, span.stop)
            if self.times
            else self.column.read_labels(span.start, span.stop)
        )
        return [names.dtype.str + hashlib.sha256(names.tobytes()).hexdigest()]


CONVERT = "convert"
VERSION = 1
"""Another number lets all texts be converted again."""


@contextmanager
def errors_name(source: str, converted: str) -> Iterator[None]:
    """Let what is wrong with converted rows be said of their source."""
    try:
        yield
    except InputError as error:
        if converted == source or converted not in str(error):
            raise
        raise type(error)(str(error).replace(converted, source)) from error


def told_as(uri: str, opened: str) -> str:
    """Return how messages name rows: text as the user does, others by the address that was opened."""
    return uri if TEXT.is_named_by(uri.lower()) else opened


def readable_rows(uri: str, output: str, callback: Callback, kept: bool = True) -> str:
    """Return the address of rows that a run reads: of CSV Parquet, of LIBSVM text Zarr, and of others the address.

    What is converted lies in the folder ``converted`` beside the output, where other runs find it, if the caller leaves
    it there (``kept``). The record of its source is written at the end, so that a killed conversion starts again.
    Raises InputError for text that is no table, and OutputError while another process converts it.
    """
    source = storage.normalize(uri)
    if not TEXT.is_named_by(source.lower()):
        return uri
    storage.require(source)
    parent, stem = storage.normalize(output).rpartition("/")[0], re.sub(r"\W+", "-", source.rpartition("/")[2])
    folder = storage.join(parent, "converted", f"{stem}-{storage.digest(source)[:8]}")
    record = storage.join(folder, "source.json")
    converted = storage.join(folder, "table.parquet" if stem_of(source).endswith(CSV_SUFFIXES) else "table.zarr")
    key = storage.digest(VERSION, storage.list_objects(source))
    if storage.exists(record) and storage.read_json(record).get("key") == key:
        return converted
    started = time.monotonic()
    first_lease = storage.join(folder, "lease-000001.json")  # shows whether the output can be written
    with errors_name(output, first_lease), held(folder, callback.on_note):
        callback.on_stage_start(CONVERT)
        storage.remove(record)
        progress = partial(callback.on_progress, CONVERT)
        ingest(source, converted, progress=progress, note=callback.on_note, overwrite=True)
        if storage.is_local(source) and storage.is_local(converted):  # a run resumes where this is made anew
            os.utime(converted, (0, Path(source).stat().st_mtime))
        storage.write_json(record, {"key": key, "source": source})
    found = [f"{uri} is kept as {converted}, until it changes."] if kept else []
    callback.on_stage_end(CONVERT, {"seconds": round(time.monotonic() - started, 3), "found": found}, False)
    return converted


COVARIATES, TARGET = "dataset.covariates", "dataset.target"


@dataclass(frozen=True)
class Inputs:
    """The table of a job, its settings, its folder, and how rows are held out."""

    config: RunConfig
    """The settings; with ``n_components: auto`` these hold the numbers that are tried."""
    table: Table
    run: RunDirectory
    asked: RunConfig
    """The settings as they were given."""
    purpose: Purpose
    held_out: HeldOut
    fitted: RunDirectory | None = None
    """The run whose models a transform applies."""

    @classmethod
    def of(cls, config: RunConfig, purpose: Purpose = "run", callback: Callback | None = None) -> Inputs:
        """Open the data set of a job, and check what can be checked without reading rows.

        Nothing is written, but that a table in text is converted beside the output, of which ``callback`` is told.

        The column of an evaluation's parts is no feature. Raises InputError or ConfigError for what does not fit.
        """
        refuse_misfit(config.compute)
        if config.dataset.columns is not None:  # a file may change, or not be there when rows are transformed
            columns = {"columns": listed(config.dataset.columns)}
            config = config.model_copy(update={"dataset": config.dataset.model_copy(update=columns)})
        dataset = _opened(config, purpose, callback or Callback())
        of_text = sum(len(levels.names) for levels in dataset.stored.levels)
        mixed = 0 < of_text < dataset.stored.n_features
        resolved = config.resolved(dataset.n_rows, dataset.n_features, purpose, mixed)
        held_out = HeldOut.of(config, dataset, purpose)
        return cls(resolved, dataset, folder_of(config, purpose), config, purpose, held_out)

    @property
    def chooses(self) -> bool:
        """Whether a run chooses among the numbers of components; an evaluation tries them all."""
        return self.asked.chooses and self.purpose == "run"

    @property
    def dataset(self) -> Dataset:
        """The rows, which all jobs read but those that solve and report from stored statistics."""
        assert isinstance(self.table, Dataset)  # noqa: S101
        return self.table

    @property
    def addresses(self) -> list[str]:
        """What is read, and must not change meanwhile."""
        return [*self.dataset.addresses, *self.held_out.addresses]

    def identity(self) -> Identity:
        parts = self.held_out.digest(Threads(self.config.compute.n_threads))
        models = None if self.fitted is None else self.fitted.header()["key"]
        return Identity(self.asked, self.dataset.fingerprint(), self.purpose, parts, models)


def refuse_classless(config: RunConfig, purpose: Purpose) -> None:
    """Raise InputError for methods and settings that are not for numbers to predict, where there are some."""
    if not config.dataset.predicts:
        return
    if purpose == "evaluation" and config.evaluation.classifiers != EvaluationConfig().classifiers:
        raise InputError(
            "evaluation.classifiers are for classes, and linear regression predicts the numbers of dataset.target: "
            "leave them out."
        )
    if config.class_weight is not None:
        raise InputError("class_weight is for classes, and dataset.target holds numbers: leave it out.")
    for section in config.methods:
        if not section.reducer(None)._serves_targets:
            how = (
                ", or give it loss: squared, a number for alpha, and a reduction for numbers, such as pls"
                if "loss" in section.method.settable
                else ""
            )
            raise InputError(
                f"{section.label} takes classes, and dataset.target holds numbers: cut these into slices (target: "
                f"{{column: NAME, slices: 10}}), or leave the method out{how}."
            )


def _opened(config: RunConfig, purpose: Purpose, callback: Callback) -> Dataset:
    section, compute = config.dataset, config.compute
    named = {"dataset.weight": section.weight, "dataset.balance": section.balance}
    targets = [] if section.target is None else section.target.column
    if purpose == "evaluation":
        named["evaluation.column"] = config.evaluation.column
    beside = {name: setting for setting, name in named.items() if name is not None and not name.endswith(FILE)}
    beside |= {name: COVARIATES for name in section.covariates if not name.endswith(FILE)}
    beside |= {name: TARGET for name in targets[1:] if not name.endswith(FILE)}
    columns = [section.label, *named.values(), *section.covariates, *targets]
    refuse_private(compute, [section.uri, *columns, config.output])
    given = {"features", "missing_chunks", "missing", "unlabelled", "unlabelled_value", "columns"}
    label = targets[0] if targets else section.label
    uri = readable_rows(located(section), config.output, callback)
    options = {**section.model_dump(include=given), "label": label}
    with (
        errors_name(section.uri, uri),
        memory_limits.within(compute.memory_bytes // compute.threads_per_worker, "compute.memory_limit"),
    ):
        with settings_named(renamed("label", "target")) if targets else nullcontext():
            rows = open_dataset(uri, drop=section.drop, beside=beside, encode=True, **options)
        refuse_gaps(rows, dropped=section.drop)
        for method in config.methods if section.weighted or config.class_weight is not None else []:
            refuse_weights(method.needs, f"{method.label}: ")
        if section.weight is not None:
            rows = with_weighed_levels(weighted_by(rows, open_beside(rows, section.weight, "dataset.weight")))
        if section.balance is not None:
            rows = balanced_by(rows, open_beside(rows, section.balance, "dataset.balance"))
        if section.covariates:
            rows = with_covariates(rows, {name: open_beside(rows, name, COVARIATES) for name in section.covariates})
        if section.target is not None:
            others = [open_beside(rows, name, TARGET) for name in targets[1:]]
            slices = section.target.slices
            rows = TargetRows(rows, targets, [rows, *others]) if slices is None else sliced(rows, slices)
        refuse_classless(config, purpose)
        dataset = mapped(rows, section.maps)
        if not config.chooses and config.largest > dataset.n_features:
            raise InputError(
                f"n_components={config.largest} is more than the {dataset.n_features} features of {dataset.uri}. Take "
                "as many at most, or n_components: auto."
            )
    stored = dataset.source if isinstance(dataset, MappedRows) else dataset
    shape = section.image_shape or stored.image_shape
    if shape is not None and shape[0] * shape[1] != stored.n_features:
        raise InputError(
            f"dataset.image_shape is {shape[0]} x {shape[1]}, but the rows have {stored.n_features} features. Set it "
            "to the height and width of the images, or leave it out."
        )
    if dataset.n_rows < 2:
        raise InputError(f"{dataset.uri} has {dataset.n_rows} row(s); there must be at least two.")
    return dataset
