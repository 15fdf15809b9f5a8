"""Write projected rows into the AnnData that they come from, a file or a Zarr group, and touch nothing else of it."""

from __future__ import annotations

import os
import shutil
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.runs.row_tables import ROW
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.tables.readers.h5ad import opened

ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
PLACE = {"encoding-type": "dict", "encoding-version": "0.1.0"}


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


def check(uri: str, into: str, width: int | None = None) -> None:
    """Raise an error where there is no AnnData that rows can be written into, or it has them already.

    ``width`` is how many columns the rows have, where that is known.
    """
    is_anndata, there, columns, is_file = False, False, 0, storage.is_file(uri)
    with suppress(InputError), opened(uri) if is_file else nullcontext(zarr_stores.open_group(uri)) as group:
        if is_anndata := group.attrs.get("encoding-type") == "anndata":
            there, columns = into in group, _length(group, "var")
    if not is_anndata or (is_file and not storage.is_local(uri)):
        raise InputError(
            f"{uri} is no AnnData that rows are written into, a file of this machine or a Zarr group: name a "
            "destination."
        )
    if there:
        _consolidate(uri)  # a process may have been killed before it did so
        raise OutputError(f"{uri} has {into} already: name another place.")
    if into.startswith("layers/") and width not in (None, columns):
        raise InputError(f"layers of {uri} hold {columns} columns, and the rows have {width}: take obsm/NAME.")


def _into_file(rows: zarr.Group, path: Path, into: str, scratch: Path) -> None:
    import h5py

    scratch.mkdir(parents=True)
    copy, before = scratch / path.name, path.stat()
    shutil.copy2(path, copy)
    with h5py.File(copy, "r+", locking=False) as file:
        array = file.create_dataset(into, **_begun(rows, file, into), fillvalue=np.nan)
        array.attrs.update(ARRAY)
        _fill(rows, array)
    with copy.open("rb+") as written:
        os.fsync(written.fileno())
    now = path.stat()
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise InputError(f"{path} has changed meanwhile: nothing was written into it. Do it again.")
    copy.replace(path)


def _into_group(rows: zarr.Group, uri: str, into: str, scratch: str) -> None:
    group, target = zarr_stores.open_group(uri, "a"), storage.join(uri, into)
    options: dict[str, Any] = {"attributes": dict(ARRAY), "zarr_format": group.metadata.zarr_format}
    location = zarr_stores.zarr_location(scratch)
    _fill(rows, zarr.create_array(location, fill_value=np.nan, **_begun(rows, group, into), **options))
    if storage.is_local(uri):
        Path(storage.filesystem(scratch)[1]).rename(storage.filesystem(target)[1])
    names = [name for name, _, _ in storage.list_objects(scratch)]
    for name in sorted(names, key=lambda name: name in zarr_stores.METADATA):
        storage.write_bytes(storage.join(target, name), storage.read_bytes(storage.join(scratch, name)))
    _consolidate(uri)


def _begun(rows: zarr.Group, group: Any, into: str) -> dict[str, Any]:
    """Return the shape, the chunks and the type of the array to write, in a group that is there."""
    stored: Any = rows["X"]
    if (place := into.partition("/")[0]) not in group:
        group.create_group(place).attrs.update(PLACE)
    shape = _length(group, "obs"), stored.shape[1]
    return {"shape": shape, "chunks": (min(stored.chunks[0], shape[0]), shape[1]), "dtype": stored.dtype}


def _length(group: Any, table: str) -> int:
    index = group[table][group[table].attrs["_index"]]
    return int((index["values"] if hasattr(index, "keys") else index).shape[0])  # text with a mask of gaps


def _fill(rows: zarr.Group, array: Any) -> None:
    """Write rows where their numbers say; those that were left out stay NaN."""
    stored, numbers = (zarr_stores.member(rows, name) for name in ("X", ROW))
    assert isinstance(stored, zarr.Array) and isinstance(numbers, zarr.Array)  # noqa: S101
    for start in range(0, stored.shape[0], stored.chunks[0]):
        at = zarr_stores.values_of(numbers, start, start + stored.chunks[0])
        block = np.full((at[-1] + 1 - at[0], stored.shape[1]), np.nan, stored.dtype)
        block[at - at[0]] = zarr_stores.values_of(stored, start, start + stored.chunks[0])
        array[int(at[0]) : int(at[-1]) + 1] = block


def _consolidate(uri: str) -> None:
    """Write the copy of all metadata anew, where a Zarr group has one: readers would not find the array."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr 3 warns that others may not know such copies
        if not storage.is_file(uri):
            group = zarr.open_group(zarr_stores.zarr_location(uri), mode="r+")
            if getattr(group.metadata, "consolidated_metadata", None):
                zarr.consolidate_metadata(group.store, path=group.path)
