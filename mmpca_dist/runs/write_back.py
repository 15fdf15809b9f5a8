"""Write projected rows into the AnnData that they come from, a file or a Zarr group, and touch nothing else of it."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.runs.row_tables import ROW
from mmpca_dist.stores import storage, zarr_stores

ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
PLACES = {"encoding-type": "dict", "encoding-version": "0.1.0"}
CONSOLIDATED = (".zmetadata", "zarr.json")


def put(table: str, uri: str, into: str, scratch: str) -> None:
    """Write the rows of a table in Zarr into AnnData, which is as it was until all of them are there.

    HDF5 has no journal: a process that is killed as it writes may leave a file that cannot be read. So a copy of the
    file, in ``scratch``, gets the rows and then the name of the file. A Zarr group gets an array that was written
    elsewhere, its metadata last.
    """
    rows = zarr_stores.open_group(table)
    storage.remove(scratch)
    with storage.explained(uri, "write"):
        if storage.is_file(uri):
            _into_file(rows, Path(uri).resolve(), into, Path(scratch))
        else:
            _into_group(rows, uri, into, storage.join(scratch, "array"))
            _consolidate(uri)


def check(uri: str, into: str, width: int | None = None) -> None:
    """Raise an error where there is no AnnData that rows can be written into, or it has them already.

    ``width`` is how many columns the rows have, where that is known.
    """
    refusal = f"{uri} is no AnnData that rows are written into, a file of this machine or a Zarr group"
    with _opened(uri, refusal) as group:
        if group.attrs.get("encoding-type") != "anndata":
            raise InputError(f"{refusal}: name a destination.")
        if into in group:
            _consolidate(uri)  # a process may have been killed before it did so
            raise OutputError(f"{uri} has {into} already: name another place.")
        columns = _length(group, "var")
        if into.startswith("layers/") and width not in (None, columns):
            raise InputError(
                f"layers hold {columns} columns, those of {uri}, and the rows have {width}: take obsm/NAME."
            )


@contextmanager
def _opened(uri: str, refusal: str) -> Iterator[Any]:
    if not storage.is_file(uri):
        try:
            group = zarr_stores.open_group(uri)
        except InputError as error:
            raise InputError(f"{refusal}: name a destination.") from error
        yield group
        return
    try:
        import h5py

        if not storage.is_local(uri) or not h5py.is_hdf5(uri):
            raise InputError(f"{refusal}: name a destination.")
    except ImportError as error:
        raise InputError(f"{uri} needs h5py: pip install 'mmpca-dist[h5ad]'.") from error
    with h5py.File(uri, "r", locking=False) as file:
        yield file


def _into_file(rows: zarr.Group, path: Path, into: str, scratch: Path) -> None:
    import h5py

    scratch.mkdir(parents=True)
    copy, before = scratch / path.name, path.stat()
    shutil.copy2(path, copy)
    with h5py.File(copy, "r+", locking=False) as file:
        place, name = into.split("/")
        if place not in file:
            file.create_group(place).attrs.update(PLACES)
        n_rows, width, dtype, chunk = _shape(rows, file)
        options = {"chunks": (min(chunk, n_rows), width), "fillvalue": np.nan}
        array = file[place].create_dataset(name, (n_rows, width), dtype, **options)
        array.attrs.update(ARRAY)
        _fill(rows, array)
    with copy.open("rb+") as written:
        os.fsync(written.fileno())
    now = path.stat()
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise InputError(f"{path} has changed meanwhile: nothing was written into it. Do it again.")
    copy.replace(path)


def _into_group(rows: zarr.Group, uri: str, into: str, scratch: str) -> None:
    group = zarr_stores.open_group(uri, "a")
    format = group.metadata.zarr_format
    if (place := into.partition("/")[0]) not in group:
        group.create_group(place, attributes=PLACES)
    n_rows, width, dtype, chunk = _shape(rows, group)
    array = zarr.create_array(
        zarr_stores.zarr_location(scratch), shape=(n_rows, width), chunks=(min(chunk, n_rows), width), dtype=dtype,
        fill_value=np.nan, attributes=dict(ARRAY), zarr_format=format,
    )  # fmt: skip
    _fill(rows, array)
    target = storage.join(uri, into)
    if storage.is_local(uri):
        storage.move(scratch, target)
        return
    names = [name for name, _, _ in storage.list_objects(scratch)]
    for name in sorted(names, key=lambda name: name in zarr_stores.METADATA):
        storage.write_bytes(storage.join(target, name), storage.read_bytes(storage.join(scratch, name)))


def _shape(rows: zarr.Group, group: Any) -> tuple[int, int, np.dtype, int]:
    """Return the shape of the array to write, its type, and rows a chunk."""
    stored: Any = rows["X"]
    return _length(group, "obs"), stored.shape[1], stored.dtype, stored.chunks[0]


def _length(group: Any, table: str) -> int:
    index = group[table][group[table].attrs["_index"]]
    return int((index["values"] if hasattr(index, "keys") else index).shape[0])  # text with a mask of gaps


def _fill(rows: zarr.Group, array: Any) -> None:
    """Write rows where their numbers say; those that were left out stay NaN."""
    stored, numbers = rows["X"], rows[ROW]
    assert isinstance(stored, zarr.Array) and isinstance(numbers, zarr.Array)  # noqa: S101
    for start in range(0, stored.shape[0], stored.chunks[0]):
        at = zarr_stores.values_of(numbers, start, start + stored.chunks[0])
        block = np.full((at[-1] + 1 - at[0], stored.shape[1]), np.nan, stored.dtype)
        block[at - at[0]] = zarr_stores.values_of(stored, start, start + stored.chunks[0])
        array[int(at[0]) : int(at[-1]) + 1] = block


def _consolidate(uri: str) -> None:
    """Write the copy of all metadata anew, where a Zarr group has one: readers would not find the array."""
    if storage.is_file(uri):
        return
    objects = (storage.join(uri, name) for name in CONSOLIDATED)
    if any(storage.is_file(name) and b"consolidated_metadata" in storage.read_bytes(name) for name in objects):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Zarr 3 warns that others may not know such copies
            zarr.consolidate_metadata(zarr_stores.zarr_location(uri))
