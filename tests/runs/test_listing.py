"""Runs below a folder, how far they are, and what is cleared away."""

import json
from pathlib import Path

import pytest
from helpers.resuming import Killed, Writes, no_report, results_hash, small_units
from helpers.tables import labelled, make_config, write_zarr

from mmpca_dist import run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.runs.listing import clean, find_runs, state_of
from mmpca_dist.stores.lease import held


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Return the settings of a run that died in the middle of a pass."""
    small_units(monkeypatch)
    no_report(monkeypatch)
    X, y = labelled(300, 6, 3, 5)
    rows = write_zarr(tmp_path / "rows.zarr", X, y, 10)
    config = make_config(tmp_path / "runs" / "b" / "deep", rows, methods=["pca"], n_components=2)
    writes = Writes(monkeypatch)
    writes.from_now(20, within="scratch/reduce")
    with pytest.raises(Killed):
        run(config)
    writes.from_now(None)
    return config


@pytest.mark.e2e
def test_runs_and_their_states(stopped, tmp_path):
    finished = make_config(tmp_path / "runs" / "a", methods=["pca", "lol"], n_components=2)
    run(finished)
    (tmp_path / "runs" / "c").mkdir()
    (tmp_path / "runs" / "c" / "run.json").write_text("{}")
    (tmp_path / "runs" / "d").mkdir()
    found = {state.uri.removeprefix(f"{tmp_path}/runs/"): state for state in find_runs(str(tmp_path / "runs"))}
    assert list(found) == ["a", "b/deep", "c"]
    assert [state.state for state in found.values()] == ["finished", "stopped", "unreadable"]
    assert (found["b/deep"].done, found["b/deep"].next) == (["count", "plan"], "reduce")
    assert found["b/deep"].scratch > 1000 and found["a"].scratch == 0
    assert found["b/deep"].words == "stopped at reduce; the same command goes on"
    assert found["a"].methods == ["pca", "lol"]


def test_a_run_that_is_worked_on_is_told_and_left_alone(stopped, mmpca):
    code, printed, told = mmpca("show", stopped.output)
    assert (code, printed) == (2, "") and "is not finished: stopped at reduce; the same command goes on" in told
    with held(stopped.output):
        state = state_of(RunDirectory(stopped.output))
        assert state.words.startswith("running reduce (process ")
        with pytest.raises(OutputError, match="in use by process"):
            clean(stopped.output)
    assert RunDirectory(stopped.output).has_checkpoints


def test_what_is_cleaned_is_begun_anew(stopped, tmp_path):
    (cleaned,) = clean(str(tmp_path / "runs"))
    assert cleaned.uri == stopped.output and cleaned.n_bytes > 1000
    assert str(cleaned).endswith("kiB of scratch removed; what is finished stays")
    assert [str(again) for again in clean(stopped.output)] == [f"{stopped.output}: no scratch, nothing removed"]
    run(stopped)
    whole = stopped.model_copy(update={"output": str(tmp_path / "whole")})
    run(whole)
    assert results_hash(stopped.output) == results_hash(whole.output)


@pytest.mark.parametrize("command", [clean, lambda uri: list(find_runs(uri))])
def test_folders_that_are_not_there(command, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        command(str(tmp_path / "gone"))
    if command is clean:
        with pytest.raises(InputError, match="no run in"):
            command(str(tmp_path))


def test_the_journal_tells_attempts_apart_and_what_came_of_them(stopped):
    run(stopped)
    lines = [json.loads(line) for line in Path(stopped.output, "events.jsonl").read_text().splitlines()]
    attempts = list(dict.fromkeys(line["attempt"] for line in lines))
    assert len(attempts) == 2 and len({line["run"] for line in lines}) == 1
    ends = [(line["state"], line.get("message")) for line in lines if line["event"] == "run-end"]
    assert ends == [("failed", "Killed"), ("finished", None)]
    second = [line for line in lines if line["attempt"] == attempts[1]]
    stages = [(line["stage"], line["reused"]) for line in second if line["event"] == "stage-end"]
    assert stages[:3] == [("count", True), ("plan", False), ("reduce", False)]
    assert {"bytes", "seconds", "memory", "passes"} <= set(
        next(line for line in second if line["event"] == "stage-end" and line["stage"] == "reduce")
    )
    assert any(line["event"] == "progress" and line["done"] == line["total"] for line in second)


def test_folders_of_other_programs_are_left_alone(stopped, tmp_path):
    other = tmp_path / "runs" / "other"
    (other / "scratch").mkdir(parents=True)
    (other / "run.json").write_text("{}")
    (other / "scratch" / "precious.txt").write_text("precious")
    second = stopped.model_copy(update={"output": str(tmp_path / "runs" / "second")})
    run(second)
    with held(second.output):
        cleaned = {Path(found.uri).name: str(found) for found in clean(str(tmp_path / "runs"))}
    assert "of scratch removed; what is finished stays" in cleaned["deep"]
    assert "left alone: " in cleaned["other"] and "may be written by another program" in cleaned["other"]
    assert ": left alone, as it is in use by process " in cleaned["second"] and len(cleaned) == 3
    assert (other / "scratch" / "precious.txt").exists()
    with pytest.raises(InputError, match="no run"):
        clean(str(other))
