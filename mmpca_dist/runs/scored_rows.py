"""Columns that tell of projected rows whether they belong to those that trained, written beside coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.belonging.held_out import Counts
from mmpca_dist.belonging.limits import with_p
from mmpca_dist.belonging.model import scores_in
from mmpca_dist.belonging.reference import RowScorer, scores_of
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.stored_belonging import load_all
from mmpca_dist.passes.units import blocks, read_batch
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset

MOST_HELD = 100
"""Q is taken from squared lengths that are at most so many times as large, as each takes digits from it."""
SCORED_ROWS = 8192
"""Rows that are scored at a time: their coordinates stay in the processor's cache."""
Scored = dict[str, dict[str, NDArray]]
"""Columns by method."""


@dataclass(frozen=True)
class RowScores:
    """The scorers and limits that a run keeps of several methods; none where it was not asked for."""

    scorer: RowScorer | None = None
    counts: Counts = field(default_factory=dict)
    alpha: float = 0.0

    @classmethod
    def of(cls, run: RunDirectory, methods: Sequence[str]) -> RowScores:
        """Load what a run keeps of some of its methods."""
        return cls() if run.record(records.BELONGING) is None else cls(*load_all(run, methods))

    def of_block(self, block: Batch) -> Scored:
        """Return the columns of a block of rows, whose gaps are filled; dense ones come without covariates."""
        if self.scorer is None:
            return {}
        found = self.scorer.scores(block.X, self.names(), block.roles.get("covariates"))
        return {method: with_p(own, self.counts[method], self.alpha) for method, own in found.items()}

    def beside(self, rows: Dataset, dtype: np.dtype, plain: bool) -> Beside | None:
        """Return what takes these scores from projected rows of this type; None where the rows must be read for it.

        Projections are ``plain`` where all are A^T x.
        """
        scorer = self.scorer
        if scorer is None or rows.sparse or not (dtype == np.float64 or self._has_digits(0.0)):
            return None
        mean, near = scorer.mean, scorer.scale is None and self._has_digits(float(scorer.mean @ scorer.mean))
        # What single precision takes from the mean of rows in single precision is less than their own rounding.
        centre = None if plain and near else mean.astype(np.result_type(rows.dtype, dtype))
        return Beside(self.as_type(dtype), centre, mean if centre is None else mean - centre)

    def _has_digits(self, length: float) -> bool:
        """Tell whether Q, a difference of squared lengths, has digits: rows have ``length`` more than coordinates."""
        assert self.scorer is not None  # noqa: S101  (others have no scores)
        held = {method: reference.held for method, (_, reference) in self.scorer.references.items()}
        least = {m: self.counts[m]["q"].mean if "q" in self.counts[m] else own for m, own in held.items()}
        return all(length + own < MOST_HELD * least[method] for method, own in held.items())

    def as_type(self, dtype: np.dtype) -> RowScores:
        """Return the same for coordinates of this type."""
        assert self.scorer is not None  # noqa: S101  (others have no scores)
        references = {m: (columns, own.as_type(dtype)) for m, (columns, own) in self.scorer.references.items()}
        return replace(self, scorer=replace(self.scorer, references=references))

    def names(self) -> list[str]:
        """Return the names of the scores."""
        return scores_in(next(iter(self.counts.values())))

    def types(self, rows: Dataset, methods: Sequence[str]) -> dict[str, pa.DataType]:
        """Return the types of the columns that a table of some methods has, from a look at a row."""
        if self.scorer is None:
            return {}
        batch = read_batch(rows, 0, 1, (), sparse=rows.sparse)
        columns = self.columns([self.of_block(batch)], methods)
        return {name: pa.array(column).type for name, column in columns.items()}

    def columns(self, blocks: Sequence[Scored], methods: Sequence[str]) -> dict[str, Any]:
        """Return the columns of some methods, of blocks one after the other, by the names that a table gives them."""
        return {
            method_name: np.concatenate([block[method][name] for block in blocks])
            for method in methods if self.scorer is not None
            for name in blocks[0][method]
            for method_name in [name if len(methods) == 1 else f"{method}_{name}"]
        }  # fmt: skip


@dataclass(frozen=True)
class Beside:
    """Scores of rows that are projected: from their coordinates, and from squared distances to their mean."""

    scores: RowScores
    centre: NDArray | None
    """The mean, shape (d,), which rows come without; None where they come as they are: it takes few digits of Q."""
    left: NDArray[np.float64]
    """The mean of rows as they come, shape (d,)."""

    def squares(self, rows: NDArray) -> NDArray:
        """Return |D^-1 (x - mean)|^2 of rows as they come, shape (n,); those less the centre are overwritten."""
        scorer = self.scores.scorer
        assert scorer is not None  # noqa: S101  (others have no scores)
        if scorer.scale is not None:
            rows /= scorer.scale.astype(rows.dtype)
        squares = np.vecdot(rows, rows)
        if self.centre is None:
            squares -= 2 * (rows @ self.left.astype(rows.dtype)) - rows.dtype.type(self.left @ self.left)
        return squares

    def of_rows(self, reduced: Mapping[str, NDArray], squares: NDArray) -> list[Scored]:
        """Return the columns of blocks of rows by their coordinates, by method, and by `squares`."""
        scores, scorer, names = self.scores, self.scores.scorer, self.scores.names()
        assert scorer is not None  # noqa: S101  (others have no scores)
        shift = (self.left @ scorer.matrix).astype(squares.dtype)
        return [
            {
                method: with_p(
                    scores_of(reduced[method][some] - shift[columns], squares[some], own, names),
                    scores.counts[method], scores.alpha,
                )
                for method, (columns, own) in scorer.references.items()
            }
            for some in blocks(len(squares), SCORED_ROWS)
        ]  # fmt: skip
