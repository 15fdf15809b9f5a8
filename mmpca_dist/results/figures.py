"""The figures of a method, which say what its components hold and how exact they are, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.errors import plural
from mmpca_dist.jobs.finished_runs import LEADING
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.solution import IMPRECISE
from mmpca_dist.pictures.chart import words
from mmpca_dist.pictures.frame import Field, Heading, PrintedTable
from mmpca_dist.results.forms import DASH, written


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
        """The share of the total that all components hold, a mean over the models; NaN where there is no total."""
        return float(self.mean_shares.sum())

    @property
    def residual(self) -> float:
        """The largest residual over the largest eigenvalue; NaN where components are no eigenvectors."""
        with np.errstate(invalid="ignore"):  # eigenvalues of extreme weights may be infinite
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
        return f"{self.title} class {words(self.models[0], 12, 'no. 0')}"

    def directions(self, first: int) -> NDArray:
        """Return the first components of ``leading``, scaled to length one, shape (<= first, d)."""
        components = self.leading[:first]
        lengths = np.linalg.norm(components, axis=1, keepdims=True)
        return components / np.where(lengths > 0, lengths, 1)


def figures(
    model: MomentReducer,
    section: MethodSection,
    requested: Sequence[float] = (),
    history: Sequence[dict[str, Any]] = (),
    first_pass: int = 2,
) -> Figures:
    """Return the figures of a fitted estimator, which a run fitted as its configuration asks in a section."""
    fitted, sizes = model.fitted(), [int(size) if size >= 1 else model.count_of(size) for size in requested]
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
        requested=sizes if model.traits.nested else [fitted.used],
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


TABLE_ROWS = 10
"""Components listed for each method; models whose components are listed."""
LEAST_ROWS = 2
"""Components listed for each of several models."""
ABOUT_METHODS = (
    "A component is a direction in the space of the features; a row\N{RIGHT SINGLE QUOTATION MARK}s coordinate is its "
    "product with that direction."
)
ABOUT_EIGENVALUES = (
    "The residual ||S v \N{MINUS SIGN} \N{GREEK SMALL LETTER LAMDA} v|| says how well a component solves its equation "
    "(a dash where it is no eigenvector, or where that is not known; of Fisher discriminants in units of the scatter "
    "within classes, and an upper bound); rounding is the share of the eigenvalue that may be the rounding of a pass."
)
ABOUT_ROUNDING = (
    " Where that is more than a hundredth, the component is marked as close to rounding: do not interpret it, or, if "
    "it was computed in single precision, compute with precision: double."
)
CLOSE, OFF = "close to rounding", "switched off"


def methods_table(methods: Sequence[Figures], without: Iterable[str] = ()) -> PrintedTable:
    """Return a row for each method, with a legend; ``without`` are the labels of those that have no components."""
    columns = (
        Heading("method", "head"), Heading("components", "number"), Heading("share"), Heading("residual", "number"),
        Heading("leading eigenvalues"), Heading("what bounds the number"), Heading("directions"),
    )  # fmt: skip
    rows = [_method_row(method) for method in methods]
    rows += [[Field(label), "0", DASH, DASH, "", "", ""] for label in without]
    return PrintedTable(columns, rows, key="components", about="Components", below=legend(methods), brief=5)


def _method_row(method: Figures) -> list[Field | str]:
    off, cut = np.count_nonzero(~method.active), [str(size) for size in method.requested if size > method.n_components]
    numbers = [
        *([f"for each of {len(method.models)} classes"] if method.models else []),
        *([f"{off} {OFF}"] if off else []),
        *([f"asked for {', '.join(cut)}"] if cut else []),
    ]
    has_shares, n_imprecise = np.isfinite(method.shares).any(), int(method.imprecise.sum())
    fewer = [size for size in method.sizes if size < method.n_components and has_shares]
    shares = [f"{written('share', method.mean_shares[:size].sum())} in {size}" for size in fewer]
    return [
        Field(method.name, [method.title]),
        Field(str(method.n_components), numbers),
        Field(written("share", method.share), [*shares, *(["mean of the classes"] if method.models else [])]),
        written("residual", method.residual),
        ", ".join(written("eigenvalue", value) for value in method.leading_eigenvalues),
        Field(method.limit.replace(" - ", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}")),
        Field(
            "orthonormal" if method.method.orthonormal else "not orthonormal",
            [] if method.method.ordered else ["no eigenvectors"],
            f"{n_imprecise} {CLOSE}" if n_imprecise else "",
        ),
    ]


def legend(methods: Sequence[Figures]) -> str:
    """Return what the columns of the table mean for the methods in it."""
    labels: dict[str, list[str]] = {}
    for method in methods:
        labels.setdefault(method.method.shares, []).append(method.name)
    shares = "; ".join(f"{', '.join(labels[share])}: {share}" for share in labels if share)
    residuals = [f"{method.name}: {method.method.residuals}" for method in methods if method.method.residuals]
    if any(written("residual", method.residual) == DASH for method in methods):
        residuals.insert(0, "none where components are no eigenvectors")
    values = [f"{one.name}: {one.method.values}" for one in methods if one.method.values and not one.method.shares]
    several = [method.name for method in methods if len(method.models) > 1]
    return (
        "share: of the scatter that the method is about" + (f" ({shares})" if shares else "")
        + ", held by the components together. residual: the largest |S v - l v|, divided by the leading eigenvalue l"
        + (f" ({'; '.join(residuals)})." if residuals else ".")
        + (f" In place of eigenvalues: {'; '.join(values)}." if values else "")
        + (f" {', '.join(several)}: a model for each class, with so many components and on average that share; "
           "the leading values are those of the first class." if several else "")
    )  # fmt: skip


def eigenvalue_tables(methods: Sequence[Figures]) -> tuple[str, list[PrintedTable]]:
    """Return the tables of eigenvalues, and what their columns mean; none without methods that have any."""
    methods = [m for m in methods if "spectrum" in m.method.sections and not np.isnan(m.eigenvalues).all()]
    about = ABOUT_EIGENVALUES + (ABOUT_ROUNDING if any(method.imprecise.any() for method in methods) else "")
    return about, [eigenvalue_table(method, opens=method is methods[0]) for method in methods]


def eigenvalue_table(method: Figures, opens: bool = True) -> PrintedTable:
    """Return a row for each of the first components, of several models those of each of the first models."""
    values, n_models = method.method.values, len(method.models)
    models = min(n_models, TABLE_ROWS) or 1
    each = min(method.size, max(TABLE_ROWS // models, LEAST_ROWS))
    together = method.by_model(method.shares).cumsum(axis=1).ravel()
    listed = [model * method.size + k for model in range(models) for k in range(each)]
    of_class = " Every class has a model of its own against the rest; numbers, shares and what components hold "
    of_class += "together are those within it."
    headings = ("no.", "value" if values else "eigenvalue", "share", "together", "residual", "rounding")
    rows: list[list[Field | str]] = [
        [
            *([method.models[k // method.size]] if n_models else []),
            str(k % method.size + 1),
            written("eigenvalue", method.eigenvalues[k]),
            written("share", method.shares[k]),
            written("share", together[k]),
            written("residual", method.residuals[k]),
            Field(
                written("rounding", method.relative_errors[k]),
                mark=CLOSE if method.imprecise[k] else "" if method.active[k] else OFF,
            ),
        ]
        for k in listed
    ]
    return PrintedTable(
        [*([Heading("class")] if n_models else []), *(Heading(heading, "number") for heading in headings)],
        rows,
        method.title,
        plural(method.n_components, "component") + (f" for each of {n_models} classes" if n_models else ""),
        above=f"In place of eigenvalues: {values}.{of_class if n_models else ''}" if values else "",
        below=_below(method, len(method.eigenvalues) - len(listed)),
        opens=opens,
    )


def _below(method: Figures, more: int) -> str:
    """Return sentences on the total and on components that are not listed."""
    shares, what = method.method.shares, "Their total" if method.method.values else "Sum of all eigenvalues"
    what = f"Shares are those of a total ({shares})" if shares else what
    total = f"{what}: {written('eigenvalue', method.total)}. " if np.isfinite(method.total) else ""
    return total + (f"{plural(more, 'more component')} in the model." if more else "")
