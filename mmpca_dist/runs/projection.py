"""Project rows out of core: one pass for all methods."""

from __future__ import annotations

import functools
import operator
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.object_records import GROUP
from mmpca_dist.jobs.records import ProjectRecord
from mmpca_dist.jobs.run_stage import measured
from mmpca_dist.methods.base.transform import projected
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.passes.units import read_units, refuse_not_finite
from mmpca_dist.planning.passes import output_chunk_rows
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.widened_rows import columns_alone, filled_rows
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.checksums import checksum
from mmpca_dist.tables.dataset import Dataset, Span, chunk_edges, spans_of
from mmpca_dist.tables.readers.zarr_groups import ROWS

CHECKED: dict[str, Any] = {"compressors": [zarr.codecs.Crc32cCodec()], "config": {"write_empty_chunks": True}}
"""Every chunk is stored, as it is, with a checksum."""
UNFINISHED = "unfinished.parquet"
"""A file that is no Parquet, so that readers of an unfinished folder fail."""


@dataclass(frozen=True)
class Projector:
    """A method's map x -> A^T x, or A^T (x - mean), less an offset, and where its rows go."""

    name: str
    matrix: NDArray
    mean: NDArray | None
    """Shape (d,); the same for all methods of a run that have one."""
    zarr: str | None
    """Address of the Zarr group."""
    parquet: str | None
    """Address of the folder of Parquet files."""
    offset: NDArray | None = None
    """Shape (K,)."""
    fills: NDArray | None = None
    """What stands for missing values, shape (d,), the same for all methods; None where rows are projected as they are.
    """
    adjustment: Adjustment | None = None
    """What removes covariates."""

    @property
    def uris(self) -> list[str]:
        """Addresses of what is written."""
        return [uri for uri in (self.zarr, self.parquet) if uri is not None]

    def outputs(self, folder: str) -> list[str]:
        """Return what is written as records name it: by path below ``folder``, a Zarr group by its metadata."""
        return [uri.removeprefix(f"{folder}/") + GROUP * (uri == self.zarr) for uri in self.uris]

    @property
    def columns(self) -> list[str]:
        return [f"{self.name}_{j}" for j in range(self.matrix.shape[1])]


def project_rows(dataset: Dataset, projectors: list[Projector], tasks: Tasks) -> Written:
    """Project all rows with every method in one pass, and return what was written.

    Until all rows are written, readers find no Zarr group, and the folder of Parquet files holds a file that is none.

    Raises InputError for rows that are not finite.
    """
    rows = output_chunk_rows(dataset, sum(projector.matrix.shape[1] for projector in projectors))
    label_type = _outcomes(dataset, 0, 1).dtype if dataset.has_labels else None
    begun = tasks.checkpoint is not None and bool(tasks.checkpoint.paths)
    for projector in [] if begun else projectors:
        _create(projector, dataset, rows, label_type)
    spans = spans_of(chunk_edges(dataset.n_rows, rows))
    task = _ProjectSpan(dataset, projectors, rows, uuid.uuid4().hex)
    written = tasks.run(task, spans, operator.add, "project")
    for projector in projectors:
        _complete(projector, dataset.n_rows)
    return written


def _outcomes(dataset: Dataset, start: int, stop: int) -> NDArray:
    """Return the labels of rows, or the first of their numbers to predict, shape (stop - start,)."""
    return dataset.read_targets(start, stop)[:, 0] if dataset.targets else dataset.read_labels(start, stop)


def _create(projector: Projector, dataset: Dataset, chunk_rows: int, label_type: np.dtype | None) -> None:
    if projector.parquet is not None:
        storage.remove(projector.parquet)
        storage.write_bytes(storage.join(projector.parquet, UNFINISHED), b"Not all rows are here yet.\n")
    if projector.zarr is None:
        return
    storage.remove(projector.zarr)
    n_rows, width = dataset.n_rows, projector.matrix.shape[1]
    with storage.explained(projector.zarr, "write"):
        zarr.create_array(
            zarr_stores.zarr_location(storage.join(projector.zarr, "X")), shape=(n_rows, width),
            chunks=(chunk_rows, width), dtype=projector.matrix.dtype, fill_value=np.nan, **CHECKED,
        )  # fmt: skip
        if label_type is not None:
            text = label_type.kind == "U"
            # Strings of any length are bytes only after they are encoded, and may be compressed then.
            codecs = {"compressors": [zarr.codecs.ZstdCodec(checksum=True)]} if text else {}
            zarr.create_array(
                zarr_stores.zarr_location(storage.join(projector.zarr, "y")), shape=(n_rows,), chunks=(chunk_rows,),
                dtype=str if text else label_type, **(CHECKED | codecs),
            )  # fmt: skip


def _complete(projector: Projector, n_rows: int) -> None:
    """Let readers find the rows."""
    if projector.zarr is not None:
        names = projector.columns
        attributes: dict[str, Any] = {"feature_names": names, ROWS: [n_rows, len(names), str(projector.matrix.dtype)]}
        with storage.explained(projector.zarr, "write"):
            zarr_stores.open_group(projector.zarr, "a").attrs.update(attributes)
    if projector.parquet is not None:
        storage.remove(storage.join(projector.parquet, UNFINISHED))


@storable
@dataclass(frozen=True)
class Written:
    """What tasks have written: bytes of rows, and address, size and checksum of every Parquet file."""

    n_bytes: int
    files: tuple[tuple[str, tuple[int, str]], ...] = ()

    def __add__(self, other: Written) -> Written:
        return Written(self.n_bytes + other.n_bytes, self.files + other.files)

    def objects(self, folder: str) -> dict[str, Any]:
        """Return size and checksum of the Parquet files, by path below a folder."""
        return {uri.removeprefix(f"{folder}/"): recorded for uri, recorded in self.files}


@functools.lru_cache(maxsize=128)
def _open(uri: str, name: str, token: str) -> zarr.Array:
    return zarr.open_array(zarr_stores.zarr_location(storage.join(uri, name)), mode="r+", zarr_format=3)


@dataclass(frozen=True)
class _ProjectSpan:
    dataset: Dataset
    projectors: list[Projector]
    chunk_rows: int
    token: str

    def __call__(self, span: Span) -> Written:
        written = Written(0)
        dtype = self.projectors[0].matrix.dtype
        groups = [
            [projector for projector in self.projectors if (projector.mean is None) == uncentred]
            for uncentred in (True, False)
        ]
        joined = [(group, self._joined(group)) for group in groups if group]
        for start, X in read_units(self.dataset, span, sparse=self.dataset.sparse):
            stop = start + X.shape[0]
            labels = _outcomes(self.dataset, start, stop) if self.dataset.has_labels else None
            for group, (matrix, offset) in joined:
                with np.errstate(invalid="ignore", over="ignore"):
                    reduced = projected(X, matrix, group[0].mean, dtype, offset)
                    if self.dataset.sparse and group[0].adjustment is not None:  # dense rows come without
                        reduced -= group[0].adjustment.explained(self.dataset.read_covariates(start, stop), matrix)
                if not np.isfinite(reduced).all():
                    self._refuse(X, start)
                ends = np.cumsum([projector.matrix.shape[1] for projector in group])
                for projector, rows in zip(group, np.split(reduced, ends[:-1], axis=1), strict=True):
                    written += self._write(projector, rows, labels, start)
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

    def _write(self, projector: Projector, rows: NDArray, labels: NDArray | None, start: int) -> Written:
        files: tuple[tuple[str, tuple[int, str]], ...] = ()
        stop = start + len(rows)
        with storage.explained(next(iter(projector.uris), ""), "write"):
            if projector.zarr is not None:
                _open(projector.zarr, "X", self.token)[start:stop] = rows
                if labels is not None:
                    _open(projector.zarr, "y", self.token)[start:stop] = labels
            if projector.parquet is not None:
                columns = [pa.array(np.ascontiguousarray(column)) for column in rows.T]
                table = pa.table(columns, names=projector.columns)
                if labels is not None:
                    table = table.append_column("label", pa.array(labels.tolist()))
                uri = storage.join(projector.parquet, f"part-{start // self.chunk_rows:06d}.parquet")
                sink = pa.BufferOutputStream()
                pq.write_table(table, sink, compression="none", use_dictionary=False, write_page_checksum=True)
                data = sink.getvalue().to_pybytes()
                storage.write_bytes(uri, data)
                files = ((uri, (len(data), checksum(data))),)
        return Written(rows.nbytes * len(projector.uris), files)

    def _refuse(self, X: Any, start: int) -> None:
        if not self.dataset.sparse:  # those are known to be finite since they were read
            refuse_not_finite(self.dataset, start, X)
        is_single = all(projector.matrix.dtype == np.float32 for projector in self.projectors)
        advice = "set precision: double" if is_single else "standardise the columns (standardize: true)"
        raise InputError(f"The projected {self.dataset.describe_chunk(start)} overflow; {advice}.")


def projectors_of(job: Job) -> list[Projector]:
    """Return where and how a job writes the rows of its methods, by its own models or those of another run."""
    config, folder, fitted = job.config, job.run.path("projected"), job.inputs.fitted or job.run
    dtype = np.float32 if config.precision == "single" else np.float64
    models = {method: load_model(fitted.uri, method) for method in config.projected}
    return [
        Projector(
            method,
            *model.projection(dtype),
            offset=model._offset,
            fills=model.mean_ if config.dataset.missing == "mean" or model.covariates_ else None,
            adjustment=model._adjustment if model.covariates_ else None,
            zarr=f"{folder}/{method}.zarr" if "zarr" in config.project.format else None,
            parquet=f"{folder}/{method}.parquet" if "parquet" in config.project.format else None,
        )
        for method, model in models.items()
    ]


def _project(job: Job) -> ProjectRecord:
    projectors = projectors_of(job)
    if not projectors:
        return {"bytes": 0, "written": 0, "memory": 0, "outputs": []}
    with measured(job) as peak:
        rows, fills = columns_alone(job.dataset), projectors[0].fills
        if fills is not None:
            rows = filled_rows(rows, fills, projectors[0].adjustment)
        written = project_rows(rows, projectors, job.tasks("project"))
    return {
        "bytes": job.dataset.n_bytes,
        "written": written.n_bytes,
        "memory": peak(),
        "outputs": [name for projector in projectors for name in projector.outputs(job.run.uri)],
        "objects": written.objects(job.run.uri),
    }


PROJECT = Stage(records.PROJECT, "Project rows", _project)
