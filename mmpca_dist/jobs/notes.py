"""Notes on the results of a run: the same sentences in report, terminal and `mmpca show`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.datasets.column_scatter import heavy_columns, heavy_note
from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.jobs.records import COUNT, SOLVE, Results
from mmpca_dist.jobs.searches import search_notes
from mmpca_dist.methods.base import MomentReducer
from mmpca_dist.methods.registry import title_of
from mmpca_dist.methods.solution import IMPRECISE
from mmpca_dist.solvers.block_solver import makes_one_pass
from mmpca_dist.statistics.coordinates import Statistics

Certificate = dict[str, Any]
MORE = "Raise solver.passes, or lower solver.tolerance where passes end before, for components that are more exact."


def counted(number: int, what: str) -> str:
    """Return "1 component", "2 components"."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def proved_of(results: Results) -> dict[str, dict[str, Any]]:
    """Return, by method, what its solver in passes proved; empty where scatters were formed."""
    solved, proved = results.find(SOLVE), {}
    for method, model in {} if solved is None else solved["models"].items():
        certificate = model.get("certificate") or {}
        solver = certificate.get("solver")
        certificate = solver if isinstance(solver, dict) else certificate  # beside that of a search, or alone
        if certificate.get("solver"):
            proved[method] = certificate
    return proved


def solver_rows(results: Results) -> list[tuple[str, str, str]]:
    """Return the certificate of the solver as (method, proved, what that means)."""
    return [(title_of(method), *_row(known)) for method, known in proved_of(results).items()]


def _row(known: Certificate) -> tuple[str, str]:
    if "exact" in known:
        return "exact", "class means suffice, and one pass takes them"
    if "criterion" in known:
        return _criterion_row(known)
    means = f"{counted(known['means'], 'direction')} between means exact, then " if "means" in known else ""
    if "error" in known:
        meaning = "single pass: no residuals; every eigenvalue is within this of one of the scatter's, by probes"
        return f"{means}eigenvalues within {known['error']:.2g}", meaning
    leading, count = known["leading"], known["count"]
    share = "all" if leading == count else f"{leading} of {count}"
    meaning = (
        f"after {known['passes']} passes: every eigenvalue found is within its residual (at most "
        f"{known['residual']:.2g}) of one of the scatter's, others are at most {known['beyond']:.2g}, "
        f"from random probes, which fail with probability {known['failure']:.0e}"
    )
    return f"{means}{share} proved leading{_turned(known)}", meaning


def _criterion_row(known: Certificate) -> tuple[str, str]:
    if known["criterion"] is None:
        return "nothing proved", "bounds need shrinkage above 0, and above rounding"
    probing = f", from random probes, which fail with probability {known['failure']:.0e}" if known["failure"] else ""
    about = (
        ""
        if known["estimate"] is None
        else f"; about {_percent(known['estimate'])} by an estimate, as if what was not seen of the scatter within "
        "classes were spread evenly"
    )
    meaning = (
        f"of the largest sum of Fisher's criterion over so many directions (passes: {known['passes']}){probing}"
        f"{about}; angles are in units of the scatter within classes"
    )
    return f"at least {_percent(known['criterion'])} of the criterion{_turned(known)}", meaning


def _turned(known: Certificate) -> str:
    return "" if known["angle"] is None else f", at most {known['angle']:.2g} degrees off"


def _percent(share: float) -> str:
    """Return a percentage, never rounded up."""
    return f"{np.floor(1000 * share) / 10:.3g}%"


def solver_notes(results: Results, tolerance: float) -> list[str]:
    """Return what a reader must know of components that are not yet exact."""
    found = ((title_of(method), _note(known, tolerance)) for method, known in proved_of(results).items())
    return [f"{title}{note}" for title, note in found if note]


def _note(known: Certificate, tolerance: float) -> str:
    if "exact" in known:
        return ""
    if "criterion" in known:
        return _criterion_note(known, tolerance)
    what = "directions of scatter within classes" if "means" in known else "components"
    if "error" in known:
        return (
            f" comes from a single pass: its eigenvalues may be {known['error']:.2g} off. Use solver.kind: krylov for "
            f"exact {what}."
        )
    relative = np.asarray(known["relative"])
    beyond = int(np.sum(relative > tolerance))
    if not beyond:
        return ""
    return (
        f": {beyond} of {known['count']} {what} have residuals beyond {tolerance:.2g} of their eigenvalue, at most "
        f"{relative.max():.2g} of it (number {relative.argmax() + 1}). {MORE}"
    )


def _criterion_note(known: Certificate, tolerance: float) -> str:
    if not known["count"]:
        return ""
    if known["criterion"] is None:
        return ": nothing is proved of components from passes without shrinkage. Set shrinkage above 0."
    if 1 - known["criterion"] <= tolerance:
        return ""
    about = "" if known["estimate"] is None else f" (about {_percent(known['estimate'])} by an estimate)"
    more = "Use solver.kind: krylov for more." if makes_one_pass(known["solver"]) else MORE
    proved = _percent(known["criterion"])
    return f": components are proved to reach {proved}{about} of the criterion that is possible. {more}"


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
