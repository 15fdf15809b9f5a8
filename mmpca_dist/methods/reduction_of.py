"""The reduction that a projection penalty is about: a matrix, or a method that is fitted to the same rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
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
        """Return the reduction that an array (K, d) is."""
        components = np.ascontiguousarray(components, np.float64)
        return cls(components.tobytes(), components.shape[1])

    @property
    def needs(self) -> Needs:
        return Needs(scatters=frozenset())

    def components(self, statistics: Statistics, n_components: int | None) -> NDArray[np.float64]:
        rows = np.frombuffer(self.values, np.float64).reshape(-1, self.n_features)
        if self.n_features != statistics.n_features:
            raise InputError(
                f"The reduction has {self.n_features} columns, but the rows have {statistics.n_features} features."
            )
        return rows[:n_components]


@dataclass(frozen=True)
class MethodReduction(ReductionOf):
    """A method of this project, with its options.

    Attributes
    ----------
    estimator : type of MomentReducer
    options : tuple of (str, value) pairs
        Its parameters, but for the number of components.
    """

    estimator: Any
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, reducer: Any) -> MethodReduction:
        """Return the reduction that an estimator, not yet fitted, makes."""
        options = {name: value for name, value in reducer.get_params(deep=False).items() if name != "n_components"}
        return cls(type(reducer), tuple(sorted((name, _hashable(value)) for name, value in options.items())))

    def reducer(self, n_components: int | None) -> Any:
        """Return the estimator."""
        return self.estimator(n_components=n_components, **dict(self.options))

    @property
    def needs(self) -> Needs:
        return self.reducer(None)._needs()

    def components(self, statistics: Statistics, n_components: int | None) -> NDArray[np.float64]:
        reducer = self.reducer(n_components)
        reducer._check_parameters()
        return reducer.fit_statistics(statistics, at_most=True)._directions


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
