"""The variances that scikit-learn's PCA tells, of components that diagonalise the total scatter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted


class TellsVariance:
    """Attributes of scikit-learn's ``PCA``, each a function of eigenvalues and of the number of rows."""

    components_: NDArray[np.float64]
    eigenvalues_: NDArray[np.float64]
    total_: float
    n_samples_: float
    """Sum of the weights of the rows: their number, where they have none."""

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
