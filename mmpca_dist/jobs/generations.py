"""The folder of a refreshed run: one numbered folder for each generation.

A folder never changes once it is recorded. Readers of the newest models are not disturbed, and a kill at any moment
leaves what was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import OutputError
from mmpca_dist.jobs.directory import Identity, RunDirectory
from mmpca_dist.jobs.records import PUBLISH, TAKE, GenerationRecord


@dataclass(frozen=True)
class Generations:
    """A refreshed run at a path or URL; generation k holds the statistics after k data sets were taken up.

    ``records/take.json`` names the newest whose statistics are whole, ``records/refresh.json`` the newest that has
    models and a report as well, which is what readers are given.
    """

    uri: str

    @property
    def top(self) -> RunDirectory:
        """The folder itself."""
        return RunDirectory(self.uri)

    def folder(self, number: int) -> RunDirectory:
        """Return the folder of a generation."""
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
        return self.top.begin(config, Identity(origin))

    def check(self, origin: str, run: str) -> None:
        """Raise OutputError where the folder holds something else; nothing is written."""
        if self.top.exists and self.top.header()["fingerprint"] != origin:
            raise OutputError(
                f"{self.uri} already holds another run, or one refreshed from {run} before that was changed. Choose "
                "another output."
            )

    def begin_next(self, config: RunConfig, fingerprint: str) -> tuple[RunDirectory, str]:
        """Return the folder after the newest whole one, and its key; remove what an attempt with other rows left."""
        run = self.folder(self.taken + 1)
        try:
            run.check(config, Identity(fingerprint))
        except OutputError:
            run.discard()
        return run, run.begin(config, Identity(fingerprint))

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
