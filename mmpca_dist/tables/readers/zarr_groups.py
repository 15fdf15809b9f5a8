"""Zarr groups as data sets: the base of dense and sparse rows, with labels, names, and missing chunks."""

from __future__ import annotations

import functools
import itertools
import math
import re
import threading
import uuid
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numcodecs
import numpy as np
import zarr
import zarr.codecs.blosc
from numcodecs.compat import ensure_contiguous_ndarray
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean, instead_of, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import pixels_of, values_of
from mmpca_dist.tables.column import MAX_STRETCHES, Column, Known, MissingChunks
from mmpca_dist.tables.column_scatter import stored_dominant_columns
from mmpca_dist.tables.facts import TABLE, Facts
from mmpca_dist.tables.labels import check_label_type, normalize_labels, of_codes
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.number_texts import says_value
from mmpca_dist.tables.readers.formats import Request
from mmpca_dist.tables.readers.packed import Packing
from mmpca_dist.tables.source import Source, readable
from mmpca_dist.tables.spans import default_chunk_rows

ROWS = "mmpca-rows"
"""Attribute of a group: the number of rows and columns that an ingest wrote, and their type."""
TOKEN = re.compile("[0-9a-f]{32}")
"""The name of a sub-group that holds a table."""
SHARD_ENTRY_BYTES = 16
CHUNK_NUMBER = re.compile(r"\d{1,18}")
T = TypeVar("T")
AGAIN = " It is damaged: write it again, or restore it from its source."


class WholeBlosc(numcodecs.Blosc):
    """Blosc that refuses a chunk which is cut short: numcodecs reads on beyond its end, and returns what is there."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        data = ensure_contiguous_ndarray(buf).view("u1")
        if int.from_bytes(data[12:16].tobytes(), "little") > len(data):
            raise ValueError("it ends early")
        return super().decode(buf, out)


numcodecs.register_codec(WholeBlosc)  # of Zarr 2
zarr.codecs.blosc.Blosc = WholeBlosc  # of Zarr 3


def table_url(uri: str, group: zarr.Group) -> str:
    """Return the address of the table of a group: the group itself, or the sub-group that an attribute names."""
    token = group.attrs.get(TABLE)
    if token is None:
        return uri
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise InputError(f"{uri} is damaged: its attribute {TABLE!r} is {token!r}, which is no sub-group of an ingest.")
    return storage.join(uri, token)


class ZarrGroupRows(Source):
    """Rows and columns of a Zarr group, version 3 or 2.

    ``request.features`` is the array, or group of arrays, that holds the rows (default ``X``); ``label`` the array of
    labels (default ``y``), or a column of AnnData's table such as ``obs/cell_type``. ``table`` is the address of the
    arrays, by ``table_url``. It stays the same while the table is replaced, so that nobody reads a part of each.
    """

    features: str

    def __init__(self, request: Request, table: str) -> None:
        uri, self.table, self.missing_chunks = request.uri, table, request.missing_chunks
        self.features, label = request.features or "X", request.label or "y"
        self._words = request.missing_values
        self._token, self._address = uuid.uuid4().hex, uri
        group = zarr_stores.open_group(table)
        self.label = label if request.label_required or member(group, label, uri) is not None else None
        facts = self._open(group, f"{uri} ({self.features!r})")
        names, shape = _feature_names(group, uri, facts.n_features), _image_shape(group, facts.n_features)
        kind = "local" if storage.is_local(uri) else "remote"
        self.facts = replace(facts, feature_names=names, image_shape=shape, kind=kind)
        self.first_index = 0 if group.attrs.get("from_zero") is True else 1
        self.dominant_columns = stored_dominant_columns(group.attrs.get("dominant_columns", ()), self.n_features)
        self._refuse_other_rows(group)

    @property
    def layout(self) -> str:
        stored = zarr_stores.open_group(self.table)[self.features]
        array = stored["data"] if isinstance(stored, zarr.Group) and "data" in stored else stored
        codecs = [type(codec).__name__ for codec in getattr(array, "compressors", ())]
        return f"{super().layout}, {', '.join(codecs) or 'not compressed'}"

    @abstractmethod
    def _open(self, group: zarr.Group, where: str) -> Facts:
        """Return the shape and the type of the rows, and what reading them costs; refuse what is no table."""

    def _refuse_other_rows(self, group: zarr.Group) -> None:
        """Compare the shape with the recorded one: metadata have no checksum, and one wrong digit shifts columns."""
        written = group.attrs.get(ROWS)
        if self.features != "X" or not isinstance(written, list):
            return
        n_rows, *others = [*written, None]
        if others != [self.n_features, str(self.dtype), None] or not isinstance(n_rows, int) or self.n_rows < n_rows:
            raise InputError(
                f"{self.uri}/{self.features} has {self.n_rows} rows of {self.n_features} columns of type {self.dtype}, "
                f"and was written with {str(written)[:60]}. Its metadata are damaged: restore them, or write it again."
            )

    def _refuse_missing(self, name: str, array: zarr.Array, what: str) -> None:
        """Refuse missing chunks, which Zarr silently reads as fill values; ``what`` they hold, such as rows."""
        chunks = StoredChunks.of(self.table, name, array)
        if chunks.n_missing and self.missing_chunks != "fill":
            first, size, packing = chunks.first_missing, chunks.shape[0], Packing.of(array, name)
            fill = np.asarray([array.fill_value], array.dtype)
            taken = "missing values" if packing is not None and packing.gaps(fill)[0] else array.fill_value
            start, stop = first[0] * size, min((first[0] + 1) * size, array.shape[0])
            raise InputError(
                f"{self._address} lacks {chunks.n_missing} of the chunks of {name!r}, the first one {first}: {what} "
                f"{start} to {stop - 1}. Restore it, or set {{fill}} to take its {what} as {taken}.",
                fill=Setting("missing_chunks", "fill"),
            )

    def column(self, name: str | None, setting: Setting | str) -> Column:
        name = str(self.label) if name is None else name
        stored = ZarrColumn.of(zarr_stores.open_group(self.table), name, self._address, setting)
        self._check_shape(stored, name)
        n_rows = min(self.n_rows, default_chunk_rows(self.row_bytes))
        check_label_type(stored.array.dtype, n_rows, f"{self._address}/{name}")
        return Column(
            name, f"{self.table}/{name}", math.prod(stored.array.shape),
            partial(_read_column, self.table, name, self._token, self._words), [storage.join(self.table, name)],
            self._missing_chunks(stored),
        )  # fmt: skip

    def _check_shape(self, stored: ZarrColumn, name: str) -> None:
        if stored.array.ndim != 1:
            raise InputError(
                f"{name!r} of {self._address} has shape {stored.array.shape}; labels must have shape (n,)."
            )

    def _missing_chunks(self, stored: ZarrColumn) -> MissingChunks | None:
        """Return what is missing; whether fill values are labels is known only once all labels are counted."""
        if self.missing_chunks == "refuse":
            self._refuse_missing(stored.path, stored.array, "labels" if stored.array.ndim == 1 else "lines of labels")
        chunks = StoredChunks.of(self.table, stored.path, stored.array)
        if not chunks.n_missing or stored.fill is None:
            return None
        return MissingChunks(chunks.n_missing_entries, tuple(chunks.missing_stretches[:MAX_STRETCHES]), stored.fill)

    @property
    def beside_names(self) -> Sequence[str]:  # type: ignore[override]
        group, taken = zarr_stores.open_group(self.table), {self.features, self.label}
        names = [name for name, array in group.arrays() if array.shape == (self.n_rows,)]
        table = group.get("obs")
        names += [f"obs/{name}" for name in table] if isinstance(table, zarr.Group) else []
        return [name for name in sorted(names) if name not in taken and not name.startswith("obs/__")]

    @property
    def addresses(self) -> list[str]:
        return [storage.join(self.table, self.features)]


def _feature_names(group: zarr.Group, uri: str, n_features: int) -> list[str] | None:
    """Return the names of columns, which are an attribute, or in AnnData's table of columns."""
    names, table = group.attrs.get("feature_names"), member(group, "var", uri)
    if names is None and isinstance(table, zarr.Group):
        stored = stored_values(table, str(table.attrs.get("_index")), uri)
        names = None if stored is None else list(stored)
    return [str(name) for name in names] if isinstance(names, list) and len(names) == n_features else None


def _image_shape(group: zarr.Group, n_features: int) -> tuple[int, int] | None:
    match group.attrs.get("image_shape"):
        case [int(height), int(width)] if height * width == n_features:
            return height, width
    return None


def array_of(group: zarr.Group, name: str, uri: str) -> zarr.Array:
    """Return the array of rows ``name``; an ``InputError`` names those that there are."""
    rows = member(group, name, uri)
    if isinstance(rows, zarr.Array):
        return rows
    raise no_array(uri, name, Setting("features"), sorted(group.array_keys()))


@dataclass(frozen=True)
class StoredChunks:
    """Which chunks (or shards) of a grid are stored. A grid may declare far too many chunks to list."""

    array_shape: tuple[int, ...]
    shape: tuple[int, ...]
    grid: tuple[int, ...]
    stored: set[tuple[int, ...]]

    @classmethod
    def of(cls, uri: str, name: str, array: zarr.Array) -> StoredChunks:
        """List the chunks of ``array``, which is called ``name`` in the group at ``uri``."""
        shape = array.shards or array.chunks
        grid = tuple(-(-size // chunk) for size, chunk in zip(array.shape, shape, strict=True))
        stored = set()
        for key, *_ in storage.list_objects(storage.join(uri, name)):
            index = tuple(map(int, CHUNK_NUMBER.findall(key)))
            within = len(index) == len(grid) and all(i < size for i, size in zip(index, grid, strict=True))
            if within and array.metadata.encode_chunk_key(index) == key:
                stored.add(index)
        return cls(array.shape, shape, grid, stored)

    @property
    def n_missing(self) -> int:
        return math.prod(self.grid) - len(self.stored)

    @property
    def n_missing_entries(self) -> int:
        """How many entries are in chunks that are not stored."""
        ends = [np.subtract(self.array_shape, np.multiply(index, self.shape)) for index in self.stored]
        return math.prod(self.array_shape) - sum(int(np.prod(np.minimum(end, self.shape))) for end in ends)

    @property
    def missing_stretches(self) -> list[tuple[int, int]]:
        """The stretches (start, stop) of entries in lines whose chunks are not all stored."""
        times, (size, *_), (n_lines, *others) = Counter(index[0] for index in self.stored), self.shape, self.array_shape
        whole = sorted(line for line, count in times.items() if count == math.prod(self.grid[1:]))
        gaps = ((before + 1, after) for before, after in itertools.pairwise([-1, *whole, self.grid[0]]))
        width = math.prod(others)
        return [(first * size * width, min(end * size, n_lines) * width) for first, end in gaps if first < end]

    @property
    def first_missing(self) -> tuple[int, ...]:
        """The first one that is not stored, in C order; there must be one."""
        numbers = np.arange(len(self.stored) + 1)
        positions = np.stack(np.unravel_index(numbers, self.grid), axis=1).tolist()
        return next(index for index in map(tuple, positions) if index not in self.stored)


LARGE_CHUNK = 4  # times the entries that are asked for: it is kept for the next ones


@dataclass(frozen=True)
class ZarrColumn:
    """Values of shape (n,), or codes of ``categories``; ``mask`` is true where there is no value.

    ``path`` is the name of their array within the group at ``uri``.
    """

    uri: str
    path: str
    array: zarr.Array
    categories: NDArray | None = None
    mask: zarr.Array | None = None
    packing: Packing | None = None
    _kept: dict[str, tuple[int, NDArray]] = field(default_factory=dict)  # the last chunk of each array
    _lock: Any = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, group: zarr.Group, name: str, uri: str, setting: Setting | str = "") -> ZarrColumn:
        """Return the column called ``name``, which may be a path such as ``obs/cell_type``."""
        labels, where = member(group, name, uri), f"{uri}/{name}"
        if labels is None:
            table = group.get("obs")
            columns = [f"obs/{column}" for column in sorted(table)] if isinstance(table, zarr.Group) else []
            raise no_array(uri, name, setting, [*sorted(group.array_keys()), *columns])
        if isinstance(labels, zarr.Array):
            return cls(uri, name, labels, packing=Packing.of(labels, where))
        codes, values, mask = (member(labels, part, where) for part in ("codes", "values", "mask"))
        with storage.explained(uri):
            categories = stored_values(labels, "categories", where)
        if isinstance(codes, zarr.Array) and categories is not None:
            categories = normalize_labels(categories, f"{where}/categories")
            _refuse_other_codes(codes, categories, where)
            return cls(uri, f"{name}/codes", codes, categories)
        if isinstance(values, zarr.Array) and isinstance(mask, zarr.Array):
            if mask.shape != values.shape:
                raise InputError(f"{where} has values of shape {values.shape} and a mask of {mask.shape}.{AGAIN}")
            return cls(uri, f"{name}/values", values, None, mask)
        raise InputError(
            f"The labels {name!r} of {uri} are a group of encoding-type {labels.attrs.get('encoding-type')!r}; they "
            "must be an array, or a column as AnnData writes it, such as one of strings or categories."
        )

    def read(self, start: int, stop: int) -> Known:
        """Return the values of rows ``start`` to ``stop``, and which of them are there."""
        values, known = self._named(self._entries(self.array, start, stop))
        return values, known if self.mask is None else known & ~self._entries(self.mask, start, stop)

    def _entries(self, array: zarr.Array, start: int, stop: int) -> NDArray:
        """Return entries; a chunk that holds those of many units is decoded once, not again for each."""
        size = array.chunks[0]
        first = start - start % size
        if array.ndim > 1 or stop > first + size or size < LARGE_CHUNK * (stop - start):
            return pixels_of(array, start, stop)
        with self._lock:
            at, entries = self._kept.get(array.path, (-1, np.empty(0)))
            if at != first:
                entries = pixels_of(array, first, min(first + size, array.shape[0]))
                self._kept[array.path] = first, entries
        return entries[start - first : stop - first].copy()

    def _named(self, stored: NDArray) -> Known:
        if self.categories is not None:
            return of_codes(stored, self.categories)
        if self.packing is None:
            return stored, says_value(stored)
        return self.packing.values(stored), says_value(stored) & ~self.packing.gaps(stored)

    @property
    def fill(self) -> Any:
        """The label of rows in chunks that are not stored; None where they have none."""
        values, known = self._named(np.asarray([self.array.fill_value]))
        return normalize_labels(values, f"{self.uri}/{self.path}")[0] if known[0] else None


def _read_column(table: str, name: str, token: str, words: Sequence[str], start: int, stop: int) -> Known:
    with readable(f"the labels of rows {start} to {stop - 1} of {table}/{name}"):
        values, known = kept_open(ZarrColumn.of, table, name, token).read(start, stop)
        return values, known & says_value(values, words)


def no_array(uri: str, name: str, setting: Setting | str, names: list[str]) -> InputError:
    """Return the error for an array that is not in a group, which holds others."""
    others = some_names(names).replace("'", "") or "no arrays"
    text = f"{uri} has no array {name!r} ({{setting}}); it holds {others}.{did_you_mean(name, names)}"
    return InputError(text, setting=setting)


def stored_values(group: zarr.Group, name: str, uri: str) -> NDArray | None:
    """Return an array of AnnData, plain or with a mask of missing values; None for anything else."""
    array = member(group, name, uri)
    if isinstance(array, zarr.Group):
        array = member(array, "values", f"{uri}/{name}")
    if not isinstance(array, zarr.Array):
        return None
    refuse_larger(math.prod(array.shape) * array.dtype.itemsize, f"{uri}/{name}, read whole,", "Store fewer values")
    return values_of(array)


def _refuse_other_codes(codes: zarr.Array, categories: NDArray, where: str) -> None:
    """Refuse codes that are no integers, and equal categories, as those of a missing chunk: two codes are one class."""
    if codes.dtype.kind not in "iu":
        raise InputError(f"The codes of {where} have type {codes.dtype}, and must be integers.{AGAIN}")
    values, times = np.unique(categories, return_counts=True)
    if (times > 1).any():
        value = str(values[np.argmax(times > 1)])
        raise InputError(f"{where}/categories holds {value!r} {times.max()} times, or lacks a chunk.{AGAIN}")


def member(group: zarr.Group, name: str, uri: str) -> zarr.Array | zarr.Group | None:
    """Return the member ``name`` of a group.

    Refuses damaged metadata, chunks that are declared larger than the memory, and the codec that runs code.
    """
    if "\0" in name:
        raise InputError(f"{name!r} is no name of an array of {uri}: it holds the character NUL.")
    text = f"Cannot read {uri}/{name}: its Zarr metadata are damaged, or of a kind that is not known ({{reason}})."
    with instead_of(Exception, InputError, text), storage.explained(f"{uri}/{name}"):  # of many types
        item = zarr_stores.member(group, name)
    if isinstance(item, zarr.Array):
        _check_chunks(item, f"{uri}/{name}")
    return item


def _check_chunks(array: zarr.Array, where: str) -> None:
    metadata: Any = array.metadata
    n_items = math.prod(array.chunks)
    # Zarr 3.4 reads declared lengths of 0 as others, and keeps the metadata as they are stored.
    repaired = getattr(metadata, "_stored_document", None) is not None
    if repaired or (array.ndim and not n_items * math.prod(array.shards or (1,))):
        raise InputError(f"{where} declares a shape of chunks which is empty: its metadata are damaged.")
    refuse_larger(n_items * array.dtype.itemsize, f"A chunk of {where}", "Store it in smaller chunks")
    if array.shards is not None:
        n_chunks = math.prod(-(-a // b) for a, b in zip(array.shards, array.chunks, strict=True))
        refuse_larger(SHARD_ENTRY_BYTES * n_chunks, f"The index of a shard of {where}", "Store it in smaller shards")
    codecs = () if metadata.zarr_format == 3 else (metadata.compressor, *(metadata.filters or ()))
    if any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs):
        raise InputError(
            f"{where} is stored by the codec 'pickle', which runs what is in the data and is never used. Store it as "
            "numbers, or labels as strings."
        )


# Each process keeps opened arrays by their address: a data set that is sent to workers holds no open files, and tasks
# do not read the metadata again. Each opened data set has a new token, so that a long-lived worker does not use an
# array that was replaced.
@functools.lru_cache(maxsize=48)
def kept_open(opened: Callable[[zarr.Group, str, str], T], uri: str, name: str, token: str) -> T:
    """Return what a function opens of a group, by its name there, and keep it open."""
    return opened(zarr_stores.open_group(uri), name, uri)
