"""``Belonging``: what a model keeps of the rows that it was fitted to, to tell whether new ones are like these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.belonging.limits import ScoreCounts, with_p
from mmpca_dist.belonging.reference import RowScorer
from mmpca_dist.belonging.score import SCORES
from mmpca_dist.errors import InputError, did_you_mean

EXPLAINED = ("t2", "q")
"""Scores that are sums over columns, or nearly."""


def scores_in(columns: Iterable[str]) -> list[str]:
    """Return the names of scores by their columns."""
    names = {score.column: name for name, score in SCORES.items()}
    return [names[column] for column in columns]


@dataclass(frozen=True)
class Belonging:
    """The scorer of one method, and the counts of the scores of held-out rows."""

    method: str
    scorer: RowScorer
    counts: Mapping[str, ScoreCounts]
    """By the column of each score."""
    alpha: float

    @property
    def n_held_out(self) -> float:
        """The number of held-out rows, or the sum of their weights."""
        return next(iter(self.counts.values())).total

    def columns(self, X: Any, covariates: Any = None) -> dict[str, NDArray]:
        """Return the columns of rows (n, d): scores, their p-values, ``p`` and ``belongs``."""
        scores = self.scorer.scores(X, scores_in(self.counts), covariates)
        return with_p(scores[self.method], self.counts, self.alpha)

    def contributions(self, X: Any, score: str = "q") -> NDArray[np.float64]:
        """Return what each column adds to T2 or Q of rows, shape (n, d).

        To Q it is the square of the column's residual; to T2 (x_j - m_j) times the j-th entry of V S^+ z.

        Source: Miller, Swanson & Heckler 1998, "Contribution plots: a missing link in multivariate quality control".
        """
        if score not in EXPLAINED:
            raise InputError(
                f"There are contributions to {' and '.join(EXPLAINED)}, not to {score!r}."
                f"{did_you_mean(score, EXPLAINED)}"
            )
        scorer, (own, reference) = self.scorer, self.scorer.references[self.method]
        rows = (X.toarray() if issparse(X) else np.asarray(X, np.float64)) - scorer.mean
        A, scale = scorer.matrix[:, own], np.ones_like(scorer.mean) if scorer.scale is None else scorer.scale
        Z = rows @ A
        if score == "t2":
            return rows * (Z @ reference.spread @ (A @ reference.spread).T)
        return (rows / scale - Z @ reference.span @ (A * scale[:, None] @ reference.span).T) ** 2
