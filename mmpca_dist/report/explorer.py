"""The interactive pictures of a run: its rows along any two components, with a biplot, and the loadings of any one."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.pictures.frame import Field, Figure, Heading, PagePart, Plot, PrintedTable
from mmpca_dist.pictures.palette import SHADES, ramp
from mmpca_dist.report.sections.projections import (
    MAX_KEYS,
    MAX_LETTERS,
    ProjectedSample,
    class_keys,
    reach,
    separation,
    separation_words,
    strips,
)  # fmt: skip
from mmpca_dist.results.figures import Figures, note_of_first, note_of_models
from mmpca_dist.results.forms import written

MAX_NUMBERS = 160_000
"""Coordinates in a page, of all methods and components together: half a megabyte."""
MAX_COMPONENTS, BARS = 16, 15
"""Components whose loadings a page holds, and loadings that have a bar."""
LISTED, LISTED_FEATURES = 2, 6
"""Components of each method whose largest loadings the table lists, and how many these are."""
NO_ROWS = (
    "There is no picture of the rows along the components, as no projected rows are stored: a refresh projects none, "
    "nor does a run from moments, and other runs project for the methods that project.methods names (by default all)."
)
ABOUT_LOADINGS = (
    "The weights of the features in a component, the largest first, components scaled to length one. Red adds to the "
    "coordinate, blue subtracts, and the sign of a whole component has no meaning."
)


RANGES, STEPS = 5, (1 << 16) - 2
"""Ranges of a column of numbers, each with a colour; steps between the ends of packed numbers."""


def packed(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return numbers as the script of the page reads them: base64 of 16 bits each, between the least and the largest.

    The step after the last is NaN.
    """
    finite = np.isfinite(values)
    low, high = (float(values[finite].min()), float(values[finite].max())) if finite.any() else (0.0, 0.0)
    steps = np.full(len(values), STEPS + 1, "<u2")
    steps[finite] = np.round((values[finite] - low) / ((high - low) or 1.0) * STEPS)
    return {"low": low, "high": high, "steps": base64.b64encode(steps.tobytes()).decode("ascii")}


def points_part(
    methods: Sequence[Figures], sample: ProjectedSample | None, dataset: Mapping[str, Any], still: Figure | None
) -> PagePart:
    """Return the rows along any two components of any method, or the reason why there is no such picture."""
    shown = [m for m in methods if sample is not None and m.name in sample.rows and sample.rows[m.name].shape[1]]
    if sample is None or not shown or not len(sample.codes):
        return PagePart("projection", "The rows along the components", [NO_ROWS] if methods else [])
    keys, ranks = class_keys(sample, dataset)
    seen, best = separation_words(sample, shown), next(iter(separation(sample, shown)))
    count = max(2, MAX_NUMBERS // (len(sample.codes) * len(shown)))
    outcome = "class" if keys else dataset.get("targets", [""])[0]
    groups = [{"name": outcome, "labels": [one.label for one in keys], "ranks": ranks.tolist() if keys else []}]
    groups += [_groups_of(name, values) for name, values in sample.columns.items()]
    outcomes = [str(dataset["classes"][code])[:MAX_LETTERS] for code in sample.codes] if keys else None
    outcomes = outcomes or [f"{value:.6g}" for value in sample.values] or list(map(str, sample.codes))
    beside = {f"beside{i}": list(values) for i, values in enumerate(sample.columns.values())}
    explorer = {
        "kind": "points",
        "methods": [_explored(method, sample.rows[method.name], count, dataset) for method in shown],
        "start": [method.name for method in shown].index(best),
        "strips": packed(strips(ranks, len(keys))) if keys else None,
        "rows": {"row": list(sample.numbers or range(len(sample.codes))), "outcome": outcomes, **beside},
        "shades": [] if keys else [ramp(code / (SHADES - 1)) for code in sample.codes],
        "groups": groups,
        "columns": list(sample.columns),
        "images": sample.images,
        "searches": len(dataset["classes"]) > MAX_KEYS and bool(keys),
        "arrows": dataset["image_shape"] is None,
    }
    targets = dataset.get("targets")
    colour = ", coloured by its class" if keys else ""
    colour = f", from blue where {targets[0]} is low to orange" if targets else colour
    caption = (
        f"Each point is a row ({sample.note}){colour}. Point at a row to see which it is; draw a box or a lasso to "
        "mark rows, which stay marked under other methods. Arrows (biplot) show the features with the largest loadings."
    )
    caption += f" {seen}" + note_of_models(shown, "these are coordinates of the first class's model")
    caption += " Classes are named where the names cover few rows; point at one in the legend to name it." * bool(keys)
    more = f", and its values of {', '.join(sample.columns)}" if sample.columns else ""
    more += ", and its image" if sample.images else ""
    caption += f" The page holds of each of these rows its number{', its outcome' * sample.labelled}"
    caption += f" and its coordinates{more}."
    if sample.left_out:
        caption += f" It does not hold {', '.join(sample.left_out)}; report.columns says which columns it does."
    alt = f"A scatter plot of {sample.note}. {seen}"
    plot = Plot("points", "The rows along two components", caption, alt, explorer, still)
    return PagePart("projection", "The rows along the components", plots=[plot])


def _groups_of(name: str, values: Sequence[str]) -> dict[str, Any]:
    """Return the values of a column that colours can tell apart: the most frequent, or ranges of many numbers."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        numbers = np.array([np.nan])
    if len(set(values)) > MAX_KEYS and np.isfinite(numbers).all():
        edges = np.unique(np.quantile(numbers, np.arange(1, RANGES) / RANGES))
        ends = [written("value", edge) for edge in edges]
        labels = [f"below {ends[0]}", *map(" to ".join, pairwise(ends)), f"{ends[-1]} or more"]
        return {"name": name, "labels": labels, "ranks": np.searchsorted(edges, numbers, "right").tolist()}
    counts = Counter(values)
    labels = [value for value, _ in counts.most_common(MAX_KEYS)]
    places = {value: i for i, value in enumerate(labels)}
    if more := len(counts) - len(labels):
        labels.append(f"{more:,} others")
    return {"name": name, "labels": labels, "ranks": [places.get(value, MAX_KEYS) for value in values]}


def _explored(method: Figures, rows: NDArray, most: int, dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page's script needs of a method: coordinates, the ranges to show, and loadings."""
    count = min(rows.shape[1], method.size, most)
    columns = np.asarray(rows[:, :count], dtype=np.float64).T
    ranges = [reach(column[np.isfinite(column)]) for column in columns]
    return {**_loadings(method, dataset), "coordinates": [packed(column) for column in columns], "ranges": ranges}


def _loadings(method: Figures, dataset: Mapping[str, Any]) -> dict[str, Any]:
    directions = method.directions(MAX_COMPONENTS)
    largest = np.argsort(-np.abs(directions), axis=1, kind="stable")[:, :BARS]
    features = np.unique(largest)
    return {
        "label": method.label,
        "features": _names(dataset, features),
        "loadings": [packed(np.asarray(direction[features], np.float64)) for direction in directions],
    }


def _names(dataset: Mapping[str, Any], features: Sequence[int] | NDArray) -> list[str]:
    """Return names of features as pages show them: whole where they are short, and told apart by their numbers."""
    names = dataset["feature_names"]
    texts = ["" if names is None else " ".join(str(names[i]).split())[:MAX_LETTERS] for i in features]
    shown = [text or f"column {i}" for text, i in zip(texts, features, strict=True)]
    return [f"{name} ({i})" if shown.count(name) > 1 else name for name, i in zip(shown, features, strict=True)]


def loadings_part(methods: Sequence[Figures], dataset: Mapping[str, Any], first: str) -> list[PagePart]:
    """Return what components are made of: bars of any component, and a table of the first of each method.

    The bars begin with the method ``first``.
    """
    shown = [method for method in methods if "components" in method.method.sections]
    if not shown:
        return []
    bars = min(BARS, methods[0].components.shape[1])
    explorer = {
        "kind": "loadings",
        "start": next((i for i, method in enumerate(shown) if method.label == first), 0),
        "methods": [_loadings(method, dataset) for method in shown],
        "bars": bars,
    }
    columns = [Heading("method", "head"), Heading("component", "number"), Heading("largest weights")]
    rows = [row for method in shown for row in _listed(method, dataset)]
    table = PrintedTable(columns, rows, "The largest weights", f"of the first {LISTED} components", opens=False)
    alt = "Bars of the largest weights of a component. The table below lists those of the first components."
    one = Plot("weights", "The weights of a component", ABOUT_LOADINGS + note_of_first(shown), alt, explorer)
    return [PagePart("loadings", "What the components are made of", plots=[one], tables=[table])]


def _listed(method: Figures, dataset: Mapping[str, Any]) -> list[list[Field | str]]:
    rows: list[list[Field | str]] = []
    for k, direction in enumerate(method.directions(LISTED)):
        largest = [i for i in np.argsort(-np.abs(direction), kind="stable")[:LISTED_FEATURES] if direction[i]]
        names = _names(dataset, largest)
        weights = (f"{name} {direction[i]:+.2f}" for name, i in zip(names, largest, strict=True))
        rows.append([Field(method.label), str(k + 1), ", ".join(weights)])
    return rows
