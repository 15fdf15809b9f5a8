"""Tables into Parquet: CSV with a type for each column, and Delta Lake without the rows that are deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mmpca_dist.errors import InputError, OutputError, some_names
from mmpca_dist.ingest.csv import CSV_SUFFIXES, CsvRows
from mmpca_dist.ingest.row_source import Progress, Selection
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.stores.overlaps import refuse_inside, refuse_overlap
from mmpca_dist.tables.readers.formats import reading_with, stem_of
from mmpca_dist.tables.readers.parquet_folders import DELTA

IN_ORDER = "set datafusion.execution.target_partitions = 1"
"""Files that are read at once come in any order."""


def _is_delta(source: str) -> bool:
    """Tell whether a folder is a table of Delta Lake."""
    return DELTA in storage.names_in(source)


def refuse_choices(selection: Selection) -> None:
    """Raise InputError for choices that only an ingest to Zarr can honour."""
    unchosen = vars(Selection())
    chosen = [name for name, value in vars(selection).items() if value != unchosen[name] and value != []]
    if chosen:
        raise InputError(
            f"Parquet gets all columns as they are, and so {some_names(chosen)} cannot be chosen here. Choose "
            "labels and features in the configuration of a run: dataset.label, dataset.drop."
        )


@contextmanager
def _csv_tables(
    source: str, progress: Progress, note: Callable[[str], None]
) -> Iterator[tuple[pa.Schema, Iterator[pa.Table]]]:
    """Open CSV: all columns with their types, from a first reading, and the rows, which are read once more.

    Empty cells, and those that say NA or null, are missing. ``progress`` is called with bytes of the file. Raises
    InputError for lines that cannot be parsed.
    """
    rows = CsvRows(source, np.dtype(np.float64))
    for line in rows.notes:
        note(line)
    kinds = [pa.null()] * rows.n_features
    for table, done in rows.tables({}):
        kinds = [both(kind, other) for kind, other in zip(kinds, table.schema.types, strict=True)]
        progress(done, 2 * max(rows.total, done))
    if pa.binary() in kinds:  # text that is not UTF-8
        raise rows.refusal([])
    kinds = [pa.float64() if kind == pa.null() else kind for kind in kinds]
    names = [rows.name_of(i) for i in rows.features]
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"{source} has {times} columns called {name!r}. Rename all but one.")
    schema = pa.schema(zip(names, kinds, strict=True))
    yield schema, _typed_tables(rows, schema, progress)


def _typed_tables(rows: CsvRows, schema: pa.Schema, progress: Progress) -> Iterator[pa.Table]:
    for table, done in rows.tables(dict(zip(rows.features, schema.types, strict=True))):
        trimmed = [pc.utf8_trim_whitespace(c) if c.type == pa.string() else c for c in table.columns]
        yield pa.table(trimmed, schema=schema)
        progress(rows.total + done, 2 * max(rows.total, done))


@contextmanager
def _delta_tables(source: str, progress: Progress) -> Iterator[tuple[pa.Schema, Iterator[pa.Table]]]:
    """Open the newest version of a table: its columns, and its rows in tables of about a reading unit."""
    failure, remedy = f"Cannot read the Delta Lake table {source}", "Write it again."
    with reading_with("delta", f"{source} is a Delta Lake table", failure, remedy):
        from deltalake import DeltaTable, QueryBuilder

        query = QueryBuilder().register("rows", DeltaTable(source))
        query.execute(IN_ORDER).read_all()
        reader = pa.RecordBatchReader.from_stream(query.execute("select * from rows"))
        schema = pa.schema([pa.field(field.name, _plain(field.type)) for field in reader.schema])
        yield schema, _units(reader, schema, progress)


def _units(reader: pa.RecordBatchReader, schema: pa.Schema, progress: Progress) -> Iterator[pa.Table]:
    """Yield tables of about a reading unit; ``progress`` is called with rows, of as many as are read."""
    held: list[pa.RecordBatch] = []
    done = 0
    for batch in reader:
        held.append(batch)
        done += len(batch)
        if sum(each.nbytes for each in held) >= LIMITS.unit_bytes:
            yield pa.Table.from_batches(held).cast(schema)
            held = []
            progress(done, done)
    if held:
        yield pa.Table.from_batches(held).cast(schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == pa.string_view() else pa.binary() if kind == pa.binary_view() else kind


def write_tables(destination: str, schema: pa.Schema, tables: Iterator[pa.Table]) -> dict[str, Any]:
    """Write tables as one Parquet file, a row group each, and describe what was written."""
    partial, n_rows = f"{destination}.partial", 0
    fs, path = storage.filesystem(partial if storage.is_local(destination) else destination)
    with storage.explained(destination, "write"):
        with fs.open(path, "wb") as file, pq.ParquetWriter(file, schema) as writer:
            for table in tables:
                writer.write_table(table)
                n_rows += len(table)
        if storage.is_local(destination):
            Path(partial).replace(destination)  # object stores show a file once it is complete
    return {
        "rows": n_rows, "columns": len(schema.names), "dtype": "mixed", "sparse": False, "labels": None,
        "labels_guessed": False, "kept": [], "classes": 0,
        "bytes": int(fs.size(path if not storage.is_local(destination) else destination)),
    }  # fmt: skip


def write_parquet(
    source: str, destination: str, overwrite: bool, progress: Progress, note: Callable[[str], None]
) -> dict[str, Any]:
    """Write CSV, or a table of Delta Lake, as one Parquet file, and describe what was written."""
    check_typed(source, destination, overwrite)
    opened = _delta_tables(source, progress) if _is_delta(source) else _csv_tables(source, progress, note)
    with opened as (schema, tables):
        return write_tables(destination, schema, tables)


def check_typed(source: str, destination: str, overwrite: bool) -> None:
    """Refuse a source that is no CSV or Delta Lake table, and a destination that is occupied."""
    if not stem_of(source).endswith(CSV_SUFFIXES) and not _is_delta(source):
        raise InputError(
            f"{source} is neither CSV nor a Delta Lake table, and only these become Parquet. Name a destination "
            "that ends with .zarr."
        )
    refuse_overlap(source, destination)
    refuse_inside(destination)
    if storage.exists(destination) and not overwrite:
        raise OutputError(f"{destination} is there already: name another destination, or --overwrite.")


def both(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the narrowest type that holds the values of two, which is text for most."""
    if pa.binary() in (left, right):
        return pa.binary()
    if left != right and pa.null() not in (left, right):
        left, right = (pa.timestamp("s") if kind == pa.date32() else kind for kind in (left, right))
    schemas = [pa.schema([("", kind)]) for kind in (left, right)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").types[0]
    except pa.ArrowTypeError:
        return pa.string()
