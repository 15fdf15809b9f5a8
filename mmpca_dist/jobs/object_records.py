"""Records of the objects that stages write, and checks that they are whole.

Chunks of Zarr arrays and our JSON carry checksums of their own. Of everything else, the metadata of Zarr groups among
it, the record of a stage holds sizes and checksums. Records of earlier versions hold none: what they name must then
be there, and be readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import zarr

from mmpca_dist.datasets.stores import storage, zarr_stores
from mmpca_dist.datasets.stores.checksums import checksum, extended
from mmpca_dist.datasets.stores.zarr_stores import block_of, chunks_of, reading_own, refuse_absent_chunks
from mmpca_dist.errors import DamageError
from mmpca_dist.jobs.records import Objects

AGAIN = "Give the command that wrote it again, which does that part anew, or restore it from a copy."
CONTENT_BYTES = 1 << 30
"""Of outputs up to this size all is read before a stage counts as done; of larger ones, metadata and sizes."""
GROUP = "/zarr.json"
"""So end the names of outputs that are Zarr groups."""
VALUES = "crc32c"
"""Attribute of an array: the checksum of all its values; those of earlier versions, and projected rows, have none."""


def recorded(uri: str, outputs: Iterable[str], objects: Objects | None = None) -> Objects:
    """Return size and checksum of the outputs of a stage, by path below ``uri``.

    Parameters
    ----------
    uri : str
        The folder of the run.
    outputs : iterable of str
        Files, Zarr groups by their ``zarr.json``, and folders of which ``objects`` has all files.
    objects : dict, optional
        What is known already.
    """
    found: dict[str, Any] = {name: list(known) for name, known in (objects or {}).items()}
    for output in outputs:
        if output.endswith(GROUP):
            folder = output.removesuffix(GROUP)
            names = [f"{folder}/{name}" for name, *_ in storage.list_objects(storage.join(uri, folder))]
            found.update((name, _sum_of(uri, name)) for name in names if name.endswith(GROUP))
        elif not _below(found, output):
            found[output] = _sum_of(uri, output)
    return found


def _sum_of(uri: str, name: str) -> list[Any]:
    data = storage.read_bytes(storage.join(uri, name))
    return [len(data), checksum(data)]


def _below(objects: Objects, folder: str) -> dict[str, Any]:
    return {name: known for name, known in objects.items() if name.startswith(f"{folder}/")}


def objects_in(record: Mapping[str, Any], folder: str) -> Objects | None:
    """Return what a record holds of the objects in a folder, by their names there; None where it is an early one."""
    objects = record.get("objects")
    if objects is None:
        return None
    return {name.removeprefix(f"{folder}/"): known for name, known in _below(objects, folder).items()}


def read_recorded(uri: str, record: Mapping[str, Any], output: str) -> bytes:
    """Return a file that a record names.

    Raises
    ------
    DamageError
        Where it is not what was written.
    """
    return _checked(uri, output, (record.get("objects") or {}).get(output))


def _checked(uri: str, name: str, known: Any) -> bytes:
    place = storage.join(uri, name)

    def read() -> bytes:
        data = storage.read_bytes(place)
        if known is not None and [len(data), checksum(data)] != known:
            raise ValueError("its checksum does not match" if len(data) == known[0] else _other_size(len(data), known))
        return data

    with reading_own(place, AGAIN):
        return storage.undamaged(place, read)


def _other_size(n_bytes: int, known: Any) -> str:
    return f"it holds {n_bytes} bytes where {known[0]} were written"


def open_arrays(uri: str, objects: Objects | None = None, names: Iterable[str] | None = None) -> dict[str, zarr.Array]:
    """Open the arrays of a Zarr group of ours, or those of some names, whose metadata and chunks must all be there.

    Parameters
    ----------
    objects : dict, optional
        What was recorded of the group, by name in it.

    Raises
    ------
    DamageError
        Names the object that is missing, or is not what was written.
    """
    with reading_own(uri, AGAIN):
        present = {name: size for name, size, _ in storage.list_objects(uri)}
        metadata = objects or dict.fromkeys(name for name in present if name.endswith("zarr.json"))
        found = [name.removesuffix(GROUP) for name in metadata if name.endswith(GROUP)]
        wanted = [name for name in found if names is None or name in names]
        for name in ["zarr.json", *(f"{name}{GROUP}" for name in wanted)]:
            _checked(uri, name, metadata.get(name))
        group = zarr_stores.open_group(uri)
        arrays: dict[str, zarr.Array] = {}
        for name in wanted:
            array = group[name]
            if not isinstance(array, zarr.Array):
                raise ValueError(f"{name} is no array")
            below = {key.removeprefix(f"{name}/"): size for key, size in present.items()}
            refuse_absent_chunks(storage.join(uri, name), array, below, AGAIN)
            arrays[name] = array
        return arrays


def check_outputs(uri: str, record: Mapping[str, Any]) -> None:
    """See that the outputs of a stage are what was written.

    Raises
    ------
    DamageError
        Names what is missing, or damaged.
    """
    objects: Objects = record.get("objects") or {}
    for output in record.get("outputs", []):
        place = storage.join(uri, output)
        if output.endswith(GROUP):
            _check_group(place.removesuffix(GROUP), objects_in(record, output.removesuffix(GROUP)))
        elif output in objects:
            _checked(uri, output, objects[output])
        elif output.endswith(".json"):
            with reading_own(place, AGAIN):
                storage.read_json(place, AGAIN)
        elif not storage.exists(place):
            raise DamageError(f"Cannot read {place}: it does not exist. {AGAIN}")
        else:
            _check_folder(uri, output, _below(objects, output))


def _check_group(uri: str, objects: Objects | None) -> None:
    arrays = open_arrays(uri, objects)
    if sum(array.nbytes for array in arrays.values()) > CONTENT_BYTES:
        return
    for name, array in arrays.items():
        place, crc = storage.join(uri, name), 0
        for index in chunks_of(array):
            with reading_own(f"{place}/{array.metadata.encode_chunk_key(index)}", AGAIN):
                block = block_of(array, index)
                crc = extended(crc, block) if VALUES in array.attrs else 0
        refuse_other_values(place, array, crc)


def refuse_other_values(uri: str, array: zarr.Array, crc: int) -> None:
    """Refuse chunks that are whole, and were written at another time or of another array.

    Parameters
    ----------
    uri : str
        Address of the array.
    crc : int
        The checksum of the values that it holds.

    Raises
    ------
    DamageError
    """
    with reading_own(uri, AGAIN):
        if array.attrs.get(VALUES, crc) != crc:
            raise ValueError("its values are not those that were written")


def _check_folder(uri: str, folder: str, objects: Objects) -> None:
    sizes = {name: size for name, size, _ in storage.list_objects(storage.join(uri, folder))}
    content = sum(known[0] for known in objects.values()) <= CONTENT_BYTES
    for name, known in objects.items():
        size = sizes.get(name.removeprefix(f"{folder}/"))
        if content or size is None:
            _checked(uri, name, known)
        elif size != known[0]:
            raise DamageError(f"Cannot read {storage.join(uri, name)}: {_other_size(size, known)}. {AGAIN}")
