"""Project rows out of core, in one pass for all methods: into arrays in Zarr, or a table in parts."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.belonging.held_out import HeldOutScores
from mmpca_dist.errors import InputError
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import load_model, solved_methods
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.stored_arrays import save_value
from mmpca_dist.jobs.stored_belonging import HELD_OUT
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.transform import centred, projected
from mmpca_dist.methods.concept_eraser import ConceptEraser
from mmpca_dist.passes.schedulers import OnRows
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.passes.units import BLOCK_ROWS, read_batches
from mmpca_dist.runs.row_tables import RowTable, Written
from mmpca_dist.runs.scored_rows import Beside, RowScores, Scored
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.widened_rows import filled_rows
from mmpca_dist.tables.batch import Batch, refuse_not_finite
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.side_columns import VALUE_BYTES, KeptColumns, too_many
from mmpca_dist.tables.spans import Span, chunk_edges, default_chunk_rows, spans_of, unit_edges


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
    """Values in the place of missing ones, shape (d,), of all methods; None where rows are taken as they are."""
    adjustment: Adjustment | None = None
    """The adjustment that removes covariates."""
    taken: NDArray | None = None
    """Shape (K, d): of a method that keeps all columns, what a row loses for each coordinate."""
    rebuilds: tuple[NDArray, NDArray] | None = None
    """B (K, d) and b (d,), where rows are written as coordinates rebuild them: z B + b."""

    def about(self, mean: NDArray) -> Projector:
        """Return the same map as A^T (x - mean) less an offset, for this mean."""
        matrix, own = self.matrix.astype(np.float64), 0.0 if self.mean is None else self.mean
        offset = 0.0 if self.offset is None else self.offset
        return replace(self, mean=mean, offset=offset - (mean - own) @ matrix)

    def written(self, block: Batch, Z: NDArray) -> NDArray:
        """Return what is written of a block: its coordinates Z, or rows, dense, rebuilt or less what they lose."""
        if self.rebuilds is not None:
            return Z @ self.rebuilds[0] + self.rebuilds[1]
        if self.taken is None:
            return Z
        rows = block.X.toarray() if issparse(block.X) else block.X
        if issparse(block.X) and self.adjustment is not None:
            rows = self.adjustment.without(rows, block.roles["covariates"])
        return rows - Z @ self.taken

    @property
    def width(self) -> int:
        """How many columns its rows have."""
        return self.matrix.shape[self.taken is None and self.rebuilds is None]

    @property
    def columns(self) -> list[str]:
        return [f"{self.name}_{j}" for j in range(self.width)]


def project_rows(
    dataset: Dataset,
    projectors: list[Projector],
    tables: Sequence[RowTable],
    tasks: Tasks,
    keep: str | Sequence[str] = (),
    scores: RowScores = RowScores(),  # noqa: B008  (it is frozen)
    held_out: HeldOutScores | None = None,
) -> Written:
    """Project all rows with every method in one pass into tables, and return what was written.

    ``keep`` names the columns that go with the rows. Rows that ``held_out`` scores come widened, if
    they are. Until all rows are written, readers find no Zarr group, and a
    folder of parts holds a file that is none.
    """
    kept, dtype = KeptColumns.of(dataset, keep), projectors[0].matrix.dtype
    width = sum(projector.width for projector in projectors)
    rows = output_chunk_rows(dataset, width, len(kept.columns))
    label_type = _outcomes(dataset.batch(0, 1, X=False)).dtype if dataset.has_labels else None
    begun = tasks.checkpoint is not None and bool(tasks.checkpoint.paths)
    for table in [] if begun else tables:
        table.begin(kept, rows, dtype, label_type, scores.types(dataset, table.methods))
    spans = spans_of(chunk_edges(dataset.n_rows, rows))
    plain = all(one.mean is None and one.offset is None for one in projectors)
    beside = scores.beside(dataset, dtype, plain)
    if beside is not None and beside.centre is not None:
        projectors = [one.about(beside.centre) for one in projectors]
    task = _Projection(projectors, tables, kept, rows, scores, beside, held_out)
    written = tasks.run(OnRows(dataset, task.run), spans, operator.add, "project")
    for table in tables:
        table.complete(dtype, dataset.n_rows)
    return written


def output_chunk_rows(dataset: Dataset, width: int, kept: int = 0) -> int:
    """Return rows a chunk of the projected arrays: a reading unit, if all units have equal size.

    CSR rows are projected without making them dense, so that stored values and ``width`` coordinates bound a unit.
    Columns that are ``kept`` with the rows count too.
    """
    size = dataset.share_bytes(1) + width * 8 if dataset.sparse else dataset.row_bytes
    size += kept * VALUE_BYTES
    sizes = np.diff(unit_edges(dataset.chunk_edges, size))
    regular = len(sizes) == 1 or (np.all(sizes[:-1] == sizes[0]) and sizes[-1] <= sizes[0])
    return int(sizes[0]) if regular else default_chunk_rows(size)


def _outcomes(batch: Batch) -> NDArray:
    """Return the labels of rows, or the first of their numbers to predict, shape (n,)."""
    return batch.targets[:, 0] if "targets" in batch.roles else batch.label


@dataclass(frozen=True)
class _Projection:
    projectors: list[Projector]
    tables: Sequence[RowTable]
    kept: KeptColumns
    chunk_rows: int
    scores: RowScores
    beside: Beside | None
    held_out: HeldOutScores | None
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, dataset: Dataset, span: Span) -> Written:
        written = Written(0)
        dtype = self.projectors[0].matrix.dtype
        less_later = self.beside is not None and self.beside.centre is not None
        groups = ([one for one in self.projectors if (one.mean is None) == uncentred] for uncentred in (True, False))
        joined = [(group, self._joined(group, dataset.sparse)) for group in groups if group]
        for batch in read_batches(dataset, span, sparse=dataset.sparse, by_blocks=True):
            labels = _outcomes(batch) if dataset.has_labels else None
            kept = self.kept.read(batch.rows)
            by_method = {one.name: np.empty((len(batch), one.width), dtype) for one in self.projectors}
            counter, squares = self.held_out and self.held_out.begin(batch), np.empty(len(batch), dtype)
            scored: list[Scored] = []
            for block in batch.blocks(BLOCK_ROWS):
                at = slice(block.start - batch.start, block.stop - batch.start)
                if counter:
                    counter.add(block)
                if self.held_out and self.held_out.adjustment:
                    block = replace(block, X=self.held_out.adjustment.rows(block.X))
                for group, matrix in joined:
                    Z, rows = self._reduced(block, group, *matrix, less=not less_later)
                    ends = np.cumsum([one.matrix.shape[1] for one in group])
                    for one, own in zip(group, np.split(Z, ends[:-1], axis=1), strict=True):
                        by_method[one.name][at] = one.written(block, own)
                if self.beside:
                    squares[at] = self.beside.squares(rows)
                else:
                    scored.append(self.scores.of_block(block))
            if self.beside:
                scored = self.beside.of_rows(by_method, squares)
            if less_later:
                by_method = {one.name: (by_method[one.name] - one.offset).astype(dtype) for one in self.projectors}
            part = batch.start // self.chunk_rows, self.token
            for table in self.tables:
                parts = [by_method[method] for method in table.methods]
                rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
                beside = kept | self.scores.columns(scored, table.methods)
                written += table.write(part, rows, batch.rows, beside, labels, batch.start)
            written += Written(0, counts=counter.counts()) if counter else Written(0)
        return written

    def _reduced(
        self, block: Batch, group: list[Projector], matrix: NDArray, offset: NDArray | None, less: bool
    ) -> tuple[NDArray, Any]:
        """Return the rows of a block as projectors reduce them, whose matrices are side by side, and centred ones.

        The former are ``less`` the offset, or not yet.
        """
        dtype, mean = self.projectors[0].matrix.dtype, group[0].mean
        with np.errstate(invalid="ignore", over="ignore"):
            rows = block.X if issparse(block.X) else centred(block.X, mean, dtype)
            Z = projected(rows, matrix, mean if issparse(rows) else None, dtype, offset if less else None)
            if issparse(block.X) and group[0].adjustment is not None:  # dense rows come without
                Z -= group[0].adjustment.explained(block.roles["covariates"], matrix)
        if not np.isfinite(Z).all():
            self._refuse(block)
        return Z, rows

    def _joined(self, projectors: list[Projector], sparse: bool) -> tuple[NDArray, NDArray | None]:
        """Return the matrices of methods side by side, and their offsets."""
        matrix = np.concatenate([projector.matrix for projector in projectors], axis=1)
        offsets = [
            np.zeros(projector.matrix.shape[1]) if projector.offset is None else projector.offset
            for projector in projectors
        ]
        offset = None if all(projector.offset is None for projector in projectors) else np.concatenate(offsets)
        return matrix.astype(np.float64) if sparse else matrix, offset

    def _refuse(self, batch: Batch) -> None:
        refuse_not_finite(batch)
        is_single = all(projector.matrix.dtype == np.float32 for projector in self.projectors)
        advice = "set precision: double" if is_single else "standardise the columns (standardize: true)"
        raise InputError(f"The projected {batch.table.describe_chunk(batch.start)} overflow; {advice}.")


def projectors_of(job: Job) -> list[Projector]:
    """Return how a job projects the rows, by its own models or those of another run."""
    config, fitted = job.config, job.inputs.fitted or job.run
    dtype = np.float32 if config.precision == "single" else np.float64
    models = {method: load_model(fitted.uri, method) for method in solved_methods(fitted, config.projected)}
    return [
        Projector(
            method,
            *_map_of(model, dtype, rebuilds := job.inputs.inverse and not isinstance(model, ConceptEraser)),
            fills=model.mean_ if config.dataset.missing == "mean" or model.covariates_ else None,
            adjustment=model.adjustment_ if model.covariates_ else None,
            taken=model.taken_.astype(dtype) if isinstance(model, ConceptEraser) else None,
            rebuilds=tuple(part.astype(dtype) for part in model.rebuilding()) if rebuilds else None,  # type: ignore[arg-type]
        )
        for method, model in models.items()
    ]


def _map_of(model: MomentReducer, dtype: Any, about_mean: bool) -> tuple[NDArray, NDArray | None, NDArray | None]:
    """Return A, mean and offset of a model; about the mean coordinates in single precision lose no digits to it."""
    matrix, mean, offset = model.projection(dtype)
    return matrix, model.mean_ if about_mean else mean, offset


def tables_of(job: Job, projectors: list[Projector]) -> list[RowTable]:
    """Return where a job writes the rows: a table for each method and format."""
    quotes = job.config.project.quote_formulas
    return [
        RowTable(job.run.path("projected", f"{one.name}.{format}"), format, (one.name,), tuple(one.columns), quotes)
        for one in projectors
        for format in dict.fromkeys(job.config.project.format)
    ]


def project(
    job: Job,
    tables_of: Callable[[Job, list[Projector]], list[RowTable]] = tables_of,
    held_out: HeldOutScores | None = None,
) -> records.ProjectRecord:
    """Project the rows of a job into tables, those of its folder unless others are asked for.

    What scores rows ``held_out`` does so in the same pass.
    """
    projectors = projectors_of(job)
    tables = tables_of(job, projectors)
    if not tables:
        return {"bytes": 0, "written": 0, "memory": 0, "outputs": []}
    if beside := too_many(job.dataset, job.config.project.keep):
        job.callback.on_note(
            f"{beside:,} columns are neither features nor labels. Projected rows do not keep so many by themselves: "
            "name those to keep in project.keep."
        )
    if job.dataset.sparse and (dense := [one.name for one in projectors if one.taken is not None]):
        job.callback.on_note(f"Sparse rows become dense as {', '.join(dense)} keeps their columns and their mean.")
    rows, fills = job.dataset.unwidened, projectors[0].fills
    if held_out and held_out.adjustment:
        rows = job.dataset
    elif fills is not None:
        rows = filled_rows(rows, fills, projectors[0].adjustment)
    fitted = None if job.inputs.inverse else job.inputs.fitted
    scores = RowScores.of(fitted, [one.name for one in projectors]) if fitted else RowScores()
    written = project_rows(rows, projectors, tables, job.tasks("project"), job.config.project.keep, scores, held_out)
    counts = [save_value(job.run, HELD_OUT, written.counts)] if held_out else []
    return {
        "bytes": job.dataset.n_bytes,
        "written": written.n_bytes,
        "outputs": counts + [one.output(job.run.uri) for one in tables if one.uri.startswith(f"{job.run.uri}/")],
        "objects": written.objects(job.run.uri),
    }


PROJECT = Stage(records.PROJECT, "Project rows", project, measured=True)
