"""What a run and its report tell of the search for nearest rows."""

import pytest
from helpers.runs import Recorder
from helpers.tables import make_config

from mmpca_dist import load_model, run
from mmpca_dist.jobs.records import Results
from mmpca_dist.results.certificates import search_rows, summaries
from mmpca_dist.results.evaluation_result import result_in


def test_a_run_without_m_pca2_has_no_search_in_its_report(tmp_path):
    results = run(make_config(tmp_path / "out", "bundled:iris", methods=["pca", "fisher"], n_components=2))
    assert "search" not in results
    assert not any("margin" in figure["name"] for figure in results["report"]["figures"])
    html = (tmp_path / "out" / "report" / "index.html").read_text()
    assert "proved exact" not in html and 'id="search"' not in html
    assert not result_in(str(tmp_path / "out")).words


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
    assert (
        result_in(str(tmp_path / "out")).words[0].startswith("search: 300 of 1,797 rows, 100% of them proved exact; ")
    )
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
        f"20,000 rows, recall {shown}, {rows['proved exact']} of them proved exact; "
        in result_in(str(tmp_path / "out")).words[0]
    )
    assert any("approximate search" in note and shown in note for note in recorder.notes)


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
