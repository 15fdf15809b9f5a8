"""Published figures beside own ones."""

import math

import pytest
from helpers import ROOT
from mmpca_paper import figures as luo_durrant

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.comparisons import Summary
from mmpca_dist.evaluation.published import (
    FIGURES,
    ROUNDED,
    Agreement,
    PublishedCell,
    PublishedFigures,
    Reason,
    _all_cells,
    agreement,
    published_cells,
    published_datasets,
    side_by_side,
)
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.methods.base.registry import METHODS

REASONS = [reason for figures in FIGURES.values() for reason in figures.reasons()]


def published(method="pca", mean=20.0, deviation=3.0, classifier="svm", size=5):
    return PublishedCell(4, "ionosphere", method, size, classifier, Summary(mean, deviation, 50), True)


def own(method="pca", mean=20.0, deviation=4.0, count=50, classifier="svm", size=5):
    return Cell(method, size, classifier, Summary(mean, deviation, count))


def test_the_figures_of_the_paper_are_there_by_our_names():
    cells = luo_durrant.cells()
    names = list(dict.fromkeys(cell.dataset for cell in cells))
    assert names == [
        "ionosphere", "sonar", "mushrooms", "splice", "colon", "prostate", "ovarian", "leukemia", "leukemia_large",
        "duke",
    ]  # fmt: skip
    assert set(names) <= set(published_datasets())
    assert {cell.method for cell in cells} == {"pca", "pls", "lasso", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2"}
    assert {cell.method for cell in cells} <= set(METHODS)
    assert {cell.classifier for cell in cells} == {"svm", "logistic", "fisher", "naive-bayes"}
    keys = [(cell.dataset, *cell.key) for cell in _all_cells()]
    assert len(set(keys)) == len(keys)
    assert all(0 <= cell.summary.mean <= 60 and 0 < cell.summary.deviation < 20 for cell in cells)
    for name in names:
        assert len({cell.n_components for cell in published_cells(name)}) == 2
        assert len({cell.table for cell in published_cells(name)}) == 1


def test_figures_that_the_protocol_was_checked_with():
    """Section 7 of the design; a lost cell; an uncertain column."""
    cells = {cell.key: cell for cell in published_cells("ionosphere")}
    assert [cells["pca", 5, c].summary.mean for c in ("svm", "logistic", "fisher")] == [26.7, 26.4, 17.0]
    assert [cells["m-pca1a", 5, c].summary.mean for c in ("svm", "logistic", "fisher")] == [26.6, 26.5, 16.4]
    assert cells["pca", 5, "svm"].summary == Summary(26.7, 3.0, 50)
    assert ("pca", 5, "naive-bayes") not in cells  # lost
    assert cells["pls", 5, "svm"].certain is False


def test_data_sets_without_figures_are_refused():
    with pytest.raises(InputError, match=r"no published figures for 'sonr'.*'ionosphere'.*\. Did you mean 'sonar'\?"):
        published_cells("sonr")


def test_differences_are_in_combined_standard_errors():
    cells = [own(mean=21.4), own("m-pca0", 21.5), own("lol", 3.0), own("pca", 3.0, size=7)]
    rows = side_by_side(cells, [published("m-pca0"), published(), published("m-pca2")])
    assert [row.own.method for row in rows] == ["m-pca0", "pca"]
    error = math.sqrt((9 + 16) / 50)
    assert [row.apart for row in rows] == [pytest.approx(1.5 / error), pytest.approx(1.4 / error)]
    assert [row.within for row in rows] == [False, True]
    assert agreement(rows) == Agreement(1, 2)


def test_only_pca_and_margin_pca_count():
    methods = ("pca", "m-pca0", "m-pca2", "pls", "lasso")
    rows = side_by_side([own(method) for method in methods], [published(method) for method in methods])
    assert len(rows) == 5
    assert agreement(rows) == Agreement(3, 3)


def with_reasons(monkeypatch, *reasons):
    """Let a publication give these reasons, and no other any."""
    figures = {"made up": PublishedFigures("made up", list, lambda: reasons)}
    monkeypatch.setattr("mmpca_dist.evaluation.published.FIGURES", figures)


def test_what_rounding_of_the_published_mean_decides_is_open(monkeypatch):
    """Two combined standard errors are 1.4142; an own mean 1.46 apart may be within, one 1.47 apart is not."""
    methods, means = ("pca", "m-pca0", "m-pca1a", "m-pca2"), (18.54, 18.53, 21.46, 21.41)
    figures = [published(method) for method in methods]
    with_reasons(monkeypatch, Reason("Ties.", "ionosphere", True))
    rows = side_by_side(map(own, methods, means), figures)
    assert [row.within for row in rows] == [False, False, False, True]
    assert [row.is_open for row in rows] == [True, False, True, False]
    assert [row.reason for row in rows] == [ROUNDED, "Ties.", ROUNDED, ""]
    assert agreement(rows) == Agreement(1, 4, open=2)


def test_one_split_neither_agrees_nor_misses(monkeypatch):
    with_reasons(monkeypatch, Reason("never shown", "ionosphere", True))
    rows = side_by_side([own(mean=99.0, deviation=math.nan, count=1)], [published()])
    assert (rows[0].within, rows[0].reason) == (None, "")
    assert agreement(rows) == Agreement(0, 0)


def test_constant_errors_that_differ_miss():
    rows = side_by_side([own(mean=19.0, deviation=0.0)], [published(deviation=0.0)])
    assert (rows[0].apart, rows[0].within) == (-math.inf, False)


def test_reasons_stand_beside_the_cells_that_miss_and_that_they_name(monkeypatch):
    measured = {"dataset": "ionosphere", "measured": True}
    reasons = [
        Reason.of({**measured, "method": "m-pca*", "n_components": [5, 6], "reason": "Ties."}),
        Reason.of({**measured, "measured": False, "classifier": "svm", "reason": "Not known."}),
        Reason.of({"dataset": "sonar", "measured": True, "reason": "Not here."}),
        Reason.of({**measured, "n_components": 15, "reason": "Nor here."}),
    ]
    far = [own("pca", 40.0), own("m-pca0", 40.0), own("m-pca0", 40.0, classifier="fisher"), own("m-pca2", 20.1)]
    figures = [published(), published("m-pca0"), published("m-pca0", classifier="fisher"), published("m-pca2")]
    with_reasons(monkeypatch, *reasons)
    rows = side_by_side(far, figures)
    assert [row.reason for row in rows] == ["Not known.", "Ties. Not known.", "Ties.", ""]
    assert [row.explained for row in rows] == [False, True, True, False]


def test_a_reason_is_of_one_data_set_and_does_not_reach_another():
    """Not by a pattern either: what was found of leukemia is not known of leukemia_large."""
    assert Reason.of({"dataset": "leukemia", "measured": True, "reason": "C."}).dataset == "leukemia"
    large = [cell for cell in _all_cells() if cell.dataset == "leukemia_large"]
    for pattern in ("leukemia", "leukemia*", "*"):
        reason = Reason(f"A reason of {pattern}.", pattern, True)
        assert not any(reason.applies_to(cell) for cell in large)
    rows = side_by_side([own("pca", 99.0, classifier="logistic", size=14)], large)
    assert [(row.reason, row.explained) for row in rows] == [("", False)]


NEVER_RUN = {"splice", "ovarian", "leukemia_large", "duke"}


def test_reasons_that_come_with_the_package_name_cells_that_exist():
    assert REASONS
    for reason in REASONS:
        assert any(reason.applies_to(cell) for cell in _all_cells()), reason
        assert reason.text.endswith(".")
        others = [name for name in published_datasets() if name not in reason.dataset]
        assert not any(name in reason.text for name in others), "it tells figures of another data set"
        assert reason.measured is not reason.text.startswith("Not known")
        assert not (reason.measured and reason.dataset in NEVER_RUN)
    far = [own("pca", 80.0, size=11, classifier="fisher")]
    (row,) = side_by_side(far, published_cells("ionosphere"))
    assert row.reason.startswith("The coding of the first column where the values are UCI's") and row.explained


def test_no_cell_is_both_explained_and_not_known():
    """A cell that is 2.5 standard errors off over 500 splits is not off by the draw of its splits."""
    for cell in _all_cells():
        found = {reason.measured for reason in REASONS if reason.applies_to(cell)}
        assert len(found) < 2, cell
    far = [own("m-pca0", 99.0, size=24, classifier="naive-bayes")]
    (row,) = side_by_side(far, published_cells("colon"))
    assert row.reason.startswith("Not known: over 500 splits") and not row.explained


def test_sets_that_were_never_run_are_named_where_they_are_described():
    text = (ROOT / "docs" / "paper.md").read_text()
    told = text[text.index("never run") - 300 :][:600]
    for name in NEVER_RUN:
        assert name in told
        assert "Never run" in (ROOT / "conf" / "paper" / f"{name}.yaml").read_text()
