"""What identifies data: digests of arrays, fingerprints, and the states of stored objects, which show changes."""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset

HASHED_BYTES = 16 << 20
"""Bytes hashed at a time, so that rows that are not contiguous are not copied whole."""
CHECKED_BYTES, CHECKED_BLOCK = 64 << 20, 1 << 16
"""Of local input, so much has a checksum: all of it, or blocks spread over it. A run reads it before it begins."""


def digest_of_arrays(*arrays: NDArray | None) -> str:
    """Return a short hash of the types, shapes and values of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            continue
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        size = max(HASHED_BYTES // max(array[:1].nbytes, 1), 1)
        for start in range(0, len(array), size):
            digest.update(np.ascontiguousarray(array[start : start + size]).tobytes())
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class ObjectState:
    """Size of an object, its etag or modification time, and on a local disk when its inode changed, in nanoseconds.

    Programs can set the modification time of a file, but not its inode's, which other changes than of content set, too.
    """

    size: int
    stamp: str
    changed: int | None = None


@dataclass(frozen=True)
class Watch:
    """The states of the objects at some addresses, at one time, and checksums of local files by `_checksums`."""

    states: dict[str, ObjectState]
    checksums: dict[str, int]

    @classmethod
    def of(cls, addresses: Iterable[str]) -> Watch:
        """Look at the objects at, or below, some addresses; names of data sets (``synthetic:...``) have none."""
        states = _all_states(addresses)
        return cls(states, _checksums(states))

    def refuse_change(self, addresses: Iterable[str]) -> None:
        """Refuse objects that have changed; an ``InputError`` names the first, and its change."""
        now = _all_states(addresses)
        for uri in sorted(self.states.keys() | now.keys()):
            _refuse(uri, _difference(self.states.get(uri), now.get(uri)))
        if any(state.changed != self.states[uri].changed for uri, state in now.items()):  # as by chmod, or a hard link
            checksums = _checksums(now)
            for uri in sorted(checksums):
                if checksums[uri] != self.checksums.get(uri):
                    _refuse(uri, "its content is another, with the same size and modification time")


def identity_of(dataset: Dataset) -> str:
    """Return what identifies the input of a run: the fingerprint of the data set, and checksums of local files."""
    return storage.digest(dataset.fingerprint(), list(Watch.of(dataset.addresses).checksums.values()))


def _refuse(uri: str, difference: str | None) -> None:
    if difference is not None:
        raise InputError(
            f"{uri} changed while it was read: {difference}. Start again once nothing writes to this data set."
        )


def _all_states(addresses: Iterable[str]) -> dict[str, ObjectState]:
    return {uri: state for address in dict.fromkeys(addresses) for uri, state in _states(address)}


def _states(address: str) -> Iterator[tuple[str, ObjectState]]:
    if address.startswith(storage.NAMED):
        return
    path = storage.filesystem(address)[1]
    for name, size, stamp in storage.list_objects(address):
        uri = address if name == path else storage.join(address, name)  # of a file, or of a folder
        if not storage.is_local(address):
            yield uri, ObjectState(size, stamp)
            continue
        with storage.explained(uri), suppress(FileNotFoundError):
            stat = Path(uri).stat()
            yield uri, ObjectState(stat.st_size, str(stat.st_mtime_ns), stat.st_ctime_ns)


def _difference(before: ObjectState | None, now: ObjectState | None) -> str | None:
    if before is None or now is None:
        return "it was removed" if now is None else "it is new"
    if before.size != now.size:
        return f"it has {now.size} bytes, and had {before.size}"
    if before.stamp == now.stamp:
        return None
    if before.changed is None or now.changed is None:
        return f"its version is {now.stamp}, and was {before.stamp}"
    return f"it was modified at {_time(int(now.stamp))}, and before that at {_time(int(before.stamp))}"


def _checksums(states: dict[str, ObjectState]) -> dict[str, int]:
    """Return the checksums of local files: of their content or, of more than ``CHECKED_BYTES``, of some blocks."""
    local = {uri: state.size for uri, state in sorted(states.items()) if state.changed is not None}
    total, begin, checksums = sum(local.values()), 0, {}
    step = CHECKED_BLOCK if total <= CHECKED_BYTES else total // (CHECKED_BYTES // CHECKED_BLOCK)
    for uri, size in local.items():
        first = 0 if total <= CHECKED_BYTES else -begin % step  # blocks are spread over all files together
        offsets = range(first, size, step)
        begin += size
        if offsets:
            with storage.explained(uri), suppress(FileNotFoundError):
                checksums[uri] = _checksum(Path(uri), offsets)
    return checksums


def _checksum(path: Path, offsets: Iterable[int]) -> int:
    """Return the checksum of the blocks of a file at some offsets."""
    checksum = 0
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            checksum = zlib.crc32(file.read(CHECKED_BLOCK), checksum)
    return checksum


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))}.{rest // 10**6:03d}"
