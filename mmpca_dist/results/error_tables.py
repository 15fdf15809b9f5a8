"""The tables of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import mean, stdev

from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, MOMENTS
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import Cell, Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.frame import Field, Heading, PrintedTable
from mmpca_dist.results.advice import cells_of_answer
from mmpca_dist.results.forms import DASH, FORMS, with_deviation, written
from mmpca_dist.results.verdict import ALL_COLUMNS, components, digits, label, named, spread

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
    sizes, classifiers = evaluation.n_components, list(evaluation.classifiers)
    together = len(sizes) * len(classifiers) <= WIDEST
    groups = [classifiers] if together else [[name] for name in classifiers]
    return [
        _error_table(evaluation, number, "" if together else label(evaluation, group[0]), group)
        for number, group in enumerate(groups, 1)
    ]


def _error_table(evaluation: Evaluation, number: int, title: str, classifiers: list[str]) -> PrintedTable:
    cells, methods, decimals = evaluation.cells, evaluation.methods, digits(evaluation)
    pairs = [(size, name) for size in evaluation.n_components for name in classifiers]
    columns = [
        Heading(f"K = {size}", "error") if title else Heading(name, "error", f"K = {size}") for size, name in pairs
    ]
    least = {pair: min(cells[method, *pair].summary.mean for method in methods) for pair in pairs}
    rows = [
        [
            Field(title_of(method), ["the reference" if method == evaluation.reference else method]),
            *(_error(cells[method, *pair], least[pair], decimals) for pair in pairs),
        ]
        for method in methods
    ]
    about = (
        "Mean and standard deviation of test errors (%), * the lowest of a column; p: corrected t-test against the "
        f"reference, Holm's correction for {evaluation.n_tests} tests; sign: sign test of these splits"
    )
    about += f": {title}" if title else ""
    return PrintedTable([Heading("method", "head"), *columns], rows, title, key=f"errors-{number}", about=about)


def _error(cell: Cell, least: float, decimals: int) -> Field:
    """Return mean and deviation, and below it p-values and the number of components where there are fewer."""
    tested = []
    if cell.t_test is not None:
        tested.append("p unknown" if cell.t_test.adjusted is None else written("p", cell.t_test.adjusted))
    if cell.test is not None:
        tested.append(f"sign {written('p', cell.test.p_value)}")
    return Field(
        spread(cell.summary, decimals),
        [*tested, *([f"with {cell.used}"] if cell.used < cell.n_components else [])],
        best=math.isclose(cell.summary.mean, least, rel_tol=1e-12, abs_tol=1e-12),
        bold=cell.differs,
    )


def brief_table(evaluation: Evaluation) -> PrintedTable:
    """Return a row for each method and number of components, and a column for each classifier; none that repeats."""
    decimals, names = digits(evaluation), list(evaluation.classifiers)
    distinct = {cell.key for cell in evaluation.distinct}
    rows: list[list[str]] = []
    for method in evaluation.methods:
        for size in evaluation.n_components:
            cells = [evaluation.cells[method, size, name] for name in names]
            if any(cell.key in distinct for cell in cells):
                used = cells[0].used
                errors = (spread(cell.summary, decimals) for cell in cells)
                rows.append([method, f"{used} of {size}" if used < size else str(used), *errors])
    columns = [Heading("method", "head"), Heading("components", "number"), *(Heading(name, "error") for name in names)]
    return PrintedTable(columns, rows, key="cells", about=ERRORS_IN_BRIEF)


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
    return PrintedTable(columns, rows, title, key=key, about=about)


def standings(evaluation: Evaluation) -> PrintedTable:
    """Return a row for each method: its lowest mean error, and how often it differs from the reference significantly.

    It is compared with the reference's mean with as many components under the same classifier, and with that of all
    columns, by the corrected t-test after Holm's correction.
    """
    decimals, rows, compared_with = digits(evaluation), [], [(title_of(evaluation.reference), evaluation.cells)]
    if evaluation.all_columns not in (None, evaluation.reference):
        compared_with.append((ALL_COLUMNS, evaluation.against_all_columns))
    sides = [f"{side} {other}" for other, _ in compared_with for side in ("below", "above")]
    for method in evaluation.methods:
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
        about="Every method's lowest mean error, and how it compares with the reference",
    )  # fmt: skip


def _significant(cells: Mapping[Key, Cell], method: str) -> list[str]:
    """Return how many tests of a method find fewer errors, and how many find more."""
    tests = [cell.t_test for cell in cells.values() if cell.method == method and cell.t_test is not None]
    counts = [sum(test.is_significant and sign * test.difference > 0 for test in tests) for sign in (-1, 1)]
    return [f"{count} of {len(tests)}" if tests else DASH for count in counts]


def costs(evaluation: Evaluation) -> PrintedTable:
    """Return time and bytes read for each method, and for what serves several."""
    seconds, read = evaluation.seconds, evaluation.bytes_read
    names = list(dict.fromkeys([*evaluation.methods, *SHARED, *seconds, *read]))
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
