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
from mmpca_dist.passes.units import read_batch
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset

MOST_HELD = 100
"""Q comes from projected rows in single precision where components hold at most so many times as much."""
Scored = dict[str, dict[str, NDArray]]
"""Columns by method."""


@dataclass(frozen=True)
class RowScores:
    """What a run keeps of several methods; none where it was not asked for."""

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

    def beside(self, rows: Dataset, dtype: np.dtype) -> Beside | None:
        """Return what takes these scores from projected rows of this type; None where the rows must be read for it."""
        if self.scorer is None or rows.sparse or not all(self._is_exact(method, dtype) for method in self.counts):
            return None
        mean = self.scorer.mean
        # What single precision takes from the mean of rows in single precision is less than their own rounding.
        return Beside(self.as_type(dtype), mean.astype(np.result_type(rows.dtype, dtype)))

    def _is_exact(self, method: str, dtype: np.dtype) -> bool:
        """Tell whether Q, a difference of two squared lengths, has digits enough."""
        assert self.scorer is not None  # noqa: S101  (others have no scores)
        if dtype == np.float64 or method not in self.scorer.references or "q" not in self.counts[method]:
            return True
        return self.scorer.references[method][1].held < MOST_HELD * self.counts[method]["q"].mean

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
        return {name: column.type for name, column in self.columns([self.of_block(batch)], methods).items()}

    def columns(self, blocks: Sequence[Scored], methods: Sequence[str]) -> dict[str, Any]:
        """Return the columns of some methods, of blocks one after the other, by the names that a table gives them."""
        return {
            method_name: pa.array(np.concatenate([block[method][name] for block in blocks]))
            for method in methods if self.scorer is not None
            for name in blocks[0][method]
            for method_name in [name if len(methods) == 1 else f"{method}_{name}"]
        }  # fmt: skip


@dataclass(frozen=True)
class Beside:
    """Scores of rows that are projected: from coordinates about a centre, and from squared distances to it."""

    scores: RowScores
    centre: NDArray
    """The mean, as rows are subtracted from it, shape (d,)."""

    def squares(self, rows: NDArray) -> NDArray:
        """Return |D^-1 x|^2 of rows x less the centre, which are overwritten, shape (n,)."""
        scale = None if self.scores.scorer is None else self.scores.scorer.scale
        if scale is not None:
            rows /= scale.astype(rows.dtype)
        return np.vecdot(rows, rows)

    def of_rows(self, reduced: Mapping[str, NDArray], squares: NDArray) -> Scored:
        """Return the columns of rows by their coordinates, by method, and by `squares`."""
        scores, scorer, names = self.scores, self.scores.scorer, self.scores.names()
        assert scorer is not None  # noqa: S101  (others have no scores)
        shift = (scorer.mean - self.centre) @ scorer.matrix
        return {
            method: with_p(
                scores_of(reduced[method] - shift[columns].astype(squares.dtype), squares, own, names),
                scores.counts[method], scores.alpha,
            )
            for method, (columns, own) in scorer.references.items()
        }  # fmt: skip
