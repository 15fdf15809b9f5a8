"""Splits by a column of the rows: given parts, groups that stay together, and times."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.evaluation.splits import ColumnSplits, Splits, as_fraction, sum_parts
from mmpca_dist.evaluation.thresholds import find_thresholds, row_hashes, row_mixes, split_keys
from mmpca_dist.passes.census import Census, check_missing_labels, count_labels
from mmpca_dist.passes.folds import deal_groups, draw_groups, group_table
from mmpca_dist.passes.rows import Rows
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.roles import ONE_CLASS
from mmpca_dist.tables.spans import Span, make_spans
from mmpca_dist.tables.times import key_before

LISTED = "th-"
"""Of rows that train, are held out, and are neither: only parts before the one held out train."""


def given_splits(rows: Rows, column: Dataset, held_out: str | int | None = None) -> ColumnSplits:
    """Return the split that a column names, from a pass over it and the labels.

    ``column`` has the part of each row for its label. ``held_out`` is the name, as it is printed, of the part that is
    held out while all others train; by default each is in turn. Raises InputError where there are fewer than two parts,
    or a class has no row to train on.
    """
    parts, table = _count_names(rows, column)
    if len(parts) < 2:
        raise InputError(f"All rows of {column.uri} are in the part {parts[0]!s}; there must be at least two parts.")
    chosen = tuple(range(len(parts)))
    if held_out is not None:
        # YAML and others write true for True.
        printed = (str(held_out), str(held_out).lower()) if isinstance(held_out, bool) else (str(held_out),)
        names_of_parts = [str(part) for part in parts]
        chosen = tuple(i for i, name in enumerate(names_of_parts) if name in printed)[:1]
        if not chosen:
            raise InputError(
                f"No row of {column.uri} is in a part {held_out!r}; there are {some_names(names_of_parts)}."
                f"{did_you_mean(str(held_out), names_of_parts)}"
            )
    splits = ColumnSplits(
        counts=table.toarray().T[None], held_out=chosen, classes=rows.census.classes, names=parts, column=column,
        part_of_name=np.arange(len(parts), dtype=np.int32)[None],
    )  # fmt: skip
    splits.refuse_untrained(splits.classes, f"the parts of {column.uri}", "Hold out others, or leave the class out.")
    return splits


def listed_splits(rows: Rows, column: Dataset) -> ColumnSplits:
    """Return splits that a column lists, from a pass over it and the labels.

    ``column`` has a text for each row, with a character for each split: ``t`` where the row trains, ``h`` where it is
    held out, and ``-`` where it does neither. Raises InputError for other texts, and where a split has no row to hold
    out, or a class none to train on.
    """
    texts, table = _count_names(rows, column)
    lengths = {len(str(text)) for text in texts}
    if len(lengths) > 1 or not set("".join(map(str, texts))) <= set(LISTED):
        raise InputError(f"{column.uri} lists no splits: each row has one of {', '.join(LISTED)} for every split.")
    codes = np.asarray([[LISTED.index(mark) for mark in str(text)] for text in texts], np.int32).T
    counts = np.stack([_of_parts(table, split, len(LISTED)) for split in codes])
    splits = ColumnSplits(
        counts=counts, held_out=(1,), classes=rows.census.classes, names=texts, column=column, part_of_name=codes,
        forward=True,
    )  # fmt: skip
    if not splits.n_tested.all():
        raise InputError(f"Split {np.argmin(splits.n_tested)} of those that {column.uri} lists holds out no row.")
    splits.refuse_untrained(splits.classes, f"the splits of {column.uri}", "Split otherwise, or leave the class out.")
    return splits


def group_splits(
    rows: Rows,
    column: Dataset,
    *,
    folds: int = 5,
    share: float | str | Fraction | None = None,
    n_splits: int = 1,
    seed: int = 0,
) -> ColumnSplits:
    """Return splits in which the rows of a group are all in the same part, from a pass over a column and the labels.

    ``column`` has the group of each row for its label. Folds have about as many rows in all and of each class, as far
    as groups allow; of a ``share`` of G groups, exactly round(share G) train, halves rounded up. Raises InputError
    where there are too few groups, or a class has no row to train on.
    """
    names, table = _count_names(rows, column)
    n_groups, classes = len(names), rows.census.classes
    if n_groups < 2:
        raise InputError(f"All rows of {column.uri} are in the group {names[0]!s}; there must be at least two groups.")
    keys = split_keys(seed, n_splits)
    orders = [np.argsort(row_hashes(row_mixes(0, n_groups), key)) for key in keys]
    if share is None:
        if n_groups < folds:
            raise InputError(
                f"{column.uri} has {n_groups} groups, fewer than the {folds} folds: set evaluation.folds to {n_groups} "
                "at most."
            )
        parts = np.stack([deal_groups(table, folds, order) for order in orders])
        held_out = tuple(range(folds))
    else:
        n_held_out = n_groups - int((2 * as_fraction(share) * n_groups + 1) // 2)
        if not 0 < n_held_out < n_groups:
            nothing = "train on" if n_held_out else "hold out"
            raise InputError(f"A share of {share} of {n_groups} groups of {column.uri} leaves none to {nothing}.")
        parts = np.stack([draw_groups(table, n_held_out, order) for order in orders])
        held_out = (1,)
        if (parts.sum(axis=1) < n_held_out).any():
            raise InputError(
                f"A share of {share} of the {n_groups} groups of {column.uri} holds out {n_held_out}, and more than "
                f"{parts.sum(axis=1).min()} would leave a class without rows to train on: raise evaluation.train, or "
                "leave classes of few groups out."
            )
    codes = parts.astype(np.int32)
    counts = np.stack([_of_parts(table, split, len(held_out) if share is None else 2) for split in codes])
    splits = ColumnSplits(
        counts=counts, held_out=held_out, classes=classes, names=names, column=column, part_of_name=codes, grouped=True
    )
    splits.refuse_untrained(classes, f"the groups of {column.uri}", "Lower evaluation.folds, or leave the class out.")
    return splits


def _of_parts(table: csr_array, parts: NDArray[np.int32], n_parts: int) -> NDArray[np.int64]:
    """Return the rows of every class in every part, shape (C, P), given the part of each group."""
    of_part = csr_array((np.ones(len(parts), np.int64), (parts, np.arange(len(parts)))), shape=(n_parts, len(parts)))
    return np.asarray((of_part @ table).toarray().T)


def _count_names(rows: Rows, column: Dataset) -> tuple[NDArray, csr_array]:
    """Return the sorted names in a column, shape (G,), and the rows of each class under each name, shape (G, C)."""
    _check_length(rows, column)
    counted = count_labels(column, make_spans(column), replace(rows, progress=None), kind="groups")
    check_missing_labels(column, counted)
    task = partial(_names_by_class, column=column, classes=rows.census.classes, names=counted.classes)
    return counted.classes, rows.pass_over_columns(task, operator.add, "parts", kept=False)


def _check_length(rows: Rows, column: Dataset) -> None:
    dataset = rows.dataset
    if column.n_rows != dataset.n_rows:
        raise InputError(f"There are parts for {column.n_rows} rows, and {dataset.uri} has {dataset.n_rows}.")


def _names_by_class(dataset: Dataset, span: Span, *, column: Dataset, classes: NDArray, names: NDArray) -> csr_array:
    """Return the rows of each class under each name, as of `group_table`."""
    codes, groups = (
        rows.batch(span.start, span.stop, X=False, roles=("label",)).codes(known)
        for rows, known in ((dataset, classes), (column, names))
    )
    return group_table(groups, codes, (len(names), len(classes)))


@dataclass(frozen=True, kw_only=True)
class TimeSplits(Splits):
    """One split by times: rows of a part are all before those of the next one."""

    column: Dataset
    """Whose labels are the times, row by row, as keys."""
    thresholds: NDArray[np.uint64]
    """Shape (P - 1,): a row is in the part whose number is how many thresholds are below its time, as a key."""

    def values(self, start: int, stop: int) -> NDArray[np.uint64]:
        return self.column.read_labels(start, stop)

    def parts_of(self, values: NDArray, labels: NDArray) -> NDArray[np.int32]:
        return np.searchsorted(self.thresholds, values).astype(np.int32)[None]


def time_splits(
    rows: Rows, column: Dataset, *, windows: int | None = None, boundary: str | float | None = None
) -> TimeSplits:
    """Return the split by times, in which only rows before those held out train, from passes over a column.

    ``column`` has the times for its labels, as keys. Rows at the ``boundary`` and after it are held out. Else there
    are ``windows`` + 1 parts of about as many rows each, and all but the first are held out, one after the other.
    Raises InputError where a part has no rows, or a class none to train on.
    """
    _check_length(rows, column)
    uri, dataset = column.uri, rows.dataset
    stored = column.label_column
    assert stored is not None  # noqa: S101  (it has the times)
    if stored.missing is not None:
        raise InputError(f"{uri} lacks chunks of the times of {stored.missing.n_rows} rows. Restore them.")
    if boundary is not None:
        key = key_before(boundary, stored.read(0, 1)[0].dtype, uri)
        thresholds = np.asarray([max(key, 0)], np.uint64)
        empty = f"the boundary {boundary} has no rows before it, or none at it or after it"
    else:
        assert windows is not None  # noqa: S101  (the configuration is checked)
        census = Census(np.zeros(1, np.intp), np.asarray([dataset.n_rows], np.int64), ())
        alike = replace(rows, dataset=dataset.with_look(ONE_CLASS, None, None), census=census)
        sizes = dataset.n_rows * np.arange(1, windows + 1) // (windows + 1)
        thresholds = find_thresholds(alike, partial(_times, column=column), 1, sizes[None])[0, 0]
        empty = f"{windows} windows of later and later rows do not have rows each: too many are at the same time"
    key_of = TimeSplits(
        counts=np.zeros((1, len(rows.census.classes), len(thresholds) + 1), np.int64), classes=rows.census.classes,
        held_out=tuple(range(1, len(thresholds) + 1)), forward=True, column=column, thresholds=thresholds,
    )  # fmt: skip
    counts = rows.pass_over_columns(partial(sum_parts, splits=key_of), np.add, "parts", kept=False)
    if not counts.sum(axis=1).all() or (boundary is not None and key < 0):
        raise InputError(f"In {uri}, {empty}. Change evaluation.{'windows' if boundary is None else 'boundary'}.")
    splits = replace(key_of, counts=counts)
    remedy = "Let earlier rows train longer, or leave the class out."
    splits.refuse_untrained(splits.classes, f"the times of {uri}", remedy)
    return splits


def _times(start: int, stop: int, *, column: Dataset) -> Iterator[NDArray[np.uint64]]:
    """Yield the keys of the times of rows, as `NumbersOfRows`."""
    yield column.read_labels(start, stop)
