"""Check a table before a run, in one reading: what its columns are for, what a run would refuse, what settings suit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from mmpca_dist.column_words import is_identifier
from mmpca_dist.errors import InputError, some_names
from mmpca_dist.ingest.column_profiles import ColumnProfile, Pieces, profiles_of, suits_commas, with_value
from mmpca_dist.ingest.csv import CsvRows
from mmpca_dist.ingest.libsvm import LibsvmRows
from mmpca_dist.ingest.row_source import LABELS, RowSource
from mmpca_dist.ingest.sources import DatasetRows
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs.checked_table import GROUPS, INDICATORS, LABEL, LEFT_OUT, NUMBER, ColumnRole, TableCheck, in_words
from mmpca_dist.runs.label_guess import MAX_CLASSES, label_among, label_beside, makes_groups, repeats_id
from mmpca_dist.statistics.telling_columns import telling_notes, telling_shares
from mmpca_dist.stores import storage
from mmpca_dist.tables.column_names import is_index
from mmpca_dist.tables.column_scatter import ColumnSpread
from mmpca_dist.tables.compose import compose, label_plays, open_rows
from mmpca_dist.tables.levels import FEWEST_ROWS, MOSTLY, is_text, notes_on_many
from mmpca_dist.tables.readers.column_choice import LABEL_NAMES
from mmpca_dist.tables.readers.formats import format_of, text_form
from mmpca_dist.tables.readers.named_columns import ColumnRows
from mmpca_dist.tables.times import remedy_for, times_in

Progress = Callable[[int, int], None]


def check(
    uri: str, label: str | None = None, progress: Progress = lambda done, total: None,
    missing_values: Sequence[str] = (), decimal: str | None = None,
) -> TableCheck:  # fmt: skip
    """Read a table, in bounded memory, and tell what a run can make of it; again where rows lack a label.

    ``uri`` names whatever ``open_dataset`` or ``ingest`` reads, ``label`` the column or array of the labels (by default
    a guess). ``progress`` is called with how much is read, and of how much; ``missing_values`` and ``decimal`` are as
    in a configuration. Numbers with a decimal comma where none is expected take a second reading. Raises InputError for
    what is no table, or has no such column.
    """
    address = storage.normalize(uri)
    checked = TableCheck(uri, "LIBSVM text", missing_values=[*missing_values], decimal=decimal)
    form = text_form(address)
    if form == "csv":
        checked = _of_csv(CsvRows.of_table(address, missing_values, decimal), checked, label, progress)
    elif form == "libsvm":
        rows = LibsvmRows(address, np.dtype(np.float64), True)
        rows.numbers = checked.predicts = rows.fractions
        checked = _of_rows(rows, checked, progress)
        checked.label, checked.why = (LABELS, "its numbers have fractions") if rows.fractions else (None, "")
    elif format_of(address).columns:
        columns = open_rows(uri, names=[], unlabelled="skip", missing_values=missing_values)
        checked = _of_columns(columns, checked, label, progress)  # type: ignore[arg-type]
    else:
        checked = _of_array(uri, label, progress, missing_values=missing_values)
    if decimal is None and suits_commas([use.column for use in checked.uses], checked.layout.startswith("text")):
        return check(uri, label, progress, missing_values, ",")
    if label == "none":
        names = [use.column.name for use in checked.uses]
        own = next((name for name in LABEL_NAMES if name in names), None)  # as runs take it
        uses = [replace(use, what=LABEL) if use.column.name == own else use for use in checked.uses]
        checked = replace(checked, label=label, why="as you say", classes={}, predicts=False, classless=True, uses=uses)
    rare = [name for name, n in checked.classes.items() if n == 1]
    if not (checked.classes or checked.predicts or checked.classless):
        checked.refused.append("No column seems to hold labels: name it with --label, or say --no-label.")
    elif len(checked.classes) == 1:
        checked.refused.append("All rows are of one class: name another label, or say --no-label.")
    elif rare:
        checked.notes.append(f"An evaluation refuses classes of a single row: leave out {some_names(rare)}.")
    checked.refused += [] if checked.n_features else ["No column is left for a feature."]
    return checked


def _of_csv(rows: CsvRows, checked: TableCheck, label: str | None, progress: Progress) -> TableCheck:
    names = [rows.name_of(i) for i in rows.features]
    checked.layout = f"text, {rows.total:,} bytes"

    def read() -> Pieces:
        for table, done in rows.tables({}):
            yield table.columns
            progress(done, max(rows.total, done))

    looks = profiles_of(names, read(), rows.decimal)
    checked.notes = list(rows.notes)
    if any(look.kind == pa.binary() for look in looks):
        raise rows.refusal([])
    return _judged(checked, looks, label, read)


def _of_columns(rows: ColumnRows, checked: TableCheck, label: str | None, progress: Progress) -> TableCheck:
    lists = rows.rows_in_lists()
    names = [name for name in rows.schema.names if (name not in rows.index or name == label) and name != lists]

    def read() -> Pieces:
        done = 0
        for table in rows.tables(names):
            yield table.columns
            done += len(table)
            progress(done, rows.n_rows)

    if not names and not lists:
        raise InputError(f"{checked.uri} has no columns.")
    looks = profiles_of(names, read() if names else (), checked.decimal or ".")
    checked.layout, checked.notes = rows.layout, [rows.note] if rows.note else []
    if lists is None:
        return _judged(checked, looks, label, read)
    chosen, why = label_among(looks, label)
    named = chosen.name if chosen else label
    checked = _of_array(checked.uri, named, progress, lists, why, checked.missing_values)
    if beside := [look.name for look in looks if look is not chosen]:
        checked.notes.append(f"The lists in {lists!r} are the rows; no features are {some_names(beside)}.")
    return checked


def _judged(
    checked: TableCheck, columns: list[ColumnProfile], named: str | None, read: Callable[[], Pieces]
) -> TableCheck:
    """Choose the label, and what the other columns are for in the rows that have one: read again if some lack it."""
    _take_words([column for column in columns if column.name != named], checked)
    for column in columns:
        if column.name == named:
            texts = column.numbers
            spells = bool(texts.n_plain) and not texts.is_whole and texts.others.keys() <= {*checked.missing_values}
            column.take_words(checked.missing_values, spells)
    label, checked.why = label_among(columns, named)
    if label is not None and (pa.types.is_temporal(label.kind) or pa.types.is_nested(label.kind)):
        what = f"{label.name!r} holds type {label.kind}, and labels are text or numbers"
        raise InputError(f"{what}: write it as text, or name another with --label.")
    checked.n_rows, counted = columns[0].n_rows, columns
    if label is not None:
        checked.label, checked.n_unlabelled, at = label.name, label.n_missing, columns.index(label)
        if 0 < label.n_missing < label.n_rows:
            pieces = with_value(read(), at, checked.missing_values)
            counted = profiles_of([column.name for column in columns], pieces, label.numbers.decimal)
            for look, whole in zip(counted, columns, strict=True):
                look.take_words((), whole.is_number)
            label = counted[at]
        checked.predicts = label.is_number and not (label.is_whole and label.n_distinct <= MAX_CLASSES)
        checked.classes = {} if checked.predicts else label.levels
        if checked.classes and not label.keeps_all:
            checked.notes.append(f"{label.name!r} has {label.distinct} classes, of which a sample is counted.")
    uses = _uses_of(counted, label)
    checked.uses = [replace(use, column=column, counted=use.column) for use, column in zip(uses, columns, strict=True)]
    checked.n_gaps = sum(use.column.n_missing for use in checked.uses if use.n_features)
    checked.notes += [note for use in uses if use.what != LEFT_OUT for note in use.column.alike_notes()]
    checked.notes += notes_on_many(use.levels for use in uses if use.what == INDICATORS)
    totals = [column.name for column in columns if is_text(column.kind) and column.has_total]
    checked.refused += [f"There seem to be rows of totals: leave them out. See {some_names(totals)}."] if totals else []
    if label is not None and not checked.predicts:
        kept = [use for use in uses if use.n_features]
        features = {use.column.name: (use.column.some_rows(use.what == NUMBER), use.what != NUMBER) for use in kept}
        checked.telling = telling_shares(features, label.some_rows(number=False))
        checked.notes += telling_notes(checked.telling)
    return checked


def _take_words(columns: Sequence[ColumnProfile], checked: TableCheck) -> None:
    """Take the few other cells of columns of numbers for missing values; text of numbers alone becomes numbers then."""
    mixed = [column for column in columns if column.numbers.are_numbers and column.numbers.others]
    words = list(dict.fromkeys(word for column in mixed for word in column.numbers.words))
    checked.missing_values += words
    for column in columns:
        numbers = column.numbers
        spells = bool(numbers.n_plain) and numbers.others.keys() <= set(words)
        column.take_words(words, spells and (bool(checked.missing_values) or not numbers.are_few))
    checked.notes += [f"{column.name}: {column.numbers.said}." for column in mixed]


def _of_array(
    uri: str, label: str | None, progress: Progress, features: str | None = None, why: str = "as you say",
    missing_values: Sequence[str] = (),
) -> TableCheck:  # fmt: skip
    refused: list[str] = []
    opened = partial(open_rows, uri, features=features, missing="mean", missing_values=missing_values)
    if label is None and features is None:
        label, why = label_beside(opened())
    try:
        source = opened() if label == "none" else opened(label=label, labelled=True, unlabelled="skip")
        rows = compose(source, [] if label == "none" else label_plays("skip"))
    except InputError as error:
        refused.append(str(error))
        source = opened()
        rows = compose(source, label_plays()[: source.label is not None])
    checked = TableCheck(
        uri, rows.stored.layout, label=label, why=why, features=features, refused=refused,
        missing_values=[*missing_values],
    )  # fmt: skip
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
        if codes.dtype.kind != "f":
            classes.update(dict(zip(map(str, names), np.bincount(codes, minlength=len(names)).tolist(), strict=True)))
        progress(block.done, max(source.total, block.done))
    checked.squares, checked.classes = spread.squares, classes
    checked.refused += [f"{n_infinite:,} values are infinite: correct them."] if n_infinite else []
    checked.notes += source.notes
    return checked


def _uses_of(columns: Sequence[ColumnProfile], label: ColumnProfile | None) -> list[ColumnRole]:
    likely = [column for column in columns if column is not label and makes_groups(column)]
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


def _use(column: ColumnProfile, same: str) -> ColumnRole:
    """Return what a column is for that is no label; ``same`` is the first one with its values."""
    text, n = is_text(column.kind), column.n_known
    refusals = {
        f"a {in_words(column.kind)}: {remedy_for(column.kind)}": pa.types.is_temporal(column.kind),
        f"it holds type {column.kind}": not (
            text or column.is_number or pa.types.is_boolean(column.kind) or pa.types.is_null(column.kind)
        ),
        f"{column.n_infinite:,} values are infinite: correct them": column.n_infinite and not text,
        f"{column.distinct} different texts": text and column.n_distinct > LIMITS.max_levels,
    }
    numbers = f"{column.numbers.said}: write plain numbers"
    refusals[numbers] = text and column.numbers.are_numbers and not column.numbers.are_plain
    # So many whole numbers of a narrow range, drawn at random, differ with a chance of less than exp(-10).
    is_dense = column.largest - column.smallest < n**2 / 20 or is_identifier(column.name)
    differ = column.all_differ and n >= FEWEST_ROWS
    how = "no two rows have the same" if column.keeps_all else "nearly all rows differ"
    named = is_identifier(column.name, "id", "code") and column.is_names and n >= FEWEST_ROWS
    times = times_in(column.levels) if text or 19e6 < column.smallest <= column.largest < 21e6 else ""
    faults = {
        "row numbers": is_index(column.name),
        "no row has a value": not n,
        "all rows have the same value": column.n_distinct == 1,
        f"it equals {same!r}": same != column.name and not pa.types.is_nested(column.kind),
        numbers: refusals[numbers],
        f"{column.n_missing / max(column.n_rows, 1):.0%} is missing": column.n_missing > MOSTLY * column.n_rows,
        f"an identifier: {how}": differ and (text or (column.is_names and (is_dense or column.numbers.n_plain))),
        f"text of {times}" if text else f"{times} written as numbers": times,
        f"an identifier by its name: {column.distinct} values in {n:,} rows": named and column.n_distinct > n / 3,
        "text that is new in most rows": text and column.n_distinct > max(MOSTLY * n, FEWEST_ROWS),
        "it names groups of rows": (named and repeats_id(column.name))
        or (makes_groups(column) and (not text or column.n_distinct > MAX_CLASSES)),
    }
    reason = next((reason for reason, holds in {**faults, **refusals}.items() if holds), "")
    return ColumnRole(column, LEFT_OUT if reason else INDICATORS if text else NUMBER, reason, any(refusals.values()))
