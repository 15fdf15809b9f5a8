"""Columns that hold nearly all of the scatter, and so dominate components unless columns are standardised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from mmpca_dist.limits import LIMITS

NEARLY_ALL = 0.9
"""Share of the scatter from which on a few columns are named."""
FEW_COLUMNS = 5
"""At most so many columns, and at most a quarter of all or a single one, are few."""


class ColumnSpread:
    """Sums ``squares``, shape (d,), of squared deviations of columns from their means, from blocks of rows in turn."""

    def __init__(self, n_features: int) -> None:
        self._n_rows, self._mean = 0, np.zeros(n_features)
        self.squares = np.zeros(n_features)

    def add(self, rows: NDArray | csr_array) -> None:
        """Add rows, dense or CSR, of shape (k, d)."""
        step = max(1, LIMITS.spread_bytes // (8 * rows.shape[1]))
        for start in range(0, rows.shape[0], step):
            self._add(rows[start : start + step])

    def _add(self, rows: NDArray | csr_array) -> None:
        n_rows = rows.shape[0]
        if issparse(rows):
            mean, variances = mean_variance_axis(rows.astype(np.float64), axis=0)
            squares = variances * n_rows
        else:
            deviations = rows.astype(np.float64)
            mean = deviations.mean(axis=0)
            deviations -= mean
            squares = np.einsum("ij,ij->j", deviations, deviations)
        total, delta = self._n_rows + n_rows, mean - self._mean
        self.squares += squares + delta**2 * (self._n_rows * n_rows / total)
        self._mean += delta * (n_rows / total)
        self._n_rows = total


def stored_dominant_columns(value: Any, n_features: int) -> list[tuple[int, float]]:
    """Return heavy columns from an attribute of a data set; none where it has another form."""
    try:
        heavy = [(int(column), float(share)) for column, share in value]
    except (TypeError, ValueError):
        return []
    return heavy if all(0 <= column < n_features and 0 < share <= 1 for column, share in heavy) else []


def dominant_columns(squares: NDArray[np.float64], total: float | None = None) -> list[tuple[int, float]]:
    """Return the few columns that hold nearly all of the scatter and the share of each, the largest first.

    ``squares``, shape (d,), are sums of squared deviations from the mean, or lower bounds of them with the ``total``.
    There are none where the scatter is spread over many columns.
    """
    total = float(squares.sum()) if total is None else total
    if len(squares) < 2 or not 0 < total < np.inf:
        return []
    largest = np.argsort(squares, kind="stable")[::-1][: min(FEW_COLUMNS, max(1, len(squares) // 4))]
    last = int(np.searchsorted(np.cumsum(squares[largest]) / total, NEARLY_ALL))
    if last == len(largest):
        return []
    return [(int(column), float(squares[column] / total)) for column in largest[: last + 1]]


def dominance_note(heavy: Sequence[tuple[int, float]], names: Sequence[Any] | None, n_features: int) -> str | None:
    """Return the sentence that names such columns; None where there are none."""
    if not heavy:
        return None
    labels = [f"column {column}" if names is None else repr(str(names[column])) for column, _ in heavy]
    shares = [f"{label} ({percent(share)})" for label, (_, share) in zip(labels, heavy, strict=True)]
    total = sum(share for _, share in heavy)
    if len(heavy) == 1:
        subject, follow = f"{labels[0]} holds", "it"
    else:
        subject, follow = f"{', '.join(shares[:-1])} and {shares[-1]} hold", "them"
    return (
        f"{subject[0].upper()}{subject[1:]} {percent(total)} of the scatter of the {n_features} columns, so that "
        f"components mostly follow {follow}. Set standardize: true to give every column the same weight "
        f"({100 / n_features:.2g}% of the scatter); leave it out where all columns have the same unit."
    )


def percent(share: float) -> str:
    """Return a percentage; 100% only where it is exact."""
    return "over 99%" if 0.995 <= share < 1 else f"{share:.0%}"
