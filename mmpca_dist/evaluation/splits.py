"""Splits: folds, stratified shares, or given parts.

A row's part follows from its number, its label and the seed, so that no list of rows is kept, and any task can tell the
parts of the rows it reads.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span, make_spans
from mmpca_dist.datasets.labels import encode
from mmpca_dist.datasets.readers.memory import ArrayDataset
from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.evaluation.thresholds import find_thresholds, row_hashes, row_mixes, split_keys
from mmpca_dist.statistics.census import check_missing_labels, count_labels
from mmpca_dist.statistics.rows import Rows

PLAIN_SHARE = re.compile(r"[\d.]{1,30}([eE][+-]?\d{1,3})?|\d{1,30}/\d{1,30}")
"""Of larger exponents Python would write out every digit."""


@dataclass(frozen=True)
class Splits(ABC):
    """S splits of the rows, each into P parts."""

    classes: NDArray
    """Shape (C,): sorted labels."""
    counts: NDArray[np.int64]
    """Shape (C, P): rows of every class in every part; the same in every split."""
    held_out: tuple[int, ...]
    """The parts that are held out, one after the other, while the others train: every part of folds, the second one of
    a share."""

    @property
    @abstractmethod
    def n_splits(self) -> int:
        """S."""

    @property
    def n_parts(self) -> int:
        """P."""
        return self.counts.shape[1]

    def baseline_errors(self, part: int) -> int:
        """Return the errors on a part of always naming the largest class of the rows that train, the other parts."""
        held_out = self.counts[:, part]
        return int(held_out.sum() - held_out[np.argmax(self.counts.sum(axis=1) - held_out)])

    @abstractmethod
    def codes(self, start: int, stop: int, labels: NDArray) -> NDArray[np.int32]:
        """Return the part of rows ``start`` to ``stop`` in every split, shape (S, stop - start).

        ``labels`` are those of these rows; one that is none of the classes raises InputError.
        """

    @abstractmethod
    def only(self, split: int) -> Splits:
        """Return one of the splits alone."""

    def training(self, start: int, stop: int, labels: NDArray, part: int | None = None) -> NDArray[np.bool_]:
        """Return which of rows ``start`` to ``stop`` train while a part (the first of ``held_out``) is held out.

        Of shape (S, stop - start).
        """
        return self.codes(start, stop, labels) != (self.held_out[0] if part is None else part)


@dataclass(frozen=True)
class HashedSplits(Splits):
    """Splits by hashes of row numbers."""

    keys: NDArray[np.uint64]
    """Shape (S,)."""
    thresholds: NDArray[np.uint64]
    """Shape (S, C, P - 1): a row is in the part whose number is how many thresholds of its class are below its hash."""

    @property
    def n_splits(self) -> int:
        return len(self.keys)

    def codes(self, start: int, stop: int, labels: NDArray) -> NDArray[np.int32]:
        classes = encode(labels, self.classes, f"rows {start} to {stop - 1}")
        mixes, codes = row_mixes(start, stop), np.zeros((self.n_splits, stop - start), np.int32)
        for split, key, thresholds in zip(codes, self.keys, self.thresholds, strict=True):
            hashes = row_hashes(mixes, key)
            for threshold in thresholds.T:
                split += hashes > threshold[classes]
        return codes

    def only(self, split: int) -> HashedSplits:
        at = slice(split, split + 1)
        return HashedSplits(self.classes, self.counts, self.held_out, self.keys[at], self.thresholds[at])


@dataclass(frozen=True)
class GivenSplits(Splits):
    """One split by a column of names."""

    names: NDArray
    """Shape (P,): sorted names of the parts."""
    column: Dataset
    """Whose labels are the names, row by row."""
    n_splits = 1

    def codes(self, start: int, stop: int, labels: NDArray) -> NDArray[np.int32]:
        return encode(self.column.read_labels(start, stop), self.names, self.column.uri).astype(np.int32)[None]

    def only(self, split: int) -> GivenSplits:
        return self


def share_splits(
    rows: Rows, share: float | str | Fraction = "4/5", *, n_splits: int = 50, seed: int = 0
) -> HashedSplits:
    """Return stratified splits into a training part (0) and a part held out (1), from passes over the labels alone.

    Of n_c rows of a class exactly round(share n_c) train, halves rounded up; a float means the decimal number it is
    written as. The splits share the passes, and are the same for any chunks, spans and workers. Raises InputError where
    a class has no row to train on, or nothing is held out.

    Source: Luo & Durrant 2017, section 5: 50 splits, four fifths to train.
    """
    census, exact = rows.census, as_fraction(share)
    counts = census.counts.tolist()
    training = np.asarray([int((2 * exact * n + 1) // 2) for n in counts], np.int64)
    for label, n, kept in zip(census.classes, counts, training, strict=True):
        if not kept:
            raise InputError(
                f"Class {label!s} has {n} row{'s' * (n > 1)}, and a share of {share} of them leaves none to train on: "
                "raise the share, or leave the class out."
            )
    if training.sum() == census.n_rows:
        raise InputError(f"A share of {share} of the rows of each class leaves none to hold out: lower it.")
    sizes = np.stack([training, census.counts - training], axis=1)
    return _hashed(rows, sizes, (1,), n_splits, seed)


def fold_splits(rows: Rows, n_folds: int = 5, *, n_splits: int = 1, seed: int = 0) -> HashedSplits:
    """Return stratified folds, each to be held out in turn, from passes over the labels alone.

    The sizes of the folds differ by at most one row in each class, and by at most one row in all. The rows are dealt
    ``n_splits`` times, the same way for any chunks, spans and workers. Raises InputError for a class with one row, or
    fewer rows than folds.
    """
    census = rows.census
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer) or not 2 <= n_folds <= census.n_rows:
        raise InputError(f"There are {n_folds!r} folds for {census.n_rows} rows; there must be 2 to {census.n_rows}.")
    if census.counts.min() < 2:
        alone = [str(label) for label in census.classes[census.counts < 2]]
        raise InputError(
            f"Only one row has the label {some_names(alone)}: while its fold is held out, none is left to train on. "
            "Leave such classes out."
        )
    sizes = fold_sizes(census.counts, n_folds)
    return _hashed(rows, sizes, tuple(range(n_folds)), n_splits, seed)


def fold_sizes(counts: NDArray[np.int64], n_folds: int) -> NDArray[np.int64]:
    """Return the rows of every class in every fold, shape (C, P), of the rows of each class, shape (C,).

    Row i of all, class by class, is dealt to fold i mod P.
    """
    ends, folds = np.cumsum(counts)[:, None], np.arange(n_folds)
    return np.asarray((ends - 1 - folds) // n_folds - (ends - counts[:, None] - 1 - folds) // n_folds)


def given_splits(rows: Rows, column: Dataset, held_out: str | int | None = None) -> GivenSplits:
    """Return the split that a column names, from a pass over it and the labels.

    ``column`` has the part of each row for its label. ``held_out`` is the name, as it is printed, of the part that is
    held out while all others train; by default each is in turn. Raises InputError where there are fewer than two parts,
    or a class has no row to train on.
    """
    dataset, census = rows.dataset, rows.census
    if column.n_rows != dataset.n_rows:
        raise InputError(f"There are parts for {column.n_rows} rows, and {dataset.uri} has {dataset.n_rows}.")
    counted = count_labels(column, make_spans(column), replace(rows, progress=None))
    check_missing_labels(column, counted)
    parts = counted.classes
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
    task = _CountParts(dataset, column, census.classes, parts)
    counts = rows.reduce(task, np.add, "parts")
    for part in chosen:
        lost = np.flatnonzero(counts.sum(axis=1) == counts[:, part])
        if len(lost):
            raise InputError(
                f"All {counts[lost[0], part]} rows of class {census.classes[lost[0]]!s} are in the part "
                f"{parts[part]!s} of {column.uri}: while it is held out, none is left to train on."
            )
    return GivenSplits(census.classes, counts, chosen, parts, column)


def as_fraction(share: float | str | Fraction) -> Fraction:
    """Return a share as the fraction that it is written as. Raises InputError for one that is not between 0 and 1."""
    written = str(share).strip()
    try:
        exact = Fraction(written if PLAIN_SHARE.fullmatch(written) else 0)
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if not 0 < exact < 1:
        raise InputError(f"The share {share!r} of the rows that train must be between 0 and 1, like 0.8 or '4/5'.")
    return exact


def _hashed(rows: Rows, sizes: NDArray[np.int64], held_out: tuple[int, ...], n_splits: int, seed: int) -> HashedSplits:
    """Return splits into parts of these sizes, shape (C, P)."""
    keys = split_keys(seed, n_splits)
    thresholds = find_thresholds(rows, keys, np.cumsum(sizes[:, :-1], axis=1))
    return HashedSplits(rows.census.classes, sizes, held_out, keys, thresholds)


def as_column(names: NDArray, uri: str) -> ArrayDataset:
    """Return an array of names, shape (n,) or (n, 1), as the labels of rows that take no memory.

    Raises InputError for an array of another shape, or of what cannot be names.
    """
    if names.ndim != 1 and names.shape[1:] != (1,):
        raise InputError(f"The parts in {uri} have shape {names.shape}; there must be one name or number a row.")
    return ArrayDataset(np.broadcast_to(np.zeros((), np.uint8), (len(names), 1)), names, uri)


@dataclass(frozen=True)
class _CountParts:
    """Counts the rows of every class in every part, shape (C, P)."""

    dataset: Dataset
    column: Dataset
    classes: NDArray
    parts: NDArray
    labels_only = True

    def __call__(self, span: Span) -> NDArray[np.int64]:
        classes = encode(self.dataset.read_labels(span.start, span.stop), self.classes, self.dataset.uri)
        parts = encode(self.column.read_labels(span.start, span.stop), self.parts, self.column.uri)
        shape = (len(self.classes), len(self.parts))
        return np.bincount(classes * shape[1] + parts, minlength=shape[0] * shape[1]).reshape(shape)
