"""The Parquet files of a folder that make a table, in order, and the columns in the names of their folders.

Dask, Spark and Hive write plain folders. Folders of Delta Lake and Iceberg also hold files of removed rows, so they are
read through their logs, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as pads
from dask.utils import natural_sort_key

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.readers.formats import ZARR, reading_with
from mmpca_dist.tables.readers.listing import matching, names_of

SUFFIXES = (".parquet", ".pq", ".parq", ".parquet.gzip", ".parquet.snappy")
MAGIC = b"PAR1"
DELTA, HUDI, ICEBERG = "_delta_log", ".hoodie", "metadata"
ParquetFiles = tuple[dict[str, dict[str, Any]], list[pa.Field]]
"""The files of a table in the order of its rows, with their values of columns; and these columns, which are in the
names of folders (``year=2024``) or in a log, not in the files."""


def holds_parquet(uri: str, names: Collection[str]) -> bool:
    """Tell whether a folder that holds ``names`` is a table of Parquet files rather than a Zarr group."""
    if ZARR.intersection(names):
        return False
    if any(name.lower().endswith(SUFFIXES) for name in names) or has_log(uri, names):
        return True
    folders = [storage.join(uri, name) for name in names if "=" in name]
    return any(names_of(folder, MAGIC, SUFFIXES) for folder in folders)


def has_log(uri: str, names: Collection[str]) -> bool:
    """Tell whether a folder that holds ``names`` has a log, so that some of its files may hold removed rows."""
    return DELTA in names or HUDI in names or _is_iceberg(uri, names)


def parquet_files(uri: str) -> ParquetFiles:
    """Return the Parquet files of a table: one, those of a folder or a pattern, or those that a folder's log lists."""
    if files := matching(uri):
        return {file: {} for file in files}, []
    storage.require(uri)
    with storage.reached(uri) as (fs, path):
        if not fs.isdir(path):
            return {uri: {}}, []
    names = storage.names_in(uri)
    if DELTA in names:
        return _through_log(uri, "Delta Lake", "delta", _of_delta)
    if HUDI in names:
        raise InputError(
            f"{uri} is a Hudi table, in whose folder also lie files of removed rows. Write its rows as plain Parquet "
            "with a tool that reads Hudi."
        )
    if _is_iceberg(uri, names):
        return _through_log(uri, "Iceberg", "iceberg", _of_iceberg)
    if not (files := names_of(uri, MAGIC, SUFFIXES)):
        raise InputError(f"The folder {uri} holds no .parquet files.")
    return _with_partitions(uri, files)


def _with_partitions(uri: str, names: list[str]) -> ParquetFiles:
    """Add the columns in names of folders, which are integers where all values are, else text."""
    segments = [segment for name in names for segment in name.split("/")[:-1] if "=" in segment]
    columns = list(dict.fromkeys(unquote(segment.partition("=")[0]) for segment in segments))
    hive = pads.HivePartitioning(pa.schema([(column, pa.string()) for column in columns]))
    texts = [pads.get_partition_keys(hive.parse(f"/{name}")) for name in names]
    typed = {name: _integers_or_text(pa.array([text.get(name) for text in texts], pa.string())) for name in columns}
    of_file = [{column: values[i].as_py() for column, values in typed.items()} for i in range(len(names))]
    files = [storage.join(uri, name) for name in names]
    return dict(zip(files, of_file, strict=True)), [pa.field(column, values.type) for column, values in typed.items()]


def _integers_or_text(values: pa.Array) -> pa.Array:
    try:
        numbers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        return values
    return numbers if len(numbers.unique()) == len(values.unique()) else values  # 01 and 1 are two names


def _through_log(uri: str, kind: str, extra: str, read: Callable[[str], ParquetFiles]) -> ParquetFiles:
    what = f"{uri} is a table of {kind}, in whose folder also lie files of removed rows: its log says which"
    tool = "mmpca ingest TABLE DEST.parquet" if kind == "Delta Lake" else "a tool that reads this table"
    remedy = f"Write its rows as plain Parquet with {tool}."
    with reading_with(extra, what, f"Cannot read the log of the {kind} table {uri}", remedy):
        return read(uri)


def _of_delta(uri: str) -> ParquetFiles:
    from deltalake import DeltaTable

    dataset = DeltaTable(uri).to_pyarrow_dataset()  # refuses deletion vectors and mapped columns
    files = {str(file.path): pads.get_partition_keys(file.partition_expression) for file in dataset.get_fragments()}
    if not files:
        raise InputError(f"The Delta Lake table {uri} has no rows.")
    names = sorted(files, key=natural_sort_key)
    columns = {name: None for values in files.values() for name in values}
    values = {name if "://" in name else storage.join(uri, name): files[name] for name in names}
    return values, [dataset.schema.field(name) for name in columns]


def _is_iceberg(uri: str, names: Collection[str]) -> bool:
    return ICEBERG in names and any(name.endswith(".metadata.json") for name in storage.names_in(f"{uri}/{ICEBERG}"))


def _of_iceberg(uri: str) -> ParquetFiles:
    table = _iceberg_table(_iceberg_metadata(uri))
    _refuse_renamed(uri, table)
    scans = list(table.scan().plan_files())
    if any(scan.delete_files for scan in scans):
        raise InputError(
            f"The Iceberg table {uri} has rows that are removed by delete files. Rewrite its data files first, for "
            "example with the procedure rewrite_data_files of Spark."
        )
    if not scans:
        raise InputError(f"The Iceberg table {uri} has no rows.")
    files = [str(scan.file.file_path) for scan in scans]
    return {storage.normalize(file): {} for file in sorted(files, key=natural_sort_key)}, []


def _iceberg_table(uri: str) -> Any:
    """Open a table as ``StaticTable.from_metadata`` does, but ignore the properties in its metadata.

    They name the class that opens files (``py-io-impl``), which pyiceberg imports and calls, and the server of a
    bucket. The table may come from a stranger.
    """
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import StaticTable

    io = load_file_io(location=uri)
    metadata = FromInputFile.table_metadata(io.new_input(uri))
    return StaticTable(("static-table", uri), metadata, uri, io, NoopCatalog("static-table"))


def _iceberg_metadata(uri: str) -> str:
    """Return the newest metadata file of a table without a catalog."""
    folder = storage.join(uri, ICEBERG)
    names = [name for name in storage.names_in(folder) if name.endswith(".metadata.json")]
    numbers = {name: int(match[1]) if (match := re.match(r"v?(\d+)", name)) else -1 for name in names}
    newest = [name for name in names if numbers[name] == max(numbers.values())]
    if len(newest) > 1:
        raise InputError(
            f"{folder} holds {' and '.join(newest)}, and only a catalog knows which of them is the table. Write its "
            "rows as plain Parquet."
        )
    return storage.join(folder, newest[0])


def _refuse_renamed(uri: str, table: Any) -> None:
    """Refuse tables whose older files may call a column by another name."""
    pairs = {(column.field_id, column.name) for schema in table.metadata.schemas for column in schema.fields}
    if len({number for number, _ in pairs}) < len(pairs) or len({name for _, name in pairs}) < len(pairs):
        raise InputError(
            f"Columns of the Iceberg table {uri} were renamed, or left out and made anew, so that names in older files "
            "mean other columns. Write its rows as plain Parquet."
        )
