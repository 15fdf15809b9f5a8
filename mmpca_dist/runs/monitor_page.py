"""The page of ``mmpca monitor``: a control chart of its history, and what stands out in the last rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmpca_dist.belonging.model import Belonging
from mmpca_dist.configuration.requests import TransformConfig
from mmpca_dist.errors import plural
from mmpca_dist.jobs.directory import RunDirectory, transform_folder
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.chart import Axis, Panel, distinct, key, percent
from mmpca_dist.pictures.frame import Field, Figure, Heading, PagePart, PrintedTable
from mmpca_dist.report.pages import page
from mmpca_dist.report.sections.outlying import NAMES, WIDE, Outlying, outlying_figures, outlying_part
from mmpca_dist.results.dataset_tables import bars
from mmpca_dist.results.forms import written
from mmpca_dist.results.outlying_rows import OutlyingRows, as_scored, kept_statistics, some_of
from mmpca_dist.runs.transform import CONVERTED, inputs_of
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import open_group

DRAWN, CLASSES, BAR, NAMED = 2000, 20, 24, 5
"""Rows and classes that are drawn, letters of the longest bar on a terminal, and classes that are described."""
CHART = (
    "The share of rows that do not belong, by night; rows like those of the run are above the dashed line in a share "
    "alpha of nights at most. Triangles are alarms, also for classes that moved or are new."
)
MOVED = (
    "How far the mean of each class is from that of the run, over the spread within classes. Small: the columns that "
    "it moved along most, and p of the test that it did not move, after Holm's correction for all classes."
)


def scored_rows(
    run: RunDirectory, belonging: Belonging, asked: TransformConfig, alpha: float, far: Sequence[int]
) -> Outlying:
    """Return rows of a transformed batch, evenly spaced and those far out, with what columns add to their scores."""
    group: Any = open_group(asked.table)
    n = group["p"].shape[0]
    at = np.union1d(np.arange(0, n, max(1, n // DRAWN)), np.array(far, int))
    columns = {name: group[name].oindex[at] for name in [*belonging.counts, "p"]}
    title, numbers, statistics = title_of(belonging.method), group["row"].oindex[at], kept_statistics(run)
    one, told = OutlyingRows.of(title, belonging, numbers, columns, alpha, statistics), list[Any]()
    if one.farthest():
        again, model = f"{asked.table}.rows.zarr", load_model(run.uri, belonging.method)
        try:
            rows = inputs_of(asked.model_copy(update={"destination": again}), Callback()).dataset
            told = one.explained(
                belonging, as_scored(rows, run.config, model), at, getattr(model, "feature_names_in_", None)
            )
        finally:
            storage.remove(transform_folder(again) + CONVERTED)  # text that was converted once more
    return [one], [told], f"of {some_of(len(at), n)}"


def monitor_page(
    last: Mapping[str, Any], nights: Sequence[Mapping[str, Any]], scored: Outlying, words: Sequence[str],
    n_features: int,
) -> str:  # fmt: skip
    """Return the page of the ``last`` batch as one HTML document, with the chart of all nights with its method."""
    same = [one for one in nights if one["method"] == last["method"]]
    heads = [Heading("night", "number"), Heading("data set"), Heading("rows", "number"),
             Heading("do not belong", "number"), Heading("alarm")]  # fmt: skip
    rows: list[list[Field | str]] = [
        [str(i), one["dataset"].rpartition("/")[2].rsplit(".", 1)[0], f"{one['rows']:,}",
         written("share", one["outside"] / max(one["rows"], 1)), "; ".join(reasons(one))]
        for i, one in reversed([*enumerate(same, 1)])
    ]  # fmt: skip
    dataset = {"uri": last["dataset"], "n_rows": last["rows"], "n_features": n_features, "classes": []}
    parts = [
        PagePart("nights", "Night by night", figures=[control_chart(same)], tables=[PrintedTable(heads, rows)]),
        *([_drift(last)] if last.get("classes") else []),
        outlying_part(scored, outlying_figures((), scored)),
    ]
    return page("Monitor", dataset, parts, {"night": len(same)}, answer=PagePart("", "", lead=words))


def control_chart(nights: Sequence[Mapping[str, Any]]) -> Figure:
    """Return the share of rows that do not belong, with its limit, and the classes that moved, by night."""
    numbers, counts = np.arange(1, len(nights) + 1), np.array([max(one["rows"], 1) for one in nights])
    alarms = np.array([one["alarm"] for one in nights])
    shares, most = (np.array([one[name] for one in nights]) / counts for name in ("outside", "limit"))
    left, right = (Panel(title, "night", label, width=WIDE, x=Axis(whole=True)) for title, label in (
        ("Rows that do not belong", "share of rows"), ("Classes that moved, or are new", "")))  # fmt: skip
    left.y = Axis(0, format=percent)
    left.line(numbers, shares, "faint")
    left.line(numbers, most, "ink", dash="dashed")
    for chosen, look in ((~alarms, ("faint", "circle")), (alarms, ("c1", "triangle"))):
        left.points(numbers[chosen], shares[chosen], *look, 8)
    names = list(dict.fromkeys(name for one in nights for name in [*one["moved"], *one["new"]]))[:CLASSES]
    right.x.see(numbers)
    right.y = Axis(-0.5, max(len(names), 1) - 0.5, ticks=[*enumerate(distinct(names, 14))])
    for kind, hollow in (("moved", False), ("new", True)):
        at = [(i, names.index(name)) for i, one in enumerate(nights, 1) for name in one[kind] if name in names]
        right.points([i for i, _ in at], [j for _, j in at], "c1", size=8, hollow=hollow)
    keys = [key("as in the run", "faint", "circle"), key("alarm", "c1", "triangle"), key("limit", "ink", dash="dashed"),
            *([key("moved", "c1", "circle"), key("new", "c1", "circle", hollow=True)] if names else [])]  # fmt: skip
    alt = f"{plural(int(alarms.sum()), 'alarm')} in {plural(len(nights), 'night')}."
    panels = [left.drawn(), *([right.drawn()] if names else [])]
    return Figure("nights", "Night by night", f"{alt} {CHART}", panels, keys, alt)


def _by_distance(record: Mapping[str, Any]) -> list[tuple[dict[str, Any], float, str]]:
    """Return the classes that moved farthest, how far, and a mark on those that moved."""
    found = [(one, one["distance"] or 0.0, "moved" * (one["class"] in record["moved"])) for one in record["classes"]]
    return sorted(found, key=lambda each: -each[1])[:CLASSES]


def _drift(record: Mapping[str, Any]) -> PagePart:
    classes = _by_distance(record)
    rows: list[list[Field | str]] = [
        [Field(one["class"], [", ".join(one["columns"])], mark), f"{one['rows']:,.0f}",
         Field(f"{size:.2f}", [written("p", one["p"])]), bar]
        for (one, size, mark), bar in zip(classes, bars(size for _, size, _ in classes), strict=True)
    ]  # fmt: skip
    heads = [Heading("class", "head"), Heading("rows", "number"), Heading("distance", "number"), Heading("", "bar")]
    return PagePart("drift", "Which classes moved", [MOVED], tables=[PrintedTable(heads, rows)])


def reasons(record: Mapping[str, Any]) -> list[str]:
    """Return why a batch raises an alarm; nothing where it raises none."""
    many = ["too many rows do not belong"] * (record["outside_p"] <= record["alpha"])
    changes = [f"{name} moved" for name in record["moved"]] + [f"{name} is new" for name in record["new"]]
    return many + changes[:NAMED] + [f"{len(changes) - NAMED} more"] * (len(changes) > NAMED)


def bar_lines(record: Mapping[str, Any]) -> list[str]:
    """Return bars of text: of columns in the rows that stand out most, and of how far classes moved."""
    lines = []
    for row in record["why"]:
        lines.append(f"Row {row['row']:,}, shares of columns in {NAMES[row['score']]}:")
        lines += _bars([(name, share, written("share", share)) for name, share in row["columns"]])
    if record.get("classes"):
        lines.append("How far the mean of each class moved, over its spread:")
        lines += _bars([(one["class"], size, f"{size:.2f} {mark}") for one, size, mark in _by_distance(record)])
    return lines


def _bars(told: Sequence[tuple[str, float, str]]) -> list[str]:
    longest, wide = max(size for _, size, _ in told) or 1, max(len(name) for name, *_ in told)
    return [
        f"  {name:<{wide}}  {'#' * round(BAR * size / longest):<{BAR}}  {word}".rstrip() for name, size, word in told
    ]
