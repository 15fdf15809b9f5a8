"""What the searches of a run proved, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from dask.utils import format_bytes

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.finished_runs import LEADING
from mmpca_dist.jobs.records import COUNT, SOLVE, Results, SearchRecord, StageName
from mmpca_dist.jobs.run_needs import SEARCH, RunNeed, run_needs

ARBITRARY = 45
"""Degrees between subspaces beyond which their last directions are called arbitrary."""
Row = tuple[str, str, str]


def summaries(config: RunConfig, results: Results) -> list[SearchSummary]:
    """Return what is reported of each search that is done."""
    return [SearchSummary(search, results) for search in run_needs(config, SEARCH) if search.stage in results]


def search_rows(config: RunConfig, results: Results) -> list[Row]:
    """Return the certificates of the searches as (what, value, meaning); empty where there was none."""
    return [row for summary in summaries(config, results) for row in summary.rows()]


class SearchSummary:
    """What is reported of a search that is done; of its effect on components where its method is solved."""

    def __init__(self, search: RunNeed, results: Results) -> None:
        record, count = results.of(StageName[SearchRecord](search.stage)), results.of(COUNT)
        solved = results.find(SOLVE)
        model = solved["models"].get(search.method.label) if solved else None
        of_model = (model and model["certificate"]) or {}
        self.search, self.title, self.certificate = search, search.method.title, record["certificate"]
        self.n_rows = count["n_rows"]
        queries, recall = self.certificate["queries"], self.certificate["recall"]
        self.queries = f"{queries:,}" if queries >= self.n_rows else f"{queries:,} of {self.n_rows:,}"
        self.proved = _percent(self.certificate["proved_exact"])
        self.recall = recall and f"{recall['share']:.1%} ({recall['low']:.1%} to {recall['high']:.1%})"
        self.recall_angle = of_model.get("recall_angle", np.nan)
        self.sampling_error: dict[str, Any] | None = of_model.get("sampling_error") if queries < self.n_rows else None
        if self.sampling_error and model:
            errors = zip(self.sampling_error["eigenvalues"][:LEADING], model["leading"], strict=False)
            shares = [f"{100 * error / value:.2g}%" for error, value in errors if value and value > 0]
            self.relative_errors = ", ".join(shares) or "unknown"

    def line(self) -> str:
        name = "search" if self.search.alone else f"search of {self.search.method.label}"
        recall = f"recall {self.recall}, " if self.recall else ""
        refined = f"{self.certificate['refined_per_query']:,.0f} candidates refined a query"
        error = f"; components {_off(self.sampling_error['angle'], 'all rows')}" if self.sampling_error else ""
        return f"{name}: {self.queries} rows, {recall}{self.proved} of them proved exact; {refined}{error}"

    def notes(self) -> list[str]:
        """Return what a reader of components must know of the search behind them."""
        notes = []
        if self.recall:
            notes.append(
                f"{self.title} comes from an approximate search: {self.recall} of the rows it takes for nearest are as "
                f"near as the nearest, and its components {_off(self.recall_angle, 'an exact search')}."
            )
        if self.sampling_error:
            notes.append(
                f"{self.title} comes from a search for {self.queries} rows: the standard errors of its leading "
                f"eigenvalues are {self.relative_errors}, and its components "
                f"{_off(self.sampling_error['angle'], 'all rows')}."
            )
        return notes

    def rows(self) -> list[Row]:
        certificate, prefix = self.certificate, "" if self.search.alone else f"{self.title}: "
        rows = [
            ("rows searched for", self.queries, "rows whose nearest row of another class was sought"),
            ("proved exact", self.proved, "share of them for which every row left out is proved to be farther away"),
            ("recall", *self._recall_cells()),
            (
                "candidates compared",
                f"{certificate['compared_per_query']:,.0f} a row, of {self.n_rows:,}",
                "rows of other classes (or of cells with such) met in matrix products, in a few coordinates",
            ),
            (
                "candidates refined",
                f"{certificate['refined_per_query']:,.1f} a row",
                "those that might have been nearer, whose distance in all columns was computed",
            ),
            ("bytes read", format_bytes(certificate["bytes_read"]), "of rows laid out by cell, all tasks together"),
            *self._uncertainty_rows(),
        ]
        return [(prefix + what, value, meaning) for what, value, meaning in rows]

    def _recall_cells(self) -> tuple[str, str]:
        meaning = "share of rows found that are as near as the nearest"
        if self.recall:
            sampled = f"{self.certificate['recall']['sampled']:,} that were searched for exactly as well"
            return self.recall, f"{meaning}, with its 95% confidence interval, measured on {sampled}"
        if self.certificate["proved_exact"] < 1:
            return "not measured", meaning
        return "100%", f"{meaning}: it follows from the proof"

    def _uncertainty_rows(self) -> Iterator[Row]:
        if self.recall:
            yield (
                "what was missed",
                f"{self.recall_angle:.2g} degrees",
                f"angle between the space of the components of {self.title} and that of an exact search, estimated "
                "to first order from the rows that the recall's sample missed; rather too large than too small",
            )
        error = self.sampling_error
        if error:
            yield (
                "uncertainty of eigenvalues",
                self.relative_errors,
                f"standard errors of the {min(LEADING, len(error['eigenvalues']))} leading eigenvalues of "
                f"{self.title}, for having searched for some rows only",
            )
            yield (
                "uncertainty of components",
                f"{error['angle']:.2g} degrees",
                f"largest angle between the space of the components of {self.title} and that from all rows, root mean "
                f"square to first order; from {ARBITRARY} on the last components are arbitrary: take fewer, or search "
                "for more rows",
            )


def _off(angle: float, exact: str) -> str:
    """Return how far components are from those of ``exact``, as the end of a sentence about them."""
    if angle >= ARBITRARY:
        return f"may differ from those of {exact} altogether from some number on: take fewer, or look further"
    return f"are about {angle:.2g} degrees off those of {exact}"


def _percent(share: float) -> str:
    """Return a percentage that says 100% only where it is."""
    text = f"{100 * share:.2f}".rstrip("0").rstrip(".")
    return ("99.99" if text == "100" and share < 1 else text) + "%"
