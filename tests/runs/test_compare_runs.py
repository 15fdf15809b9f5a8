"""`mmpca compare`: angles, differences and tests are those by hand, and what differs is named."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.reports import check_page
from helpers.tables import config_of, labelled, write_npz
from sklearn.datasets import load_iris

from mmpca_dist.errors import InputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.jobs.job import open_job, run_stage
from mmpca_dist.report import evaluation_page
from mmpca_dist.runs.compare_page import compare_page, turned_towards
from mmpca_dist.runs.compare_runs import compare_runs
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.runs.fit import stages_of
from mmpca_dist.statistics.drift import holm


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A table; pages of evaluations without pictures, which take longest."""
    monkeypatch.setattr(evaluation_page, "parts", lambda *_: [])
    return write_npz(tmp_path / "rows.npz", *labelled(90, 6, 3, seed=2, separation=0.4))


def fitted(config):
    with open_job(config, Callback()) as job:
        for stage in stages_of(config)[:-2]:  # without projections and the report
            run_stage(job, stage)


def test_runs(rows, tmp_path, mmpca):
    for name, changes in {
        "a": {"methods": ["pca", "m-pca0"], "n_components": [3]},
        "b": {"methods": ["pca", "fisher"], "n_components": [2], "standardize": True},
    }.items():
        fitted(config_of(tmp_path / name, rows, **changes))
    outputs = [str(tmp_path / name) for name in "ab"]
    (found,) = compare_runs(outputs)
    assert {row["setting"]: (row["A"], row["B"]) for row in found.settings} == {
        "methods": (["pca", "m-pca0"], ["pca", {"name": "fisher", "shrinkage": 0.001}]),
        "n_components": ([3], [2]), "standardize": (None, True),
    }  # fmt: skip
    results = {row["method"]: row for row in found.results}
    assert list(results) == ["pca", "m-pca0", "fisher"]
    first, other = (load_model(output, "pca") for output in outputs)
    bases = [np.linalg.qr(model.projection()[0])[0] for model in (first, other)]
    angles = np.degrees(np.arccos(np.linalg.svd(bases[0].T @ bases[1])[1]))[::-1]
    assert results["pca"]["angles B"] == pytest.approx(angles.tolist(), abs=1e-5) and len(angles) == 2
    assert (results["pca"]["components A"], results["pca"]["components B"]) == (3, 2)
    assert results["pca"]["share A"] == pytest.approx(first.eigenvalues_.sum() / first.total_)
    assert results["pca"]["eigenvalues B"] == pytest.approx(other.eigenvalues_.tolist())
    assert results["fisher"]["angles B"] is results["fisher"]["components A"] is None
    code, printed, _ = mmpca("compare", *outputs, "--json")
    assert code == 0 and json.loads(printed)[0]["results"] == found.results
    printed = mmpca("compare", *outputs)[1]
    assert "Settings that differ" in printed and "fisher (shrinkage: 0.001)" in " ".join(printed.split())
    assert ", ".join(f"{angle:.1f}" for angle in angles) in printed
    page = check_page(compare_page([found]))
    assert page.text.count("A is ") == 1 and page.text.count("Settings that differ") == 3  # contents, title and caption
    for title in ("How much the components hold", "Methods", "They differ in methods, n_components, standardize."):
        assert title in page.text


def test_rows_are_turned_towards_the_same_rows():
    """A rotation, a mirror and a shift of the same rows go away; other rows stay as they are."""
    rows = np.random.default_rng(0).standard_normal((50, 2)) * [3, 1]
    for angle, mirror in ((0.3, 1), (2.0, -1)):
        turn = np.array([[np.cos(angle), np.sin(angle)], [-mirror * np.sin(angle), mirror * np.cos(angle)]])
        found = turned_towards(rows @ turn + 5, rows)
        np.testing.assert_allclose(found - found.mean(axis=0), rows - rows.mean(axis=0), atol=1e-12)
    assert turned_towards(rows[1:], rows) is not rows and turned_towards(rows[1:], rows).shape == (49, 2)


def test_evaluations_are_tested_as_two_methods_of_one(rows, tmp_path):
    """The same ridge regressions in one evaluation, whose tests are against one of them."""
    ridges = [{"name": "ridge", "alpha": alpha, "label": f"ridge-{alpha}"} for alpha in (1, 1000)]
    asked = {"n_components": [2], "evaluation": {"folds": 3, "count": 2, "classifiers": ["naive-bayes"]}}
    both = {**asked, "evaluation": {**asked["evaluation"], "reference": "ridge-1"}}
    evaluate(config_of(tmp_path / "both", rows, methods=ridges, **both))
    for name, ridge in zip("ab", ridges, strict=True):
        evaluate(config_of(tmp_path / name, rows, methods=[{**ridge, "label": "mine"}], **asked))
    other_seed = {**asked, "evaluation": {**asked["evaluation"], "seed": 7}}
    evaluate(config_of(tmp_path / "c", rows, methods=[{**ridges[0], "label": "mine"}], **other_seed))
    (found,) = compare_runs([str(tmp_path / name) for name in "abc"])
    cells = pq.read_table(tmp_path / "both" / "evaluation" / "tables" / "cells.parquet").to_pylist()
    expected = next(cell for cell in cells if cell["method"] == "ridge-1000")
    mine, whole = found.results
    assert (mine["method"], whole["method"], whole["components"]) == ("mine", "all-columns", "6")
    assert mine["error B"] == expected["mean"] and mine["B - A"] == pytest.approx(expected["difference"])
    assert expected["difference"] != 0 == whole["B - A"]
    assert mine["p B"] == pytest.approx(holm([expected["t_p_value"], 1.0])[0]) and whole["p B"] == 1
    assert mine["p C"] is None and "C has other splits than A" in found.notes[1]
    best = {letter: min(row[f"error {letter}"] for row in found.results) for letter in "ABC"}
    first = min(best, key=lambda letter: best[letter])
    text = check_page(compare_page([found])).text
    assert f"{first} has the lowest mean error of those below, {best[first]:.1f}% (" in text
    for other in best.keys() - {first}:
        gap = f"{best[other] - best[first]:.1f}"
        assert f"{f'{gap} percentage points less than' if float(gap) else 'the same as'} {other} (" in text


@pytest.mark.e2e
def test_a_column_that_is_left_out_is_tested_and_what_one_has_alone_is_counted(tmp_path):
    frame = load_iris(as_frame=True).frame.rename(columns={"target": "label"})
    frame.to_parquet(tmp_path / "rows.parquet")
    asked = {"evaluation": {"folds": 3, "classifiers": ["lda"]}}
    for name, drop, sizes in (("a", [], [1, 2]), ("b", ["petal width (cm)"], [2, 3])):
        dataset = {"uri": str(tmp_path / "rows.parquet"), "drop": drop}
        config = config_of(tmp_path / name, dataset["uri"], methods=["pca", "m-pca0"], n_components=sizes, **asked)
        evaluate(config.model_copy(update={"dataset": config.dataset.model_copy(update={"drop": drop})}))
    (found,) = compare_runs([str(tmp_path / name) for name in "ab"])
    assert [(row["method"], row["components"]) for row in found.results] == [
        ("pca", "2"), ("m-pca0", "2"), ("all-columns", "4, 3")
    ]  # fmt: skip
    assert all(row["p B"] is not None for row in found.results)
    assert found.notes[-1] == "Not shown, as only one evaluation has them: 4 errors."


def test_what_does_not_compare_is_refused(rows, tmp_path):
    fitted(config_of(tmp_path / "a", rows))
    evaluate(config_of(tmp_path / "b", rows))
    a, b = (str(tmp_path / name) for name in "ab")
    for outputs, said in (
        ([a], "Name at least two runs"),
        ([a, a], "and each once"),
        ([a, b], f"Compare runs with runs, and evaluations with evaluations: {a} holds run, {b} holds evaluation."),
        ([a, str(tmp_path)], "it holds no run.json"),
    ):
        with pytest.raises(InputError) as caught:
            compare_runs(outputs)
        assert said in str(caught.value)
