"""How a table reads what goes with its rows: columns as they are stored, and the numbers of rows."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def as_arrow(values: NDArray, known: NDArray[np.bool_]) -> pa.Array:
    """Return values as an Arrow array, which lacks those that are not known; what is no number or time is text."""
    if values.dtype.kind in "biufM":
        return pa.array(values, mask=~known)
    return pa.array([str(value) if there else None for value, there in zip(values, known, strict=True)], pa.string())


class KeptValues:
    """The part of a data set that tells what goes with its rows."""

    _skips_unlabelled = False
    """Whether rows may have no label, as they are left out."""

    def _labelled_by(self: Any, name: str) -> Any:
        """Return the same rows with another column as their labels, each of which must be there."""
        same = copy(self)
        same.label, same.facts, same._skips_unlabelled = name, replace(self.facts, has_labels=True), False
        return same

    @property
    def beside_names(self) -> list[str]:
        """The columns of the stored table that are neither features nor labels."""
        return []

    def read_column(self: Any, start: int, stop: int) -> pa.Array | pa.ChunkedArray:
        """Return what rows ``start`` to ``stop`` have in the place of labels, as stored; values may be missing."""
        return as_arrow(self.read_values(start, stop), self.is_labelled(start, stop))

    def source_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of rows ``start`` to ``stop`` in what the user gave, from 0, shape (stop - start,)."""
        return np.arange(start, stop)

    def source_row(self, row: int) -> int:
        """Return the number of a row in what the user gave, for messages."""
        return int(self.source_rows(row, row + 1)[0])
