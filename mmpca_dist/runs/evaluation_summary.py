"""Tell of a finished evaluation, from its records and tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import finished
from mmpca_dist.jobs.object_records import AGAIN, read_recorded
from mmpca_dist.jobs.records import COMPARE, CompareRecord
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own


def comparison(output: str) -> CompareRecord:
    """Return the record of a finished evaluation: its verdict in words, notes, and where its report is."""
    return finished(RunDirectory(storage.normalize(output)), COMPARE)


def error_rows(output: str) -> list[dict[str, str]]:
    """Return the errors of a finished evaluation as a table: a row for each method and number of components.

    Rows of one method that used as many components and have the same errors are shown once.
    """
    rows: dict[tuple[str, int], dict[str, str]] = {}
    used: dict[tuple[str, int], int] = {}
    for cell in stored_table(RunDirectory(storage.normalize(output)), "cells").to_pylist():
        method, size = key = cell["method"], cell["n_components"]
        used[key] = cell["used"]
        components = f"{cell['used']} of {size}" if cell["used"] < size else str(cell["used"])
        row = rows.setdefault(key, {"method": method, "components": components})
        deviation = "" if cell["deviation"] is None else f" ({cell['deviation']:.1f})"
        row[cell["classifier"]] = f"{cell['mean']:.2f}{deviation}"
    distinct: dict[tuple[Any, ...], dict[str, str]] = {}
    for key, row in rows.items():
        errors = tuple((name, text) for name, text in row.items() if name != "components")
        distinct.setdefault((used[key], *errors), row)
    return list(distinct.values())


def stored_table(run: RunDirectory, name: str) -> pa.Table:
    """Return a table of a finished evaluation: ``errors``, or ``cells`` of mean errors."""
    path = f"tables/{name}.parquet"
    # Not read_table: Arrow's data set reader may drop the Python bytes from a thread of its own while the interpreter
    # ends, which aborts the process after all is done.
    source = pa.BufferReader(read_recorded(run.uri, finished(run, COMPARE), path))
    with reading_own(run.path(path), AGAIN), pq.ParquetFile(source) as file:
        return file.read(use_threads=False)
