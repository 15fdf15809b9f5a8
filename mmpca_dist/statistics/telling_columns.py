"""Columns that nearly tell the classes apart alone: by the levels of a text, or by splits of a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.rows import Rows, draw_sample
from mmpca_dist.tables.column_scatter import percent

TELLING, MAX_TELLING = 0.97, 3
"""Share of the variance of a column, or of the classes, from which on a note names it, and columns that are named."""
ROWS_OF_CLASS, ROWS_OF_LEVEL = 10, 2
"""Rows for each class, and for each level, below which chance may tell."""
MAX_CLASSES, MAX_COLUMNS, SAMPLED_ROWS = 50, 2_000, 10_000
"""Splits are sought for at most so many classes; runs look at so many columns and rows."""


def telling_note(name: str, how: str) -> str:
    """Return the note on a column that nearly tells the classes apart."""
    remedy = "Leave it out (dataset.drop) if it is known only together with the label."
    return f"{name} nearly tells the classes apart alone: {how}. {remedy}"


def telling_shares(columns: Mapping[str, tuple[NDArray, bool]], codes: NDArray) -> dict[str, tuple[float, str]]:
    """Return the share of what varies by class that columns tell of some rows, and how in words.

    ``columns`` are numbers, or numbers of levels where the second value is True, NaN where there is none; ``codes`` the
    classes of the rows. Columns of too few rows are left out.
    """
    shares = {}
    for name, (values, is_text) in columns.items():
        known = ~np.isnan(values)
        classes, own = np.unique(codes[known], return_inverse=True)
        if len(classes) < 2 or len(own) < max(ROWS_OF_CLASS * len(classes), len(codes) / 2):
            continue
        splits = [] if is_text else _splits(values[known], own, len(classes))
        levels = np.unique(values[known], return_inverse=True)[1] if is_text else np.searchsorted(splits, values[known])
        share = _share_of_classes(levels, own)
        at = " and ".join(f"{split:.6g}" for split in splits)
        how = f"its {levels.max() + 1} texts tell" if is_text else f"split at {at} it tells"
        shares[name] = share, f"{how} {percent(share)} of what varies by class"
    return shares


def telling_notes(shares: Mapping[str, tuple[float, str]]) -> list[str]:
    """Return notes on the columns that nearly tell the classes apart."""
    found = [(-share, telling_note(repr(name), how)) for name, (share, how) in shares.items() if share > TELLING]
    return [note for _, note in sorted(found)[:MAX_TELLING]]


def notes_on_telling(rows: Rows) -> list[str]:
    """Return such notes for rows of named columns, before row maps, by a sample of them."""
    stored, dataset = rows.dataset.stored, rows.dataset.unmapped
    is_named = dataset.named_columns and hasattr(stored, "columns")
    if not is_named or dataset.targets or dataset.n_features > MAX_COLUMNS:
        return []
    sample, codes = draw_sample(replace(rows, dataset=dataset), SAMPLED_ROWS)
    levels, columns, at = {each.name: len(each.names) for each in stored.levels}, {}, 0
    for name in stored.columns:
        width = levels.get(name, 1)
        columns[name] = sample[:, at : at + width].astype(np.float64) @ np.arange(1, width + 1), name in levels
        at += width
    return telling_notes(telling_shares(columns, codes))


def _share_of_classes(levels: NDArray[np.intp], codes: NDArray[np.intp]) -> float:
    """Return the share of the variance of indicators of classes that lies between levels; 0 where chance may tell."""
    of_level, of_class = np.bincount(levels), np.bincount(codes)
    if not 2 <= np.count_nonzero(of_level) <= len(codes) / ROWS_OF_LEVEL:
        return 0.0
    pairs, n_rows = np.unique(levels * len(of_class) + codes, return_counts=True)
    left = 1 - (n_rows**2 / of_level[pairs // len(of_class)]).sum() / len(codes)
    return float(1 - left / (1 - ((of_class / len(codes)) ** 2).sum()))


def _splits(values: NDArray[np.float64], codes: NDArray[np.intp], n_classes: int) -> list[float]:
    """Return the best splits of numbers into classes in the order of their medians; each split ends a part."""
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order]) > 0)
    if not len(ends) or n_classes > MAX_CLASSES:
        return []
    medians = np.argsort([np.median(values[codes == label]) for label in range(n_classes)], kind="stable")
    ranks = np.argsort(medians)[codes[order]]
    gains = (np.cumsum(np.where(ranks < rank, 1, -1))[ends] for rank in range(1, n_classes))
    return np.unique([values[order[ends[np.argmax(gain)]]] for gain in gains]).tolist()
