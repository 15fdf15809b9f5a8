"""The summary of a finished run, for terminals and artifacts."""

from __future__ import annotations

from typing import Any

from mmpca_dist.datasets import storage
from mmpca_dist.errors import InputError
from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.models import load_model


def headline(output: str) -> str:
    """Return one line: rows, features, classes."""
    run = RunDirectory(storage.normalize(output))
    header, count = run.header(), run.record("count")
    if count is None:
        raise InputError(f"The run in {run.uri} has not counted its classes yet; run it to the end first.")
    return (
        f"{header['config']['dataset']['uri']}: {count['n_rows']} rows, {count['n_features']} features, "
        f"{len(count['classes'])} classes"
    )


def report_of(output: str) -> str | None:
    """Return the address of the run's report, if it has one."""
    record = RunDirectory(storage.normalize(output)).record("report")
    return record["html"] if record else None


def components(output: str) -> list[dict[str, Any]]:
    """Return a row a method: its components, their share of the scatter, residual and eigenvalues."""
    run = RunDirectory(storage.normalize(output))
    rows = []
    for method in run.config.methods:
        model = load_model(run.uri, method)
        share = f"{model.eigenvalues_.sum() / model.total_:.1%}" if METHODS[method].ordered else ""
        rows.append(
            {
                "method": method,
                "components": str(len(model.components_)),
                "share of scatter": share,
                "largest residual": f"{model.residuals_.max():.1e}" if METHODS[method].ordered else "",
                "leading eigenvalues": ", ".join(f"{value:.4g}" for value in model.eigenvalues_[:4]),
            }
        )
    return rows
