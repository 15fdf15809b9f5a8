"""The facts of a table: its sizes and columns, and what reading it costs."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Facts:
    """What a table is, and what reading it costs. A table made of another one replaces some of these."""

    uri: str
    n_rows: int
    n_features: int
    dtype: np.dtype
    feature_names: list[str] | None = None
    image_shape: tuple[int, int] | None = None
    has_labels: bool = True
    """False only for rows to be transformed, whose labels are never read."""
    sparse: bool = False
    """Whether rows are stored in CSR form; read them with ``read_sparse``."""
    kind: str = "local"
    """How fast it is read: ``local``, ``remote``, ``synthetic`` or ``memory``."""
    read_overhead: float = 1.0
    """Copies of a unit held while it is read, besides the caller's buffer."""
    resident_bytes: int = 0
    """Bytes of the data that each process holds while the data set is in use."""
    row_operations: int = 0
    """Multiply-adds that row maps take for a row as it is read."""
    rows_read: float = 1.0
    """Rows that are read for each row that is taken, on average; more than one where some are left out."""


class _PassedOn:
    def __init__(self, path: str) -> None:
        self._get = attrgetter(path)

    def __get__(self, table: Any, kind: type | None = None) -> Any:
        return self if table is None else self._get(table)


def passed_on(path: str) -> Any:
    """Return an attribute or a method that is that of another object which a table has, such as ``facts.n_rows``.

    A table may set its own in its place.
    """
    return _PassedOn(path)


def as_arrow(values: NDArray, known: NDArray[np.bool_]) -> pa.Array:
    """Return values as an Arrow array, which lacks those that are not known; what is no number or time is text."""
    if values.dtype.kind in "biufM":
        return pa.array(values, mask=~known)
    return pa.array([str(value) if there else None for value, there in zip(values, known, strict=True)], pa.string())
