"""Find data sets for a refresh, and tell new ones from those that it already has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.records import ReduceRecord
from mmpca_dist.stores import storage
from mmpca_dist.stores.overlaps import canonical
from mmpca_dist.tables.mapped_rows import mapped
from mmpca_dist.tables.readers.formats import FORMATS, TEXT, open_dataset
from mmpca_dist.tables.readers.npy_folder import holds_npy
from mmpca_dist.tables.readers.parquet_folders import ZARR, has_log, holds_parquet

OPENED = {"uri", "features", "label", "drop", "missing_chunks", "columns", "unlabelled_value"}
"""Settings of a data set that ``open_dataset`` takes."""


@dataclass(frozen=True)
class Arrival:
    """A data set: the last part of its address, and a fingerprint of its objects' names, sizes, and etags or times."""

    name: str
    uri: str
    fingerprint: str


def arrivals(uri: str) -> list[Arrival]:
    """Return the data set at ``uri`` or, if it is a folder of data sets, those directly within it, sorted by name."""
    uri = storage.normalize(uri)
    if uri.startswith(storage.NAMED):
        return [Arrival(uri, uri, storage.digest(uri))]
    fs, path = storage.filesystem(uri)
    storage.require(uri)
    texts = (suffix for suffix in TEXT.suffixes if not suffix.startswith(".txt"))  # which may be about the data sets
    suffixes = (*texts, *(suffix for format in FORMATS.values() if format.alone for suffix in format.suffixes))
    if uri.endswith(suffixes) or not fs.isdir(path):
        return [_arrival(uri)]
    names = storage.names_in(uri)
    if ZARR.intersection(names) or has_log(uri, names) or holds_npy(uri, names):
        return [_arrival(uri)]
    within = [name for name in names if name.endswith(suffixes) and not name.startswith(".")]
    if not within and holds_parquet(uri, names):
        return [_arrival(uri)]
    return [_arrival(storage.join(uri, name)) for name in within]


def _arrival(uri: str) -> Arrival:
    name = uri.rsplit("/", 1)[-1]
    # The fingerprint omits the folder, so that an inbox may be moved.
    objects = [(path.rsplit(name, 1)[-1], size, stamp) for path, size, stamp in storage.list_objects(uri)]
    return Arrival(name, uri, storage.digest(objects))


def data_sets_of(run: RunDirectory, reduce: ReduceRecord, rows: int) -> list[dict[str, Any]]:
    """Return the data sets in a run's statistics, in order: name, address, fingerprint and rows of each.

    The fingerprint is None for the data set that a run was fitted to, if that has changed since.
    """
    if reduce.get("taken"):
        return list(reduce["taken"])
    section = run.config.dataset
    uri = section.uri
    entry: dict[str, Any] = {"name": uri.rsplit("/", 1)[-1], "uri": uri, "fingerprint": None, "rows": rows}
    with suppress(MmpcaError, ValueError):  # it may be gone, or be several data sets if read as an inbox
        dataset = mapped(open_dataset(**section.model_dump(include=OPENED)), section.maps)
        if run.header()["fingerprint"] == dataset.fingerprint():
            (arrival,) = arrivals(uri)
            entry |= asdict(arrival)
    return [entry]


def new_arrivals(candidates: Sequence[Arrival], data_sets: Sequence[dict[str, Any]]) -> list[Arrival]:
    """Return the candidates that are not among a run's data sets.

    Raises InputError if rows might count twice: a candidate shares its name with another data set of the run, lies
    within one, or links to files of one.
    """
    by_name = {entry["name"]: entry for entry in data_sets}
    known = {(entry["name"], entry["fingerprint"]) for entry in data_sets}
    new = [arrival for arrival in candidates if (arrival.name, arrival.fingerprint) not in known]
    places = [_Place.of(entry["uri"]) for entry in data_sets] if new else []
    for arrival in new:
        place = _Place.of(arrival.uri)
        for other in places:
            place.refuse_shared_rows(other)
        places.append(place)
        if namesake := by_name.get(arrival.name):
            raise InputError(
                f"{arrival.uri} is not what was taken up under this name ({namesake['rows']} rows of "
                f"{namesake['uri']}): it has changed, or is another. Rows that are in cannot be taken out; give new "
                "rows another name."
            )
    return new


@dataclass(frozen=True)
class _Place:
    """Where a data set is: its address, one spelling of it without links, and the local files that hold it."""

    uri: str
    canonical: str
    inodes: set[tuple[int, int]]

    @classmethod
    def of(cls, uri: str) -> _Place:
        if uri.startswith(storage.NAMED):
            return cls(uri, uri, set())
        root = Path(uri)
        files = [root, *root.rglob("*")] if storage.is_local(uri) else []
        stats = [path.stat() for path in files if path.is_file()]
        return cls(uri, canonical(uri), {(stat.st_dev, stat.st_ino) for stat in stats})

    def refuse_shared_rows(self, counted: _Place) -> None:
        """Refuse rows that lie within a data set that counts, or around it, or that links lead to."""
        if self.uri == counted.uri:
            return
        outer, inner = sorted([self, counted], key=lambda place: len(place.canonical))
        if inner.canonical.startswith(f"{outer.canonical}/"):  # a folder of Parquet: one data set of a run, many here
            what = f"{inner.uri} lies within {outer.uri}, and one of them is in already"
        elif self.canonical == counted.canonical or not self.inodes.isdisjoint(counted.inodes):
            what = f"{self.uri} and {counted.uri} are, or hold, links to the same files"
        else:
            return
        raise InputError(f"{what}: rows would count twice. Put new data sets into a folder of their own.")
