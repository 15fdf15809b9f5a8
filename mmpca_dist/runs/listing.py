"""List runs below a folder, and remove temporary files of stopped ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dask.utils import format_bytes

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import AccessError, InputError, MmpcaError, OutputError
from mmpca_dist.ingest.destination import Destination, is_work
from mmpca_dist.jobs.directory import EVALUATION, Generations, RunDirectory
from mmpca_dist.jobs.job import Stage
from mmpca_dist.jobs.records import PUBLISH, TAKE
from mmpca_dist.runs import transform as transforming
from mmpca_dist.runs.evaluate import evaluation_stages
from mmpca_dist.runs.fit import stages_of
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import Owner, held, holder
from mmpca_dist.tables.readers.formats import FORMATS

MAX_DEPTH = 3
"""How far below a folder runs are looked for."""
NOT_OURS = "its run.json is not of this version, or another program's"


@dataclass(frozen=True)
class RunState:
    """A run and its progress."""

    uri: str
    state: str
    """``finished``, ``running``, ``stopped`` or ``unreadable``."""
    dataset: str
    methods: list[str]
    done: list[str]
    """Stages whose results are there."""
    next: str | None
    """The first stage that is missing."""
    owner: Owner | None
    """Who works on it."""
    scratch: int
    """Bytes kept of unfinished stages."""
    problem: str = ""
    """Why it is unreadable."""

    @property
    def words(self) -> str:
        if self.state == "running":
            return f"running {self.next or 'the end'} ({self.owner})"
        if self.state == "stopped":
            return f"stopped at {self.next}; the same command goes on"
        return f"{self.state}: {self.problem}" if self.problem else self.state


def find_runs(uri: str) -> Iterator[RunState]:
    """Yield the runs in a folder and below it, by name; raise InputError where there is no such folder."""
    root = storage.normalize(uri)
    storage.require(root)
    yield from (state_of(found) for found in _below(root) if isinstance(found, RunDirectory))


def _below(uri: str, depth: int = 0) -> Iterator[RunDirectory | Destination]:
    """Yield the runs in a folder and below it, and the destinations where an ingest works or has died."""
    names = storage.names_in(uri)
    if "run.json" in names:
        yield RunDirectory(uri)
        if EVALUATION in names:
            yield from _below(storage.join(uri, EVALUATION), MAX_DEPTH)
        return
    for name in names:
        child = storage.join(uri, name)
        if name.endswith(storage.PARTIAL):
            if is_work(storage.names_in(child)):
                yield Destination(child.removesuffix(storage.PARTIAL))
        elif depth < MAX_DEPTH and not _is_data(name):
            yield from _below(child, depth + 1)


def _is_data(name: str) -> bool:
    """Tell whether a name is that of a table or of a file, in which no runs are looked for."""
    return name.endswith((".json", ".csv")) or any(format.is_named_by(name) for format in FORMATS.values())


def state_of(run: RunDirectory) -> RunState:
    """Return how far a run is, who works on it, and the bytes that it keeps."""
    owner, scratch = holder(run.uri), _n_bytes(_scratch_folders(run))
    try:
        config, refreshed = run.config, run.record(PUBLISH) is not None or run.record(TAKE) is not None
    except (MmpcaError, LookupError, TypeError, ValueError) as error:  # damaged, not ours, or not of this version
        problem = str(error) if isinstance(error, AccessError) else NOT_OURS
        return RunState(run.uri, "unreadable", "", [], [], None, owner, scratch, problem)
    done: list[str]
    if refreshed:
        folders = Generations(run.uri)
        done, missing = [TAKE], "solve" if folders.taken > folders.published else None
    else:
        records = set(storage.names_in(run.path("records")))
        stages = _stages_of(run, config)
        done = [stage.name for stage in stages if f"{stage.name}.json" in records]
        missing = next((stage.name for stage in stages if stage.name not in done), None)
    state = "running" if owner is not None else "finished" if missing is None else "stopped"
    return RunState(run.uri, state, config.dataset.uri, config.labels, done, missing, owner, scratch)


def _stages_of(run: RunDirectory, config: RunConfig) -> list[Stage]:
    if run.purpose == "transform":
        return transforming.STAGES
    return evaluation_stages(config) if run.purpose == "evaluation" else stages_of(config)


def _n_bytes(uris: Iterable[str]) -> int:
    return sum(size for uri in uris for _, size, _ in storage.list_objects(uri))


def _scratch_folders(run: RunDirectory) -> list[str]:
    """Return the scratch of a run, and of the generations of a refreshed one."""
    names = [name for name in storage.names_in(run.uri) if name.isdigit() and not Path(run.path(name)).is_symlink()]
    folders = [RunDirectory(run.path(name)) for name in names]  # what a link leads to has a lease of its own
    return [run.path("scratch"), *(folder.path("scratch") for folder in folders if folder.exists)]


@dataclass(frozen=True)
class Cleaned:
    """How many bytes of scratch and half-written objects were removed of a run, and what stays and why."""

    uri: str
    n_bytes: int
    left: str

    def __str__(self) -> str:
        removed = f"{format_bytes(self.n_bytes)} of scratch removed; " if self.n_bytes else ""
        return f"{self.uri}: {removed}{self.left}"


def clean(uri: str) -> list[Cleaned]:
    """Remove the scratch of idle runs in a folder, and what killed ingests have left there; return what was removed.

    Results stay; a stopped run begins its unfinished stage again. A group that an ingest was replacing is put back.
    Raises InputError where there is neither; OutputError where all runs are in use.
    """
    root = storage.normalize(uri)
    storage.require(root)
    found = list(_below(root))
    states = [state_of(run) for run in found if isinstance(run, RunDirectory)]
    ingests = [_tidied(destination) for destination in found if isinstance(destination, Destination)]
    runs = [run for run in states if run.state != "unreadable"]
    if not runs and not ingests:
        raise InputError(f"There is no run in {uri}, nor in the folders below it, and nothing that an ingest has left.")
    if not ingests and all(run.owner is not None for run in runs):
        raise OutputError(f"{runs[0].uri} is in use by {runs[0].owner}. Wait for it to end.")
    cleaned = [
        clear_idle(run.uri) if run in runs else Cleaned(run.uri, 0, f"left alone: {run.problem}") for run in states
    ]
    return cleaned + ingests


def _tidied(destination: Destination) -> Cleaned:
    """Put right what a killed ingest has left, unless one works there."""
    uris = (destination.uri, destination.work)
    try:
        before = _n_bytes(uris)
        destination.recover()
    except (OutputError, AccessError) as error:
        return Cleaned(destination.uri, 0, f"left alone: {error}")
    return Cleaned(destination.uri, before - _n_bytes(uris), "what a killed ingest had left is put right")


def clear_idle(uri: str) -> Cleaned:
    """Remove what a run keeps of unfinished stages, unless it is in use."""
    run = RunDirectory(uri)
    try:
        with held(uri):
            folders = _scratch_folders(run)
            n_bytes = _n_bytes(folders)
            for folder in folders:
                storage.remove(folder)
            n_bytes += storage.remove_partials(uri, but=EVALUATION)
    except OutputError:
        return Cleaned(uri, 0, f"left alone, as it is in use by {holder(uri) or 'another process'}")
    except AccessError as error:
        return Cleaned(uri, 0, f"left alone: {error}")
    return Cleaned(uri, n_bytes, "what is finished stays" if n_bytes else "no scratch, nothing removed")
