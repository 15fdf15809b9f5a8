"""What a run and its report tell of the search for nearest rows."""

import numpy as np
import pytest
from helpers.runs import Recorder, make_config
from scipy.spatial.distance import cdist

from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.records import Results
from mmpca_dist.jobs.searches import search_rows, summaries
from mmpca_dist.report.method_results import eigenvalue_table
from mmpca_dist.report.run_page import report_contents
from mmpca_dist.runs.summary import components, lines


def test_the_report_shows_the_margins_and_the_certificate_of_the_search(digits_run):
    output, results, _ = digits_run
    found = RunDirectory(output)
    contents = report_contents(found, found.config, open_dataset("bundled:digits"), results)
    margins = contents.data["margins"]
    assert margins.counts.sum() == 1797 == len(margins.before)
    data = open_dataset("bundled:digits")
    X, y = data.read_rows(0, 1797), data.read_labels(0, 1797)
    apart = np.where(y[:, None] == y, np.inf, cdist(X, X)).min(axis=1)
    np.testing.assert_allclose(np.sort(margins.before), np.sort(apart), rtol=1e-12)
    np.testing.assert_allclose(np.histogram(margins.before, margins.edges)[0], margins.counts)
    drawn = [method for method in contents.methods if "margins" in method.method.sections]
    assert set(margins.after) == {method.name for method in drawn}
    for method in drawn:
        kept = margins.after[method.name] / margins.before
        assert kept.min() >= 0 and kept.max() <= 1 + 1e-9, method.name  # Fisher's too, which is not orthonormal
    largest = {m.name: (margins.after[m.name] ** 2).sum() for m in drawn if len(m.components) == 5}
    assert max(largest, key=largest.get) == "m-pca2"  # by its definition
    model = load_model(output, "m-pca2")
    assert largest["m-pca2"] == pytest.approx(1797 * model.eigenvalues_.sum())
    assert model.certificate_["queries"] == 1797
    rows = {what: shown for what, shown, _ in contents.certificates["search"]}
    assert rows["rows searched for"] == "1,797" and rows["proved exact"] == rows["recall"] == "100%"
    assert "margins" in {figure["name"] for figure in results["report"]["figures"]}


def test_a_run_without_m_pca2_has_no_search_in_its_report(tmp_path):
    results = run(make_config(tmp_path / "out", "bundled:iris", methods=["pca", "fisher"], n_components=2))
    assert "search" not in results
    assert not any("margin" in figure["name"] for figure in results["report"]["figures"])
    html = (tmp_path / "out" / "report" / "index.html").read_text()
    assert "proved exact" not in html and 'id="search"' not in html
    assert len(lines(str(tmp_path / "out"))) == 1


def test_a_search_for_some_rows_tells_how_sure_it_is(tmp_path):
    recorder = Recorder()
    methods = ["pca", {"name": "m-pca2", "max_queries": 300}]
    config = make_config(tmp_path / "out", methods=methods, n_components=2)
    results = run(config, [recorder])
    rows = {what: shown for what, shown, _ in search_rows(config, results)}
    assert rows["rows searched for"] == "300 of 1,797"
    error = load_model(str(tmp_path / "out"), "m-pca2").certificate_["sampling_error"]
    shares = error["eigenvalues"] / load_model(str(tmp_path / "out"), "m-pca2").eigenvalues_
    assert rows["uncertainty of eigenvalues"] == ", ".join(f"{100 * share:.2g}%" for share in shares)
    assert rows["uncertainty of components"] == f"{error['angle']:.2g} degrees"
    assert lines(str(tmp_path / "out"))[1].startswith("search: 300 of 1,797 rows, 100% of them proved exact; ")
    (note,) = [note for note in recorder.notes if "M-PCA2" in note]
    assert "300 of 1,797 rows: the standard errors of its leading eigenvalues are" in note
    assert note in results["report"]["notes"]


@pytest.mark.e2e
def test_an_approximate_search_tells_its_recall(tmp_path):
    recorder = Recorder()
    config = make_config(
        tmp_path / "out", "synthetic:gaussian?n=20000&d=6", precision="single", n_components=2,
        methods=[{"name": "m-pca2", "search": "approximate", "recall": 0.9}], project={"methods": []},
    )  # fmt: skip
    results = run(config, [recorder])
    recall = results["search"]["certificate"]["recall"]
    assert recall["low"] >= 0.9
    shown = f"{recall['share']:.1%} ({recall['low']:.1%} to {recall['high']:.1%})"
    rows = {what: found for what, found, _ in search_rows(config, results)}
    angle = load_model(str(tmp_path / "out"), "m-pca2").certificate_["recall_angle"]
    assert rows["recall"] == shown and rows["what was missed"] == f"{angle:.2g} degrees"
    assert (
        f"20,000 rows, recall {shown}, {rows['proved exact']} of them proved exact; " in lines(str(tmp_path / "out"))[1]
    )
    assert any("approximate search" in note and shown in note for note in recorder.notes)


def test_what_was_not_measured_is_shown_as_absent(digits_run):
    """LOL's components solve no eigenvalue equation: no residual in the table of the methods nor in the report."""
    output, results, _ = digits_run
    rows = {row["method"]: row for row in components(output)}
    assert rows["lol"]["residual"] == "-"
    assert float(rows["pca"]["residual"]) < 1e-9
    contents = report_contents(
        RunDirectory(output), RunDirectory(output).config, open_dataset("bundled:digits"), results
    )
    shown = {m.name: eigenvalue_table(m).records() for m in contents.methods}
    assert {row["residual"] for row in shown["lol"]} == {"\N{EN DASH}"}
    assert "\N{EN DASH}" not in {row["residual"] for row in shown["pca"]}


@pytest.mark.parametrize(("proved", "shown"), [(1.0, "100%"), (0.99999, "99.99%"), (0.5, "50%"), (0.0, "0%")])
def test_the_proved_share_is_printed_and_full_only_where_it_is(proved, shown, tmp_path):
    """Also for records that hold less than a whole proof although no recall was measured."""
    certificate = {
        "proved_exact": proved, "recall": None, "queries": 9, "refined_per_query": 1, "compared_per_query": 1,
        "coordinates": [3, 0], "cells": 1, "bytes_read": 1, "scratch_bytes": 1,
    }  # fmt: skip
    search = {"certificate": certificate, "in_memory": True}
    results = Results(search=search, count={"n_rows": 9, "n_features": 3})
    config = make_config(tmp_path / "out", methods=["m-pca2"])
    assert summaries(config, results)[0].line().startswith(f"search: 9 rows, {shown} of them proved exact; ")
    rows = {what: found for what, found, _ in search_rows(config, results)}
    assert rows["proved exact"] == shown
    assert rows["recall"] == ("100%" if proved == 1 else "not measured")
