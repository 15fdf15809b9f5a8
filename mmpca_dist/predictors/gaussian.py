"""Quadratic discriminant analysis and naive Bayes: one Gaussian for each class.

The score of a class is the logarithm of its share of the rows times its density at the row, up to a constant that all
classes share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.predictors.reduced_moments import EPS, ReducedMoments
from mmpca_dist.predictors.specification import ZERO_OR_MORE, Classifier, NumberOption, Rule, check_options

DDOF: NumberOption = (lambda value: value in (0, 1), "0 or 1")
QDA_OPTIONS = {"reg_param": (lambda value: 0 <= value <= 1, "a number between 0 and 1"), "ddof": DDOF}
BAYES_OPTIONS = {"var_smoothing": ZERO_OR_MORE, "ddof": DDOF}


@dataclass(frozen=True)
class QuadraticRule(Rule):
    """Scores b_c - ||R_c^T (z - m_c)||^2 / 2, with R_c R_c^T the inverse covariance of a class.

    ``means`` m_c have shape (C, K), ``roots`` R_c (C, K, K), and ``constants`` b_c (C,).
    """

    means: NDArray[np.float64]
    roots: NDArray[np.float64]
    constants: NDArray[np.float64]

    def _scores(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = np.empty((len(Z), len(self.classes)))
        for c, (mean, root, constant) in enumerate(zip(self.means, self.roots, self.constants, strict=True)):
            whitened = (Z - mean) @ root
            scores[:, c] = constant - np.einsum("nk,nk->n", whitened, whitened) / 2
        return scores


@dataclass(frozen=True)
class NaiveBayesRule(Rule):
    """Scores b_c - sum_k (z_k - m_ck)^2 / (2 v_ck).

    ``means`` m_ck and ``variances`` v_ck have shape (C, K), and ``constants`` b_c (C,).
    """

    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    constants: NDArray[np.float64]

    def _scores(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        squares = [((Z - mean) ** 2 / v).sum(axis=1) for mean, v in zip(self.means, self.variances, strict=True)]
        return self.constants - np.stack(squares, axis=1) / 2


def quadratic_discriminant(reduced: ReducedMoments, reg_param: float = 0.0, ddof: int = 0) -> QuadraticRule:
    """Return quadratic discriminant analysis: a Gaussian of every class, and their shares of the rows as priors.

    The covariance of a class is (1 - r) G_c / (n_c - ddof) + r I, r the ``reg_param``; ``ddof`` is 0 as in scikit-learn
    now, or 1 as in versions that divided by n_c - 1. Raises InputError for a singular covariance, and for pooled
    scatters.

    It equals ``sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=reg_param)`` wherever that
    accepts the rows. A covariance is singular here within rounding error, and there below a fixed 1e-4. Source: STAT
    841, quadratic discriminant analysis.
    """
    roots, log_determinants = [], []
    each = zip(*reduced.of_each_class("qda"), reduced.counts, reduced.classes, strict=True)
    for scatter, floors, n, label in each:
        degrees = n - ddof if n > ddof else n
        with single_blas_thread():
            values, vectors = scipy.linalg.eigh(scatter / degrees, check_finite=False)
        # Eigenvalues within rounding error are zero, so that reg_param alone makes them positive.
        varying = values > np.maximum(floors @ vectors**2 / degrees, 10 * len(values) * EPS * values[-1])
        values = (1 - reg_param) * np.where(varying, values, 0) + reg_param
        if not (values > 0).all():
            raise InputError(
                f"Quadratic discriminant analysis needs {len(values)} directions in which the rows of class {label!s} "
                f"vary, and its {n:g} rows vary in {np.count_nonzero(varying)}: take fewer components, or give "
                "reg_param above 0."
            )
        roots.append(vectors / np.sqrt(values))
        log_determinants.append(np.log(values).sum())
    constants = np.log(reduced.counts / reduced.total) - np.asarray(log_determinants) / 2
    return QuadraticRule(reduced.classes, reduced.means, np.stack(roots), constants)


def naive_bayes(reduced: ReducedMoments, var_smoothing: float = 1e-9, ddof: int = 0) -> NaiveBayesRule:
    """Return Gaussian naive Bayes: independent columns within every class, and their shares of the rows as priors.

    The variances of a class are sums of squares over n_c - ddof: 0 as in scikit-learn; 1, unbiased, as in MATLAB's
    ``fitcnb`` and R's ``naiveBayes``, which matters for small classes. The share ``var_smoothing`` of the largest
    variance of a column over all rows is added to each. Raises InputError for a variance of zero in spite of that, and
    for pooled scatters.

    With ``ddof=0`` it equals ``sklearn.naive_bayes.GaussianNB(var_smoothing=var_smoothing)``. Source: Luo & Durrant
    2017, section 5, one of the classifiers there.
    """
    scatters, floors = reduced.of_each_class("naive-bayes")
    scatters = np.diagonal(scatters, axis1=1, axis2=2)
    scatters = np.where(scatters > floors, scatters, 0)
    offsets = reduced.means - reduced.counts @ reduced.means / reduced.total
    largest = float(np.max(scatters.sum(axis=0) + reduced.counts @ offsets**2)) / reduced.total
    degrees = np.where(reduced.counts > ddof, reduced.counts - ddof, reduced.counts)
    variances = scatters / degrees[:, None] + var_smoothing * largest
    if not (variances > 0).all():
        c, column = np.argwhere(~(variances > 0))[0]
        raise InputError(
            f"Gaussian naive Bayes needs rows that vary, and column {column} of the reduced rows is constant in class "
            f"{reduced.classes[c]!s}: give var_smoothing above 0, or leave the column out."
        )
    constants = np.log(reduced.counts / reduced.total) - np.log(variances).sum(axis=1) / 2
    return NaiveBayesRule(reduced.classes, reduced.means, variances, constants)


QDA = Classifier(
    "qda",
    "Gaussian classes with a covariance each (quadratic discriminant analysis); options reg_param and ddof",
    rule=quadratic_discriminant,
    check_options=partial(check_options, "qda", QDA_OPTIONS),
    each_scatter=True,
)

NAIVE_BAYES = Classifier(
    "naive-bayes",
    "Gaussian classes with independent columns; options var_smoothing and ddof",
    rule=naive_bayes,
    check_options=partial(check_options, "naive-bayes", BAYES_OPTIONS),
    each_scatter=True,
)
