"""What Prefect's pages show of a run: its stages, its report; and how often progress is told."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.operations import artifacts_of
from helpers.runs import make_config

from mmpca_dist.runs.transform_rows import TransformConfig
from mmpca_pipelines import artifacts
from mmpca_pipelines.artifacts import ArtifactCallback


def published(flow, config):
    """Run a flow, and return its artifacts."""
    state = flow(config, return_state=True)
    assert state.is_completed(), state.message
    return artifacts_of(state)


@pytest.mark.e2e
def test_a_fit_shows_its_stages_and_leads_to_its_report(prefect_server, tmp_path):
    from mmpca_pipelines.fit import fit_flow
    from mmpca_pipelines.transform import transform_flow

    output = tmp_path / "a run"
    config = make_config(output, "bundled:iris", methods=["pca", "m-pca2"], n_components=2)
    found = published(fit_flow, config)
    stages = json.loads(found["stages"])
    names = ["count", "plan", "reduce", "search", "solve", "project", "report"]
    assert [row["stage"] for row in stages] == names
    assert all(row["state"] == "done" and float(row["seconds"]) >= 0 for row in stages)
    by_name = {row["stage"]: row for row in stages}
    assert by_name["reduce"]["passes over the rows"] == "moments" and by_name["reduce"]["bytes"] == "4.69 kiB"
    assert by_name["solve"]["passes over the rows"] == by_name["solve"]["bytes"] == ""
    assert found["report-page"] == f"[Report]({Path(output, 'report', 'index.html').as_uri()})"
    assert "%20" in found["report-page"]

    again = json.loads(published(fit_flow, config)["stages"])
    assert [row["state"] for row in again] == ["done" if name == "plan" else "already done, reused" for name in names]

    new = {"output": str(output), "dataset": "bundled:iris", "destination": str(tmp_path / "new")}
    _, row = json.loads(published(transform_flow, TransformConfig(**new))["stages"])
    assert (row["stage"], row["state"], row["written"]) == ("project", "done", "4.69 kiB")


def test_progress_is_told_once_a_second(monkeypatch):
    """One of 100,000 spans in 50 seconds; the end always comes."""
    told, clock = [], [0.0]
    monkeypatch.setattr(artifacts.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(artifacts, "create_progress_artifact", lambda **_: "bar")
    monkeypatch.setattr(
        artifacts, "update_progress_artifact", lambda _, progress, **__: told.append((clock[0], progress))
    )
    now = SimpleNamespace(send=lambda request, *arguments, **keywords: request(*arguments, **keywords))
    callback = ArtifactCallback(now)
    for done in range(1, 100_001):
        clock[0] += 0.0005
        callback.on_progress("reduce", done, 100_000)
    assert told[-1][1] == 100.0
    assert 40 <= len(told) <= 52
    times = [at for at, _ in told]
    assert min(b - a for a, b in pairwise(times[:-1])) >= 1.0
