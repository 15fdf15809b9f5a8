"""Columns that tell of projected rows whether they belong to those that trained, written beside coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.belonging.limits import with_p
from mmpca_dist.belonging.model import Belonging
from mmpca_dist.belonging.reference import RowScorer
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import counted
from mmpca_dist.jobs.stored_belonging import load_belonging
from mmpca_dist.passes.units import read_batch
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset

Scored = dict[str, dict[str, NDArray]]
"""Columns by method."""


@dataclass(frozen=True)
class RowScores:
    """What a run keeps of several methods; none where it was not asked for."""

    belongings: Mapping[str, Belonging]

    @classmethod
    def of(cls, run: RunDirectory, methods: Sequence[str]) -> RowScores:
        """Load what a run keeps of some of its methods."""
        if run.record(records.BELONGING) is None:
            return cls({})
        classes = counted(run).classes
        return cls({method: load_belonging(run, method, classes) for method in methods})

    @cached_property
    def _scorer(self) -> RowScorer:
        """The scorers of all methods as one: rows are centred, and their squares added up, once."""
        each = [belonging.scorer for belonging in self.belongings.values()]
        ends = np.cumsum([scorer.matrix.shape[1] for scorer in each])
        references = {
            method: (np.arange(end - scorer.matrix.shape[1], end), scorer.references[method][1])
            for method, scorer, end in zip(self.belongings, each, ends.tolist(), strict=True)
        }
        matrix = np.concatenate([scorer.matrix for scorer in each], axis=1)
        return RowScorer(matrix, each[0].mean, each[0].scale, references, each[0].adjustment)

    def of_block(self, block: Batch) -> Scored:
        """Return the columns of a block of rows, whose gaps are filled; dense ones come without covariates."""
        if not self.belongings:
            return {}
        names = next(iter(self.belongings.values())).names
        found = self._scorer.scores(block.X, names, block.roles.get("covariates"))
        return {method: with_p(found[method], own.counts, own.alpha) for method, own in self.belongings.items()}

    def types(self, rows: Dataset, methods: Sequence[str]) -> dict[str, pa.DataType]:
        """Return the types of the columns that a table of some methods has, from a look at a row."""
        if not self.belongings:
            return {}
        batch = read_batch(rows, 0, 1, (), sparse=rows.sparse)
        return {name: column.type for name, column in self.columns([self.of_block(batch)], methods).items()}

    def columns(self, blocks: Sequence[Scored], methods: Sequence[str]) -> dict[str, Any]:
        """Return the columns of some methods, of blocks one after the other, by the names that a table gives them."""
        return {
            method_name: pa.array(np.concatenate([block[method][name] for block in blocks]))
            for method in methods if method in self.belongings
            for name in blocks[0][method]
            for method_name in [name if len(methods) == 1 else f"{method}_{name}"]
        }  # fmt: skip
