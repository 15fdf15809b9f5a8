"""The reduction that a projection penalty is about: a matrix, or a method that is fitted to the same rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.methods.base import MomentReducer
from mmpca_dist.methods.registry import METHODS
from mmpca_dist.solvers.needs import Needs
from mmpca_dist.statistics.coordinates import Statistics


class ReductionOf(ABC):
    """Where the rows of P come from; hashable."""

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """What must be known of the rows."""

    @abstractmethod
    def components(self, statistics: Statistics, n_components: int | None) -> NDArray[np.float64]:
        """Return P, shape (K, d), in (standardised) columns."""


@dataclass(frozen=True)
class GivenReduction(ReductionOf):
    """A matrix, as its rows of bytes.

    Attributes
    ----------
    values : bytes
        Of doubles, row by row.
    n_features : int
    """

    values: bytes
    n_features: int

    @classmethod
    def of(cls, components: NDArray) -> GivenReduction:
        """Return the reduction that an array (K, d) is; raise InputError where it is none."""
        components = np.asarray(components)
        if components.ndim != 2 or components.dtype.kind not in "fiub" or not np.isfinite(components).all():
            raise InputError(
                f"The reduction, of type {components.dtype} and shape {components.shape}, must be the name of a "
                "method, a transformer, or an array of finite numbers of shape (n_components, n_features)."
            )
        components = np.ascontiguousarray(components, np.float64)
        return cls(components.tobytes(), components.shape[1])

    @property
    def needs(self) -> Needs:
        return Needs(scatters=frozenset())

    def components(self, statistics: Statistics, n_components: int | None) -> NDArray[np.float64]:
        return self.matrix(statistics.n_features, n_components)

    def matrix(self, n_features: int, n_components: int | None) -> NDArray[np.float64]:
        """Return P, or its first rows, for rows of so many features; raise InputError where it has others."""
        if self.n_features != n_features:
            raise InputError(f"The reduction has {self.n_features} columns, but the rows have {n_features} features.")
        return np.frombuffer(self.values, np.float64).reshape(-1, self.n_features)[:n_components]


@dataclass(frozen=True)
class MethodReduction(ReductionOf):
    """A method of this project, with its options.

    Attributes
    ----------
    estimator : type of MomentReducer
    options : tuple of (str, value) pairs
        Its parameters, but for the number of components.
    """

    estimator: type[MomentReducer]
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, reducer: MomentReducer) -> MethodReduction:
        """Return the reduction that an estimator, not yet fitted, makes."""
        given = reducer.get_params(deep=False).items()
        options = {name: _hashable(value) for name, value in given if name not in OF_THE_STATISTICS}
        return cls(type(reducer), tuple(sorted(options.items())))

    def reducer(self, n_components: int | None) -> MomentReducer:
        """Return the estimator."""
        return self.estimator(n_components=n_components, **dict(self.options))

    @property
    def needs(self) -> Needs:
        return self.reducer(None)._needs()

    def components(self, statistics: Statistics, n_components: int | None) -> NDArray[np.float64]:
        reducer = self.reducer(n_components)
        return reducer.fit_statistics(statistics, at_most=True)._directions


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def method_named(described: Any, **shared: Any) -> MomentReducer:
    """Return the estimator of a method by its name, or by a mapping of its name and options.

    Raises
    ------
    InputError
        For a method or an option that there is not.
    """
    content = {"name": described} if isinstance(described, str) else dict(described)
    name = content.pop("name", None)
    if name not in METHODS:
        raise InputError(f"Unknown method {name!r}; there are {', '.join(METHODS)}.{did_you_mean(str(name), METHODS)}")
    method = METHODS[name]
    unknown = next((key for key in content if key not in method.settable), None)
    if unknown is not None:
        options = f"its options are {', '.join(method.settable)}" if method.settable else "it has none"
        raise InputError(f"{name} has no option {unknown!r}; {options}.{did_you_mean(unknown, method.settable)}")
    reducer = method.estimator(**method.parameters, **content)
    return reducer.set_params(**{key: value for key, value in shared.items() if key in reducer._parameters})


def components_of(transformer: Any, X: Any) -> NDArray[np.float64] | None:
    """Return P, shape (K, d), where a fitted transformer of rows x is P x up to a constant; else None.

    ``X`` are rows to try it on.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(transformer)
    for name in ("components_", "scalings_", "x_rotations_"):
        found = getattr(transformer, name, None)
        if not isinstance(found, np.ndarray) or found.ndim != 2:
            continue
        P = found if name == "components_" else found.T
        rows = X[:PROBES].toarray() if issparse(X) else np.asarray(X[:PROBES], np.float64)
        if P.shape[1] != rows.shape[1]:
            continue
        moves = rows - rows[0]
        images = np.asarray(transformer.transform(X[:PROBES]), np.float64)
        expected = moves @ P.T
        if images.shape == expected.shape and np.allclose(images - images[0], expected, atol=_rounding(rows, P)):
            return P
    return None


def _rounding(rows: NDArray, P: NDArray) -> float:
    return 1e-6 * float(np.abs(rows).max(initial=0.0) * np.abs(P).max(initial=0.0)) * rows.shape[1] ** 0.5


OF_THE_STATISTICS = ("n_components", "standardize", "center", "precision", "solver", "scratch")
"""Parameters that do not matter to a reduction whose statistics and size are given."""
PROBES = 16
"""Rows that a transformer is tried on."""
