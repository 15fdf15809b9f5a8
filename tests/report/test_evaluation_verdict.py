"""The verdict of an evaluation: what its sentences claim, and what they do not."""

import dataclasses

import pytest
from helpers.evaluations import evaluation

from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.results.error_tables import standings
from mmpca_dist.results.evaluation_result import evaluation_result
from mmpca_dist.results.verdict import words


def test_the_verdict_names_the_best_cell_and_how_sure_it_is():
    first, second, tested, third, last = words(evaluation())
    assert first.startswith(
        "The lowest mean error, 30.8%, is that of M-PCA2 with 8 components under linear SVM, C = 0.1"
    )
    assert "6 splits" in first
    assert "The reference at its best is PCA with 8 components under linear SVM" in second
    assert "39.0%, 8.2 percentage points more, 4.4 corrected standard errors of the difference." in second
    assert tested == (
        "The difference is not significant at the 5% level: p = 0.007 by the corrected resampled t-test (two-sided), "
        "p = 0.13 after Holm's correction for 18 tests (this one and those against PCA). Of these 6 splits, M-PCA2 "
        "errs less in 6, more in 0 and as often in 0 (sign test of these splits: p = 0.016)."
    )
    assert third.startswith("Baseline (always the largest class): ")
    assert "lowest of 27 means" in last


@pytest.mark.parametrize(("wrong", "said"), [
    (lambda *_: 40, "30.0% error, and no mean is lower: nothing is learned."),
    (lambda m, *_: 40 if m == 0 else 10, "30.0% error; 9 of 27 means are no lower."),
    (lambda *_: 10, "30.0% error."),
])  # fmt: skip
def test_the_verdict_beside_naming_the_largest_class(wrong, said):
    made = evaluation(errors=wrong, baselines=[29.0, 31.0])
    assert f"Baseline (always the largest class): {said}" in words(made)[-2] + " "


def test_all_columns_are_named_by_how_many_columns_there_are():
    made = evaluation(methods=("pca", "all-columns"), errors=lambda m, *_: 20 - m, unreduced=frozenset({"all-columns"}))
    lines = [{**line, "used": 1024} if line["method"] == "all-columns" else line for line in made.table.lines]
    made = dataclasses.replace(made, table=ErrorTable(lines))
    assert "is that of All columns (1,024) under linear SVM" in words(made)[0]
    (row,) = [row for row in standings(made).records() if row["method"] == "All columns"]
    assert row["with"] == "1,024 columns, linear SVM, C = 0.1"


def test_where_folds_are_dealt_once_the_verdict_advises_to_repeat_them():
    repeat, equal = "set evaluation.count to 4", {"errors": lambda m, _size, _c, split: 20 + (3 * split + m) % 7}
    for dealt, said in ((1, True), (4, False), (0, False)):
        assert (repeat in " ".join(words(evaluation(folds_dealt=dealt, **equal)))) is said
    far = evaluation(folds_dealt=1, errors=lambda m, _size, _c, split: 20 + split % 2 - m * (10 + split % 3))
    assert repeat not in " ".join(words(far)), "it is significant"


def test_the_verdict_of_few_rows_says_how_often_equal_methods_differ():
    made = evaluation()
    warning = "With fewer than 40 rows, tests at the 5% level reject too often"
    assert warning not in " ".join(words(made))
    few = dataclasses.replace(made, dataset={**made.dataset, "n_rows": 39})
    assert warning in " ".join(words(few))
    most_held_out = [{**line, "training": 8} for line in few.table.lines]
    assert warning not in " ".join(words(dataclasses.replace(few, table=ErrorTable(most_held_out))))


def test_models_that_repeat_are_counted_once():
    """A method that gives one component for each number asked for has one mean, not several that tie."""
    made = evaluation(methods=("pca", "fisher"), classifiers={"svm": "SVM"}, most={"fisher": 1}, errors=lambda *_: 9)
    sizes = {cell.n_components for cell in made.cells.values()}
    assert len(made.cells) == 2 * len(sizes) > len(sizes) + 1
    said = " ".join(words(made))
    assert f"the lowest of {len(sizes) + 1} means" in said
    assert f"Cells with the same mean: {len(sizes)} more." in said


def test_the_verdict_where_the_reference_is_best():
    said = " ".join(words(evaluation(reference="m-pca2")))
    assert "No method has a lower mean than the reference, M-PCA2; the nearest is M-PCA0 with 8 components" in said


@pytest.mark.parametrize(("fewer", "said"), [
    (1, ": 43.0%, less than 0.1 percentage points more, 0.3 corrected standard errors of the difference."),
    (8, ": 43.0%, 0.3 percentage points more, 0.9 corrected standard errors of the difference."),
    (20, ": 43.0%, 0.7 percentage points more, 1.9 corrected standard errors of the difference."),
    (0, ": 43.0%, the same."),
])  # fmt: skip
def test_a_small_difference_is_not_called_none(fewer, said):
    made = evaluation(
        methods=("pca", "m-pca2"), splits=40, errors=lambda m, _size, _c, split: 11 + split - (m == 1) * (split < fewer)
    )
    assert said in words(made)[1]


def test_a_tenth_is_a_tenth():
    """As the difference of two means it is a little less, or more."""
    for base in range(10, 15):
        made = evaluation(
            methods=("pca", "m-pca2"), splits=100,
            errors=lambda m, _size, _c, split, base=base: base + split % 7 - (m == 1) * (split < 7),
        )  # fmt: skip
        assert ", 0.1 percentage points more," in words(made)[1]


def test_the_page_says_what_is_tested_and_how_often():
    result = evaluation_result(evaluation(splits=12))
    part = result.parts["errors"]
    assert "for 18 tests against it" in part.words[0] and "It is of these splits only" in part.words[0]
    description, rows = result.tables["errors-1"]
    assert "Holm's correction for 18 tests" in description
    assert all("p = " in row["K = 2"] and "sign " in row["K = 2"] for row in rows[1:])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"errors": lambda *_: 9},
            ["Cells with the same mean: 26 more.", "The difference is not significant at the 5% level: p = 1.00 by",
             "as often in 6 (sign test of these splits: p = 1.00)"],
        ),
        ({"splits": 1}, ["one split, so that no deviation is known", "One split has no standard error"]),
        ({"errors": lambda m, *_: 20 - m}, ["differ by the same number of rows in every split, so that no deviation"]),
    ],
)  # fmt: skip
def test_the_verdict_of_what_splits_do_not_tell_claims_nothing(changes, said):
    verdict = " ".join(words(evaluation(**changes)))
    assert all(sentence in verdict for sentence in said)
    assert "is significant" not in verdict and "nan" not in verdict
    assert ("significant" in verdict) == any("significant" in sentence for sentence in said)
