"""The sign test of the paper, and means over splits in standard errors."""

from __future__ import annotations

import math

import naive_judging
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.comparing import (
    SignTest,
    Summary,
    combined_standard_error,
    sign_test,
    standard_errors_apart,
)


@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_the_sign_test_counts_all_outcomes(pairs):
    errors, reference = ([pair[i] / 7 for pair in pairs] for i in (0, 1))
    assert sign_test(errors, reference).p_value == naive_judging.sign_test(errors, reference)


@pytest.mark.parametrize("untied", [1, 2, 49, 50, 400, 3000])
def test_the_sign_test_is_scipys(untied):
    for wins in sorted({0, 1, untied // 3, untied // 2, untied - 1, untied}):
        errors = np.r_[np.zeros(wins), np.full(untied - wins, 2.0), np.full(5, 1.0)]
        found = sign_test(errors, np.ones(untied + 5))
        assert (found.wins, found.untied) == (wins, untied)
        expected = binomtest(wins, untied, alternative="greater").pvalue
        assert found.p_value == pytest.approx(expected, rel=1e-9)


def test_nothing_is_learnt_from_ties():
    assert sign_test([3, 4], [3, 4]) == SignTest(0, 0, 1.0)


def test_means_and_deviations_are_those_of_a_sample():
    found = Summary.of([20.0, 22.0, 27.0])
    assert found == Summary(23.0, pytest.approx(math.sqrt(13)), 3)
    assert found.standard_error == pytest.approx(math.sqrt(13 / 3))
    one = Summary.of([5.0])
    assert one.mean == 5
    assert math.isnan(one.deviation)


def test_differences_in_combined_standard_errors():
    own, published = Summary(26.5, 3.0, 50), Summary(25.8, 4.0, 50)
    assert combined_standard_error(own, published) == pytest.approx(math.sqrt(9 / 50 + 16 / 50))
    assert standard_errors_apart(own, published) == pytest.approx(0.7 / math.sqrt(0.5))
    assert standard_errors_apart(published, own) == pytest.approx(-0.7 / math.sqrt(0.5))
    constant, other = Summary(0.0, 0.0, 50), Summary(1.0, 0.0, 50)
    assert standard_errors_apart(constant, constant) == 0
    assert standard_errors_apart(constant, other) == -math.inf
    assert math.isnan(standard_errors_apart(Summary.of([5.0]), own))


@pytest.mark.parametrize(
    ("errors", "reference", "message"),
    [
        ([1, 2], [1, 2, 3], "errors of 2 splits cannot be compared with those of 3"),
        ([1, math.nan], [1, 2], "error in split 1 is nan"),
        ([], [], r"shape \(0,\)"),
        ([[1, 2]], [[1, 2]], r"shape \(1, 2\)"),
    ],
)
def test_what_is_refused(errors, reference, message):
    with pytest.raises(InputError, match=message):
        sign_test(errors, reference)
