"""The page of ``mmpca compare``: runs, or evaluations, drawn over one another, with what differs between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import DamageError
from mmpca_dist.jobs.directory import versions
from mmpca_dist.jobs.finished_runs import open_run
from mmpca_dist.jobs.records import Results
from mmpca_dist.pictures.chart import DASHES, WIDTH, Axis, Panel, key, percent, words
from mmpca_dist.pictures.frame import Figure, Heading, Key, PagePart, PrintedTable
from mmpca_dist.pictures.palette import method_look, place_look
from mmpca_dist.report.pages import page
from mmpca_dist.report.sections.projections import ProjectedSample, class_keys, projection_panel
from mmpca_dist.results.forms import DASH
from mmpca_dist.results.run_result import RunResult, SolvedRun, run_result
from mmpca_dist.runs.compare_runs import Comparison

TURNED = (
    "The rows along the first two components, a panel for each run. Where the runs show the same rows, those of the "
    "other runs are turned and mirrored towards those of A: directions within a plane have no meaning of their own."
)
WIDE = 480
"""Pixels of a panel of which two stand side by side."""
HELD = (
    "Methods that several runs have. The share of its total that the first components of a method hold together, a "
    "line for each run."
)
ERRORS = (
    "Mean test error in percent, a colour for each method; solid lines are run A, dashed ones B, dotted ones others."
)


def compare_page(comparisons: Sequence[Comparison]) -> str:
    """Return what differs between runs, and their pictures over one another, as one HTML document."""
    parts, named, differ = list[PagePart](), dict(comparisons[0].runs), dict[str, None]()
    for one in comparisons:
        (about, settings), (title, rows) = one.tables().items()
        differ |= dict.fromkeys(row["setting"] for row in settings)
        drawn = _of_runs(one) if one.content == "run" else [_errors(one)]
        found = [row for row in rows if row.get("components") != DASH]
        parts += [
            *([PagePart(f"{one.content}-settings", about, tables=[_table(about, settings)])] if settings else []),
            *(PagePart(figure.name, figure.title, figures=[figure]) for figure in drawn),
            *([PagePart(f"{one.content}-results", title, one.notes, tables=[_table(title, found)])] if found else []),
        ]
    runs = ", ".join(f"{letter} is {folder}" for letter, folder in named.items())
    results = SimpleNamespace(
        dataset={"uri": f"{len(named)} runs", "n_rows": 0, "n_features": 0, "classes": []},
        notes=[], stages={}, versions=versions(), config_yaml="",
    )  # fmt: skip
    told = f"They differ in {', '.join(differ)}." if differ else "Their settings and data are the same."
    return page("Comparison", results, parts, {}, answer=PagePart("", "", lead=[f"{runs}. {told}"]))


def _table(title: str, rows: Sequence[dict[str, str]]) -> PrintedTable:
    columns = [Heading(name, "head" if not i else "text") for i, name in enumerate(rows[0])]
    return PrintedTable(columns, [list(row.values()) for row in rows], about=title)


def _of_runs(comparison: Comparison) -> list[Figure]:
    contents = {letter: _contents(folder) for letter, folder in comparison.runs.items()}
    counts = Counter(method.name for one, _ in contents.values() for method in one.methods)
    labels = [label for label, count in counts.items() if count > 1]
    held, rows, legend = [], [], dict[str, Key]()
    for label in labels:
        panel = Panel(words(label), "component", "share of the total", x=Axis(whole=True), y=Axis(0, format=percent))
        first: NDArray[np.float64] | None = None
        for i, (letter, (one, sample)) in enumerate(contents.items()):
            method = next((each for each in one.methods if each.name == label), None)
            if method is None:
                continue
            colour, mark = place_look(i)
            sums, numbers = np.cumsum(np.nan_to_num(method.mean_shares)), np.arange(1, method.size + 1)
            panel.title = words(method.title)
            panel.line(numbers, sums, colour, dash="dashed" if i else "")
            panel.points(numbers, sums, colour, mark, hollow=i > 0)
            if sample is not None and label in sample.rows and sample.rows[label].shape[1]:
                keys, ranks = class_keys(sample, one.dataset)
                own = np.asarray(sample.rows[label][:, : min(method.size, 2)], np.float64)
                turned = own if first is None else turned_towards(own, first)
                first = own if first is None else first
                rows.append(
                    projection_panel(
                        f"{letter}: {method.label}", turned, sample, keys, ranks, WIDE if len(contents) == 2 else WIDTH
                    )
                )
                legend |= {each.label: key(each.label, each.colour, each.mark) for each in keys}
        held.append(panel.drawn())
    runs = [key(letter, *place_look(i), "dashed" if i else "", hollow=i > 0) for i, letter in enumerate(contents)]
    figures = [Figure("compared-shares", "How much the components hold", HELD, held, runs)]
    if rows:
        figures.insert(0, Figure("compared-rows", "The rows along the components", TURNED, rows, [*legend.values()]))
    return figures


def _contents(folder: str) -> tuple[RunResult, ProjectedSample | None]:
    """Return the result of a run, and a sample of its projected rows, if they are there; its table is not read."""
    result, run = run_result(folder), open_run(folder)
    table: Any = SimpleNamespace(n_rows=result.dataset["n_rows"])
    with suppress(DamageError):  # projected rows are large, and may have been moved away
        return result, ProjectedSample.of(SolvedRun(run, run.config, table, Results(run.records())), result.methods)
    return result, None


def turned_towards(rows: NDArray[np.float64], towards: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows turned and mirrored towards others, the same rows in as many columns; else as they are."""
    if rows.shape != towards.shape or not (np.isfinite(rows).all() and np.isfinite(towards).all()):
        return rows
    left, _, right = np.linalg.svd((rows - rows.mean(axis=0)).T @ (towards - towards.mean(axis=0)))
    return np.asarray(rows @ left @ right)


def _errors(comparison: Comparison) -> Figure:
    panels, dashes, methods = [], list(DASHES), dict[str, None]()
    for classifier in dict.fromkeys(row["classifier"] for row in comparison.results):
        panel = Panel(words(classifier), "components", "test error (%)", 260, x=Axis(whole=True))
        of_classifier = [row for row in comparison.results if row["classifier"] == classifier]
        for method in dict.fromkeys(row["method"] for row in of_classifier):
            methods[method] = None
            colour, mark = method_look(method)
            for i, letter in enumerate(comparison.runs):
                found = sorted(
                    (int(row["components"].partition(",")[0]), row[f"error {letter}"])
                    for row in of_classifier
                    if row["method"] == method and row[f"error {letter}"] is not None
                )
                if found:
                    at, errors = zip(*found, strict=True)
                    panel.line(at, errors, colour, dash=dashes[min(i, len(dashes) - 1)])
                    panel.points(at, errors, colour, mark, hollow=i > 0)
        panels.append(panel.drawn())
    keys = [key(method, *method_look(method), "") for method in methods]
    return Figure("compared-errors", "Errors of both", ERRORS, panels, keys)
