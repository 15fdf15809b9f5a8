"""Means over splits, their standard errors, and tests of paired differences.

Splits of the same rows overlap: every row trains in many of them. Their errors are therefore correlated, and the
deviation over splits divided by the root of their number says how the mean varies from one draw of splits to the next,
not how it would vary with new rows. The correction of Nadeau & Bengio (2003) estimates the latter. It is derived for
more rows that train than are held out; with fewer of them it is several times too large, and is bounded here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtr

SIGNIFICANT = 0.05
LEVEL = 0.9
"""The share of tables of which intervals should contain the error."""


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of errors over splits."""

    mean: float
    deviation: float
    """With ``ddof=1``; NaN for a single split."""
    count: int
    overlap: float = 0.0
    """Rows held out for each row that trains, n_test / n_train, as a mean over the splits; 0 for errors that are
    independent of one another."""
    row_variance: float = math.inf
    """Variance of the mean error of one model on as many rows as the table has; infinite where it is unknown."""

    @classmethod
    def of(cls, errors: ArrayLike, overlap: float = 0.0, row_variance: float = math.inf) -> Summary:
        """Summarise one error for each split, shape (m,)."""
        values = np.asarray(errors, dtype=np.float64)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return cls(float(np.mean(values)), deviation, len(values), overlap, row_variance)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over other splits of the same rows: the deviation over the root of the count."""
        return self.deviation / math.sqrt(self.count)

    @property
    def corrected_standard_error(self) -> float:
        """Standard error of the mean over new rows: the root of s^2 / J + min(r s^2, s^2 / r + b^2).

        s is the deviation, J the count, r the overlap and b^2 the row variance. r s^2 is the term of Nadeau & Bengio
        2003, "Inference for the generalization error", Machine Learning 52. It is the smaller one wherever r <= 1. It
        is exact of models that do not depend on the rows that train: then s^2 = b^2 / r. What s^2 is above that, the
        rows that train cause. These are r times fewer than those held out, and their part in the variance over new
        rows is at most s^2 / r. (Both follow from the linear terms of the error in the rows of the table.)
        """
        variance = self.deviation**2
        shared = self.overlap * variance
        if self.overlap > 1:
            shared = min(shared, variance / self.overlap + self.row_variance)
        return math.sqrt(variance / self.count + shared)


def combined_standard_error(first: Summary, second: Summary) -> float:
    """Return the standard error of the difference of two independent means: the root of the sum of their squares.

    Means over two draws of splits of the same rows are independent, given the rows: there is nothing to correct.
    """
    return math.hypot(first.standard_error, second.standard_error)


def standard_errors_apart(first: Summary, second: Summary) -> float:
    """Return the difference of two means, the first less the second, in combined standard errors.

    It is infinite where they differ and neither varies, 0 where they are equal, and NaN where a deviation is unknown.
    """
    difference, error = first.mean - second.mean, combined_standard_error(first, second)
    if error > 0 or math.isnan(error):
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


@dataclass(frozen=True)
class SignTest:
    """How many splits a method wins, and how likely that many would be if every split were a fair coin of its own.

    Overlapping splits are no such coins: of two equal methods, many more than one in twenty differ at the 5% level.
    The test describes these splits; `corrected_t_test` is about new rows.
    """

    wins: int
    """Splits in which it errs less."""
    untied: int
    """Splits in which the errors differ."""
    p_value: float
    """P(Bin(untied, 1/2) >= wins); 1 where all are tied."""


def sign_test(errors: ArrayLike, reference: ArrayLike) -> SignTest:
    """Test whether a method errs less than a reference on the same splits, by the signs of the differences.

    ``errors`` and ``reference``, of shape (m,), are those of both in every split. The test is one-sided: a method may
    only be found to err less. Errors that are shares of different numbers of rows, equal in exact arithmetic, may
    differ as floats: give counts of errors where that can be.

    Source: Luo & Durrant 2017, section 5.
    """
    first, second = np.asarray(errors, np.float64), np.asarray(reference, np.float64)
    wins, untied = int(np.count_nonzero(first < second)), int(np.count_nonzero(first != second))
    # Whole numbers: exact for any number of splits.
    at_least = sum(math.comb(untied, i) for i in range(wins, untied + 1))
    return SignTest(wins, untied, float(Fraction(at_least, 1 << untied)))


@dataclass(frozen=True)
class CorrectedTest:
    """Whether two methods differ, from their differences on the same splits."""

    difference: float
    """Mean over the splits, in percent of the rows held out: the first method's errors less the second's."""
    standard_error: float
    """Standard error of the difference, paired and corrected for the overlap of the splits; NaN of a single split."""
    p_value: float | None
    """Two-sided. 1 where all splits are tied; None of a single split, and where the methods differ by the same number
    of rows in every split: neither tells how much the difference would vary."""
    adjusted: float | None = None
    """The p-value after Holm's correction for all tests that were made along with this one."""
    tests: int = 1
    """How many these are, this one included."""

    @property
    def is_significant(self) -> bool:
        """Whether the adjusted p-value is at most 0.05."""
        return self.adjusted is not None and self.adjusted <= SIGNIFICANT


def corrected_t_test(
    errors: ArrayLike, reference: ArrayLike, held_out: ArrayLike, training: ArrayLike, *, of_counts: bool = True
) -> CorrectedTest:
    """Test whether two methods differ, by the corrected resampled t-test.

    With d_j the difference of the shares of errors in split j of J, t is mean(d) over its corrected standard error
    (`Summary`), on J - 1 degrees of freedom. For unequal splits, n_test / n_train is the mean over the splits. Repeated
    folds are as many splits as there are folds in all. Where fewer rows train than are held out, the row variance is
    the sum of those of both methods, as if they erred independently: methods that err on the same rows vary less.

    ``errors`` and ``reference``, of shape (J,), are the rows that each method gets wrong in every split, ``held_out``
    and ``training`` its rows held out and those that train; without ``of_counts``, errors are shares of unexplained
    variance, times rows, and the bound by the row variance does not apply. The test is two-sided: whichever method has
    the lower mean is looked at, and none of them is named beforehand.

    Source: Nadeau & Bengio 2003, "Inference for the generalization error", Machine Learning 52; the bound is this
    project's (docs/evaluation.md has the simulated levels and powers).
    """
    first, second = np.asarray(errors, np.float64), np.asarray(reference, np.float64)
    both = (row_variance_of(each, held_out, training) for each in (first, second))
    row_variance = sum(both) if of_counts else math.inf
    differences = Summary.of(
        100 * (first - second) / np.asarray(held_out), overlap_of(held_out, training), row_variance
    )
    count, mean, error = differences.count, differences.mean, differences.corrected_standard_error
    if count > 1 and not np.any(first != second):
        return CorrectedTest(0.0, 0.0, 1.0)
    if count == 1 or not np.ptp(first - second):
        return CorrectedTest(mean, error, None)
    return CorrectedTest(mean, error, float(2 * stdtr(count - 1, -abs(mean / error))))


class Interval(NamedTuple):
    """Where the error of a model of all rows is, on new rows, in percent."""

    low: float
    high: float


def nested_interval(
    errors: ArrayLike, inner_errors: ArrayLike, held_out: ArrayLike, training: ArrayLike, effective_rows: ArrayLike
) -> Interval:
    """Return the interval of one error by nested cross-validation, in R deals of K folds.

    The arguments have an entry for each of the R K folds: ``errors`` on its rows; ``inner_errors`` on all others, each
    by a model that trains without the fold and without that of the row; ``held_out`` and ``training`` rows; and
    ``effective_rows`` held out, m = (sum w)^2 / sum w^2 of their weights (Kish). With e and f the shares of both, the
    squared error is the mean of (f - e)^2 less that of e (1 - e) / (m - 1). Its root, times sqrt((K - 1) / K) for
    all rows, is kept between the binomial standard error and sqrt(K) times it. The middle is the mean over inner folds,
    less 1 + (K - 2) / K times what this is above the mean over folds.

    Source: Bates, Hastie & Tibshirani 2023, "Cross-validation: what does it estimate and how well does it do it?",
    Journal of the American Statistical Association, algorithm 1 and section 4.
    """
    wrong, inner, rows, others, effective = (
        np.asarray(each, np.float64) for each in (errors, inner_errors, held_out, training, effective_rows)
    )
    n_rows = rows[0] + others[0]
    n_deals = round(rows.sum() / n_rows)
    K, outside, inside = len(rows) / n_deals, wrong / rows, inner / others
    mean, inner_mean = wrong.sum() / rows.sum(), inner.sum() / others.sum()
    of_rows = outside * (1 - outside) / np.maximum(effective - 1, 1)  # one weight may outweigh all others
    squared = max(float(np.mean((inside - outside) ** 2 - of_rows)), 0.0)
    all_effective = n_rows**2 * n_deals / np.sum(rows**2 / effective)
    naive = math.sqrt(mean * (1 - mean) / max(all_effective - 1, 1.0))
    error = min(max(math.sqrt((K - 1) / K * squared), naive), math.sqrt(K) * naive)
    middle, reach = inner_mean - (1 + (K - 2) / K) * (inner_mean - mean), float(ndtri((1 + LEVEL) / 2)) * error
    return Interval(100 * max(float(middle - reach), 0.0), 100 * min(float(middle + reach), 1.0))


def overlap_of(held_out: ArrayLike, training: ArrayLike) -> float:
    """Return n_test / n_train as a mean over splits, of the rows held out and those that train, shape (J,)."""
    return float(np.mean(np.asarray(held_out) / np.asarray(training)))


def row_variance_of(errors: ArrayLike, held_out: ArrayLike, training: ArrayLike) -> float:
    """Return the binomial variance of the mean error, in percent squared, of one model on all rows of a table.

    ``errors``, ``held_out`` and ``training``, of shape (J,), are counts of rows in every split.
    """
    rows = np.asarray(held_out)
    share = float(np.mean(np.asarray(errors) / rows))
    return 100**2 * share * (1 - share) / float(np.mean(rows + np.asarray(training)))
