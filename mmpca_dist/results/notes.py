"""Notes that a reader of the results of a run needs, from statistics, fitted methods and records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import plural
from mmpca_dist.jobs.records import COUNT, SOLVE, Results
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.results.certificates import solver_notes, summaries
from mmpca_dist.statistics.telling_columns import MAX_TELLING, TELLING, telling_note
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.column_scatter import dominance_note, dominant_columns, percent
from mmpca_dist.tables.dataset import Dataset

MAX_LISTED = 6
SMALL, ENOUGH, DEVIATIONS = 0.05, 5, 3
"""Share of the scatter between the classes, beyond chance, that is small; rows for each class and column, and
deviations from chance, to say so."""
BASIS_ROWS = 4096
MAX_OPERATIONS = 1e10
"""Shares of columns are not worth more than about a second."""


def method_notes(section: MethodSection, reducer: MomentReducer, asked: float, precision: str) -> list[str]:
    """Return what must be known of the components of a method: too few, not told apart, or not reliable."""
    method, title, notes = section.method, section.title, []
    eigenvalues, relative_errors = reducer.eigenvalues_, reducer.relative_errors_
    fitted = reducer.fitted()
    short = fitted.used < asked if asked >= 1 else eigenvalues.sum() < asked * reducer.total_
    if short and method.reduces:
        what = f"{asked} were" if asked >= 1 else f"as many as hold the share {asked} were"
        notes.append(
            f"{title} has {plural(fitted.used, 'component')} where {what} asked for: its limit is "
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
    errors = np.asarray(relative_errors) * np.abs(values)
    if orthonormal:
        errors = np.fmax(np.nan_to_num(residuals), errors)
    with np.errstate(invalid="ignore"):  # values may have overflowed
        close = np.abs(values[:-1] - values[1:]) <= errors[:-1] + errors[1:]
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
