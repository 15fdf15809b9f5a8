"""The folder of a run: its configuration and its records; and of a refreshed run, with one folder a generation."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from mmpca_dist.errors import DamageError, InputError, MmpcaError, OutputError
from mmpca_dist.jobs.object_records import AGAIN
from mmpca_dist.jobs.records import COUNT, MAPS, PLAN, PUBLISH, TAKE, GenerationRecord, R, StageName
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import is_lease
from mmpca_dist.stores.overlaps import refuse_inside
from mmpca_dist.stores.zarr_stores import reading_own

if TYPE_CHECKING:  # reading it takes a second, and hooks of flows look at folders alone
    from mmpca_dist.configuration.schema import Purpose, RunConfig

FORMAT = 3
FORMATS = ("zarr", "parquet", "csv", "arrow")
"""The formats of projected rows."""
UNFINISHED = ".unfinished"
EVALUATION = "evaluation"
"""Evaluations of a configuration have this folder below its output, next to what the run itself writes."""
ERRORS = "errors"
"""Folder within a run for the tracebacks of unforeseen errors."""
CONTENTS = (
    "run.json", "records", "maps", "statistics.zarr", "pairs", "fits", "model", "projected", "splits",
    "tables", "report", "scratch", "events.jsonl", ERRORS,
)  # fmt: skip
CONTENT_OF = {"run": "a run", "evaluation": "an evaluation", "transform": "projected rows"}
"""The content of a folder, by the purpose of the job that wrote it."""
PACKAGES = ("mmpca-dist", "numpy", "scipy", "dask", "distributed", "zarr", "pyarrow", "scikit-learn", "prefect")


def versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@dataclass(frozen=True)
class Identity:
    """The facts that make a run the same as another: settings, data set, purpose, parts of the rows."""

    config: RunConfig
    fingerprint: str
    """Fingerprint of the data set."""
    purpose: Purpose = "run"
    parts: str | None = None
    """Digest of the parts of the rows, where a column names them."""
    models: str | None = None
    """The key of the run whose models a transform applies."""

    @property
    def key(self) -> str:
        settings = self.config.settings(self.purpose)
        return storage.digest(settings, self.fingerprint, FORMAT, self.purpose, self.parts, self.models)


@dataclass(frozen=True)
class RunDirectory:
    """A run at a path or URL; ``within`` is the output of its configuration, where this is a folder below it.

    ``run.json`` identifies the run. ``records/STAGE.json`` is written after the results of a stage.
    """

    uri: str
    within: str | None = None

    def path(self, *parts: str) -> str:
        return storage.join(self.uri, *parts)

    @property
    def label(self) -> str:
        """The prefix of the names of tasks on Dask's pages: the last part of the output."""
        name = (self.within or self.uri).rstrip("/").rpartition("/")[2]
        return f"{re.sub(r'[^A-Za-z0-9_]+', '_', name)}:"

    @property
    def exists(self) -> bool:
        return storage.exists(self.path("run.json"))

    def check(self, identity: Identity) -> None:
        """Write nothing; raise OutputError where the folder holds another run or files."""
        if not self.exists:
            self._refuse_foreign_content()
            return
        stored = self.header()
        if stored["key"] != identity.key:
            difference = _difference(stored, identity)
            raise OutputError(f"{self.uri} already holds a different run: {difference}. Choose another output folder.")

    def refuse_inside(self, *inputs: str) -> None:
        """Raise OutputError where the output of the configuration lies inside a result, a data set, or an input."""
        refuse_inside(self.within or self.uri, inputs)

    def begin(self, identity: Identity) -> str:
        """Claim the folder for this run, or take up the same run again, and return its key; raise as ``check`` does."""
        self.check(identity)
        if not self.exists:
            header = {
                "format": FORMAT,
                "key": identity.key,
                "purpose": identity.purpose,
                "config": identity.config.model_dump(mode="json"),
                "fingerprint": identity.fingerprint,
                "versions": versions(),
            }
            storage.create_bytes(self.path("run.json"), storage.to_json(header))
            storage.remove_children(self.uri, self._partials())
        return identity.key

    def _partials(self) -> list[str]:
        """Return the files of processes that died as they wrote ``run.json``."""
        return [name for name in storage.names_in(self.uri) if storage.is_partial(name, "run.json.")]

    def begin_scratch(self, key: str) -> None:
        """Remove checkpoints of other versions of the software, whose bits may differ."""
        path, token = self.path("scratch", "made-by.json"), {"key": key, "versions": versions()}
        with suppress(DamageError):
            if storage.exists(path) and storage.read_json(path) == token:
                return
        storage.remove(self.path("scratch"))
        storage.write_json(path, token)

    def _refuse_foreign_content(self) -> None:
        """Refuse other files in the folder, so that discarding the run cannot remove them."""
        with storage.reached(self.uri, "write to") as (fs, path):
            if not fs.exists(path):
                return
            if not fs.isdir(path):
                raise OutputError(f"{self.uri} is a file; the output of a run is a folder. Choose another output.")
            names = [str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in fs.ls(path, detail=False)]
        for name in names:
            if not (name == EVALUATION or is_lease(name) or storage.is_partial(name, "run.json.")):
                raise OutputError(
                    f"{self.uri} holds other files ({name!r}) and no run. Choose another output, or an empty folder."
                )

    def discard(self) -> None:
        """Remove what a run has written, and the folder unless it holds anything else."""
        storage.remove_children(self.uri, [*CONTENTS, *self._partials()])

    def discard_removed(self) -> None:
        """Remove what was written after the folder was removed, unless a run is there again."""
        if not self.exists:
            self.discard()

    @contextmanager
    def tidied(self) -> Iterator[None]:
        """Remove the folder around this one afterwards, if it is empty."""
        try:
            yield
        finally:
            if self.within is not None:
                with suppress(MmpcaError):  # somebody else may be writing there by now
                    storage.remove_children(self.within, [])

    @property
    def has_checkpoints(self) -> bool:
        """Whether there are checkpoints of an unfinished stage."""
        return any(name.endswith(".npz") for name, *_ in storage.list_objects(self.path("scratch")))

    @property
    def has_results(self) -> bool:
        """Whether a stage that reads all rows is done, or splits of an evaluation are."""
        done = set(storage.names_in(self.path("records"))) - {f"{name}.json" for name in (COUNT, PLAN, MAPS)}
        return bool(done or storage.names_in(self.path("splits")))

    def header(self) -> dict[str, Any]:
        """Return ``run.json``; raise InputError where there is no run of ours, DamageError where it is damaged."""
        if not self.exists:
            raise InputError(f"There is no run in {self.uri}: it holds no run.json.")
        path = self.path("run.json")
        with reading_own(path):
            header = storage.read_json(path)
        refuse_other_version(path, header, "key", "purpose", "config", "fingerprint")
        return header

    @property
    def purpose(self) -> Purpose:
        return self.header()["purpose"]

    @property
    def config(self) -> RunConfig:
        from mmpca_dist.configuration.schema import stored_config

        return stored_config(self.header()["config"], self.path("run.json"))

    def record(self, stage: StageName[R]) -> R | None:
        """Return the record of a finished stage, or None; raise DamageError where it is damaged."""
        path = self.record_path(stage)
        if not storage.exists(path):
            return None
        with reading_own(path, AGAIN):
            record = storage.read_json(path, AGAIN)
            _refuse_outside(record)
            # The report is looked for in this folder, which may have moved or come from a stranger.
            if "html" in record:
                record["html"] = self.path("report", "index.html")
            for figure in record.get("figures", []):
                figure["svg"] = self.path("report", f"{figure['name']}.svg")
            return cast(R, record)

    def records(self) -> dict[str, Any]:
        stages = (name.removesuffix(".json") for name in storage.names_in(self.path("records")))
        return {stage: record for stage in stages if (record := self.record(StageName(stage))) is not None}

    def record_path(self, stage: str) -> str:
        return self.path("records", f"{stage}.json")

    def finish(self, stage: str, key: str, contents: Mapping[str, Any]) -> None:
        """Record that a stage is done; a record whose results are gone is replaced."""
        path, record = self.record_path(stage), storage.to_json({"key": key, **contents})
        if not storage.create_bytes(path, record):
            storage.write_bytes(path, record)


def folder_of(config: RunConfig, purpose: Purpose) -> RunDirectory:
    """Return the folder of a run, or of the evaluation of the same configuration, which is below it."""
    run = RunDirectory(config.output)
    return run if purpose == "run" else RunDirectory(run.path(EVALUATION), within=run.uri)


def format_of(destination: str) -> str | None:
    """Return the format of projected rows that the suffix of a destination names; None of a folder."""
    format = destination.rpartition(".")[2]
    return format if format in FORMATS else None


def transform_folder(destination: str) -> str:
    """Return the folder of a transform: that of a file is beside it until the file is whole."""
    return destination if format_of(destination) is None else f"{destination}{UNFINISHED}"


def _difference(stored: dict[str, Any], identity: Identity) -> str:
    from mmpca_dist.configuration.schema import SECTIONS, stored_config

    if stored["purpose"] != identity.purpose:
        return f"it holds {CONTENT_OF[stored['purpose']]}"
    if stored["format"] != FORMAT:
        return "another version of this package wrote it"
    before = stored_config(stored["config"], "the stored configuration").settings(identity.purpose)
    now = identity.config.settings(identity.purpose)
    name = next((name for name in now if before[name] != now[name]), None)
    if name is None:
        is_input = stored["fingerprint"] != identity.fingerprint
        return f"its {'input has' if is_input else 'models have' if identity.models else 'parts have'} changed since"
    old, new = before[name], now[name]
    if name in SECTIONS:
        key = next(key for key in new if old[key] != new[key])
        name, old, new = f"{name}.{key}", old[key], new[key]
    return f"its {name} is {old!r}, here it is {new!r}"


def refuse_other_version(path: str, content: Mapping[str, Any], *needed: str) -> None:
    """Raise InputError for JSON that lacks a key that this version writes."""
    for name in needed:
        if name not in content:
            raise InputError(f"{path} lacks {name!r}: it is not of this version, or another program's.")


def _refuse_outside(record: dict[str, Any]) -> None:
    """Refuse a record that names files outside of the run: these names are read, published or deleted."""
    figures = [figure["name"] for figure in record.get("figures", [])]
    for name in (*record.get("outputs", []), *(record.get("objects") or {}), record.get("folder", ""), *figures):
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"it names {name!r}, which is outside of the run")


@dataclass(frozen=True)
class Generations:
    """A refreshed run at a path or URL; generation k holds the statistics after k data sets were taken up.

    ``records/take.json`` names the newest whose statistics are whole, ``records/refresh.json`` the newest that has
    models and a report as well, which is what readers are given.
    """

    uri: str

    @property
    def top(self) -> RunDirectory:
        return RunDirectory(self.uri)

    def folder(self, number: int) -> RunDirectory:
        return RunDirectory(storage.join(self.uri, _name(number)))

    @property
    def taken(self) -> int:
        """The newest generation whose statistics are whole; 0 for none."""
        return _number(self.top.record(TAKE))

    @property
    def published(self) -> int:
        """The newest generation that is solved; 0 for none."""
        return _number(self.top.record(PUBLISH))

    def begin(self, config: RunConfig, origin: str, run: str) -> str:
        """Claim the folder for what is refreshed from ``run``, whose key is ``origin``, and return its own key."""
        self.check(origin, run)
        return self.top.begin(Identity(config, origin))

    def check(self, origin: str, run: str) -> None:
        """Raise OutputError where the folder holds something else; nothing is written."""
        if self.top.exists and self.top.header()["fingerprint"] != origin:
            raise OutputError(
                f"{self.uri} already holds another run, or one refreshed from {run} before that was changed. Choose "
                "another output."
            )

    def begin_next(self, config: RunConfig, fingerprint: str) -> tuple[RunDirectory, str]:
        """Return the folder after the newest whole one, and its key; remove what an attempt with other rows left."""
        run, identity = self.folder(self.taken + 1), Identity(config, fingerprint)
        try:
            run.check(identity)
        except OutputError:
            run.discard()
        return run, run.begin(identity)

    def take(self, number: int, key: str) -> None:
        """Record that the statistics of a generation are whole; those before it are not needed any more."""
        self.top.finish(TAKE, key, {"generation": number})
        if number - 1 > self.published:
            self.folder(number - 1).discard()

    def publish(self, number: int, key: str) -> None:
        """Let readers have a generation; the one they had so far is kept for those that are reading it."""
        record = self.top.record(PUBLISH)
        before, oldest = _number(record), 0 if record is None else record["before"]
        self.top.finish(PUBLISH, key, {"generation": number, "folder": _name(number), "before": before})
        for other in range(max(oldest, 1), number):
            if other != before:
                self.folder(other).discard()

    def discard_removed(self) -> None:
        """Remove what was written after the folder was removed, unless a refreshed run is there."""
        if not self.top.exists:
            for name in filter(str.isdecimal, storage.names_in(self.uri)):
                self.folder(int(name)).discard()
        self.top.discard_removed()

    def discard_unfinished(self) -> None:
        """Remove what was begun of the next generation, and the folder where nothing is in it yet."""
        taken = self.taken
        self.folder(taken + 1).discard()
        if not taken:
            self.top.discard()


def _number(record: GenerationRecord | None) -> int:
    return 0 if record is None else record["generation"]


def _name(number: int) -> str:
    return f"{number:06d}"
