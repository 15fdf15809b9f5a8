"""``transform`` of all reducers: eager for rows in memory, lazy for others."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mmpca_dist import dask_arrays as da
from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.passes.dask_rows import whole_rows
from mmpca_dist.passes.units import read_batch
from mmpca_dist.tables.covariates import BY_NAME, Covariate, columns_beside
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import (
    ForeignTable,
    as_table,
    asked_by,
    check_header,
    check_rows,
    is_from,
    labelled_like,
    naming,
    one_of,
)
from mmpca_dist.tables.levels import Levels
from mmpca_dist.tables.plain_arrays import plain, with_known_chunks
from mmpca_dist.tables.readers.frames import encoded, is_mixed
from mmpca_dist.tables.readers.memory import encoded_covariates
from mmpca_dist.tables.spans import reading_edges


class ProjectsInMemory(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Projects rows in memory; scikit-learn wraps its ``transform``, so that ``set_output`` is honoured."""

    components_: NDArray[np.float64]
    mean_: NDArray[np.float64]
    scale_: NDArray[np.float64] | None
    center: bool
    adjustment_: Any = None
    """How widened rows come to the columns, where they had covariates or gaps."""
    gain_: float = 1.0
    """The factors of projections onto the components."""
    _columns_like: Any = None
    """The labels of the columns of an xarray DataArray that was fitted to."""

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any, covariates: Any = None) -> Any:
        check_is_fitted(self, "components_")
        X = check_rows(self, X, reset=False, **gaps_allowed(self))
        Z = self._project(X)
        if covariates is None:
            return Z
        return self._less(Z, encoded_covariates(covariates, self.covariates_, X.shape[0]))

    def _less(self, Z: NDArray, numbers: NDArray[np.float64]) -> NDArray:
        """Return projected rows less what the numbers of their covariates, shape (n, q), explain."""
        return Z - self.adjustment_.explained(numbers, self.projection()[0]).astype(Z.dtype)

    def _project(self, X: Any) -> NDArray:
        dtype = output_type(X.dtype)
        matrix, mean, offset = self.projection(np.float64 if issparse(X) else dtype)
        if gaps_allowed(self) and not issparse(X) and X.dtype.kind == "f" and np.isnan(X).any():
            X = np.where(np.isnan(X), self.mean_.astype(X.dtype), X)
        return projected(X, matrix, mean, dtype, offset)

    def projection(self, dtype: Any = np.float64) -> tuple[NDArray, NDArray | None, NDArray | None]:
        """Return A (n_features, K), mean (n_features,) and offset (K,), by which x becomes A^T (x - mean) - offset.

        The mean and the offset are None where nothing is subtracted.
        """
        loadings = self.components_ if self.scale_ is None else self.components_ / self.scale_
        mean = None if self.scale_ is None and not self.center else self.mean_
        return (self.gain_ * loadings).T.astype(dtype), mean, None

    def inverse_transform(self, Z: Any) -> Any:
        """Return the row nearest to the mean, in standardised units where they are used, among those projected to Z.

        Parameters
        ----------
        Z : array, or Dask array or data frame, of shape (n_samples, n_components)

        Returns
        -------
        array of shape (n_samples, n_features)
            Lazy for Dask input. Of an xarray DataArray one, with its rows' labels, and those of the columns in the fit.
        """
        check_is_fitted(self, "components_")
        rows = one_of(Z, 0)
        loadings, mean, _ = self.projection()
        offset, (back, shift) = self.mean_ @ loadings if mean is None else 0, self.rebuilding()
        with asked_by(self):
            Z = as_table(Z)
            Z = Z.rows if isinstance(Z, ForeignTable) else Z.toarray() if issparse(Z) else np.asarray(Z)
            if Z.shape[-1:] != back.shape[:1] or Z.dtype.kind not in "fiub":
                raise InputError(
                    f"Z has shape {Z.shape} and type {Z.dtype}; it must hold numbers of shape (n_samples, "
                    f"{len(back)}), as transform returns them."
                )
        return labelled_like((Z - offset) @ back + shift, rows, self._columns_like, "feature")

    def rebuilding(self) -> tuple[NDArray, NDArray]:
        """Return B, shape (K, n_features), and b, by which coordinates z about the mean become rows z B + b."""
        back = np.linalg.pinv(self.components_).T / self.gain_
        return back if self.scale_ is None else back * self.scale_, self.mean_


class LazyTransform:
    """A step before scikit-learn's wrapped ``transform``: rows that are read piece by piece stay lazy."""

    _fitted_name: ClassVar[str] = "components_"
    """An attribute of those that are fitted."""
    encoding_: tuple[list[str] | None, Sequence[Levels] | None] = None, None
    """The columns, and their levels, of a data frame with text that was fitted to, or of the table of a run."""
    _kept: Any = None
    """Moments that ``partial_fit`` extends, a function that loads them, or why there are none; None before a fit."""

    @overload
    def transform(self, X: NDArray, covariates: Any = BY_NAME) -> NDArray: ...
    @overload
    def transform(self, X: Any, covariates: Any = BY_NAME) -> Any: ...
    def transform(self, X: Any, covariates: Any = BY_NAME) -> Any:
        """Project rows onto the components: V^T x, or V^T (x - mean) with ``center=True``.

        With ``standardize=True`` rows are standardised first, which centres them.

        Parameters
        ----------
        X : as in ``fit``
            Columns that have names must have those of ``fit``, in their order.
        covariates : as in ``fit``, optional
            Those of the rows, for a fit with covariates. By default the columns of X that have their names (of
            AnnData those of ``obs``); with None rows are projected as they are.

        Returns
        -------
        array of shape (n_samples, n_components)
            float32 for float32 rows, else float64. Lazy for Dask input and for a ``Dataset``: a Dask array, or, with
            ``set_output(transform="pandas")``, a Dask data frame, with the index of the one it was made from. Lazy
            rows are not checked: NaN in them is NaN in the result. Of an xarray DataArray one, with its rows' labels.

        Raises
        ------
        InputError
            (a ValueError) For other columns than those of ``fit``, covariates that are not there, and with
            ``set_output(transform="polars")``, which has no lazy form here.
        """
        return labelled_like(self._transform_table(X, covariates), one_of(X, 0), None, "component")

    def _transform_table(self, X: Any, covariates: Any) -> Any:
        X, covariates = self._apart(X, covariates)
        if covariates is not None and not getattr(self, "covariates_", ()):
            raise InputError(f"{type(self).__name__} was fitted without covariates: transform rows without them.")
        X = self._table(X)
        if not (isinstance(X, ForeignTable) and X.lazy):
            return super().transform(X, **({} if covariates is None else {"covariates": covariates}))  # type: ignore[misc]
        check_is_fitted(self, self._fitted_name)
        check_header(self, X, reset=False)
        sample = super().transform(X.sample)  # type: ignore[misc]
        Z = self._of_dataset(X.rows) if isinstance(X.rows, Dataset) else _of_array(self, X.rows)
        Z = Z if covariates is None else _without_effects(self, Z, covariates)
        return Z if isinstance(sample, np.ndarray) else _in_frame(Z, sample, X.index)

    def _apart(self, X: Any, covariates: Any) -> tuple[Any, Any]:
        """Return rows without the covariates of the fit, and these: columns of the table that the rows are in."""
        known = getattr(self, "covariates_", ())
        if not isinstance(covariates, str) or not known:
            return X, None if isinstance(covariates, str) else covariates
        with asked_by(self):
            beside = columns_beside(X.obs if is_from(X, "anndata") else X, known)
        columns, own = list(getattr(X, "columns", ())), set(getattr(self, "feature_names_in_", ()))
        features = [name for name in columns if name in own or str(name) not in {each.name for each in known}]
        whole = is_from(X, "anndata") or (not own and len(columns) == self.n_features_in_)  # type: ignore[attr-defined]
        return X if whole or len(features) == len(columns) else X[features], beside

    def _table(self, X: Any, reset: bool = False, sample_weight: Any = None) -> Any:
        """Return rows as a table; columns of text of a data frame as indicators, those of the fit."""
        X = plain(X, "X")
        columns, levels = (None, None) if reset else self.encoding_
        if reset:
            self._columns_like = one_of(X, 1)
            self.__dict__.pop("encoding_", None)  # that of an earlier fit
        with naming(self, X):
            fitted = list(getattr(self, "feature_names_in_", ()))
            has_all = levels is not None and isinstance(X, pd.DataFrame) and {*fitted} <= {*X.columns}
            if has_all and list(X.columns) != fitted:
                X = X[fitted]
            if not (is_mixed(X) or (levels and isinstance(X, pd.DataFrame) and not has_all)):
                return as_table(X)
            X, rows = encoded(X, levels, columns, sample_weight)
            if rows.levels and columns is None and not reset:
                name = rows.levels[0].name
                before = "held numbers" if name in fitted or not fitted else "was not there"
                raise InputError(f"Column {name!r} of X holds text, and {before} in the fit.")
        if rows.note is not None:
            warnings.warn(rows.note, UserWarning, stacklevel=6 if reset else 4)
        if reset:
            self.encoding_ = list(rows.columns), list(rows.levels)
        return X

    def _of_dataset(self, dataset: Dataset) -> da.Array:
        """Return the transformed rows of a data set: a Dask array that has a task a reading unit."""
        fitted = _without_moments(self)
        return by_unit(dataset, fitted._project, np.empty((0, fitted._n_features_out), output_type(dataset.dtype)))

    def _empty(self, X: da.Array, dtype: np.dtype) -> Any:
        """Return a block without rows, as blocks of X are transformed to."""
        return np.empty((0, self._n_features_out), dtype)  # type: ignore[attr-defined]

    @overload
    def fit_transform(self, X: NDArray, y: Any = None, **fit_parameters: Any) -> NDArray: ...
    @overload
    def fit_transform(self, X: Any, y: Any = None, **fit_parameters: Any) -> Any: ...
    def fit_transform(self, X: Any, y: Any = None, **fit_parameters: Any) -> Any:
        """Fit, and return the projected rows: ``fit(X, y).transform(X)``."""
        table, covariates = as_table(X), fit_parameters.get("covariates")
        if covariates is not None:
            return self.fit(X, y, **fit_parameters).transform(X, covariates)  # type: ignore[attr-defined]
        if isinstance(table, ForeignTable) and table.lazy:
            return self.fit(X, y, **fit_parameters).transform(X)  # type: ignore[attr-defined]
        return super().fit_transform(X, y, **fit_parameters)  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse, tags.transformer_tags.preserves_dtype = True, ["float64", "float32"]
        return tags


def _of_array(reducer: Any, X: da.Array) -> da.Array:
    X = whole_rows(X)
    dtype, k = output_type(X.dtype), reducer._n_features_out
    project = _without_moments(reducer)._project
    return da.map_blocks(project, X, dtype=dtype, chunks=(X.chunks[0], (k,)), meta=reducer._empty(X, dtype))


def _without_effects(reducer: Any, Z: da.Array, covariates: Any) -> da.Array:
    """Return projected rows less what their covariates explain; these are a Dask frame, or in memory."""
    fitted = _without_moments(reducer)
    if hasattr(covariates, "map_partitions"):
        empty = pd.DataFrame(np.empty((0, len(fitted.adjustment_.slopes))))
        numbers = covariates.map_partitions(_encoded_frame, fitted.covariates_, meta=empty).to_dask_array()
    else:
        Z = with_known_chunks(Z, "X")
        numbers = encoded_covariates(covariates, fitted.covariates_, Z.shape[0])
        numbers = da.from_array(numbers, (Z.chunks[0], numbers.shape[1]))
    return da.map_blocks(fitted._less, Z, numbers, dtype=Z.dtype, chunks=Z.chunks, meta=Z._meta)


def _encoded_frame(covariates: pd.DataFrame, known: Sequence[Covariate]) -> pd.DataFrame:
    return pd.DataFrame(encoded_covariates(covariates, known, len(covariates)), covariates.index)


def _without_moments(fitted: Any) -> Any:
    """Return a copy for lazy tasks: a later fit does not change it, and moments, which no row needs, stay here."""
    fitted = copy(fitted)
    fitted._kept = None
    return fitted


def by_unit(dataset: Dataset, function: Callable[[Any], Any], meta: Any) -> da.Array:
    """Return a Dask array of what a function makes of each reading unit; ``meta`` is a block of it without rows."""
    edges = reading_edges(dataset)
    units = da.from_array(np.arange(len(edges) - 1)[:, None], (1, 1))
    return units.map_blocks(
        partial(_apply_to_unit, dataset=dataset, edges=edges, function=function),
        dtype=meta.dtype, chunks=(tuple(np.diff(edges).tolist()), (meta.shape[1],)), meta=meta,
        name=f"transform-{uuid.uuid4().hex}",  # else Dask reads all that the data set holds for a name
    )  # fmt: skip


def _apply_to_unit(
    unit: NDArray[np.int64], dataset: Dataset, edges: NDArray[np.int64], function: Callable[[Any], Any]
) -> Any:
    """Read a unit of a data set, and return what the function makes of it."""
    start, stop = edges[unit[0, 0] : unit[0, 0] + 2].tolist()
    with single_blas_thread():
        return function(read_batch(dataset, start, stop, (), sparse=dataset.sparse).X)


def _in_frame(Z: da.Array, sample: Any, index: Any) -> Any:
    """Return lazy rows in the container that ``set_output`` asks for, of which ``sample`` is one with a row."""
    if "pandas" not in type(sample).__module__:
        raise InputError(
            f"set_output asks for {type(sample).__module__.partition('.')[0]}, which has no lazy form for rows that "
            'are read piece by piece: set "pandas" or "default", or transform X.compute().'
        )
    import dask.dataframe as dd  # slow to import

    return dd.from_dask_array(Z, columns=list(sample.columns), index=index)


def gaps_allowed(estimator: Any) -> dict[str, Any]:
    """Return what lets scikit-learn's check of rows pass missing values, where the estimator fills them."""
    return {"ensure_all_finite": "allow-nan"} if getattr(estimator, "missing", "refuse") == "mean" else {}


def projected(
    X: Any, matrix: NDArray, mean: NDArray | None, dtype: np.dtype, offset: NDArray[np.float64] | None = None
) -> NDArray:
    """Return (X - mean) A - offset as ``dtype``, for rows X (n, d), dense or CSR, and A (d, K).

    CSR rows stay so: the product is taken in double, so that the mean can be subtracted after it.
    """
    if not issparse(X):
        projection = centred(X, mean, dtype) @ matrix
    else:
        matrix64 = np.asarray(matrix, np.float64)
        projection = np.asarray(X @ matrix64)
        if mean is not None:
            projection -= mean @ matrix64
    if offset is not None:
        projection = projection - offset
    return projection.astype(dtype, copy=False)


def centred(X: NDArray, mean: NDArray | None, dtype: np.dtype) -> NDArray:
    """Return rows less the mean as ``dtype``; subtracted in double before, not from two large products after."""
    if mean is None:
        return np.asarray(X, dtype=dtype)
    return np.subtract(X, mean, out=np.empty(X.shape, dtype), casting="same_kind")


def output_type(dtype: np.dtype) -> np.dtype:
    """Return the type of transformed rows: single precision for rows in single precision, else double."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)
