"""Tables into Parquet: CSV with a type for each column, and Delta Lake without the rows that are deleted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.errors import InputError, OutputError, some_names
from mmpca_dist.ingest.csv import CsvRows
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.ingest.row_source import Progress
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.stores.overlaps import refuse_inside, refuse_overlap
from mmpca_dist.tables.changes import unchanged
from mmpca_dist.tables.readers.formats import reading_with, text_form
from mmpca_dist.tables.readers.parquet_folders import DELTA
from mmpca_dist.tables.stored_types import plain, unified

TO_ZARR = ("features", "label", "drop", "keep", "unlabelled", "dtype", "image_shape", "missing_chunks", "sparse")
"""Settings that only an ingest to Zarr honours."""
IN_ORDER = "set datafusion.execution.target_partitions = 1"
"""Files that are read at once come in any order."""


def _is_delta(source: str) -> bool:
    """Tell whether a folder is a table of Delta Lake."""
    return DELTA in storage.names_in(source)


def refuse_choices(selection: IngestConfig) -> None:
    """Raise InputError for choices that only an ingest to Zarr can honour."""
    fields = IngestConfig.model_fields
    chosen = [name for name in TO_ZARR if getattr(selection, name) != fields[name].default]
    if chosen:
        raise InputError(
            f"Parquet gets all columns as they are, and so {some_names(chosen)} cannot be chosen here. Choose "
            "labels and features in the configuration of a run: dataset.label, dataset.drop."
        )


def _csv_tables(
    source: str, selection: IngestConfig, progress: Progress, note: Callable[[str], None]
) -> Iterator[pa.Table]:
    """Yield CSV in tables, the first without rows: all columns with their types, which a first reading finds.

    Empty cells, and those that say NA or null, are missing; the ``selection`` has more such words, and the decimal
    mark. ``progress`` is called with bytes of the file. Raises InputError for lines that cannot be parsed.
    """
    rows = CsvRows.of_table(source, selection.missing_values, selection.decimal)
    kinds = [pa.null()] * rows.n_features
    for table, done in rows.tables({}):
        kinds = [both(kind, other) for kind, other in zip(kinds, table.schema.types, strict=True)]
        progress(done, 2 * max(rows.total, done))
    for line in rows.notes:
        note(line)
    if pa.binary() in kinds:  # text that is not UTF-8
        raise rows.refusal([])
    kinds = [pa.float64() if kind == pa.null() else kind for kind in kinds]
    schema = pa.schema(zip(map(rows.name_of, rows.features), kinds, strict=True))
    yield schema.empty_table()
    for table, done in rows.tables(dict(zip(rows.features, kinds, strict=True))):
        yield pa.table(table.columns, schema=schema)
        progress(rows.total + done, 2 * max(rows.total, done))


def _delta_tables(source: str, progress: Progress) -> Iterator[pa.Table]:
    """Yield the newest version of a table, without rows first, and tell ``progress`` how many rows are read."""
    failure, remedy = f"Cannot read the Delta Lake table {source}", "Write it again."
    with reading_with("delta", f"{source} is a Delta Lake table", failure, remedy):
        from deltalake import DeltaTable, QueryBuilder

        query = QueryBuilder().register("rows", DeltaTable(source))
        query.execute(IN_ORDER).read_all()
        reader = pa.RecordBatchReader.from_stream(query.execute("select * from rows"))
        schema = pa.schema([pa.field(field.name, plain(field.type)) for field in reader.schema])
        yield schema.empty_table()
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


def write_tables(file: Any, tables: Iterable[pa.Table], opened: Callable[[Any, pa.Schema], Any]) -> tuple[int, int]:
    """Write tables of the same columns to a file, with the writer that is opened for these, and return the shape."""
    with ExitStack() as stack:
        writer, n_rows, n_columns = None, 0, 0
        for table in tables:
            if writer is None:
                writer, n_columns = stack.enter_context(opened(file, table.schema)), table.num_columns
            if len(table):
                writer.write_table(table)
                n_rows += len(table)
    return n_rows, n_columns


def write_parquet(
    source: str, destination: str, config: IngestConfig, progress: Progress, note: Callable[[str], None]
) -> dict[str, Any]:
    """Write CSV, or a table of Delta Lake, as one Parquet file, and describe what was written."""
    check_typed(source, destination, config)
    is_delta = _is_delta(source)
    tables = _delta_tables(source, progress) if is_delta else _csv_tables(source, config, progress, note)
    # Files of a version of Delta Lake stay as they are, while others come.
    with unchanged(*[] if is_delta else [source]) as check:
        first = next(tables)  # before anything is written
        with storage.writing(destination) as file:
            n_rows, n_columns = write_tables(file, itertools.chain([first], tables), pq.ParquetWriter)
            n_bytes = file.tell()
            check()
    return {
        "rows": n_rows, "columns": n_columns, "dtype": "mixed", "sparse": False, "labels": None,
        "labels_guessed": False, "kept": [], "classes": 0, "bytes": n_bytes,
    }  # fmt: skip


def check_typed(source: str, destination: str, config: IngestConfig) -> None:
    """Refuse a source that is no CSV or Delta Lake table, and a destination that is occupied."""
    if text_form(source) != "csv" and not _is_delta(source):
        raise InputError(
            f"{source} is neither CSV nor a Delta Lake table, and only these become Parquet. Name a destination "
            "that ends with .zarr."
        )
    refuse_overlap(source, destination)
    refuse_inside(destination)
    if storage.exists(destination) and not config.replaces:
        raise OutputError(f"{destination} is there already: name another destination, or --overwrite.")


def both(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the narrowest type that holds the values of two, which is text for most."""
    if pa.binary() in (left, right):
        return pa.binary()
    return unified(left, right) or pa.string()
