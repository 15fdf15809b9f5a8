"""Shares that components hold of a total, and the variances that scikit-learn's PCA tells."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.traits import Traits, check_number


class TellsVariance:
    """Attributes of scikit-learn's ``PCA``, each a function of eigenvalues and of the number of rows."""

    components_: NDArray[np.float64]
    eigenvalues_: NDArray[np.float64]
    total_: float
    n_samples_: float
    """Sum of the weights of the rows: their number, where they have none."""
    n_components: Any
    traits: ClassVar[Traits]
    keeps_all: bool = False
    """Whether the number of components has no effect."""

    @property
    def share(self) -> float | None:
        """The share that components are to hold, where ``n_components`` is one."""
        return float(self.n_components) if isinstance(self.n_components, float | np.floating) else None

    @property
    def asked(self) -> Any:
        """The number of components asked for; None for all there are, or for those that hold a share."""
        return None if self.share is not None else self.n_components

    def count_of(self, size: float) -> int:
        """Return how many components there are of so many, or how many of the first hold a share of the total."""
        if size >= 1 or self.keeps_all:
            return min(int(size), len(self.components_))
        return min(int(np.searchsorted(np.cumsum(self.eigenvalues_), size * self.total_)) + 1, len(self.components_))

    def _check_size(self, k: Any, words: tuple[str, ...]) -> None:
        if self.share is not None and not 0 < self.share < 1:
            raise InputError(f"n_components={k} must be a whole number of at least 1, or a share between 0 and 1.")
        if self.share is None:
            check_number("n_components", k, {"ge": 1}, integral=True, words=words)
        elif not self.traits.shares:
            raise InputError(
                f"n_components={k} is a share of a scatter, and components of {type(self).__name__} have none: give a "
                "whole number."
            )

    @property
    def _diagonal(self) -> bool:
        """Whether components diagonalise the total scatter."""
        return False

    @property
    def explained_variance_(self) -> NDArray[np.float64]:
        """Variances along the components, shape (K,), of n rows with the divisor n - 1."""
        return self._variances("explained_variance_") * self._divisor

    @property
    def explained_variance_ratio_(self) -> NDArray[np.float64]:
        """Shares of the total variance, shape (K,)."""
        return self._variances("explained_variance_ratio_", of_total=True) / self.total_

    @property
    def singular_values_(self) -> NDArray[np.float64]:
        """Singular values of the centred rows, shape (K,)."""
        return np.sqrt(self._variances("singular_values_") * self.n_samples_)

    @property
    def noise_variance_(self) -> float:
        """Mean variance along the other directions that n rows have: noise, in probabilistic PCA."""
        rest = self.total_ - float(self._variances("noise_variance_", of_total=True).sum())
        others = min(self.n_samples_, self.components_.shape[1]) - len(self.components_)
        return max(rest, 0.0) / others * self._divisor if others > 0 else 0.0

    @property
    def _divisor(self) -> float:
        return self.n_samples_ / (self.n_samples_ - 1) if self.n_samples_ > 1 else float("nan")

    def _variances(self, name: str, of_total: bool = False) -> NDArray[np.float64]:
        """Return the eigenvalues, where they are variances, and have a total where one is needed."""
        check_is_fitted(self, "components_")
        if self._diagonal and (self.total_ > 0 or not of_total):
            return self.eigenvalues_
        why = "have no total that is known" if self._diagonal else "do not diagonalise the total scatter"
        raise AttributeError(
            f"The components of {getattr(self, 'variant', type(self).__name__)} {why}, so that they have no {name}: "
            "see eigenvalues_ / total_."
        )
