"""What Prefect's pages show of a run: its stages, its report; and how often progress is told."""

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.faulty_s3 import KEYS
from helpers.operations import artifacts_of, tasks_of
from helpers.tables import config_of, labelled, make_config, write_npz

from mmpca_dist.errors import InputError
from mmpca_dist.runs.refresh import RefreshConfig
from mmpca_dist.runs.transform import TransformConfig
from mmpca_pipelines import artifacts
from mmpca_pipelines.artifacts import ArtifactCallback, Artifacts


def published(flow, config):
    """Run a flow, and return its artifacts."""
    state = flow(config, return_state=True)
    assert state.is_completed(), state.message
    return artifacts_of(state)


@pytest.mark.e2e
def test_a_fit_shows_its_stages_and_leads_to_its_report(prefect_server, tmp_path):
    from mmpca_pipelines.entrypoints import fit_flow, transform_flow

    output = tmp_path / "a run"
    config = make_config(output, "bundled:iris", methods=["pca", "m-pca2"], n_components=2)
    found = published(fit_flow, config)
    stages = json.loads(found["a-run-stages"])
    names = ["count", "plan", "reduce", "search", "solve", "project", "report"]
    assert [row["stage"] for row in stages] == names
    assert all(row["state"] == "done" and float(row["seconds"]) >= 0 for row in stages)
    by_name = {row["stage"]: row for row in stages}
    assert by_name["reduce"]["passes over the rows"] == "moments" and by_name["reduce"]["bytes"] == "4.69 kiB"
    assert by_name["solve"]["passes over the rows"] == by_name["solve"]["bytes"] == ""
    page = found["a-run-result"]
    assert f"\n{Path(output, 'report', 'index.html').as_uri()}\n" in page and "](file:" not in page
    assert f"mmpca show '{output}'" in page and "![" in page
    scope: dict = {}
    code = re.search("```\n(from mmpca_dist import .*\n)Z = ", page, re.S)
    exec(code[1], scope)  # noqa: S102
    assert scope["model"].components_.shape == (2, 4)
    assert all(key is None or key.startswith("a-run-") for key in found)

    again = json.loads(published(fit_flow, config)["a-run-stages"])
    assert [row["state"] for row in again] == ["done" if name == "plan" else "already done, reused" for name in names]

    new = {"output": str(output), "dataset": "bundled:iris", "destination": str(tmp_path / "new")}
    _, row = json.loads(published(transform_flow, TransformConfig(**new))["new-stages"])
    assert (row["stage"], row["state"], row["written"]) == ("project", "done", "4.69 kiB")


@pytest.mark.e2e
def test_a_flow_run_is_named_tagged_and_returns_what_other_flows_use(prefect_server, tmp_path):
    from mmpca_pipelines.entrypoints import fit_flow

    made, emitted = str(tmp_path / "one"), []
    content = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca2"], "n_components": 2, "output": made}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prefect.events.emit_event", lambda **event: emitted.append(event))
        state = fit_flow(content, return_state=True)
        again = fit_flow(content, return_state=True)
    assert state.result() == {"folder": made, "report": f"{made}/report/index.html", "models": ["pca", "m-pca2"]}
    run, tasks = tasks_of(state, 7)
    assert run.name == "fit iris: 2 methods" and {"mmpca", "fit"} <= set(run.tags)
    assert [one.name for one in tasks][-3:] == [
        "Solve for components: pca, m-pca2", "Project rows: pca, m-pca2", "Write the report",
    ]  # fmt: skip
    for before, after in pairwise(tasks):
        assert [one.id for one in after.task_inputs["wait_for"]] == [before.id]
    done = [event for event in emitted if event["event"] == "prefect.asset.materialization.succeeded"]
    lineage = {e["resource"]["prefect.resource.id"]: {one["prefect.resource.id"] for one in e["related"]} for e in done}
    model, rows = f"file://{made}/model", "bundled://iris"
    assert lineage == {model: {rows, "mmpca"}, f"file://{made}/projected": {rows, model, "mmpca"}}
    assert len(done) == 2  # the second run made nothing
    assert [one.state_name for one in tasks_of(again, 7)[1]].count("Cached") == len(tasks) - 1  # all but the plan


@pytest.mark.e2e
def test_a_refresh_or_transform_that_finds_nothing_new_is_cached(prefect_server, no_report, tmp_path):
    from mmpca_pipelines.entrypoints import fit_flow, refresh_flow, transform_flow

    def ended(flow, config):
        (task,) = tasks_of(flow(config, return_state=True))[1]
        return task.state.name

    assert fit_flow(
        config_of(tmp_path / "run", "bundled:iris", methods=["pca", "m-pca0"], n_components=[1, 2]), return_state=True
    ).is_completed()
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    request = RefreshConfig(run=str(tmp_path / "run"), new=str(inbox), output=str(tmp_path / "live"))

    def arrive(name):
        y = np.repeat(["setosa", "versicolor", "virginica"], 10)
        np.savez(inbox / name, X=np.random.default_rng(0).standard_normal((30, 4)), y=y)

    arrive("a.npz")
    ends = [ended(refresh_flow, request) for _ in range(2)]
    arrive("b.npz")
    ends += [ended(refresh_flow, request) for _ in range(2)]
    assert ends == ["Completed", "Cached", "Completed", "Cached"]
    new = TransformConfig(output=str(tmp_path / "run"), dataset=str(inbox / "a.npz"), destination=str(tmp_path / "new"))
    assert [ended(transform_flow, new) for _ in range(2)] == ["Completed", "Cached"]


@pytest.mark.e2e
def test_rows_that_moved_are_an_event_a_count_and_what_a_flow_returns(prefect_server, no_report, tmp_path):
    """A monitor, a refresh that notes and one that refuses; the second of these adds nothing."""
    from mmpca_pipelines.entrypoints import fit_flow, monitor_flow, refresh_flow

    X, y = labelled(400, 4, 2, seed=3)
    fit = config_of(tmp_path / "run", write_npz(tmp_path / "rows.npz", X[:300], y[:300]), methods=["m-pca0"],
                    n_components=2, belonging={"alpha": 0.05})  # fmt: skip
    assert fit_flow(fit, return_state=True).is_completed()
    moved = X[300:] + 6 * (y[300:, None] == 1)
    run, new = str(tmp_path / "run"), write_npz(tmp_path / "new.npz", moved, y[300:])
    sent, before = [], {job: artifacts.ALARMS.labels(job)._value.get() for job in ("monitor", "refresh")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "emit_event", lambda event, resource, payload: sent.append((event, resource, payload)))
        state = monitor_flow({"run": run, "dataset": new}, return_state=True)
        refused, noted = (
            refresh_flow({"run": run, "new": new, "output": str(tmp_path / "live"), "drift": drift}, return_state=True)
            for drift in ("refuse", "note")
        )
    result = state.result()
    assert (result["alarm"], result["moved"], result["rows"]) == (True, ["1"], 100)
    assert f"{result['outside']} of 100 rows" in state.message and "The class 1 moved by" in state.message
    page = artifacts_of(state)["monitor-result"]
    assert "The class 1 moved by" in page and result["rows_at"] in page
    assert tasks_of(state)[0].name == "monitor new.npz with run"
    assert (refused.name, noted.name) == ("Refused", "Completed") and "not taken in" in refused.message
    assert [event for event, *_ in sent] == ["mmpca.monitor.alarm", "mmpca.refresh.alarm", "mmpca.refresh.alarm"]
    for _, resource, payload in sent:
        assert resource["prefect.resource.id"] == f"mmpca.dataset.{new}" and "The class 1 moved by" in payload["words"]
    counts = {job: artifacts.ALARMS.labels(job)._value.get() - before[job] for job in before}
    assert counts == {"monitor": 1, "refresh": 2}


@pytest.mark.e2e
def test_a_refusal_is_one_line_of_the_log_and_an_error_of_ours_to_other_flows(prefect_server, tmp_path, caplog):
    from prefect import flow

    from mmpca_pipelines.entrypoints import fit_flow

    bad = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": 9, "output": str(tmp_path / "bad")}
    with caplog.at_level("INFO"), pytest.raises(InputError, match="more than the 4 features"):
        flow(name="outer")(lambda: fit_flow(bad))()
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert errors and not any(record.exc_info for record in errors) and "Traceback" not in caplog.text


@pytest.mark.e2e
def test_credentials_come_from_a_block_and_stay_in_it(prefect_server, bucket, monkeypatch, caplog):
    """Only the block leads to the store; other variables, and blocks that are not there, are refused."""
    from prefect.blocks.system import Secret

    from mmpca_pipelines.entrypoints import ingest_flow

    secret = {**KEYS, "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]}
    for name in secret:
        monkeypatch.delenv(name)
    Secret(value=secret).save("store", overwrite=True)
    Secret(value={"PYTHONPATH": "hunter2"}).save("other", overwrite=True)
    config = {"source": "bundled:iris", "destination": f"{bucket}/iris.zarr"}
    with caplog.at_level("DEBUG"):
        ends = [ingest_flow(config, name, return_state=True) for name in ("store", "other", "nowhere")]
    assert [state.name for state in ends] == ["Completed", "Refused", "Refused"], ends
    assert "must hold a JSON object" in ends[1].message and "no Secret block 'nowhere'" in ends[2].message
    assert not set(secret) & set(os.environ)
    shown = [caplog.text, str(artifacts_of(ends[0])), *(state.message for state in ends)]
    assert not [text for text in shown if "hunter2" in text]


def test_progress_is_told_once_a_second(monkeypatch):
    """One of 100,000 spans in 50 seconds; the end always comes."""
    told, clock = [], [0.0]
    monkeypatch.setattr(artifacts.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Artifacts, "show", lambda *_, progress: told.append((clock[0], progress)))
    callback = ArtifactCallback(Artifacts(SimpleNamespace(), "run"))
    for done in range(1, 100_001):
        clock[0] += 0.0005
        callback.on_progress("reduce", done, 100_000)
    assert told[-1][1] == 100.0
    assert 40 <= len(told) <= 52
    times = [at for at, _ in told]
    assert min(b - a for a, b in pairwise(times[:-1])) >= 1.0
