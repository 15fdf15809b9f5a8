"""Whether one method errs less than another: means over splits, how many standard errors apart, the sign test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmpca_dist.errors import InputError


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of errors over splits.

    Attributes
    ----------
    mean : float
    deviation : float
        With ``ddof=1``; NaN for a single split.
    count : int
        Splits.
    """

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, errors: ArrayLike) -> Summary:
        """Summarise one error for each split, shape (m,).

        Raises
        ------
        InputError
            For no errors, or some that are not finite.
        """
        values = _errors(errors)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return cls(float(np.mean(values)), deviation, len(values))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean: the deviation divided by the root of the count."""
        return self.deviation / math.sqrt(self.count)


def combined_standard_error(one: Summary, other: Summary) -> float:
    """Return the standard error of the difference of two independent means: the root of the sum of their squares."""
    return math.hypot(one.standard_error, other.standard_error)


def standard_errors_apart(one: Summary, other: Summary) -> float:
    """Return the difference of two means, the first less the second, in combined standard errors.

    It is infinite where they differ and neither varies, 0 where they are equal, and NaN where a deviation is unknown.
    """
    difference, error = one.mean - other.mean, combined_standard_error(one, other)
    if error > 0 or math.isnan(error):
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


@dataclass(frozen=True)
class SignTest:
    """How many splits a method wins, and how likely that many are if neither is better.

    Attributes
    ----------
    wins : int
        Splits in which it errs less.
    untied : int
        Splits in which the errors differ.
    p_value : float
        P(Bin(untied, 1/2) >= wins); 1 where all are tied.
    """

    wins: int
    untied: int
    p_value: float


def sign_test(errors: ArrayLike, reference: ArrayLike) -> SignTest:
    """Test whether a method errs less than a reference on the same splits, by the signs of the differences.

    Parameters
    ----------
    errors, reference : array-like of shape (m,)
        Errors of both in every split, in the same order.

    Raises
    ------
    InputError
        Where the splits are not as many, or an error is not finite.

    Notes
    -----
    Source: Luo & Durrant 2017, section 5. Errors that are shares of different numbers of rows, equal in exact
    arithmetic, may differ as floats: give counts of errors where that can be.

    Examples
    --------
    >>> from mmpca_dist.evaluation.comparing import sign_test
    >>> sign_test([10, 12, 9, 11], [12, 13, 9, 14])
    SignTest(wins=3, untied=3, p_value=0.125)
    """
    own, other = _errors(errors), _errors(reference)
    if own.shape != other.shape:
        raise InputError(f"The errors of {len(own)} splits cannot be compared with those of {len(other)}.")
    wins, untied = int(np.count_nonzero(own < other)), int(np.count_nonzero(own != other))
    # Whole numbers: exact for any number of splits.
    at_least = sum(math.comb(untied, i) for i in range(wins, untied + 1))
    return SignTest(wins, untied, float(Fraction(at_least, 1 << untied)))


def _errors(errors: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(errors, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"Errors have shape {values.shape}; there must be one for each split, (m,).")
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise InputError(f"The error in split {at} is {values[at]}; errors must be finite.")
    return values
