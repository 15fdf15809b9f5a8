"""Splits: folds and stratified shares.

A row's part follows from its number, or from its value in a column, its label and the seed, so that no list of rows is
kept, and any task can tell the parts of the rows it reads.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.evaluation.thresholds import find_thresholds, hashes_of_rows, row_hashes, row_mixes, split_keys
from mmpca_dist.passes.rows import Rows
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import encode
from mmpca_dist.tables.spans import Span

PLAIN_SHARE = re.compile(r"[\d.]{1,30}([eE][+-]?\d{1,3})?|\d{1,30}/\d{1,30}")
"""Python would write out every digit of larger exponents."""


@dataclass(frozen=True, kw_only=True)
class PartSizes:
    """How many rows are in each of the P parts of S splits, and which parts train while others are held out."""

    counts: NDArray[np.int64]
    """Shape (S, C, P): rows of every class in every part of every split."""
    weights: NDArray[np.float64] | None = None
    """Of the same shape: sums of the weights of these rows; None where every row counts once."""
    held_out: tuple[int, ...]
    """The H parts of a split that are held out, one after the other: every part of folds, the second one of a share."""
    forward: bool = False
    """Whether only the parts before the one that is held out train, not all others."""

    @property
    def totals(self) -> NDArray:
        """How much the rows of every class in every part of every split count: their number, or sum of weights."""
        return self.counts if self.weights is None else self.weights

    @property
    def n_splits(self) -> int:
        """S."""
        return len(self.counts)

    @property
    def n_parts(self) -> int:
        """P."""
        return self.counts.shape[2]

    def trains(self, part: int) -> NDArray[np.bool_]:
        """Return which parts train while one is held out, shape (P,)."""
        parts = np.arange(self.n_parts)
        return parts < part if self.forward else parts != part

    @property
    def training_counts(self) -> NDArray[np.int64]:
        """How many rows of every class train, shape (S, C, H)."""
        others = self.counts.cumsum(axis=2) if self.forward else self.counts.sum(axis=2, keepdims=True)
        return np.asarray((others - self.counts)[:, :, self.held_out])

    @property
    def n_train(self) -> NDArray[np.int64]:
        """How many rows train, shape (S, H)."""
        return np.asarray(self.training_counts.sum(axis=1))

    @property
    def n_tested(self) -> NDArray[np.int64]:
        """How many rows are held out, shape (S, H)."""
        return np.asarray(self.counts.sum(axis=1)[:, self.held_out])

    def refuse_untrained(self, classes: NDArray, where: str, remedy: str) -> None:
        """Raise InputError for classes that have no row to train on while some part is held out."""
        untrained = (self.training_counts == 0).any(axis=(0, 2))
        if untrained.any():
            names = some_names([str(label) for label in classes[untrained]])
            raise InputError(
                f"With {where}, no row with the label {names} trains while some part is held out. Every class must "
                f"have some. {remedy}"
            )


@dataclass(frozen=True, kw_only=True)
class Splits(PartSizes, ABC):
    """S splits of the rows, each into P parts."""

    classes: NDArray
    """Shape (C,): sorted labels."""
    first: int = 0
    """Number of the first part held out among those of all splits: that of part h of the H in split s is s H + h."""

    def baseline_errors(self, part: int) -> float:
        """Return the errors in a part of the first split of always naming the largest class of the rows that train."""
        totals = self.totals[0]
        trained = totals @ self.trains(part)
        return float(totals[:, part].sum() - totals[np.argmax(trained), part])

    def codes(self, batch: Batch) -> NDArray[np.int32]:
        """Return the part of rows in every split, shape (S, n); raise InputError for a label that is no class."""
        return self.parts_of(self.valued(batch).roles["value"], batch.label)

    def valued(self, batch: Batch) -> Batch:
        """Return a batch with the `values` of its rows as a role, and with ``group``, where rows are in groups."""
        if "value" in batch.roles:
            return batch
        values = self.values(batch.start, batch.stop)
        groups = {"group": values} if self.grouped else {}
        return replace(batch, roles={**batch.roles, "value": values, **groups})

    def training(self, batch: Batch, part: int | None = None) -> NDArray[np.bool_]:
        """Return which rows train while a part (the first of ``held_out``) is held out, shape (S, n)."""
        return self.trains(self.held_out[0] if part is None else part)[self.codes(batch)]

    @abstractmethod
    def values(self, start: int, stop: int) -> NDArray:
        """Return the numbers that the parts of rows ``start`` to ``stop`` follow from, shape (stop - start,)."""

    @abstractmethod
    def parts_of(self, values: NDArray, labels: NDArray) -> NDArray[np.int32]:
        """Return the part of rows in every split, shape (S, n), given their ``values`` and labels."""

    grouped = False
    """Whether rows are in groups that belong together wherever rows are held out: their values are the numbers."""

    _by_split: ClassVar[tuple[str, ...]] = ("counts", "weights")
    """Attributes with an entry for each split."""

    def only(self, split: int) -> Self:
        """Return one of the splits alone."""
        by_split = {name: getattr(self, name) for name in self._by_split}
        changes = {name: values[split : split + 1] for name, values in by_split.items() if values is not None}
        return replace(self, first=self.first + split * len(self.held_out), **changes)

    def known(self, batch: Batch) -> KnownSplits:
        """Return the splits of rows that are all in memory; ``batch`` has them with their `values`."""
        facts = {each.name: getattr(self, each.name) for each in fields(Splits)}
        return KnownSplits(**facts, parts=self.codes(batch), groups=batch.roles.get("group"))

    def weighed(self, rows: Rows) -> Self:
        """Return the splits with the weights of their parts, from a pass over labels and weights, if rows have any."""
        if rows.census.totals is None:
            return self
        task = partial(sum_parts, splits=self, weighted=True)
        return replace(self, weights=rows.pass_over_columns(task, np.add, "weights", kept=False))


def sum_parts(dataset: Dataset, span: Span, *, splits: Splits, weighted: bool = False) -> NDArray:
    """Return how many rows of every class are in every part of every split, or their weights, shape (S, C, P)."""
    batch = dataset.batch(span.start, span.stop, X=False, roles=("label", "weight"))
    shape = splits.counts.shape
    cells, weights = batch.codes(splits.classes) * shape[2], batch.weight if weighted else None
    parts = splits.codes(batch)
    return np.stack([np.bincount(cells + split, weights, shape[1] * shape[2]) for split in parts]).reshape(shape)


@dataclass(frozen=True, kw_only=True)
class HashedSplits(Splits):
    """Splits by hashes of row numbers."""

    keys: NDArray[np.uint64]
    """Shape (S,)."""
    thresholds: NDArray[np.uint64]
    """Shape (S, C, P - 1): a row is in the part whose number is how many thresholds of its class are below its hash."""
    _by_split = ("counts", "weights", "keys", "thresholds")

    def values(self, start: int, stop: int) -> NDArray[np.uint64]:
        return row_mixes(start, stop)

    def parts_of(self, values: NDArray, labels: NDArray) -> NDArray[np.int32]:
        classes = encode(labels, self.classes, "the rows")
        codes = np.zeros((self.n_splits, len(values)), np.int32)
        for split, key, thresholds in zip(codes, self.keys, self.thresholds, strict=True):
            hashes = row_hashes(values, key)
            for threshold in thresholds.T:
                split += hashes > threshold[classes]
        return codes


@dataclass(frozen=True, kw_only=True)
class ColumnSplits(Splits):
    """Splits by the names in a column."""

    names: NDArray
    """Shape (G,): sorted."""
    column: Dataset
    """Whose labels are the names, row by row."""
    part_of_name: NDArray[np.int32]
    """Shape (S, G): the part of the rows of each name."""
    grouped: bool = False
    _by_split = ("counts", "weights", "part_of_name")

    def values(self, start: int, stop: int) -> NDArray[np.intp]:
        return encode(self.column.read_labels(start, stop), self.names, self.column.uri)

    def parts_of(self, values: NDArray, labels: NDArray) -> NDArray[np.int32]:
        return self.part_of_name[:, values]


@dataclass(frozen=True, kw_only=True)
class KnownSplits(Splits):
    """Splits whose parts are known row by row."""

    parts: NDArray[np.int32]
    """Shape (S, n)."""
    groups: NDArray | None = None
    """Shape (n,): the numbers of the groups of rows, where they are in groups."""
    _by_split = ("counts", "weights", "parts")

    @property
    def grouped(self) -> bool:  # type: ignore[override]
        return self.groups is not None

    def valued(self, batch: Batch) -> Batch:
        batch = super().valued(batch)
        groups = {} if self.groups is None else {"group": self.groups[batch.start : batch.stop]}
        return replace(batch, roles={**batch.roles, **groups})

    def values(self, start: int, stop: int) -> NDArray[np.int32]:
        return self.parts[:, start:stop].T

    def parts_of(self, values: NDArray, labels: NDArray) -> NDArray[np.int32]:
        return values.T


def share_splits(
    rows: Rows, share: float | str | Fraction = "4/5", *, n_splits: int = 50, seed: int = 0
) -> HashedSplits:
    """Return stratified splits into a training part (0) and a part held out (1), from passes over the labels alone.

    From n_c rows of a class exactly round(share n_c) train, halves rounded up; a float means the decimal number it is
    written as. The splits share the passes, and are the same for any chunks, spans and workers. Raises InputError where
    a class has no row to train on, or nothing is held out.

    Source: Luo & Durrant 2017, section 5: 50 splits, four fifths to train.
    """
    census, exact = rows.census, as_fraction(share)
    counts = census.sizes.tolist()
    training = np.asarray([int((2 * exact * n + 1) // 2) for n in counts], np.int64)
    if training.sum() == census.n_rows:
        raise InputError(f"A share of {share} of the rows of each class leaves none to hold out: lower it.")
    sizes = PartSizes(counts=np.stack([training, census.sizes - training], axis=1)[None], held_out=(1,))
    sizes.refuse_untrained(census.classes, f"a share of {share}", "Raise the share, or leave the class out.")
    return _hashed(rows, sizes, n_splits, seed)


def fold_splits(rows: Rows, n_folds: int = 5, *, n_splits: int = 1, seed: int = 0) -> HashedSplits:
    """Return stratified folds, each to be held out in turn, from passes over the labels alone.

    The sizes of the folds differ by at most one row in each class, and by at most one row in all. The rows are dealt
    ``n_splits`` times, the same way for any chunks, spans and workers. Raises InputError for a class with one row, or
    fewer rows than folds.
    """
    census = rows.census
    if not 2 <= n_folds <= census.n_rows:
        raise InputError(f"There are {n_folds} folds for {census.n_rows} rows; there must be 2 to {census.n_rows}.")
    sizes = PartSizes(counts=fold_sizes(census.sizes, n_folds)[None], held_out=tuple(range(n_folds)))
    sizes.refuse_untrained(census.classes, f"{n_folds} folds", "Leave such classes out.")
    return _hashed(rows, sizes, n_splits, seed)


@dataclass(frozen=True, kw_only=True)
class BlockSplits(Splits):
    """A split into blocks of rows that follow each other."""

    edges: NDArray[np.int64]
    """Shape (P - 1,): the first row of every block but the first."""

    def values(self, start: int, stop: int) -> NDArray[np.int64]:
        return np.arange(start, stop)

    def parts_of(self, values: NDArray, labels: NDArray) -> NDArray[np.int32]:
        return np.searchsorted(self.edges, values, side="right").astype(np.int32)[None]


def block_splits(rows: Rows, n_blocks: int = 5) -> BlockSplits:
    """Return blocks of rows that follow each other, each to be held out in turn, from a pass over the labels alone.

    Raises InputError for fewer rows than blocks, and for a class that is in one block alone.
    """
    n_rows, classes = rows.census.n_rows, rows.census.classes
    if not 2 <= n_blocks <= n_rows:
        raise InputError(f"There are {n_blocks} blocks for {n_rows} rows; there must be 2 to {n_rows}.")
    counts = np.zeros((1, len(classes), n_blocks), np.int64)
    edges = np.arange(1, n_blocks) * n_rows // n_blocks
    splits = BlockSplits(counts=counts, held_out=tuple(range(n_blocks)), classes=classes, edges=edges)
    counts = rows.pass_over_columns(partial(sum_parts, splits=splits), np.add, "blocks", kept=False)
    splits = replace(splits, counts=counts)
    remedy = "Hold out folds or groups, or leave the class out."
    splits.refuse_untrained(classes, f"{n_blocks} blocks of rows that follow each other", remedy)
    return splits


def fold_sizes(counts: NDArray[np.int64], n_folds: int) -> NDArray[np.int64]:
    """Return the rows of every class in every fold, shape (C, P), of the rows of each class, shape (C,).

    Row i of all, class by class, is dealt to fold i mod P.
    """
    ends, folds = np.cumsum(counts)[:, None], np.arange(n_folds)
    return np.asarray((ends - 1 - folds) // n_folds - (ends - counts[:, None] - 1 - folds) // n_folds)


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


def _hashed(rows: Rows, sizes: PartSizes, n_splits: int, seed: int) -> HashedSplits:
    """Return splits into parts of the sizes of one split."""
    keys = split_keys(seed, n_splits)
    ends = np.cumsum(sizes.counts[0, :, :-1], axis=1)
    thresholds = find_thresholds(rows, partial(hashes_of_rows, keys=keys), n_splits, ends)
    counts = np.repeat(sizes.counts, n_splits, axis=0)
    return HashedSplits(
        counts=counts, held_out=sizes.held_out, classes=rows.census.classes, keys=keys, thresholds=thresholds
    )
