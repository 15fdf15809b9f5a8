"""The methods of a run: what a report shows of their components, and its tables of them."""

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
from mmpca_dist.jobs.notes import certificates_of, plural
from mmpca_dist.jobs.records import SOLVE, Results
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.solution import IMPRECISE
from mmpca_dist.pictures.drawing import plain
from mmpca_dist.pictures.frame import Field, Heading, PagePart, PrintedTable
from mmpca_dist.report.pages import DASH
from mmpca_dist.tables.facts import Table

TABLE_ROWS = 10
"""Components listed for each method; models whose components are listed."""
LEAST_ROWS = 2
"""Components listed for each of several models."""
ABOUT_METHODS = (
    "A component is a direction in the space of the features; a row\N{RIGHT SINGLE QUOTATION MARK}s coordinate is its "
    "product with that direction. The share is how much of what a method looks for its components hold together."
)
ABOUT_EIGENVALUES = (
    "The residual ||S v \N{MINUS SIGN} \N{GREEK SMALL LETTER LAMDA} v|| says how well a component solves its equation "
    "(a dash where it is no eigenvector, or where that is not known; of Fisher discriminants in units of the scatter "
    "within classes, and an upper bound); the relative rounding error says how much of the eigenvalue may be rounding "
    "of the pass over the rows."
)
ABOUT_ROUNDING = (
    " Where that is more than a hundredth, the component is marked as close to rounding: do not interpret it, or, if "
    "it was computed in single precision, compute with precision: double."
)


@dataclass(frozen=True)
class SolvedRun:
    """A run whose stages before the report are done, as the sections of its report see it."""

    run: RunDirectory
    config: RunConfig
    table: Table
    results: Results

    def model(self, label: str) -> MomentReducer:
        """Return the fitted estimator of a method."""
        return load_model(self.run.uri, label)


@dataclass(frozen=True)
class MethodResult:
    """Components of one method, as a report shows them."""

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

    @classmethod
    def of(cls, finished: SolvedRun, section: MethodSection) -> MethodResult:
        """Load what a run computed for a method."""
        name, results = section.label, finished.results
        model, entry = finished.model(name), results.of(SOLVE)["models"][name]
        fitted = model.fitted()
        proved = certificates_of(finished.config, results).get(name, {})
        history = proved.get("history", [])
        return cls(
            name=name,
            title=section.title,
            method=section.method,
            components=fitted.directions.astype(np.float32),  # of many columns, and all methods at once
            eigenvalues=model.eigenvalues_,
            residuals=model.residuals_,
            relative_errors=model.relative_errors_,
            active=fitted.active,
            total=model.total_,
            limit=entry["limit"],
            # Some methods have models of one number of components alone.
            requested=sizes_of(finished.config, results, name) if model.traits.nested else [fitted.used],
            n_components=entry["n_components"],
            models=[str(label) for label in model.classes_] if model.components_.ndim == 3 else [],
            history=history,
            first_pass=proved.get("passes", 0) - len(history) + 1,
        )

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


def note_of_models(methods: Sequence[MethodResult], what: str) -> str:
    """Return the sentence on methods with a model for each class that ends a caption, or nothing."""
    titles = [method.title for method in methods if method.models]
    return f" {', '.join(titles)}: a model for each class against the rest; {what}." if titles else ""


def note_of_switched_off(methods: Sequence[MethodResult]) -> str:
    """Return the sentence of a caption on components that a picture leaves out, or nothing."""
    return " Components that are switched off are left out." if any(not m.active.all() for m in methods) else ""


def note_of_first(methods: Sequence[MethodResult]) -> str:
    """Return the sentences of a caption on components that are those of ``leading``, or nothing."""
    here = "here, components are those of the first class's model"
    return note_of_models(methods, here) + note_of_switched_off(methods)


def methods_part(methods: Sequence[MethodResult], words: Sequence[str] = ()) -> PagePart:
    """Return the table of methods under its heading, with more words on them."""
    columns = (
        Heading("method", "head"), Heading("components", "number"), Heading("share of its total"),
        Heading("what bounds the number"), Heading("directions"),
    )  # fmt: skip
    table = PrintedTable(columns, [_method_row(method) for method in methods])
    return PagePart("methods", "Methods", [ABOUT_METHODS, *words], tables=[table])


def _method_row(method: MethodResult) -> list[Field]:
    off, cut = np.count_nonzero(~method.active), [str(size) for size in method.requested if size > method.n_components]
    numbers = [
        *([f"for each of {len(method.models)} classes"] if method.models else []),
        *([f"{off} switched off"] if off else []),
        *([f"asked for {', '.join(cut)}"] if cut else []),
    ]
    shares = [DASH]
    if np.isfinite(method.shares).any():
        shares = [f"{_share(float(method.mean_shares[:size].sum()))} in {size}" for size in method.sizes]
    n_imprecise = int(method.imprecise.sum())
    return [
        Field(method.title, [method.name]),
        Field(str(method.n_components), numbers),
        Field("\n".join(shares), ["mean of the classes"] if method.models else []),
        Field(method.limit.replace(" - ", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}")),
        Field(
            "orthonormal" if method.method.orthonormal else "not orthonormal",
            [] if method.method.ordered else ["no eigenvectors"],
            f"{n_imprecise} close to rounding" if n_imprecise else "",
        ),
    ]


def eigenvalue_parts(methods: Sequence[MethodResult]) -> list[PagePart]:
    """Return the tables of eigenvalues under their heading; none without methods that have any."""
    methods = [m for m in methods if "spectrum" in m.method.sections and not np.isnan(m.eigenvalues).all()]
    if not methods:
        return []
    about = ABOUT_EIGENVALUES + (ABOUT_ROUNDING if any(method.imprecise.any() for method in methods) else "")
    tables = [eigenvalue_table(method, opens=method is methods[0]) for method in methods]
    return [PagePart("eigenvalues", "Eigenvalues", [about], tables=tables)]


def eigenvalue_table(method: MethodResult, opens: bool = True) -> PrintedTable:
    """Return a row for each of the first components, of several models those of each of the first models."""
    values, n_models = method.method.values, len(method.models)
    models = min(n_models, TABLE_ROWS) or 1
    each = min(method.size, max(TABLE_ROWS // models, LEAST_ROWS))
    together = method.by_model(method.shares).cumsum(axis=1).ravel()
    listed = [model * method.size + k for model in range(models) for k in range(each)]
    of_class = " Every class has a model of its own against the rest; numbers, shares and what components hold "
    of_class += "together are those within it."
    headings = ("no.", "value" if values else "eigenvalue", "share", "together", "residual", "relative rounding error")
    rows: list[list[Field | str]] = [
        [
            *([method.models[k // method.size]] if n_models else []),
            str(k % method.size + 1),
            _number(method.eigenvalues[k]),
            _share(float(method.shares[k])),
            _share(float(together[k])),
            _number(method.residuals[k], 2),
            _number(method.relative_errors[k], 2),
            Field(mark="close to rounding" if method.imprecise[k] else "" if method.active[k] else "switched off"),
        ]
        for k in listed
    ]
    return PrintedTable(
        [*([Heading("class")] if n_models else []), *(Heading(heading, "number") for heading in headings), Heading("")],
        rows,
        method.title,
        plural(method.n_components, "component") + (f" for each of {n_models} classes" if n_models else ""),
        above=f"In place of eigenvalues: {values}.{of_class if n_models else ''}" if values else "",
        below=_below(method, len(method.eigenvalues) - len(listed)),
        opens=opens,
    )


def _below(method: MethodResult, more: int) -> str:
    """Return sentences on the total and on components that are not listed."""
    shares, what = method.method.shares, "Their total" if method.method.values else "Sum of all eigenvalues"
    what = f"Shares are those of a total ({shares})" if shares else what
    total = f"{what}: {_number(method.total)}. " if np.isfinite(method.total) else ""
    return total + (f"{plural(more, 'more component')} in the model." if more else "")


def _share(share: float) -> str:
    if not np.isfinite(share):
        return DASH
    value = 100 * share
    return f"{value:.1f}%" if value >= 0.1 or value <= 0 else f"{value:.1g}%"


def _number(value: float, digits: int = 4) -> str:
    return f"{float(value):.{digits}g}" if np.isfinite(value) else DASH
