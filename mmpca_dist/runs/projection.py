"""Project rows out of core: one pass for all methods."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.records import ProjectRecord
from mmpca_dist.jobs.running import measured
from mmpca_dist.methods.base.transform import projected
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.passes.units import read_units, refuse_not_finite
from mmpca_dist.planning.passes import output_chunk_rows
from mmpca_dist.runs.row_tables import RowTable, Written
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.widened_rows import columns_alone, filled_rows
from mmpca_dist.tables.dataset import Dataset, Span, chunk_edges, spans_of
from mmpca_dist.tables.kept_columns import KeptColumns


@dataclass(frozen=True)
class Projector:
    """A method's map x -> A^T x, or A^T (x - mean), less an offset."""

    name: str
    matrix: NDArray
    mean: NDArray | None
    """Shape (d,); the same for all methods of a run that have one."""
    offset: NDArray | None = None
    """Shape (K,)."""
    fills: NDArray | None = None
    """What stands for missing values, shape (d,), the same for all methods; None where rows are projected as they are.
    """
    adjustment: Adjustment | None = None
    """What removes covariates."""

    @property
    def columns(self) -> list[str]:
        return [f"{self.name}_{j}" for j in range(self.matrix.shape[1])]


def project_rows(
    dataset: Dataset,
    projectors: list[Projector],
    tables: Sequence[RowTable],
    tasks: Tasks,
    keep: str | Sequence[str] = (),
) -> Written:
    """Project all rows with every method in one pass into tables, and return what was written.

    ``keep`` names the columns that go with the rows. Until all rows are written, readers find no Zarr group, and a
    folder of parts holds a file that is none.
    """
    kept, dtype = KeptColumns.of(dataset, keep), projectors[0].matrix.dtype
    width = sum(projector.matrix.shape[1] for projector in projectors)
    rows = output_chunk_rows(dataset, width, len(kept.columns))
    label_type = _outcomes(dataset, 0, 1).dtype if dataset.has_labels else None
    begun = tasks.checkpoint is not None and bool(tasks.checkpoint.paths)
    for table in [] if begun else tables:
        table.begin(kept, rows, dtype, label_type)
    spans = spans_of(chunk_edges(dataset.n_rows, rows))
    task = _ProjectSpan(dataset, projectors, tables, kept, rows)
    written = tasks.run(task, spans, operator.add, "project")
    for table in tables:
        table.complete(dtype, dataset.n_rows)
    return written


def _outcomes(dataset: Dataset, start: int, stop: int) -> NDArray:
    """Return the labels of rows, or the first of their numbers to predict, shape (stop - start,)."""
    return dataset.read_targets(start, stop)[:, 0] if dataset.targets else dataset.read_labels(start, stop)


@dataclass(frozen=True)
class _ProjectSpan:
    dataset: Dataset
    projectors: list[Projector]
    tables: Sequence[RowTable]
    kept: KeptColumns
    chunk_rows: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, span: Span) -> Written:
        written = Written(0)
        dtype = self.projectors[0].matrix.dtype
        groups = ([one for one in self.projectors if (one.mean is None) == uncentred] for uncentred in (True, False))
        joined = [(group, self._joined(group)) for group in groups if group]
        for start, X in read_units(self.dataset, span, sparse=self.dataset.sparse):
            stop = start + X.shape[0]
            labels = _outcomes(self.dataset, start, stop) if self.dataset.has_labels else None
            kept, numbers = self.kept.read(start, stop), self.dataset.source_rows(start, stop)
            by_method: dict[str, NDArray] = {}
            for group, (matrix, offset) in joined:
                with np.errstate(invalid="ignore", over="ignore"):
                    reduced = projected(X, matrix, group[0].mean, dtype, offset)
                    if self.dataset.sparse and group[0].adjustment is not None:  # dense rows come without
                        reduced -= group[0].adjustment.explained(self.dataset.read_covariates(start, stop), matrix)
                if not np.isfinite(reduced).all():
                    self._refuse(X, start)
                ends = np.cumsum([projector.matrix.shape[1] for projector in group])
                by_method |= {one.name: Z for one, Z in zip(group, np.split(reduced, ends[:-1], axis=1), strict=True)}
            part = start // self.chunk_rows, self.token
            for table in self.tables:
                rows = np.concatenate([by_method[method] for method in table.methods], axis=1)
                written += table.write(part, rows, numbers, kept, labels, start)
        return written

    def _joined(self, projectors: list[Projector]) -> tuple[NDArray, NDArray | None]:
        """Return the matrices of methods side by side, and their offsets."""
        matrix = np.concatenate([projector.matrix for projector in projectors], axis=1)
        offsets = [
            np.zeros(projector.matrix.shape[1]) if projector.offset is None else projector.offset
            for projector in projectors
        ]
        offset = None if all(projector.offset is None for projector in projectors) else np.concatenate(offsets)
        return matrix.astype(np.float64) if self.dataset.sparse else matrix, offset

    def _refuse(self, X: Any, start: int) -> None:
        if not self.dataset.sparse:  # those are known to be finite since they were read
            refuse_not_finite(self.dataset, start, X)
        is_single = all(projector.matrix.dtype == np.float32 for projector in self.projectors)
        advice = "set precision: double" if is_single else "standardise the columns (standardize: true)"
        raise InputError(f"The projected {self.dataset.describe_chunk(start)} overflow; {advice}.")


def projectors_of(job: Job) -> list[Projector]:
    """Return how a job projects the rows, by its own models or those of another run."""
    config, fitted = job.config, job.inputs.fitted or job.run
    dtype = np.float32 if config.precision == "single" else np.float64
    models = {method: load_model(fitted.uri, method) for method in config.projected}
    return [
        Projector(
            method,
            *model.projection(dtype),
            offset=model._offset,
            fills=model.mean_ if config.dataset.missing == "mean" or model.covariates_ else None,
            adjustment=model._adjustment if model.covariates_ else None,
        )
        for method, model in models.items()
    ]


def tables_of(job: Job, projectors: list[Projector]) -> list[RowTable]:
    """Return where a job writes the rows: a table for each method and format."""
    return [
        RowTable(job.run.path("projected", f"{one.name}.{format}"), format, (one.name,), tuple(one.columns))
        for one in projectors
        for format in dict.fromkeys(job.config.project.format)
    ]


def project(job: Job, tables_of: Callable[[Job, list[Projector]], list[RowTable]] = tables_of) -> ProjectRecord:
    """Project the rows of a job into tables, those of its folder unless others are asked for."""
    projectors = projectors_of(job)
    tables = tables_of(job, projectors)
    if not tables:
        return {"bytes": 0, "written": 0, "memory": 0, "outputs": []}
    with measured(job) as peak:
        rows, fills = columns_alone(job.dataset), projectors[0].fills
        if fills is not None:
            rows = filled_rows(rows, fills, projectors[0].adjustment)
        written = project_rows(rows, projectors, tables, job.tasks("project"), job.config.project.keep)
    return {
        "bytes": job.dataset.n_bytes,
        "written": written.n_bytes,
        "memory": peak(),
        "outputs": [table.output(job.run.uri) for table in tables if table.uri.startswith(f"{job.run.uri}/")],
        "objects": written.objects(job.run.uri),
    }


PROJECT = Stage(records.PROJECT, "Project rows", project)
