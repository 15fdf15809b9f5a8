"""Columns that tell of projected rows whether they belong to those that trained, written beside coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.belonging.held_out import Counts
from mmpca_dist.belonging.limits import with_p
from mmpca_dist.belonging.model import scores_in
from mmpca_dist.belonging.reference import RowScorer
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import counted
from mmpca_dist.jobs.stored_belonging import load_all
from mmpca_dist.passes.units import read_batch
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset

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
        return cls() if run.record(records.BELONGING) is None else cls(*load_all(run, methods, counted(run).classes))

    def of_block(self, block: Batch) -> Scored:
        """Return the columns of a block of rows, whose gaps are filled; dense ones come without covariates."""
        if self.scorer is None:
            return {}
        found = self.scorer.scores(block.X, scores_in(next(iter(self.counts.values()))), block.roles.get("covariates"))
        return {method: with_p(own, self.counts[method], self.alpha) for method, own in found.items()}

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
