"""The summary of a finished run, for terminals and artifacts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.runs.certificate import search_line
from mmpca_dist.runs.finished import open_run
from mmpca_dist.runs.models import load_model


def headline(output: str) -> str:
    """Return one line: rows, features, classes."""
    run = open_run(output)
    header, count = run.header(), run.record("count")
    if count is None:
        raise InputError(f"The run in {run.uri} has not counted its classes yet; run it to the end first.")
    uri = count.get("uri", header["config"]["dataset"]["uri"])
    return f"{uri}: {count['n_rows']} rows, {count['n_features']} features, {len(count['classes'])} classes"


def search(output: str) -> str | None:
    """Return one line on the search for nearest rows of other classes, if the run has made one."""
    run = open_run(output)
    records = {name: run.record(name) for name in ("count", "search", "solve")}
    return search_line({name: record for name, record in records.items() if record is not None})


def choice(output: str) -> str | None:
    """Return one line on how numbers of components were chosen, if they were."""
    record = open_run(output).record("choose")
    return None if record is None else f"components: chosen for each method by the {record['how']}"


def report_of(output: str) -> str | None:
    """Return the address of the run's report, if it has one."""
    record = open_run(output).record("report")
    return record["html"] if record else None


def notes(output: str) -> list[str]:
    """Return what a reader of the results must know, as the run's report has it."""
    record = open_run(output).record("report")
    return record.get("notes", []) if record else []


SHARES = {
    "lol": "scatter within classes",
    "pls": "variance of the class indicators, explained",
    "ridge": "variance of the class indicators, explained",
    "fisher-score": "sum of scores",
    "random-projection": "variance",
}
"""What shares are of, where not of the scatter that a method is about."""


def legend(rows: list[dict[str, Any]]) -> str:
    """Return what the columns of a table of components mean, for the methods that are in it."""
    methods = [row["method"] for row in rows]
    shares: dict[str, list[str]] = {}
    for method in methods:
        if method in SHARES:
            shares.setdefault(SHARES[method], []).append(method)
    others = "; ".join(f"{', '.join(names)}: {what}" for what, names in shares.items())
    apart = [
        *(["none where components are no eigenvectors"] if any(row["residual"] == "-" for row in rows) else []),
        *(["fisher: in units of the scatter within classes, at most"] if "fisher" in methods else []),
    ]
    return (
        "share: of the scatter that the method is about" + (f" ({others})" if others else "")
        + ", held by the components together. residual: the largest |S v - l v|, divided by the leading eigenvalue l"
        + (f" ({'; '.join(apart)})." if apart else ".")
        + (" lasso: penalties in place of eigenvalues." if "lasso" in methods else "")
    )  # fmt: skip


def components(output: str) -> list[dict[str, Any]]:
    """Return a row a method: its components, the share of the scatter they hold, residual, leading eigenvalues."""
    run = open_run(output)
    rows = []
    for method in run.config.methods:
        model = load_model(run.uri, method)
        eigenvalues, total = model.eigenvalues_, model.total_
        residual = np.max(model.residuals_ / eigenvalues.max()) if len(eigenvalues) else np.nan
        rows.append(
            {
                "method": method,
                "components": str(len(model.components_)),
                "share": f"{eigenvalues.sum() / total:.1%}" if total > 0 else "-",
                "residual": f"{residual:.0e}" if np.isfinite(residual) else "-",
                "leading eigenvalues": ", ".join(f"{v:.3g}" if np.isfinite(v) else "-" for v in eigenvalues[:3]),
            }
        )
    return rows
