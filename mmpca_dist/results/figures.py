"""The figures of a method: its components, and the numbers that say what they hold and how exact they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.jobs.finished_runs import LEADING
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.solution import IMPRECISE
from mmpca_dist.pictures.drawing import plain


@dataclass(frozen=True)
class Figures:
    """Components of one method, and the numbers that results state of them."""

    name: str
    title: str
    """The label, and the title that goes with it: ``"m-pca0"`` and ``"M-PCA0"``."""
    method: Method
    components: NDArray
    """Shape (K, d); those of several models one below the other."""
    eigenvalues: NDArray
    residuals: NDArray
    relative_errors: NDArray
    """All three (K,), as in ``mmpca_dist.methods.base.solution.Solution``; what is not finite is shown as a dash."""
    active: NDArray[np.bool_]
    """Shape (K,): which components have an influence."""
    total: float
    """Sum of all eigenvalues of the method's scatter, also of those that were not computed."""
    limit: str
    """The bound of the number of components, in words."""
    requested: list[int]
    """Numbers of components."""
    n_components: int
    """The number of components there are, of each model."""
    history: Sequence[dict[str, Any]] = field(default_factory=list)
    """``values`` and ``residuals`` after passes from ``first_pass`` on, where a solver in passes was used."""
    first_pass: int = 2
    models: Sequence[str] = ()
    """The classes that have a model each, with K over their number components; empty where there is one model."""

    @property
    def sizes(self) -> list[int]:
        """The requested numbers of components, cut to what there is."""
        return sorted({min(size, self.n_components) for size in self.requested})

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
    def share(self) -> float:
        """What all components hold together of the total, a mean over the models; NaN where there is no total."""
        return float(self.mean_shares.sum())

    @property
    def residual(self) -> float:
        """The largest residual over the largest eigenvalue; NaN where components are no eigenvectors."""
        return float(np.max(self.residuals) / abs(np.max(self.eigenvalues)))

    @property
    def leading_eigenvalues(self) -> list[float]:
        """The first few eigenvalues, of several models those of the first."""
        return [float(value) for value in np.ravel(self.eigenvalues)[:LEADING]]

    @property
    def numbers(self) -> dict[str, Any]:
        """The figures as plain numbers."""
        return {
            "method": self.name,
            "components": self.n_components,
            "share": self.share,
            "residual": self.residual,
            "leading eigenvalues": self.leading_eigenvalues,
            "switched off": int(np.count_nonzero(~self.active)),
            "close to rounding": int(self.imprecise.sum()),
        }

    @property
    def drawn_shares(self) -> NDArray[np.float64]:
        """The mean shares, shape (size,), NaN where a component is switched off in all models."""
        return np.where(self.by_model(self.active).any(axis=0), self.mean_shares, np.nan)

    @property
    def leading(self) -> NDArray:
        """The components of the first model, shape (<= size, d); those switched off, which are last, are left out."""
        return self.components[: max(int(np.count_nonzero(self.active[: self.size])), 1)]

    @property
    def label(self) -> str:
        """The title, with the class of the first model where there are several."""
        if not self.models:
            return self.title
        # Short and in letters that can be drawn; not escaped.
        return f"{self.title} class {plain(self.models[0], 'no. 0', 12)}".replace(r"\$", "$")

    def directions(self, first: int) -> NDArray:
        """Return the first components of ``leading``, scaled to length one, shape (<= first, d)."""
        components = self.leading[:first]
        lengths = np.linalg.norm(components, axis=1, keepdims=True)
        return components / np.where(lengths > 0, lengths, 1)


def figures(
    model: MomentReducer,
    section: MethodSection,
    requested: Sequence[int] = (),
    history: Sequence[dict[str, Any]] = (),
    first_pass: int = 2,
) -> Figures:
    """Return the figures of a fitted estimator, which a run fitted as its configuration asks in a section."""
    fitted = model.fitted()
    return Figures(
        name=section.label,
        title=section.title,
        method=section.method,
        components=fitted.directions.astype(np.float32),  # of many columns, and all methods at once
        eigenvalues=model.eigenvalues_,
        residuals=model.residuals_,
        relative_errors=model.relative_errors_,
        active=fitted.active,
        total=model.total_,
        limit=model.limit_reason_,
        # Some methods have models of one number of components alone.
        requested=list(requested) if model.traits.nested else [fitted.used],
        n_components=fitted.used,
        models=[str(label) for label in model.classes_] if model.components_.ndim == 3 else [],
        history=history,
        first_pass=first_pass,
    )


def note_of_models(methods: Sequence[Figures], what: str) -> str:
    """Return the sentence on methods with a model for each class that ends a caption, or nothing."""
    titles = [method.title for method in methods if method.models]
    return f" {', '.join(titles)}: a model for each class against the rest; {what}." if titles else ""


def note_of_switched_off(methods: Sequence[Figures]) -> str:
    """Return the sentence of a caption on components that a picture leaves out, or nothing."""
    return " Components that are switched off are left out." if any(not m.active.all() for m in methods) else ""


def note_of_first(methods: Sequence[Figures]) -> str:
    """Return the sentences of a caption on components that are those of ``leading``, or nothing."""
    here = "here, components are those of the first class's model"
    return note_of_models(methods, here) + note_of_switched_off(methods)
