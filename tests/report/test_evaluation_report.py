"""The report of an evaluation: it renders whatever splits can leave, safely, and says what the numbers say."""

import dataclasses
import io
from collections.abc import Callable

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from helpers.evaluations import FOUR, evaluation, flat_margins
from helpers.pictures import Read, check_picture
from helpers.reports import NASTY, beyond, check_page

from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.palette import method_look
from mmpca_dist.report.error_curves import drawn_sizes, error_curves, split_errors
from mmpca_dist.report.error_maps import confusions, error_map
from mmpca_dist.report.evaluation_page import parts, render_evaluation, write_evaluation_report
from mmpca_dist.report.pages import figures_of
from mmpca_dist.report.signed_margins import margin_pictures
from mmpca_dist.results.answer import recommended
from mmpca_dist.results.evaluation import Evaluation
from mmpca_dist.results.evaluation_result import published_words
from mmpca_dist.stores import storage

MANY = ("pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2", "fisher", "lol", "pls", "lasso", "random-projection")
TWO = {"svm": "linear SVM", "fisher": "Fisher"}


def with_nasty_names():
    made = evaluation(methods=("pca", NASTY), classifiers={"$x^2": NASTY, NASTY: "$x^2"}, notes=[NASTY])
    made.dataset.update(uri="file:///x/<b>'\"y", classes=[NASTY, "a & b"])
    return dataclasses.replace(
        made, splits=NASTY, seconds={NASTY: 1.0},
        versions={NASTY: NASTY},
        margin_rows=NASTY, stages={NASTY: 1.0},
    )  # fmt: skip


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
    assert page.pictures == len(drawn)
    assert "How sure this is" in page.text and made.splits[1:] in page.text


def test_text_from_data_is_escaped_everywhere():
    made = with_nasty_names()
    html = render_evaluation(made, parts(made))
    assert NASTY not in html
    assert "<b>'" not in html
    assert check_page(html).text.count(NASTY) >= 20


def test_the_map_has_the_mean_errors_of_all_cells_and_frames_the_lowest():
    made = evaluation(classifiers=TWO, sizes=(2, 8))
    figure = error_map(made)
    for classifier, panel in zip(made.classifiers, map(Read, figure.panels), strict=True):
        means = [made.cells[m, k, classifier].summary.mean for m in made.config.labels for k in made.config.sizes]
        assert panel.title == made.classifiers[classifier]
        shown = panel.texts[3:]
        assert shown[::3] == ["PCA", "M-PCA0", "M-PCA2"]
        assert [float(text) for i, text in enumerate(shown) if i % 3] == pytest.approx(means, abs=0.05)
        fields = list(panel.root.iter("rect"))
        shades = [float(field.get("fill-opacity")) for field in fields]
        assert np.argsort(shades).tolist() == np.argsort(means).tolist()
        assert [field.get("stroke") != "none" for field in fields] == [mean == min(means) for mean in means]


def test_confusions_are_shares_of_the_rows_of_each_class():
    counts = [0, 6, 2, 1, 0, 0, 3, 0, 0]  # of splits that hold out 40, 20 and 11 rows of the classes
    own = {"errors_by_class": [8, 1, 3], "rows_by_class": [40, 20, 11], "confused": counts, "errors": 12}
    lines = [{**line, **own} for line in evaluation(classes=3).table.lines]
    made = evaluation(classes=3, table=ErrorTable(lines))
    (figure,) = confusions(made)
    panel = Read(figure.panels[0])
    shares = [[80, 15, 5], [5, 95, 0], [27, 0, 73]]
    assert panel.texts[1:] == [*made.dataset["classes"], *(
        text for name, line in zip(made.dataset["classes"], shares, strict=True)
        for text in (name, *(f"{share}" if share else None for share in line))
    )]  # fmt: skip
    assert [rect.get("stroke") != "none" for rect in panel.root.iter("rect")] == np.eye(3, dtype=bool).ravel().tolist()
    assert confusions(evaluation()) == []


def test_splits_are_those_of_the_recommended_cell_against_each_other_method():
    made = evaluation(errors=lambda m, size, c, split: 9 + 5 * m + split * (1 + m % 2) + (size != 4))
    (figure,) = split_errors(made)
    use = recommended(made)
    others = [method for method in made.config.labels if method != use.method]
    assert len(figure.panels) == len(others) == 2
    best = {m: lowest([c for c in made.distinct if (c.method, c.classifier) == (m, use.classifier)]) for m in others}
    for method, drawn in zip(sorted(others, key=lambda m: best[m].summary.mean), figure.panels, strict=True):
        panel, counts = Read(drawn), made.table.counts
        assert panel.title.startswith(f"{title_of(method)} (")
        pairs = np.transpose([counts[best[method].key].percent, counts[use.key].percent])
        found = panel.points(method_look(method)[0])
        assert len(found) == len(np.unique(pairs, axis=0))
        for pair in pairs:
            assert np.abs(found - pair).max(axis=1).min() < 0.02 * np.ptp(pairs)
        test = made.table.sign_test(use.key, best[method].key)
        assert any(text.startswith(f"{test.wins} : {test.untied - test.wins}, ") for text in panel.texts)
    assert split_errors(evaluation(splits=1)) == split_errors(evaluation(methods=("pca",))) == []


def test_curves_are_the_mean_errors_in_the_colours_of_the_methods():
    made = evaluation(sizes=(2, 4, 6), most={"m-pca0": 3})
    figure = error_curves(made)
    for classifier, panel in zip(made.classifiers, map(Read, figure.panels), strict=True):
        for method in made.config.labels:
            cells = [made.cells[method, size, classifier] for size in made.config.sizes]
            colour = method_look(method)[0]
            for hollow in (False, True):
                means = [cell.summary.mean for cell in cells if (cell.used < cell.n_components) == hollow]
                np.testing.assert_allclose(panel.points(colour, hollow)[:, 1], means, atol=0.02)
            points = panel.points(colour)
            assert np.abs(np.sort(points[:, 0]) - [2, 4, 6]).max() < 0.5, "moved apart sideways a little"


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
        drawn = margin_pictures(evaluation(standardize=standardized))
        assert all(f"Grey: in the {told}" in figure.caption for figure in drawn)


def test_files_of_a_report(tmp_path):
    made = evaluation(("pca", "m-pca1a"), (5,), {"svm": "SVM"}, published="ionosphere")
    for place in (str(tmp_path / "here"), "memory://evaluations/there"):
        found = write_evaluation_report(place, made)
        assert storage.read_bytes(found["html"]).startswith(b"<!DOCTYPE html>")
        for figure in found["figures"]:
            assert storage.read_bytes(figure["svg"]).startswith(b"<svg xmlns=")
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
