"""A night's rows against those of a run: which do not belong, and which classes moved."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from helpers.devtools import tab_of_chromium
from helpers.pictures import Read
from helpers.reports import check_page
from helpers.tables import labelled, write_zarr
from scipy.stats import betabinom, binom

from mmpca_dist import class_moments, load_model, run
from mmpca_dist.configuration.requests import MonitorConfig
from mmpca_dist.errors import InputError
from mmpca_dist.runs.monitor import in_words, monitor
from mmpca_dist.runs.monitor_page import control_chart
from mmpca_pipelines import ALARM
from mmpca_pipelines.cli import cli

NAMES = [f"f{j}" for j in range(6)]


def stored(folder, name, X, y=None):
    frame = pd.DataFrame(X, columns=NAMES)
    frame.assign(**({} if y is None else {"label": y})).to_parquet(folder / name)
    return str(folder / name)


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """A run, and a way to monitor rows by it."""
    folder = tmp_path_factory.mktemp("monitor")
    X, y = labelled(3000, 6, 3, 5)
    names = np.array(["a", "b", "c"])[y]
    settings = {"methods": ["m-pca0", "pca"], "n_components": 4, "precision": "double", "belonging": {"alpha": 0.05}}
    dataset = {"uri": stored(folder, "rows.parquet", X[:2400], names[:2400])}
    run({"dataset": dataset, "output": str(folder / "run"), **settings})

    def monitored(name, X, y=None, **options):
        return monitor(MonitorConfig(run=str(folder / "run"), dataset=stored(folder, name, X, y), **options))

    return folder, X, names, monitored


def test_a_night_like_the_rows_raises_no_alarm(night):
    _, X, y, monitored = night
    record = monitored("same.parquet", X[2400:], y[2400:])
    assert record["rows"] == 600
    assert record["outside"] < 45
    assert (record["moved"], record["new"], record["alarm"]) == ([], [], False)
    assert {one["class"] for one in record["classes"]} == {"a", "b", "c"}


def test_a_class_that_moved_is_named_with_its_columns(night):
    folder, X, y, monitored = night
    moved = X[2400:].copy()
    moved[y[2400:] == "b", 2] += 3 * X[:, 2].std()
    record = monitored("moved.parquet", moved, y[2400:], method="m-pca0")
    assert record["moved"] == ["b"]
    assert record["alarm"]
    model = load_model(str(folder / "run"), "m-pca0")
    stored_moments, arriving = (
        class_moments(model.transform(rows), labels, precision="double")
        for rows, labels in ((X[:2400], y[:2400]), (moved, y[2400:]))
    )
    expected = stored_moments.drift(arriving)
    for one, own in zip(record["classes"], expected.classes, strict=True):
        np.testing.assert_allclose(
            [one["F"], one["p"], one["distance"]], [own.statistic, own.adjusted, own.distance], rtol=1e-6
        )
    told = next(one for one in record["classes"] if one["class"] == "b")
    assert told["columns"][0] == "f2"
    assert "The class b moved by" in in_words(record)


@pytest.mark.parametrize("way", ["--no-prefect", pytest.param("--prefect", marks=pytest.mark.e2e)])
def test_the_command_ends_with_a_code_of_its_own_for_an_alarm(night, way, request):
    """In a flow as without one; a night like the rows ends with 0."""
    if way == "--prefect":
        request.getfixturevalue("prefect_server")
    folder, X, y, _ = night
    moved = X[2400:] + 3 * (y[2400:, None] == "b")
    for name, rows, code in (("calm.parquet", X[2400:], 0), ("alarm.parquet", moved, ALARM)):
        uri = stored(folder, name, rows, y[2400:])
        done = CliRunner().invoke(cli, ["monitor", str(folder / "run"), uri, way], catch_exceptions=False)
        assert done.exit_code == code, done.output
        assert ("The class b moved by" in done.output) == (code == ALARM)


def test_rows_that_are_far_out_are_listed(night):
    _, X, _, monitored = night
    rows = X[2400:2500].copy()
    rows[[7, 40]] *= 50
    record = monitored("out.parquet", rows)
    assert {one["row"] for one in record["farthest"][:2]} == {7, 40}
    assert [one["row"] for one in record["why"]] == [one["row"] for one in record["farthest"][:3]]
    assert "classes" not in record
    assert record["outside"] >= 2


def test_columns_of_rows_that_are_far_out_are_told_with_bars(night):
    """Of text, too, which is converted for it once more, and of which nothing stays."""
    folder, X, _, monitored = night
    rows = X[2400:2500].copy()
    rows[7, 3] += 100
    record = monitored("far.parquet", rows)
    model = load_model(str(folder / "run"), record["method"])
    told = record["why"][0]
    (parts,) = model.contributions(rows[[7]], told["score"])
    assert told["row"] == 7
    first = NAMES[np.argmax(parts)]
    assert told["columns"][0] == [first, pytest.approx(parts.max() / parts.sum(), rel=1e-6)]
    assert f"  {first}  {24 * '#'}  {100 * told['columns'][0][1]:.1f}%" in in_words(record).splitlines()
    pd.read_parquet(folder / "far.parquet").to_csv(folder / "far.csv", index=False)
    again = monitor(MonitorConfig(run=str(folder / "run"), dataset=str(folder / "far.csv")))
    assert again["why"][0]["columns"][0][0] == first
    assert {path.suffix for path in (folder / "run-monitor").iterdir()} <= {".zarr", ".json", ".html"}


def test_the_page_has_the_chart_of_all_nights_and_the_classes(night):
    folder, X, y, monitored = night
    moved = X[2400:].copy()
    moved[y[2400:] == "b", 2] += 3 * X[:, 2].std()
    records = [monitored(f"chart{i}.parquet", rows, y[2400:], method="pca", output=str(folder / "chart"))
               for i, rows in enumerate((X[2400:], moved))]  # fmt: skip
    nights = json.loads((folder / "chart" / "history.json").read_text())["nights"]
    assert nights == records
    page = check_page((folder / "chart" / "monitor.html").read_text())
    assert {"nights", "drift", "outlying"} <= {*page.ids}
    assert f"{records[1]['outside'] / 600:.1%}" in page.text
    left, right = map(Read, control_chart(nights).panels)
    shares = [[i, one["outside"] / one["rows"]] for i, one in enumerate(nights, 1)]
    np.testing.assert_allclose(np.concatenate([left.points("faint"), left.points("c1")]), shares, atol=0.003)
    limit = binom.isf(0.05, 600, 0.05) / 600
    np.testing.assert_allclose(left.lines("ink")[0][:, 1], limit, atol=0.003)
    assert [text for text in right.texts if text in ("a", "b", "c")] == records[1]["moved"] == ["b"]


@pytest.mark.e2e
def test_the_page_fits_a_phone(night, tmp_path):
    _, X, y, monitored = night
    record = monitored("phone.parquet", X[2400:], np.where(y[2400:] == "c", "a new class <b>", y[2400:]))
    scrolling = "[...document.querySelectorAll('.wide')].filter(each => each.scrollWidth > each.clientWidth).length"
    with tab_of_chromium(tmp_path) as tab:
        tab.ask("Emulation.setScrollbarsHidden", hidden=True)
        for width in (385, 400, 1100):
            tab.size(width, 900)
            tab.open(Path(record["page"]))
            assert tab.run("document.documentElement.scrollWidth") <= width
            assert tab.run(scrolling) == 0
        assert "a new class <b> is new." in tab.run("document.querySelector('.answer').innerText")
        assert tab.complaints == []


def test_new_classes_alarm_and_the_history_keeps_each_night_once(night):
    """A file that has other rows the next night is another night."""
    folder, X, y, monitored = night
    for _ in range(2):
        record = monitored("new.parquet", X[2400:], np.where(y[2400:] == "c", "d", y[2400:]))
    assert record["new"] == ["d"]
    assert record["alarm"]
    later = monitored("new.parquet", X[2400:2600], y[2400:2600])
    assert (later["rows"], later["new"]) == (200, [])
    nights = json.loads((folder / "run-monitor" / "history.json").read_text())["nights"]
    assert [one for one in nights if one["dataset"] == record["dataset"]] == [record, later]


def test_numbers_to_predict_are_no_classes(tmp_path):
    X, _ = labelled(300, 6, 3, 5)
    pd.DataFrame(X, columns=NAMES).assign(t=X[:, 0] * 2).to_parquet(tmp_path / "rows.parquet")
    dataset, settings = {"uri": str(tmp_path / "rows.parquet"), "target": "t"}, {"methods": "pls", "n_components": 2}
    run({"dataset": dataset, "output": str(tmp_path / "run"), "belonging": {"alpha": 0.05}, **settings})
    record = monitor(MonitorConfig(run=str(tmp_path / "run"), dataset=dataset["uri"]))
    assert "classes" not in record
    assert "drift" not in check_page((tmp_path / "run-monitor" / "monitor.html").read_text()).ids


def test_a_run_without_belonging_is_refused(tmp_path):
    X, y = labelled(60, 6, 2, 5)
    uri = stored(tmp_path, "rows.parquet", X, y)
    run({"dataset": {"uri": uri}, "methods": "pca", "n_components": 2, "output": str(tmp_path / "run")})
    with pytest.raises(InputError, match="keeps nothing that tells whether rows belong"):
        monitor(MonitorConfig(run=str(tmp_path / "run"), dataset=uri))


def test_methods_without_components_and_levels_that_no_row_reaches_are_refused(tmp_path):
    """By default the first method of the configuration that has components tells of the night."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 6)), np.repeat([1, 2], 100)
    X[y == 2] = -X[y == 1]
    X -= np.repeat([X[y == 1].mean(axis=0), X[y == 2].mean(axis=0)], 100, axis=0)
    write_zarr(tmp_path / "rows.zarr", X, y, 50)
    run({
        "dataset": {"uri": str(tmp_path / "rows.zarr")}, "methods": ["fisher", "pca", "m-pca0"], "n_components": 2,
        "precision": "double", "belonging": {"alpha": 0.05}, "output": str(tmp_path / "run"),
    })  # fmt: skip
    night = {"run": str(tmp_path / "run"), "dataset": str(tmp_path / "rows.zarr")}
    record = monitor(MonitorConfig(**night))
    assert record["method"] == "pca"
    assert "By PCA, " in in_words(record)
    assert "No alarm." in in_words(record)
    with pytest.raises(InputError, match=r"The method fisher of the run in .* has no components"):
        monitor(MonitorConfig(**night, method="fisher"))
    with pytest.raises(InputError, match="that takes 2,999 rows"):
        monitor(MonitorConfig(**night, alpha=0.001))


def test_nights_like_the_run_raise_an_alarm_as_often_as_alpha_says():
    """Limits are ranks among few scores: with a share of exactly alpha, one night in five would alarm at 1%."""
    rng, alarms, (held_out, n, alpha) = np.random.default_rng(0), 0, (500, 5000, 0.01)
    beyond = int(alpha * (held_out + 1))
    most = betabinom(n, beyond, held_out + 1 - beyond).isf(alpha)
    for _ in range(2000):
        limit = np.sort(rng.chisquare(3, held_out))[-beyond]
        alarms += np.count_nonzero(rng.chisquare(3, n) >= limit) > most
    assert alarms <= 2000 * alpha + 3 * np.sqrt(2000 * alpha)
    assert alarms >= 4
