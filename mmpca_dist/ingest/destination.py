"""The destination of an ingest: a new group is built aside, and replaces the old one when it is complete.

The next ingest puts right what a killed one has left.

Next to the destination ``D`` lies the folder ``D.partial`` for as long as an ingest works. Its lease says who writes,
and ``ingest.json`` what is being written.

On a local disk the new group is built in ``D.partial/new``. Then ``D`` becomes ``D.partial/old``, and ``new`` becomes
``D``. An object store knows no renaming. A group where nothing was before is written in place, its metadata last. A
group that replaces another is written to ``D/TOKEN``. Then the one object ``D/zarr.json`` is written, which names the
token: from then on readers find the new table, and the old one is deleted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import zarr

from mmpca_dist.errors import MmpcaError, OutputError
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.lease import Lease, held, is_lease
from mmpca_dist.stores.overlaps import resolved
from mmpca_dist.tables.facts import ARRAYS, TABLE

Overwrite = bool | Literal["any"]
"""Whether a group may be replaced that an ingest has completed; with ``"any"``, any Zarr group."""
JOURNAL, NEW, OLD, METADATA = "ingest.json", "new", "old", "zarr.json"
GROUP_MARKS = (METADATA, ".zgroup", "X/zarr.json", "X/data/zarr.json")
"""One of these is in every Zarr group of rows, and in the remains of one."""


@dataclass(frozen=True)
class Destination:
    """The address of a group that is to be written; symbolic links are followed."""

    uri: str

    @classmethod
    def of(cls, uri: str) -> Destination:
        return cls(resolved(uri))

    @property
    def is_local(self) -> bool:
        return storage.is_local(self.uri)

    @property
    def work(self) -> str:
        """The folder that is next to the destination while an ingest works."""
        return f"{self.uri}{storage.PARTIAL}"

    def prepare(self, overwrite: Overwrite, note: Callable[[str], None]) -> None:
        """Put right what a killed ingest has left, and raise an ``OutputError`` for what may not be replaced."""
        if self.recover(note):
            note(f"What a killed ingest had left next to {self.uri} has been put right.")
        self.refuse_occupied(overwrite)

    def refuse_occupied(self, overwrite: Overwrite) -> None:
        """Raise an ``OutputError`` if the destination holds something that may not be replaced."""
        if others := _foreign(storage.names_in(self.work)):
            raise OutputError(
                f"An ingest to {self.uri} works in {self.work}, which holds other files ({others[0]!r}). Move them, or "
                "choose another destination."
            )
        with storage.explained(self.uri, "write to"):
            if not storage.exists(self.uri):
                return
            is_group = any(storage.exists(storage.join(self.uri, mark)) for mark in GROUP_MARKS)
            is_complete = self._attributes().get("complete") is True
            others = self._others() if is_complete and overwrite is True else []
        if not is_group and overwrite:
            raise OutputError(f"{self.uri} is not a Zarr group, so it is not overwritten: choose another destination.")
        if overwrite is True and not is_complete:
            raise OutputError(
                f"{self.uri} is a Zarr group that no ingest has completed. Choose another destination, or replace it "
                'with --overwrite-any (in Python overwrite="any").'
            )
        if others:
            raise OutputError(
                f"{self.uri} holds {others[0]!r}, which its ingest did not write. Move that, choose another "
                'destination, or replace all of it with --overwrite-any (in Python overwrite="any").'
            )
        if not overwrite:
            ways = "--overwrite (in Python overwrite=True)" if is_complete else '--overwrite-any (overwrite="any")'
            way = f", or replace it with {ways}" if is_group else ""
            kind = "a Zarr group" if is_group else "something"
            raise OutputError(f"There is {kind} at {self.uri} already: choose another destination{way}.")

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes of the group, of version 3 as ingests write them; none where there is no such group."""
        uri = storage.join(self.uri, METADATA)
        metadata: Any = None
        if storage.exists(uri):
            data = storage.read_bytes(uri)  # a store that does not answer, a ValueError too, is not one without a group
            with suppress(ValueError):
                metadata = json.loads(data)
        attributes = metadata.get("attributes") if isinstance(metadata, dict) else None
        return attributes if isinstance(attributes, dict) else {}

    def _others(self) -> list[str]:
        """Return what lies in a group besides the arrays that an ingest wrote."""
        attributes = self._attributes()
        token, arrays = attributes.get(TABLE), attributes.get(ARRAYS)
        written = [token] if token is not None else arrays if isinstance(arrays, list) else []
        others = [name for name in storage.names_in(self.uri) if name != METADATA and name not in written]
        return others + (Destination(storage.join(self.uri, token))._others() if isinstance(token, str) else [])

    def recover(self, note: Callable[[str], None] | None = None) -> bool:
        """Tidy up after a dead ingest, and tell whether there was anything; one that lives is an ``OutputError``."""
        if not is_work(storage.names_in(self.work)):
            return False
        with held(self.work, note):
            self._tidy()
        return True

    @contextmanager
    def claimed(self, columns: Sequence[str], overwrite: Overwrite) -> Iterator[Writing]:
        """Hold the destination against other ingests, and tidy up at the end, also after an error.

        ``columns`` are the names of the arrays next to the rows. Raises an ``OutputError`` while another ingest writes
        there, or where something is there that may not be replaced.
        """
        with held(self.work) as lease, lease.cleared(lambda: storage.remove_children(self.work, [NEW])):
            self._tidy()
            self.refuse_occupied(overwrite)
            token = self._begin(["X", *columns])
            try:
                yield Writing(self, lease, token, bool(overwrite))
            except BaseException:
                with suppress(MmpcaError):  # the first reason is the one to tell
                    if not lease.is_lost:
                        self._tidy()
                raise
            self._tidy()

    def _begin(self, names: list[str]) -> str:
        """Record what is to be written and what it replaces; nothing else is ever deleted."""
        if self.is_local:
            token, journal = "", {}
        else:
            old = storage.names_in(self.uri)
            token = uuid.uuid4().hex if old else ""
            journal = {"table": token, "new": [token] if token else names, "old": [n for n in old if n != METADATA]}
        storage.write_json(storage.join(self.work, JOURNAL), journal)
        return token

    def _tidy(self) -> None:
        """Keep the new group if it is complete and at the destination, otherwise the old one; remove the other."""
        uri = storage.join(self.work, JOURNAL)
        if not storage.exists(uri):
            return
        remedy = f"An ingest to {self.uri} works there: move it, or choose another destination."
        journal = storage.read_json(uri, remedy)
        if self.is_local:
            self._tidy_folders(Path(self.work, NEW), Path(self.work, OLD))
        else:
            group = self._attributes()
            is_switched = group.get("complete") is True and group.get(TABLE, "") == journal["table"]
            # A group's metadata come last: what has some is complete, or another's.
            is_foreign = not journal["table"] and any(
                storage.exists(storage.join(self.uri, mark)) for mark in GROUP_MARKS[:2]
            )
            if is_switched or not is_foreign:
                storage.remove_children(self.uri, journal["old" if is_switched else "new"])
        storage.remove(uri)

    def _tidy_folders(self, new: Path, old: Path) -> None:
        with storage.explained(self.uri, "write"):
            if new.exists() and old.exists():  # killed between the two renames
                if Path(self.uri).exists():
                    raise OutputError(
                        f"{old} is the group that was at {self.uri} when an ingest was killed, and something else has "
                        f"been written to {self.uri} since. Move one of them to another place."
                    )
                old.rename(self.uri)
        storage.remove(str(new))
        storage.remove(str(old))


@dataclass(frozen=True)
class Writing:
    """A group that is being written.

    ``token`` names the sub-group that the table goes to in an object store; it is empty where nothing is replaced.
    """

    destination: Destination
    lease: Lease
    token: str
    overwrite: bool

    @property
    def uri(self) -> str:
        """Where the group is built."""
        if self.destination.is_local:
            return storage.join(self.destination.work, NEW)
        return storage.join(self.destination.uri, self.token) if self.token else self.destination.uri

    def complete(self, attributes: dict[str, Any]) -> None:
        """Mark the new group as complete, and replace the old one by it.

        Raises an ``OutputError`` where another ingest has taken over.
        """
        self.lease.check(now=True)
        uri = self.destination.uri
        with storage.explained(uri, "write"):
            zarr.create_group(zarr_stores.zarr_location(self.uri), attributes={**attributes, "complete": True})
            if self.destination.is_local:
                if Path(uri).exists() and self.overwrite:
                    Path(uri).rename(Path(self.destination.work, OLD))
                Path(self.uri).rename(uri)
        if self.token:
            root = {"zarr_format": 3, "node_type": "group", "attributes": {"complete": True, TABLE: self.token}}
            storage.write_bytes(storage.join(uri, METADATA), json.dumps(root).encode())  # Zarr's, without our checksum


def is_work(names: Sequence[str]) -> bool:
    """Tell whether these are the names in the folder of an ingest, which works or has died."""
    return any(name == JOURNAL or is_lease(name) for name in names) and not _foreign(names)


def _foreign(names: Sequence[str]) -> list[str]:
    """Return the names that no ingest has written; an ingest writes its journal before any group."""
    groups = (JOURNAL, NEW, OLD) if JOURNAL in names else ()
    return [name for name in names if name not in groups and not is_lease(name) and not storage.is_partial(name)]
