"""The columns that go with projected rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from mmpca_dist.errors import InputError
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.compose import FILE, column_of
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.kept_rows import windows
from mmpca_dist.tables.levels import is_text

SETTING, OBS = "project.keep", "obs/"
KEPT = (
    is_text, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_date, types.is_time,
    types.is_timestamp, types.is_null,
)  # fmt: skip
"""Types that all formats can hold."""
MAX_KEPT = 50
"""More columns go with projected rows only if they are named: most are features then that a run does not take."""
VALUE_BYTES = 64
"""Bytes that a plan takes for a value, text included."""


@dataclass(frozen=True)
class KeptColumns:
    """The columns that go with some rows, by name, and their types."""

    rows: Dataset
    columns: dict[str, Column]
    types: dict[str, pa.DataType]

    @classmethod
    def of(cls, rows: Dataset, keep: str | Sequence[str]) -> KeptColumns:
        """Open the columns that ``keep`` names, or ``all`` that stand beside features and labels: see `kept_columns`.

        Raises InputError for a name that is no column, and for a column of lists or structs.
        """
        columns, kinds = kept_columns(rows, keep), dict[str, pa.DataType]()
        for name, column in columns.items():
            kind = column.read_arrow(0, 1).type
            kind = kind.value_type if types.is_dictionary(kind) else kind
            if any(test(kind) for test in KEPT):
                kinds[name] = kind
            elif keep != "all":
                raise InputError(f"{SETTING} names {name!r}, whose values are of type {kind}. Leave it out.")
        return cls(rows, {name: columns[name] for name in kinds}, kinds)

    def read(self, numbers: NDArray[np.int64]) -> dict[str, pa.ChunkedArray]:
        """Return the columns of rows, given their numbers in the stored table."""
        return {name: self._read(name, numbers) for name in self.columns}

    def _read(self, name: str, numbers: NDArray[np.int64]) -> pa.ChunkedArray:
        chunks: list[pa.Array] = []
        for begin, end, places in windows(numbers, self.rows.stored):
            values = self.columns[name].read_arrow(begin, end)
            chunks += (values if len(places) == end - begin else values.take(pa.array(places))).chunks
        return pa.chunked_array(chunks, chunks[0].type).cast(self.types[name])

    def has_gaps(self, name: str) -> bool:
        """Tell whether values of a column are missing, from a look at it."""
        return any(self._read(name, batch.rows).null_count for batch in self.rows.value_batches())


def too_many(rows: Dataset, keep: str | Sequence[str]) -> int:
    """Return how many columns stand beside features and labels; 0 unless they are too many to go with rows unnamed."""
    count = len(rows.stored.beside_names)
    return count if keep == "all" and count > MAX_KEPT else 0


def kept_columns(rows: Dataset, keep: str | Sequence[str]) -> dict[str, Column]:
    """Return the columns that ``keep`` names, or ``all`` beside features and labels, none of these if `too_many`."""
    stored = rows.stored
    names = [] if too_many(rows, keep) else list(stored.beside_names if keep == "all" else keep)
    if stored.label is not None and not rows.has_labels and stored.label not in names:
        names.append(stored.label)  # as some rows have none
    columns = {name: column_of(stored, name, SETTING) for name in names}
    return {
        name.rpartition("/")[2].removesuffix(FILE) if name.endswith(FILE) or name.startswith(OBS) else name: column
        for name, column in columns.items()
    }
