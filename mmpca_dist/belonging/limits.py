"""Limits of scores from rows that were held out, and the p-values that these give to new rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.passes.serialization import storable

CORRELATED = 0.2
"""Scores of rows that follow each other have at least this correlation where they are not exchangeable."""
ENOUGH = 20
"""Rows a column from which on false alarms were seen to be within 0.8 to 1.25 of alpha."""
MOST_STEPS = 1 << 19
"""Steps from the least score to the largest that are looked up in a table: those of 128 powers of two."""
DIGITS = 40
"""Bits of a double that steps leave out: scores are told apart by 2^-12 of their size."""


@storable
@dataclass(frozen=True)
class ScoreCounts:
    """How many held-out rows, or what weight of these, have scores in each step of 2^-12 of their size.

    A few thousand steps hold the scores of any number of rows, and sums of counts do not depend on who adds them.
    """

    steps: NDArray[np.int64]  # (m,): ascending
    counts: NDArray[np.float64]  # (m,)
    lags: NDArray[np.float64]  # (5,): number, sum and squares of cube roots, and number and products of neighbours

    @classmethod
    def of(cls, scores: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Self:
        """Count scores, which are not negative, of rows that follow each other."""
        steps, places = np.unique(_steps(scores), return_inverse=True)
        roots = np.cbrt(scores)  # which are nearly normal, where scores are sums of squares
        lags = np.array([len(roots), roots.sum(), roots @ roots, max(len(roots) - 1, 0), roots[1:] @ roots[:-1]])
        return cls(steps, np.bincount(places.ravel(), weights, len(steps)).astype(np.float64), lags)

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        steps, places = np.unique(np.concatenate([self.steps, other.steps]), return_inverse=True)
        counts = np.bincount(places.ravel(), np.concatenate([self.counts, other.counts]), len(steps))
        return ScoreCounts(steps, counts.astype(np.float64), self.lags + other.lags)

    @property
    def correlation(self) -> float:
        """The correlation of the scores of rows with those of the next."""
        n, total, squares, pairs, products = self.lags.tolist()
        variance = squares / n - (total / n) ** 2
        return (products / pairs - (total / n) ** 2) / variance if pairs and variance > 0 else 0.0

    @property
    def total(self) -> float:
        """The number of held-out rows, or the sum of their weights."""
        return float(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean score, up to its step."""
        return float((self.steps << DIGITS).view(np.float64) @ self.counts / self.total)

    def p(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (1 + number of held-out scores at least as large) / (n + 1); scores of one step count as equal.

        Source: Vovk, Gammerman & Shafer 2005, "Algorithmic learning in a random world"; across folds Vovk 2015,
        "Cross-conformal predictors".
        """
        codes, (values, table) = _steps(scores), self._tables
        if table is None:
            return values[np.searchsorted(self.steps, codes)]
        return table.take(codes - self.steps[0], mode="clip")

    @functools.cached_property
    def _tables(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """The p-value of each step, and beyond all, and of each number from the first step on; None of very many."""
        values = (1 + np.append(np.cumsum(self.counts[::-1])[::-1], 0.0)) / (self.total + 1)
        first, stop = int(self.steps[0]), int(self.steps[-1]) + 2
        few = stop - first <= MOST_STEPS
        return values, values[np.searchsorted(self.steps, np.arange(first, stop))] if few else None

    def limit(self, alpha: float) -> float:
        """Return the ceil((n + 1) (1 - alpha))-th smallest held-out score, up to its step."""
        rank = math.ceil((self.total + 1) * (1 - alpha))
        place = min(int(np.searchsorted(np.cumsum(self.counts), rank)), len(self.steps) - 1)
        return float((self.steps[place : place + 1] << DIGITS).view(np.float64)[0])


def _steps(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return numbers in the order of scores: doubles that are not negative are ordered as their bits are."""
    return np.ascontiguousarray(scores + 0.0, np.float64).view(np.int64) >> DIGITS


def with_p(columns: Mapping[str, Any], counts: Mapping[str, ScoreCounts], alpha: float) -> dict[str, Any]:
    """Return columns of scores with those of their p-values, of the smallest of them, and ``belongs``.

    ``p`` is the smallest times the number of scores, at most 1; a row belongs where it is above ``alpha``.
    """
    each = {f"{name}_p": own.p(np.asarray(columns[name])) for name, own in counts.items()}
    p = np.minimum(functools.reduce(np.minimum, each.values()) * len(each), 1.0)
    kind = columns[next(iter(counts))].dtype
    single = {name: column.astype(kind, copy=False) for name, column in {**each, "p": p}.items()}
    return {**columns, **single, "belongs": p > alpha}


def notes_on(counts: Mapping[str, Mapping[str, ScoreCounts]]) -> list[str]:
    """Return why limits from folds fire too often, where scores of rows that follow each other are alike."""
    correlated = {
        f"{name} of {method} {own.correlation:.2f}"
        for method, scores in counts.items()
        for name, own in scores.items()
        if own.correlation > CORRELATED
    }
    if not correlated:
        return []
    return [
        "Rows follow each other, as in time: the scores of neighbours correlate "
        f"({', '.join(sorted(correlated))}). Limits from folds are then too low, so that more rows than alpha says do "
        "not belong. Hold out whole stretches: evaluation.splits: blocks, or groups with a column that numbers them."
    ]


def note_on_few(n_rows: int, n_columns: int) -> list[str]:
    """Return that limits are off where rows are few, so that models without a fold differ much from those of all."""
    if n_rows >= ENOUGH * n_columns:
        return []
    return [
        f"There are {n_rows:,} rows of {n_columns:,} columns. Limits of scores are off where rows are fewer than "
        f"{ENOUGH} a column: models without a fold then fit otherwise than that of all rows, whose scores they limit."
    ]


def refuse_few(n_rows: float, alpha: float, n_scores: int, weights: float | None = None) -> None:
    """Raise InputError where no score of so many held-out rows is rare enough to be called so.

    Or where their ``weights`` sum to less, so that they are no counts of rows.
    """
    if weights is not None and weights < n_rows:
        raise InputError(
            f"belonging takes weights for counts of rows, and those of {n_rows:,.0f} rows sum to {weights:,.6g}: scale "
            "them so that they sum to the number of rows, or leave out belonging."
        )
    if (n_rows + 1) * alpha < n_scores:
        needed = math.ceil(n_scores / alpha) - 1
        raise InputError(
            f"belonging.alpha is {alpha:g}, and the p-value of {n_scores} score{'s' * (n_scores > 1)} from "
            f"{n_rows:,.0f} rows cannot be below it: that takes {needed:,} rows. Raise alpha, or ask for fewer scores."
        )
