"""What came out of an evaluation: its tables, and what the sentences of its verdict claim, and do not."""

import dataclasses
import math

import numpy as np
import pytest
from helpers.evaluations import CLASSIFIERS, FOUR, METHODS, SIZES, config_of, evaluation, flat_margins, margin

from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.results.answer import words
from mmpca_dist.results.error_tables import SignedMargins, error_tables, margin_tables, signed_margins, standings
from mmpca_dist.results.evaluation_result import evaluation_result, published_words
from mmpca_dist.results.forms import written


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
    (lambda m, *_: 30 if m == 0 else 10, "30.0000% error; 9 of 27 means are no lower."),
    (lambda *_: 10, "30.0% error."),
])  # fmt: skip
def test_the_verdict_beside_naming_the_largest_class(wrong, said):
    made = evaluation(errors=wrong, baselines=[29.0, 31.0])
    assert f"Baseline (always the largest class): {said}" in words(made)[-2] + " "


def test_all_columns_are_named_by_how_many_columns_there_are():
    made = evaluation(methods=("pca", "all-columns"), errors=lambda m, *_: 20 - m)
    lines = [{**line, "used": 1024} if line["method"] == "all-columns" else line for line in made.table.lines]
    made = dataclasses.replace(made, table=ErrorTable(lines))
    assert "is that of All columns (1,024) under linear SVM" in words(made)[0]
    (row,) = [row for row in standings(made).records() if row["method"] == "All columns"]
    assert row["with"] == "1,024 columns, linear SVM, C = 0.1"


def test_where_folds_are_dealt_once_the_verdict_advises_to_repeat_them():
    repeat, equal = "set evaluation.count to 4", {"errors": lambda m, _size, _c, split: 20 + (3 * split + m) % 7}
    once = config_of(METHODS, SIZES, splits="folds", count=1)
    others = config_of(METHODS, SIZES, splits="folds", count=4), config_of(METHODS, SIZES, splits="shares", count=1)
    for config, said in ((once, True), *((other, False) for other in others)):
        assert (repeat in " ".join(words(evaluation(config=config, **equal)))) is said
    far = evaluation(config=once, errors=lambda m, _size, _c, split: 20 + split % 2 - m * (10 + split % 3))
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


def test_standings_count_cells_that_differ_significantly():
    made = evaluation(splits=12)
    rows = {row[0]: row for row in standings(made).rows}
    assert rows["PCA"][2] == "8 components, linear SVM, C = 0.1"
    # By the sign test, which takes splits for independent, M-PCA0 is below PCA too.
    expected = {"PCA": ["-"] * 2, "M-PCA0": ["0 of 9", "0 of 9"], "M-PCA2": ["9 of 9", "0 of 9"]}
    assert {name: row[3:] for name, row in rows.items()} == expected
    worse = evaluation(methods=("pca", "fisher"), errors=lambda m, size, c, split: 10 + (9 + split % 2) * m)
    assert standings(worse).rows[1][3:] == ["0 of 9", "9 of 9"]


def test_few_columns_share_a_table_and_many_have_one_for_each_classifier():
    (shared,) = error_tables(evaluation(sizes=(2, 4)))
    assert [(c.heading, c.small) for c in shared.columns[1:]] == [(c, f"K = {k}") for k in (2, 4) for c in CLASSIFIERS]
    several = error_tables(evaluation())
    assert [table.title for table in several] == list(CLASSIFIERS.values())
    assert [column.heading for column in several[0].columns[1:]] == ["K = 2", "K = 4", "K = 8"]


def test_the_lowest_mean_of_a_column_is_marked_and_every_tie_with_it():
    (table, *_) = error_tables(evaluation())
    marked = [[cell.best for cell in cells] for _, *cells in table.rows]
    assert marked == [[False] * 3, [False] * 3, [True] * 3]
    (table, *_) = error_tables(evaluation(errors=lambda *_: 9))
    assert all(cell.best and not cell.bold for _, *cells in table.rows for cell in cells)
    assert [cell.small[0] for cell in table.rows[1][1:]] == ["p = 1.00"] * 3


def test_cells_tell_what_is_less_than_asked_for():
    (table, *_) = error_tables(evaluation(most={"m-pca2": 4}))
    assert ["with 4" in cell.small for cell in table.rows[2][1:]] == [False, False, True]
    (table, *_) = error_tables(evaluation(splits=1))
    assert "(" not in table.rows[0][1].text


def test_decimals_grow_where_standard_errors_are_small():
    found = evaluation()
    more = [{**line, "rows": line["rows"] * 1000} for line in found.table.lines]
    wide = dataclasses.replace(found, table=ErrorTable(more))
    for made, places in ((found, 1), (wide, 3)):
        text = error_tables(made)[0].rows[0][1].text
        assert [len(number.partition(".")[2]) for number in text.strip(")").split(" (")] == [places] * 2


def test_probabilities_are_short_and_never_zero():
    values = (1.0, 0.1, 0.0483, 0.001, 2.3e-5, 1e-15, 2e-16, 1e-16, 0.0)
    texts = "= 1.00", "= 0.10", "= 0.048", "= 0.001", "= 2e-5", "= 1e-15", "= 2e-16", "< 1e-16", "< 1e-16"
    assert [written("p", value) for value in values] == [f"p {text}" for text in texts]


def test_histograms_of_splits_are_pooled_on_common_bars():
    """Against the rows themselves, spread evenly over the bars of each split: shares agree exactly."""
    one, two = ({**margin("pca", 2, "svm", split, 0), "split": split} for split in (0, 1))
    found = SignedMargins.of([one, two])
    edges = np.linspace(-1, 5, 13)
    expected = np.zeros(12)
    for record in (one, two):
        own = np.linspace(*record["edges"], 21)
        for count, low, high in zip(record["histogram"], own[:-1], own[1:], strict=True):
            overlap = np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0, None)
            expected += count * overlap / (high - low) / 400
    np.testing.assert_allclose(found.shares(edges), expected, atol=1e-12)
    assert found.shares(edges).sum() == pytest.approx(1)
    assert found.minimum == pytest.approx(-0.55)
    assert found.reach() == (
        min(one["quantiles"][0], two["quantiles"][0]),
        max(one["quantiles"][-1], two["quantiles"][-1]),
    )


def test_margins_without_width_keep_all_their_rows():
    found = signed_margins(evaluation(margins=flat_margins()))["pca", 2, "svm"]
    assert found.shares(np.linspace(0, 2, 5)).sum() == pytest.approx(1)


def test_the_table_of_margins_has_means_over_splits():
    rows = margin_tables(evaluation(splits=3))[0].rows
    assert [row[0].words for row in rows][:2] == ["all columns 40 columns", "PCA pca"]
    assert [cell.text for cell in rows[1][1:]] == ["-0.6"] * 3  # mean of -0.5, -0.6, -0.7
    assert [cell.small for cell in rows[2][1:]] == [["0.3"]] * 3


def test_published_figures_are_counted_in_words():
    made = evaluation(sizes=(5, 11), classifiers=FOUR, published="ionosphere")
    missed = [row for row in made.compared if row.within is False]
    assert f"{len(missed)} of all {len(made.compared)} cells miss by more" in published_words(made)
    part = evaluation_result(made).parts["published"]
    reasons = [row.reason for row in missed if row.reason]
    assert reasons and set(reasons) <= {line[-1] for line in part.tables[0].rows}
    alone = evaluation(sizes=(5,), classifiers=FOUR, published="ionosphere", splits=1)
    assert "One split has no standard error" in published_words(alone)
    assert "None of the published cells" in published_words(evaluation(sizes=(3,), published="ionosphere"))


@pytest.mark.e2e
def test_tables_for_artifacts_are_rows_of_text():
    def listed(*given, **changes):
        return evaluation_result(evaluation(*given, **changes)).tables

    tables = listed(("pca", "m-pca0"), (5, 11), FOUR, published="ionosphere")
    assert list(tables) == ["cells", "standings", "errors-1", "margins-1", "published", "costs"]
    for description, rows in tables.values():
        assert description
        assert rows
        assert len({tuple(row) for row in rows}) == 1
        assert all(isinstance(value, str) for row in rows for value in row.values())
    (pca, first) = tables["errors-1"][1]
    assert "svm K = 5" in pca
    assert "p = " in first["svm K = 5"] and "*" in first["svm K = 5"]
    assert "published" not in listed()
    assert not math.isnan(float(listed(splits=1)["errors-1"][1][0]["K = 2"].rstrip("*")))
