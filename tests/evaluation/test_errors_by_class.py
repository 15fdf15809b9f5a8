"""Errors by class, beside rows that are counted one by one."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.evaluating import config_of, scored, timeless
from helpers.evaluations import evaluation
from helpers.resuming import small_units
from helpers.samples import labelled
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import confusion_matrix
from sklearn.naive_bayes import GaussianNB

from mmpca_dist.evaluation import heads, scores
from mmpca_dist.evaluation.tables import ErrorTable, classes_table
from mmpca_dist.report.error_tables import class_table

TWINS = {"lda": LinearDiscriminantAnalysis, "naive-bayes": GaussianNB}
FOLDS = {"splits": "folds", "folds": 3, "count": 2}
KINDS = {"groups": {"splits": "groups", "folds": 3}, "time": {"splits": "time", "windows": 2}, "folds": FOLDS}
CASES = [("folds", True), ("time", False), *(pytest.param(kind, weighted, marks=pytest.mark.e2e)
         for kind, weighted in [("folds", False), ("time", True), ("groups", False), ("groups", True)])]  # fmt: skip


def rows_of(n_classes, n=260):
    """Return rows, labels, numbers of copies, and groups or times; the last class is in the first two alone."""
    X, y = labelled(n, 4, n_classes, seed=4, separation=0.6)
    y[: 4 * n_classes] = np.arange(4 * n_classes) % n_classes
    column, last = np.random.default_rng(4).integers(0, 12, n), np.flatnonzero(y == n_classes - 1)
    column[last] = np.arange(len(last)) % 2
    return X, y, np.random.default_rng(5).integers(1, 4, n), column


def evaluated(folder, name, kind, rows, weighted, **changes):
    """Return the records and the splits of an evaluation, which merges moments where its name ends so."""
    uri, X, y, copies, column = folder / "rows.npz", *rows
    if not uri.exists():
        np.savez(uri, X=X, y=y, n=copies * 0.1, part=column)
    dataset = {"uri": str(uri), **({"weight": "n"} if weighted else {})}
    settings = {**KINDS[kind], **({} if kind == "folds" else {"column": "part"})}
    settings |= {"classifiers": list(TWINS), "margins": False}
    config = config_of(folder / name, "", methods=["all-columns"], evaluation=settings, dataset=dataset, **changes)
    return scored(config)[:2]


@pytest.mark.parametrize(("kind", "weighted"), CASES)
def test_lines_have_the_errors_of_each_class(kind, weighted, merging, monkeypatch, tmp_path):
    """In memory and merged, by one worker and three, of blocks of rows: the same bits."""
    merging("merged")
    X, y, copies, _ = rows = rows_of(4)
    records, splits = evaluated(tmp_path, "direct", kind, rows, weighted)
    counts, weights = (copies, copies * 0.1) if weighted else (np.ones(len(y), int), np.ones(len(y)))
    held_out = [(split, part) for split in splits.codes(0, len(y), y) for part in splits.held_out]
    for record, (split, part) in zip(records, held_out, strict=True):
        train, test = splits.trains(part)[split], split == part
        fitted_to = [np.repeat(values[train], counts[train], axis=0) for values in (X, y)]
        for line in record["errors"]:
            named = TWINS[line["classifier"]]().fit(*fitted_to).predict(X[test])
            matrix = confusion_matrix(y[test], named, labels=range(4), sample_weight=weights[test])
            np.testing.assert_allclose(line["errors_by_class"], matrix.sum(axis=1) - np.diag(matrix), atol=1e-9)
            assert sum(line["errors_by_class"]) == (pytest.approx(line["errors"]) if weighted else line["errors"])
        np.testing.assert_allclose(record["rows_by_class"], matrix.sum(axis=1))
    assert any(0 in record["rows_by_class"] for record in records) == (kind != "folds")
    small_units(monkeypatch, unit_bytes=1200)
    monkeypatch.setattr(heads, "BLOCK_ROWS", 7)
    for workers in (1, 3):
        merged, _ = evaluated(tmp_path, f"{workers}merged", kind, rows, weighted, compute={"workers": workers})
        assert [record["errors"] for record in merged] == [record["errors"] for record in records]


@pytest.mark.parametrize("way", ["direct", "merged"])
def test_with_more_classes_nothing_is_counted_by_class(way, merging, monkeypatch, tmp_path):
    merging("merged")
    rows = rows_of(51, n=900)
    few = timeless(evaluated(tmp_path, way, "folds", rows, True)[0])
    monkeypatch.setattr(scores, "MOST_CLASSES", 51)
    records = timeless(evaluated(tmp_path, f"51{way}", "folds", rows, True)[0])
    for record in records:
        assert len(record.pop("rows_by_class")) == 51
        assert [len(line.pop("errors_by_class")) for line in record["errors"]] == [51, 51]
    assert records == few


def test_tables_have_means_over_splits_that_hold_out_rows_of_a_class():
    lines = [{**line, "errors_by_class": [line["errors"] - bool(split), min(1, split), 0],
              "rows_by_class": [71 - split, split, 0]}
             for line in evaluation(splits=3).table.lines for split in [line["split"]]]  # fmt: skip
    made = evaluation(splits=3, classes=3, table=ErrorTable(lines))
    found = classes_table(made.table, made.cells.values(), made.dataset["classes"]).to_pylist()
    own = [line["errors"] for line in made.table.by_key["pca", 2, "svm"]]
    mean = np.mean([100 * own[0] / 71, 100 * (own[1] - 1) / 70, 100 * (own[2] - 1) / 69])
    assert [(line["class"], line["rows"], line["mean"]) for line in found[:3]] == [
        ("class 0", 210, pytest.approx(mean)), ("class 1", 3, 75.0), ("class 2", 0, None)
    ]  # fmt: skip
    table = class_table(made)
    best = ["M-PCA2 with 8 components under linear SVM, C = 0.1", "PCA with 8 components under linear SVM, C = 0.1"]
    assert [column.heading for column in table.columns] == ["class", "rows", *best]
    assert table.rows[1:] == [["class 1", "117", "75.0", "75.0"], ["class 2", "117", *["\N{EN DASH}"] * 2]]
