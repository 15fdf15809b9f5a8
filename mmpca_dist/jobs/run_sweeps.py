"""The fits by sweeps of a run, one for all methods with the same options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.object_records import AGAIN, read_recorded
from mmpca_dist.jobs.records import PassesRecord, Results, StageName
from mmpca_dist.passes.serialization import decode, encode
from mmpca_dist.passes.sweeps import SweptNeed
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own

FIRST = StageName[PassesRecord]("sweep")
"""The stage of a run's first fit by sweeps."""


@dataclass(frozen=True)
class RunSweep:
    """A fit by sweeps of a run: the need, its first method, and its number from 1."""

    need: SweptNeed
    method: MethodSection
    number: int

    @property
    def stage(self) -> StageName[PassesRecord]:
        return FIRST if self.number == 1 else StageName(f"{FIRST}-{self.number}")

    @property
    def path(self) -> str:
        """Where the fit is kept, in the run's folder."""
        return f"fits/{self.number}.npz"

    def save(self, run: RunDirectory, fit: Any) -> None:
        """Store a fit."""
        storage.write_bytes(run.path(self.path), encode(fit))

    def load(self, run: RunDirectory, results: Results) -> Any:
        """Read the fit; raise DamageError where it is not what was written."""
        data = read_recorded(run.uri, results.of(self.stage), self.path)
        with reading_own(run.path(self.path), AGAIN):
            return decode(data)


def is_sweep(stage: str) -> bool:
    """Tell whether a stage is a fit by sweeps."""
    return stage == FIRST or stage.startswith(f"{FIRST}-")


def sweeps_of(config: RunConfig) -> list[RunSweep]:
    """Return the fits by sweeps of a run, in the order of its methods."""
    users: dict[SweptNeed, MethodSection] = {}
    for method in config.methods:
        for need in method.needs.swept:
            users.setdefault(need, method)
    return [RunSweep(need, method, i) for i, (need, method) in enumerate(users.items(), 1)]
