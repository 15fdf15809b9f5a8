"""Passes that some methods of a run need beyond the statistics of the classes: searches, and fits by sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.records import PassesRecord, Results, StageName
from mmpca_dist.jobs.stored_arrays import load_value, save_value
from mmpca_dist.neighbors.options import Search
from mmpca_dist.passes.sweeps import SweptNeed

SEARCH, SWEEP = "search", "sweep"
"""The kinds of such needs, and the names of the first stage of each kind."""


@dataclass(frozen=True)
class SharedPass:
    """A need that a stage of its own serves, once for all methods with the same options."""

    need: Search | SweptNeed
    method: MethodSection
    """The first method that has it."""
    number: int
    """From 1, among those of its kind."""
    alone: bool
    """Whether there is no other of its kind."""

    @property
    def kind(self) -> str:
        return SEARCH if isinstance(self.need, Search) else SWEEP

    @property
    def stage(self) -> StageName[PassesRecord]:
        return StageName(self.kind if self.number == 1 else f"{self.kind}-{self.number}")

    @property
    def path(self) -> str:
        return f"{'pairs' if self.kind == SEARCH else 'fits'}/{self.number}.npz"

    def save(self, run: RunDirectory, result: Any) -> None:
        save_value(run, self.path, result)

    def load(self, run: RunDirectory, results: Results) -> Any:
        """Read its result; raise DamageError where that is not what was written."""
        return load_value(run, results.of(self.stage), self.path)


def kind_of(stage: str) -> str:
    """Return the name of a stage without its number: ``search`` or ``sweep`` for those of needs."""
    return stage.partition("-")[0]


def run_needs(config: RunConfig, kind: str) -> list[SharedPass]:
    """Return the needs of a kind, in the order of the methods."""
    users: dict[Search | SweptNeed, MethodSection] = {}
    for method in config.methods:
        for need in method.needs.searches if kind == SEARCH else method.needs.swept:
            users.setdefault(need, method)
    return [SharedPass(need, method, i, len(users) == 1) for i, (need, method) in enumerate(users.items(), 1)]
