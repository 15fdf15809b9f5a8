"""Tables of errors over splits, their cells, and errors by class."""

import dataclasses
import io
import math

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from helpers.evaluating import scored, timeless
from helpers.evaluations import evaluation
from helpers.resuming import small_units
from helpers.samples import batch_of
from helpers.tables import config_of, labelled, write_npz
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import confusion_matrix
from sklearn.naive_bayes import GaussianNB

from mmpca_dist.evaluation import scorers, scores
from mmpca_dist.evaluation.comparisons import SignTest, Summary, corrected_t_test
from mmpca_dist.evaluation.tables import ErrorTable, cells_table, classes_table
from mmpca_dist.results.error_tables import class_table
from mmpca_dist.statistics.drift import holm

N_ROWS = 100


def entry(method, size, classifier, errors, used=None):
    return {
        "method": method, "n_components": size, "used": size if used is None else used, "classifier": classifier,
        "errors": errors,
    }  # fmt: skip


def split_records(rows=(20, 25, 20)):
    """Errors that grow by one a split; m-pca0 has one less than pca with K = 2 and as many with K = 4."""
    records = []
    for split, held in enumerate(rows):
        errors = [
            entry(method, size, classifier, 4 + split - (method == "m-pca0" and size == 2))
            for method in ("pca", "m-pca0")
            for size in (4, 2)
            for classifier in ("svm", "fisher")
        ]
        records.append({"split": split, "rows": held, "errors": errors, "seconds": {"pca": 0.1}})
    return records


def test_cells_are_means_over_splits_in_percent_with_sign_tests_on_counts():
    table = ErrorTable.of(split_records(), N_ROWS)
    assert table.to_arrow().num_rows == 3 * 8
    cells = {cell.key: cell for cell in table.cells()}
    assert list(cells) == [(m, k, c) for m in ("pca", "m-pca0") for k in (2, 4) for c in ("svm", "fisher")]
    shares = [100 * 4 / 20, 100 * 5 / 25, 100 * 6 / 20]
    assert cells["pca", 2, "svm"].summary == Summary.of(
        shares, pytest.approx(np.mean([20 / 80, 25 / 75, 20 / 80])), pytest.approx(70 / 3 * (100 - 70 / 3) / 100)
    )
    assert cells["pca", 2, "svm"].test is None
    assert cells["m-pca0", 2, "fisher"].test == SignTest(3, 3, 0.125)
    assert cells["m-pca0", 4, "fisher"].test == SignTest(0, 0, 1.0)


def test_counts_decide_where_shares_differ_by_rounding_only():
    """Shares may differ by rounding where counts are equal."""
    records = [{"split": 0, "rows": 35, "errors": [entry("pca", 1, "svm", 3), entry("lol", 1, "svm", 3)]}]
    assert ErrorTable.of(records, N_ROWS).cells()[1].test == SignTest(0, 0, 1.0)


def test_one_split_has_no_deviation():
    table = ErrorTable.of(split_records(rows=(20,)), N_ROWS)
    cell = table.cells()[0]
    assert cell.summary.mean == 20
    assert math.isnan(cell.summary.deviation)
    line = cells_table([cell]).to_pylist()[0]
    assert (line["mean"], line["deviation"], line["standard_error"], line["splits"]) == (20, None, None, 1)
    assert line["corrected_standard_error"] is None
    other = next(cell for cell in table.cells() if cell.method != "pca")
    assert (other.t_test.p_value, other.t_test.adjusted, other.t_test.tests) == (None, None, 0)


def test_nothing_is_tested_against_an_absent_reference():
    assert {cell.test for cell in ErrorTable.of(split_records(), N_ROWS).cells(reference="lda")} == {None}


def test_fewer_components_than_asked_for_are_told():
    records = [
        {"split": split, "rows": 9, "errors": [entry("fisher", 5, "svm", 1, used)]} for split, used in enumerate([2, 1])
    ]
    assert ErrorTable.of(records, N_ROWS).cells()[0].used == 1


def test_tables_survive_parquet_and_csv(tmp_path):
    table = ErrorTable.of(split_records(), N_ROWS)
    pq.write_table(table.to_arrow(), tmp_path / "errors.parquet")
    assert pq.read_table(tmp_path / "errors.parquet").equals(table.to_arrow())
    text = io.BytesIO()
    pa.csv.write_csv(table.to_arrow(), text)
    assert pa.csv.read_csv(io.BytesIO(text.getvalue())).equals(table.to_arrow())


def test_the_table_of_cells_has_their_numbers():
    cells = ErrorTable.of(split_records(), N_ROWS).cells()
    lines = cells_table(cells).to_pylist()
    assert len(lines) == len(cells) == 8
    assert lines[0]["wins"] is None and lines[0]["p_value"] is None
    line = next(line for line in lines if (line["method"], line["n_components"]) == ("m-pca0", 2))
    shares = [100 * 3 / 20, 100 * 4 / 25, 100 * 5 / 20]
    assert line["mean"] == pytest.approx(np.mean(shares))
    assert line["standard_error"] == pytest.approx(np.std(shares, ddof=1) / np.sqrt(3))
    assert (line["wins"], line["untied"], line["p_value"], line["splits"]) == (3, 3, 0.125, 3)


def test_differences_are_tested_with_holms_correction_for_all_tests_of_the_table():
    """Two methods, two numbers of components and two classifiers beside the reference: eight tests."""
    rng = np.random.default_rng(5)
    records = [
        {
            "split": split,
            "rows": rows,
            "errors": [
                entry(method, size, classifier, int(rng.integers(low, low + 6)))
                for method, low in (("pca", 9), ("m-pca0", 6), ("lol", 9))
                for size in (2, 4)
                for classifier in ("svm", "fisher")
            ],
        }
        for split, rows in enumerate([20, 25, 20, 22, 18])
    ]
    table = ErrorTable.of(records, N_ROWS)
    cells = {cell.key: cell for cell in table.cells()}
    tested = {key: cell.t_test for key, cell in cells.items() if cell.t_test is not None}
    assert len(tested) == 8 and {key[0] for key in tested} == {"m-pca0", "lol"}
    for (method, *rest), found in tested.items():
        own, other = table.counts[(method, *rest)], table.counts[("pca", *rest)]
        expected = corrected_t_test(own.errors, other.errors, own.rows, N_ROWS - own.rows)
        assert dataclasses.replace(found, adjusted=None, tests=1) == expected
    assert [found.adjusted for found in tested.values()] == holm([found.p_value for found in tested.values()])
    assert {found.tests for found in tested.values()} == {8}
    lines = {
        (line["method"], line["n_components"], line["classifier"]): line
        for line in cells_table(cells.values()).to_pylist()
    }
    line, found = lines["lol", 2, "svm"], tested["lol", 2, "svm"]
    assert (line["t_p_value"], line["holm_p_value"], line["tests"]) == (found.p_value, found.adjusted, 8)
    assert (line["difference"], line["difference_standard_error"]) == (found.difference, found.standard_error)
    summary = cells["lol", 2, "svm"].summary
    overlap = np.mean([rows / (N_ROWS - rows) for rows in (20, 25, 20, 22, 18)])
    assert line["corrected_standard_error"] == pytest.approx(summary.deviation * np.sqrt(1 / 5 + overlap))
    assert line["standard_error"] == summary.standard_error
    assert lines["pca", 2, "svm"]["t_p_value"] is None


def test_tests_of_the_same_models_count_once():
    """Both methods give one component, however many are asked for."""
    errors = {"pca": [5, 3, 7], "fisher": [4, 4, 2]}
    records = [
        {"split": split, "rows": 20,
         "errors": [entry(method, size, "svm", found[split], 1) for method, found in errors.items() for size in (1, 2)]}
        for split in range(3)
    ]  # fmt: skip
    tests = [cell.t_test for cell in ErrorTable.of(records, N_ROWS).cells() if cell.t_test is not None]
    assert len(tests) == 2 and {test.tests for test in tests} == {1}
    assert {test.adjusted for test in tests} == {tests[0].p_value}


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
        write_npz(uri, X, y, n=copies * 0.1, part=column)
    dataset = {"weight": "n"} if weighted else {}
    settings = {**KINDS[kind], **({} if kind == "folds" else {"column": "part"})}
    settings |= {"classifiers": list(TWINS), "margins": False}
    config = config_of(folder / name, uri, methods=["all-columns"], evaluation=settings, dataset=dataset, **changes)
    return scored(config)[:2]


@pytest.mark.parametrize(("kind", "weighted"), CASES)
def test_lines_have_the_errors_of_each_class(kind, weighted, merging, monkeypatch, tmp_path):
    """In memory and merged, by one worker and three, of blocks of rows: the same bits."""
    merging("merged")
    X, y, copies, _ = rows = rows_of(4)
    records, splits = evaluated(tmp_path, "direct", kind, rows, weighted)
    counts, weights = (copies, copies * 0.1) if weighted else (np.ones(len(y), int), np.ones(len(y)))
    held_out = [(split, part) for split in splits.codes(batch_of(y)) for part in splits.held_out]
    for record, (split, part) in zip(records, held_out, strict=True):
        train, test = splits.trains(part)[split], split == part
        fitted_to = [np.repeat(values[train], counts[train], axis=0) for values in (X, y)]
        for line in record["errors"]:
            named = TWINS[line["classifier"]]().fit(*fitted_to).predict(X[test])
            matrix = confusion_matrix(y[test], named, labels=range(4), sample_weight=weights[test])
            np.testing.assert_allclose(line["errors_by_class"], matrix.sum(axis=1) - np.diag(matrix), atol=1e-9)
            np.testing.assert_allclose(line["confused"], (matrix - np.diag(np.diag(matrix))).ravel(), atol=1e-9)
            assert sum(line["errors_by_class"]) == (pytest.approx(line["errors"]) if weighted else line["errors"])
        np.testing.assert_allclose(record["rows_by_class"], matrix.sum(axis=1))
    assert any(0 in record["rows_by_class"] for record in records) == (kind != "folds")
    small_units(monkeypatch, unit_bytes=1200)
    monkeypatch.setattr(scorers, "SCORED_ROWS", 7)
    for workers in (1, 3):
        merged, _ = evaluated(tmp_path, f"{workers}merged", kind, rows, weighted, compute={"workers": workers})
        assert [record["errors"] for record in merged] == [record["errors"] for record in records]


@pytest.mark.parametrize("way", ["direct", "merged"])
def test_with_more_classes_nothing_is_counted_by_class(way, merging, monkeypatch, tmp_path):
    merging("merged")
    rows = rows_of(51, n=900)
    few = timeless(evaluated(tmp_path, way, "folds", rows, True)[0])
    monkeypatch.setattr(scores, "MAX_CLASSES", 51)
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
    assert table.rows[1:] == [["class 1", "117", "75.0", "75.0"], ["class 2", "117", *["-"] * 2]]
