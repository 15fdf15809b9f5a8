"""Rows that stand out: the scores of some rows, their limits, and what columns add to the scores farthest out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.belonging.model import EXPLAINED, Belonging
from mmpca_dist.belonging.theory import theory_limits
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import InputError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import statistics_of
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.statistics.widened_rows import filled_rows
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.dataset import Dataset

FEW, COLUMNS, LEAST = 3, 5, 0.01
"""Rows of each method whose scores are explained, columns that are named of each, and the share that they add."""


@dataclass(frozen=True)
class OutlyingRows:
    """Scores of m rows by a method."""

    title: str
    numbers: NDArray[np.int64]
    """Of the rows, ascending, shape (m,)."""
    columns: Mapping[str, NDArray]
    """By name, shape (m,): the scores, and ``p``."""
    alpha: float
    limits: Mapping[str, float]
    """By score: rows above one of them do not belong, at ``alpha`` over the number of scores."""
    theory: Mapping[str, float]
    """Those that theory gives, at the same share."""

    @classmethod
    def of(
        cls, title: str, belonging: Belonging, numbers: NDArray[np.int64], columns: Mapping[str, NDArray],
        alpha: float, statistics: Statistics | None,
    ) -> OutlyingRows:  # fmt: skip
        """Add limits to scores; components that span all columns leave no Q."""
        each = alpha / len(belonging.counts)
        limits = {name: counts.limit(each) for name, counts in belonging.counts.items()}
        _, reference = belonging.scorer.references[belonging.method]
        if len(limits) > 1 and reference.span.shape[1] == len(belonging.scorer.mean):
            limits.pop("q", None)
        return cls(title, numbers, columns, alpha, limits, theory_limits(belonging, each, statistics))

    @property
    def outside(self) -> NDArray[np.bool_]:
        """Which rows do not belong, shape (m,)."""
        return np.asarray(self.columns["p"] <= self.alpha)

    @property
    def excess(self) -> NDArray[np.float64]:
        """Scores over their limits, shape (m, number of limits)."""
        parts = [self.columns[name] / max(limit, 1e-300) for name, limit in self.limits.items()]
        return np.stack(parts, axis=1)

    def farthest(self) -> list[int]:
        """Return the positions of the few rows that do not belong and stand out most."""
        order = np.lexsort((-self.excess.max(axis=1), self.columns["p"]))
        return [int(i) for i in order[:FEW] if self.outside[i]]

    def explained(self, belonging: Belonging, rows: Dataset, at: Any, names: Any) -> list[dict[str, Any]]:
        """Return the largest shares of columns in T2 or Q, whichever is farther out, of the rows farthest out.

        ``rows`` has those of these scores at the positions ``at``.
        """
        scores = [(name, i) for i, name in enumerate(self.limits) if name in EXPLAINED]
        if not scores or (rows.sparse and belonging.scorer.adjustment is not None):
            return []
        told = []
        for place in self.farthest():
            score = max(scores, key=lambda each: self.excess[place, each[1]])[0]
            row = int(at[place])
            (parts,) = belonging.contributions(rows.read_rows(row, row + 1), score)
            shares = parts / parts.sum()
            most = [j for j in np.argsort(-shares, kind="stable")[:COLUMNS].tolist() if shares[j] > LEAST]
            columns = [[str(f"column {j}" if names is None else names[j]), float(shares[j])] for j in most]
            told.append({"row": int(self.numbers[place]), "score": score, "columns": columns})
        return told


def kept_statistics(run: RunDirectory) -> Statistics | None:
    """Return the statistics of a run's rows in the units of its methods; None where it keeps none."""
    with suppress(InputError):
        return statistics_of(run, as_asked=True).unweighted
    return None


def some_of(some: int, rows: int) -> str:
    """Return which rows these are."""
    return f"all {rows:,} rows" if some == rows else f"{some:,} of {rows:,} rows"


def as_scored(rows: Dataset, config: RunConfig, model: MomentReducer) -> Dataset:
    """Return rows as scores take them: gaps filled, without what covariates explain."""
    if config.dataset.missing == "mean" or model.covariates_:
        return filled_rows(rows, model.mean_, model.adjustment_)
    return rows.unwidened
