"""What all reducers share: scikit-learn's estimator contract over statistics from one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import dask
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.arrays import rows_in_memory
from mmpca_dist.datasets.base import Dataset, make_spans
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.errors import InputError
from mmpca_dist.neighbors.options import PairSearch
from mmpca_dist.reducers.gathering import Needs, statistics_for
from mmpca_dist.reducers.solving import IMPRECISE, Solution
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.statistics.census import take_census
from mmpca_dist.statistics.dask_rows import dask_rows, whole_rows
from mmpca_dist.statistics.gather import moments_of
from mmpca_dist.statistics.moments import ClassMoments, merge_classes
from mmpca_dist.statistics.reduction import Scheduler, Threads
from mmpca_dist.statistics.summary import PAIRINGS, median_sets
from mmpca_dist.statistics.working import Statistics, tall_statistics

BY_COMPONENT = ("components_", "eigenvalues_", "residuals_", "relative_errors_")
"""Attributes with a row, or a number, a component."""


class _Mergeable:
    """A method that an estimator has where statistics merge; elsewhere looking it up says why it is not there."""

    def __init__(self, method: Callable) -> None:
        self._method = method

    def __get__(self, reducer: MomentReducer | None, owner: type | None = None) -> Any:
        if reducer is not None and reducer._unmergeable is not None:
            raise AttributeError(f"There is no {self._method.__name__}: {reducer._unmergeable}.")
        return self._method.__get__(reducer, owner)


class MomentReducer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the reducers that class moments (and medians) determine.

    A subclass stores its parameters, says in ``_needs_medians`` whether it wants medians, and solves.
    """

    n_components: int | None
    standardize: bool
    center: bool
    precision: str
    pairing: str = "one-vs-rest"
    solver: str = "auto"
    oversampling: int = 10
    passes: int = 4
    tolerance: float = 1e-4
    _needs_medians = False
    _scatters = frozenset({"plain"})
    """Which weighted class scatters it is made from: those of equal weights (plain), those of M-PCA0, or none; whether
    as a whole (formed); and whether it looks at single columns. See ``solvers.options.choose_solver``."""
    _by_classes = False
    """Whether there are at most as many components as classes less one."""
    _gain = 1.0
    """What projections onto the components are multiplied by."""
    _stored: tuple[str, ...] = ()
    """Attributes, arrays, that models keep beside those of all reducers."""
    _scratch: str | None = None
    _kept: Any = None
    """What ``partial_fit`` extends: moments, a function that loads them, or why there are none; None before a fit."""

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        raise TypeError(f"{type(self).__name__} must define _solve")

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array, scipy.sparse matrix, data frame, or Dask array or data frame, of shape (n_samples, n_features)
            Blocks of a Dask array may be CSR matrices.
        y : array-like or Dask array of shape (n_samples,)
            Labels of at least two classes: integers or strings.

        Returns
        -------
        self

        Raises
        ------
        InputError
            (a ValueError) For rows that are not finite, fewer than two classes, or more components than there are.

        Notes
        -----
        Earlier rows are forgotten. ``moments_`` is kept, so that ``partial_fit`` can extend this fit exactly; not so
        for fewer rows than columns, class scatters beyond 256 MiB, and ``m-pca1b``.
        """
        self._check_parameters()
        self._kept = None
        if dask.is_dask_collection(X):
            return self._fit_rows(*dask_rows(self._check_dask(X, reset=True), y))
        return self._fit_rows(self._check_rows(X, y, reset=True), Threads())

    def _fit_rows(self, dataset: Dataset, scheduler: Scheduler) -> Self:
        return self.fit_statistics(self._statistics(dataset, scheduler))

    @_Mergeable
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Fit to these rows together with all earlier ones; exact, at the price of keeping d x d class scatters.

        Earlier rows are those of ``partial_fit``, of ``fit``, of ``from_moments``, or of the run that ``load_model``
        took the model from.

        Parameters
        ----------
        X, y : as in ``fit``, in memory
        classes : array-like, optional
            All classes that will ever come; otherwise they grow as they come.

        Raises
        ------
        InputError
            Where the fit before kept no moments; the message says why.

        Notes
        -----
        ``m-pca1b`` has no ``partial_fit``: the median of two sets of rows does not follow from their medians.
        """
        self._check_parameters()
        stored = self._extendable()
        dataset = self._check_rows(X, y, reset=stored is None, least=1)
        fresh = moments_of(dataset, precision=self.precision, classes=classes)
        moments = self._kept = fresh if stored is None else merge_classes(stored, fresh)
        if np.count_nonzero(moments.counts) < 2:
            self.classes_ = moments.classes
            return self
        statistics = tall_statistics(moments, None, precision=self.precision, standardize=self.standardize)
        return self.fit_statistics(statistics, at_most=True)

    @property
    def moments_(self) -> Any:
        """``ClassMoments`` of all rows so far, in their own units; those of a stored run are loaded when asked for."""
        try:
            moments = self._extendable()
        except InputError as error:
            raise AttributeError(str(error)) from error
        if moments is None:
            raise AttributeError(f"This {type(self).__name__} has seen no rows yet.")
        return moments

    def _extendable(self) -> Any:
        """Return the moments that more rows are merged with, or None where there are no rows yet."""
        if isinstance(self._kept, str):
            raise InputError(
                f"This fit kept no class moments that more rows could extend: {self._kept}. Start with partial_fit, "
                "or with from_moments(class_moments(X, y)), which keep a d x d scatter of every class."
            )
        if callable(self._kept):
            self._kept = self._kept()
        return self._kept

    @property
    def _unmergeable(self) -> str | None:
        """Why there is no ``partial_fit``, in words."""
        if self._needs_medians:
            return "the median of two sets of rows does not follow from their medians, so they must be fitted at once"
        if self._pair_search() is not None:
            return "rows that come may be nearer than those found, so all rows must be fitted at once"
        return None

    @classmethod
    def _from_moments(cls, moments: ClassMoments, medians: NDArray | None, **parameters: Any) -> Self:
        reducer = cls(**parameters)
        reducer._check_parameters()
        statistics = tall_statistics(moments, medians, precision=reducer.precision, standardize=reducer.standardize)
        reducer.n_features_in_ = statistics.n_features
        return reducer.fit_statistics(statistics)

    def fit_statistics(self, statistics: Statistics, at_most: bool = False) -> Self:
        """Solve; ``at_most`` accepts fewer components than asked for where there are no more."""
        with single_blas_thread():
            solution = self._solve(statistics, self.n_components)
        if not at_most or not len(solution.eigenvalues):
            self._refuse_too_few(solution, statistics.moments.n_rows, statistics.n_features, statistics.precision)
        self.classes_ = statistics.moments.classes
        self._adopt(solution, statistics.mean, statistics.scale)
        self._kept = self._unmergeable or statistics.fixed or statistics.raw
        return self

    def _refuse_too_few(self, solution: Solution, n_rows: int, n_features: int, precision: str) -> None:
        found, wanted = len(solution.eigenvalues), self.n_components
        if found == 0 or (wanted is not None and found < wanted):
            raise InputError(
                f"n_components={wanted} is more than the {found} components that {type(self).__name__} finds in "
                f"{n_rows} rows of {n_features} features: its limit is {solution.limit}, less what is zero up to "
                f"rounding ({precision} precision)."
            )

    def _adopt(self, solution: Solution, mean: NDArray[np.float64], scale: NDArray[np.float64] | None) -> None:
        self.components_ = solution.components
        self.eigenvalues_ = solution.eigenvalues
        self.residuals_ = solution.residuals
        self.relative_errors_ = solution.relative_errors
        self.total_ = solution.total
        self.limit_ = solution.limit
        if solution.certificate is not None:
            self.certificate_ = solution.certificate
        self.mean_, self.scale_ = mean, scale

    def _shorten(self, n_components: int) -> None:
        """Keep the first components."""
        for name in BY_COMPONENT:
            setattr(self, name, getattr(self, name)[:n_components])

    def transform(self, X: Any) -> Any:
        """Project rows onto the components: V^T x, or V^T (x - mean) with ``center=True``.

        With ``standardize=True`` rows are standardised first, which centres them.

        Parameters
        ----------
        X : array, scipy.sparse matrix, data frame, or Dask array or data frame, of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components)
            Lazy for Dask input; float32 for float32 rows, else float64.
        """
        check_is_fitted(self, "components_")
        if dask.is_dask_collection(X):
            X = self._check_dask(X, reset=False)
            X = whole_rows(X)
            dtype = _output_type(X.dtype)
            chunks = (X.chunks[0], (len(self.components_),))
            meta = np.empty((0, len(self.components_)), dtype)
            return X.map_blocks(self._project, dtype=dtype, chunks=chunks, meta=meta)
        return self._project(validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric"))

    def _project(self, X: Any) -> NDArray:
        dtype = _output_type(X.dtype)
        matrix, mean = self.projection(np.float64 if issparse(X) else dtype)
        return projected(X, matrix, mean, dtype)

    def projection(self, dtype: Any = np.float64) -> tuple[NDArray, NDArray | None]:
        """Return matrix A (n_features, K) and the mean (n_features,) or None, such that x becomes A^T (x - mean)."""
        loadings = self.components_ if self.scale_ is None else self.components_ / self.scale_
        return (self._gain * loadings).T.astype(dtype), None if self.scale_ is None and not self.center else self.mean_

    def inverse_transform(self, Z: Any) -> Any:
        """Return the row nearest to the mean, in standardised units where they are used, among those projected to Z.

        Parameters
        ----------
        Z : array of shape (n_samples, n_components)

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self, "components_")
        loadings, mean = self.projection()
        offset = self.mean_ @ loadings if mean is None else 0
        back = np.linalg.pinv(self.components_).T / self._gain
        if self.scale_ is not None:
            back = back * self.scale_
        Z = Z if dask.is_dask_collection(Z) else np.asarray(Z)
        return (Z - offset) @ back + self.mean_

    @property
    def imprecise_(self) -> NDArray[np.bool_]:
        """Which components are within a hundredfold of the rounding floor, shape (K,)."""
        return self.relative_errors_ > IMPRECISE

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _statistics(self, dataset: Dataset, scheduler: Scheduler) -> Statistics:
        census = take_census(dataset, make_spans(dataset), scheduler)
        needs = Needs(
            self._scatters,
            median_sets(len(census.classes), self.pairing) if self._needs_medians else None,
            self._pair_search(),
            self._most_components(int(np.count_nonzero(census.counts))),
        )
        return statistics_for(
            dataset, census, needs, self._solver_options(),
            scheduler=scheduler, precision=self.precision, standardize=self.standardize, scratch=self._scratch,
        )  # fmt: skip

    def _most_components(self, n_classes: int) -> int | None:
        """Return how many components a solver is to look for; None for all that the rows have."""
        if not self._by_classes:
            return self.n_components
        most = max(n_classes - 1, 1)
        return most if self.n_components is None else min(self.n_components, most)

    def _pair_search(self) -> PairSearch | None:
        """Return how nearest rows of other classes are to be found, where they are needed."""
        return None

    def _solver_options(self) -> SolverOptions:
        return SolverOptions(self.solver, self.oversampling, self.passes, self.tolerance)

    def _check_parameters(self) -> None:
        self._solver_options()
        k = self.n_components
        if k is not None and (isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1):
            raise InputError(f"n_components={k!r} must be a positive whole number, or None for all.")
        for name, allowed in (("precision", ("single", "double")), ("pairing", PAIRINGS)):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name}={getattr(self, name)!r} must be one of {', '.join(allowed)}.")

    def _check_rows(self, X: Any, y: Any, reset: bool, least: int = 2) -> Dataset:
        X, y = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype="numeric", ensure_min_samples=least)
        check_classification_targets(y)
        return rows_in_memory(X, normalize_labels(y, "y"), "X")

    def _check_dask(self, X: Any, reset: bool) -> Any:
        if hasattr(X, "to_dask_array"):
            names = np.asarray([str(name) for name in X.columns], dtype=object)
            if reset:
                self.feature_names_in_ = names
            X = X.to_dask_array()
        if X.ndim != 2:
            raise InputError(f"X has shape {X.shape}; it must have shape (n_samples, n_features).")
        if reset:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def projected(X: Any, matrix: NDArray, mean: NDArray | None, dtype: np.dtype) -> NDArray:
    """Return (X - mean) A as ``dtype``, for rows X (n, d), dense or CSR, and A (d, K).

    CSR rows stay so: the product is taken in double, so that the mean can be subtracted after it.
    """
    if not issparse(X):
        return centred(X, mean, dtype) @ matrix
    wide = np.asarray(matrix, np.float64)
    found = np.asarray(X @ wide)
    if mean is not None:
        found -= mean @ wide
    return found.astype(dtype, copy=False)


def centred(X: NDArray, mean: NDArray | None, dtype: np.dtype) -> NDArray:
    """Return rows less the mean as ``dtype``; subtracted in double before, not from two large products after."""
    if mean is None:
        return np.asarray(X, dtype=dtype)
    return np.subtract(X, mean, out=np.empty(X.shape, dtype), casting="same_kind")


def _output_type(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)
