"""Rows in memory: arrays, CSR matrices, and ``.npz`` files, which each process loads whole."""

from __future__ import annotations

import functools
import uuid
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError, MmpcaError, did_you_mean, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.changes import digest_of_arrays
from mmpca_dist.tables.column import Column, Known, column_in_memory, refuse_other_shape
from mmpca_dist.tables.covariates import Covariate, given_covariates
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.labels import check_label_type, label_array
from mmpca_dist.tables.memory_limits import check_table, refuse_larger
from mmpca_dist.tables.number_texts import says_value
from mmpca_dist.tables.readers.csr import PARTS, SparseRows, check_index_type, check_row_ends, value_type
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.npy import NpyHeader, read_again
from mmpca_dist.tables.roles import COVARIATE, LABEL, TARGET, WEIGHT, Role
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.values import given_weights

CSR_PARTS = (*PARTS, "shape")
"""The arrays of a CSR matrix in an ``.npz`` file, as ``scipy.sparse.save_npz`` names them."""


class ArrayRows(Source):
    """Rows ``X`` of shape (n, d) that are in memory."""

    def __init__(self, X: NDArray, uri: str) -> None:
        self._X = np.asarray(X)
        check_table(uri, self._X.shape, self._X.dtype)
        self.facts = Facts(uri, len(self._X), self._X.shape[1], self._X.dtype, kind="memory")

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._X[start:stop]

    def fingerprint(self) -> str:
        return storage.digest("array", digest_of_arrays(self._X))


class SparseArrayRows(SparseRows):
    """A ``scipy.sparse`` matrix or array ``X`` of shape (n, d) in memory.

    Values that are stored twice are summed, as scipy means them, unless ``sum_duplicates`` is false. ``X`` itself is
    never changed.
    """

    def __init__(self, X: Any, uri: str, *, sum_duplicates: bool = True) -> None:
        check_table(uri, X.shape, X.dtype, sparse=True)
        self.facts = Facts(uri, X.shape[0], X.shape[1], value_type(X.dtype), sparse=True, kind="memory")
        rows = csr_array(X)
        if sum_duplicates and not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self._X = rows.astype(self.dtype, copy=False)

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        ends = self._X.indptr[start : stop + 1]
        within = slice(ends[0], ends[-1])
        return self._X.data[within], self._X.indices[within], ends - ends[0]

    @property
    def n_bytes(self) -> int:
        return int(self._X.data.nbytes + self._X.indices.nbytes + self._X.indptr.nbytes)

    @property
    def _ends(self) -> NDArray:
        return self._X.indptr

    def fingerprint(self) -> str:
        return storage.digest("csr", self.n_features, digest_of_arrays(self._X.data, self._X.indices, self._X.indptr))


def source_in_memory(X: Any, uri: str) -> ArrayRows | SparseArrayRows:
    """Return an array or a scipy.sparse matrix (n, d) as a source."""
    return SparseArrayRows(X, uri) if issparse(X) else ArrayRows(X, uri)


def rows_in_memory(X: Any, y: Any = None, uri: str = "the array in memory") -> Dataset:
    """Return an array or a scipy.sparse matrix (n, d) with labels (n,), or None, as a data set."""
    rows = Dataset.of(source_in_memory(X, uri))
    return rows if y is None else given(rows, LABEL, label_array(y, uri), uri)


def given(rows: Dataset, role: Role, values: NDArray, name: str, look: Any = None) -> Dataset:
    """Return rows with values in memory, one for each, in a role, which are looked at unless a look is given."""
    if len(values) != rows.n_rows:
        raise InputError(f"{rows.uri} has {rows.n_rows} rows and {len(values)} {role.plural}; there must be one a row.")
    if role is LABEL:
        rows = rows.unlabelled()
    column, rows = column_in_memory(values, name), Dataset.of(rows)
    return rows.with_look(role, column, role.look(rows, column, name, None) if look is None else look, name)


def weighted(rows: Dataset, weights: Any) -> Dataset:
    """Return the rows with weights that an estimator is given, without the rows of weight zero."""
    return given(rows, WEIGHT, given_weights(weights, rows.n_rows), "sample_weight")


def with_covariates(rows: Dataset, columns: Mapping[str, NDArray], known: Sequence[Covariate] = ()) -> Dataset:
    """Return the rows with covariates that are in memory, by name; those of a fit are ``known``."""
    names = [covariate.name.removeprefix("obs/") for covariate in known]
    if known and list(columns) != names:
        raise InputError(f"The covariates are {some_names(list(columns))}; those of the fit were {some_names(names)}.")
    for number, (name, values) in enumerate(columns.items()):
        look = known[number] if known else None
        rows = given(rows, COVARIATE, refuse_other_shape(values, name), name, look)
    return rows


def encoded_covariates(values: Any, known: Sequence[Covariate], n_rows: int) -> NDArray[np.float64]:
    """Return the numbers, shape (n, q), of covariates in memory, which are those of a fit."""
    rows = with_covariates(rows_in_memory(np.empty((n_rows, 1)), None, "X"), given_covariates(values, n_rows), known)
    return rows.batch(0, n_rows, X=False).roles["covariates"]


def check_target_shape(shape: tuple[int, ...]) -> None:
    """Raise InputError for a shape of numbers to predict that is neither (n,) nor (n, t)."""
    if len(shape) not in (1, 2) or shape[1:] == (0,):
        raise InputError(f"The targets in y have shape {shape}; they must have shape (n,) or (n, t).")


def with_targets(rows: Dataset, y: Any, names: Sequence[str] = ()) -> Dataset:
    """Return rows with numbers to predict (n,) or (n, t) in memory; raise InputError for what is no number."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise InputError(f"The targets in y have type {y.dtype}; they must be numbers.")
    check_target_shape(y.shape)
    y = y.reshape(len(y), -1).astype(np.float64)
    names = tuple(names) or tuple(f"target {j}" for j in range(y.shape[1]))
    return given(rows.unlabelled(), TARGET, y, "y", names)


class NpzRows(Source):
    """A small ``.npz`` file, which each process loads whole."""

    features: str

    def __init__(self, request: Request) -> None:
        label = request.label or "y"
        self._key = request.uri, request.features or "X", label, request.label_required, uuid.uuid4().hex
        self._words = request.missing_values
        self.features, self.label = self._key[1], label if _load(*self._key)[1] is not None else None
        self.facts = replace(self._rows.facts, resident_bytes=2 * self._rows.n_bytes)

    @property
    def _rows(self) -> ArrayRows | SparseArrayRows:
        return _load(*self._key)[0]

    def read(self, start: int, stop: int, out: NDArray | None = None) -> Any:
        return self._rows.read(start, stop)

    def column(self, name: str | None, setting: Setting | str) -> Column:
        name = str(self.label) if name is None else name
        uri, features, _, _, token = self._key
        key = uri, features, name, True, token
        return Column(name, uri, len(_column_of(key)), partial(_read_column, key, self._words))

    @property
    def n_bytes(self) -> int:
        return self._rows.n_bytes

    @property
    def nnz(self) -> int:
        return self._rows.nnz

    @property
    def addresses(self) -> list[str]:
        return [self.uri]


Key = tuple[str, str, str, bool, str]


def _column_of(key: Key) -> NDArray:
    y = _load(*key)[1]
    assert y is not None  # noqa: S101  (it is required)
    return label_array(refuse_other_shape(y, key[0]), key[0])


def _read_column(key: Key, words: Collection[str], start: int, stop: int) -> Known:
    values = _column_of(key)[start:stop].reshape(-1)
    return values, says_value(values, words)


@functools.lru_cache(maxsize=2)
@read_again
def _load(
    uri: str, features: str, label: str, label_required: bool, token: str
) -> tuple[ArrayRows | SparseArrayRows, NDArray | None]:
    """Load the rows and the labels of a file, once for each ``token``."""
    storage.require(uri)
    with storage.reached(uri) as (fs, path), fs.open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                names = sorted(archive.files)
                members = _npz_members(names, features, label, label_required, uri)
                _refuse_oversized(archive.zip, [name for name in (*members, "format") if name in names], uri)
                y = archive[label] if label in members else None
                if y is not None:
                    check_label_type(y.dtype, y.size, f"{label!r} of {uri}")
                if features in members:
                    return ArrayRows(archive[features], uri), y
                return _csr_of(archive, uri), y
        except (OSError, EOFError, ValueError, LookupError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
            if isinstance(error, MmpcaError) or getattr(error, "errno", None):
                raise  # the file is out of reach, not damaged
            raise InputError(f"{uri} is not a readable .npz file: {error}.") from error


def _refuse_oversized(archive: zipfile.ZipFile, members: Collection[str], uri: str) -> None:
    """Refuse arrays that do not fit into memory, or are shorter than they declare."""
    total = 0
    for name in members:
        info = archive.getinfo(f"{name}.npy")
        total += info.file_size
        refuse_larger(total, uri, "Save its arrays as .npy files, which are read piece by piece")
        with archive.open(info) as stream:
            NpyHeader.read(stream, f"{name!r} of {uri}").refuse_longer_than(info.file_size, f"{name!r} of {uri}")


def _npz_members(names: list[str], features: str, label: str, label_required: bool, uri: str) -> tuple[str, ...]:
    """Return which arrays of an ``.npz`` file hold the rows, or the parts of their CSR matrix, and the labels."""
    rows = CSR_PARTS if features not in names and set(CSR_PARTS) <= set(names) else (features,)
    members = (*rows, label) if label_required or label in names else rows
    for name in members:
        if names.count(name) > 1:
            raise InputError(f"{uri} holds {names.count(name)} arrays called {name!r}. Save one of them again.")
        if name not in names:
            hint = did_you_mean(name, names)
            if name == label and rows == CSR_PARTS:
                hint = f" Save both in one file: np.savez(NEW, **np.load({uri!r}), {label}=labels)."
            found = f"it holds {', '.join(names)}.{hint}"
            if name == label:  # any column of names is read as the labels are: it is no setting that is asked for
                raise InputError(f"{uri} has no array {name!r}; {found}")
            raise InputError(f"{uri} has no array {name!r} ({{setting}}); {found}", setting=Setting("features"))
    return members


def _csr_of(archive: Any, uri: str) -> SparseArrayRows:
    data, indices, indptr, shape = (archive[name] for name in CSR_PARTS)
    form = str(archive["format"].astype(str)) if "format" in archive.files else "csr"
    if form != "csr":
        raise InputError(
            f"{uri} holds a matrix in {form!r} form, whose rows cannot be read piece by piece. Save it by rows: "
            "scipy.sparse.save_npz(path, X.tocsr())."
        )
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InputError(f"The array 'shape' of {uri} is {shape.tolist()}; it must be the two sizes of a matrix.")
    size = int(shape[0]), int(shape[1])
    check_table(uri, size, data.dtype, sparse=True)
    check_index_type(indices.dtype, uri)
    check_row_ends(indptr, size[0], len(data), len(indices), uri)
    rows = csr_array((data.astype(value_type(data.dtype), copy=False), indices, indptr), shape=size)
    return SparseArrayRows(rows, uri, sum_duplicates=False)


FORMAT = Format("npz", "a file of arrays", NpzRows, suffixes=(".npz",))
