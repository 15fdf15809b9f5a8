"""Rows of AnnData in ``.h5ad`` files, one or several, by the documented layout of HDF5; nothing is unpickled.

``X`` is an array, or a group of the parts of CSR rows; ``obs`` holds labels and other columns, ``var`` the names. Files
are open only while something is read: an open one could not be written again.
"""

from __future__ import annotations

import functools
import math
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.labels import of_codes
from mmpca_dist.tables.memory_limits import check_table, refuse_larger
from mmpca_dist.tables.number_texts import says_value
from mmpca_dist.tables.readers.column_choice import LABEL_NAMES
from mmpca_dist.tables.readers.csc import FORM, ByColumns
from mmpca_dist.tables.readers.csr import PARTS, SparseRows, check_form, check_index_type, check_row_ends, value_type
from mmpca_dist.tables.readers.formats import Format, Request, reading_with
from mmpca_dist.tables.readers.listing import HDF5, files_of
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.stacked_rows import Stack

SUFFIX, ROWS = ".h5ad", "X"


@contextmanager
def opened(uri: str) -> Iterator[Any]:
    """Open a file; what HDF5 raises for one that is none, or damaged, becomes one sentence."""
    remedy = "Copy it again, or write it with a newer AnnData."
    with reading_with("h5ad", f"{uri} is an HDF5 file", f"Cannot read {uri} as AnnData", remedy), ExitStack() as stack:
        import h5py

        storage.require(uri)
        fs, path = storage.filesystem(uri)
        local = storage.is_local(uri)
        source = path if local else stack.enter_context(fs.open(path, "rb"))
        # Some network file systems cannot lock files, and nothing is written here.
        yield stack.enter_context(h5py.File(source, "r", **({"locking": False} if local else {})))


class H5adRows(Source):
    """Rows, and columns of the table ``obs``, of an ``.h5ad`` file.

    ``request.features`` is the place of the rows (default ``X``), such as ``layers/counts`` or ``raw/X``;
    ``request.label`` a column of ``obs`` (default ``label`` or ``y``).
    """

    features: str

    def __init__(self, request: Request, file: Any) -> None:
        self.features, self._address, self._token = request.features or ROWS, request.uri, uuid.uuid4().hex
        self._words = request.missing_values
        self._obs = [name for name in file.get("obs", ()) if not name.startswith("__")]
        given = LABEL_NAMES if request.label is None else [request.label.removeprefix("obs/")]
        self.label = next((name for name in given if name in self._obs), None)
        if self.label is None and (request.label_required or request.label is not None):
            raise self._no_column(given[0], Setting("label"))
        self.beside_names = [name for name in self._obs if name != self.label]
        facts = self._open(file[self.features], f"{request.uri}/{self.features}")
        names = _names(file, "raw/var" if self.features.startswith("raw/") else "var", facts.n_features)
        kind = "local" if storage.is_local(request.uri) else "remote"
        self.facts = replace(facts, feature_names=names, kind=kind)
        self._lengths = {name: _length(file[f"obs/{name}"]) for name in self._obs}

    @abstractmethod
    def _open(self, stored: Any, where: str) -> Facts:
        """Return the shape and the type of the rows, and what reading them costs; refuse what is no table."""

    def _no_column(self, name: str, setting: str | Setting) -> InputError:
        hint = did_you_mean(name, self._obs) or f" Its columns are {some_names(self._obs)}."
        text = f"The table obs of {self._address} has no column {name!r} ({{setting}}).{hint}"
        return InputError(text, setting=setting)

    def column(self, name: str | None, setting: Setting | str) -> Column:
        name = str(self.label) if name is None else name.removeprefix("obs/")
        if name not in self._obs:
            raise self._no_column(name, setting)
        place = f"{self._address}/obs/{name}"
        if self._lengths[name] != self.n_rows:
            raise InputError(f"{place} has another length than the {self.n_rows} rows. It is damaged.")
        return Column(name, place, self.n_rows, functools.partial(_read_column, self.uri, name, self._words))


def _read_column(uri: str, name: str, words: Sequence[str], start: int, stop: int) -> Known:
    with opened(uri) as file:
        column = _member(file, f"obs/{name}")
        parts = column if hasattr(column, "keys") else ()  # "in" an array would read it value by value
        if "codes" in parts or "categories" in column.attrs:  # those of AnnData 0.7 are elsewhere
            of_07 = "categories" in column.attrs
            levels = _values(file[column.attrs["categories"]] if of_07 else _member(column, "categories"))
            values, known = of_codes((column if of_07 else _member(column, "codes"))[start:stop], levels)
        else:
            values = _values(column, start, stop)
            known = ~_member(column, "mask")[start:stop] if "mask" in parts else np.ones(len(values), bool)
        return values, known & says_value(values, words)


class DenseH5adRows(H5adRows):
    """Dense rows of an ``.h5ad`` file."""

    def _open(self, stored: Any, where: str) -> Facts:
        check_table(where, stored.shape, stored.dtype)
        self._chunk_rows = None if stored.chunks is None else int(stored.chunks[0])
        n_rows, n_features = stored.shape
        return Facts(self._address, n_rows, n_features, stored.dtype.newbyteorder("="))

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        with opened(self.uri) as file:
            file[self.features].read_direct(out, np.s_[start:stop])
        return out


class SparseH5adRows(SparseRows, H5adRows):
    """CSR rows of an ``.h5ad`` file. Where rows end, ``indptr``, is held in memory by each process: 8 bytes a row."""

    def _open(self, stored: Any, where: str) -> Facts:
        check_form(stored.attrs.get("encoding-type"), where)
        data, indices, _ = (_member(stored, part) for part in PARTS)
        n_rows, n_features = map(int, stored.attrs["shape"])
        check_table(where, (n_rows, n_features), data.dtype, sparse=True)
        check_index_type(indices.dtype, f"{where}/indices")
        self._entry = data.dtype.itemsize + indices.dtype.itemsize
        dtype = value_type(data.dtype)
        return Facts(self._address, n_rows, n_features, dtype, sparse=True, resident_bytes=(n_rows + 1) * 8)

    @property
    def _ends(self) -> NDArray[np.int64]:
        return _ends_of(self._address, self.features, self._token, 0)

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        ends = self._ends[start : stop + 1]
        entries = slice(int(ends[0]), int(ends[-1]))
        with opened(self.uri) as file:
            rows = file[self.features]
            return rows["data"][entries], rows["indices"][entries], ends - ends[0]

    @property
    def n_bytes(self) -> int:
        return self.nnz * self._entry + (self.n_rows + 1) * 8


class CscH5adRows(ByColumns, SparseH5adRows):
    """Rows of a matrix that an ``.h5ad`` file stores by columns."""

    @property
    def _column_ends(self) -> NDArray[np.int64]:
        return _ends_of(self._address, self.features, self._token, 1)

    def _entries(self, part: str, start: int, stop: int) -> NDArray:
        with opened(self.uri) as file:
            return np.asarray(file[self.features][part][start:stop])


@functools.lru_cache(maxsize=64)
def _ends_of(uri: str, features: str, token: str, axis: int) -> NDArray[np.int64]:
    with opened(uri) as file:
        rows = file[features]
        ends, n_ends = _values(rows["indptr"]), int(rows.attrs["shape"][axis])
        check_row_ends(ends, n_ends, rows["data"].size, rows["indices"].size, f"{uri}/{features}", axis)
    return ends.astype(np.int64)


def _member(group: Any, name: str) -> Any:
    """Return a member of a group; refuse what lies in other files, and chunks that do not fit into memory."""
    item = group[name]
    where = f"{group.file.filename}{item.name}"
    if item.file.id != group.file.id or getattr(item, "is_virtual", False) or getattr(item, "external", None):
        raise InputError(f"{where} lies in another file, and such links are not followed. Copy it into this one.")
    if getattr(item, "chunks", None):
        refuse_larger(math.prod(item.chunks) * item.dtype.itemsize, f"A chunk of {where}", "Store it in smaller chunks")
    return item


def _names(file: Any, table: str, n_features: int) -> list[str] | None:
    """Return the names in a table of columns, if there are so many."""
    if table not in file or "_index" not in file[table].attrs:
        return None
    names = _values(_member(file, f"{table}/{file[table].attrs['_index']}"))
    return [str(name) for name in names] if len(names) == n_features else None


def _length(column: Any) -> int:
    parts = ("codes", "values") if hasattr(column, "keys") else ()
    return next((column[part].size for part in parts if part in column), getattr(column, "size", 0))


def _values(item: Any, start: int = 0, stop: int | None = None) -> NDArray:
    """Return values of a flat array, or of one with a mask of missing values; text as Python's strings."""
    item = _member(item, "values") if hasattr(item, "keys") else item
    if stop is None:
        refuse_larger(item.size * item.dtype.itemsize, f"{item.name}, read whole,", "Store fewer values")
    return np.asarray(item.asstr()[start:stop] if item.dtype.kind == "O" else item[start:stop])


def _open_file(request: Request) -> Source:
    with opened(request.uri) as file:
        name = request.features or ROWS
        if name not in file:
            within = [f"{part}/{key}" for part in ("layers", "obsm") for key in file.get(part, ())]
            places = [*(place for place in (ROWS, f"raw/{ROWS}") if place in file), *within]
            raise InputError(
                f"{request.uri} has no {name!r} ({{features}}); it has {some_names(places) or 'no other rows'}."
                f"{did_you_mean(name, places)}",
                features=Setting("features"),
            )
        if not hasattr(file.get("obs", file), "keys") or "h5sparse_format" in file[name].attrs:
            raise InputError(
                f"{request.uri} is AnnData before 0.7, whose layout is not read. Write it again with a newer AnnData: "
                "anndata.read_h5ad(OLD).write_h5ad(NEW)."
            )
        by_columns = file[name].attrs.get("encoding-type") == FORM
        sparse = CscH5adRows if by_columns else SparseH5adRows
        kind = sparse if hasattr(_member(file, name), "keys") else DenseH5adRows
        return kind(replace(request, features=name), file)


def _open(request: Request) -> Source:
    """Open a file, all files of a folder, or those whose names match a pattern such as ``sample_*.h5ad``."""
    if (files := files_of(request.uri, HDF5, (SUFFIX,), deep=False)) == [request.uri]:
        return _open_file(request)
    return Stack(request.uri, [_open_file(replace(request, uri=file)) for file in files])


FORMAT = Format(
    "h5ad",
    "AnnData",
    _open,
    suffixes=(SUFFIX,),
    magic=HDF5,
    holds=lambda _, names: any(name.lower().endswith(SUFFIX) for name in names),
)
