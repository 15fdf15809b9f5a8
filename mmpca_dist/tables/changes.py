"""Identity of data: digests of arrays, fingerprints, and the states of stored objects, which show changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import AccessError, InputError, MmpcaError
from mmpca_dist.stores import storage

HASHED_BYTES = 16 << 20
"""Bytes hashed at a time, so that rows that are not contiguous are not copied whole."""


def digest_of_arrays(*arrays: NDArray) -> str:
    """Return a short hash of the types, shapes and values of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        size = max(HASHED_BYTES // max(array[:1].nbytes, 1), 1)
        for start in range(0, len(array), size):
            digest.update(np.ascontiguousarray(array[start : start + size]).tobytes())
    return digest.hexdigest()[:32]


State = tuple[int, str]
"""Size of an object, and its etag or, on a local disk, its modification time in nanoseconds."""


@dataclass(frozen=True)
class Watch:
    """The states of the objects at some addresses, at one time."""

    states: dict[str, State]

    @classmethod
    def of(cls, addresses: Iterable[str]) -> Watch:
        """Look at the objects at, or below, some addresses; names of data sets (``synthetic:...``) have none."""
        return cls({uri: state for address in dict.fromkeys(addresses) for uri, state in _states(address)})

    def refuse_change(self, addresses: Iterable[str]) -> None:
        """Refuse objects that have changed; an ``InputError`` names the first, and its change."""
        now = Watch.of(addresses).states
        for uri in sorted(self.states.keys() | now.keys()):
            if self.states.get(uri) != now.get(uri):
                others = "it has another size, time or version" if uri in self.states else "it is new"
                difference = others if uri in now else "it was removed"
                raise InputError(
                    f"{uri} changed while it was read: {difference}. Start again once nothing writes to this data set."
                )


@contextmanager
def unchanged(*addresses: str) -> Iterator[Callable[[], None]]:
    """Yield a check, for the end, that objects did not change; an error that a change may explain becomes that."""
    watch = Watch.of(addresses)
    try:
        yield lambda: watch.refuse_change(addresses)
    except MmpcaError:
        with suppress(AccessError):
            watch.refuse_change(addresses)
        raise


def _states(address: str) -> Iterator[tuple[str, State]]:
    if address.startswith(storage.NAMED):
        return
    path = storage.filesystem(address)[1]
    for name, size, stamp in storage.list_objects(address):
        uri = address if name == path else storage.join(address, name)  # of a file, or of a folder
        if not storage.is_local(address):
            yield uri, (size, stamp)
            continue
        with storage.explained(uri), suppress(FileNotFoundError):
            stat = Path(uri).stat()
            yield uri, (stat.st_size, str(stat.st_mtime_ns))
