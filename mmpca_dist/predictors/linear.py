"""Classifiers whose scores are linear in the reduced rows: Fisher's, and linear discriminant analysis.

Both compare a row z with the class means in the metric P, a pseudo-inverse of the mean scatter within classes:
-(z - m_c)^T P (z - m_c) / 2, less what is the same for all classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.predictors.reduced import EPS, ReducedMoments
from mmpca_dist.predictors.rules import Rule


@dataclass(frozen=True)
class LinearRule(Rule):
    """Scores (z - centre)^T w_c + b_c.

    Attributes
    ----------
    centre : array of shape (K,)
        Midway between the class means; subtracted first, so that nothing is lost where they are far from zero.
    coef : array of shape (C, K)
        w_c.
    intercept : array of shape (C,)
        b_c.
    """

    centre: NDArray[np.float64]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]

    @property
    def n_components(self) -> int:
        return self.coef.shape[1]

    def decision_function(self, Z: Any) -> NDArray[np.float64]:
        """Return the scores as every rule does; of CSR rows too, from which the centre is not subtracted first."""
        if not issparse(Z):
            return super().decision_function(Z)
        with single_blas_thread():
            scores = np.asarray(Z @ self.coef.T) + (self.intercept - self.coef @ self.centre)
        return scores[:, 1] - scores[:, 0] if len(self.classes) == 2 else scores

    def _scores(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        return (Z - self.centre) @ self.coef.T + self.intercept


def fisher_linear(reduced: ReducedMoments) -> LinearRule:
    """Return Fisher's linear classifier: the nearest class mean in the metric of the scatter within classes.

    Of two classes, the direction is W^+ (m_1 - m_0) and the threshold midway between the projected class means, however
    many rows each class has. W^+ is the pseudo-inverse: directions in which no class varies are left out.

    Raises
    ------
    InputError
        Where the rows of each class are all equal.

    Notes
    -----
    Sources: STAT 841, Fisher discriminant analysis; Luo & Durrant 2017, section 5, for the threshold.
    """
    root = _pseudo_inverse_root(reduced.covariance, reduced.covariance_floors)
    return _nearest_mean(reduced, root, np.zeros(len(reduced.counts)))


def linear_discriminant(reduced: ReducedMoments, tol: float = 1e-4) -> LinearRule:
    """Return linear discriminant analysis: Gaussian classes with one covariance W / n, and their shares as priors.

    Parameters
    ----------
    tol : float
        As in scikit-learn: after columns are divided by their standard deviation within classes, directions whose
        standard deviation is at most this are left out.

    Raises
    ------
    InputError
        Where the rows of each class are all equal, and for a negative tolerance.

    Notes
    -----
    It equals ``sklearn.discriminant_analysis.LinearDiscriminantAnalysis()``. Source: STAT 841, linear discriminant
    analysis.
    """
    check_tolerance(tol)
    covariance, floors = reduced.covariance, reduced.covariance_floors
    variances = np.diagonal(covariance)
    varying = variances > floors
    scale = np.where(varying, 1 / np.sqrt(np.where(varying, variances, 1)), 0)
    scaled = covariance * scale[:, None] * scale
    root = _pseudo_inverse_root(scaled, floors * scale**2, tol**2)
    return _nearest_mean(reduced, root * scale[:, None], np.log(reduced.counts / reduced.n_rows))


def check_tolerance(tol: float) -> None:
    """Refuse a tolerance of linear discriminant analysis that is no standard deviation.

    Raises
    ------
    InputError
    """
    if not 0 <= tol < np.inf:
        raise InputError(f"The option tol of lda is {tol!r}; it must be a number, zero or more.")


def _pseudo_inverse_root(S: NDArray[np.float64], floors: NDArray[np.float64], least: float = 0.0) -> NDArray:
    """Return R, shape (K, r), with R R^T the pseudo-inverse of a positive semidefinite matrix.

    Eigenvalues that ``floors`` on the diagonal could make up, or no larger than ``least``, pass for zero.
    """
    with single_blas_thread():
        values, vectors = scipy.linalg.eigh(S, check_finite=False)
    kept = values > np.maximum(floors @ vectors**2, max(least, 10 * len(S) * EPS * values[-1]))
    if not kept.any():
        raise InputError("The reduced rows of each class are all equal, so there is no scatter to divide by.")
    return vectors[:, kept] / np.sqrt(values[kept])


def _nearest_mean(reduced: ReducedMoments, root: NDArray, log_priors: NDArray[np.float64]) -> LinearRule:
    """Return the rule with scores -(z - m_c)^T R R^T (z - m_c) / 2 + log_priors[c], less what all classes share."""
    with single_blas_thread():
        centre = reduced.means.mean(axis=0)
        whitened = (reduced.means - centre) @ root
        intercept = log_priors - np.einsum("ck,ck->c", whitened, whitened) / 2
        return LinearRule(reduced.classes, centre, whitened @ root.T, intercept)
