"""Results of finished runs and evaluations, read from their folders."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import finished
from mmpca_dist.jobs.object_records import AGAIN, read_recorded
from mmpca_dist.jobs.records import COMPARE, CompareRecord
from mmpca_dist.results.result import Result, commands_by_purpose
from mmpca_dist.results.run_result import run_result
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own


def result_in(output: str) -> Result:
    """Return what came out of the finished run or evaluation in a folder; raise InputError where there is none."""
    run = RunDirectory(storage.normalize(output))
    if run.exists and run.purpose == "evaluation":
        return evaluation_in(run, finished(run, COMPARE))
    return run_result(output)


def evaluation_in(run: RunDirectory, record: CompareRecord) -> Result:
    """Return what came out of a finished evaluation, from its record."""
    lists: dict[str, list[Any]] = record["tables"]
    tables = {
        key: (about, [dict(zip(names, row, strict=True)) for row in rows])
        for key, (about, names, *rows) in lists.items()
    }
    return Result(
        folder=run.uri,
        lead=record["answer"],
        words=[record["verdict"]],
        title=tables["cells"][0],
        rows=tables["cells"][1],
        numbers=stored_table(run, "cells").to_pylist(),
        tables=tables,
        next=commands_by_purpose(run.uri, record["next"]),
        commands=record["next"],
        notes=record.get("notes", []),
        report=record,
    )


def stored_table(run: RunDirectory, name: str) -> pa.Table:
    """Return a table of a finished evaluation: ``errors``, ``cells`` of mean errors, or ``classes``."""
    path = f"tables/{name}.parquet"
    # Not read_table: Arrow's data set reader may drop the Python bytes from a thread of its own while the interpreter
    # ends, which aborts the process after all is done.
    source = pa.BufferReader(read_recorded(run.uri, finished(run, COMPARE), path))
    with reading_own(run.path(path), AGAIN), pq.ParquetFile(source) as file:
        return file.read(use_threads=False)
