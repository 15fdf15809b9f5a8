"""Classifiers whose scores are linear in the reduced rows: Fisher's, and linear discriminant analysis.

Both compare a row z with the class means in the metric P, a pseudo-inverse of the mean scatter within classes:
-(z - m_c)^T P (z - m_c) / 2, less the terms that all classes share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.serialization import storable
from mmpca_dist.predictors.reduced_moments import EPS, ReducedMoments
from mmpca_dist.predictors.specification import ZERO_OR_MORE, Classifier, Rule, check_names, check_options
from mmpca_dist.statistics.moments import ClassMoments

THRESHOLDS = ("midway", "log-odds")
"""Thresholds of Fisher's classifier."""
LDA_OPTIONS = {"tol": ZERO_OR_MORE}


@storable
@dataclass(frozen=True)
class LinearRule(Rule):
    """Scores (z - centre)^T w_c + b_c."""

    # (K,): midway between the class means; subtracted first, so that means far from zero cost no accuracy
    centre: NDArray[np.float64]
    coef: NDArray[np.float64]  # (C, K): w_c
    intercept: NDArray[np.float64]  # (C,): b_c

    def _scores(self, Z: Any) -> NDArray[np.float64]:
        if issparse(Z):  # which the centre is not subtracted from
            return np.asarray(Z @ self.coef.T) + (self.intercept - self.coef @ self.centre)
        return (Z - self.centre) @ self.coef.T + self.intercept


def fisher_linear(reduced: ReducedMoments, threshold: str = "midway") -> LinearRule:
    """Return Fisher's linear classifier: the nearest class mean in the metric of the scatter within classes.

    For two classes, the direction is w = W^+ (m_1 - m_0) and the threshold midway between the projected class means,
    whatever the class sizes. W^+ is the pseudo-inverse: it leaves out directions in which no class varies.

    The threshold ``log-odds`` moves it from midway towards the smaller class, by |log(n_1 / n_0)| as a length along w:
    the score is (z - midway)^T w / ||w|| + log(n_1 / n_0). Unlike ``midway`` it depends on the units of the columns. It
    is here because the published figures evidently use it. Raises InputError if the rows of each class are all equal,
    for other thresholds, and for ``log-odds`` of more than two classes.

    Sources: STAT 841, Fisher discriminant analysis; for ``log-odds`` the tables of Luo & Durrant 2017 (the paper gives
    no formula; see docs/paper.md).
    """
    check_threshold(threshold, len(reduced.counts))
    root = pseudo_inverse_root(reduced.covariance, reduced.covariance_floors)
    midway = _nearest_mean(reduced, root, np.zeros(len(reduced.counts)))
    if threshold == "midway":
        return midway
    length = float(np.linalg.norm(midway.coef[1] - midway.coef[0]))
    coef = midway.coef / (length or 1.0)  # for equal means, the shares of the classes alone decide
    return LinearRule(midway.classes, midway.centre, coef, np.log(reduced.counts / reduced.counts.sum()))


def linear_discriminant(reduced: ReducedMoments, tol: float = 1e-4) -> LinearRule:
    """Return linear discriminant analysis: Gaussian classes with one covariance W / n, and their shares as priors.

    It equals ``sklearn.discriminant_analysis.LinearDiscriminantAnalysis()``: columns are divided by their standard
    deviation within classes, and then directions with a standard deviation of at most ``tol`` are left out. Raises
    InputError if the rows of each class are all equal. Source: STAT 841, linear discriminant analysis.
    """
    covariance, floors = reduced.covariance, reduced.covariance_floors
    variances = np.diagonal(covariance)
    varying = variances > floors
    scale = np.where(varying, 1 / np.sqrt(np.where(varying, variances, 1)), 0)
    scaled = covariance * scale[:, None] * scale
    root = pseudo_inverse_root(scaled, floors * scale**2, tol**2)
    return _nearest_mean(reduced, root * scale[:, None], np.log(reduced.counts / reduced.total))


def check_threshold(threshold: Any, n_classes: int = 2) -> None:
    """Raise `InputError` for a threshold that Fisher's classifier does not have, or not for so many classes."""
    if threshold not in THRESHOLDS:
        expected = " or ".join(THRESHOLDS) + "." + did_you_mean(str(threshold), THRESHOLDS)
        raise InputError(f"The option threshold of fisher is {threshold!r}; it must be {expected}")
    if threshold == "log-odds" and n_classes != 2:
        raise InputError(
            f"The threshold log-odds of fisher is between two classes, and there are {n_classes}: leave it out."
        )


def _check_fisher(options: dict[str, Any]) -> None:
    check_names(options, ["threshold"], "fisher")
    check_threshold(options.get("threshold", THRESHOLDS[0]))


FISHER = Classifier(
    "fisher",
    "nearest class mean in the metric of the scatter within classes (Fisher's linear discriminant); option threshold "
    "(midway, or log-odds of two classes)",
    rule=fisher_linear,
    check_options=_check_fisher,
    check_classes=lambda options, n_classes: check_threshold(options.get("threshold", THRESHOLDS[0]), n_classes),
    rotatable=True,
    summed_scores=True,
)

LDA = Classifier(
    "lda",
    "Gaussian classes with one covariance (linear discriminant analysis); options tol",
    rule=linear_discriminant,
    check_options=partial(check_options, "lda", LDA_OPTIONS),
    summed_scores=True,
)


def rule_of_scores(coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> LinearRule:
    """Return the rule with these scores, of shape (C, K); of two classes, the second's less the first's (1, K)."""
    if len(coef) == 1:
        coef, intercept = np.concatenate([0 * coef, coef]), np.concatenate([[0.0], intercept])
    return LinearRule(np.arange(len(coef)), np.zeros(coef.shape[1]), coef, intercept)


def rule_of_shares(moments: ClassMoments) -> LinearRule:
    """Return the rule of rows without columns, which are all of the class with most rows."""
    with np.errstate(divide="ignore"):
        scores = np.log(moments.counts)
    return LinearRule(moments.classes, np.zeros(0), np.zeros((len(scores), 0)), scores)


def pseudo_inverse_root(S: NDArray[np.float64], floors: NDArray[np.float64], least: float = 0.0) -> NDArray:
    """Return R, shape (K, r), with R R^T the pseudo-inverse of a positive semidefinite matrix.

    Eigenvalues within the rounding error ``floors`` of the diagonal, or of at most ``least``, count as zero.
    """
    with single_blas_thread():
        if len(S) >= LIMITS.cholesky_columns:
            root = _inverse_root(S, max(least, float(floors.max()), 10 * len(S) * EPS * float(np.trace(S))))
            if root is not None:
                return root
        values, vectors = scipy.linalg.eigh(S, check_finite=False)
    varying = values > np.maximum(floors @ vectors**2, max(least, 10 * len(S) * EPS * values[-1]))
    if not varying.any():
        raise InputError("The reduced rows of each class are all equal, so there is no scatter to divide by.")
    return vectors[:, varying] / np.sqrt(values[varying])


def _inverse_root(S: NDArray[np.float64], least: float) -> NDArray | None:
    """Return R with R R^T the inverse of S, or None unless Cholesky proves that every eigenvalue is above ``least``."""
    shifted = S.copy()
    shifted[np.diag_indices(len(S))] -= least
    try:
        scipy.linalg.cholesky(shifted, overwrite_a=True, check_finite=False)
        factor = scipy.linalg.cholesky(S, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(scipy.linalg.lapack.dtrtri(factor, overwrite_c=True)[0])


def _nearest_mean(reduced: ReducedMoments, root: NDArray, log_priors: NDArray[np.float64]) -> LinearRule:
    """Return the rule with scores -(z - m_c)^T R R^T (z - m_c) / 2 + log_priors[c], less the terms that all share."""
    with single_blas_thread():
        centre = reduced.means.mean(axis=0)
        whitened = (reduced.means - centre) @ root
        intercept = log_priors - np.einsum("ck,ck->c", whitened, whitened) / 2
        return LinearRule(reduced.classes, centre, whitened @ root.T, intercept)
