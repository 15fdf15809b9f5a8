"""Columns beside the rows of a table, or their labels: values, and which of them are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.changes import digest_of_arrays

Known = tuple[NDArray, NDArray[np.bool_]]
"""Values of rows, shape (n,) or (n, q), and which of the rows have one; where there is none, anything stands."""
MAX_STRETCHES = 4
"""Stretches of rows without values that are kept; messages name one less where there are more."""


@dataclass(frozen=True)
class MissingChunks:
    """Rows whose chunks of a column are not stored: how many, the first stretches (start, stop), and their value."""

    n_rows: int
    stretches: tuple[tuple[int, int], ...]
    fill: Any


@dataclass(frozen=True, eq=False)
class Column:
    """A stored column with a value for each row of a source, of which some may be missing."""

    name: str
    place: str
    """Where it is stored, for messages."""
    n_rows: int
    read: Callable[[int, int], Known]
    """Returns the values of rows from one number to another (exclusive) as they are stored, and which are there."""
    addresses: Sequence[str] = ()
    """Files of its own."""
    missing: MissingChunks | None = None
    arrow_reader: Callable[[int, int], pa.ChunkedArray] | None = None
    values: NDArray | None = field(default=None, repr=False)
    """The values of a column in memory."""
    in_blocks: bool = False
    """Whether it is in the blocks of a Dask array, and tasks find it there."""

    def read_arrow(self, start: int, stop: int) -> pa.ChunkedArray:
        """Return the values of rows ``start`` to ``stop`` in the type they are stored in."""
        if self.arrow_reader is not None:
            return self.arrow_reader(start, stop)
        values, known = self.read(start, stop)
        if values.dtype.kind in "biufM":
            return pa.chunked_array([pa.array(values, mask=~known)])
        texts = [str(value) if there else None for value, there in zip(values, known, strict=True)]
        return pa.chunked_array([pa.array(texts, pa.string())])

    def fingerprint(self) -> str:
        """Identify the content: the values in memory, or the name and the objects of its own files."""
        if self.values is not None:
            return digest_of_arrays(self.values)
        return storage.digest(self.name, [storage.list_objects(address) for address in self.addresses])


def has_value(values: NDArray) -> NDArray[np.bool_]:
    """Return which of the values, shape (n,), are there: not NaN, and not None."""
    if values.dtype.kind == "O":
        return np.asarray([value is not None and value == value for value in values.tolist()], bool)
    if values.dtype.kind in "mM":
        return ~np.isnat(values)
    return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)


def column_in_memory(values: NDArray, name: str) -> Column:
    """Return values, shape (n,), (n, 1) or, of targets, (n, q), as a column; ``name`` is its place, for messages."""
    values = values[:, 0] if values.shape[1:] == (1,) else values
    return Column(name, name, len(values), partial(_stretch, values), values=values)


def _stretch(values: NDArray, start: int, stop: int) -> Known:
    part = values[start:stop]
    return part, has_value(part) if part.ndim == 1 else np.ones(len(part), bool)


def refuse_other_shape(values: Any, name: str) -> Any:
    """Return values, or the header of a file of them, of shape (n,) or (n, 1); raise InputError for another shape."""
    if not values.shape or values.shape[1:] not in ((), (1,)):
        found = f"The values in {name} have shape {values.shape}"
        raise InputError(f"{found}; there must be one name or number a row, shape (n,).")
    return values
