"""Detect changes of stored data during a job."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError


@dataclass(frozen=True)
class ObjectState:
    """Size of an object, its etag or modification time, and on a local disk when its inode changed, in nanoseconds.

    Programs may set the modification time to anything, but not the inode's.
    """

    size: int
    stamp: str
    changed: int | None = None


@dataclass(frozen=True)
class Watch:
    """The objects at some addresses, as they were once."""

    states: dict[str, ObjectState]

    @classmethod
    def of(cls, addresses: Iterable[str]) -> Watch:
        """Look at the objects at, or below, some addresses; those that are names of data sets have none."""
        return cls({uri: state for address in dict.fromkeys(addresses) for uri, state in _states(address)})

    def refuse_change(self, addresses: Iterable[str]) -> None:
        """Refuse objects that have changed.

        Raises
        ------
        InputError
            Names the first object that did, and what of it.
        """
        now = Watch.of(addresses).states
        for uri in sorted(self.states.keys() | now.keys()):
            what = _difference(self.states.get(uri), now.get(uri))
            if what is not None:
                raise InputError(
                    f"{uri} changed while it was read: {what}. Start again once nothing writes to this data set."
                )

    @property
    def changed(self) -> list[tuple[str, int]]:
        """When the inodes of local objects changed."""
        return [(uri, state.changed) for uri, state in sorted(self.states.items()) if state.changed is not None]


def identities(dataset: Dataset) -> tuple[str, ...]:
    """Return what identifies the input of a run: the fingerprint that runs record, and any of earlier versions.

    On a local disk the present one takes the times of inodes in; elsewhere the data set's own is all there is.
    """
    plain, changed = dataset.fingerprint(), [when for _, when in Watch.of(dataset.addresses).changed]
    return (storage.digest(plain, changed), plain) if changed else (plain,)


def _states(address: str) -> list[tuple[str, ObjectState]]:
    if address.startswith(storage.NAMED):
        return []
    path, found = storage.filesystem(address)[1], []
    for name, size, stamp in storage.list_objects(address):
        uri = address if name == path else storage.join(address, name)  # of a file, or of a folder
        state = _local_state(uri) if storage.is_local(address) else ObjectState(size, stamp)
        if state is not None:
            found.append((uri, state))
    return found


def _local_state(path: str) -> ObjectState | None:
    with storage.explained(path):
        try:
            found = Path(path).stat()
        except FileNotFoundError:
            return None
    return ObjectState(found.st_size, str(found.st_mtime_ns), found.st_ctime_ns)


def _difference(before: ObjectState | None, now: ObjectState | None) -> str | None:
    if before is None or now is None:
        return "it was removed" if now is None else "it is new"
    if before.size != now.size:
        return f"it has {now.size} bytes, and had {before.size}"
    if before.changed is None or now.changed is None:
        return None if before.stamp == now.stamp else f"its version is {now.stamp}, and was {before.stamp}"
    if before.stamp != now.stamp:
        return f"it was modified at {_time(int(now.stamp))}, and before that at {_time(int(before.stamp))}"
    if before.changed != now.changed:
        return f"its inode was changed at {_time(now.changed)}, and before that at {_time(before.changed)}"
    return None


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))}.{rest // 10**6:03d}"
