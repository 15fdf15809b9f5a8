"""All columns are evaluated without being asked for, and nothing else depends on that."""

import numpy as np
import pytest
from helpers.evaluating import by_cell, scored, timeless
from helpers.tables import config_of, labelled, write_npz

from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.runs import evaluate as evaluating
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.runs.evaluate import preview_evaluation

METHODS = ["pca", "m-pca0", "fisher"]
BIASED = {"name": "svm", "bias": True}


@pytest.mark.parametrize("gathered", [1 << 30, 80 * 6 * 8 * 2])
@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_records_of_other_methods_are_the_same_with_and_without(
    merged, standardize, gathered, monkeypatch, limits, tmp_path
):
    """To the last bit of their margins; also where not all reduced rows are gathered in one pass."""
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merged, not merged))
    limits.gathered_bytes = gathered
    X, y = labelled(80, 6, 3, seed=1, separation=0.5)
    uri = write_npz(tmp_path / "rows.npz", X + 3, y)
    settings = {
        "methods": METHODS, "n_components": [1, 3], "standardize": standardize,
        "evaluation": {"folds": 3, "classifiers": ["fisher", "naive-bayes", BIASED]},
    }  # fmt: skip
    found = timeless(scored(config_of(tmp_path / "with", uri, **settings))[0])
    monkeypatch.setattr(evaluating, "_impossible", lambda *_: "for this test")
    without = timeless(scored(config_of(tmp_path / "without", uri, **settings))[0])
    own = [[line for line in record["errors"] if line["method"] == "all-columns"] for record in found]
    others = [
        {**record, "errors": [line for line in record["errors"] if line["method"] != "all-columns"]} for record in found
    ]
    assert others == without
    for lines in own:
        assert [(line["n_components"], line["used"]) for line in lines] == [(1, 6)] * 3 + [(3, 6)] * 3
        assert [line["errors"] for line in lines[:3]] == [line["errors"] for line in lines[3:]]


@pytest.mark.parametrize(("shape", "changes", "why"), [
    ((60, 5), {"classifiers": ["fisher", "qda"]}, "qda fails where columns depend on one another"),
    ((30, 40), {"classifiers": ["fisher", "naive-bayes"]}, "naive-bayes depends on the columns themselves"),
    ((30, 40), {"classifiers": ["fisher", "svm"]}, ""),
    ((60, 5), {"classifiers": [{"name": "qda", "options": {"reg_param": 0.1}}]}, ""),
])  # fmt: skip
def test_where_all_columns_cannot_be_evaluated_the_plan_says_why(shape, changes, why, tmp_path):
    uri = write_npz(tmp_path / "rows.npz", *labelled(*shape, 2, seed=1))
    config = config_of(tmp_path / "out", uri, evaluation=changes)
    note = preview_evaluation(config).note
    assert why in note and bool(why) == ("All columns are not evaluated" in note)
    lines = scored(config)[0][0]["errors"]
    assert any(line["method"] == "all-columns" for line in lines) is not bool(why)


def test_a_solver_in_passes_and_little_memory_leave_them_out(tmp_path):
    X, y = labelled(3000, 60, 2, seed=1)
    uri = write_npz(tmp_path / "rows.npz", X.astype(np.float32), y)
    asked = {"evaluation": {"folds": 2, "classifiers": [BIASED], "margins": False}}
    in_passes = config_of(tmp_path / "passes", uri, solver={"kind": "krylov"}, **asked)
    assert "a solver in passes forms no scatter of 60 columns" in preview_evaluation(in_passes).note
    needed = preview_evaluation(config_of(tmp_path / "out", uri, compute={"workers": 1}, **asked)).memory
    config = config_of(tmp_path / "out", uri, compute={"workers": 1, "memory_limit": needed - 1}, **asked)
    first, _, results = scored(config)
    assert "Raise compute.memory_limit" in results["tune"]["left_out"]
    assert {line["method"] for line in first[0]["errors"]} == {"pca"}
    run = RunDirectory(str(tmp_path / "out" / "evaluation"))
    for name in (run.record_path(records.SCORE), run.path("splits", "00001.json")):
        (tmp_path / "out" / name.split("/out/")[1]).unlink()
    again, *_ = scored(config_of(tmp_path / "out", uri, **asked))  # with all the memory that there is
    assert timeless(again) == timeless(first)


def test_tests_against_all_columns_leave_those_against_the_reference_alone(tmp_path):
    uri = write_npz(tmp_path / "rows.npz", *labelled(90, 5, 2, seed=3, separation=0.4))
    found, *_ = scored(config_of(tmp_path / "out", uri, methods=METHODS, evaluation={"folds": 3, "count": 2}))
    table = ErrorTable.of(found, 90)
    without = ErrorTable([line for line in table.lines if line["method"] != "all-columns"])
    cells = {cell.key: cell for cell in table.cells("pca", {"all-columns"})}
    for cell in without.cells("pca"):
        assert cells[cell.key].t_test == cell.t_test and cells[cell.key].test == cell.test
    whole = [cell for cell in table.cells("all-columns", {"all-columns"}) if cell.method == "pca"]
    assert whole and all(cell.t_test is not None for cell in whole)
    assert by_cell(found)[0, "all-columns", 2, "lda"][0] == 5
    assert np.isfinite([cell.summary.mean for cell in whole]).all()
