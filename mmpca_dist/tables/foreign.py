"""Tables of other libraries: Dask collections, xarray and AnnData objects; and data sets of ``open_dataset``.

This module never imports xarray or anndata: the module of an object's class tells its library.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_array, check_X_y, validate_data

from mmpca_dist import dask_arrays as da
from mmpca_dist.errors import InputError, RowTypeError, did_you_mean
from mmpca_dist.faults import Asker, Setting, asking, who_asks
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.plain_arrays import is_from, plain

ACCEPTED: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric"}
LONGEST = 320
"""Characters of another library's message that are repeated."""


@dataclass(frozen=True)
class ForeignTable:
    """Rows that scikit-learn cannot check."""

    rows: Dataset | da.Array | csr_array
    """A Dask array, a ``Dataset`` or a scipy.sparse matrix of shape (n, d)."""
    sample: Any
    """A row, shape (1, d), with the type and the column names of the rows, which scikit-learn checks in their place."""
    index: Any = None
    """The index of a Dask data frame."""

    @property
    def lazy(self) -> bool:
        """Whether the rows are read piece by piece."""
        return isinstance(self.rows, Dataset) or dask.is_dask_collection(self.rows)


def as_table(X: Any) -> Any:
    """Return a ``ForeignTable``, or what scikit-learn knows: an array, a pandas data frame, a scipy.sparse matrix."""
    _refuse_lazy_frame(X, "X")
    X = plain(X, "X")
    if isinstance(X, Dataset):
        return ForeignTable(X, _sample(X.n_features, X.dtype, X.feature_names))
    if is_from(X, "anndata"):
        return _named(_anndata_matrix(X), _unique(X.var_names))
    if is_from(X, "xarray"):
        return _named(*_xarray_rows(X))
    if hasattr(X, "to_dask_array"):
        return _of_frame(X)
    return _of_array(X, None) if dask.is_dask_collection(X) else X


def labels_of(y: Any, X: Any = None, name: str = "y") -> Any:
    """Return labels, targets or weights as an array or a Dask array; ``y`` may name a column of AnnData's ``obs``."""
    _refuse_lazy_frame(y, name)
    if isinstance(y, str) and is_from(X, "anndata"):
        if y not in X.obs:
            columns = [str(name) for name in X.obs.columns]
            raise InputError(f"The AnnData object has no column {y!r} in obs.{did_you_mean(y, columns)}")
        return np.asarray(X.obs[y])
    if isinstance(y, str):
        columns = [str(name) for name in getattr(X, "columns", ())]
        if y in columns:
            raise InputError(f"y is the name {y!r}: give the labels themselves, X[{y!r}], and X without that column.")
        raise InputError(f"X has no column {y!r}.{did_you_mean(y, columns)}")
    return plain(y.data if is_from(y, "xarray") else y, name)


def check_header(estimator: Any, X: ForeignTable, *, reset: bool) -> None:
    """Record the names and the number of columns (``reset``), or compare them; errors are in scikit-learn's words."""
    with naming(estimator, None):
        validate_data(estimator, X.sample, reset=reset, skip_check_array=True)


def check_rows(estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool, **settings: Any) -> Any:
    """Return rows in memory, or rows and labels, as scikit-learn's ``validate_data`` does; errors name the column."""
    if isinstance(X, ForeignTable):
        check_header(estimator, X, reset=reset)
    table = X.rows if isinstance(X, ForeignTable) else X
    with naming(estimator, table):
        if getattr(getattr(table, "dtype", None), "kind", "f") in "mM":
            raise InputError(f"X has type {table.dtype}; features must be numbers.")
        if not isinstance(X, ForeignTable):
            return validate_data(estimator, X, y, reset=reset, **ACCEPTED, **settings)
        if isinstance(y, str):
            return check_array(table, estimator=estimator, **ACCEPTED, **settings)
        return check_X_y(table, y, estimator=estimator, **ACCEPTED, **settings)


def asked_by(estimator: Any) -> AbstractContextManager[None]:
    """Let errors about what an estimator is given begin with its class, and call columns by their names."""
    outer = who_asks()

    def asker() -> Asker:
        columns = [_own_name(estimator, str(name)) for name in getattr(estimator, "feature_names_in_", ())]
        return replace(outer, settings="keywords", estimator=type(estimator).__name__, columns=columns)

    return asking(asker)


def _own_name(estimator: Any, name: str) -> str:
    """Return what the user calls a column: of an indicator the text that it is of."""
    levels = getattr(estimator, "encoding_", (None, None))[1] or ()
    return next((each.name for each in levels if name in each.names), name)


@contextmanager
def naming(estimator: Any, X: Any) -> Iterator[None]:
    """Turn what libraries raise about rows X into errors that begin with the class, and name the column at fault."""
    with asked_by(estimator):
        try:
            yield
        except InputError:
            raise
        except (ValueError, TypeError) as error:
            text, kind = str(error), RowTypeError if isinstance(error, TypeError) else InputError
            if any(words in text for words in ("feature names should", "Reshape")):
                raise kind(re.sub(r"array=.*?\.\n(?=Reshape)", "", text, flags=re.DOTALL)) from None
            reason = _begin(text)
            fault = None if reason.startswith("Input y") else _fault(estimator, X)
            what = f"{reason}." if fault is None else f"{fault}. Rows must hold finite numbers ({reason})."
            if fault is not None and "NaN" in fault:
                fills = hasattr(estimator, "missing") and not issparse(X)
                what = f"{fault}. Fill or drop such values{', or set {filled}' * fills}."
            raise kind(what, filled=Setting("missing", "mean")) from None


def _begin(message: str) -> str:
    """Return a message, or the first sentences of a long one, without the last point."""
    text = " ".join(message.partition("\n[")[0].split()).rstrip(".")  # without an array
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(". ")[0] or textwrap.shorten(text, LONGEST)


def _fault(estimator: Any, X: Any) -> str | None:
    """Return where rows in memory first hold what is no finite number, in words; None where that is unknown."""
    if len(getattr(X, "shape", ())) != 2:
        return None
    if issparse(X):
        rows, names = csr_array(X), getattr(estimator, "feature_names_in_", range(X.shape[1]))
        for at in np.flatnonzero(~np.isfinite(rows.data))[:1]:
            value, row = str(rows.data[at]).replace("nan", "NaN"), np.searchsorted(rows.indptr, at, side="right") - 1
            return f"column {names[rows.indices[at]]!r} of X has {value} in row {row}"
        return None
    for j, name in enumerate(getattr(X, "columns", range(X.shape[1]))):
        column = pd.Series(np.asarray(X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]))
        bad = ~pd.to_numeric(column, errors="coerce").abs().lt(np.inf) | (column.dtype.kind in "mM")
        if column.dtype.kind == "O":
            bad |= column.map(lambda value: isinstance(value, str | bytes))
        if bad.any():
            row = int(np.argmax(bad))
            value = "NaN" if pd.isna(column[row]) is True else textwrap.shorten(str(column[row]), 40)
            name = _own_name(estimator, name) if isinstance(name, str) else name
            return f"column {name!r} of X has {value} in row {row}"
    return None


def _refuse_lazy_frame(value: Any, name: str) -> None:
    if is_from(value, "polars") and hasattr(value, "collect"):
        raise InputError(f"{name} is a polars {type(value).__name__}, a query that has not run: pass {name}.collect().")


def _sample(n_features: int, dtype: np.dtype, names: Any) -> Any:
    row = np.zeros((1, n_features), dtype if np.dtype(dtype).kind in "fiub" else float)
    return row if names is None else pd.DataFrame(row, columns=names)


def _named(rows: NDArray | da.Array | csr_array, names: list[str] | None) -> Any:
    rows = plain(rows, "X")
    if dask.is_dask_collection(rows):
        return _of_array(rows, names)
    if names is None:
        return rows
    if issparse(rows):
        return ForeignTable(rows, _sample(rows.shape[1], rows.dtype, names))
    return pd.DataFrame(rows, None, names)


def _refuse_other_shapes(X: Any) -> None:
    if X.ndim != 2:
        raise InputError(f"X has shape {X.shape}; it must have shape (n_samples, n_features).")


def _of_array(X: Any, names: list[str] | None) -> ForeignTable:
    _refuse_other_shapes(X)
    if X.dtype.kind not in "fiub":
        raise InputError(f"X has type {X.dtype}; features must be numbers.")
    if np.isnan(X.shape[1]):
        raise InputError("X is a Dask array whose number of columns is not known: call compute_chunk_sizes() on it.")
    return ForeignTable(X, _sample(X.shape[1], X.dtype, names))


def _of_frame(X: Any) -> ForeignTable:
    _refuse_other_shapes(X)
    texts = [name for name, kind in zip(X.columns, X.dtypes, strict=True) if not pd.api.types.is_numeric_dtype(kind)]
    if texts:
        raise InputError(
            f"Column {texts[0]!r} of X has type {X.dtypes[texts[0]]}; features must be numbers. Encode it as "
            "numbers, or leave it out."
        )
    numpy_only = all(isinstance(kind, np.dtype) for kind in X.dtypes)
    dtype = np.result_type(*X.dtypes) if numpy_only else np.dtype(np.float64)
    rows = X if (X.dtypes == dtype).all() else X.map_partitions(_as_numbers, dtype, meta=_as_numbers(X._meta, dtype))
    return ForeignTable(plain(rows.to_dask_array(), "X"), _as_numbers(X._meta_nonempty.iloc[:1], dtype), X.index)


def _as_numbers(frame: pd.DataFrame, dtype: np.dtype) -> pd.DataFrame:
    """Return columns of several types as one type, which holds what they hold, with NaN for missing values."""
    dtype = np.result_type(dtype, *(kind for kind in frame.dtypes if isinstance(kind, np.dtype)))
    return pd.DataFrame(frame.to_numpy(dtype, na_value=np.nan), frame.index, frame.columns)


def _anndata_matrix(X: Any) -> Any:
    if X.X is None:
        raise InputError("The AnnData object has no X: pass one of its layers, adata.layers[...].")
    if getattr(X, "isbacked", False):
        raise InputError(
            "The AnnData object is backed by a file: read it with adata.to_memory(), or open the file itself with "
            "open_dataset."
        )
    return X.X


def _xarray_rows(X: Any) -> tuple[Any, list[str] | None]:
    """Return the rows and column names of a DataArray, or of a Dataset whose variables are the columns."""
    if hasattr(X, "data_vars"):
        if not X.data_vars or len({array.dims for array in X.data_vars.values()}) > 1 or len(X.dims) != 1:
            raise InputError(
                f"The xarray Dataset has the variables {', '.join(map(str, X.data_vars))} of dimensions "
                f"{', '.join(map(str, X.dims))}; as columns they must all have the same one dimension. Pass one array "
                "of rows: dataset[name]."
            )
        X = X.to_array("mmpca_columns").transpose(..., "mmpca_columns")
    if X.ndim != 2:
        raise InputError(f"X has the dimensions {X.dims}; it must have two: rows, then columns.")
    names = X.coords.get(X.dims[1])
    named = names is not None and all(isinstance(name, str) for name in names.values.tolist())
    return X.data, _unique(names.values) if named else None


def one_of(X: Any, axis: int) -> Any:
    """Return the labels of the rows (``axis`` 0) or columns of an xarray DataArray: a row or column of zeros."""
    if not is_from(X, "xarray") or getattr(X, "ndim", 0) != 2:
        return None
    line = X.isel({X.dims[1 - axis]: 0}, drop=True)
    if axis == 1:  # what is said of all values is that of the rows
        line = line.drop_vars([name for name, coordinate in line.coords.items() if not coordinate.dims])
    return line.copy(data=np.zeros(line.shape))


def labelled_like(values: Any, rows: Any, columns: Any, name: str) -> Any:
    """Return values of shape (n, k) with the labels of ``rows`` and ``columns``, as by `one_of`; as they are without.

    Columns without labels, or with names that the rows have, are a dimension with this name, or a longer one.
    """
    if rows is None or not hasattr(values, "ndim") or hasattr(values, "columns"):
        return values
    taken = {*rows.dims, *rows.coords}
    if columns is None or not taken.isdisjoint([*columns.dims, *columns.coords]):
        while name in taken:
            name += "_"
        return type(rows)(values, coords=rows.coords, dims=(*rows.dims, name))
    both = rows.coords.merge(columns.coords)
    return type(rows)(values, coords=both.coords, dims=(*rows.dims, *columns.dims))


def _unique(names: Any) -> list[str] | None:
    """Return names of columns; None where two are equal."""
    texts = [str(name) for name in names]
    return texts if len(set(texts)) == len(texts) else None
