"""``Batch``: consecutive rows of a data set as a task reads them, with the arrays of their roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Fault
from mmpca_dist.tables.labels import encode
from mmpca_dist.tables.values import not_finite


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a data set, from row ``start`` on, with the arrays that columns in roles make of them."""

    table: Any
    """The data set that the rows are of."""
    start: int
    rows: NDArray[np.int64]
    """Numbers of the rows in what the user gave."""
    at: NDArray[np.int64]
    """Their numbers in the source of the data set."""
    roles: Mapping[str, NDArray] = field(default_factory=dict)
    X: Any = None
    """The rows as methods see them, dense or CSR; None where they are not read."""
    read_blocks: Callable[[int], Iterator[Any]] | None = None
    """Reads the rows, so many at a time, where they are read by `blocks`."""

    @classmethod
    def of_arrays(cls, X: Any, table: Any = None, **roles: NDArray | None) -> Self:
        """Return rows in memory with the arrays of roles; those that are None they do not have."""
        numbers = np.arange(X.shape[0])
        return cls(table, 0, numbers, numbers, {name: each for name, each in roles.items() if each is not None}, X)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def stop(self) -> int:
        return self.start + len(self.rows)

    @property
    def label(self) -> NDArray:
        return self.roles["label"]

    @property
    def weight(self) -> NDArray[np.float64] | None:
        """Weights, shape (n,); None where every row counts once."""
        return self.roles.get("weight")

    @property
    def targets(self) -> NDArray[np.float64]:
        """Numbers to predict, shape (n, t)."""
        return self.roles["targets"]

    def codes(self, classes: NDArray) -> NDArray[np.intp]:
        """Return the positions of the labels in the sorted ``classes``; refuse a label that is none of them."""
        return encode(self.label, classes, self.table.uri)

    def not_finite(self, row: int, column: int, value: float) -> Fault:
        """Return the fault of a value that is not finite; ``row`` counts from the first of the batch."""
        if self.table is None:
            return Fault(f"Found {value} in row {row}.")
        return not_finite(self.table, self.start + row, column, value)

    def beside(self) -> NDArray[np.float64] | None:
        """Return the numbers that stand beside the columns of widened rows, shape (n, q + t); None without any."""
        arrays = [self.roles[name] for name in ("covariates", "targets") if name in self.roles]
        return np.concatenate(arrays, axis=1) if len(arrays) > 1 else next(iter(arrays), None)

    def blocks(self, size: int) -> Iterator[Self]:
        """Yield the batch in blocks of at most ``size`` rows; X of the next one may overwrite that of the last."""
        starts = range(0, len(self), size)
        rows = (self.X[at : at + size] for at in starts) if self.read_blocks is None else self.read_blocks(size)
        for at, X in zip(starts, rows, strict=True):
            yield replace(self.take(slice(at, at + size)), start=self.start + at, X=X)

    def take(self, positions: Any) -> Self:
        """Return some of the rows, without X."""
        roles = {name: each[positions] for name, each in self.roles.items()}
        return type(self)(self.table, self.start, self.rows[positions], self.at[positions], roles)


def joined_batches(batches: Sequence[Batch], start: int) -> Batch:
    """Return batches one below the other, without X."""
    if len(batches) == 1:
        return Batch(batches[0].table, start, batches[0].rows, batches[0].at, batches[0].roles)
    arrays = {name: np.concatenate([batch.roles[name] for batch in batches]) for name in batches[0].roles}
    rows, at = (np.concatenate([getattr(batch, name) for batch in batches]) for name in ("rows", "at"))
    return Batch(batches[0].table, start, rows, at, arrays)


def dense(X: Any, out: NDArray | None = None) -> NDArray:
    """Return rows as a dense array: CSR ones in ``out``, where that is given."""
    return X.toarray(out=np.empty(X.shape, X.dtype) if out is None else out) if issparse(X) else X


def refuse_not_finite(batch: Batch) -> None:
    """Raise InputError for dense rows with a value that is not finite; CSR ones are checked as they are read."""
    X = batch.X
    if issparse(X) or X.dtype.kind != "f":
        return
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = bad[0].tolist()
        raise InputError(batch.not_finite(row, column, float(X[row, column])))
