"""The searches of a run: one for all methods with the same options."""

from __future__ import annotations

from dataclasses import dataclass

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.object_records import objects_in
from mmpca_dist.jobs.records import Results, SearchRecord, StageName
from mmpca_dist.jobs.stored_arrays import load_pairs
from mmpca_dist.neighbors.options import PairSearch
from mmpca_dist.statistics.pair_scatter import PairScatter

FIRST = StageName[SearchRecord]("search")
"""The stage of a run's first search."""


@dataclass(frozen=True)
class RunSearch:
    """A search of a run.

    Attributes
    ----------
    need : PairSearch
        How to search.
    method : MethodSection
        The first method that needs it.
    number : int
        Among the searches of the run, from 1.
    alone : bool
        Whether it is the only one.
    """

    need: PairSearch
    method: MethodSection
    number: int
    alone: bool

    @property
    def stage(self) -> StageName[SearchRecord]:
        """The name of its stage."""
        return FIRST if self.number == 1 else StageName(f"{FIRST}-{self.number}")

    @property
    def pairs(self) -> str:
        """Where, within the run's folder, the scatter of its pairs is."""
        return "pairs.zarr" if self.number == 1 else f"pairs/{self.number}.zarr"

    def load_pairs(self, run: RunDirectory, results: Results) -> PairScatter:
        """Read the scatter of its pairs."""
        record = results.of(self.stage)
        return load_pairs(run.path(self.pairs), record["certificate"], objects_in(record, self.pairs))


def is_search(stage: str) -> bool:
    """Tell whether a stage is a search."""
    return stage == FIRST or stage.startswith(f"{FIRST}-")


def searches_of(config: RunConfig) -> list[RunSearch]:
    """Return the searches of a run, in the order of its methods."""
    users: dict[PairSearch, MethodSection] = {}
    for method in config.methods:
        for need in method.needs.searches:
            users.setdefault(need, method)
    return [RunSearch(need, method, i, len(users) == 1) for i, (need, method) in enumerate(users.items(), 1)]
