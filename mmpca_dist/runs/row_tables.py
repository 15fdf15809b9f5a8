"""``RowTable``: where projected rows go, arrays in Zarr or a table in parts."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray

from mmpca_dist.belonging.held_out import Counts, add_counts
from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.ingest.to_parquet import write_tables
from mmpca_dist.jobs.object_records import GROUP
from mmpca_dist.passes.serialization import storable
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import CHECKED, write_chunk
from mmpca_dist.tables.levels import is_text
from mmpca_dist.tables.readers.zarr_groups import ROWS
from mmpca_dist.tables.side_columns import KeptColumns

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
    counts: Counts = field(default_factory=dict)
    """Of the scores of held-out rows, where these are counted."""

    def __add__(self, other: Written) -> Written:
        counts = add_counts(self.counts, other.counts)
        return Written(self.n_bytes + other.n_bytes, self.files + other.files, counts)

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
                    write_chunk(storage.join(self.uri, name), array, start, _as_array(column, array.dtype, name))
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
