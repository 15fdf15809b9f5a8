"""Notes on the results of a run, and what its searches proved: the same in report, terminal and `mmpca show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from dask.utils import format_bytes
from numpy.typing import NDArray

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.finished_runs import LEADING
from mmpca_dist.jobs.records import COUNT, SOLVE, Results, SearchRecord, StageName
from mmpca_dist.jobs.run_needs import SEARCH, SharedPass, run_needs
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.statistics.class_weights import ClassWeight, class_factors
from mmpca_dist.statistics.telling_columns import MAX_TELLING, TELLING, telling_note
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.column_scatter import dominance_note, dominant_columns, percent
from mmpca_dist.tables.dataset import Dataset

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


Certificate = dict[str, Any]
MORE = "Raise solver.passes, or lower solver.tolerance where passes end before, for components that are more exact."
MAX_LISTED = 6
SMALL, ENOUGH, DEVIATIONS = 0.05, 5, 3
"""Share of the scatter between the classes, beyond chance, that is small; rows for each class and column, and
deviations from chance, to say so."""
BASIS_ROWS = 4096
MAX_OPERATIONS = 1e10
"""Shares of columns are not worth more than about a second."""


def plural(number: int, what: str) -> str:
    """Return "1 component", "2 components"."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def method_notes(section: MethodSection, reducer: MomentReducer, asked: int, precision: str) -> list[str]:
    """Return what must be known of the components of a method: too few, not told apart, or not reliable."""
    method, title, notes = section.method, section.title, []
    eigenvalues, relative_errors = reducer.eigenvalues_, reducer.relative_errors_
    fitted = reducer.fitted()
    if fitted.used < asked and method.reduces:
        notes.append(
            f"{title} has {plural(fitted.used, 'component')} where {asked} were asked for: its limit is "
            f"{reducer.limit_reason_}."
        )
    alike = arbitrary(eigenvalues, reducer.residuals_, relative_errors, method.ordered, method.orthonormal)
    numbers = [str(index + 1) for index in np.flatnonzero(alike)]
    if numbers:
        more = f" and {len(numbers) - MAX_LISTED} more" if len(numbers) > MAX_LISTED else ""
        notes.append(
            f"Eigenvalues of {title} are not told apart at component {', '.join(numbers[:MAX_LISTED])}{more}: "
            "directions within the space of such neighbours are arbitrary."
        )
    if n_imprecise := int(reducer.imprecise_.sum()):
        remedy = " Set precision: double." if precision == "single" else ""
        notes.append(
            f"{plural(n_imprecise, 'component')} of {title} within a hundredfold of the rounding floor of "
            f"{precision} precision: not reliable.{remedy}"
        )
    told = [*fitted.unconverged, *fitted.remarks, *fitted.edges, *fitted.cautions]
    return notes + [f"{title}: {sentence}" for sentence in told]


def arbitrary(
    eigenvalues: NDArray, residuals: NDArray, relative_errors: NDArray, ordered: bool, orthonormal: bool
) -> NDArray[np.bool_]:
    """Return which components have an eigenvalue that is not told apart from its neighbour's, shape (K,).

    Residuals tell where components are orthonormal; those of others may be loose bounds, and rounding alone counts.
    """
    values = np.asarray(eigenvalues, np.float64)
    alike = np.zeros(len(values), bool)
    if not ordered or len(values) < 2:
        return alike
    errors = np.asarray(relative_errors) * values
    if orthonormal:
        errors = np.fmax(np.nan_to_num(residuals), errors)
    with np.errstate(invalid="ignore"):  # values may have overflowed
        close = values[:-1] - values[1:] <= errors[:-1] + errors[1:]
    alike[:-1] |= close
    alike[1:] |= close
    return alike


def shared_notes(config: RunConfig, results: Results) -> list[str]:
    """Return what must be known of all methods together, from the records of the stages."""
    count, solved = results.of(COUNT), results.of(SOLVE)
    heavy = dominance_note(solved["dominant_columns"], count["feature_names"], count["n_features"])
    of_searches = (note for search in summaries(config, results) for note in search.notes())
    notes = [*of_searches, *solver_notes(config, results)]
    return [heavy, *notes] if heavy else notes


def note_ahead(config: RunConfig, dataset: Dataset) -> str:
    """Return what the data set itself tells, before any pass: `mmpca ingest` notes columns that hold nearly all."""
    if not goes_by_scatter(config):
        return ""
    return dominance_note(dataset.stored.dominant_columns, dataset.feature_names, dataset.n_features) or ""


def goes_by_scatter(config: RunConfig) -> bool:
    """Tell whether any components depend on the units of the columns."""
    return not config.standardizes and not all(section.method.scale_free for section in config.methods)


def leakage_note(statistics: Statistics, names: list[str] | None, before: Sequence[str] = ()) -> list[str]:
    """Return notes on the columns that nearly tell the classes apart alone, but those that notes ``before`` name."""
    moments = statistics.moments
    if not statistics.knows_columns or moments.targets is not None or moments.counts.sum() < 10 * len(moments.counts):
        return []
    within = statistics.column_squares(np.ones(len(moments.counts)))
    between = moments.counts @ statistics.column_deviations() ** 2
    shares = between / np.where(within + between > 0, within + between, 1)
    telling = [j for j in np.argsort(-shares, kind="stable")[:MAX_TELLING].tolist() if shares[j] > TELLING]
    shown = {j: repr(names[j]) if names else f"Column {j}" for j in telling}
    columns = {j: shown[j].partition("=")[0].strip("'") for j in telling}
    return [
        telling_note(shown[j], f"{percent(shares[j])} of its variance lies between them")
        for j in telling
        if not any(note.startswith(f"{columns[j]!r} nearly tells") for note in before)
    ]


def small_share_note(statistics: Statistics) -> list[str]:
    """Return a note where class means differ by a small share of the scatter, and rows suffice for another measure."""
    moments = statistics.moments
    n_classes, n = int(np.count_nonzero(moments.counts)), moments.n_rows
    if moments.targets is not None or n < ENOUGH * (n_classes + statistics.n_features):
        return []
    between, chance = float(moments.counts @ np.sum(moments.deviations**2, axis=1)), (n_classes - 1) / (n - 1)
    share = between / max(between + statistics.within_trace(), np.finfo(float).tiny)
    # Of classes that are drawn at random, the share differs so much from chance, where columns vary alike.
    deviation = chance * np.sqrt(2 / (max(n_classes - 1, 1) * statistics.n_features))
    if not chance + DEVIATIONS * deviation < share < chance + SMALL:
        return []
    return [
        f"The classes lie within a small share of the scatter: their means differ by {share:.1%} of it, where "
        f"chance makes {chance:.1%}. Components that keep scatter, such as those of pca and m-pca0, hardly see "
        "them; fisher measures them by the scatter within the classes. Compare both by an evaluation."
    ]


def dominant_columns_of(config: RunConfig, statistics: Statistics) -> list[tuple[int, float]]:
    """Return the few columns that hold nearly all of the scatter, where methods go by it."""
    if not goes_by_scatter(config):
        return []
    moments, basis, approximation = statistics.moments, statistics.basis, statistics.approximation
    counts = moments.counts
    if statistics.knows_columns:
        return dominant_columns(statistics.column_totals())
    if basis is None or basis.shape[0] * float(basis.shape[1]) ** 2 > MAX_OPERATIONS:
        return []
    weights = moments.weights
    if approximation is not None and (weights is None or not len(weights) or not np.all(weights == 1)):
        return []  # of M-PCA0 alone, or of class means alone
    between = (moments.deviations.T * counts) @ moments.deviations
    scatter = moments.scatter(np.ones(len(counts))) + between
    # A solver in passes has seen a part of the scatter: at least so much of it lies in each column.
    blocks = np.array_split(basis, -(-len(basis) // BASIS_ROWS))
    squares = np.concatenate([np.einsum("ij,ij->i", block @ scatter, block) for block in blocks])
    return dominant_columns(squares, None if approximation is None else approximation.trace + float(np.trace(between)))


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
        f"; about {_floored(estimate)} by an estimate, as if what was not seen of the scatter within classes were "
        "spread evenly"
    )  # fmt: skip
    meaning = (
        f"of the largest sum of Fisher's criterion over so many directions (passes: {certificate['passes']}){about}; "
        "angles are in units of the scatter within classes"
    )
    return f"at least {_floored(criterion)} of the criterion{_turned(certificate)}", meaning


def _turned(certificate: Certificate) -> str:
    return "" if certificate["angle"] is None else f", at most {certificate['angle']:.2g} degrees off"


def _floored(share: float) -> str:
    """Return a percentage, never rounded up."""
    return f"{np.floor(1000 * share) / 10:.3g}%"


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
    about = "" if estimate is None else f" (about {_floored(estimate)} by an estimate)"
    return f": components are proved to reach {_floored(criterion)}{about} of the criterion that is possible. {MORE}"
