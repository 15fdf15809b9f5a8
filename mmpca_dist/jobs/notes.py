"""Notes on the results of a run: the same sentences in report, terminal and `mmpca show`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.datasets.column_scatter import heavy_columns, heavy_note
from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.jobs.records import COUNT, SOLVE, Results
from mmpca_dist.jobs.search_summary import search_notes
from mmpca_dist.jobs.solver_summary import counted, solver_notes
from mmpca_dist.methods.base import MomentReducer
from mmpca_dist.methods.solution import IMPRECISE
from mmpca_dist.statistics.coordinates import Statistics

MOST_LISTED = 6
BLOCK_ROWS = 4096
MOST_OPERATIONS = 1e10
"""Shares of columns are not worth more than about a second."""


def method_notes(section: MethodSection, reducer: MomentReducer, asked: int, precision: str) -> list[str]:
    """Return what must be known of the components of a method: too few, not told apart, or not reliable."""
    method, title, notes = section.method, section.title, []
    eigenvalues, relative_errors = reducer.eigenvalues_, reducer.relative_errors_
    if len(eigenvalues) < asked:
        notes.append(
            f"{title} has {counted(len(eigenvalues), 'component')} where {asked} were asked for: its limit is "
            f"{reducer.limit_}."
        )
    alike = np.flatnonzero(
        arbitrary(eigenvalues, reducer.residuals_, relative_errors, method.ordered, method.orthonormal)
    )
    if len(alike):
        notes.append(
            f"Eigenvalues of {title} are not told apart at component {_listed(alike + 1)}: directions within "
            "the space of such neighbours are arbitrary."
        )
    marked = int(np.sum(relative_errors > IMPRECISE))
    if marked:
        notes.append(
            f"{counted(marked, 'component')} of {title} within a hundredfold of the rounding floor of "
            f"{precision} precision: not reliable."
        )
    return notes + [f"{title}: {remark}" for remark in reducer._remarks()]


def shared_notes(config: RunConfig, results: Results) -> list[str]:
    """Return what must be known of all methods together, from the records of the stages."""
    count, solved = results.of(COUNT), results.of(SOLVE)
    heavy = heavy_note(solved.get("heavy_columns", []), count.get("feature_names"), count["n_features"])
    return [
        *([heavy] if heavy else []),
        *search_notes(config, results),
        *solver_notes(results, config.solver.tolerance),
    ]


def note_ahead(config: RunConfig, dataset: Dataset) -> str:
    """Return what the data set itself tells, before any pass: `mmpca ingest` notes columns that hold nearly all."""
    if not _goes_by_scatter(config):
        return ""
    return heavy_note(dataset.heavy_columns, dataset.feature_names, dataset.n_features) or ""


def _goes_by_scatter(config: RunConfig) -> bool:
    return not config.standardize and not all(one.method.scale_free for one in config.methods)


def heaviest(config: RunConfig, statistics: Statistics) -> list[tuple[int, float]]:
    """Return the few columns that hold nearly all of the scatter, where methods go by it."""
    if not _goes_by_scatter(config):
        return []
    if statistics.knows_columns:
        counts = statistics.moments.counts
        return heavy_columns(
            statistics.column_squares(np.ones(len(counts))) + counts @ statistics.column_deviations() ** 2
        )
    moments, basis, known = statistics.moments, statistics.basis, statistics.approximation
    if basis is None or basis.shape[0] * float(basis.shape[1]) ** 2 > MOST_OPERATIONS:
        return []
    if known is not None and not np.all(moments.weights == 1):  # of M-PCA0 alone, or of class means alone
        return []
    between = (moments.deviations.T * moments.counts) @ moments.deviations
    scatter = moments.scatter(np.ones(len(moments.counts))) + between
    # Of what a solver in passes has seen of the scatter: at least so much of it lies in each column.
    parts = np.array_split(basis, -(-len(basis) // BLOCK_ROWS))
    squares = np.concatenate([np.einsum("ij,ij->i", part @ scatter, part) for part in parts])
    return heavy_columns(squares, None if known is None else known.trace + float(np.trace(between)))


def arbitrary(
    eigenvalues: NDArray, residuals: NDArray, relative_errors: NDArray, ordered: bool, orthonormal: bool
) -> NDArray[np.bool_]:
    """Return which components have an eigenvalue that is not told apart from its neighbour's, shape (K,).

    Residuals tell where components are orthonormal; those of others may be loose bounds, and rounding alone counts.
    """
    values = np.asarray(eigenvalues, np.float64)
    unequal = np.zeros(len(values), bool)
    if not ordered or len(values) < 2:
        return unequal
    known = np.asarray(relative_errors) * values
    if orthonormal:
        known = np.fmax(np.nan_to_num(residuals), known)
    close = values[:-1] - values[1:] <= known[:-1] + known[1:]
    unequal[:-1] |= close
    unequal[1:] |= close
    return unequal


def _listed(numbers: NDArray[np.intp]) -> str:
    """Return "3, 4, 5 and 9 more"."""
    shown = ", ".join(str(number) for number in numbers[:MOST_LISTED])
    return shown + (f" and {len(numbers) - MOST_LISTED} more" if len(numbers) > MOST_LISTED else "")
