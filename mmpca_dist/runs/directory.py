"""The folder of a run: what was asked, what is done, and where results are."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from mmpca_dist.datasets import creating, storage
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.runs.config import SECTIONS, Purpose, RunConfig, stored_config
from mmpca_dist.runs.lease import PREFIX

FORMAT = 1
CONTENTS = (
    "run.json",
    "records",
    "statistics.zarr",
    "pairs.zarr",
    "model",
    "projected",
    "splits",
    "tables",
    "report",
    "scratch",
    "events.jsonl",
)
PACKAGES = (
    "mmpca-dist",
    "numpy",
    "scipy",
    "dask",
    "distributed",
    "zarr",
    "pyarrow",
    "scikit-learn",
    "prefect",
)


def versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@dataclass(frozen=True)
class RunDirectory:
    """A run at a path or URL.

    ``run.json`` says what the run is; ``records/STAGE.json`` that a stage is done, written after its results.
    """

    uri: str

    def path(self, *parts: str) -> str:
        return storage.join(self.uri, *parts)

    @property
    def exists(self) -> bool:
        return storage.exists(self.path("run.json"))

    def check(self, config: RunConfig, fingerprint: str, purpose: Purpose = "run", parts: str | None = None) -> str:
        """Return the run's key, where the folder is free or holds the same run; nothing is written.

        Parameters
        ----------
        parts : str, optional
            Digest of the parts of the rows, where a column names them.

        Raises
        ------
        OutputError
            Where the folder holds another run, or other files.
        """
        further = [*([] if purpose == "run" else [purpose]), *([] if parts is None else [parts])]
        key = storage.digest(config.settings(purpose), fingerprint, FORMAT, *further)
        if not self.exists:
            self._refuse_foreign_content()
            return key
        stored = self.header()
        if stored["key"] != key:
            difference = _difference(stored, config, fingerprint, purpose)
            raise OutputError(
                f"{self.uri} already holds a different run: {difference}. Choose another output, or delete that folder."
            )
        return key

    def begin(self, config: RunConfig, fingerprint: str, purpose: Purpose = "run", parts: str | None = None) -> str:
        """Claim the folder for this run and return the run's key; take up the same run again.

        Raises
        ------
        OutputError
            As ``check`` does.
        """
        key = self.check(config, fingerprint, purpose, parts)
        if not self.exists:
            header = {
                "format": FORMAT,
                "key": key,
                "purpose": purpose,
                "config": config.model_dump(mode="json"),
                "fingerprint": fingerprint,
                "versions": versions(),
            }
            creating.create_bytes(self.path("run.json"), storage.as_json(header))
            storage.remove_children(self.uri, self._partials())
        return key

    def _partials(self) -> list[str]:
        """Return what processes have left that died as they wrote ``run.json``."""
        return [name for name in storage.names_in(self.uri) if storage.is_partial(name, "run.json.")]

    def begin_scratch(self, key: str) -> None:
        """Clear away what another version of the software has kept of unfinished stages: it may differ in bits."""
        place, token = self.path("scratch", "made-by.json"), {"key": key, "versions": versions()}
        if not storage.exists(place) or storage.read_json(place) != token:
            storage.remove(self.path("scratch"))
            storage.write_json(place, token)

    def _refuse_foreign_content(self) -> None:
        """A run has its folder to itself: what is refused is discarded, and must not take other files along."""
        fs, path = storage.filesystem(self.uri)
        with storage.explained(self.uri, "write to"):
            if not fs.exists(path):
                return
            if not fs.isdir(path):
                raise OutputError(f"{self.uri} is a file; the output of a run is a folder. Choose another output.")
            found = fs.ls(path, detail=False)
        names = (str(one).rstrip("/").rsplit("/", 1)[-1] for one in found)
        name = next((name for name in names if not is_claim(name)), None)
        if name is not None:
            raise OutputError(
                f"{self.uri} holds other files ({name!r}) and no run. Choose another output, or an empty folder."
            )

    def discard(self) -> None:
        """Remove what a run has written, and the folder where nothing else is in it."""
        storage.remove_children(self.uri, [*CONTENTS, *self._partials()])

    @property
    def has_checkpoints(self) -> bool:
        """Whether something of an unfinished stage is kept."""
        return any(name.endswith(".npz") for name, *_ in storage.list_objects(self.path("scratch")))

    @property
    def has_results(self) -> bool:
        """Whether there is what the same run goes on from: a choice, statistics, splits, or parts of a stage."""
        done = any(self.record(stage) is not None for stage in ("choose", "reduce"))
        return done or self.has_checkpoints or bool(storage.names_in(self.path("splits")))

    def header(self) -> dict[str, Any]:
        """Return ``run.json``.

        Raises
        ------
        InputError
            Where there is no run.
        """
        if not self.exists:
            raise InputError(f"There is no run in {self.uri}: it holds no run.json.")
        return storage.read_json(self.path("run.json"))

    @property
    def purpose(self) -> Purpose:
        """What the folder holds."""
        return self.header().get("purpose", "run")

    @property
    def config(self) -> RunConfig:
        """The configuration that the run was made with."""
        return stored_config(self.header()["config"], self.path("run.json"))

    def record(self, stage: str) -> dict[str, Any] | None:
        """Return what a finished stage left, or None."""
        path = self.path("records", f"{stage}.json")
        return storage.read_json(path) if storage.exists(path) else None

    def finish(self, stage: str, key: str, manifest: dict[str, Any]) -> None:
        """Record that a stage is done; a record whose results are gone is replaced."""
        place, record = self.path("records", f"{stage}.json"), storage.as_json({"key": key, **manifest})
        if not creating.create_bytes(place, record):
            storage.write_bytes(place, record)


def is_claim(name: str) -> bool:
    """Tell whether a file is what a process leaves that dies as it claims a folder: a lease, or a part of a claim."""
    return name.startswith(PREFIX) or storage.is_partial(name, PREFIX) or storage.is_partial(name, "run.json.")


def _difference(stored: dict[str, Any], config: RunConfig, fingerprint: str, purpose: Purpose) -> str:
    if stored.get("purpose", "run") != purpose:
        return "it is no evaluation" if purpose == "evaluation" else "it is an evaluation"
    before = stored_config(stored["config"], "the stored configuration").settings(purpose)
    now = config.settings(purpose)
    name = next((name for name in now if before[name] != now[name]), None)
    if name is None:
        return f"its {'input has' if stored['fingerprint'] != fingerprint else 'parts have'} changed since"
    old, new = before[name], now[name]
    if name in SECTIONS:
        key = next(key for key in new if old[key] != new[key])
        name, old, new = f"{name}.{key}", old[key], new[key]
    return f"its {name} is {old!r}, here it is {new!r}"
