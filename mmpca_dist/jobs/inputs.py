"""The inputs of a job, with text converted once; how its rows are held out; and where it writes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mmpca_dist.configuration.dataset_section import DatasetConfig, located
from mmpca_dist.configuration.held_out_sections import BY_COLUMN, EvaluationConfig
from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.column_splits import given_splits, group_splits, listed_splits, time_splits
from mmpca_dist.evaluation.splits import Splits, block_splits, fold_splits, share_splits
from mmpca_dist.faults import Setting, asking, showing, who_asks
from mmpca_dist.ingest.job import ingest
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.jobs.cluster import refuse_misfit, refuse_private
from mmpca_dist.jobs.directory import Identity, RunDirectory, folder_of
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.stored_moments import StoredMoments
from mmpca_dist.methods.base.statistics_for import refuse_weights
from mmpca_dist.passes.rows import Rows
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import held
from mmpca_dist.tables import memory_limits
from mmpca_dist.tables.chosen_columns import listed
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.compose import FILE, column_of, compose, plays_of, request_of, side_settings
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.facts import Table
from mmpca_dist.tables.labels import notes_on_missing
from mmpca_dist.tables.readers.formats import open_source, text_form
from mmpca_dist.tables.readers.named_columns import refuse_gaps
from mmpca_dist.tables.roles import AXIS, PART, TIME

SHARE = "4/5"
"""Share of the rows of each class that train, by default."""
MANY = 100
"""More fits of every method than this are pointed out before they begin."""


def _parts_of(config: RunConfig, dataset: Dataset, purpose: Purpose) -> Dataset | None:
    """Open the column by which a job holds out rows."""
    section = config.evaluation
    holds_out = config.chooses or config.belonging or config.erasing
    reads = purpose == "evaluation" or (holds_out and section.splits == "groups")
    if not (reads and section.splits in BY_COLUMN):
        return None
    assert section.column is not None  # noqa: S101  (the configuration is checked)
    column = column_of(dataset.stored, section.column, Setting("column", section="evaluation"))
    return dataset.unmapped.labelled_by(column, TIME if section.splits == "time" else PART)


def note_on_many(section: EvaluationConfig, splits: Splits) -> str:
    """Return a sentence on a number of fits that one would not expect, or nothing."""
    n_held_out = splits.n_splits * len(splits.held_out)
    if n_held_out <= MANY:
        return ""
    fewer = {"given": "splits: groups deals the names in the column into folds", "time": "lower windows"}.get(
        section.splits, "lower count" if splits.n_splits > 1 else "lower folds"
    )
    return f"Every method is fitted {n_held_out:,} times: for fewer, {fewer}."


def held_out_in_words(section: EvaluationConfig, n_splits: int, classless: bool = False) -> str:
    """Return in words how rows are held out."""
    stratified, whose = ("", "the rows") if classless else ("stratified ", "each class")
    if section.splits == "shares":
        times = f"{section.count} {stratified}splits" if section.count > 1 else f"one {stratified}split"
        return f"{times}, {section.train or SHARE} of {whose} trains"
    if section.in_folds:
        again = f", dealt {section.count} times" if section.count > 1 else ""
        folds = {"folds": f"{stratified}folds", "blocks": "blocks of rows that follow each other"}
        what = folds.get(section.splits, f"folds of the groups in {section.column}")
        return f"{section.folds} {what}{again}"
    if section.splits == "groups":
        times = f"{section.count} splits" if section.count > 1 else "one split"
        return f"{times}, {section.train} of the groups in {section.column} trains"
    if section.splits == "listed":
        return f"{n_splits} splits that {section.column} lists"
    if section.boundary is not None:
        return f"rows from {section.boundary} on held out, by {section.column}"
    if section.windows is not None:
        return f"{section.windows} windows of {section.column} held out, after all that train"
    parts = f"{n_splits} parts" if section.held_out is None else f"part {section.held_out}"
    return f"{parts} of {section.column} held out"


def notes_on_parts(
    section: EvaluationConfig, column: Column | None, classes: Sequence[str], counts: Sequence[int]
) -> list[str]:
    """Return a note on every class that some folds hold no row of, or on rows whose part is not stored."""
    if column is not None and section.splits != "time":
        return notes_on_missing(column, "group" if section.splits == "groups" else "part")
    folds = section.folds if section.splits == "folds" else 0
    return [
        f"Class {name} has {n} row{'s' * (n != 1)}: {folds - n} of the {folds} folds hold none of it."
        for name, n in zip(classes, counts, strict=True)
        if n < folds
    ]


CONVERT = "convert"
VERSION = 2
"""Another number lets all texts be converted again."""


def readable_rows(
    uri: str, output: str, section: DatasetConfig, callback: Callback, kept: bool = True, fitted: Any = None
) -> str:
    """Return the address of rows that a run reads: of CSV Parquet, of LIBSVM text Zarr, and of others the address.

    What is converted lies in the folder ``converted`` beside the output, where other runs find it, if the caller leaves
    it there (``kept``). The record of its source is written at the end, so that a killed conversion starts again.
    Raises InputError for text that is no table, and OutputError while another process converts it.
    """
    source = storage.normalize(uri)
    if not (form := text_form(source)):
        return uri
    storage.require(source)
    how: Any = {"missing_values": section.missing_values, "decimal": section.decimal}
    how = how if form == "csv" else {"numbers": section.target is not None, **(fitted or {})}
    parent, stem = storage.normalize(output).rpartition("/")[0], re.sub(r"\W+", "-", source.rpartition("/")[2])
    folder = storage.join(parent, "converted", f"{stem}-{storage.digest(source, *filter(None, how.values()))[:8]}")
    record = storage.join(folder, "source.json")
    converted = storage.join(folder, "table.parquet" if form == "csv" else "table.zarr")
    key = storage.digest(VERSION, storage.list_objects(source), how)
    written = Path(source).stat().st_mtime if storage.is_local(source) else 0
    if storage.exists(record) and storage.read_json(record).get("key") == key:
        return converted
    started = time.monotonic()
    first_lease = storage.join(folder, "lease-000001.json")  # shows whether the output can be written
    with showing({first_lease: output}), held(folder, callback.on_note):
        callback.on_stage_start(CONVERT)
        storage.remove(record)
        progress = partial(callback.on_progress, CONVERT)
        ingest(IngestConfig(source=source, destination=converted, overwrite=True, **how), progress, callback.on_note)
        if storage.is_local(source) and storage.is_local(converted):  # a run resumes where this is made anew
            os.utime(converted, (0, written))
        storage.write_json(record, {"key": key, "source": source})
    found = [f"{uri} is kept as {converted}, until it changes."] if kept else []
    callback.on_stage_end(CONVERT, {"seconds": round(time.monotonic() - started, 3), "found": found}, False)
    return converted


def ingest_table(config: IngestConfig, callback: Callback) -> dict[str, Any]:
    """Ingest a table, and return its manifest."""
    callback.on_stage_start("ingest")
    manifest = ingest(config, partial(callback.on_progress, "ingest"), callback.on_note)
    callback.on_stage_end("ingest", manifest, False)
    return manifest


def ingested(config: IngestConfig, manifest: dict[str, Any]) -> str:
    """Return a finished ingest in words."""
    kind = "sparse rows" if manifest["sparse"] else "rows"
    return f"{manifest['rows']} {kind} of {manifest['columns']} columns written to {config.destination}"


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
    parts: Dataset | None = None
    """The rows with their parts, groups or times for labels, where a column tells how rows are held out."""
    fitted: RunDirectory | None = None
    """The run whose models a transform applies."""
    inverse: bool = False
    """Whether a transform writes rows as the models rebuild them."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """The address of text, by that of the rows that it was converted to."""

    @classmethod
    def of(cls, config: RunConfig, purpose: Purpose = "run", callback: Callback | None = None) -> Inputs:
        """Open the data set of a job, and check what can be checked without reading rows.

        Nothing is written, but that a table in text is converted beside the output, of which ``callback`` is told.

        The column of an evaluation's parts is no feature. Raises InputError or ConfigError for what does not fit.
        """
        refuse_misfit(config.compute)
        if config.dataset.moments is not None:
            return cls._of_moments(config, purpose)
        if config.dataset.columns is not None:  # a file may change, or not be there when rows are transformed
            columns = {"columns": listed(config.dataset.columns)}
            config = config.model_copy(update={"dataset": config.dataset.model_copy(update=columns)})
        dataset = _opened(config, purpose, callback or Callback())
        of_text = sum(len(levels.names) for levels in dataset.stored.levels)
        mixed = 0 < of_text < dataset.stored.n_features
        resolved = config.resolved(dataset.n_rows, dataset.n_features, purpose, mixed)
        parts, uri = _parts_of(config, dataset, purpose), config.dataset.uri
        shown = {dataset.uri: uri} if text_form(storage.normalize(located(config.dataset))) else {}
        return cls(resolved, dataset, folder_of(config, purpose), config, purpose, parts, shown=shown)

    @classmethod
    def _of_moments(cls, config: RunConfig, purpose: Purpose) -> Inputs:
        """Ask the moments of another run, whose columns, maps and precision those of this one are."""
        if purpose == "evaluation":
            raise InputError("dataset.moments has no rows to hold out: evaluate methods on the rows themselves.")
        table = StoredMoments(config)
        refuse_many(config, table)
        of_question, own = {"uri", "moments", "data_dir"}, table.base.dataset.model_copy(update={"groups": []})
        names = config.dataset.model_fields_set - of_question
        idle = [f"dataset.{name}" for name in names if getattr(config.dataset, name) != getattr(own, name)]
        idle += ["solver.kind"] * (config.solver.kind not in ("auto", "dense"))
        if "precision" in config.model_fields_set and config.precision != table.base.precision:
            idle.append("precision")
        if idle:
            raise InputError(
                f"{', '.join(sorted(idle))}: leave it out, as moments are what the run in {table.run.uri} made of its "
                "rows."
            )
        base = table.base.dataset.model_copy(
            update={"uri": config.dataset.uri, "data_dir": None, "moments": table.question, "groups": []}
        )
        if table.question.drop:
            base = base.model_copy(update={"image_shape": None})
        project = config.project.model_copy(update={"methods": []})
        asked = config.model_copy(update={"dataset": base, "precision": table.base.precision, "project": project})
        resolved = asked.resolved(table.n_rows, table.n_features, purpose, table.count.record["standardize"])
        return cls(resolved, table, folder_of(asked, purpose), asked, purpose)

    @property
    def dataset(self) -> Dataset:
        """The rows, which all jobs read but those that solve and report from stored statistics."""
        assert isinstance(self.table, Dataset)  # noqa: S101
        return self.table

    @property
    def addresses(self) -> list[str]:
        """Addresses that are read, and must not change meanwhile."""
        return [*self.table.addresses, *(() if self.parts_column is None else self.parts_column.addresses)]

    @property
    def parts_column(self) -> Column | None:
        return None if self.parts is None else self.parts.label_column

    def draw_splits(self, rows: Rows) -> Splits:
        """Return the splits of the rows, from passes over labels alone."""
        section, parts = self.config.evaluation, self.parts
        options = {"n_splits": section.count, "seed": section.seed}
        if section.splits == "shares":
            return share_splits(rows, section.train or SHARE, **options)
        if section.splits == "folds":
            return fold_splits(rows, section.folds, **options)
        if section.splits == "blocks":
            return block_splits(rows, section.folds)
        assert parts is not None  # noqa: S101  (the configuration is checked)
        if section.splits == "groups":
            return group_splits(rows, parts, folds=section.folds, share=section.train, **options)
        if section.splits == "time":
            return time_splits(rows, parts, windows=section.windows, boundary=section.boundary)
        if section.splits == "listed":
            return listed_splits(rows, parts)
        return given_splits(rows, parts, section.held_out)

    def identity(self) -> Identity:
        parts = None if self.parts_column is None else self.parts_column.fingerprint()
        models = None if self.fitted is None else self.fitted.header()["key"] + ", inverse" * self.inverse
        return Identity(self.asked, self.table.fingerprint(), self.purpose, parts, models)


def refuse_many(config: RunConfig, table: Table) -> None:
    """Raise InputError for more components than there are features."""
    if not config.chooses and (config.largest or 0) > table.n_features:
        raise InputError(
            f"n_components={config.largest} is more than the {table.n_features} features of {table.uri}. Take as many "
            "at most, or n_components: auto."
        )


def refuse_classless(config: RunConfig, purpose: Purpose) -> None:
    """Raise InputError for methods and settings that need classes, where there are numbers to predict, or no labels."""
    if config.dataset.classless:
        needing = [one.label for one in config.methods if not one.reducer(None).needs_no_labels]
        needing += ["class_weight"] * (config.class_weight is not None)
        if purpose == "evaluation":
            own, usual = config.evaluation, EvaluationConfig()
            for_classes = ("classifiers", "intervals", "published")
            needing += [f"evaluation.{name}" for name in for_classes if getattr(own, name) != getattr(usual, name)]
            if whole := ", ".join(sorted(config.unreduced)):
                raise InputError(f"{whole}: all columns leave nothing to reconstruct. Leave it out of the evaluation.")
        if needing:
            raise InputError(
                f"{', '.join(needing)}: needs labels, and dataset.label is none. Without labels there are pca, "
                "random-projection and all-columns."
            )
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
        if not section.reducer(None).serves_targets:
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
    section, compute, plays = config.dataset, config.compute, plays_of(config.dataset)
    beside = side_settings(plays)
    parts = config.evaluation.column
    if purpose == "evaluation" and parts is not None and not parts.endswith(FILE):
        beside[parts] = Setting("column", section="evaluation")
    columns = (play.column for play in plays)
    refuse_private(compute, [section.uri, section.outcome, *columns, parts, config.output])
    uri = readable_rows(located(section), config.output, section, callback)
    with (
        showing({uri: section.uri}),
        memory_limits.within(compute.memory_bytes // compute.threads_per_worker, "compute.memory_limit"),
    ):
        called = {"label": Setting("label" if section.target is None else "target").said(who_asks())}
        with asking(replace(who_asks(), called=called)):
            source = open_source(request_of(section, uri, beside=beside, label_required=not section.classless))
        refuse_gaps(source, dropped=section.drop)
        for name in config.report.columns if isinstance(config.report.columns, list) else []:
            column_of(source, name, Setting("columns", section="report"))
        for method in config.methods if section.weighted or config.class_weight is not None else []:
            refuse_weights(method.needs, f"{method.label}: ", config.class_weight)
        factors = config.class_weight if isinstance(config.class_weight, Mapping) else {}
        if purpose == "evaluation":  # which asks no further questions
            plays = [play for play in plays if play.role is not AXIS]
        rows = compose(source, plays, [label for label, factor in factors.items() if factor == 0])
        rows = rows.of_one_class() if section.classless else rows
        refuse_classless(config, purpose)
        dataset = rows.with_maps(section.maps)
        refuse_many(config, dataset)
    stored = rows.facts
    shape = section.image_shape or stored.image_shape
    if shape is not None and shape[0] * shape[1] != stored.n_features:
        raise InputError(
            f"dataset.image_shape is {shape[0]} x {shape[1]}, but the rows have {stored.n_features} features. Set it "
            "to the height and width of the images, or leave it out."
        )
    if dataset.n_rows < 2:
        raise InputError(f"{dataset.uri} has {dataset.n_rows} row(s); there must be at least two.")
    return dataset
