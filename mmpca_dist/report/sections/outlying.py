"""Which rows stand out: T2 against Q with limits, scores in the order of the rows, and what columns add to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmpca_dist.jobs.finished_runs import counted
from mmpca_dist.jobs.records import BELONGING
from mmpca_dist.jobs.stored_belonging import load_belonging
from mmpca_dist.passes.units import read_batches
from mmpca_dist.pictures.chart import MOST, Axis, Panel, key, words
from mmpca_dist.pictures.frame import Drawn, Figure, Heading, PagePart, PrintedTable, ReportSection
from mmpca_dist.pictures.palette import MARKS, place_look
from mmpca_dist.report.sections.projections import sampled_chunks
from mmpca_dist.results.figures import Figures
from mmpca_dist.results.forms import written
from mmpca_dist.results.outlying_rows import OutlyingRows, as_scored, kept_statistics, some_of
from mmpca_dist.results.run_result import SolvedRun
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

TITLE = "Which rows stand out"
NAMES = {"t2": "T2", "q": "Q", "distance": "distance"}
OUTSIDE, WIDE = ("c1", "triangle"), 470
ABOUT = (
    "T2 is how far out a row lies along the components, Q how far away from them, both on logarithmic scales. Lines "
    "are the limits at alpha = {alpha:g} over the number of scores, from rows held out: a row above any limit does not "
    "belong. Dashed lines are the limits that theory gives for independent rows of one normal distribution; they "
    "differ where rows are not so, as those of several classes are."
)
ORDER = (
    "The score of each row that is largest for its limit, over this limit, in the order of the rows: rows above the "
    "line do not belong. Their look is that of the score; a dashed line in its colour is its limit by theory."
)
BEYOND = " Triangles within both limits are far from every class."
Outlying = tuple[Sequence[OutlyingRows], Sequence[Sequence[Mapping[str, Any]]], str]
"""Scores by method, the rows that are explained of each, and which rows these are in words."""


def _data(finished: SolvedRun, methods: Sequence[Figures]) -> Outlying | None:
    """Score some rows of the table by each method; None where the run keeps no belonging, or its rows are not there."""
    run, rows = finished.run, finished.table
    if finished.results.find(BELONGING) is None or not isinstance(rows, Dataset):
        return None
    table, statistics = counted(run), kept_statistics(run)
    rows = as_scored(rows, finished.config, finished.model(methods[0].name))
    belongings = [load_belonging(run, method.name) for method in methods]
    numbers, found = list[Any](), list[list[dict[str, Any]]]()
    for start, stop, picks in sampled_chunks(rows.chunk_edges):
        for batch in read_batches(rows, Span(0, (start, stop)), ("covariates",), sparse=rows.sparse):
            X, covariates = batch.X[picks], batch.roles.get("covariates")
            covariates = covariates[picks] if covariates is not None and rows.sparse else None
            found.append([one.columns(X, covariates) for one in belongings])
        numbers.append(start + picks)
    at, scored, told = np.concatenate(numbers), list[OutlyingRows](), list[Any]()
    for method, one, parts in zip(methods, belongings, zip(*found, strict=True), strict=True):
        columns = {name: np.concatenate([part[name] for part in parts]) for name in [*one.counts, "p"]}
        scored.append(OutlyingRows.of(method.title, one, at, columns, one.alpha, statistics))
        told.append(scored[-1].explained(one, rows, at, table.record["feature_names"]))
    return scored, told, f"of {some_of(len(at), rows.n_rows)}, to which the models were fitted"


def outlying_figures(methods: Sequence[Any], data: Outlying, _: Any = None) -> list[Figure]:
    """Return T2 against Q, and the scores in the order of the rows, a panel for each method."""
    scored, _, which = data
    counts = [f"{one.title} {int(one.outside.sum()):,}" for one in scored]
    alt = f"Rows that do not belong, {which}: {', '.join(counts)}."
    names = list(dict.fromkeys(name for one in scored for name in one.limits))
    about = f"{alt} {ABOUT.format(alpha=scored[0].alpha)}{BEYOND if {*names} - {'t2', 'q'} else ''}"
    pairs = [_pair(one) for one in scored if {"t2", "q"} <= one.limits.keys()]
    lines = [key("limit", "ink", dash=""), key("limit by theory", "ink", dash="dashed")]
    keys = [key("belongs", "faint", "circle"), key("does not belong", *OUTSIDE), *lines]
    figures = [Figure("outlying", "T2 against Q", about, pairs, keys, alt)] if pairs else []
    keys = [keys[0], *(key(NAMES.get(name, name), *_look(i)) for i, name in enumerate(names)), *lines]
    order = [_order(one, names) for one in scored]
    return [*figures, Figure("outlying-order", "Scores in the order of the rows", ORDER, order, keys, alt)]


def _look(place: int) -> tuple[str, str]:
    return place_look(place)[0], MARKS[place % len(MARKS)]


def _pair(one: OutlyingRows) -> Drawn:
    panel = Panel(words(one.title, 32), "T2", "Q", x=Axis(log=True), y=Axis(log=True))
    size, far = 5.0 if len(one.numbers) <= 500 else 3.5, [str(one.numbers[i]) for i in one.farthest()]
    panel.notes = [(f"farthest out: row {', '.join(far)}", "")] if far else []
    for chosen, look in ((~one.outside, ("faint", "circle")), (one.outside, OUTSIDE)):
        panel.points(one.columns["t2"][chosen], one.columns["q"][chosen], *look, size)
    for limits, dash in ((one.limits, ""), (one.theory, "dashed")):
        for name, axis in (("t2", "x"), ("q", "y")):
            if name in limits:
                getattr(panel, axis).see([limits[name]])
                panel.rule("ink", **{axis: limits[name]}, dash=dash)
    return panel.drawn()


def _order(one: OutlyingRows, names: Sequence[str]) -> Drawn:
    panel = Panel(words(one.title, 32), "row", "score over its limit", 180, WIDE, y=Axis(log=True))
    excess = np.minimum(one.excess, MOST)
    largest, top = np.argmax(excess, axis=1), excess.max(axis=1)
    panel.y.see([1.0])
    panel.points(one.numbers[top <= 1], top[top <= 1], "faint", size=3.5)
    for i, name in enumerate(one.limits):
        (colour, mark), chosen = _look(names.index(name)), (largest == i) & (top > 1)
        panel.points(one.numbers[chosen], top[chosen], colour, mark)
        if name in one.theory:
            panel.rule(colour, y=one.theory[name] / one.limits[name], dash="dashed")
    panel.rule("ink", y=1.0)
    return panel.drawn()


def outlying_part(data: Outlying, figures: Sequence[Figure]) -> PagePart:
    """Return the pictures, and for each method a table of the shares of columns in scores."""
    heads = [Heading("row", "number"), Heading("score", "name"), Heading("column", "head"), Heading("share", "number")]
    tables = [
        PrintedTable([*heads, Heading("", "bar")], [
            [f"{row['row']:,}", NAMES[row["score"]], name, written("share", share), f"{min(100 * share, 100):.1f}"]
            for row in told for name, share in row["columns"]
        ], one.title, "rows farthest out, by column", opens=one is data[0][0])
        for one, told in zip(data[0], data[1], strict=True) if told
    ]  # fmt: skip
    return PagePart("outlying", TITLE, figures=figures, tables=tables)


OUTLYING = ReportSection("outlying", 25, outlying_figures, _data)
