"""The report of an evaluation: it renders whatever splits can leave, safely, and says what the numbers say."""

import dataclasses
import io
import math
from collections.abc import Callable

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from helpers.evaluations import CLASSIFIERS, evaluation, margin
from helpers.reports import NASTY, beyond, check_page, check_picture

from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.report.error_curves import drawn_sizes
from mmpca_dist.report.evaluation_page import parts, render_evaluation, write_evaluation_report
from mmpca_dist.report.pages import figures_of
from mmpca_dist.report.signed_margins import margin_pictures
from mmpca_dist.results.error_tables import error_tables, standings
from mmpca_dist.results.evaluation_result import evaluation_result, published_words
from mmpca_dist.results.forms import written
from mmpca_dist.results.margins import SignedMargins, margin_tables, signed_margins
from mmpca_dist.stores import storage

MANY = ("pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2", "fisher", "lol", "pls", "lasso", "random-projection")
FOUR = {**CLASSIFIERS, "naive-bayes": "naive Bayes"}
TWO = {"svm": "linear SVM", "fisher": "Fisher"}


def with_nasty_names():
    made = evaluation(methods=("pca", NASTY), classifiers={"$x^2": NASTY, NASTY: "$x^2"}, notes=[NASTY])
    made.dataset.update(uri="file:///x/<b>'\"y", classes=[NASTY, "a & b"])
    return dataclasses.replace(
        made, splits=NASTY, seconds={NASTY: 1.0},
        config_yaml=yaml.safe_dump({"methods": ["pca", {"name": "lol", "label": NASTY}]}), versions={NASTY: NASTY},
        margin_rows=NASTY, stages={NASTY: 1.0},
    )  # fmt: skip


def flat_margins():
    """All rows at one distance, in either of two splits: bars without width."""
    one = {**margin("pca", 2, "svm", 0, 0), "edges": [1.0, 1.0], "quantiles": [1.0] * 7, "minimum": 1.0}
    return [{**one, "split": split, "method": method} for split in (0, 1) for method in ("", "pca", "m-pca0")]


TRICKY: dict[str, Callable[[], Evaluation]] = {
    "nothing special": evaluation,
    "one split": lambda: evaluation(splits=1),
    "one method": lambda: evaluation(methods=("pca",)),
    "one method, which is the reference": lambda: evaluation(methods=("lol",), reference="lol"),
    "one number of components": lambda: evaluation(sizes=(4,), most={"m-pca0": 1}),
    "one of everything": lambda: evaluation(methods=("pca",), sizes=(1,), classifiers={"svm": "SVM"}, splits=1),
    "ties everywhere": lambda: evaluation(errors=lambda *_: 9),
    "no errors": lambda: evaluation(errors=lambda *_: 0),
    "fewer components than asked for": lambda: evaluation(most={"m-pca0": 2}),
    "ten classes": lambda: evaluation(classes=10),
    "many methods and sizes": lambda: evaluation(MANY, tuple(2**i for i in range(10)), FOUR, 3, most={"fisher": 1}),
    "thirteen methods": lambda: evaluation((*MANY, "hsic", "ridge", "fisher-score"), classifiers={"svm": "SVM"}),
    "two classifiers": lambda: evaluation(classifiers=TWO),
    "no margins": lambda: evaluation(margins=[]),
    "margins in units of their own": lambda: evaluation(methods=("fisher", "pls"), reference="fisher"),
    "margins at one distance": lambda: evaluation(margins=flat_margins()),
    "no times": lambda: evaluation(seconds={}, bytes_read={}),
    "costs of what serves all": lambda: evaluation(bytes_read={"all methods": 10**9}),
    "published figures": lambda: evaluation(
        ("pca", "m-pca2", "pls", "fisher"), (5, 11), FOUR, published="ionosphere", most={"fisher": 1}
    ),
    "published figures, one split": lambda: evaluation(sizes=(5,), classifiers=FOUR, published="ionosphere", splits=1),
    "published figures, none evaluated": lambda: evaluation(sizes=(3,), published="ionosphere"),
    "names as code": with_nasty_names,
}


EVERYDAY = ("one of everything", "published figures", "names as code")


@pytest.mark.parametrize("make", beyond(EVERYDAY, TRICKY))
def test_renders_whatever_splits_leave(make):
    made = make()
    shown = parts(made)
    drawn = figures_of(shown)
    assert len({figure.name for figure in drawn}) == len(drawn) >= 1
    for figure in drawn:
        check_picture(figure)
    page = check_page(render_evaluation(made, shown))
    assert len(page.sources) == len(drawn)
    assert "Verdict" in page.text and made.splits[1:] in page.text


def test_text_from_data_is_escaped_everywhere():
    made = with_nasty_names()
    html = render_evaluation(made, parts(made))
    assert NASTY not in html
    assert "<b>'" not in html
    assert check_page(html).text.count(NASTY) >= 20


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


def test_pictures_of_splits_take_two_sizes_or_the_references_best():
    assert drawn_sizes(evaluation(sizes=(2, 4)), "svm") == [2, 4]
    assert drawn_sizes(evaluation(), "svm") == [8]
    worse = evaluation(errors=lambda m, size, c, split: 20 + (size != 4))
    assert drawn_sizes(worse, "svm") == [4]


def test_pictures_say_which_methods_they_leave_out():
    made = evaluation(margins=[one for one in evaluation().margins if one["method"] != "m-pca0"])
    caption = margin_pictures(made)[0].caption
    assert "Not shown, because their classifiers have no hyperplane: M-PCA0." in caption


@pytest.mark.e2e
def test_pictures_of_margins_say_in_which_columns_they_are():
    for standardized, told in ((False, "original columns. "), (True, "original columns, standardised. ")):
        drawn = margin_pictures(evaluation(standardized=standardized))
        assert all(f"Grey: in the {told}" in figure.caption for figure in drawn)


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


def test_files_of_a_report(tmp_path):
    made = evaluation(("pca", "m-pca1a"), (5,), {"svm": "SVM"}, published="ionosphere")
    for place in (str(tmp_path / "here"), "memory://evaluations/there"):
        found = write_evaluation_report(place, made)
        assert storage.read_bytes(found["html"]).startswith(b"<!DOCTYPE html>")
        for figure in found["figures"]:
            assert storage.read_bytes(figure["png"]).startswith(b"\x89PNG")
        assert all(storage.exists(storage.join(place, name)) for name in found["outputs"])
        assert found["verdict"].startswith("The lowest mean error")
        assert found["verdict"].endswith(published_words(made))
        tables = {name.removesuffix(".parquet") for name in found["outputs"] if name.endswith(".parquet")}
        assert tables == {"tables/errors", "tables/cells", "tables/margins", "tables/published"}
        for name in tables:
            whole = pq.read_table(io.BytesIO(storage.read_bytes(storage.join(place, f"{name}.parquet"))))
            text = pyarrow.csv.read_csv(io.BytesIO(storage.read_bytes(storage.join(place, f"{name}.csv"))))
            assert (text.num_rows, text.column_names) == (whole.num_rows, whole.column_names)
    assert pq.read_table(tmp_path / "here" / "tables" / "errors.parquet").equals(made.table.to_arrow())


@pytest.mark.e2e
def test_same_evaluation_same_bytes(tmp_path):
    pages = []
    for name in ("one", "two"):
        found = write_evaluation_report(str(tmp_path / name), evaluation(sizes=(2, 4), splits=2))
        pages.append(storage.read_bytes(found["html"]))
    assert pages[0] == pages[1]


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
