"""Deployments, schedules and hooks, on a Prefect server with a worker; and what their files say."""

import json
from inspect import get_annotations

import pytest
import yaml
from helpers.__init__ import ROOT
from helpers.operations import wait_for
from prefect.events.schemas.automations import AutomationCore
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema

from mmpca_dist.configuration.schema import RunConfig, parse_config
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.runs.fit import stages_of
from mmpca_pipelines import artifacts
from mmpca_pipelines.artifacts import ArtifactCallback, Artifacts
from mmpca_pipelines.deployment_steps import require_store
from mmpca_pipelines.flows import as_model

STORE = "{{ $MMPCA_STORE }}"
FILES = ("prefect.yaml", "prefect-docker.yaml", "prefect-kubernetes.yaml")
SMALL = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca0"], "n_components": [2]}


def conf(name):
    return yaml.safe_load((ROOT / "conf" / name).read_text())


def deployments(name):
    return {item["entrypoint"]: item for item in conf(name)["deployments"]}


@pytest.mark.parametrize("name", FILES)
def test_deployments_are_sound(name):
    """Their flows are there, their parameters valid, and what begins by itself is only the quickstart."""
    for entrypoint, deployment in deployments(name).items():
        flow = load_flow_from_entrypoint(entrypoint)
        assert flow.version and flow.on_crashed_hooks and flow.on_cancellation_hooks
        model = get_annotations(flow.fn, eval_str=True)["config"]
        given = [deployment.get("parameters"), *[s.get("parameters") for s in deployment.get("schedules", [])]]
        for parameters in filter(None, given):
            as_model(model, parameters["config"])
        begins = [s for s in deployment.get("schedules", []) if s.get("active", True)]
        assert not begins or deployment["parameters"]["config"]["dataset"]["uri"] == "bundled:digits"
        assert deployment["concurrency_limit"]["collision_strategy"] in ("ENQUEUE", "CANCEL_NEW")
        assert deployment["description"] and "mmpca" in deployment["tags"]


@pytest.mark.parametrize("name", ["automations.yaml", "notifications.yaml"])
def test_automations_are_sound_and_know_every_flow_and_alarm(name):
    """Prefect takes them; what they listen to are the flows and the events that flows send."""
    flows = {load_flow_from_entrypoint(where).name for where in deployments("prefect.yaml")}
    bad_ends, alarms = (AutomationCore.model_validate(each) for each in conf(name)["automations"])
    assert set(bad_ends.trigger.match_related["prefect.resource.name"]) == flows
    sent, runs = [], Artifacts(None, "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "emit_event", lambda *event, payload: sent.append(event))
        for job in ("refresh", "monitor"):
            ArtifactCallback(runs).on_alarm(job, "rows.parquet", "words")
    assert alarms.trigger.expect <= {event for event, _ in sent}
    assert all(alarms.trigger.match.matches(resource) for _, resource in sent)


def test_the_page_on_operations_names_all_deployments():
    page = (ROOT / "docs" / "operations.md").read_text()
    names = {f"{load_flow_from_entrypoint(where).name}/{d['name']}" for where, d in deployments("prefect.yaml").items()}
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_the_scheduled_fit_is_the_quickstart():
    parameters = deployments("prefect.yaml")["mmpca_pipelines.entrypoints.fit_flow"]["parameters"]["config"]
    assert parse_config(parameters, "the deployment") == parse_config(conf("quickstart.yaml"), "the file")


def test_all_work_pools_get_the_same_deployments():
    """The files differ in the work pool, the name, and where files are."""

    def common(name):
        text = yaml.safe_dump(conf(name)["deployments"]).replace(f"{STORE}/", "")
        found = {d["entrypoint"]: d for d in yaml.safe_load(text)}
        for deployment in found.values():
            pool = deployment.pop("work_pool")["name"]
            deployment["name"] = deployment["name"].removesuffix(f"-{pool}")
        return found

    assert common(FILES[0]) == common(FILES[1]) == common(FILES[2])
    for name in FILES[1:]:
        pool = conf(name)["deployments"][0]["work_pool"]
        assert pool["job_variables"]["image"] == "mmpca-dist:local"


def addresses(value, key=""):
    """Return all addresses among parameters, by the keys that hold them."""
    if isinstance(value, dict):
        return [found for name, inner in value.items() for found in addresses(inner, name)]
    if isinstance(value, list):
        return [found for inner in value for found in addresses(inner, key)]
    return [value] if key in ("source", "destination", "output", "uri", "dataset", "run", "new") else []


def test_a_pod_reads_and_writes_in_the_store_alone():
    """Its own disk is lost with it."""
    found = addresses(conf("prefect-kubernetes.yaml")["deployments"])
    assert len(found) >= 11
    assert [one for one in found if not one.startswith((f"{STORE}/", "bundled:"))] == []


@pytest.mark.parametrize(("store", "expected"), [
    ("", "MMPCA_STORE is not set"), ("/data", "is '/data'"), ("runs", "is 'runs'"), ("file:///data", "lost"),
    ("s3://bucket/", "empty part"), ("memory://x", "lost"), ("s3:/bucket", "lost"),
])  # fmt: skip
def test_a_store_that_a_pod_would_lose_is_refused_as_it_is_deployed(store, expected):
    with pytest.raises(InputError, match=expected):
        require_store(store)
    for good in ("s3://bucket", "gs://bucket/folder", "abfs://container@account.dfs.core.windows.net/x"):
        require_store(good)


@pytest.mark.parametrize("entrypoint", deployments("prefect.yaml"))
def test_forms_show_every_setting_by_its_name_with_an_explanation(entrypoint):
    schema = parameter_schema(load_flow_from_entrypoint(entrypoint)).model_dump()
    models = schema["definitions"]
    assert models
    for model in models.values():
        assert model["description"] and "----" not in model["description"]
        for name, field in model["properties"].items():
            if "$ref" in field:
                continue
            assert field["title"] == name
            assert len(field["description"]) > 10 and field["examples"]
            assert "prefixItems" not in str(field)  # forms know no pairs
            if name == "methods" and "minItems" in field:  # others are labels of these
                assert str(list(METHODS)) in str(field)


@pytest.mark.parametrize(("model", "given", "expected"), [
    (IngestConfig, {"source": "a", "destination": "b", "lable": "y"}, "Unknown key 'lable'. Did you mean 'label'?"),
    (RunConfig, {**SMALL, "output": "a", "methods": ["pc"]}, "unknown method 'pc'"),
    (RunConfig, "x", "There must be keys and values (found 'x')."),
])  # fmt: skip
def test_mistakes_in_parameters_are_told_as_those_in_files(model, given, expected):
    with pytest.raises(ConfigError) as caught:
        as_model(model, given)
    assert str(caught.value).startswith("The parameters of this run: ")
    assert expected in str(caught.value)


@pytest.mark.server
def test_a_scheduled_run_fires_completes_and_leaves_its_artifacts(operations):
    """Prefect 3.8 with SQLAlchemy 2.1 looked healthy, and never created a scheduled run."""
    deployment = operations.api("/deployments/name/fit/daily-quickstart")["id"]
    config = {**SMALL, "methods": ["pca", "m-pca2"], "output": str(operations.folder / "scheduled")}
    schedule = {"active": True, "schedule": {"interval": 5}, "parameters": {"config": config}}
    scheduled = operations.api(f"/deployments/{deployment}/schedules", [schedule])[0]["id"]

    def fired():
        wanted = {"deployments": {"id": {"any_": [deployment]}}, "flow_runs": {"start_time": {"is_null_": False}}}
        found = operations.api("/flow_runs/filter", wanted)
        return [run["id"] for run in found if run["auto_scheduled"]]

    first = wait_for(fired, 120)[0]
    operations.api(f"/deployments/{deployment}/schedules/{scheduled}", method="DELETE")
    run = operations.ended(first)
    assert run["state_type"] == "COMPLETED", run["state"]
    assert run["parameters"]["config"] == config
    assert run["state"]["message"].startswith("Report: ")
    assert {"mmpca", "fit"} <= set(run["tags"])
    found = operations.artifacts(first)
    stages = [stage.name for stage in stages_of(parse_config(config, "the test"))]
    assert "search" in stages
    shown = {"plan", "components", "search", "stages", "progress", "result", "figure-projection"}
    assert {f"scheduled-{name}" for name in shown} <= set(found)
    assert found["scheduled-progress"]["data"] == 100
    assert [row["stage"] for row in json.loads(found["scheduled-stages"]["data"])] == stages
    tasks = operations.api("/task_runs/filter", {"task_runs": {"flow_run_id": {"any_": [first]}}})
    titles = [stage.title for stage in stages_of(parse_config(config, "the test"))]
    assert [task["name"].split(": ")[0] for task in sorted(tasks, key=lambda t: t["start_time"])] == titles
    assert len(tasks) <= 50
