"""The tables of an evaluation: errors, costs, and margins before and after projection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.comparisons import LEVEL
from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, MOMENTS
from mmpca_dist.evaluation.margins import QUANTILES
from mmpca_dist.evaluation.tables import Cell, Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.frame import Field, Heading, PrintedTable
from mmpca_dist.results.answer import (
    ALL_COLUMNS,
    cells_of_answer,
    components,
    digits,
    label,
    named,
    spread,
)
from mmpca_dist.results.evaluation import Evaluation
from mmpca_dist.results.forms import DASH, FORMS, with_deviation, written

ERRORS_IN_BRIEF = "Errors in percent: mean (standard deviation) over splits"
WIDEST = 8
"""Up to so many pairs of a number of components and a classifier share one table."""
SHARED = {
    MOMENTS: "For all methods: moments of the rows that train",
    ERRORS: "For all methods: errors on the rows held out",
    MARGINS: "For all methods: margins",
}


def error_tables(evaluation: Evaluation) -> list[PrintedTable]:
    """Return the tables of errors: one, or one for each classifier where columns are many."""
    sizes, classifiers = evaluation.config.sizes, list(evaluation.classifiers)
    together = len(sizes) * len(classifiers) <= WIDEST
    groups = [classifiers] if together else [[name] for name in classifiers]
    return [
        _error_table(evaluation, number, "" if together else label(evaluation, group[0]), group)
        for number, group in enumerate(groups, 1)
    ]


def _error_table(evaluation: Evaluation, number: int, title: str, classifiers: list[str]) -> PrintedTable:
    cells, methods, decimals = evaluation.cells, evaluation.config.labels, digits(evaluation)
    pairs = [(size, name) for size in evaluation.config.sizes for name in classifiers]
    columns = [
        Heading(written("size", size), "error") if title else Heading(name, "error", written("size", size))
        for size, name in pairs
    ]
    least = {pair: min(cells[method, *pair].summary.mean for method in methods) for pair in pairs}
    rows = [
        [
            Field(title_of(method), ["the reference" if method == evaluation.config.reference else method]),
            *(_error(cells[method, *pair], least[pair], decimals) for pair in pairs),
        ]
        for method in methods
    ]
    about = (
        "Mean and standard deviation of test errors (%), * the lowest of a column; p: corrected t-test against the "
        f"reference, Holm's correction for {evaluation.n_tests} tests; sign: sign test of these splits"
    )
    about += of_intervals(evaluation) + (f": {title}" if title else "")
    return PrintedTable(
        [Heading("method", "head"), *columns], rows, title or "All means", "with deviations and tests", opens=False,
        key=f"errors-{number}", about=about,
    )  # fmt: skip


def _error(cell: Cell, least: float, decimals: int) -> Field:
    """Return mean and deviation, and below it p-values and the number of components where there are fewer."""
    tested = []
    if cell.t_test is not None:
        tested.append("p unknown" if cell.t_test.adjusted is None else written("p", cell.t_test.adjusted))
    if cell.test is not None:
        tested.append(f"sign {written('p', cell.test.p_value)}")
    return Field(
        spread(cell.summary, decimals),
        [*_interval(cell, decimals), *tested, *([f"with {cell.used}"] if cell.used < cell.n_components else [])],
        best=math.isclose(cell.summary.mean, least, rel_tol=1e-12, abs_tol=1e-12),
        bold=cell.differs and cell.t_test is not None and cell.t_test.difference < 0,
    )


def _interval(cell: Cell, decimals: int) -> list[str]:
    return [] if cell.interval is None else ["{:.{n}f} to {:.{n}f}".format(*cell.interval, n=decimals)]


def of_intervals(evaluation: Evaluation) -> str:
    """Return what tables say of intervals, where these are asked for."""
    some = any(cell.interval for cell in evaluation.cells.values())
    return f"; {LEVEL:.0%} intervals of single errors by nested folds (Bates, Hastie & Tibshirani 2023)" if some else ""


def brief_table(evaluation: Evaluation) -> PrintedTable:
    """Return a row for each method and number of components, and a column for each classifier; none that repeats."""
    decimals, names = digits(evaluation), list(evaluation.classifiers)
    distinct = {cell.key for cell in evaluation.distinct}
    rows: list[list[str]] = []
    for method in evaluation.config.labels:
        for size in evaluation.config.sizes:
            cells = [evaluation.cells[method, size, name] for name in names]
            if any(cell.key in distinct for cell in cells):
                used = cells[0].used
                errors = (", ".join([spread(cell.summary, decimals), *_interval(cell, decimals)]) for cell in cells)
                rows.append([method, f"{used} of {size}" if used < size else str(used), *errors])
    columns = [Heading("method", "head"), Heading("components", "number"), *(Heading(name, "error") for name in names)]
    return PrintedTable(columns, rows, key="cells", about=ERRORS_IN_BRIEF + of_intervals(evaluation))


def class_table(evaluation: Evaluation) -> PrintedTable:
    """Return the mean errors of each class, for the cells that the answer names."""
    cells = {cell.key: cell for cell in cells_of_answer(evaluation) if cell is not None}
    means, decimals = [evaluation.table.by_class(key)[1] for key in cells], digits(evaluation)
    classes = zip(evaluation.dataset["classes"], evaluation.dataset["counts"], *means, strict=True)
    rows = [
        [name, f"{count:,}", *(DASH if math.isnan(value) else f"{value:.{decimals}f}" for value in values)]
        for name, count, *values in classes
    ]
    numbers = ("rows", *(named(evaluation, cell) for cell in cells.values()))
    return PrintedTable([Heading("class", "head"), *(Heading(heading, "number") for heading in numbers)], rows)


def regression_table(evaluation: Evaluation) -> PrintedTable:
    """Return R^2 and the root mean squared error of each method and number of components, means over the splits."""
    return _measures(evaluation, {"r2": "R\N{SUPERSCRIPT TWO}", "rmse": "RMSE"}, "Linear regression", "regression")


def ranking_table(evaluation: Evaluation) -> PrintedTable:
    """Return how well scores of two classes rank the rows held out, means over the splits that hold out both."""
    measures = {"auc": "AUC", "average_precision": "average precision"}
    return _measures(evaluation, measures, "Ranks of the rows by their scores", "ranking")


def _measures(evaluation: Evaluation, measures: Mapping[str, str], title: str, key: str) -> PrintedTable:
    rows = []
    for method, size, classifier in evaluation.cells:
        lines, words = evaluation.table.by_key[method, size, classifier], []
        for kind in measures:
            each = [line[kind] for line in lines if kind in line]
            deviation = stdev(each) if len(each) > 1 else math.nan
            words.append(with_deviation(mean(each), deviation, FORMS[kind]) if each else DASH)
        rows.append([title_of(method), str(size), *([] if evaluation.predicts else [classifier]), *words])
    columns = [Heading("method", "head"), Heading("components", "number")]
    columns += [] if evaluation.predicts else [Heading("classifier", "name")]
    columns += [Heading(name, "number") for name in measures.values()]
    about = f"{' and '.join(measures.values())}, mean and deviation over splits"
    return PrintedTable(columns, rows, title, opens=False, key=key, about=about)


def standings(evaluation: Evaluation) -> PrintedTable:
    """Return a row for each method: its lowest mean error, and how often it differs from the reference significantly.

    It is compared with the reference's mean with as many components under the same classifier, and with that of all
    columns, by the corrected t-test after Holm's correction.
    """
    decimals, rows, compared_with = digits(evaluation), [], [(title_of(evaluation.config.reference), evaluation.cells)]
    if evaluation.all_columns not in (None, evaluation.config.reference):
        compared_with.append((ALL_COLUMNS, evaluation.against_all_columns))
    sides = [f"{side} {other}" for other, _ in compared_with for side in ("below", "above")]
    for method in evaluation.config.labels:
        best = lowest([cell for cell in evaluation.cells.values() if cell.method == method])
        with_what = f"{components(evaluation, best)}, {label(evaluation, best.classifier)}"
        compared = [count for _, cells in compared_with for count in _significant(cells, method)]
        rows.append([title_of(method), f"{spread(best.summary, decimals)}%", with_what, *compared])
    return PrintedTable(
        [
            Heading("method", "head"), Heading("lowest mean error", "number"), Heading("with", "name"),
            *(Heading(f"significantly {each}", "number") for each in sides),
        ],
        rows,
        key="standings",
        about="Every method's lowest mean error, and how it compares with the reference", brief=3,
    )  # fmt: skip


def _significant(cells: Mapping[Key, Cell], method: str) -> list[str]:
    """Return how many tests of a method find fewer errors, and how many find more."""
    tests = [cell.t_test for cell in cells.values() if cell.method == method and cell.t_test is not None]
    counts = [sum(test.is_significant and sign * test.difference > 0 for test in tests) for sign in (-1, 1)]
    return [f"{count} of {len(tests)}" if tests else DASH for count in counts]


def costs(evaluation: Evaluation) -> PrintedTable:
    """Return time and bytes read for each method, and for what serves several."""
    seconds, read = evaluation.seconds, evaluation.bytes_read
    names = list(dict.fromkeys([*evaluation.config.labels, *SHARED, *seconds, *read]))
    names = [name for name in names if name in seconds or name in read]
    rows = [
        (
            SHARED.get(name) or title_of(name),
            written("time", seconds.get(name)),
            written("bytes", read.get(name)),
        )
        for name in names
    ]
    columns = [Heading("what"), Heading("time", "number"), Heading("read", "number")]
    return PrintedTable(columns, rows, key="costs", about="Time and bytes read")


MARGIN_WORDS = (
    "What the methods named after the margin seek to keep is the distance between the classes. Here it is measured: "
    "how far rows are from the hyperplane of a linear classifier, negative where they are on the wrong side.",
    "In the tables, the smallest signed distance, and below it the Wasserstein-1 distance between the signed distances "
    "after projection and those in the original columns; means over the splits.",
)


@dataclass(frozen=True)
class SignedMargins:
    """Margins of one method, number of components and classifier, over the splits."""

    n_components: float
    minimum: float  # here and below, means over the splits
    median: float
    wasserstein: float  # distance from the signed distances in the original columns
    records: list[dict[str, Any]]  # one for each split

    @classmethod
    def of(cls, records: list[dict[str, Any]]) -> SignedMargins:
        """Return the means over the splits."""
        return cls(
            records[0]["n_components"],
            minimum=float(np.mean([record["minimum"] for record in records])),
            median=float(np.mean([record["quantiles"][QUANTILES.index(50)] for record in records])),
            wasserstein=float(np.mean([record["wasserstein"] for record in records])),
            records=records,
        )

    def reach(self) -> tuple[float, float]:
        """Return the distances between which 98% of the rows are, in the splits where that is widest."""
        quantiles = np.array([record["quantiles"] for record in self.records])
        return float(quantiles[:, 0].min()), float(quantiles[:, -1].max())

    def shares(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of all rows in each bar; within the bars of a record, rows count as spread evenly."""
        below, total = np.zeros(len(edges)), 0
        for record in self.records:
            counts = np.asarray(record["histogram"])
            low, high = record["edges"]
            # Equal distances make a bar without width.
            own = np.linspace(low, high if high > low else np.nextafter(low, np.inf), len(counts) + 1)
            below += np.interp(edges, own, np.concatenate([[0], np.cumsum(counts)]))
            total += int(counts.sum())
        return np.diff(below) / max(total, 1)


def signed_margins(evaluation: Evaluation) -> dict[Key, SignedMargins]:
    """Return the margins by method (``""`` for the original columns), number of components and classifier."""
    grouped: dict[Key, list[dict[str, Any]]] = {}
    for record in evaluation.margins:
        grouped.setdefault((record["method"], record["n_components"], record["classifier"]), []).append(record)
    return {key: SignedMargins.of(records) for key, records in grouped.items()}


def margin_tables(evaluation: Evaluation) -> list[PrintedTable]:
    """Return a table of margins for each classifier that has any."""
    margins_of = signed_margins(evaluation)
    classifiers = dict.fromkeys(name for _, _, name in margins_of)
    return [_margin_table(evaluation, margins_of, name, number) for number, name in enumerate(classifiers, 1)]


def _margin_table(
    evaluation: Evaluation, margins_of: dict[Key, SignedMargins], classifier: str, number: int
) -> PrintedTable:
    sizes = sorted({size for method, size, name in margins_of if method and name == classifier})
    rows = [
        [
            Field(ALL_COLUMNS, [f"{before.n_components} columns"]),
            *[Field(written("margin", before.minimum), [DASH])] * len(sizes),
        ]
        for (method, _, name), before in margins_of.items()
        if not method and name == classifier
    ]
    for method in evaluation.reducing:
        margins = [margins_of.get((method, size, classifier)) for size in sizes]
        if any(margins):
            cells = [
                Field(written("margin", m.minimum), [written("margin", m.wasserstein)]) if m else Field(DASH)
                for m in margins
            ]
            rows.append([Field(title_of(method), [method]), *cells])
    title = label(evaluation, classifier)
    return PrintedTable(
        [Heading("method", "head"), *(Heading(written("size", size), "error") for size in sizes)],
        rows,
        title,
        key=f"margins-{number}",
        about=f"Smallest margin and Wasserstein-1 distance from the original columns: {title}",
    )
