"""Data sets that arrive after a run: where they are found, and how one that was seen before is known again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mmpca_dist.datasets import open_dataset, storage
from mmpca_dist.datasets.parquet_folders import has_log, holds_parquet
from mmpca_dist.datasets.watching import identities
from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.runs.directory import RunDirectory

SUFFIXES = (".zarr", ".parquet", ".pq", ".npz")
"""What an inbox is searched for."""
GROUP_FILES = ("zarr.json", ".zgroup")
"""A folder with one of these is a Zarr group, whatever its name."""


@dataclass(frozen=True)
class Arrival:
    """A data set: the last part of its address, and a fingerprint of its objects' names, sizes, and etags or times.

    Times of inodes are left out, as they change where an inbox is copied or restored.
    """

    name: str
    uri: str
    fingerprint: str


def arrivals(uri: str) -> list[Arrival]:
    """Return the data set at ``uri``, or those directly within it where it is a folder of such, sorted by name.

    Raises
    ------
    InputError
        Where nothing is at this address.
    """
    uri = storage.normalize(uri)
    if uri.startswith(storage.NAMED):
        return [Arrival(uri, uri, storage.digest(uri))]
    fs, path = storage.filesystem(uri)
    fs.invalidate_cache()
    storage.require(uri)
    if uri.endswith(SUFFIXES) or not fs.isdir(path):
        return [_arrival(uri)]
    with storage.explained(uri):
        names = sorted(str(found).rstrip("/").rsplit("/", 1)[-1] for found in fs.ls(path, detail=False))
    if any(name in names for name in GROUP_FILES) or has_log(uri, names):
        return [_arrival(uri)]
    within = [name for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
    if not within and holds_parquet(uri, names):
        return [_arrival(uri)]
    return [_arrival(storage.join(uri, name)) for name in within]


def _arrival(uri: str) -> Arrival:
    name = uri.rsplit("/", 1)[-1]
    # The address of a single file is no part of its fingerprint, so that an inbox may be moved.
    objects = [(path.rsplit(name, 1)[-1], size, stamp) for path, size, stamp in storage.list_objects(uri)]
    return Arrival(name, uri, storage.digest(objects))


def taken_by(run: RunDirectory, reduce: dict[str, Any], rows: int) -> list[dict[str, Any]]:
    """Return what is in a run's statistics, in order: name, address, fingerprint and rows of every data set."""
    return reduce.get("taken") or [_first(run, rows)]


def _first(run: RunDirectory, rows: int) -> dict[str, Any]:
    """Return the data set that a run was fitted to; without a fingerprint where it is no longer what it was."""
    section = run.config.dataset
    entry = {"name": section.uri.rsplit("/", 1)[-1], "uri": section.uri, "fingerprint": None, "rows": rows}
    try:
        dataset = open_dataset(
            section.uri,
            features=section.features,
            label=section.label,
            drop=section.drop,
            missing_chunks=section.missing_chunks,
        )
        if run.header()["fingerprint"] in identities(dataset):
            (found,) = arrivals(section.uri)
            return {**entry, **asdict(found), "rows": rows}
    except (MmpcaError, ValueError):  # it need not be there any more, nor be a single data set in the eyes of an inbox
        pass
    return entry


def not_taken(found: Sequence[Arrival], taken: Sequence[dict[str, Any]]) -> list[Arrival]:
    """Return the arrivals that are not in yet.

    Raises
    ------
    InputError
        Where rows may be in already: of one that has the name of a data set that is in, but is another, or that lies
        within one that is in.
    """
    known = {entry["name"]: entry for entry in taken}
    fresh = []
    for arrival in found:
        _refuse_nested(arrival, taken)
        entry = known.get(arrival.name)
        if entry is None:
            fresh.append(arrival)
        elif entry["fingerprint"] != arrival.fingerprint:
            raise InputError(
                f"{arrival.uri} is not what was taken up under this name ({entry['rows']} rows of {entry['uri']}): it "
                "has changed, or is another. Rows that are in cannot be taken out; give new rows another name."
            )
    return fresh


def _refuse_nested(arrival: Arrival, taken: Sequence[dict[str, Any]]) -> None:
    """A folder of Parquet files is one data set for a run, and an inbox of many here."""
    for entry in taken:
        outer, inner = sorted([arrival.uri, entry["uri"]], key=len)
        if inner.startswith(f"{outer}/"):
            raise InputError(
                f"{inner} lies within {outer}, and one of them is in already: rows would count twice. Put new data "
                "sets into a folder of their own."
            )
