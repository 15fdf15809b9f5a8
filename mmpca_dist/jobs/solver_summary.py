"""Summarise certificates of solvers in passes in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmpca_dist.jobs.records import SOLVE, Results
from mmpca_dist.methods.registry import title_of
from mmpca_dist.solvers.block_solver import makes_one_pass

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
