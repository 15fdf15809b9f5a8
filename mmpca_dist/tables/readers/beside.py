"""Columns beside the rows: of the table itself, or arrays in files, with a value for each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.formats import open_column
from mmpca_dist.tables.readers.memory import ArrayDataset
from mmpca_dist.tables.readers.npy import read_column

FILE = ".npy"
"""How the name of a column ends that is a file of its own."""


def column_in_memory(values: NDArray, uri: str) -> ArrayDataset:
    """Return values, shape (n,) or (n, 1), in the place of labels of rows that take no memory."""
    if values.ndim != 1 and values.shape[1:] != (1,):
        raise InputError(f"The values in {uri} have shape {values.shape}; there must be one name or number a row.")
    return ArrayDataset(np.broadcast_to(np.zeros((), np.uint8), (len(values), 1)), values.reshape(-1), uri)


def open_beside(dataset: Dataset, name: str, setting: str) -> Dataset:
    """Open a column of a data set, or a ``.npy`` file with a value for each of its rows; ``setting`` names it.

    Raises InputError where there is no such column or file, or it has another number of rows.
    """
    stored = dataset.stored
    if name.endswith(FILE):
        file = storage.normalize(name)
        column: Dataset = column_in_memory(read_column(file), file)
    elif stored.uri.startswith(storage.NAMED):
        raise InputError(
            f"{setting} is {name!r}, and {stored.uri} has no columns but its features. Name a .npy file with a value "
            "for each row."
        )
    else:
        column = open_column(stored, name, setting=setting)
    if column.n_rows != stored.n_rows:
        raise InputError(f"{setting} has values of {column.n_rows} rows, and {stored.uri} has {stored.n_rows} rows.")
    return dataset.beside(column)
