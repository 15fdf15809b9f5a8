"""The methods of a run: what a report shows of their components, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.jobs.job import sizes_of
from mmpca_dist.jobs.notes import certificates_of
from mmpca_dist.jobs.records import SOLVE, Results
from mmpca_dist.methods.solution import IMPRECISE
from mmpca_dist.report.pages import DASH

TABLE_ROWS = 10
"""Components listed for each method."""


@dataclass(frozen=True)
class MethodResult:
    """Components of one method, as a report shows them."""

    name: str
    title: str
    """``"m-pca0"`` and ``"M-PCA0"``."""
    components: NDArray
    """Shape (K, d)."""
    eigenvalues: NDArray
    residuals: NDArray
    relative_errors: NDArray
    """All three (K,), as in ``mmpca_dist.methods.solution.Solution``; what is not finite is shown as a dash."""
    total: float
    """Sum of all eigenvalues of the method's scatter, also of those that were not computed."""
    limit: str
    """What bounds the number of components, in words."""
    sizes: list[int]
    """The requested numbers of components, cut to what there is."""
    requested: list[int]
    orthonormal: bool
    """Whether components have length one and are perpendicular."""
    ordered: bool
    """Whether components are eigenvectors by decreasing eigenvalue (not so for LOL)."""
    history: Sequence[dict[str, Any]] = field(default_factory=list)
    """``values`` and ``residuals`` after passes from ``first_pass`` on, where a solver in passes was used."""
    first_pass: int = 2
    values: str = ""
    """What the values are where they are no eigenvalues, in words."""

    @classmethod
    def of(cls, run: RunDirectory, config: RunConfig, section: MethodSection, results: Results) -> MethodResult:
        """Load what a run computed for a method."""
        name, method = section.label, section.method
        model, entry = load_model(run.uri, name), results.of(SOLVE)["models"][name]
        requested, proved = sizes_of(config, results, name), certificates_of(results).get(name, {})
        history = proved.get("history", [])
        return cls(
            name=name,
            title=section.title,
            components=model._directions.astype(np.float32),  # of many columns, and all methods at once
            eigenvalues=model.eigenvalues_,
            residuals=model.residuals_,
            relative_errors=model.relative_errors_,
            total=model.total_,
            limit=entry["limit"],
            sizes=sorted({min(size, entry["n_components"]) for size in requested}),
            requested=requested,
            orthonormal=method.orthonormal,
            ordered=method.ordered,
            values=method.values,
            history=history,
            first_pass=proved.get("passes", 0) - len(history) + 1,
        )

    @property
    def shares(self) -> NDArray[np.float64]:
        """Eigenvalues over their total, shape (K,); NaN where the total is not positive."""
        return np.asarray(self.eigenvalues, dtype=np.float64) / (self.total if self.total > 0 else np.nan)

    @property
    def imprecise(self) -> NDArray[np.bool_]:
        """Which components are within a hundredfold of the rounding floor, shape (K,)."""
        return np.asarray(self.relative_errors) > IMPRECISE

    def directions(self, first: int) -> NDArray:
        """Return the first components (as many as there are), scaled to length one, shape (<= first, d)."""
        components = self.components[:first]
        lengths = np.linalg.norm(components, axis=1, keepdims=True)
        return components / np.where(lengths > 0, lengths, 1)


def method_row(method: MethodResult) -> dict[str, Any]:
    """Return the row of a method in the table of methods, and in ``rows`` those of its table of eigenvalues."""
    n_components, shares = len(method.eigenvalues), method.shares
    rows = [
        {
            "number": k + 1,
            "eigenvalue": _number(method.eigenvalues[k]),
            "share": _share(float(shares[k])),
            "together": _share(float(np.sum(shares[: k + 1]))),
            "residual": _number(method.residuals[k], 2),
            "error": _number(method.relative_errors[k], 2),
            "imprecise": bool(method.imprecise[k]),
        }
        for k in range(min(n_components, TABLE_ROWS))
    ]
    return {
        "name": method.name,
        "title": method.title,
        "found": n_components,
        "cut": [size for size in method.requested if size > n_components],
        "limit": method.limit.replace(" - ", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}"),
        "held": [f"{_share(float(np.sum(shares[:size])))} in {size}" for size in method.sizes],
        "orthonormal": method.orthonormal,
        "ordered": method.ordered,
        "measure": method.values,
        "rows": rows,
        "more": n_components - len(rows),
        "imprecise": int(method.imprecise.sum()),
        "more_imprecise": int(method.imprecise[len(rows) :].sum()),
        "total": _number(method.total) if np.isfinite(method.total) else "",
    }


def _share(share: float) -> str:
    if not np.isfinite(share):
        return DASH
    value = 100 * share
    return f"{value:.1f}%" if value >= 0.1 or value <= 0 else f"{value:.1g}%"


def _number(value: float, digits: int = 4) -> str:
    return f"{float(value):.{digits}g}" if np.isfinite(value) else DASH
