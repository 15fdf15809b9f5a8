"""Folders of ``.npy`` files with a table of labels in Parquet, as tools that compute embeddings leave them.

``img_emb/img_emb_0.npy``, ... hold the rows, and ``metadata/metadata_0.parquet``, ... what is known of each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dask.utils import natural_sort_key

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.readers.formats import ZARR, Format, Request
from mmpca_dist.tables.readers.npy import NpyRows
from mmpca_dist.tables.readers.parquet import ParquetRows
from mmpca_dist.tables.readers.parquet_folders import SUFFIXES, has_log
from mmpca_dist.tables.stacked_rows import Stack

NPY, METADATA = ".npy", "metadata"
LAST_NUMBER = re.compile(r"(\d+)\D*$")
MAX_FOLDERS = 32
"""Folders that are looked into for such files."""


class NpyFolder(Stack):
    """The rows of ``.npy`` files in natural order; their columns are those of a table with as many rows."""

    def __init__(self, uri: str, parts: list[NpyRows], table: ParquetRows) -> None:
        super().__init__(uri, parts)
        _refuse_other_rows(uri, {part.uri: part.n_rows for part in parts}, table)
        self._table, self.label, self.beside_names = table, table.label, table.beside_names

    def column(self, name: str | None, setting: Setting | str) -> Column:
        return replace(self._table.column(name, setting), addresses=self._table.addresses)

    @property
    def addresses(self) -> list[str]:
        return [*super().addresses, *self._table.addresses]


def _refuse_other_rows(uri: str, n_rows: dict[str, int], table: ParquetRows) -> None:
    """Refuse files of labels that are not those of the rows: of other numbers, or lengths."""
    described = table.rows_by_file
    if len(described) == len(n_rows):
        for (file, rows), (other, labels) in zip(n_rows.items(), described.items(), strict=True):
            numbers = [LAST_NUMBER.search(name.rpartition("/")[2]) for name in (file, other)]
            if rows != labels or len({int(number[1]) for number in numbers if number}) > 1:
                raise InputError(
                    f"{file}, of {rows} rows, is paired with {other}, of {labels}. Give each .npy file a Parquet file "
                    "whose name ends with the same number, with as many rows."
                )
    if sum(n_rows.values()) != table.n_rows:
        raise InputError(
            f"{uri} has {sum(n_rows.values())} rows, and {table.uri} describes {table.n_rows}. Write one row of "
            "Parquet for each row of the .npy files."
        )


def holds_npy(uri: str, names: Sequence[str]) -> bool:
    """Tell whether a folder that holds ``names``, or a folder in it, holds ``.npy`` files.

    Parquet right in the folder is a table itself, which may have files of weights beside it.
    """
    if ZARR.intersection(names) or any(name.endswith(SUFFIXES) for name in names) or has_log(uri, names):
        return False
    folders = [name for name in names if not re.search(r"[.=]|^_", name)][:MAX_FOLDERS]
    return any(name.endswith(NPY) for name in names) or any(
        name.endswith(NPY) for folder in folders for name in storage.names_in(storage.join(uri, folder))
    )


def _open(request: Request) -> Stack:
    uri, names = request.uri, [name for name, _, _ in storage.list_objects(request.uri)]
    by_folder: dict[str, list[str]] = {}
    for name in sorted((name for name in names if name.endswith(NPY)), key=natural_sort_key):
        by_folder.setdefault(name.rpartition("/")[0], []).append(storage.join(uri, name))
    features = request.features or next(iter(by_folder))
    if features not in by_folder or (request.features is None and len(by_folder) > 1):
        raise InputError(
            f"{uri} holds .npy files in {some_names(list(by_folder))}: name one of these folders with {{features}}.",
            features=Setting("features"),
        )
    folders = sorted({name.rpartition("/")[0] for name in names if name.endswith(SUFFIXES)})
    where = METADATA if METADATA in folders or not folders else folders[0]
    if len(folders) > 1 and where != METADATA:
        raise InputError(f"{uri} holds Parquet in {some_names(folders)}: keep labels in {METADATA!r} alone.")
    if not folders and request.label_required:
        raise InputError(f"{uri} holds .npy files, and no Parquet that describes their rows in a folder {METADATA!r}.")
    parts = [NpyRows(file) for file in by_folder[features]]
    if not folders:
        return Stack(uri, parts)
    table = replace(request, uri=storage.join(uri, where), features=None, names=[], columns=None)
    return NpyFolder(uri, parts, ParquetRows(table))


FORMAT = Format("npy-folder", "a folder of arrays", _open, holds=holds_npy)
