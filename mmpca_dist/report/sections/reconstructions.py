"""Images rebuilt from few components."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.jobs.counted import Counted
from mmpca_dist.jobs.records import COUNT
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.pictures.chart import words
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.pictures.mosaic import greys, mosaic
from mmpca_dist.results.figures import Figures, note_of_models
from mmpca_dist.results.run_result import SolvedRun
from mmpca_dist.statistics.widened_rows import filled_rows
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import encode

EXAMPLES = 4
"""Rows that are rebuilt; classes beyond so many are represented by some, evenly spaced."""
WINDOWS, WINDOW_ROWS = 8, 256
"""Rows are taken from the beginnings of a few chunks, as far as labels have to be read for it."""
MAX_SIZES = 3
LETTERS = 12
"""Letters of the label above an image."""


@dataclass(frozen=True)
class Reconstructions:
    """A few rows, and what the first components of the methods rebuild of them."""

    rows: NDArray[np.float64]
    """Shape (m, d): as they were read."""
    before_noise: NDArray[np.float64] | None
    """Shape (m, d): the same rows before noise was added, if the data set has them."""
    labels: list[str]
    sizes: list[int]
    """Numbers of components, as asked for, increasing."""
    rebuilt: dict[str, dict[int, NDArray[np.float64]]]
    """For each method's name and number of components, ``inverse_transform(transform(rows))``, shape (m, d). A method
    with fewer components than asked for has an entry under the number it has."""

    @classmethod
    def of(
        cls, dataset: Dataset, classes: NDArray, models: Iterable[tuple[str, MomentReducer]], sizes: Sequence[int]
    ) -> Reconstructions:
        """Rebuild a few rows by the first components of every model.

        A few rows of the data set that the models were fitted to are read, and the same before noise was added. The
        models, with their names, are used one after the other. ``sizes`` increase; of more than three the first, the
        middle and the last are shown.
        """
        numbers, codes = example_rows(dataset, classes)
        rows, noiseless = _read(dataset, numbers), dataset.stored.before_noise
        before = None if noiseless is None else replace(dataset, source=noiseless)
        last = len(sizes) - 1
        shown = list(sizes) if last < MAX_SIZES else [sizes[i] for i in (0, last // 2, last)]
        return cls(
            rows=rows,
            before_noise=None if before is None else _read(before, numbers),
            labels=[str(classes[code]) for code in codes],
            sizes=shown,
            rebuilt={name: _rebuilt(model, rows, shown) for name, model in models},
        )


def _rebuilt(model: MomentReducer, rows: NDArray, sizes: Sequence[int]) -> dict[int, NDArray]:
    """Return the rows from so many components, or as many as there are, by their number."""
    rebuilt = {}
    for size in sizes:
        shorter = copy.copy(model)
        shorter.covariates_ = ()  # they are gone from these rows, which have no names either
        shorter.__dict__.pop("feature_names_in_", None)
        if model.traits.nested:
            shorter.shorten(min(size, len(model.components_)))
        rebuilt[shorter.fitted().used] = shorter.inverse_transform(shorter.transform(rows))
    return rebuilt


def example_rows(dataset: Dataset, classes: NDArray) -> tuple[list[int], list[int]]:
    """Return the numbers and class codes of a few rows: the first of each class, or of some classes."""
    edges = dataset.chunk_edges
    starts = edges[np.unique(np.linspace(0, len(edges) - 2, WINDOWS).astype(int))]
    windows = [(int(start), int(min(start + WINDOW_ROWS, dataset.n_rows))) for start in starts]
    numbers = np.concatenate([np.arange(*window) for window in windows])
    labels = np.concatenate([dataset.read_labels(*window) for window in windows])
    numbers, firsts = np.unique(numbers, return_index=True)  # windows of small chunks overlap
    codes = encode(labels[firsts], classes, dataset.uri)
    present = np.unique(codes)
    shown = present[np.linspace(0, len(present) - 1, min(EXAMPLES, len(present))).astype(int)]
    each = max(EXAMPLES // len(shown), 1)
    chosen = np.concatenate([np.flatnonzero(codes == code)[:each] for code in shown])
    return numbers[chosen].tolist(), codes[chosen].tolist()


def _read(dataset: Dataset, numbers: Sequence[int]) -> NDArray[np.float64]:
    return np.concatenate([np.array(dataset.read_rows(i, i + 1), np.float64) for i in numbers])


def _data(finished: SolvedRun, methods: Sequence[Figures]) -> Reconstructions | None:
    """Return a few rows and what the methods rebuild of them, where rows are images that can be read."""
    count, dataset = finished.results.of(COUNT), finished.table
    if not count["image_shape"] or not isinstance(dataset, Dataset):
        return None
    models = ((method.name, finished.model(method.name)) for method in methods)
    sizes = sorted({size for method in methods for size in method.requested})
    first = finished.model(methods[0].name)
    if first.covariates_:
        dataset = filled_rows(dataset, first.mean_, first.adjustment_)
    return Reconstructions.of(dataset, Counted(count).classes, models, sizes)


def _reconstructions(methods: Sequence[Figures], shown: Reconstructions, dataset: Mapping[str, Any]) -> list[Figure]:
    shape = dataset["image_shape"]
    tops = [("as read", shown.rows)]
    if shown.before_noise is not None:
        tops = [("original", shown.before_noise), ("with noise", shown.rows)]
    ends = (float(tops[0][1].min()), float(tops[0][1].max()))

    def line(name: str, rows: NDArray, above: Sequence[str] = ()) -> tuple[str, list[NDArray[np.uint8]], Sequence[str]]:
        return name, [greys(row.reshape(shape), ends) for row in rows], above

    labels = [words(label, LETTERS) for label in shown.labels if dataset["classes"]]
    panels = [mosaic("", [line(name, rows, () if i else labels) for i, (name, rows) in enumerate(tops)])]
    for method in methods:
        # A method with fewer components than asked for shows all that it has once.
        rebuilt = shown.rebuilt[method.name]
        sizes = dict.fromkeys(min(size, max(rebuilt)) for size in shown.sizes)
        lines = [line(f"K = {size}", rebuilt[size]) for size in sizes if size in rebuilt]
        panels.append(mosaic(words(method.title), lines))
    caption, title = _words(shown)
    for method in methods:
        if method.method.rebuilds:
            caption += f" Of {method.title}, it is {method.method.rebuilds}."
    caption += note_of_models(methods, "with K components each, their expected rows are averaged")
    return [Figure("reconstructions", title, caption, panels)]


def _words(shown: Reconstructions) -> tuple[str, str]:
    """Return caption and title."""
    rebuilt = (
        "what each method rebuilds from K components alone: of all rows with the same K coordinates, the one nearest "
        "to the mean. What is missing there, no classifier sees after the reduction."
    )
    if shown.before_noise is None:
        return f"A few rows as they were read, and {rebuilt}", "Rows rebuilt from few components"
    return (
        f"A few rows before noise was added (which no method has seen), with the noise, and {rebuilt} Noise spreads "
        "evenly over all components and images over few, so a small K leaves most of the noise behind, and too small "
        "a K also the image. Shades end at the least and greatest values of the originals.",
        "Noisy rows, denoised by few components",
    )


RECONSTRUCTIONS = ReportSection("reconstructions", 70, _reconstructions, _data)
