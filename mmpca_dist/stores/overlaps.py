"""Overlaps of addresses: one place in several spellings, one inside another, an output inside a data set."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from mmpca_dist.errors import InputError, MmpcaError, OutputError
from mmpca_dist.stores import storage
from mmpca_dist.stores.addresses import AZURE, GCS, S3

MARKERS = {
    "run.json": ("key", "a run"),
    "zarr.json": ("zarr_format", "a Zarr data set"),
    ".zgroup": ("zarr_format", "a Zarr data set"),
    ".zarray": ("zarr_format", "a Zarr data set"),
}
"""Files that make a folder a result or a data set: a key that such a file has, and what the folder is."""


def resolved(uri: str | os.PathLike) -> str:
    """Return an address in its normal form; the symbolic links of a local path are followed."""
    text = storage.normalize(uri)
    return os.path.realpath(text) if storage.is_local(text) and not text.startswith(storage.NAMED) else text


def canonical(uri: str | os.PathLike) -> str:
    """Return one spelling for all addresses of the same place, for comparisons only."""
    text = resolved(uri)
    if storage.is_local(text):
        return text
    fs, path = storage.filesystem(text)
    protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
    protocol = next((names[0] for names in (S3, GCS, AZURE) if protocol in names), protocol)
    account = getattr(fs, "account", None) or ""
    return f"{protocol}://{account}/" + re.sub("/+", "/", path).strip("/")


def lies_within(inner: str | os.PathLike, outer: str | os.PathLike) -> bool:
    """Tell whether the address ``inner`` is ``outer`` or lies inside it."""
    path, folder = canonical(inner), canonical(outer)
    if path == folder or path.startswith(folder.rstrip("/") + "/"):
        return True
    if not (storage.is_local(path) and storage.is_local(folder)):
        return False
    for parent in (Path(path), *Path(path).parents):
        with suppress(OSError):
            if parent.samefile(folder):  # such as one that is mounted twice
                return True
    return False


def refuse_overlap(source: str, destination: str) -> None:
    """Raise an ``InputError`` where a table would be written onto the one that is read, into it, or around it."""
    if source.startswith(storage.NAMED):
        return
    inside, around = lies_within(destination, source), lies_within(source, destination)
    if inside and around:
        raise InputError(f"{source} cannot be written onto itself; choose another destination.")
    if inside or around:
        inner, outer = (destination, source) if inside else (source, destination)
        raise InputError(
            f"{inner} lies inside {outer}, and one is read while the other is written. Choose another destination."
        )


def refuse_inside(uri: str, inputs: tuple[str, ...] = ()) -> None:
    """Raise an ``OutputError`` for an output inside a run, the output of a transform, a data set, or an input."""
    for source in inputs:
        if not source.startswith(storage.NAMED) and lies_within(uri, source):
            where = "is" if resolved(uri) == resolved(source) else "lies inside"
            raise OutputError(f"{uri} {where} {source}, which is read. Choose another place for the output.")
    for folder in _parents(resolved(uri)):
        for name, (key, what) in MARKERS.items():
            content: Any = None
            with suppress(MmpcaError, ValueError, RecursionError):  # it is not there, not JSON, or not ours to read
                content = json.loads(storage.read_bytes(storage.join(folder, name)))
            if isinstance(content, dict) and key in content:
                raise OutputError(f"{uri} lies inside {folder}, which is {what}. Choose another place for the output.")


def _parents(uri: str) -> list[str]:
    if storage.is_local(uri):
        return [str(folder) for folder in Path(uri).parents]
    protocol, _, path = uri.partition("://")
    parts = path.split("/")
    return [f"{protocol}://{'/'.join(parts[:n])}" for n in range(len(parts) - 1, 0, -1)]
