"""Records of the objects that stages write, and checks that they are whole.

Chunks of Zarr arrays and our JSON carry checksums of their own. The record of a stage holds sizes and checksums of
everything else, such as the metadata of Zarr groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import zarr

from mmpca_dist.errors import DamageError
from mmpca_dist.jobs.records import Objects
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import block_of, chunks_of, reading_own, refuse_absent_chunks

AGAIN = "Give the command that wrote it again, which does that part again, or restore it from a copy."
CONTENT_BYTES = 1 << 30
"""Outputs up to this size are read whole before a stage counts as done; of larger ones metadata and sizes are."""
GROUP = "/zarr.json"
"""The end of the name of an output that is a Zarr group."""
VALUES = "crc32c"
"""Attribute of an array: the checksum of all its values; projected rows have none."""


def recorded(uri: str, outputs: Iterable[str], objects: Objects | None = None) -> Objects:
    """Return size and checksum of the outputs of a stage, by path below the folder ``uri`` of the run.

    Outputs are files, Zarr groups by their ``zarr.json``, and folders of which ``objects`` has all files already.
    """
    sums: dict[str, Any] = {name: list(known) for name, known in (objects or {}).items()}
    for output in outputs:
        if output.endswith(GROUP):
            folder = output.removesuffix(GROUP)
            names = [f"{folder}/{name}" for name, *_ in storage.list_objects(storage.join(uri, folder))]
            sums.update((name, _sum_of(uri, name)) for name in names if name.endswith(GROUP))
        elif not _below(sums, output):
            sums[output] = _sum_of(uri, output)
    return sums


def _sum_of(uri: str, name: str) -> list[Any]:
    data = storage.read_bytes(storage.join(uri, name))
    return [len(data), storage.checksum(data)]


def _below(objects: Objects, folder: str) -> dict[str, Any]:
    return {name: recorded for name, recorded in objects.items() if name.startswith(f"{folder}/")}


def read_recorded(uri: str, record: Mapping[str, Any], output: str) -> bytes:
    """Return the content of a file that a record names; raise DamageError where it is not what was written."""
    return _checked(uri, output, record["objects"].get(output))


def _checked(uri: str, name: str, expected: Any) -> bytes:
    path = storage.join(uri, name)

    def read() -> bytes:
        data = storage.read_bytes(path)
        if expected is not None and [len(data), storage.checksum(data)] != expected:
            same_size = len(data) == expected[0]
            raise ValueError("its checksum does not match" if same_size else _other_size(len(data), expected[0]))
        return data

    with reading_own(path, AGAIN):
        return storage.undamaged(path, read)


def _other_size(n_bytes: int, expected: int) -> str:
    return f"it holds {n_bytes} bytes where {expected} were written"


def open_arrays(uri: str, record: Mapping[str, Any], folder: str) -> dict[str, zarr.Array]:
    """Open the arrays of a Zarr group, a ``folder`` of the run at ``uri``, whose objects a record has.

    Raises DamageError, which names the metadata or chunk that is missing, or is not what was written.
    """
    uri, stored = storage.join(uri, folder), _below(record["objects"], folder)
    objects = {name.removeprefix(f"{folder}/"): known for name, known in stored.items()}
    with reading_own(uri, AGAIN):
        present = {name: size for name, size, _ in storage.list_objects(uri)}
        metadata = objects or dict.fromkeys(name for name in present if name.endswith("zarr.json"))
        names = [name.removesuffix(GROUP) for name in metadata if name.endswith(GROUP)]
        for name in ["zarr.json", *(f"{name}{GROUP}" for name in names)]:
            _checked(uri, name, metadata.get(name))
        group = zarr_stores.open_group(uri)
        arrays: dict[str, zarr.Array] = {}
        for name in names:
            array = group[name]
            if not isinstance(array, zarr.Array):
                raise ValueError(f"{name} is no array")
            below = {key.removeprefix(f"{name}/"): size for key, size in present.items()}
            refuse_absent_chunks(storage.join(uri, name), array, below, AGAIN)
            arrays[name] = array
        return arrays


def check_outputs(uri: str, record: Mapping[str, Any]) -> None:
    """Check that the outputs of a stage are what was written; raise DamageError, which names what is not."""
    for output in record.get("outputs", []):
        if output.endswith(GROUP):
            _check_group(uri, record, output.removesuffix(GROUP))
        elif output in record["objects"]:
            _checked(uri, output, record["objects"][output])
        else:
            _check_folder(uri, output, _below(record["objects"], output))


def _check_group(uri: str, record: Mapping[str, Any], folder: str) -> None:
    arrays = open_arrays(uri, record, folder)
    if sum(array.nbytes for array in arrays.values()) > CONTENT_BYTES:
        return
    for name, array in arrays.items():
        path, crc = storage.join(uri, folder, name), 0
        for index in chunks_of(array):
            with reading_own(f"{path}/{array.metadata.encode_chunk_key(index)}", AGAIN):
                block = block_of(array, index)
                crc = storage.extended(crc, block) if VALUES in array.attrs else 0
        refuse_other_values(path, array, crc)


def refuse_other_values(uri: str, array: zarr.Array, crc: int) -> None:
    """Raise DamageError where an array's values, of checksum ``crc``, are whole chunks of another time or array."""
    with reading_own(uri, AGAIN):
        if array.attrs.get(VALUES, crc) != crc:
            raise ValueError("its values are not those that were written")


def _check_folder(uri: str, folder: str, objects: Objects) -> None:
    sizes = {name: size for name, size, _ in storage.list_objects(storage.join(uri, folder))}
    reads_all = sum(expected[0] for expected in objects.values()) <= CONTENT_BYTES
    for name, expected in objects.items():
        size = sizes.get(name.removeprefix(f"{folder}/"))
        if reads_all or size is None:
            _checked(uri, name, expected)
        elif size != expected[0]:
            raise DamageError(f"Cannot read {storage.join(uri, name)}: {_other_size(size, expected[0])}. {AGAIN}")
