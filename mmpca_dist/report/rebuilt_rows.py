"""Rows rebuilt from few components."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.datasets.labels import encode
from mmpca_dist.methods.base import MomentReducer
from mmpca_dist.report.contents import Reconstructions

EXAMPLES = 4
"""Rows that are rebuilt; classes beyond so many are represented by some, evenly spaced."""
WINDOWS, WINDOW_ROWS = 8, 256
"""Rows are taken from the beginnings of a few chunks, as far as labels have to be read for it."""
MOST_SIZES = 3


def reconstructions(
    dataset: Dataset, classes: NDArray, models: Iterable[tuple[str, MomentReducer]], n_components: Sequence[int]
) -> Reconstructions:
    """Rebuild a few rows by the first components of every model.

    Parameters
    ----------
    dataset : Dataset
        That the models were fitted to; a few of its rows are read, and as many of those before noise was added.
    classes : array of shape (C,)
        Sorted labels.
    models : iterable of (str, MomentReducer)
        Names and models, which are looked at one after the other.
    n_components : list of int
        Increasing; of more than three the first, the middle and the last are shown.

    Returns
    -------
    Reconstructions
    """
    numbers, codes = example_rows(dataset, classes)
    rows, before = _read(dataset, numbers), dataset.before_noise
    last = len(n_components) - 1
    sizes = list(n_components) if last < MOST_SIZES else [n_components[i] for i in (0, last // 2, last)]
    return Reconstructions(
        rows=rows,
        before_noise=None if before is None else _read(before, numbers),
        labels=[str(classes[code]) for code in codes],
        sizes=sizes,
        rebuilt={name: _rebuilt(model, rows, sizes) for name, model in models},
    )


def _rebuilt(model: MomentReducer, rows: NDArray, sizes: Sequence[int]) -> dict[int, NDArray]:
    """Return the rows from so many components, or as many as there are, by their number."""
    rebuilt = {}
    for size in sizes:
        shorter = copy.copy(model)
        shorter._shorten(min(size, len(model.components_)))
        if len(shorter.components_):
            rebuilt[len(shorter.components_)] = shorter.inverse_transform(shorter.transform(rows))
    return rebuilt


def example_rows(dataset: Dataset, classes: NDArray) -> tuple[list[int], list[int]]:
    """Return the numbers and class codes of a few rows: the first found of each class, or of some."""
    edges = dataset.chunk_edges
    firsts = edges[np.unique(np.linspace(0, len(edges) - 2, WINDOWS).astype(int))]
    windows = [(int(first), int(min(first + WINDOW_ROWS, dataset.n_rows))) for first in firsts]
    numbers = np.concatenate([np.arange(*window) for window in windows])
    labels = np.concatenate([dataset.read_labels(*window) for window in windows])
    numbers, firsts = np.unique(numbers, return_index=True)  # windows of small chunks overlap
    codes = encode(labels[firsts], classes, dataset.uri)
    present = np.unique(codes)
    shown = present[np.linspace(0, len(present) - 1, min(EXAMPLES, len(present))).astype(int)]
    each = max(EXAMPLES // len(shown), 1)
    chosen = [int(i) for code in shown for i in np.flatnonzero(codes == code)[:each]]
    return [int(numbers[i]) for i in chosen], [int(codes[i]) for i in chosen]


def _read(dataset: Dataset, numbers: Sequence[int]) -> NDArray[np.float64]:
    return np.concatenate([np.array(dataset.read_rows(i, i + 1), np.float64) for i in numbers])
