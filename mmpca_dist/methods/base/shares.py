"""Shares that components hold of a total, and the variances that scikit-learn's PCA tells."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.traits import Traits, check_number


class TellsShares:
    """Numbers of components by the share that they hold, and what scikit-learn's ``PCA`` tells of eigenvalues."""

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
        if self.keeps_all:
            return len(self.components_)
        if size >= 1:
            return min(int(size), len(self.components_))
        return min(int(np.searchsorted(np.cumsum(self.eigenvalues_), size * self.total_)) + 1, len(self.components_))

    def _check_size(self, k: Any, words: tuple[str, ...]) -> None:
        if self.share is None:
            check_number("n_components", k, {"ge": 1}, integral=True, words=words)
        elif not 0 < self.share < 1:
            raise InputError(f"n_components={k} must be a whole number of at least 1, or a share between 0 and 1.")
        elif not self.traits.shares:
            raise InputError(f"n_components={k} is a share, and {type(self).__name__} knows none: give a whole number.")

    @property
    def _diagonal(self) -> bool:
        """Whether components diagonalise the total scatter."""
        return False

    @property
    def explained_variance_(self) -> NDArray[np.float64]:
        """Variances along the components, shape (K,), of n rows with the divisor n - 1."""
        return self._variances("explained_variance_") * np.divide(self.n_samples_, max(self.n_samples_ - 1, 0))

    @property
    def explained_variance_ratio_(self) -> NDArray[np.float64]:
        """Shares of the total variance, shape (K,)."""
        return self._variances("explained_variance_ratio_", of_total=True) / self.total_

    @property
    def singular_values_(self) -> NDArray[np.float64]:
        """Singular values of the centred rows, shape (K,)."""
        return np.sqrt(self._variances("singular_values_") * self.n_samples_)

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
