"""The reduction that a projection penalty is about: a matrix, a transformer, or a method fitted to the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mmpca_dist import dask_arrays as da
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.methods.base.choice_by_folds import training_statistics
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.passes.rows import Rows
from mmpca_dist.statistics.column_units import column_units
from mmpca_dist.statistics.working_statistics import Statistics

ByFold = tuple[dict[int, list[NDArray[np.float64]]], bool]


@dataclass(frozen=True, kw_only=True)
class ReductionOf:
    """Where the rows of P come from; by itself a transformer whose matrix or features rows must tell."""

    name: str = ""
    appended: bool = False  # whether it picks the last columns, which are features behind the columns of the rows
    is_fitted_to_all: bool = False  # whether it was fitted to all rows that the models are fitted to

    @property
    def needs(self) -> Needs:
        """Needs of the rows; by default no more than their mean."""
        return Needs(scatters=frozenset())

    def components(self, statistics: Statistics, n_components: int | None) -> NDArray[np.float64]:
        """Return P, shape (K, d), in (standardised) columns."""
        raise InputError(f"What {self.name} makes of rows follows from rows alone: use fit, or give its matrix.")

    def largest(self, n_features: int) -> int:
        """Return the largest number of components that there can be, whatever the number of rows."""
        return n_features

    def by_fold(self, statistics: Statistics, rows: Rows, n_folds: int, sizes: Sequence[int]) -> ByFold:
        """Return P for each number of components, while one fold after the other is held out, and whether it is nested.

        ``statistics`` are those of all rows. A list of a single P is for all folds: that of a reduction which is not
        fitted to rows, or, not nested, which has seen those that are held out. Numbers with the same P are left out.
        """
        return distinct({size: [self.components(statistics, size)] for size in sizes}), not self.is_fitted_to_all

    @property
    def takes_rows(self) -> bool:
        """Whether `by_fold` takes rows into memory."""
        return False


@dataclass(frozen=True)
class GivenReduction(ReductionOf):
    """A matrix."""

    values: bytes  # of doubles, row by row
    n_features: int
    of_raw_columns: bool = False  # whether it is for columns in their own units, whatever rows are divided by

    @classmethod
    def of(cls, components: Any, *, of_raw_columns: bool = False) -> GivenReduction:
        """Return the reduction that an array (K, d) is; raise InputError where it is none."""
        components = np.asarray(components)
        if components.ndim != 2 or components.dtype.kind not in "fiub" or not np.isfinite(components).all():
            raise InputError(
                f"The reduction, of type {components.dtype} and shape {components.shape}, must be the name of a "
                "method, a transformer, or an array of finite numbers of shape (n_components, n_features)."
            )
        components = np.ascontiguousarray(components, np.float64)
        size = float(np.abs(components).max(initial=0.0))
        if size and not SMALLEST < size < 1 / SMALLEST:
            raise InputError(
                f"The largest entry of the reduction is {size:.3g}, whose square is out of reach: scale it."
            )
        return cls(components.tobytes(), components.shape[1], of_raw_columns)

    @property
    def n_components(self) -> int:
        """K."""
        return len(self.values) // (8 * max(self.n_features, 1))

    def largest(self, n_features: int) -> int:
        return max(self.n_components, 1)

    def components(self, statistics: Statistics, n_components: int | None) -> NDArray[np.float64]:
        d, scale = statistics.n_features, statistics.scale
        if self.n_features != d:
            raise InputError(f"The reduction has {self.n_features} columns, but the rows have {d} features.")
        P = np.frombuffer(self.values, np.float64).reshape(-1, self.n_features)[:n_components]
        return P * scale if self.of_raw_columns and scale is not None else P


@dataclass(frozen=True)
class MethodReduction(ReductionOf):
    """A method of this project, with its options."""

    estimator: type[MomentReducer]
    options: tuple[tuple[str, Any], ...] = ()  # but for those of the statistics and the number of components
    n_components: int | None = None  # how many it asks for itself

    @classmethod
    def of(cls, reducer: MomentReducer) -> MethodReduction:
        """Return the reduction that an estimator, not yet fitted, makes; raise InputError for mistaken parameters."""
        reducer.check_parameters()
        parameters = reducer.get_params(deep=False).items()
        options = {name: _hashable(value) for name, value in parameters if name not in OF_THE_STATISTICS}
        return cls(type(reducer), tuple(sorted(options.items())), reducer.n_components)

    def reducer(self, n_components: int | None) -> MomentReducer:
        """Return the estimator."""
        return self.estimator(n_components=n_components, **dict(self.options))

    @property
    def needs(self) -> Needs:
        return self.reducer(None).needs()

    def components(self, statistics: Statistics, n_components: int | None) -> NDArray[np.float64]:
        reducer = self.reducer(n_components)
        return reducer.fit_statistics(statistics, at_most=True).fitted().directions

    def by_fold(self, statistics: Statistics, rows: Rows, n_folds: int, sizes: Sequence[int]) -> ByFold:
        training = training_statistics(rows, n_folds, replace(self.needs, n_components=max(sizes)), statistics)
        folds = [self._by_size(each, sizes, statistics.scale) for each in training or [statistics]]
        return distinct({size: [fold[size] for fold in folds] for size in sizes}), training is not None

    @property
    def takes_rows(self) -> bool:
        needs = self.needs
        return bool(needs.searches or needs.swept or needs.medians)

    def _by_size(
        self, statistics: Statistics, sizes: Sequence[int], scale: NDArray[np.float64] | None
    ) -> dict[int, NDArray[np.float64]]:
        """Return P for each number of components, for columns over a scale in place of that of the statistics."""
        reducer, by_size = self.reducer(max(sizes)), {}
        try:
            reducer.fit_statistics(statistics, at_most=True)
        except InputError as error:
            raise InputError(
                "Without the rows of a fold, which are held out to choose alpha or n_components, the reduction cannot "
                "be fitted: give both as numbers. {fault}",
                fault=error.faults[0],
            ) from error
        units = 1.0 if scale is None or statistics.scale is None else scale / statistics.scale
        for size in sorted(sizes, reverse=True):
            if size < reducer.fitted().used:
                reducer.shorten(size)
            by_size[size] = reducer.fitted().directions * units
        return by_size


def distinct(by_size: dict[int, list[NDArray[np.float64]]]) -> dict[int, list[NDArray[np.float64]]]:
    """Return the smallest of all numbers of components that come to the same P."""
    smallest = {tuple(map(len, folds)): size for size, folds in sorted(by_size.items(), reverse=True)}
    return {size: by_size[size] for size in sorted(smallest.values())}


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    return tuple(value) if isinstance(value, list) else value


def method_named(described: Any, **shared: Any) -> MomentReducer:
    """Return the estimator of a method by its name, or by a mapping of its name and options.

    Raises InputError for a method or an option that there is not.
    """
    content = {"name": described} if isinstance(described, str) else dict(described)
    if "name" not in content:
        raise InputError(f"The reduction {described!r} lacks the name of a method: {{'name': 'm-pca0', ...}}.")
    name = content.pop("name")
    if name not in METHODS:
        raise InputError(f"Unknown method {name!r}; there are {', '.join(METHODS)}.{did_you_mean(str(name), METHODS)}")
    method = METHODS[name]
    unknown = next((key for key in content if key not in method.settable), None)
    if unknown is not None:
        options = f"its options are {', '.join(method.settable)}" if method.settable else "it has none"
        raise InputError(f"{name} has no option {unknown!r}; {options}.{did_you_mean(unknown, method.settable)}")
    reducer = method.estimator(**method.parameters, **content)
    return reducer.set_params(**{key: value for key, value in shared.items() if key in reducer.get_params(deep=False)})


def components_of(transformer: Any, X: Any) -> NDArray[np.float64] | None:
    """Return P, shape (K, d), where a fitted transformer of rows x is P x up to a constant; else None.

    It is tried on random rows whose columns vary like those of ``X``.
    """
    for name in ("components_", "scalings_", "x_rotations_"):
        matrix = getattr(transformer, name, None)
        if not isinstance(matrix, np.ndarray) or matrix.ndim != 2:
            continue
        P = matrix if name == "components_" else matrix.T
        if P.shape[1] != X.shape[1]:
            continue
        mean, scale = column_units(X)
        rows = mean + np.random.default_rng(0).standard_normal((PROBES, len(mean))) * scale
        try:
            images = np.asarray(transformer.transform(rows), np.float64)
        except Exception:  # noqa: S112  (whatever it raises for rows unlike those it knows, such as negative ones)
            continue
        expected = (rows - rows[0]) @ P.T
        if images.shape == expected.shape:
            rounding = 1e-6 * np.abs(expected).max(axis=0) + 1e-12 * (np.abs(rows) @ np.abs(P).T).max(axis=0)
            if (np.abs(images - images[0] - expected) <= rounding).all():
                return P
    return None


def is_transformer(reduction: Any) -> bool:
    """Tell whether a reduction is a transformer; raise InputError for a class of them."""
    if isinstance(reduction, type):
        name = reduction.__name__
        raise InputError(f"The reduction is the class {name}: give an instance, {name}(...).")
    return hasattr(reduction, "fit") and hasattr(reduction, "transform")


def is_fitted(estimator: Any) -> bool:
    """Tell whether an estimator is fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def with_features(X: Any, transformer: Any, gain: float) -> Any:
    """Return rows with the features of a transformer, times a gain, behind them; lazy for a Dask array."""
    if dask.is_dask_collection(X):
        X = X.rechunk({1: -1})
        chunks = (X.chunks[0], (X.shape[1] + transformer.transform(X[:1].compute()).shape[1],))
        return da.map_blocks(with_features, X, transformer, gain, dtype=np.float64, chunks=chunks)
    features = transformer.transform(X) * gain
    if issparse(X):
        return csr_array(hstack([X, csr_array(features)], format="csr"))
    return np.hstack([np.asarray(X, np.float64), np.asarray(features, np.float64)])


OF_THE_STATISTICS = ("n_components", "standardize", "center", "precision", "solver", "scratch")
"""Parameters that do not matter to a reduction whose statistics and size are given."""
SMALLEST = 1e-100
PROBES = 16
"""Rows that a transformer is tried on."""
