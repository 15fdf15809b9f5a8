"""Columns beside the rows: of the table itself, or arrays in files; those that go with projected rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, value_units
from mmpca_dist.tables.levels import is_text
from mmpca_dist.tables.readers.formats import open_column
from mmpca_dist.tables.readers.memory import ArrayDataset
from mmpca_dist.tables.readers.npy import NpyColumn

FILE = ".npy"
"""How the name of a column ends that is a file of its own."""
SETTING, OBS = "project.keep", "obs/"
KEPT = (
    is_text, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_date, types.is_time,
    types.is_timestamp, types.is_null,
)  # fmt: skip
"""Types that all formats can hold."""
MOST_KEPT = 50
"""More columns go with projected rows only if they are named: most are features then that a run does not take."""
VALUE_BYTES = 64
"""What a plan takes for a value, text included."""


def column_in_memory(values: NDArray, uri: str) -> ArrayDataset:
    """Return values, shape (n,) or (n, 1), in the place of labels of rows that take no memory."""
    if values.ndim != 1 and values.shape[1:] != (1,):
        raise InputError(f"The values in {uri} have shape {values.shape}; there must be one name or number a row.")
    return ArrayDataset(np.broadcast_to(np.zeros((), np.uint8), (len(values), 1)), values.reshape(-1), uri)


def open_beside(dataset: Dataset, name: str, setting: str, gaps: bool = False) -> Dataset:
    """Open a column of a data set, or a ``.npy`` file with a value for each of its rows; ``setting`` names it.

    Rows that the data set leaves out need no value in it; with ``gaps`` no row needs one.

    Raises InputError where there is no such column or file, it has another number of rows, or lacks values.
    """
    stored = dataset.stored
    if name.endswith(FILE):
        column: Dataset = NpyColumn(storage.normalize(name))
    elif stored.uri.startswith(storage.NAMED):
        raise InputError(
            f"{setting} is {name!r}, and {stored.uri} has no columns but its features. Name a .npy file with a value "
            "for each row."
        )
    else:
        column = open_column(stored, name, setting=setting)
    if column.n_rows != stored.n_rows:
        raise InputError(f"{setting} has values of {column.n_rows} rows, and {stored.uri} has {stored.n_rows} rows.")
    taken = dataset.beside(column)
    for start, stop in () if gaps or taken is column else value_units(taken):
        known = taken.is_labelled(start, stop)
        if not known.all():
            row = f"Row {taken.source_row(start + int(np.argmin(known)))} of {stored.uri}"
            raise InputError(f"{row} has no value in {name!r} ({setting}). Give it one, or leave the row out.")
    return taken


@dataclass(frozen=True)
class KeptColumns:
    """The columns that go with some rows, by name, and their types."""

    rows: Dataset
    columns: dict[str, Dataset]
    types: dict[str, pa.DataType]

    @classmethod
    def of(cls, rows: Dataset, keep: str | Sequence[str]) -> KeptColumns:
        """Open the columns that ``keep`` names, or ``all`` that stand beside features and labels: see `kept_columns`.

        Raises InputError for a name that is no column, and for a column of lists or structs.
        """
        columns, kinds = kept_columns(rows, keep), dict[str, pa.DataType]()
        for name, column in columns.items():
            kind = column.read_column(0, 1).type
            kind = kind.value_type if types.is_dictionary(kind) else kind
            if any(test(kind) for test in KEPT):
                kinds[name] = kind
            elif keep != "all":
                raise InputError(f"{SETTING} names {name!r}, whose values are of type {kind}. Leave it out.")
        return cls(rows, {name: columns[name] for name in kinds}, kinds)

    def read(self, start: int, stop: int) -> dict[str, pa.ChunkedArray]:
        """Return the columns of rows ``start`` to ``stop``."""
        read = {name: column.read_column(start, stop) for name, column in self.columns.items()}
        return {name: pa.chunked_array(column).cast(self.types[name]) for name, column in read.items()}

    def has_gaps(self, name: str) -> bool:
        """Tell whether values of a column are missing, from a look at it."""
        column = self.columns[name]
        return any(column.read_column(start, stop).null_count for start, stop in value_units(column))


def too_many(rows: Dataset, keep: str | Sequence[str]) -> int:
    """Return how many columns stand beside features and labels; 0 unless they are too many to go with rows unnamed."""
    count = len(rows.stored.beside_names)
    return count if keep == "all" and count > MOST_KEPT else 0


def kept_columns(rows: Dataset, keep: str | Sequence[str]) -> dict[str, Dataset]:
    """Return the columns that ``keep`` names, or ``all`` that stand beside features and labels; metadata are read.

    None of the latter where they are `too_many`.
    """
    stored = rows.stored
    names = [] if too_many(rows, keep) else list(stored.beside_names if keep == "all" else keep)
    if stored.label is not None and stored.has_labels and not rows.has_labels and stored.label not in names:
        names.append(stored.label)  # as some rows have none
    columns = {name: open_beside(rows, name, SETTING, gaps=True) for name in names}
    return {
        name.rpartition("/")[2].removesuffix(FILE) if name.endswith(FILE) or name.startswith(OBS) else name: column
        for name, column in columns.items()
    }
