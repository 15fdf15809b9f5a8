"""The tables of a run's methods: what their components hold, what the columns mean, and the eigenvalues one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mmpca_dist.errors import plural
from mmpca_dist.pictures.frame import Field, Heading, PrintedTable
from mmpca_dist.results.figures import Figures
from mmpca_dist.results.forms import DASH, written

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
    "within classes, and an upper bound); the relative rounding error says how much of the eigenvalue may be rounding "
    "of the pass over the rows."
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
    values = [
        f"{method.name}: {method.method.values}"
        for method in methods
        if method.method.values and not method.method.shares
    ]
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
    headings = ("no.", "value" if values else "eigenvalue", "share", "together", "residual", "relative rounding error")
    rows: list[list[Field | str]] = [
        [
            *([method.models[k // method.size]] if n_models else []),
            str(k % method.size + 1),
            written("eigenvalue", method.eigenvalues[k]),
            written("share", method.shares[k]),
            written("share", together[k]),
            written("residual", method.residuals[k]),
            written("rounding", method.relative_errors[k]),
            Field(mark=CLOSE if method.imprecise[k] else "" if method.active[k] else OFF),
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


def _below(method: Figures, more: int) -> str:
    """Return sentences on the total and on components that are not listed."""
    shares, what = method.method.shares, "Their total" if method.method.values else "Sum of all eigenvalues"
    what = f"Shares are those of a total ({shares})" if shares else what
    total = f"{what}: {written('eigenvalue', method.total)}. " if np.isfinite(method.total) else ""
    return total + (f"{plural(more, 'more component')} in the model." if more else "")
