"""Which method an evaluation finds best, and how the others stand."""

from __future__ import annotations

import pytest
from helpers.evaluations import CLASSIFIERS, evaluation

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.comparisons import SignTest, holm
from mmpca_dist.evaluation.results import verdict
from mmpca_dist.evaluation.tables import ErrorTable


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
