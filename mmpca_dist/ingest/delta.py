"""Tables of Delta Lake into plain Parquet, without the rows that deletion vectors remove."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.ingest.typed_csv import Progress
from mmpca_dist.limits import LIMITS

IN_ORDER = "set datafusion.execution.target_partitions = 1"
"""Files that are read at once come in any order."""


@contextmanager
def delta_tables(source: str, progress: Progress | None) -> Iterator[tuple[pa.Schema, Iterator[pa.Table]]]:
    """Open the newest version of a table: its columns, and its rows in tables of about a reading unit."""
    try:
        from deltalake import DeltaTable, QueryBuilder

        query = QueryBuilder().register("rows", DeltaTable(source))
        query.execute(IN_ORDER).read_all()
        reader = pa.RecordBatchReader.from_stream(query.execute("select * from rows"))
        schema = pa.schema([pa.field(field.name, _plain(field.type)) for field in reader.schema])
        yield schema, _units(reader, schema, progress)
    except ImportError as error:
        raise InputError(
            f"{source} is a Delta Lake table. Install 'mmpca-dist[delta]' to read it ({error})."
        ) from error
    except MmpcaError:
        raise
    except Exception as error:  # the library raises many types
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"Cannot read the Delta Lake table {source}: {reason}.") from error


def _units(reader: pa.RecordBatchReader, schema: pa.Schema, progress: Progress | None) -> Iterator[pa.Table]:
    """Yield tables of about a reading unit; ``progress`` is called with rows, of as many as are read."""
    held: list[pa.RecordBatch] = []
    done = 0
    for batch in reader:
        held.append(batch)
        done += len(batch)
        if sum(each.nbytes for each in held) >= LIMITS.unit_bytes:
            yield pa.Table.from_batches(held).cast(schema)
            held = []
            if progress is not None:
                progress(done, done)
    if held:
        yield pa.Table.from_batches(held).cast(schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == pa.string_view() else pa.binary() if kind == pa.binary_view() else kind
