"""The page of ``mmpca compare``: runs, or evaluations, drawn over one another, with what differs between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import DamageError
from mmpca_dist.jobs.finished_runs import open_run
from mmpca_dist.jobs.records import Results
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.chart import DASHES, NARROW, WIDTH, Axis, Panel, key, percent, words
from mmpca_dist.pictures.frame import Drawn, Field, Figure, Heading, Key, PagePart, PrintedTable
from mmpca_dist.pictures.palette import place_look
from mmpca_dist.report.pages import page
from mmpca_dist.report.sections.projections import ProjectedSample, class_keys, projection_panel, separation
from mmpca_dist.results.forms import DASH
from mmpca_dist.results.run_result import RunResult, SolvedRun, run_result
from mmpca_dist.runs.compare_runs import Comparison

TURNED = (
    "The rows along the first two components, a panel for each run. Where the runs show the same rows, those of the "
    "other runs are turned and mirrored towards those of A: directions within a plane have no meaning of their own."
)
PAIRED = 230
"""Pixels of a panel of which four stand side by side, and two on a phone, so that those of two runs do."""
MANY, NUMBER = 40, re.compile(r"[-+.,%\de]+")
"""Rows of a table that is folded away; what stands to the right in its column."""
HELD = "The share of its total that the first components of a method hold together, a line for each run."
ERRORS = "Mean test error in percent, on one scale: a panel a method, a colour a classifier, a line a run."


def compare_page(comparisons: Sequence[Comparison]) -> str:
    """Return what differs between runs, and their pictures over one another, as one HTML document."""
    parts, lead, named, differ = list[PagePart](), list[str](), dict(comparisons[0].runs), dict[str, None]()
    for one in comparisons:
        (about, settings), (title, rows) = one.tables().items()
        differ |= dict.fromkeys(row["setting"] for row in settings)
        told, drawn, *lowest = _of_runs(one) if one.content == "run" else _errors(one)
        lead += told
        found = [{**row, "method": title_of(row["method"])} for row in rows if row.get("components") != DASH]
        parts += [
            *(PagePart(figure.name, figure.title, figures=[figure]) for figure in drawn),
            *(PagePart("lowest", "Lowest error of each method, in percent", tables=[table]) for table in lowest),
            *([PagePart(f"{one.content}-settings", about, tables=[_table(about, settings)])] if settings else []),
            *([PagePart(f"{one.content}-results", title, tables=[_table(title, found, one.notes)])] if found else []),
        ]
    lead.append(", ".join(f"{letter} is {folder}" for letter, folder in named.items()) + ".")
    dataset = {"uri": f"{len(named)} runs", "n_rows": 0, "n_features": 0, "classes": []}
    lead[-1] += f" They differ in {', '.join(differ)}." if differ else " Their settings and data are the same."
    return page("Comparison", dataset, parts, {}, answer=PagePart("", "", lead=lead))


def _best(found: dict[str, tuple[float, str]], told: str, more: str) -> list[str]:
    """Return which run is best by its best method, and by how much; ``found`` has percentages and their methods."""
    ranked = sorted(found.items(), key=lambda each: each[1][0] if more == "less" else -each[1][0])
    if len(ranked) < 2:
        return []
    (letter, (best, how)), *others = ranked
    gaps = [f"{abs(value - best):.1f}" for _, (value, _) in others]
    rest = [f"{f'{gap} percentage points {more} than' if float(gap) else 'the same as'} {of} ({value:.1f}%, {by})"
            for gap, (of, (value, by)) in zip(gaps, others, strict=True)]  # fmt: skip
    return [f"{letter} {told.format(best)} ({how}), {' and '.join(rest)}."]


def _table(title: str, rows: Sequence[dict[str, str]], notes: Sequence[str] = ()) -> PrintedTable:
    kinds = {name: "number" if all(NUMBER.fullmatch(row[name]) for row in rows) else "text" for name in rows[0]}
    columns = [Heading(name, kind if i else "head") for i, (name, kind) in enumerate(kinds.items())]
    table = PrintedTable(columns, [list(row.values()) for row in rows], above=" ".join(notes), about=title, brief=4)
    return table if len(rows) <= MANY else replace(table, title=title, aside=f"in {len(rows)} rows", opens=False)


def _of_runs(comparison: Comparison) -> tuple[list[str], list[Figure]]:
    contents = {letter: _contents(folder) for letter, folder in comparison.runs.items()}
    separates, what = dict[str, tuple[float, str]](), "classes"
    for letter, (one, sample) in contents.items():
        what = "ranges of the number to predict" if one.dataset.get("targets") else what
        for name, share in list(separation(sample, one.methods).items())[:1] if sample is not None else []:
            separates[letter] = 100 * share, title_of(name)
    counts = Counter(method.name for one, _ in contents.values() for method in one.methods)
    labels = [label for label, count in counts.items() if count > 1]
    held, rows, legend, width = [], [], dict[str, Key](), PAIRED if len(contents) == 2 else WIDTH
    for label in labels:
        panel = Panel("", "component", "share of the total", 170, NARROW, Axis(whole=True), Axis(0, format=percent))
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
                rows.append(projection_panel(f"{letter}: {method.label}", turned, sample, keys, ranks, width))
                legend |= {each.label: key(each.label, each.colour, each.mark) for each in keys}
        held.append(panel.drawn())
    runs = [key(letter, *place_look(i), "dashed" if i else "", hollow=i > 0) for i, letter in enumerate(contents)]
    figures = [Figure("compared-shares", "How much the components hold", HELD, held, runs)]
    if rows:
        figures.insert(0, Figure("compared-rows", "The rows along the components", TURNED, rows, [*legend.values()]))
    told = f"separates the {what} most: {{:.1f}}% of the spread along two components lies between them"
    scatter = "holds most of the scatter: {:.1f}% of it along two components"
    return _best(separates, told if all(one.labelled for one, _ in contents.values()) else scatter, "more"), figures


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


def _errors(comparison: Comparison) -> tuple[list[str], list[Figure], PrintedTable]:
    panels, lowest, least = list[Drawn](), list[list[Field | str]](), dict[str, tuple[float, str]]()
    dashes = dict(zip(comparison.runs, [*DASHES, *len(comparison.runs) * ["dotted"]], strict=False))
    classifiers = dict.fromkeys(row["classifier"] for row in comparison.results)
    for method in dict.fromkeys(row["method"] for row in comparison.results):
        panel, sizes = Panel(words(title_of(method)), "components", "test error (%)", 190, PAIRED), set[int]()
        panel.y.see([row[f"error {letter}"] for row, letter in product(comparison.results, dashes)])
        best: dict[str, tuple[float, str]] = {}
        for (place, classifier), (letter, dash) in product(enumerate(classifiers), dashes.items()):
            found = sorted(
                (int(row["components"].partition(",")[0]), row[f"error {letter}"])
                for row in comparison.results
                if (row["method"], row["classifier"]) == (method, classifier) and row[f"error {letter}"] is not None
            )
            for error, size in sorted((error, size) for size, error in found)[:1]:
                best[letter] = min(best.get(letter, (error, "~")), (error, f"K = {size}, {classifier}"))
            (colour, mark), (at, errors) = place_look(place), zip(*found, strict=True) if found else ((), ())
            sizes |= {*at}
            panel.line(at, errors, colour, dash=dash)
            panel.points(at, errors, colour, mark, hollow=letter != "A")
        for letter, (error, how) in best.items():
            least[letter] = min(least.get(letter, (error, "~")), (error, f"{title_of(method)}, {how}"))
        shown = (best.get(letter) for letter in dashes)
        lowest.append([title_of(method), *(Field(f"{one[0]:.2f}", [one[1]]) if one else DASH for one in shown)])
        panel.x.ticks = [(size, str(size)) for size in sorted(sizes)]
        panels += [panel.drawn()] if method != "all-columns" else []
    keys = [key(one, *place_look(i), "") for i, one in enumerate(classifiers)]
    keys += [key(f"run {letter}", "ink", "", dash) for letter, dash in dashes.items()]
    lead = _best(least, "has the lowest mean error of those below, {:.1f}%", "less")
    headings = [Heading("method", "head"), *(Heading(f"error {letter}", "number") for letter in dashes)]
    figures = [Figure("compared-errors", "Errors by number of components", ERRORS, panels, keys)] if panels else []
    return lead, figures, PrintedTable(headings, lowest)
