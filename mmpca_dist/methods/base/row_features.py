"""Row maps as scikit-learn transformers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, overload

import dask
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mmpca_dist import dask_arrays as da
from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.methods.base.transform import LazyTransform, by_unit, output_type
from mmpca_dist.passes.dask_rows import whole_rows
from mmpca_dist.passes.rows import spread_sample
from mmpca_dist.passes.schedulers import Configured, Threads
from mmpca_dist.passes.tree_reduction import Tasks, joined
from mmpca_dist.settings import values_of
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import ForeignTable, as_table, asked_by, check_header, check_rows
from mmpca_dist.tables.plain_arrays import with_known_chunks
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.row_maps.fourier import Fourier
from mmpca_dist.tables.row_maps.nystroem import Nystroem
from mmpca_dist.tables.row_maps.sampling import sample_plan
from mmpca_dist.tables.row_maps.specification import Arrays, RowMap


class _MapsInMemory(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Maps rows in memory; scikit-learn wraps its ``transform``, so that ``set_output`` is honoured."""

    maps_: Sequence[RowMap]
    fits_: Sequence[Arrays]
    n_features_in_: int
    feature_names_in_: NDArray

    def transform(self, X: Any) -> Any:
        check_is_fitted(self, "fits_")
        return self._project(check_rows(self, X, reset=False))

    def _project(self, X: Any) -> Any:
        """Return mapped rows of rows in memory."""
        rows = rows_in_memory(X.astype(output_type(X.dtype), copy=False), None, "X")
        with single_blas_thread():
            return rows.with_maps(self.maps_, self.fits_).read(0, rows.n_rows)


class RowMapTransformer(LazyTransform, _MapsInMemory):
    """Rows after fitted row maps, such as those of a finished run; NumPy, CSR, Dask, and data sets of ``open_dataset``.

    Attributes
    ----------
    maps_ : sequence of RowMap
    fits_ : sequence of dict
        The arrays of every map, by name.
    """

    _fitted_name: ClassVar[str] = "fits_"

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Return itself: the maps are fitted."""
        check_is_fitted(self, "fits_")
        return self

    @overload  # type: ignore[override]
    def transform(self, X: NDArray) -> NDArray: ...
    @overload
    def transform(self, X: Any) -> Any: ...
    def transform(self, X: Any) -> Any:
        """Map rows.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        array of shape (n_samples, n_components)
            float32 for float32 rows, else float64. Lazy for Dask input and for a ``Dataset``: a Dask array. Rows of a
            Dask array are mapped block by block, and other blocks may round the last bits otherwise.

        Raises
        ------
        InputError
            (a ValueError) For rows with other columns, or not finite.
        """
        return super().transform(X)

    @property
    def _n_features_out(self) -> int:
        width = int(self.n_features_in_)
        for row_map in self.maps_:
            width = row_map.n_columns(width)
        return width

    def _of_dataset(self, dataset: Dataset) -> da.Array:
        rows = dataset.with_maps(self.maps_, self.fits_)
        empty = np.empty((0, rows.n_features), rows.dtype)
        return by_unit(rows, _as_read, csr_array(empty) if rows.sparse else empty)

    def _empty(self, X: da.Array, dtype: np.dtype) -> Any:
        empty = np.empty((0, self._n_features_out), dtype)
        keeps = issparse(X._meta) and not any(row_map.own_columns for row_map in self.maps_)
        return csr_array(empty) if keeps else empty


def _as_read(X: Any) -> Any:
    return X


class _FittedFeatures(RowMapTransformer):
    """Base of the transformers that fit one row map, whose options are their parameters."""

    _options: ClassVar[type[RowMap]]

    def fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]
        """Fit to rows, of which only a sample is read.

        Parameters
        ----------
        X : array, scipy.sparse matrix, data frame, Dask array or data frame, or Dataset, of shape (n, n_features)
            Finite rows.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InputError
            (a ValueError) For parameters or rows that do not fit.
        """
        with asked_by(self):
            return self._fit(self._checked_map(), as_table(X))

    def _fit(self, row_map: RowMap, table: Any) -> Self:
        if isinstance(table, ForeignTable) and table.lazy:
            check_header(self, table, reset=True)
            rows = table.rows
        else:
            rows = rows_in_memory(check_rows(self, table, reset=True), None, "X")
        if not isinstance(rows, Dataset):
            rows = whole_rows(rows)
            rows = with_known_chunks(rows, "X")
        n_rows = rows.n_rows if isinstance(rows, Dataset) else len(rows)
        if isinstance(row_map, Nystroem) and row_map.n_components > n_rows:
            warnings.warn(f"{type(self).__name__}: all {n_rows} rows are landmarks.", UserWarning, stacklevel=3)
            row_map = row_map.model_copy(update={"n_components": n_rows})
        row_map.check(n_rows, "X")
        width = int(self.n_features_in_)
        count = row_map.sample_rows(width * rows.dtype.itemsize)
        sample = _sample_of(rows, count, row_map.sample_seed).astype(np.float64) if count else None
        self.maps_, self.fits_ = (row_map,), (row_map.fit(sample, width),)
        return self

    def _checked_map(self) -> RowMap:
        try:
            return self._options(**self.get_params())
        except ValidationError as error:
            problem = error.errors()[0]
            if not problem["loc"]:  # of options that do not go together
                raise InputError(f"{problem['ctx']['error']}.") from error
            name = str(problem["loc"][0])
            value, values = getattr(self, name), values_of(self._options.model_fields[name])
            hint = did_you_mean(value, values.replace(",", "").split()) if isinstance(value, str) else ""
            raise InputError(f"{name}={value!r} must be {values}.{hint}") from error

    @property
    def gamma_(self) -> float:
        """The width of the kernel that is in use."""
        check_is_fitted(self, "fits_")
        return float(self.fits_[0]["gamma"][0])


def _sample_of(rows: Dataset | da.Array, count: int, seed: int) -> Any:
    """Return a sample of a data set's rows, or of those of a Dask array."""
    if isinstance(rows, Dataset):
        configured = Configured()
        return spread_sample(Tasks(scheduler=Threads() if configured.in_process else configured), rows, count, seed)
    plan = sample_plan(rows.shape[0], count, seed)
    stretches = dask.compute(*(rows[start:stop] for start, stop, _ in plan))
    picked = [
        (csr_array(X) if issparse(X) else np.asarray(X))[picks]
        for X, (_, _, picks) in zip(stretches, plan, strict=True)
    ]
    sample = joined(*picked)
    if not np.isfinite(sample.data if issparse(sample) else sample).all():
        raise InputError("X holds values that are not finite. Rows must be finite: fill or drop such values.")
    return sample


class RandomFourierFeatures(_FittedFeatures):
    """Random Fourier features: D cosines whose dot products approximate exp(-gamma ||x - x'||^2).

    Features are sqrt(2/D) cos(Omega^T x + b), with frequencies Omega from N(0, 2 gamma I) and phases b uniform on
    [0, 2 pi).

    Parameters
    ----------
    n_components : int
        D. The error of the kernel falls as 1 / sqrt(D).
    gamma : "scale" or float
        Width of the kernel; "scale" is 1 / (n_features * variance of the values), from a sample of up to 2,048 rows.
    orthogonal : bool
        Whether frequencies are orthogonal in blocks of n_features, which lowers the error, or independent.
    seed : int

    Attributes
    ----------
    gamma_ : float
        The width in use.

    References
    ----------
    Rahimi & Recht 2007, "Random features for large-scale kernel machines", algorithm 1. Yu, Suresh, Choromanski,
    Holtmann-Rice & Kumar 2016, "Orthogonal random features", section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from mmpca_dist import RandomFourierFeatures
    >>> X, _ = load_iris(return_X_y=True)
    >>> Z = RandomFourierFeatures(2000, gamma=0.1).fit_transform(X)
    >>> bool(abs(Z @ Z.T - rbf_kernel(X, gamma=0.1)).max() < 0.1)
    True
    """

    _options = Fourier

    def __init__(
        self, n_components: int = 300, *, gamma: float | Literal["scale"] = "scale", orthogonal: bool = True,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self.n_components, self.gamma, self.orthogonal, self.seed = n_components, gamma, orthogonal, seed


class NystroemFeatures(_FittedFeatures):
    """Nystroem features: K_mm^(-1/2) k(landmarks, x), with m landmarks among the rows.

    Their dot products are k(x, x') where x and x' are landmarks, and approximate it elsewhere. A singular K_mm has no
    features outside its range. scikit-learn's ``Nystroem`` computes the same of rows in memory; of rows in single
    precision its nearly singular kernels give noise.

    Parameters
    ----------
    n_components : int
        m; that of the rows, with a warning, where these are fewer. Landmarks are spread evenly over the rows.
    kernel : {"rbf", "laplacian", "poly", "cosine", "linear"}
    gamma : "scale" or float
        Parameter of rbf, laplacian and poly; as in ``RandomFourierFeatures``.
    degree, coef0 : int, float
        Parameters of poly: (gamma x.x' + coef0)^degree.
    seed : int

    Attributes
    ----------
    gamma_ : float
        The width in use; 1 for kernels without one.

    References
    ----------
    Williams & Seeger 2001, "Using the Nystroem method to speed up kernel machines", section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from mmpca_dist import NystroemFeatures
    >>> X, _ = load_iris(return_X_y=True)
    >>> Z = NystroemFeatures(100, gamma=0.1).fit_transform(X)
    >>> bool(abs(Z @ Z.T - rbf_kernel(X, gamma=0.1)).max() < 0.01)
    True
    """

    _options = Nystroem

    def __init__(
        self, n_components: int = 300, *, kernel: Literal["rbf", "laplacian", "poly", "cosine", "linear"] = "rbf",
        gamma: float | Literal["scale"] = "scale", degree: int = 3, coef0: float = 1, seed: int = 0,
    ) -> None:  # fmt: skip
        self.n_components, self.seed = n_components, seed
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
