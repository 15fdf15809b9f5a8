"""Check a table before a run, in one reading: what its columns are for, what a run would refuse, what settings suit."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.configuration.parsing import as_yaml
from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.ingest.column_profiles import ColumnProfile
from mmpca_dist.ingest.csv import CSV_SUFFIXES, CsvRows
from mmpca_dist.ingest.libsvm import LIBSVM_SUFFIXES, LibsvmRows
from mmpca_dist.ingest.row_source import LABELS, RowSource
from mmpca_dist.ingest.sources import DatasetRows
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.column_scatter import ColumnSpread, dominant_columns
from mmpca_dist.tables.compose import compose, label_plays, open_rows
from mmpca_dist.tables.levels import FEWEST_ROWS, MOSTLY, Levels, is_text
from mmpca_dist.tables.readers.formats import format_of, stem_of
from mmpca_dist.tables.readers.named_columns import LABEL_NAMES, ColumnRows, is_list

LABEL, NUMBER, INDICATORS, LEFT_OUT, GROUPS = "label", "number", "indicators", "left out", "groups"
USUAL_LABEL = re.compile("class|target|species|diagnosis|outcome|category", re.I)
GROUP = re.compile(
    "patient|subject|person|participant|donor|user|customer|client|household|family|group|site|hospital|batch|plate|"
    "vineyard|farm|school|animal|mouse|session|device|speaker|author",
    re.I,
)
IDENTIFIER = re.compile(r"(^|[\W_])(id|uid|uuid|key|nr|no|number|index)$", re.I)
DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([ T].*)?")
MAX_CLASSES = 50
"""Different values of a column that is taken for the label without being named."""
FEWEST_GROUPS = 5
"""Fewer groups do not fill the folds."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ColumnRole:
    """The use of a column, and why; ``refused`` tells whether a run refuses it unless it is left out."""

    column: ColumnProfile
    what: str
    reason: str = ""
    refused: bool = False

    @property
    def n_features(self) -> int:
        if self.what == INDICATORS:
            return len(Levels.of(self.column.name, self.column.levels).names)
        return int(self.what == NUMBER)

    def row(self) -> dict[str, Any]:
        column = self.column
        values = ", ".join(text[:20] for text, _ in column.levels.most_common(2))
        if column.is_number and column.n_known:
            values = f"{column.smallest:.4g} to {column.largest:.4g}"
        return {
            "column": column.name, "type": _in_words(column.kind), "missing": f"{column.n_missing:,}",
            "different": column.distinct, "values": values,
            "use": f"{self.what}: {self.reason}" if self.reason else self.what,
        }  # fmt: skip


@dataclass
class TableCheck:
    """The content of a table, and the use that a run makes of it.

    ``why`` is the reason for the label, which may stand for numbers to predict (``predicts``) rather than ``classes``;
    ``features`` is the list column that holds the rows; ``squares`` are squared deviations of the columns of an array;
    ``refused`` is what no setting mends.
    """

    uri: str
    layout: str
    n_rows: int = 0
    label: str | None = None
    why: str = ""
    predicts: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)
    n_unlabelled: int = 0
    n_gaps: int = 0
    uses: list[ColumnRole] = field(default_factory=list)
    features: str | None = None
    squares: NDArray[np.float64] | None = None
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def n_features(self) -> int:
        """Features of a run, indicators of texts among them."""
        return sum(use.n_features for use in self.uses) if self.squares is None else len(self.squares)

    def of_use(self, *whats: str) -> list[ColumnRole]:
        return [use for use in self.uses if use.what in whats]

    @property
    def remedies(self) -> list[str]:
        """Columns that a run refuses which is given no more than the label, and what becomes of them."""
        gaps = some_names([use.column.name for use in self.uses if use.n_features and use.column.n_missing])
        return [
            *(f"{use.column.name!r}: left out ({use.reason})" for use in self.uses if use.refused),
            *([f"{self.n_gaps:,} gaps ({gaps or 'in rows'}): means stand for them"] if self.n_gaps else []),
            *([f"{self.n_unlabelled:,} rows without a label: left out"] if self.n_unlabelled else []),
        ]

    def to_json(self) -> dict[str, Any]:
        plain = {name: value for name, value in vars(self).items() if name not in ("uses", "squares")}
        counts = ({"missing": use.column.n_missing, "different": use.column.n_distinct} for use in self.uses)
        rows = [{**use.row(), **exact} for use, exact in zip(self.uses, counts, strict=True)]
        return {**plain, "remedies": self.remedies, "columns": rows}

    def lines(self) -> list[str]:
        lines = [f"{self.uri}: {self.n_rows:,} rows, {len(self.uses) or self.n_features:,} columns ({self.layout})"]
        lines += [f"Label: {self.label} ({self.why})"] if self.label else []
        most = ", ".join(f"{name} {n:,}" for name, n in Counter(self.classes).most_common(MAX_CLASSES))
        lines += [f"{len(self.classes):,} classes: {most}"] if self.classes else []
        constant = 0 if self.squares is None else np.count_nonzero(self.squares == 0)
        return lines + ([f"Columns that are the same in all rows: {constant:,}"] if constant else []) + self.notes


def check(uri: str, label: str | None = None, progress: Progress = lambda done, total: None) -> TableCheck:
    """Read a table once, in bounded memory, and tell what a run can make of it.

    ``uri`` names whatever ``open_dataset`` or ``ingest`` reads, ``label`` the column or array of the labels (by default
    a guess). ``progress`` is called with how much is read, and of how much. Raises InputError for what is no table, or
    has no such column.
    """
    address, number = storage.normalize(uri), np.dtype(np.float64)
    if stem_of(address).endswith(CSV_SUFFIXES):
        checked = _of_csv(CsvRows(address, number), TableCheck(uri, "text"), label, progress)
    elif stem_of(address).endswith(LIBSVM_SUFFIXES):
        checked = _of_rows(LibsvmRows(address, number, True), TableCheck(uri, "LIBSVM text"), progress)
    elif format_of(address).columns:
        checked = _of_columns(open_rows(uri, names=[]), uri, label, progress)  # type: ignore[arg-type]
    else:
        checked = _of_array(uri, label, progress)
    rare = [name for name, n in checked.classes.items() if n == 1]
    if not checked.classes and not checked.predicts:
        checked.refused.append("No column seems to hold labels: name it with --label.")
    elif len(checked.classes) == 1:
        checked.refused.append("All rows are of one class: name another label.")
    elif rare:
        checked.notes.append(f"An evaluation refuses classes of a single row: leave out {some_names(rare)}.")
    checked.refused += [] if checked.n_features else ["No column is left for a feature."]
    return checked


def _of_csv(rows: CsvRows, checked: TableCheck, label: str | None, progress: Progress) -> TableCheck:
    names = [rows.name_of(i) for i in rows.features]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    checked.refused += [f"Several columns are called {name!r}: rename all but one." for name in repeated]
    checked.layout, checked.notes = f"text, {rows.total:,} bytes", list(rows.notes)
    looks = [ColumnProfile(name, len(names)) for name in names]
    for table, done in rows.tables({}):
        _add(looks, (pc.utf8_trim_whitespace(one) if one.type == pa.string() else one for one in table.columns))
        progress(done, max(rows.total, done))
    if any(look.kind == pa.binary() for look in looks):
        raise rows.refusal([])
    return _judged(checked, looks, label)


def _of_columns(rows: ColumnRows, uri: str, label: str | None, progress: Progress) -> TableCheck:
    lists = [field.name for field in rows.schema if is_list(field.type)]
    if lists:
        return _of_array(uri, label, progress, lists[0])
    names = [name for name in rows.schema.names if not name.startswith("__index_level_")]
    looks = [ColumnProfile(name, len(names)) for name in names]
    for table in rows.tables(names):
        _add(looks, table.columns)
        progress(looks[0].n_rows, rows.n_rows)
    return _judged(TableCheck(uri, rows.layout), looks, label)


def _in_words(kind: pa.DataType) -> str:
    words = {
        "text": is_text(kind),
        "date": pa.types.is_date(kind),
        "whole number": pa.types.is_integer(kind),
        "number": pa.types.is_floating(kind) or pa.types.is_decimal(kind),
        "yes or no": pa.types.is_boolean(kind),
    }
    return next((word for word, holds in words.items() if holds), str(kind))  # fmt: skip


def _add(looks: list[ColumnProfile], columns: Iterable[pa.ChunkedArray]) -> None:
    for look, column in zip(looks, columns, strict=True):
        for values in column.chunks:
            look.add(values)


def _judged(checked: TableCheck, columns: list[ColumnProfile], named: str | None) -> TableCheck:
    """Choose the label among columns, and what the others are for."""
    label, checked.why = _label_among(columns, named)
    checked.n_rows, checked.uses = columns[0].n_rows, _uses_of(columns, label)
    checked.n_gaps = sum(use.column.n_missing for use in checked.uses if use.n_features)
    if label is not None:
        checked.label, checked.n_unlabelled = label.name, label.n_missing
        checked.predicts = label.is_number and not (label.is_whole and label.n_distinct <= MAX_CLASSES)
        checked.classes = {} if checked.predicts else label.levels
    return checked


def _of_array(uri: str, label: str | None, progress: Progress, features: str | None = None) -> TableCheck:
    refused = []
    try:
        source = open_rows(uri, features=features, label=label, labelled=True, missing="mean", unlabelled="skip")
        rows = compose(source, label_plays("skip"))
    except InputError as error:
        refused.append(str(error))
        source = open_rows(uri, features=features, missing="mean")
        rows = compose(source, label_plays()[: source.label is not None])
    checked = TableCheck(uri, rows.stored.layout, label=label, why="as you say", features=features, refused=refused)
    checked.n_unlabelled = rows.stored.n_rows - rows.n_rows
    return _of_rows(DatasetRows(rows), checked, progress)


def _of_rows(source: RowSource, checked: TableCheck, progress: Progress) -> TableCheck:
    spread, n_infinite, classes = ColumnSpread(source.n_features), 0, Counter[str]()
    for block in source.blocks():
        rows = block.rows.astype(np.float64)
        values = rows.data if issparse(rows) else rows
        checked.n_gaps += int(np.isnan(values).sum())
        n_infinite += int(np.isinf(values).sum())
        np.nan_to_num(values, copy=False, posinf=0, neginf=0)
        spread.add(rows)
        checked.n_rows += rows.shape[0]
        names, codes = block.names.get(LABELS, ([], np.zeros(0, int)))
        classes.update(dict(zip(map(str, names), np.bincount(codes, minlength=len(names)).tolist(), strict=True)))
        progress(block.done, max(source.total, block.done))
    checked.squares, checked.classes = spread.squares, classes
    checked.refused += [f"{n_infinite:,} values are infinite: correct them."] if n_infinite else []
    checked.notes += source.notes
    return checked


def _label_among(columns: Sequence[ColumnProfile], named: str | None) -> tuple[ColumnProfile | None, str]:
    """Return the column of the labels and why it is this one; None where none seems to be."""
    by_name = {column.name: column for column in columns}
    if named is not None:
        if named not in by_name:
            raise InputError(f"There is no column {named!r} (--label).{did_you_mean(named, by_name)}")
        return by_name[named], "as you say"
    likely = [c for c in columns if c.is_names and 2 <= c.n_distinct <= min(MAX_CLASSES, c.n_known / 2)]
    likely = [c for c in likely if not GROUP.search(c.name)]
    usual = [by_name[name] for name in LABEL_NAMES if name in by_name]
    usual += [c for c in likely if USUAL_LABEL.fullmatch(c.name)]
    why = "by its name" if usual else "a guess"
    return next(iter(usual or likely[::-1]), None), f"{why}: name another with --label"


def _uses_of(columns: Sequence[ColumnProfile], label: ColumnProfile | None) -> list[ColumnRole]:
    likely = [column for column in columns if column is not label and _makes_groups(column)]
    groups = max(likely, key=lambda column: column.n_distinct, default=None)
    seen: dict[str, str] = {}
    uses = [
        ColumnRole(column, LABEL) if column is label
        else ColumnRole(column, GROUPS, f"{column.distinct} groups, which an evaluation holds out") if column is groups
        else _use(column, seen.setdefault(column.digest.hexdigest(), column.name))
        for column in columns
    ]  # fmt: skip
    while sum(sizes := [use.column.n_distinct * (use.what == INDICATORS) for use in uses]) > LIMITS.max_levels:
        widest = int(np.argmax(sizes))
        reason = f"{uses[widest].column.distinct} different texts, and indicators of all columns would be too many"
        uses[widest] = ColumnRole(uses[widest].column, LEFT_OUT, reason, True)
    return uses


def _makes_groups(column: ColumnProfile) -> bool:
    many = FEWEST_GROUPS <= column.n_distinct <= column.n_known / 2
    return many and column.is_names and not column.n_missing and bool(GROUP.search(column.name))


def _use(column: ColumnProfile, same: str) -> ColumnRole:
    """Return what a column is for that is no label; ``same`` is the first one with its values."""
    text, n = is_text(column.kind), column.n_known
    refusals = {
        f"it holds type {column.kind}": pa.types.is_nested(column.kind) or pa.types.is_binary(column.kind),
        "a date: turn it into a number, such as days since one of them": pa.types.is_temporal(column.kind),
        f"{column.n_infinite:,} values are infinite: correct them": column.n_infinite,
        f"{column.distinct} different texts": text and column.n_distinct > LIMITS.max_levels,
    }
    # So many whole numbers of a narrow range, drawn at random, differ with a chance of less than exp(-10).
    is_dense = column.largest - column.smallest < n**2 / 20 or IDENTIFIER.search(column.name)
    differ = column.all_differ and n >= FEWEST_ROWS
    how = "no two rows have the same" if column.keeps_all else "nearly all rows differ"
    faults = {
        "no row has a value": not n,
        "all rows have the same value": column.n_distinct == 1,
        f"it equals {same!r}": same != column.name,
        f"an identifier: {how}": differ and (text or (column.is_names and is_dense)),
        "text of dates": text and all(DATE.fullmatch(level) for level in column.levels),
        "text that is new in most rows": text and column.n_distinct > max(MOSTLY * n, FEWEST_ROWS),
        f"{column.n_missing / max(column.n_rows, 1):.0%} is missing": column.n_missing > MOSTLY * column.n_rows,
        "it names groups of rows": _makes_groups(column) and (not text or column.n_distinct > MAX_CLASSES),
    }
    reason = next((reason for reason, holds in {**faults, **refusals}.items() if holds), "")
    return ColumnRole(column, LEFT_OUT if reason else INDICATORS if text else NUMBER, reason, any(refusals.values()))


SIZES = (1, 2, 4, 8, 16)
SEARCHED_ROWS, SEARCHED_COLUMNS = 100_000, 2_000
"""Tables of so many rows and columns are searched for the nearest rows of other classes in about a minute."""
OUTPUT = "a run with other settings needs another one"
WIDE = 0.8
"""With more columns than this share of the rows, fewer rows train than there are columns."""
UNLIKE = 10
"""Columns are standardised where one standard deviation is more than so many times another."""


def suggested_yaml(checked: TableCheck) -> str:
    """Return a configuration for a table, with a comment on each line that was chosen."""
    key, what = ("target", "numbers") if checked.predicts else ("label", f"{len(checked.classes):,} classes")
    sizes = [size for size in SIZES if size <= checked.n_features]
    name = PurePosixPath(re.sub(r"[?#].*", "", checked.uri).replace("\\", "/")).name.partition(".")[0]
    left_out, groups = checked.of_use(LEFT_OUT, GROUPS), checked.of_use(GROUPS)
    wide = not checked.predicts and checked.n_features > WIDE * checked.n_rows
    lines = [
        f"# Of {checked.n_rows:,} rows a run makes {checked.n_features:,} features. All settings: mmpca config.",
        "dataset:",
        _line("  uri", checked.uri, checked.layout),
        _line("  features", checked.features, "a column of lists"),
        _line(f"  {key}", checked.label, f"{what}; {checked.why}"),
        _line("  unlabelled", "skip" if checked.n_unlabelled else None, f"{checked.n_unlabelled:,} lack a label"),
        _line("  missing", "mean" if checked.n_gaps else None, f"means stand for {checked.n_gaps:,} gaps"),
        "  drop:" if left_out else "",
        *(f"    - {_scalar(use.column.name)}{_comment(use.reason)}" for use in left_out),
        _line("methods", *_methods(checked)),
        _line("n_components", sizes, f"of {checked.n_features:,} features; an evaluation compares them"),
        _line("standardize", *_standardize(checked)),
        "evaluation:" if groups or wide else "",
        _line("  classifiers", ["fisher"] if wide else None, "lda cannot use more columns than rows"),
        _line("  splits", "groups" if groups else None, "rows of a group are held out together"),
        *(_line("  column", use.column.name, use.reason) for use in groups),
        _line("output", f"runs/{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-') or 'mine'}", OUTPUT),
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _methods(checked: TableCheck) -> tuple[list[str], str]:
    if checked.predicts:
        return ["pca", "pls", "ridge", "lasso"], "methods for numbers to predict"
    methods = ["pca", "m-pca0", "m-pca1a", *(["fisher"] if checked.n_features <= LIMITS.dense_columns else [])]
    different = math.prod(use.column.n_distinct for use in checked.uses if use.n_features)
    if checked.uses and different < checked.n_rows:
        return methods, "one pass for all; columns of so few values do not tell all rows apart, as m-pca2 needs"
    if checked.n_rows <= SEARCHED_ROWS and checked.n_features <= SEARCHED_COLUMNS:
        return [*methods, "m-pca2"], "one pass for all, and a search for m-pca2"
    return methods, "one pass for all; mmpca plan tells what a search for m-pca2 would cost"


def _standardize(checked: TableCheck) -> tuple[bool, str]:
    if checked.squares is not None:
        heavy = bool(dominant_columns(checked.squares))
        return heavy, f"the scatter is in {'a few columns' if heavy else 'many columns'}"
    if checked.of_use(INDICATORS) and checked.of_use(NUMBER):
        return True, "indicators of text stand beside numbers"
    deviations = [use.column.deviation for use in checked.of_use(NUMBER) if use.column.n_distinct > 2] or [1.0]
    low, high = min(deviations), max(deviations)
    return high > UNLIKE * low, f"standard deviations of columns are {low:.3g} to {high:.3g}"


def _line(key: str, value: Any, reason: str = "") -> str:
    return "" if value is None else f"{key}: {_scalar(value)}{_comment(reason)}"


def _scalar(value: Any) -> str:
    """Return a value on one line: names that YAML would fold are quoted and escaped."""
    text = as_yaml(value)
    return yaml.safe_dump(value, default_style='"', width=10**6).strip() if "\n" in text else text


def _comment(text: str) -> str:
    """Return a comment of one line, whatever is in names of columns."""
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    return f"  # {' '.join(words)}" if words else ""
