"""CSV into Parquet with a type for each column: whole numbers, numbers, booleans, dates or text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mmpca_dist.errors import InputError, OutputError, some_names
from mmpca_dist.ingest.csv import CSV_SUFFIXES, CsvRows
from mmpca_dist.ingest.sources import Selection
from mmpca_dist.stores import storage
from mmpca_dist.stores.overlaps import refuse_inside, refuse_overlap
from mmpca_dist.tables.readers.formats import stem_of
from mmpca_dist.tables.readers.parquet_folders import DELTA, SUFFIXES

Progress = Callable[[int, int], None]
KINDS = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.string())
"""Types of columns, the narrowest first."""
WORDS = pa.array(["true", "false", None])
WIDER = {(pa.int64(), pa.float64()): pa.float64(), (pa.date32(), pa.timestamp("us")): pa.timestamp("us")}
"""What holds values of two types; of others text does."""


def is_parquet(destination: str) -> bool:
    """Tell whether an ingest is to write Parquet."""
    return destination.endswith(SUFFIXES)


def is_delta(source: str) -> bool:
    """Tell whether a folder is a table of Delta Lake."""
    return DELTA in storage.names_in(source)


def refuse_choices(selection: Selection, **others: Any) -> None:
    """Raise InputError for choices that only an ingest to Zarr can honour, but for None in ``others``."""
    unchosen = vars(Selection())
    chosen = [name for name, value in vars(selection).items() if value != unchosen[name] and value != []]
    chosen += [name for name, value in others.items() if value is not None]
    if chosen:
        raise InputError(
            f"Parquet gets all columns as they are, and so {some_names(chosen)} cannot be chosen here. Choose "
            "labels and features in the configuration of a run: dataset.label, dataset.drop."
        )


def csv_to_parquet(
    source: str, destination: str, *, progress: Progress | None, note: Callable[[str], None], overwrite: bool
) -> dict[str, Any]:
    """Write all columns of CSV with their types, in two readings, and describe what was written.

    Empty cells, and those that say NA or null, are missing. ``progress`` is called with bytes of the file.

    Raises
    ------
    InputError
        For a source that is no CSV, or lines that cannot be parsed.
    OutputError
        Where the destination holds something, unless it is to be replaced.
    """
    started = time.monotonic()
    check_typed(source, destination, overwrite)
    rows = CsvRows(source, None, np.dtype(np.float64), labelled=False)
    for line in rows.notes:
        note(line)
    names = rows.feature_names or [f"column {i}" for i in range(rows.n_features)]
    kinds: list[pa.DataType | None] = [None] * len(names)
    for table in _pieces(rows, progress, 0):
        kinds = [_both(kind, _kind_of(column)) for kind, column in zip(kinds, table.columns, strict=True)]
    schema = pa.schema([pa.field(name, kind or pa.float64()) for name, kind in zip(names, kinds, strict=True)])
    tables = (
        pa.table([_cast(column, kind) for column, kind in zip(table.columns, schema.types, strict=True)], schema=schema)
        for table in _pieces(rows, progress, rows.total)
    )
    return write_tables(source, destination, schema, tables, started)


def write_tables(
    source: str, destination: str, schema: pa.Schema, tables: Iterator[pa.Table], started: float
) -> dict[str, Any]:
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
        "source": source, "destination": destination, "rows": n_rows, "columns": len(schema.names), "dtype": "mixed",
        "sparse": False, "labels": None, "labels_guessed": False, "kept": [], "classes": 0,
        "bytes": int(fs.size(path if not storage.is_local(destination) else destination)),
        "seconds": round(time.monotonic() - started, 3),
    }  # fmt: skip


def check_typed(source: str, destination: str, overwrite: bool) -> None:
    """Refuse a source that is no CSV or Delta Lake table, and a destination that is occupied."""
    if not stem_of(source).endswith(CSV_SUFFIXES) and not is_delta(source):
        raise InputError(f"{source} is no CSV, and only that is turned into Parquet: name a destination.zarr.")
    refuse_overlap(source, destination)
    refuse_inside(destination)
    if storage.exists(destination) and not overwrite:
        raise OutputError(f"{destination} is there already: name another destination, or --overwrite.")


def _pieces(rows: CsvRows, progress: Progress | None, before: int) -> Iterator[pa.Table]:
    """Yield the columns as text, some lines at a time; progress begins with ``before`` bytes."""
    for data, done in rows.pieces():
        try:
            table = rows.parse(data, as_text=True)
        except pa.ArrowInvalid:
            rows.explain(data)
        yield table
        rows.first_row += len(table)
        if progress is not None:
            progress(before + done, 2 * max(rows.total, done))


def _both(left: pa.DataType | None, right: pa.DataType | None) -> pa.DataType | None:
    if left is None or right is None or left == right:
        return right if left is None else left
    return WIDER.get((left, right)) or WIDER.get((right, left)) or pa.string()


def _kind_of(column: pa.ChunkedArray) -> pa.DataType | None:
    """Return the narrowest type that holds all cells; None where all are missing."""
    chunks = [chunk for chunk in column.chunks if chunk.null_count < len(chunk)]
    return reduce(_both, map(_kind_of_chunk, chunks), None)


def _kind_of_chunk(chunk: pa.Array) -> pa.DataType:
    for kind in KINDS:
        try:
            _cast(chunk, kind)
            return kind
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return pa.string()


def _cast(column: Any, kind: pa.DataType) -> Any:
    if kind == pa.string():
        return column
    trimmed = pc.utf8_trim_whitespace(column)
    if kind != pa.bool_():
        return trimmed.cast(kind)
    words = pc.utf8_lower(trimmed)
    if not pc.all(pc.is_in(words, WORDS)).as_py():  # Arrow takes 0 and 1 too
        raise pa.ArrowInvalid("not all are true or false")
    return words.cast(kind)
