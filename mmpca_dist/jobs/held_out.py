"""How the rows of a job are held out: its splits, and the column that names the part of each row."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.configuration.sections import BY_COLUMN, EvaluationConfig
from mmpca_dist.evaluation.column_splits import given_splits, group_splits, time_splits
from mmpca_dist.evaluation.splits import Splits, fold_splits, share_splits
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, Span, make_spans
from mmpca_dist.tables.labels import notes_on_missing_labels
from mmpca_dist.tables.readers.beside import open_beside
from mmpca_dist.tables.times import read_times

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
