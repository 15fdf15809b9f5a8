"""Rows in ``.npy`` files: memory-mapped on a local disk, byte ranges elsewhere."""

from __future__ import annotations

import functools
import io
import math
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import tenacity
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.column import Column, Known, refuse_other_shape
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.labels import check_label_type
from mmpca_dist.tables.memory_limits import check_table
from mmpca_dist.tables.number_texts import says_value
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.source import Source, readable
from mmpca_dist.tables.spans import default_chunk_rows

HEADER_BYTES = 64 << 10
"""Headers of arrays of numbers take some hundred bytes."""
HEADER_ERRORS = (ValueError, KeyError, EOFError, TypeError, AttributeError, OverflowError, SyntaxError, RecursionError,
                 MemoryError, tokenize.TokenError)  # fmt: skip
"""Errors that NumPy, and Python's parser in it, raise for bytes that are no header."""
READINGS = 20
read_again = tenacity.retry(
    retry=tenacity.retry_if_exception_type(SystemError), stop=tenacity.stop_after_attempt(READINGS), reraise=True
)
"""Let a function that reads headers do so again where the parser fails.

Python's parser (3.11 and 3.12) counts its depth once for all threads. If a collection of garbage lets another thread
parse in between, it raises a SystemError, "AST constructor recursion depth mismatch", for text that is sound.
"""


@dataclass(frozen=True)
class NpyHeader:
    """The header of an array in ``.npy`` form; its values begin at ``offset``."""

    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype
    offset: int

    @classmethod
    def read(cls, stream: Any, where: str) -> NpyHeader:
        """Read the header at the position of a stream; refuse other forms and Python objects with an ``InputError``."""
        damages = (OSError, zipfile.BadZipFile, zlib.error, *HEADER_ERRORS)
        with instead_of(damages, InputError, f"{where} is not a readable .npy file: {{reason}}."):
            shape, fortran, dtype = _read_header(stream, stream.tell())
        if not all(type(size) is int and size >= 0 for size in shape):
            raise InputError(f"{where} is not a readable .npy file: it declares the shape {str(shape)[:100]}.")
        if dtype.hasobject:
            raise InputError(
                f"{where} holds pickled Python objects, which are never loaded. Save it as numbers, or labels as "
                "strings: np.asarray(y, dtype=str)."
            )
        return cls(shape, fortran and len(shape) == 2, dtype, stream.tell())

    def refuse_longer_than(self, n_bytes: int | None, where: str) -> None:
        """Refuse an array that is longer than its file of ``n_bytes``; some servers do not tell the length (None)."""
        declared = self.offset + math.prod(self.shape) * self.dtype.itemsize
        if n_bytes is not None and declared > n_bytes:
            raise InputError(
                f"{where} declares the shape {self.shape}, which takes {declared} bytes, and has {n_bytes}. It is cut "
                "short: copy it again."
            )


@read_again
def _read_header(stream: Any, start: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    if stream.tell() != start:
        stream.seek(start)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    return headers[np.lib.format.read_magic(stream)](stream)


class NpyRows(Source):
    """A ``.npy`` file of rows, and one of labels where there are any."""

    def __init__(self, uri: str, label: str | None = None, words: Collection[str] = ()) -> None:
        self.label, self._words, self._token = label, words, uuid.uuid4().hex
        rows = _header(uri, self._token)
        check_table(uri, rows.shape, rows.dtype)
        local = storage.is_local(uri)
        if rows.by_column and not local:
            raise InputError(
                f"{uri} is stored column by column, so that its rows cannot be read from object storage piece by "
                "piece. Copy it to a local disk, or save it row by row: np.ascontiguousarray(X)."
            )
        self.facts = Facts(uri, rows.shape[0], rows.shape[1], rows.dtype, kind="local" if local else "remote")
        self._chunk_rows = default_chunk_rows(self.row_bytes)

    @property
    def by_blocks(self) -> bool:
        return self.facts.kind == "local" and not _header(self.uri, self._token).by_column

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        rows = _read(self.uri, self._token, start, stop)
        if out is None:
            return np.ascontiguousarray(rows)
        out[...] = rows
        return out

    def column(self, name: str | None, setting: Setting | str) -> Column:
        if name is None and self.label is not None:
            return npy_column(self.label, self._words)
        return super().column(name, setting)


def npy_column(uri: str, words: Collection[str] = ()) -> Column:
    """Return a ``.npy`` file with a value for each row as a column, with more ``words`` for missing values."""
    token = uuid.uuid4().hex
    header = refuse_other_shape(_header(uri, token), uri)
    n_rows, dtype = header.shape[0], header.dtype
    check_label_type(dtype, min(n_rows, default_chunk_rows(dtype.itemsize)), uri)
    return Column(uri, uri, n_rows, functools.partial(_read_column, uri, token, words), [uri])


def _read_column(uri: str, token: str, words: Collection[str], start: int, stop: int) -> Known:
    with readable(f"the labels of rows {start} to {stop - 1} of {uri}"):
        values = np.asarray(_read(uri, token, start, stop)).reshape(-1)
        return values, says_value(values, words)


def _read(uri: str, token: str, start: int, stop: int) -> NDArray:
    if storage.is_local(uri):
        return _map(uri, token)[start:stop]
    header = _header(uri, token)
    row_bytes = header.dtype.itemsize * int(np.prod(header.shape[1:]))
    first, end = (header.offset + row * row_bytes for row in (start, stop))
    with storage.reached(uri) as (fs, path):
        data = fs.cat_file(path, start=first, end=end) if end > first else b""
    if len(data) != end - first:
        raise InputError(
            f"{uri} gave {len(data)} bytes where rows {start} to {stop - 1} have {end - first}. It is cut short, or "
            "its server does not read by ranges: copy it again, or to a local disk."
        )
    return np.frombuffer(data, header.dtype).reshape(stop - start, *header.shape[1:])


@functools.lru_cache(maxsize=8)
def _map(path: str, token: str) -> NDArray:
    header = _header(path, token)
    with storage.explained(path):
        return np.memmap(path, header.dtype, "r", header.offset, header.shape, "F" if header.by_column else "C")


@functools.lru_cache(maxsize=256)
def _header(uri: str, token: str) -> NpyHeader:
    storage.require(uri)
    with storage.reached(uri) as (fs, path):
        data = fs.cat_file(path, start=0, end=HEADER_BYTES)
        n_bytes = fs.size(path)
    header = NpyHeader.read(io.BytesIO(data), uri)
    header.refuse_longer_than(n_bytes, uri)
    return header


def _open(request: Request) -> NpyRows:
    if request.label is None and request.label_required:
        text = f"{request.uri} holds rows only: give the .npy file of the labels as {{label}}."
        raise InputError(text, label=Setting("label"))
    label = None if request.label is None else storage.normalize(request.label)
    return NpyRows(request.uri, label, request.missing_values)


FORMAT = Format("npy", "an array", _open, suffixes=(".npy",), alone=False)
