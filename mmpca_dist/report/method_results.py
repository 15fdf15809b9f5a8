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
from mmpca_dist.methods.base.solution import IMPRECISE
from mmpca_dist.report.drawing import plain
from mmpca_dist.report.pages import DASH

TABLE_ROWS = 10
"""Components listed for each method; models whose components are listed."""
LEAST_ROWS = 2
"""Components listed for each of several models."""


@dataclass(frozen=True)
class MethodResult:
    """Components of one method, as a report shows them."""

    name: str
    title: str
    """``"m-pca0"`` and ``"M-PCA0"``."""
    components: NDArray
    """Shape (K, d); those of several models one below the other."""
    eigenvalues: NDArray
    residuals: NDArray
    relative_errors: NDArray
    """All three (K,), as in ``mmpca_dist.methods.base.solution.Solution``; what is not finite is shown as a dash."""
    total: float
    """Sum of all eigenvalues of the method's scatter, also of those that were not computed."""
    limit: str
    """What bounds the number of components, in words."""
    sizes: list[int]
    """The requested numbers of components, cut to what there is."""
    requested: list[int]
    found: int
    """The number of components there are, of each model."""
    orthonormal: bool
    """Whether components have length one and are perpendicular."""
    ordered: bool
    """Whether components are eigenvectors by decreasing eigenvalue (not so for LOL)."""
    history: Sequence[dict[str, Any]] = field(default_factory=list)
    """``values`` and ``residuals`` after passes from ``first_pass`` on, where a solver in passes was used."""
    first_pass: int = 2
    values: str = ""
    """What the values are where they are no eigenvalues, in words."""
    shared: str = ""
    """What the components have a share of, in words; empty for the scatter that the method is about."""
    models: Sequence[str] = ()
    """The classes that have a model each, with K over their number components; empty where there is one model."""
    switched_off: NDArray[np.bool_] | None = None
    """Shape (K,): which components have no influence; None where methods switch none off."""
    reduces: bool = True
    """False for the rows as they are, and for coefficients of classifiers, which pictures of components leave out."""

    @classmethod
    def of(cls, run: RunDirectory, config: RunConfig, section: MethodSection, results: Results) -> MethodResult:
        """Load what a run computed for a method."""
        name, method = section.label, section.method
        model, entry = load_model(run.uri, name), results.of(SOLVE)["models"][name]
        requested, proved = sizes_of(config, results, name), certificates_of(results).get(name, {})
        history, off = proved.get("history", []), getattr(model, "switched_off_", None)
        if not model._nested:  # there are models of one number of components alone
            requested = [model._n_used]
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
            found=entry["n_components"],
            orthonormal=method.orthonormal,
            ordered=method.ordered,
            values=method.values,
            shared=method.shares,
            models=[str(label) for label in model.classes_] if model.components_.ndim == 3 else [],
            switched_off=None if off is None else off.ravel(),
            reduces=method.blocks not in ("all columns", "two by class"),
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

    @property
    def size(self) -> int:
        """The number of rows of ``components`` for each model."""
        return len(self.eigenvalues) // max(len(self.models), 1)

    def by_model(self, values: NDArray) -> NDArray:
        """Return numbers of all components, shape (K,), as a row for each model, shape (models, size)."""
        return np.reshape(values, (-1, self.size))

    @property
    def mean_shares(self) -> NDArray[np.float64]:
        """Means of the shares over the models, shape (size,)."""
        return np.asarray(self.by_model(self.shares).mean(axis=0), dtype=np.float64)

    @property
    def drawn_shares(self) -> NDArray[np.float64]:
        """The mean shares, shape (size,), NaN where a component is switched off in all models."""
        return np.where(self.by_model(self.active).any(axis=0), self.mean_shares, np.nan)

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which components are not switched off, shape (K,)."""
        return np.ones(len(self.eigenvalues), bool) if self.switched_off is None else ~self.switched_off

    @property
    def leading(self) -> NDArray:
        """The components of the first model, shape (<= size, d); those switched off, which are last, are left out."""
        return self.components[: max(int(np.count_nonzero(self.active[: self.size])), 1)]

    @property
    def label(self) -> str:
        """The title, with the class of the first model where there are several."""
        return f"{self.title} class {self.first_model}" if self.models else self.title

    @property
    def first_model(self) -> str:
        """The class of the first of several models, short and in letters that can be drawn; not escaped."""
        return plain(self.models[0], "no. 0", 12).replace(r"\$", "$")

    def directions(self, first: int) -> NDArray:
        """Return the first components of ``leading``, scaled to length one, shape (<= first, d)."""
        components = self.leading[:first]
        lengths = np.linalg.norm(components, axis=1, keepdims=True)
        return components / np.where(lengths > 0, lengths, 1)


def note_of_models(methods: Sequence[MethodResult], what: str) -> str:
    """Return the sentence on methods with a model for each class that ends a caption, or nothing."""
    titles = [method.title for method in methods if method.models]
    if not titles:
        return ""
    have = "has" if len(titles) == 1 else "have"
    return f" {', '.join(titles)} {have} a model for each class against the rest: {what}."


def note_of_switched_off(methods: Sequence[MethodResult]) -> str:
    """Return the sentence of a caption on components that a picture leaves out, or nothing."""
    return " Components that are switched off are left out." if any(not m.active.all() for m in methods) else ""


def note_of_first(methods: Sequence[MethodResult]) -> str:
    """Return the sentences of a caption on components that are those of ``leading``, or nothing."""
    here = "here, components are those of the first class's model"
    return note_of_models(methods, here) + note_of_switched_off(methods)


def method_row(method: MethodResult) -> dict[str, Any]:
    """Return the row of a method in the table of methods, and in ``rows`` those of its table of eigenvalues."""
    rows = _component_rows(method) if method.reduces else []
    n_components, listed = len(method.eigenvalues), [row["position"] for row in rows]
    has_shares = bool(np.isfinite(method.shares).any())
    return {
        "name": method.name,
        "title": method.title,
        "found": method.found,
        "models": len(method.models),
        "switched_off": int(np.count_nonzero(~method.active)),
        "cut": [size for size in method.requested if size > method.found],
        "limit": method.limit.replace(" - ", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}"),
        "held": [f"{_share(float(method.mean_shares[:size].sum()))} in {size}" for size in method.sizes]
        if has_shares
        else [DASH],
        "orthonormal": method.orthonormal,
        "ordered": method.ordered,
        "measure": method.values,
        "shared": method.shared,
        "rows": rows,
        "more": n_components - len(rows),
        "imprecise": int(method.imprecise.sum()),
        "more_imprecise": int(np.delete(method.imprecise, listed).sum()),
        "total": _number(method.total) if np.isfinite(method.total) else "",
    }


def _component_rows(method: MethodResult) -> list[dict[str, Any]]:
    """Return the rows of the first components, of several models those of each of the first models."""
    if np.isnan(method.eigenvalues).all():
        return []
    models = min(len(method.models), TABLE_ROWS) or 1
    each = min(method.size, max(TABLE_ROWS // models, LEAST_ROWS))
    together = method.by_model(method.shares).cumsum(axis=1).ravel()
    return [
        {
            "position": k,
            "model": method.models[model] if method.models else "",
            "number": k - model * method.size + 1,
            "eigenvalue": _number(method.eigenvalues[k]),
            "share": _share(float(method.shares[k])),
            "together": _share(float(together[k])),
            "residual": _number(method.residuals[k], 2),
            "error": _number(method.relative_errors[k], 2),
            "imprecise": bool(method.imprecise[k]),
            "switched_off": not method.active[k],
        }
        for model in range(models)
        for k in range(model * method.size, model * method.size + each)
    ]


def _share(share: float) -> str:
    if not np.isfinite(share):
        return DASH
    value = 100 * share
    return f"{value:.1f}%" if value >= 0.1 or value <= 0 else f"{value:.1g}%"


def _number(value: float, digits: int = 4) -> str:
    return f"{float(value):.{digits}g}" if np.isfinite(value) else DASH
