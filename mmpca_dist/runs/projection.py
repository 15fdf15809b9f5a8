"""Project rows out of core, in one pass for all methods: into arrays in Zarr, or a table in parts."""

from __future__ import annotations

import functools
import io
import operator
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.ingest.to_parquet import write_tables
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import load_model, solved_methods
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.object_records import GROUP
from mmpca_dist.methods.base.transform import projected
from mmpca_dist.passes.schedulers import OnRows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.passes.units import BLOCK_ROWS, read_batches
from mmpca_dist.runs.scored_rows import RowScores
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.widened_rows import filled_rows
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import CHECKED
from mmpca_dist.tables.batch import Batch, refuse_not_finite
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.levels import is_text
from mmpca_dist.tables.readers.zarr_groups import ROWS
from mmpca_dist.tables.side_columns import VALUE_BYTES, KeptColumns, too_many
from mmpca_dist.tables.spans import Span, chunk_edges, default_chunk_rows, spans_of, unit_edges

TEXT = CHECKED | {"compressors": [zarr.codecs.ZstdCodec(checksum=True)]}
"""Strings of any length are bytes only after they are encoded, and may be compressed then."""
ROW, LABEL = "row", "label"
NO_NAME = re.compile(r"^[._/\\\x00-\x1f]+|[/\\\x00-\x1f]")
"""Characters that names of arrays may not hold."""
WRITERS: dict[str, Callable[[Any, pa.Schema], Any]] = {
    "parquet": functools.partial(
        pq.ParquetWriter, compression="none", use_dictionary=False, write_page_checksum=True
    ),
    "csv": pyarrow.csv.CSVWriter,
    "arrow": pa.ipc.new_file,
}  # fmt: skip
FORMULA = "^(\\s*[=+@\uff1d\uff0b\uff20\uff0d-]|[\t\r\n])"
"""The beginnings of text that spreadsheets compute, letters of the wide forms among them."""


@storable
@dataclass(frozen=True)
class Written:
    """The output of tasks: bytes of rows, and address, size and checksum of every file of a part."""

    n_bytes: int
    files: tuple[tuple[str, tuple[int, str]], ...] = ()

    def __add__(self, other: Written) -> Written:
        return Written(self.n_bytes + other.n_bytes, self.files + other.files)

    def objects(self, folder: str) -> dict[str, Any]:
        """Return size and checksum of the files, by path below a folder."""
        return {uri.removeprefix(f"{folder}/"): recorded for uri, recorded in self.files}


@dataclass(frozen=True)
class RowTable:
    """The components of a method, or of several side by side, and where they go."""

    uri: str
    """Address of the Zarr group, or of a folder of parts."""
    format: str
    methods: tuple[str, ...]
    columns: tuple[str, ...]
    """Names of all components."""
    quotes: bool = False
    """Whether an apostrophe stands before text in CSV that a spreadsheet takes for a formula."""

    def output(self, folder: str) -> str:
        """Return the address as records name it: by path below ``folder``, a Zarr group by its metadata."""
        return self.uri.removeprefix(f"{folder}/") + GROUP * (self.format == "zarr")

    @property
    def _unfinished(self) -> str:
        """A file that is not in the format, so that readers of an unfinished folder fail."""
        return storage.join(self.uri, f"unfinished.{self.format}")

    def named(self, kept: Iterable[str]) -> dict[str, str]:
        """Return what kept columns are called here, where names may be taken, or be none of arrays."""
        is_zarr, names = self.format == "zarr", dict[str, str]()
        taken = {ROW, *(("X", "y", "zarr.json") if is_zarr else (LABEL, *self.columns))}
        for name in kept:
            own = NO_NAME.sub("_", name)[:200] or "_" if is_zarr else name
            while own in taken:
                own += "_"
            names[name] = own
            taken.add(own)
        return names

    def begin(
        self, kept: KeptColumns, chunk_rows: int, dtype: np.dtype, label_type: np.dtype | None,
        scores: Mapping[str, pa.DataType],
    ) -> None:  # fmt: skip
        """Remove what is there, and create arrays that readers do not find yet."""
        storage.remove(self.uri)
        if self.format != "zarr":
            storage.write_bytes(self._unfinished, b"Not all rows are here yet.\n")
            return
        n_rows, width = kept.rows.n_rows, len(self.columns)
        kinds: dict[str, Any] = {ROW: np.int64} | ({} if label_type is None else {"y": label_type})
        types = {**kept.types, **scores}
        for name, own in self.named(types).items():
            kind = types[name]
            whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
            is_number = whole or pa.types.is_floating(kind)
            gaps = whole and name in kept.types and kept.has_gaps(name)
            kinds[own] = str if not is_number else np.float64 if gaps else kind.to_pandas_dtype()
        with storage.explained(self.uri, "write"):
            zarr.create_array(
                zarr_stores.zarr_location(storage.join(self.uri, "X")), shape=(n_rows, width),
                chunks=(chunk_rows, width), dtype=dtype, fill_value=np.nan, **CHECKED,
            )  # fmt: skip
            for name, kind in kinds.items():
                text = kind is str or np.dtype(kind).kind == "U"
                zarr.create_array(
                    zarr_stores.zarr_location(storage.join(self.uri, name)), shape=(n_rows,), chunks=(chunk_rows,),
                    dtype=str if text else kind, **(TEXT if text else CHECKED),
                )  # fmt: skip

    def write(
        self, part: tuple[int, str], rows: NDArray, numbers: NDArray, kept: dict[str, Any], labels: NDArray | None,
        start: int,
    ) -> Written:  # fmt: skip
        """Write some rows, from ``start`` on; ``part`` is their number among all parts, and a token of the pass."""
        names = self.named(kept)
        with storage.explained(self.uri, "write"):
            if self.format == "zarr":
                values = {"X": rows, ROW: numbers} | ({} if labels is None else {"y": labels})
                values |= {names[name]: column for name, column in kept.items()}
                for name, column in values.items():
                    array = _open(self.uri, name, part[1])
                    array[start : start + len(rows)] = _as_array(column, array.dtype, name)
                return Written(rows.nbytes)
            columns = {ROW: pa.array(numbers), **{names[name]: column for name, column in kept.items()}}
            columns |= {} if labels is None else {LABEL: pa.array(labels.tolist())}
            columns |= dict(zip(self.columns, map(pa.array, np.ascontiguousarray(rows.T)), strict=True))
            file = io.BytesIO()
            write_tables(file, [_quoted(pa.table(columns), self.format, self.quotes)], WRITERS[self.format])
            data = file.getvalue()
            uri = storage.join(self.uri, f"part-{part[0]:06d}.{self.format}")
            storage.write_bytes(uri, data)
        return Written(len(data), ((uri, (len(data), storage.checksum(data))),))

    def complete(self, dtype: np.dtype, n_rows: int) -> None:
        """Let readers find the rows."""
        if self.format != "zarr":
            storage.remove(self._unfinished)
            return
        names = list(self.columns)
        attributes: dict[str, Any] = {"feature_names": names, ROWS: [n_rows, len(names), str(dtype)]}
        with storage.explained(self.uri, "write"):
            zarr_stores.open_group(self.uri, "a").attrs.update(attributes)


def join_parts(folder: str, uri: str, format: str, quotes: bool) -> None:
    """Write all parts in a folder, which are Arrow, as one file in a format; it is there once it is whole."""
    parts = (storage.join(folder, name) for name in sorted(storage.names_in(folder)))
    tables = (pa.ipc.open_file(pa.py_buffer(storage.read_bytes(part))).read_all() for part in parts)
    with storage.writing(uri) as file:
        write_tables(file, (_quoted(table, format, quotes) for table in tables), WRITERS[format])


def _quoted(table: pa.Table, format: str, quotes: bool) -> pa.Table:
    """Return a table in which, for CSV and if this ``quotes``, an apostrophe stands before each formula."""
    if format != "csv" or not quotes:
        return table
    names = pc.replace_substring_regex(pa.array(table.column_names, pa.string()), FORMULA, r"'\0").to_pylist()
    columns = [
        pc.replace_substring_regex(column.cast(pa.large_string()), FORMULA, r"'\0") if is_text(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=names)


def _as_array(column: Any, dtype: Any, name: str) -> NDArray:
    """Return a column as values of an array: text where it holds text, which is empty where there is none."""
    if isinstance(column, np.ndarray):
        return column
    if dtype.kind in "iufb":
        gaps = (
            f"The column {name!r} has gaps, and whole numbers that Zarr cannot hold beside these: choose "
            "project.format: parquet, or leave it out of project.keep."
        )
        with instead_of(pa.ArrowInvalid, InputError, gaps):
            return np.asarray(column.cast(pa.from_numpy_dtype(dtype)).to_numpy(zero_copy_only=False), dtype)
    return np.asarray(column.cast(pa.string()).fill_null("").to_pylist(), dtype=object)


@functools.lru_cache(maxsize=1024)
def _open(uri: str, name: str, token: str) -> zarr.Array:
    return zarr.open_array(zarr_stores.zarr_location(storage.join(uri, name)), mode="r+", zarr_format=3)


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

    @property
    def columns(self) -> list[str]:
        return [f"{self.name}_{j}" for j in range(self.matrix.shape[1])]


def project_rows(
    dataset: Dataset,
    projectors: list[Projector],
    tables: Sequence[RowTable],
    tasks: Tasks,
    keep: str | Sequence[str] = (),
    scores: RowScores = RowScores({}),  # noqa: B008  (it is frozen)
) -> Written:
    """Project all rows with every method in one pass into tables, and return what was written.

    ``keep`` names the columns that go with the rows. Until all rows are written, readers find no Zarr group, and a
    folder of parts holds a file that is none.
    """
    kept, dtype = KeptColumns.of(dataset, keep), projectors[0].matrix.dtype
    width = sum(projector.matrix.shape[1] for projector in projectors)
    rows = output_chunk_rows(dataset, width, len(kept.columns))
    label_type = _outcomes(dataset.batch(0, 1, X=False)).dtype if dataset.has_labels else None
    begun = tasks.checkpoint is not None and bool(tasks.checkpoint.paths)
    for table in [] if begun else tables:
        table.begin(kept, rows, dtype, label_type, scores.types(dataset, table.methods))
    spans = spans_of(chunk_edges(dataset.n_rows, rows))
    task = _Projection(projectors, tables, kept, rows, scores)
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
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, dataset: Dataset, span: Span) -> Written:
        written = Written(0)
        dtype = self.projectors[0].matrix.dtype
        groups = ([one for one in self.projectors if (one.mean is None) == uncentred] for uncentred in (True, False))
        joined = [(group, self._joined(group, dataset.sparse)) for group in groups if group]
        for batch in read_batches(dataset, span, sparse=dataset.sparse, by_blocks=True):
            labels = _outcomes(batch) if dataset.has_labels else None
            kept = self.kept.read(batch.rows)
            reduced = [np.empty((len(batch), matrix.shape[1]), dtype) for _, (matrix, _) in joined]
            scored = []
            for block in batch.blocks(BLOCK_ROWS):
                scored.append(self.scores.of_block(block))
                for (group, matrix), Z in zip(joined, reduced, strict=True):
                    Z[block.start - batch.start :][: len(block)] = self._reduced(block, group, *matrix)
            by_method: dict[str, NDArray] = {}
            for (group, _), Z in zip(joined, reduced, strict=True):
                ends = np.cumsum([projector.matrix.shape[1] for projector in group])
                by_method |= {one.name: own for one, own in zip(group, np.split(Z, ends[:-1], axis=1), strict=True)}
            part = batch.start // self.chunk_rows, self.token
            for table in self.tables:
                rows = np.concatenate([by_method[method] for method in table.methods], axis=1)
                beside = kept | self.scores.columns(scored, table.methods)
                written += table.write(part, rows, batch.rows, beside, labels, batch.start)
        return written

    def _reduced(self, block: Batch, group: list[Projector], matrix: NDArray, offset: NDArray | None) -> NDArray:
        """Return the rows of a block as projectors reduce them, whose matrices are side by side."""
        with np.errstate(invalid="ignore", over="ignore"):
            Z = projected(block.X, matrix, group[0].mean, self.projectors[0].matrix.dtype, offset)
            if issparse(block.X) and group[0].adjustment is not None:  # dense rows come without
                Z -= group[0].adjustment.explained(block.roles["covariates"], matrix)
        if not np.isfinite(Z).all():
            self._refuse(block)
        return Z

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
            *model.projection(dtype),
            fills=model.mean_ if config.dataset.missing == "mean" or model.covariates_ else None,
            adjustment=model.adjustment_ if model.covariates_ else None,
        )
        for method, model in models.items()
    ]


def tables_of(job: Job, projectors: list[Projector]) -> list[RowTable]:
    """Return where a job writes the rows: a table for each method and format."""
    quotes = job.config.project.quote_formulas
    return [
        RowTable(job.run.path("projected", f"{one.name}.{format}"), format, (one.name,), tuple(one.columns), quotes)
        for one in projectors
        for format in dict.fromkeys(job.config.project.format)
    ]


def project(job: Job, tables_of: Callable[[Job, list[Projector]], list[RowTable]] = tables_of) -> records.ProjectRecord:
    """Project the rows of a job into tables, those of its folder unless others are asked for."""
    projectors = projectors_of(job)
    tables = tables_of(job, projectors)
    if not tables:
        return {"bytes": 0, "written": 0, "memory": 0, "outputs": []}
    if beside := too_many(job.dataset, job.config.project.keep):
        job.callback.on_note(
            f"{beside:,} columns are neither features nor labels. Projected rows do not keep so many by themselves: "
            "name those to keep in project.keep."
        )
    rows, fills = job.dataset.unwidened, projectors[0].fills
    if fills is not None:
        rows = filled_rows(rows, fills, projectors[0].adjustment)
    scores = RowScores.of(job.inputs.fitted, [one.name for one in projectors]) if job.inputs.fitted else RowScores({})
    written = project_rows(rows, projectors, tables, job.tasks("project"), job.config.project.keep, scores)
    return {
        "bytes": job.dataset.n_bytes,
        "written": written.n_bytes,
        "outputs": [table.output(job.run.uri) for table in tables if table.uri.startswith(f"{job.run.uri}/")],
        "objects": written.objects(job.run.uri),
    }


PROJECT = Stage(records.PROJECT, "Project rows", project, measured=True)
