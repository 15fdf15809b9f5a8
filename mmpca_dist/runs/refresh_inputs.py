"""Inputs of a refresh: new data sets, the methods that follow exactly, the merged moments and records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.configuration.dataset_section import located
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.faults import Fault, render
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import finished, statistics_of
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.object_records import open_arrays, recorded
from mmpca_dist.jobs.records import CHOOSE, COUNT, MAPS, REDUCE, ChoiceRecord, MapsRecord, ReduceRecord
from mmpca_dist.jobs.stored_arrays import STATISTICS, save_fits, save_statistics
from mmpca_dist.passes.census import notes_on_labels
from mmpca_dist.statistics.from_rows import take_moments
from mmpca_dist.statistics.moments import ClassMoments, merge_classes
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.widened_rows import widened_as
from mmpca_dist.statistics.working_statistics import ColumnStatistics, tall_statistics
from mmpca_dist.stores import storage
from mmpca_dist.stores.overlaps import canonical
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.formats import FORMATS, TEXT, ZARR
from mmpca_dist.tables.readers.npy_folder import holds_npy
from mmpca_dist.tables.readers.parquet_folders import has_log, holds_parquet
from mmpca_dist.tables.row_maps.specification import Arrays


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
    if uri.lower().endswith(suffixes) or not fs.isdir(path):
        return [_arrival(uri)]
    names = storage.names_in(uri)
    if ZARR.intersection(names) or has_log(uri, names) or holds_npy(uri, names):
        return [_arrival(uri)]
    within = [
        name
        for name in names
        if (name.lower().endswith(suffixes) and not name.startswith("."))
        or ("." not in name and holds_npy(folder := storage.join(uri, name), storage.names_in(folder)))
    ]
    if not within and holds_parquet(uri, names):
        return [_arrival(uri)]
    return [_arrival(storage.join(uri, name)) for name in within]


def _arrival(uri: str) -> Arrival:
    name = uri.rsplit("/", 1)[-1]
    # The fingerprint omits the folder, so that an inbox may be moved.
    objects = [(path.rsplit(name, 1)[-1], size, stamp) for path, size, stamp in storage.list_objects(uri)]
    return Arrival(name, uri, storage.digest(objects))


def data_sets_of(run: RunDirectory) -> list[dict[str, Any]]:
    """Return the data sets in a run's statistics, in order: name, address, fingerprint and rows of each.

    The fingerprint is None for the data set that a run was fitted to, if that has changed since.
    """
    if taken := finished(run, REDUCE).get("taken"):
        return list(taken)
    section, rows = run.config.dataset, finished(run, COUNT)["n_rows"]
    uri = section.uri
    entry: dict[str, Any] = {"name": uri.rsplit("/", 1)[-1], "uri": uri, "fingerprint": None, "rows": rows}
    with suppress(MmpcaError, ValueError):  # it may be gone, or be several data sets if read as an inbox
        entry["uri"] = uri = located(section)
        if run.header()["fingerprint"] == Inputs.of(run.config).dataset.fingerprint():
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
    places = [_Location.of(entry["uri"]) for entry in data_sets] if new else []
    for arrival in new:
        place = _Location.of(arrival.uri)
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
class _Location:
    """Where a data set is: its address, one spelling of it without links, and the local files that hold it."""

    uri: str
    canonical: str
    inodes: set[tuple[int, int]]

    @classmethod
    def of(cls, uri: str) -> _Location:
        if uri.startswith(storage.NAMED):
            return cls(uri, uri, set())
        root = Path(uri)
        files = [root, *root.rglob("*")] if storage.is_local(uri) else []
        stats = [path.stat() for path in files if path.is_file()]
        return cls(uri, canonical(uri), {(stat.st_dev, stat.st_ino) for stat in stats})

    def refuse_shared_rows(self, counted: _Location) -> None:
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


SAME = 1e-9
"""Moments of copies differ by less, relatively: by rounding alone, where they are read in other chunks."""


def merge_rows(before: RunDirectory, arrival: Arrival, data_sets: list[dict], heed: Callable, job: Job) -> ReduceRecord:
    """Take moments of a data set in one pass, ``heed`` their drift, merge those ``before`` in, and return a record."""
    precision = job.config.precision
    job.callback.on_pass("reduce", arrival.name)
    stored = statistics_of(before)
    assert isinstance(stored, ColumnStatistics)  # noqa: S101  (``refreshable_config`` refuses other runs)
    rows = job.rows("reduce")  # whose pass is told already, by the name of the data set
    rows = replace(rows, dataset=widened_as(rows.dataset, stored.unadjusted.widening), on_pass=None)
    weights = np.ones((1, len(rows.census.classes))) if stored.unadjusted.pooled else None
    new, _ = take_moments(rows, precision=precision, weights=weights)
    *others, added = data_sets
    if "moments" not in others[0]:  # of the run itself
        others[0] = {**others[0], "moments": _identifying(stored.unadjusted)}
    added = {**added, "moments": _identifying(new)}
    if note := _note_on_copy(added, others):
        added["note"] = note
        job.callback.on_note(note)
    added["drift"] = heed(arrival.uri, stored.in_columns, stored.adjusted(new), job.callback)
    with single_blas_thread():
        moments = merge_classes(stored.unadjusted, new, arrival.uri)
    return {
        "taken": [*others, added],
        "passes": ["moments"],
        "bytes": rows.dataset.n_bytes,
        "outputs": save_statistics(job.run, tall_statistics(moments, precision=precision)),
    }


def _identifying(moments: ClassMoments) -> list[float]:
    """Return a fingerprint of moments, to detect data added twice: sums of squares of sizes, means and deviations."""
    counts, mean, between = moments.counts.astype(float), moments.mean, moments.deviations
    squares = [counts @ counts, mean @ mean, counts @ np.einsum("ij,ij->i", between, between)]
    return [*map(float, squares), moments.trace(np.ones(len(counts)))]


def _note_on_copy(added: dict[str, Any], others: list[dict[str, Any]]) -> str | None:
    """Return a note where rows have the moments of a data set that is in."""
    for other in others:
        if other["rows"] == added["rows"] and np.allclose(other["moments"], added["moments"], rtol=SAME, atol=0):
            return (
                f"{added['uri']} has as many rows as {other['uri']}, and the same moments. Is it a copy? Then its rows "
                "count twice: refresh into another output, without the copy."
            )
    return None


def is_pooled(run: RunDirectory) -> bool:
    """Tell whether a run keeps only a sum of its classes' scatters, without reading them."""
    return "moments.weights" in _arrays_of(run)


def _arrays_of(run: RunDirectory) -> Collection[str]:
    """Return the names of the arrays of a run's statistics, all of which are there."""
    return open_arrays(run.uri, finished(run, REDUCE), STATISTICS)


def refreshable_config(run: RunDirectory, output: str) -> tuple[RunConfig, dict[str, str]]:
    """Return the configuration of a refreshed run, and the reasons of methods that it leaves out, by label."""
    config = run.config
    if config.dataset.moments is not None:
        raise InputError(
            f"The run in {run.uri} asks the moments of the run in {config.dataset.uri}, and has no rows of its own to "
            "extend: refresh that one, and ask it again."
        )
    if config.dataset.balance is not None:
        raise InputError(
            f"The run in {run.uri} lets the names in {config.dataset.balance!r} count alike, and new rows would change "
            "how much those of each count. Run it anew over all rows."
        )
    arrays = _arrays_of(run)
    if "basis" in arrays:
        raise InputError(
            f"The statistics of the run in {run.uri} cannot be extended: {statistics_of(run).unmergeable_reason}. Run "
            "it anew over all rows."
        )
    pooled, weighted = "moments.weights" in arrays, config.class_weight is not None
    told = ((method.label, unmergeable_reason(method.needs, pooled, weighted)) for method in config.methods)
    left_out = {label: reason for label, reason in told if reason is not None}
    methods = [method for method in config.methods if method.label not in left_out]
    if not methods:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in left_out.items())
        raise InputError(f"No method of the run in {run.uri} can be refreshed. {reasons}. Run it anew over all rows.")
    changes = {
        "methods": methods,
        "standardize": finished(run, COUNT)["standardize"],
        "project": config.project.model_copy(update={"methods": []}),
        "output": output,
    }
    if config.evaluation.reference in left_out:
        changes["evaluation"] = config.evaluation.model_copy(update={"reference": None})
    return config.model_copy(update=changes), left_out


def unmergeable_reason(needs: Needs, pooled: bool, weighted: bool) -> str | None:
    """Return why new rows cannot extend a method exactly; None where they can."""
    if needs.medians:
        return "the median of two sets of rows does not follow from their medians"
    if needs.searches:
        return "new rows may be nearer than those that were found"
    if needs.swept:
        return "its fit passes over all rows several times"
    if needs.shrinkages:
        return "rows that are held out choose its shrinkage"
    if pooled and (weighted or needs.scatters - {ClassWeighting.EQUAL}):
        return "the scatters of the run's many classes are pooled for the class counts or weights of just its own rows"
    return None


def choice_record(before: RunDirectory, methods: list[str]) -> ChoiceRecord:
    """Return the record of the chosen numbers of components, which new rows do not change.

    A new choice would take folds of all rows, and a refresh does not read old rows.
    """
    record = finished(before, CHOOSE)
    kept = {name: record[name] for name in ("rule", "classifier", "folds", "overlap", "how")}
    choices = {method: record["methods"][method] for method in methods}
    found = [choice["words"] for choice in choices.values()]
    return cast(ChoiceRecord, {**kept, "methods": choices, "found": found})


def maps_record(before: RunDirectory, run: RunDirectory, fits: Sequence[Arrays]) -> MapsRecord:
    """Store the fits of row maps, which new rows do not change, and return their record."""
    outputs = save_fits(run, fits)
    return {
        "passes": [],
        "bytes": 0,
        "memory": 0,
        "notes": finished(before, MAPS)["notes"],
        "outputs": outputs,
        "objects": recorded(run.uri, outputs),
    }


def notes_on(dataset: Dataset) -> list[str]:
    """Return what must be known of a data set that is taken up."""
    own = [] if dataset.stored.note is None else [dataset.stored.note]
    return [render([Fault(note)]) for note in [*notes_on_labels(dataset, f" of {dataset.uri}"), *own]]
