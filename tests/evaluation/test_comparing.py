"""The sign test of the paper, the corrected t-test, means over splits; which method an evaluation finds best."""

import math

import naive_judging
import numpy as np
import pytest
from helpers.evaluations import CLASSIFIERS, evaluation
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_rel
from scipy.stats import t as student

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.comparisons import (
    CorrectedTest,
    SignTest,
    Summary,
    combined_standard_error,
    corrected_t_test,
    sign_test,
    standard_errors_apart,
)
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.results.evaluation import verdict
from mmpca_dist.statistics.drift import holm


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


def test_standard_errors_are_corrected_for_overlap():
    """Five folds: each row trains in four of them."""
    found = Summary.of([20.0, 22.0, 27.0, 21.0, 25.0], 0.25)
    assert found.corrected_standard_error == pytest.approx(found.deviation * math.sqrt(0.45))
    independent = Summary.of([20.0, 22.0])
    assert independent.corrected_standard_error == pytest.approx(independent.standard_error)


def test_where_few_rows_train_the_variance_is_at_most_that_of_both_causes():
    """Twelve rows are held out for each that trains; one model errs on all rows with a standard error of 3."""
    found = Summary.of([20.0, 22.0, 27.0, 21.0, 25.0], 12.0, 9.0)
    assert found.corrected_standard_error == pytest.approx(math.sqrt(found.deviation**2 * (1 / 5 + 1 / 12) + 9))
    stable = Summary.of([20.0, 20.1, 20.2], 12.0, 9.0)  # held-out rows alone would make it 20.15 +- 0.9
    assert stable.corrected_standard_error == pytest.approx(stable.deviation * math.sqrt(1 / 3 + 12))


@st.composite
def splits_of_two_methods(draw):
    count = draw(st.integers(2, 12))
    held_out = [draw(st.integers(4, 30)) for _ in range(count)]
    errors = [[draw(st.integers(0, n)) for n in held_out] for _ in range(2)]
    return (*errors, held_out, [draw(st.integers(2, 90)) for _ in range(count)])


@given(splits_of_two_methods())
def test_the_corrected_t_test_is_that_of_exact_arithmetic(found):
    errors, reference, *sizes = found
    result = corrected_t_test(*found)
    differences = {a - b for a, b in zip(errors, reference, strict=True)}
    if differences == {0}:
        assert result == CorrectedTest(0.0, 0.0, 1.0)
    elif len(differences) == 1:
        assert result.p_value is None
    elif len({(a - b) / n for a, b, n in zip(errors, reference, sizes[0], strict=True)}) > 1:
        mean, error, p_value = naive_judging.corrected_t_test(*found)
        assert (result.difference, result.standard_error) == (pytest.approx(mean), pytest.approx(error))
        assert result.p_value == pytest.approx(p_value, rel=1e-6, abs=1e-12)
        swapped = corrected_t_test(reference, errors, *sizes)
        assert (swapped.difference, swapped.p_value) == (-result.difference, pytest.approx(result.p_value))


def test_without_overlap_it_is_the_paired_t_test():
    """As the rows that train become many beside those held out."""
    rng = np.random.default_rng(1)
    own, other = rng.integers(5, 30, size=(2, 14))
    found = corrected_t_test(own, other, np.full(14, 50), np.full(14, 10**12))
    assert found.p_value == pytest.approx(ttest_rel(own, other).pvalue)


def test_repeated_folds_are_as_many_splits_as_there_are_folds_in_all():
    """Ten times five folds: J is 50, rows held out for each that trains 1 / 4."""
    rng = np.random.default_rng(2)
    own, other = rng.integers(0, 12, size=(2, 50))
    found = corrected_t_test(own, other, np.full(50, 20), np.full(50, 80))
    spread = np.std((own - other) / 20, ddof=1) * 100
    assert found.standard_error == pytest.approx(spread * math.sqrt(1 / 50 + 1 / 4))
    assert found.p_value == pytest.approx(2 * student.sf(abs(found.difference) / found.standard_error, 49))


def test_what_splits_cannot_tell_is_not_told():
    one = corrected_t_test([3], [5], [20], [80])
    assert (one.difference, one.p_value) == (-10.0, None) and math.isnan(one.standard_error)
    assert not one.is_significant
    same = corrected_t_test([3, 4, 5], [4, 5, 6], [20, 20, 21], [80, 80, 79])  # one row fewer in every split
    assert same.p_value is None and not same.is_significant
    assert corrected_t_test([3, 4], [3, 4], [20, 20], [80, 80]).p_value == 1
    assert corrected_t_test([3], [3], [20], [80]).p_value is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_closed_testing(p_values):
    assert holm(p_values) == pytest.approx(naive_judging.holm(p_values))


def test_holm_of_no_tests():
    assert holm([]) == []


def test_differences_in_combined_standard_errors():
    own, published = Summary(26.5, 3.0, 50), Summary(25.8, 4.0, 50)
    assert combined_standard_error(own, published) == pytest.approx(math.sqrt(9 / 50 + 16 / 50))
    assert standard_errors_apart(own, published) == pytest.approx(0.7 / math.sqrt(0.5))
    assert standard_errors_apart(published, own) == pytest.approx(-0.7 / math.sqrt(0.5))
    constant, other = Summary(0.0, 0.0, 50), Summary(1.0, 0.0, 50)
    assert standard_errors_apart(constant, constant) == 0
    assert standard_errors_apart(constant, other) == -math.inf
    assert math.isnan(standard_errors_apart(Summary.of([5.0]), own))


def test_the_best_cell_is_tested_against_the_best_of_the_reference():
    found = verdict(evaluation())
    assert found.best.key == ("m-pca2", 8, "svm")
    assert found.rival.key == ("pca", 8, "svm")
    assert found.test == SignTest(6, 6, 1 / 64)
    assert found.tied == [] and verdict(evaluation(methods=("pca",))).rival is None
    assert (
        found.t_test == found.best.t_test and found.t_test.tests == 18
    )  # two methods, three numbers, three classifiers


def test_a_test_of_the_best_cell_that_is_none_of_the_table_is_corrected_with_them():
    """The reference is best with two components, the other method with eight."""
    made = evaluation(
        methods=("pca", "m-pca0"),
        errors=lambda m, size, c, split: 20 + split * (m + 1) % 5 + size * (1 - 2 * m) + 3 * c,
    )
    found = verdict(made)
    others = [cell.t_test.p_value for cell in made.cells.values() if cell.t_test]
    assert (found.best.key[1], found.rival.key[1], found.t_test.tests) == (8, 2, len(others) + 1)
    assert found.t_test.adjusted == holm([*others, found.t_test.p_value])[-1]


def test_a_test_of_the_table_by_another_number_of_components_is_counted_once():
    """All columns are the same models for every number; the reference is best with eight, the others' table has it."""
    made = evaluation(
        methods=("pca", "fisher"), classifiers={"svm": "SVM"}, most={"fisher": 1},
        errors=lambda m, size, c, split: 20 + split * (m + 1) % 5 - size - 9 * m,
    )  # fmt: skip
    found = verdict(made)
    assert (found.best.key[1], found.rival.key[1]) == (2, 8)  # fisher has one component for either number
    assert found.t_test.tests == made.n_tests == 3
    assert found.t_test.adjusted == made.cells["fisher", 8, "svm"].t_test.adjusted


def test_components_count_as_given_and_not_as_asked_for():
    found = verdict(evaluation(methods=("pca", "fisher"), sizes=(4, 8), most={"fisher": 1}, errors=lambda *_: 9))
    assert found.best.method == "fisher"
    assert len(found.tied) == (2 + 1) * 3 - 1  # one component of fisher counts once, however many were asked for


def test_cells_that_differ_in_one_split_alone_are_no_repeats():
    """A small part trains two models alike, of as many components as it has; a large one tells them apart."""

    def entry(size, used, errors):
        return {"method": "pca", "n_components": size, "used": used, "classifier": "lda", "errors": errors}

    table = ErrorTable.of(
        [
            {"split": 0, "rows": 20, "errors": [entry(20, 20, 4), entry(30, 30, 7)]},
            {"split": 1, "rows": 90, "errors": [entry(20, 15, 9), entry(30, 15, 9)]},
        ],
        110,
    )
    made = evaluation(methods=("pca",), table=table)
    assert [cell.used for cell in made.distinct] == [15, 15]
    assert [cell.used_by_split for cell in made.distinct] == [(20, 15), (30, 15)]


def test_published_figures_stand_beside_those_that_were_found():
    labels = {**CLASSIFIERS, "naive-bayes": "naive Bayes"}
    found = evaluation(methods=("pca", "m-pca1a"), sizes=(5, 7), classifiers=labels, published="ionosphere").compared
    keys = [("pca", 5, c) for c in ("svm", "logistic", "fisher")]  # naive Bayes is lost
    assert [row.own.key for row in found] == keys + [("m-pca1a", 5, c) for c in labels]
    assert evaluation().compared == []
    with pytest.raises(InputError, match="no published figures for 'digits'"):
        _ = evaluation(published="digits").compared
