"""What is proved of components that a solver in passes found, in words."""

from __future__ import annotations

from typing import Any

from mmpca_dist.reducers.methods import METHODS

Results = dict[str, dict[str, Any]]
NAMES = {"krylov": "block Krylov", "subspace": "subspace iteration", "nystroem": "Nystroem sketch"}


def proved_of(results: Results) -> dict[str, dict[str, Any]]:
    """Return, by method, what its solver in passes proved; empty where scatters were formed."""
    models = results.get("solve", {}).get("models", {})
    found = {}
    for method, model in models.items():
        certificate = model.get("certificate") or {}
        known = certificate.get("solver") if method == "m-pca2" else certificate
        if isinstance(known, dict) and known.get("solver"):
            found[method] = known
    return found


def solver_rows(results: Results) -> list[tuple[str, str, str]]:
    """Return the certificate of the solver as (method, proved, what that means)."""
    rows = []
    for method, known in proved_of(results).items():
        count = results["solve"]["models"][method]["n_components"]
        title = METHODS[method].title
        if "error" in known:
            meaning = "single pass: no residuals; every eigenvalue is within this of one of the scatter's, by probes"
            rows.append((title, f"eigenvalues within {known['error']:.2g}", meaning))
            continue
        leading, angle = known["leading"], known["angle"]
        share = "all" if leading == count else f"{leading} of {count}"
        turned = "" if angle is None else f", at most {angle:.2g} degrees off"
        meaning = (
            f"after {known['passes']} passes: every eigenvalue found is within its residual (at most "
            f"{known['residual']:.2g}) of one of the scatter's, others are at most {known['beyond']:.2g}, "
            f"from random probes, which fail with probability {known['failure']:.0e}"
        )
        rows.append((title, f"{share} proved leading{turned}", meaning))
    return rows


def solver_notes(results: Results, tolerance: float) -> list[str]:
    """Return what a reader must know of components that are not yet exact."""
    notes = []
    for method, known in proved_of(results).items():
        title = METHODS[method].title
        if "error" in known:
            notes.append(
                f"{title} comes from a single pass: its eigenvalues may be {known['error']:.2g} off. Use solver.kind: "
                "krylov for exact components."
            )
            continue
        leading = results["solve"]["models"][method]["leading"]
        if leading and known["residual"] > tolerance * leading[0]:
            notes.append(
                f"{title}: passes ended with a largest residual of {known['residual']:.2g}, its leading eigenvalue is "
                f"{leading[0]:.3g}. Raise solver.passes for components that are more exact."
            )
    return notes
