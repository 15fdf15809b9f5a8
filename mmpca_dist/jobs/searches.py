"""The searches of a run, one for all methods with the same options, and what they proved in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dask.utils import format_bytes

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.models import LEADING
from mmpca_dist.jobs.object_records import objects_in
from mmpca_dist.jobs.records import COUNT, SOLVE, ModelRecord, Results, SearchRecord, StageName
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


ARBITRARY = 45
"""Degrees between subspaces beyond which their last directions are called arbitrary."""


def search_lines(config: RunConfig, results: Results) -> list[str]:
    """Return a line on each search of a run."""
    return [one.line() for one in _summaries(config, results)]


def search_notes(config: RunConfig, results: Results) -> list[str]:
    """Return what a reader of components must know of the searches behind them."""
    return [note for one in _summaries(config, results) for note in one.notes()]


def search_rows(config: RunConfig, results: Results) -> list[tuple[str, str, str]]:
    """Return the certificates of the searches as (what, found, what that means); empty where there was none."""
    found = []
    for one in _summaries(config, results):
        prefix = "" if one.search.alone else f"{one.search.method.title}: "
        found += [(prefix + what, value, meaning) for what, value, meaning in one.rows()]
    return found


def _summaries(config: RunConfig, results: Results) -> list[_Summary]:
    return [_Summary(one, results) for one in searches_of(config) if one.stage in results]


@dataclass(frozen=True)
class _Summary:
    """What is told of a search that is done."""

    search: RunSearch
    results: Results

    @property
    def title(self) -> str:
        """The method that it is for."""
        return self.search.method.title

    @property
    def record(self) -> SearchRecord:
        return self.results.of(self.search.stage)

    @property
    def found(self) -> dict[str, Any]:
        """What is proved and measured."""
        return self.record["certificate"]

    @property
    def n_rows(self) -> int:
        return self.results.of(COUNT)["n_rows"]

    @property
    def model(self) -> ModelRecord | None:
        """The record of the method's model, where it is solved."""
        solved = self.results.find(SOLVE)
        return None if solved is None else solved["models"].get(self.search.method.label)

    @property
    def queries(self) -> str:
        searched = self.found["queries"]
        return f"{searched:,}" if searched >= self.n_rows else f"{searched:,} of {self.n_rows:,}"

    @property
    def sampling_error(self) -> dict[str, Any] | None:
        """The standard errors of a search for some rows only."""
        certificate = None if self.model is None else self.model["certificate"]
        return None if certificate is None or self.found["queries"] >= self.n_rows else certificate["sampling_error"]

    @property
    def recall_angle(self) -> float:
        """How many degrees the rows that an approximate search missed may turn the components."""
        certificate = self.model and self.model["certificate"]
        assert certificate is not None  # noqa: S101  (those who ask look at solved runs)
        return certificate["recall_angle"]

    def line(self) -> str:
        found, error = self.found, self.sampling_error
        recall = "" if found["recall"] is None else f"recall {_recall(found['recall'])}, "
        proved = f"{recall}{_share(found['proved_exact'])} of them proved exact"
        name = "search" if self.search.alone else f"search of {self.search.method.label}"
        line = f"{name}: {self.queries} rows, {proved}; {found['refined_per_query']:,.0f} candidates refined a query"
        return line + ("" if error is None else f"; components {_off(error['angle'], 'all rows')}")

    def notes(self) -> list[str]:
        notes, found, error = [], self.found, self.sampling_error
        if found["recall"] is not None:
            notes.append(
                f"{self.title} comes from an approximate search: {_recall(found['recall'])} of the rows it takes for "
                f"nearest are as near as the nearest, and its components {_off(self.recall_angle, 'an exact search')}."
            )
        if error is not None:
            notes.append(
                f"{self.title} comes from a search for {self.queries} rows: the standard errors of its leading "
                f"eigenvalues are {self._relative_errors(error)}, and its components "
                f"{_off(error['angle'], 'all rows')}."
            )
        return notes

    def rows(self) -> list[tuple[str, str, str]]:
        found = self.found
        first, second = found["coordinates"]
        levels = f"{first}" + (f", then {second}" if second else "")
        rows = [
            ("rows searched for", self.queries, "rows whose nearest row of another class was sought"),
            (
                "proved exact",
                _share(found["proved_exact"]),
                "share of them for which everything that was left out is proved to be farther away",
            ),
            _recall_row(found),
            (
                "candidates compared",
                f"{found['compared_per_query']:,.0f} a row, of {self.n_rows:,}",
                "rows of other classes (or of cells with such) met in matrix products, in a few coordinates",
            ),
            (
                "candidates refined",
                f"{found['refined_per_query']:,.1f} a row",
                "those that might have been nearer, whose distance in all columns was computed",
            ),
            (
                "cells",
                f"{found['cells']:,}",
                "groups of rows that lie near to one another; far ones are left out as a whole",
            ),
            (
                "coordinates",
                f"{levels}, of {self.results.of(COUNT)['n_features']:,} columns",
                "numbers by which rows are compared first: principal axes, and the length of what they miss",
            ),
            ("bytes read", format_bytes(found["bytes_read"]), "of rows laid out by cell, all tasks together"),
            (
                "scratch",
                format_bytes(found["scratch_bytes"]) + (", in memory" if self.record["in_memory"] else ", on disk"),
                "rows laid out by cell, there twice while they were sorted; gone after the search",
            ),
        ]
        if found["recall"] is not None:
            rows.append(
                (
                    "what was missed",
                    f"{self.recall_angle:.2g} degrees",
                    f"angle between the space of the components of {self.title} and that of an exact search, estimated "
                    "to first order from the rows that the recall's sample missed; rather too large than too small",
                )
            )
        return rows + self._sampling_rows()

    def _sampling_rows(self) -> list[tuple[str, str, str]]:
        error = self.sampling_error
        if error is None:
            return []
        return [
            (
                "uncertainty of eigenvalues",
                self._relative_errors(error),
                f"standard errors of the {min(LEADING, len(error['eigenvalues']))} leading eigenvalues of "
                f"{self.title}, for having searched for some rows only",
            ),
            (
                "uncertainty of components",
                f"{error['angle']:.2g} degrees",
                f"largest angle between the space of the components of {self.title} and that from all rows, root mean "
                f"square to first order; from {ARBITRARY} on the last components are arbitrary: take fewer, or search "
                "for more rows",
            ),
        ]

    def _relative_errors(self, error: dict[str, Any]) -> str:
        assert self.model is not None  # noqa: S101  (there are errors where there is a model)
        values = self.model["leading"]
        shares = [e / v for e, v in zip(error["eigenvalues"][:LEADING], values, strict=False) if v and v > 0]
        return ", ".join(f"{100 * share:.2g}%" for share in shares) or "unknown"


def _recall_row(found: dict[str, Any]) -> tuple[str, str, str]:
    recall = found["recall"]
    if recall is None and found["proved_exact"] < 1:
        return "recall", "not measured", "share of rows found that are as near as the nearest"
    if recall is None:
        return "recall", "100%", "share of rows found that are as near as the nearest: it follows from the proof"
    meaning = (
        f"share of rows found that are as near as the nearest, with its 95% confidence interval, measured on "
        f"{recall['sampled']:,} that were searched for exactly as well"
    )
    return "recall", _recall(recall), meaning


def _off(angle: float, exact: str) -> str:
    """Return how far components are from those of ``exact``, as the end of a sentence about them."""
    if angle >= ARBITRARY:
        return f"may differ from those of {exact} altogether from some number on: take fewer, or look further"
    return f"are about {angle:.2g} degrees off those of {exact}"


def _share(share: float) -> str:
    """Return a percentage that says 100% only where it is."""
    text = f"{100 * share:.2f}".rstrip("0").rstrip(".")
    return ("99.99" if text == "100" and share < 1 else text) + "%"


def _recall(recall: dict[str, Any]) -> str:
    return f"{recall['share']:.1%} ({recall['low']:.1%} to {recall['high']:.1%})"
