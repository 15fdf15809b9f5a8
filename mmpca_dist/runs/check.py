"""Check a table before a run: what its columns are, what a run would refuse, and which settings suit it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from mmpca_dist.errors import some_names
from mmpca_dist.ingest.column_looks import ColumnLook
from mmpca_dist.jobs.notes import counted
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs.column_roles import (
    GROUPS,
    INDICATORS,
    LEFT_OUT,
    NUMBER,
    Role,
    is_continuous,
    label_of,
    roles_of,
    scales,
)
from mmpca_dist.runs.table_looks import Progress, TableLook, look_at
from mmpca_dist.tables.column_scatter import heavy_columns, heavy_note
from mmpca_dist.tables.readers.formats import stem_of

SIZES = (1, 2, 4, 8, 16)
SEARCHED_ROWS, SEARCHED_COLUMNS = 100_000, 2_000
"""The nearest rows of other classes are searched for in tables of so many rows and columns, which takes a minute."""
FULL_SCATTER = LIMITS.dense_columns
UNLIKE = 10
"""Columns are standardised where the largest standard deviation is more than so many times the smallest."""
SHOWN_CLASSES, SHOWN_TEXTS = 20, 3


@dataclass(frozen=True)
class Choice:
    """A setting by its dotted key, and why it has this value."""

    key: str
    value: Any
    reason: str = ""
    reasons: tuple[str, ...] = ()
    """Of a list: the reason for each value."""


@dataclass
class Check:
    """What a table holds, and a configuration that suits it."""

    look: TableLook
    roles: list[Role]
    label: str | None
    label_reason: str
    classes: Counter[str]
    predicts: bool
    """Whether the label holds numbers to predict, rather than classes."""
    n_unlabelled: int
    refused: list[tuple[str, str]] = field(default_factory=list)
    """What a run refuses that no setting here mends: what is wrong, and what to do."""

    @property
    def n_features(self) -> int:
        """Features of a run, indicators of texts among them."""
        return (
            sum(role.n_features for role in self.roles) if self.look.matrix is None else len(self.look.matrix.squares)
        )

    def of_use(self, use: str) -> list[Role]:
        """Return the columns of one use."""
        return [role for role in self.roles if role.use == use]

    @property
    def faults(self) -> list[tuple[str, str, str]]:
        """What a run refuses if it is given no more than the label: column, problem, and what the choices do."""
        faulty = [role for role in self.roles if role.fault is not None]
        faults = [
            (role.column.name, role.fault.problem, f"left out: {role.reason}")
            for role in faulty
            if role.use == LEFT_OUT and role.fault is not None
        ]
        filled = [role.column.name for role in faulty if role.n_features]
        if filled:
            faults.append((some_names(filled), "missing values", "means of their columns stand for them"))
        if self.n_unlabelled:
            rows = counted(self.n_unlabelled, "row")
            faults.append((self.label or "labels", f"{rows} without a label", "these rows are left out"))
        return faults

    def choices(self) -> list[Choice]:
        """Return the settings that suit the table, with reasons."""
        choices = [Choice("dataset.uri", self.look.uri, self.look.layout)]
        if self.look.features is not None:
            choices.append(Choice("dataset.features", self.look.features, "the column of lists"))
        if self.label is not None:
            what = "numbers to predict" if self.predicts else f"{len(self.classes):,} classes"
            key = "dataset.target" if self.predicts else "dataset.label"
            choices.append(Choice(key, self.label, f"{what}; {self.label_reason}"))
        if self.n_unlabelled:
            choices.append(Choice("dataset.unlabelled", "skip", f"{counted(self.n_unlabelled, 'row')} have no label"))
        if gaps := self._gaps():
            choices.append(Choice("dataset.missing", "mean", f"gaps in {gaps}, for which means stand"))
        drop = [role for role in self.roles if role.use in (LEFT_OUT, GROUPS)]
        if drop:
            names = [role.column.name for role in drop]
            choices.append(Choice("dataset.drop", names, reasons=tuple(role.reason for role in drop)))
        standardize, why = self._standardize()
        choices += [self._methods(), self._sizes(), Choice("standardize", standardize, why), *self._evaluation()]
        stem = PurePosixPath(re.split(r"[?#]", stem_of(self.look.uri))[0].replace(":", "/")).stem
        folder = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")
        return [*choices, Choice("output", f"runs/{folder or 'mine'}")]

    def _gaps(self) -> str:
        if self.look.matrix is not None:
            n_columns = int(np.count_nonzero(self.look.matrix.n_missing))
        else:
            n_columns = sum(bool(role.column.n_missing) for role in self.roles if role.n_features)
        return counted(n_columns, "column") if n_columns else ""

    def _methods(self) -> Choice:
        if self.predicts:
            return Choice("methods", ["pca", "pls", "ridge", "lasso"], "methods for numbers to predict, in one pass")
        methods = ["pca", "m-pca0", "m-pca1a"]
        if self.n_features <= FULL_SCATTER:
            methods.append("fisher")
        if self.look.n_rows <= SEARCHED_ROWS and self.n_features <= SEARCHED_COLUMNS:
            return Choice("methods", [*methods, "m-pca2"], "one pass for all, and a search for m-pca2")
        return Choice("methods", methods, "one pass for all; add m-pca2 where a search is affordable (mmpca plan)")

    def _sizes(self) -> Choice:
        sizes = [size for size in SIZES if size <= self.n_features] or [1]
        return Choice("n_components", sizes, f"of {counted(self.n_features, 'feature')}; an evaluation compares them")

    def _standardize(self) -> tuple[bool, str]:
        if self.look.matrix is not None:
            note = heavy_note(heavy_columns(self.look.matrix.squares), None, self.n_features)
            return (True, note.partition(". ")[0]) if note else (False, "no few columns hold nearly all of the scatter")
        if self.of_use(INDICATORS) and self.of_use(NUMBER):
            return True, "indicators of text stand beside numbers"
        smallest, largest = scales(self.roles)
        spread = f"standard deviations of columns are {smallest:.3g} to {largest:.3g}"
        return largest > UNLIKE * smallest, spread

    def _evaluation(self) -> list[Choice]:
        groups = self.of_use(GROUPS)
        if not groups:
            return [
                Choice("evaluation.splits", "folds", "five folds; groups, where a column names what belongs together")
            ]
        return [
            Choice("evaluation.splits", "groups", "rows of a group are alike: all are held out, or none"),
            Choice("evaluation.column", groups[0].column.name, groups[0].reason),
        ]

    def column_rows(self) -> list[dict[str, str]]:
        """Return a row for each column, to be shown."""
        return [_row(role) for role in self.roles]

    def lines(self) -> list[str]:
        """Return in words what the table is."""
        look = self.look
        width = len(self.roles) or self.n_features
        lines = [f"{look.uri}: {look.n_rows:,} rows, {width:,} columns ({look.layout}{', sparse' * look.sparse})"]
        if look.matrix is not None:
            lines.append(_matrix_words(look))
        if self.label is not None:
            lines.append(f"Label: {self.label} ({self.label_reason})")
        if self.classes and not self.predicts:
            most = self.classes.most_common(SHOWN_CLASSES)
            more = f", ... ({len(self.classes):,} in all)" if len(self.classes) > len(most) else ""
            lines.append(f"Classes: {', '.join(f'{name} {n:,}' for name, n in most)}{more}")
        return lines + look.notes

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "uri": self.look.uri,
            "rows": self.look.n_rows,
            "layout": self.look.layout,
            "features": self.n_features,
            "label": self.label,
            "label_reason": self.label_reason,
            "classes": None if self.predicts else dict(self.classes.most_common()),
            "unlabelled": self.n_unlabelled,
            "columns": [
                {"name": role.column.name, "type": str(role.column.kind), "use": role.use, "reason": role.reason,
                 "missing": role.column.n_missing, **_numbers(role.column)}
                for role in self.roles
            ],
            "notes": self.look.notes,
            "refused_as_it_is": [dict(zip(("column", "problem", "choice"), one, strict=True)) for one in self.faults],
            "refused": [{"problem": problem, "remedy": remedy} for problem, remedy in self.refused],
            "settings": {choice.key: choice.value for choice in self.choices()},
        }  # fmt: skip


def check(uri: str, label: str | None = None, progress: Progress | None = None) -> Check:
    """Read a table once, in bounded memory, and choose settings for a run.

    Parameters
    ----------
    uri : str
        Whatever ``open_dataset`` or ``ingest`` reads.
    label : str, optional
        The column or array of the labels; by default it is guessed.
    progress : callable, optional
        Called with how much is read, and of how much.

    Returns
    -------
    Check

    Raises
    ------
    InputError
        For what is no table, or has no column ``label``.
    """
    look = look_at(uri, label, progress)
    column, reason = label_of(look.columns, label) if look.columns else (None, "")
    if column is None:
        result = Check(look, [], None, "", look.classes, False, look.n_unlabelled)
        if look.matrix is not None and label is not None:
            result.label, result.label_reason = label, "as you say"
        result.roles = [] if look.matrix is not None else roles_of(look.columns, None)
    else:
        predicts = is_continuous(column)
        roles = [] if look.matrix is not None else roles_of(look.columns, column)
        result = Check(look, roles, column.name, reason, column.levels, predicts, column.n_missing)
    result.refused = _refused(result)
    return result


def _refused(checked: Check) -> list[tuple[str, str]]:
    """Return what no choice mends."""
    look, refused = checked.look, [(text, "") for text in checked.look.refused]
    classes = checked.classes
    if not classes and not checked.predicts and not look.refused:
        refused.append(("No column seems to hold labels.", "Name it with --label."))
    if len(classes) == 1 and not checked.predicts:
        refused.append((f"All rows are of class {next(iter(classes))}.", "Name another label, or add other rows."))
    if len(classes) > LIMITS.max_classes:
        refused.append(("There are more labels than classes can be.", "Name another label."))
    rare = [name for name, n in classes.items() if n == 1]
    if rare and len(classes) > 1 and not checked.predicts:
        look.notes.append(f"Classes of a single row: {some_names(rare)}. An evaluation refuses them: leave them out.")
    if look.n_rows < 2:
        refused.append((f"The table has {counted(look.n_rows, 'row')}.", "There must be at least two."))
    if not checked.n_features:
        refused.append(("No column is left for a feature.", "Name other labels with --label."))
    if look.matrix is not None and look.matrix.n_infinite.any():
        refused.append(("Some values are infinite.", "Correct them, or leave out their rows."))
    return refused


def _matrix_words(look: TableLook) -> str:
    matrix = look.matrix
    assert matrix is not None  # noqa: S101
    constant = int(np.count_nonzero(matrix.smallest >= matrix.largest))
    varied = matrix.digests[matrix.smallest < matrix.largest]
    words = [f"values from {matrix.smallest.min():.4g} to {matrix.largest.max():.4g}"]
    words += [f"{counted(constant, 'constant column')}"] if constant else []
    copies = len(varied) - len(np.unique(varied))
    words += [f"{counted(copies, 'column')} equal to another"] if copies else []
    missing = int(matrix.n_missing.sum())
    words += [f"{counted(missing, 'missing value')}"] if missing else []
    return f"Rows of numbers: {', '.join(words)}"


def _numbers(column: ColumnLook) -> dict[str, Any]:
    fractions = column.is_number and not column.is_whole
    counts = {} if fractions else {"different": column.n_distinct, "counted": column.is_counted}
    if not column.is_number or column.smallest > column.largest:
        return counts
    return {**counts, "smallest": column.smallest, "largest": column.largest, "deviation": column.deviation}


def _row(role: Role) -> dict[str, str]:
    column, known = role.column, _numbers(role.column)
    about = "" if known.get("counted", True) else "~"
    if "smallest" in known:
        values = f"{column.smallest:.4g} to {column.largest:.4g}"
    else:
        shown = [text[:20] for text, _ in column.levels.most_common(SHOWN_TEXTS)]
        values = ", ".join(shown) + (", ..." if column.n_distinct > len(shown) else "")
    return {
        "column": column.name,
        "type": str(column.kind),
        "missing": f"{column.n_missing / max(column.n_rows, 1):.1%}" if column.n_missing else "",
        "different": f"{about}{known['different']:,}" if "different" in known else "",
        "values": values,
        "use": f"{role.use}: {role.reason}" if role.reason else role.use,
    }
