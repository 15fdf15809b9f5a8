"""Certificates of the searches and solvers of a run: lines, tables and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import plural
from mmpca_dist.jobs.finished_runs import LEADING
from mmpca_dist.jobs.records import COUNT, ERASURE, SOLVE, Results, SearchRecord, StageName
from mmpca_dist.jobs.run_needs import SEARCH, SharedPass, run_needs
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.results.forms import written
from mmpca_dist.statistics.class_weights import ClassWeight, class_factors

ARBITRARY = 45
"""Degrees between subspaces beyond which their last directions are called arbitrary."""
Row = tuple[str, str, str]


def summaries(config: RunConfig, results: Results) -> list[SearchSummary]:
    """Return what is reported of each search that is done."""
    searches = [search for search in run_needs(config, SEARCH) if search.stage in results]
    return [SearchSummary(search, results, config.class_weight) for search in searches]


def search_rows(config: RunConfig, results: Results) -> list[Row]:
    """Return the certificates of the searches as (what, value, meaning); empty where there was none."""
    return [row for summary in summaries(config, results) for row in summary.rows()]


class SearchSummary:
    """The report on a search that is done; on its effect on components where its method is solved."""

    def __init__(self, search: SharedPass, results: Results, class_weight: ClassWeight) -> None:
        record, count = results.of(StageName[SearchRecord](search.stage)), results.of(COUNT)
        solved = results.find(SOLVE)
        model = solved["models"].get(search.method.label) if solved else None
        of_model = (model and model["certificate"]) or {}
        self.search, self.title, self.certificate = search, search.method.title, record["certificate"]
        self.n_rows = count["n_rows"]
        if class_weight is not None:
            sizes: NDArray = np.asarray(count["counts"])
            counting = class_factors(class_weight, np.asarray(count["classes"]), sizes) > 0
            self.n_rows = int(sizes[counting].sum())
        queries, recall = self.certificate["queries"], self.certificate["recall"]
        self.queries = f"{queries:,}" if queries >= self.n_rows else f"{queries:,} of {self.n_rows:,}"
        self.proved = written("proved", self.certificate["proved_exact"])
        self.recall = recall and "{} ({} to {})".format(
            *(written("share", recall[one]) for one in ("share", "low", "high"))
        )
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
            ("bytes read", written("bytes", certificate["bytes_read"]), "of rows laid out by cell, all tasks together"),
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
                written("angle", self.recall_angle),
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
                written("angle", error["angle"]),
                f"largest angle between the space of the components of {self.title} and that from all rows, root mean "
                f"square to first order; from {ARBITRARY} on the last components are arbitrary: take fewer, or search "
                "for more rows",
            )


def _off(angle: float, exact: str) -> str:
    """Return how far components are from those of ``exact``, as the end of a sentence about them."""
    if angle >= ARBITRARY:
        return f"may differ from those of {exact} altogether from some number on: take fewer, or look further"
    return f"are about {written('angle', angle)} off those of {exact}"


def erasure_rows(config: RunConfig, results: Results) -> list[Row]:
    """Return what is certified of methods that erase the classes, and of probes, as (what, value, meaning)."""
    solved, probed, rows = results.of(SOLVE), results.find(ERASURE), list[Row]()
    for label in config.erasing:
        if certificate := solved["models"][label]["certificate"]:
            value = "{after:.2g}, from {before:.2g}".format(**certificate["covariance"])
            rows.append((f"{label}: covariance with the classes", value, ABOUT_COVARIANCE.format(solved["precision"])))
        if certificate and probed:
            right, value, meaning = probed["right"].get(label), "not measured", probed["why"]
            if right:
                value, meaning = f"{right['after']:.1%} right", ABOUT_PROBE.format(**right)
            rows.append((f"{label}: probe of other rows", value, meaning))
    return rows


ABOUT_COVARIANCE = (
    "norm of the covariance of columns and indicators of classes after erasing, by the moments of the rows in {} "
    "precision; so no linear model with a convex loss does better than a constant on the rows of the run"
)
ABOUT_PROBE = (
    "rows named by a linear discriminant of {rows:,} erased rows or more that the eraser had not seen; neither saw the "
    "rows named. Before erasing {before:.1%}; always the largest class {largest:.1%}"
)
Certificate = dict[str, Any]
MORE = "Raise solver.passes, or lower solver.tolerance where passes end before, for components that are more exact."


def certificates_of(config: RunConfig, results: Results) -> dict[str, Certificate]:
    """Return, by method in the order of the configuration, what its solver in passes proved.

    It is empty where scatters were formed. Stored records name the methods in another order.
    """
    solved, certificates = results.find(SOLVE), {}
    models = solved["models"] if solved else {}
    for method in filter(models.__contains__, config.labels):
        certificate = models[method].get("certificate") or {}
        solver = certificate.get("solver")
        certificate = solver if isinstance(solver, dict) else certificate  # next to that of a search, or alone
        if certificate.get("solver"):
            certificates[method] = certificate
    return certificates


def solver_rows(config: RunConfig, results: Results) -> list[Row]:
    """Return the certificate of the solver as (method, proved, what that means)."""
    return [(title_of(method), *_row(certificate)) for method, certificate in certificates_of(config, results).items()]


def _row(certificate: Certificate) -> tuple[str, str]:
    if "exact" in certificate:
        return "exact", "class means suffice, and one pass takes them"
    if "criterion" in certificate:
        return _criterion_row(certificate)
    means = ""
    if "means" in certificate:
        means = f"{plural(certificate['means'], 'direction')} between means exact, then "
    leading, count = certificate["leading"], certificate["count"]
    share = "all" if leading == count else f"{leading} of {count}"
    meaning = (
        f"after {certificate['passes']} passes: every eigenvalue found is within its residual (at most "
        f"{certificate['residual']:.2g}) of one of the scatter's, others are at most {certificate['beyond']:.2g}, "
        f"from random probes, which fail with probability {certificate['failure']:.0e}"
    )
    return f"{means}{share} proved leading{_turned(certificate)}", meaning


def _criterion_row(certificate: Certificate) -> tuple[str, str]:
    criterion, estimate = certificate["criterion"], certificate["estimate"]
    if criterion is None:
        return "nothing proved", "bounds need shrinkage above 0, and above rounding"
    about = "" if estimate is None else (
        f"; about {written('reached', estimate)} by an estimate, as if what was not seen of the scatter within classes "
        "were spread evenly"
    )  # fmt: skip
    meaning = (
        f"of the largest sum of Fisher's criterion over so many directions (passes: {certificate['passes']}){about}; "
        "angles are in units of the scatter within classes"
    )
    return f"at least {written('reached', criterion)} of the criterion{_turned(certificate)}", meaning


def _turned(certificate: Certificate) -> str:
    return "" if certificate["angle"] is None else f", at most {written('angle', certificate['angle'])} off"


def solver_notes(config: RunConfig, results: Results) -> list[str]:
    """Return what a reader must know of components that are not yet exact."""
    proved = certificates_of(config, results).items()
    notes = ((title_of(method), _note(certificate, config.solver.tolerance)) for method, certificate in proved)
    return [f"{title}{note}" for title, note in notes if note]


def _note(certificate: Certificate, tolerance: float) -> str:
    if "exact" in certificate:
        return ""
    if "criterion" in certificate:
        return _criterion_note(certificate, tolerance)
    what = "directions of scatter within classes" if "means" in certificate else "components"
    relative = np.asarray(certificate["relative"])
    n_beyond = int(np.sum(relative > tolerance))
    if not n_beyond:
        return ""
    return (
        f": {n_beyond} of {certificate['count']} {what} have residuals beyond {tolerance:.2g} of their eigenvalue, at "
        f"most {relative.max():.2g} of it (number {relative.argmax() + 1}). {MORE}"
    )


def _criterion_note(certificate: Certificate, tolerance: float) -> str:
    criterion, estimate = certificate["criterion"], certificate["estimate"]
    if not certificate["count"]:
        return ""
    if criterion is None:
        return ": nothing is proved of components from passes without shrinkage. Set shrinkage above 0."
    if 1 - criterion <= tolerance:
        return ""
    about = "" if estimate is None else f" (about {written('reached', estimate)} by an estimate)"
    share = written("reached", criterion)
    return f": components are proved to reach {share}{about} of the criterion that is possible. {MORE}"
