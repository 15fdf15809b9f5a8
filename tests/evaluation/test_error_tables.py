"""Tables of errors over splits, and their cells."""

from __future__ import annotations

import dataclasses
import io
import math

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mmpca_dist.evaluation.comparisons import SignTest, Summary, corrected_t_test, holm
from mmpca_dist.evaluation.tables import ErrorTable, cells_table

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
