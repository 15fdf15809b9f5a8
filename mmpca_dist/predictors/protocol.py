"""``Rule``: the base of classifiers from moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError


@dataclass(frozen=True)
class Rule(ABC):
    """A classifier of reduced rows.

    Attributes
    ----------
    classes : array of shape (C,)
        Sorted labels.
    """

    classes: NDArray

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Columns of the reduced rows."""

    @abstractmethod
    def _scores(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the score of every class for every row, shape (n, C)."""

    def decision_function(self, Z: NDArray) -> NDArray[np.float64]:
        """Return the scores of the classes; of two classes, the second's less the first's.

        Parameters
        ----------
        Z : array of shape (n, K)
            Reduced rows.

        Returns
        -------
        array of shape (n, C), or (n,) for two classes

        Raises
        ------
        InputError
            For rows with another number of columns, or not finite.
        """
        Z = np.asarray(Z, dtype=np.float64)
        if Z.ndim != 2 or Z.shape[1] != self.n_components:
            raise InputError(f"The reduced rows have shape {Z.shape}; they must have shape (n, {self.n_components}).")
        if not np.isfinite(Z).all():
            row, column = np.argwhere(~np.isfinite(Z))[0]
            raise InputError(f"Found {Z[row, column]} in row {row}, column {column} of the reduced rows.")
        with single_blas_thread():
            scores = self._scores(Z)
        return scores[:, 1] - scores[:, 0] if len(self.classes) == 2 else scores

    def predict(self, Z: NDArray) -> NDArray:
        """Return the class of the largest score, the first of equal ones, for each of the rows ``Z``, shape (n,)."""
        scores = self.decision_function(Z)
        return self.classes[(scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)]
