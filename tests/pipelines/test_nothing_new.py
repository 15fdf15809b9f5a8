"""Work that was done before ends as Cached, and Prefect tells of no asset; results hold what documents promise."""

import numpy as np
import pytest
from helpers.operations import wait_for
from helpers.tables import config_of

from mmpca_dist.runs.refresh import RefreshConfig
from mmpca_dist.runs.transform import TransformConfig

SETTINGS = {"methods": ["pca", "m-pca0"], "n_components": [1, 2]}


def task_of(state):
    """Return the state of the only task of a flow run."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    own = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        wait_for(lambda: any(one.state.is_final() for one in client.read_task_runs(flow_run_filter=own)), 60)
        (task,) = client.read_task_runs(flow_run_filter=own)
    return task.state.name


@pytest.mark.e2e
def test_a_refresh_or_transform_that_finds_nothing_new_is_cached(prefect_server, no_report, tmp_path):
    from mmpca_pipelines.fit import fit_flow
    from mmpca_pipelines.refresh import refresh_flow
    from mmpca_pipelines.transform import transform_flow

    assert fit_flow(config_of(tmp_path / "run", "bundled:iris", **SETTINGS), return_state=True).is_completed()
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    request = RefreshConfig(run=str(tmp_path / "run"), new=str(inbox), output=str(tmp_path / "live"))

    def arrive(name):
        y = np.repeat(["setosa", "versicolor", "virginica"], 10)
        np.savez(inbox / name, X=np.random.default_rng(0).standard_normal((30, 4)), y=y)

    arrive("a.npz")
    ends = [refresh_flow(request, return_state=True) for _ in range(2)]
    arrive("b.npz")
    ends += [refresh_flow(request, return_state=True) for _ in range(2)]
    assert [task_of(state) for state in ends] == ["Completed", "Cached", "Completed", "Cached"]
    new = TransformConfig(output=str(tmp_path / "run"), dataset=str(inbox / "a.npz"), destination=str(tmp_path / "new"))
    assert [task_of(transform_flow(new, return_state=True)) for _ in range(2)] == ["Completed", "Cached"]


@pytest.mark.e2e
def test_an_evaluation_returns_its_verdict(prefect_server, no_report, tmp_path):
    from mmpca_pipelines.evaluate import evaluate_flow

    result = evaluate_flow(config_of(tmp_path / "out", "bundled:iris", **SETTINGS))
    assert set(result) == {"folder", "report", "answer", "verdict"}
    assert result["verdict"] and result["answer"] and result["verdict"] != result["answer"]
