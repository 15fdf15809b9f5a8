"""Runs that are refused, cancelled, or killed, on a Prefect server with workers, hooks and automations."""

import http.server
import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml
from helpers.operations import wait_for
from helpers.resuming import results_hash
from helpers.tables import labelled, write_npz

from mmpca_dist import run
from mmpca_dist.configuration import bundled

pytestmark = pytest.mark.server

SMALL = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": [2]}
SILENT = 40
"""Seconds; heartbeats come every 30, which is the least that Prefect takes."""
LONG = {"dataset": {"uri": "synthetic:gaussian?n=40000000&d=64"}, "methods": ["pca"], "n_components": [2]}


def begun(operations, identifier, output):
    """Wait until a run reads rows, and return the process of its flow."""
    plan = output / "records" / "plan.json"
    wait_for(plan.exists, 180, lambda: operations.log_of(identifier))
    return psutil.Process(int(operations.run(identifier)["infrastructure_pid"]))


@pytest.mark.parametrize(("change", "expected"), [
    ({"dataset": {"uri": "no/such.zarr"}}, "no/such.zarr"),
    ({"project": {"methods": ["lol"]}}, "project.methods names 'lol', which is not among pca."),
])  # fmt: skip
def test_a_mistake_ends_a_run_as_refused_with_one_sentence(operations, change, expected):
    bad = {**SMALL, "output": str(operations.folder / "bad"), **change}
    run = operations.ended(operations.start("fit/daily-quickstart", bad))
    assert (run["state_type"], run["state_name"]) == ("FAILED", "Refused")
    assert expected in run["state"]["message"]
    assert "Traceback" not in operations.log_of(run["id"])
    assert not (operations.folder / "bad").exists()


def test_the_form_refuses_what_its_schema_excludes(operations):
    with pytest.raises(OSError, match=r"409|422"):
        operations.start("fit/daily-quickstart", {**SMALL, "output": "bad", "methods": ["m-pca"]})


def test_tables_are_ingested_and_projected_by_deployments(operations, tmp_path):
    (tmp_path / "table.csv").write_text("a,b,species\n" + "".join(f"{i},{i * i % 7},{i % 2}\n" for i in range(30)))
    table, output, new = str(tmp_path / "table.zarr"), str(tmp_path / "run"), str(tmp_path / "new")
    np.savez(tmp_path / "more.npz", X=np.random.default_rng(0).standard_normal((10, 2)), y=np.arange(10) % 2)
    more = {"run": output, "new": str(tmp_path / "more.npz"), "output": str(tmp_path / "live")}
    steps = [
        (
            "ingest/nightly-table",
            {"source": str(tmp_path / "table.csv"), "destination": table, "label": "2"},
            "30 rows of 2",
        ),
        (
            "fit/daily-quickstart",
            {"dataset": {"uri": table}, "methods": ["pca"], "n_components": [1], "output": output},
            "Report: ",
        ),
        ("refresh/hourly-inbox", more, "10 rows taken up from more.npz"),
        ("transform/new-rows", {"output": output, "dataset": table, "destination": new}, "30 rows, with their labels"),
    ]
    for deployment, config, message in steps:
        run = operations.ended(operations.start(deployment, config))
        assert run["state"]["message"].startswith(message), operations.log_of(run["id"])
        assert run["state_type"] == "COMPLETED"


def test_a_cancelled_run_is_cancelled_in_all_its_parts_and_its_retry_goes_on_inside_the_stage(operations):
    output = operations.folder / "cancelled"
    identifier = operations.start(
        "fit/daily-quickstart", {**LONG, "output": str(output), "compute": {"cluster": "local", "workers": 1}}
    )
    process = begun(operations, identifier, output)
    family = [process, *process.children(recursive=True)]
    groups = output / "scratch" / "reduce" / "passes" / "001-moments"
    wait_for(lambda: groups.exists() and sum(1 for _ in groups.iterdir()) >= 6, 180)
    operations.prefect("flow-run", "cancel", identifier)
    assert operations.ended(identifier)["state_type"] == "CANCELLED"
    operations.tells(identifier, f"it goes on in {output}")
    log = operations.log_of(identifier)
    assert not [word for word in ("running hook", "Crash", "Traceback", "Finished in state Running") if word in log]
    tasks = operations.api("/task_runs/filter", {"task_runs": {"flow_run_id": {"any_": [identifier]}}})
    assert sorted(task["state_name"] for task in tasks) == ["Cancelled", "Completed", "Completed"]
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive

    operations.prefect("flow-run", "retry", identifier)
    journal = output / "events.jsonl"

    def resumed():
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        again = [event for event in events if event["attempt"] != events[0]["attempt"]]
        return [event for event in again if event["event"] == "progress" and event["stage"] == "reduce"]

    first = wait_for(resumed, 180, lambda: operations.log_of(identifier))[0]
    assert first["done"] > 2  # from the start it would be 1
    operations.prefect("flow-run", "cancel", identifier)
    operations.ended(identifier)


def test_a_killed_run_is_crashed_and_keeps_what_it_goes_on_from(operations):
    output = operations.folder / "killed"
    config = {**LONG, "output": str(output), "compute": {"cluster": "local", "workers": 1}}
    identifier = operations.start("fit/daily-quickstart", config)
    process = begun(operations, identifier, output)
    family = [process, *process.children(recursive=True)]
    (output / "scratch" / "search").mkdir(parents=True)
    links = operations.artifacts(identifier)
    assert links["killed-dask-dashboard"]["data"].startswith("[http://127.0.0.1:")
    process.kill()
    run = operations.ended(identifier)
    assert run["state_type"] == "CRASHED"
    assert "-9" in run["state"]["message"]
    operations.tells(identifier, "start it again with the same parameters")
    assert "An error was encountered while running hook" not in operations.log_of(identifier)
    assert (output / "scratch" / "search").exists()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


def test_a_scheduled_run_killed_at_half_goes_on_to_the_same_bits(operations):
    """Deploy, schedule, kill -9, resume: as somebody does who comes back in the morning."""
    output, rows = operations.folder / "nightly", "synthetic:gaussian?n=8000000&d=64"
    config = {"dataset": {"uri": rows}, "methods": ["pca", "m-pca0"], "n_components": [2], "output": str(output)}
    config["project"] = {"methods": []}
    deployment = operations.api("/deployments/name/fit/daily-quickstart")["id"]
    schedule = {"active": True, "schedule": {"interval": 5}, "parameters": {"config": config}}
    scheduled = operations.api(f"/deployments/{deployment}/schedules", [schedule])[0]["id"]
    groups = output / "scratch" / "reduce" / "passes" / "001-moments"
    total = 64  # groups that a pass keeps, those made of them aside
    wait_for(lambda: groups.exists() and sum(1 for _ in groups.iterdir()) >= total // 2, 180)
    running = operations.api("/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}})
    killed = next(run["id"] for run in running if run["parameters"].get("config") == config)
    psutil.Process(int(operations.run(killed)["infrastructure_pid"])).kill()
    operations.api(f"/deployments/{deployment}/schedules/{scheduled}", method="DELETE")
    assert operations.ended(killed)["state_type"] == "CRASHED"
    assert not (output / "records" / "reduce.json").exists()
    found = sum(1 for _ in groups.iterdir())

    again = operations.ended(operations.start("fit/daily-quickstart", config))
    assert again["state_type"] == "COMPLETED", operations.log_of(again["id"])
    events = [json.loads(line) for line in (output / "events.jsonl").read_text().splitlines()]
    attempts = list(dict.fromkeys(event["attempt"] for event in events))
    resumed = [e for e in events if e["attempt"] == attempts[1] and e["event"] == "progress" and e["stage"] == "reduce"]
    assert resumed[0]["done"] / resumed[0]["total"] > 0.9 * (found - 1) / (total * 4 / 3)
    assert not (output / "scratch").exists()
    run({**config, "output": str(operations.folder / "undisturbed")})
    assert results_hash(output) == results_hash(operations.folder / "undisturbed")


class Notes(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted."""

    told: list[str] = []  # noqa: RUF012

    def do_POST(self):
        self.told.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_args):
        pass


@pytest.fixture
def webhook():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Notes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/notes"
    server.shutdown()


MAKE_BLOCK = """
from prefect.blocks.notifications import CustomWebhookNotificationBlock as Webhook
text = {{"text": "{{{{subject}}}}: {{{{body}}}}"}}
block = Webhook(name="notes", url={url!r}, json_data=text, allow_private_urls=True)
print(block.save("notes", overwrite=True))
"""


def test_a_run_that_went_silent_is_crashed_and_told_of(operations, webhook, tmp_path):
    """A flow that was started directly and killed: nobody but the automation notices. Its time is shortened here."""
    silent = yaml.safe_load(bundled.path_of("automations").read_text())
    assert silent["automations"][0]["trigger"]["within"] > 3 * 180  # Prefect's default of heartbeats
    silent["automations"][0]["trigger"]["within"] = SILENT
    (tmp_path / "automations.yaml").write_text(yaml.safe_dump(silent))
    block = operations.python(MAKE_BLOCK.format(url=webhook)).strip()
    notes = bundled.path_of("notifications").read_text()
    (tmp_path / "notifications.yaml").write_text(notes.replace("0" * 8 + "-0000-0000-0000-" + "0" * 12, block))
    for name in ("automations.yaml", "notifications.yaml"):
        operations.prefect("automation", "create", "--from-file", str(tmp_path / name))

    output = operations.folder / "silent"
    (tmp_path / "long.yaml").write_text(yaml.safe_dump({**LONG, "output": str(output)}))
    often = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}

    def in_a_stage():
        """Return the flow run, once one of its stages runs."""
        of_flow = {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}}
        running = [run for run in operations.api("/flow_runs/filter", of_flow) if run["parameters"].get("config")]
        ours = [run["id"] for run in running if run["parameters"]["config"]["output"] == str(output)]
        return ours if ours and operations.api("/task_runs/filter", {"flow_runs": {"id": {"any_": ours}}}) else None

    with operations.process("mmpca_pipelines", "run", str(tmp_path / "long.yaml"), **often) as process:
        (identifier,) = wait_for(in_a_stage, 90, lambda: process.poll())
        os.kill(process.pid, signal.SIGKILL)
    operations.start("fit/daily-quickstart", {**SMALL, "output": str(tmp_path / "bad"), "n_components": [9]})
    run = operations.ended(identifier, 180)
    assert run["state_type"] == "CRASHED"
    assert run["state"]["message"].startswith("No heartbeat")
    wait_for(lambda: any("Crashed" in note for note in Notes.told), 60, lambda: Notes.told)
    wait_for(lambda: any("is more than the 4 features" in note for note in Notes.told), 60, lambda: Notes.told)


def test_rows_that_moved_pause_the_refresh_and_are_told_of(operations, webhook, tmp_path):
    """By the second automation of either file, alone here."""
    block = operations.python(MAKE_BLOCK.format(url=webhook)).strip()
    for name in ("automations", "notifications"):
        text = bundled.path_of(name).read_text().replace("0" * 8 + "-0000-0000-0000-" + "0" * 12, block)
        content = yaml.safe_load(text)
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"automations": content["automations"][1:]}))
        operations.prefect("automation", "create", "--from-file", str(tmp_path / f"{name}.yaml"))
    X, y = labelled(300, 4, 2, seed=3)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    new = write_npz(tmp_path / "new.npz", X[:100] + 6 * (y[:100, None] == 1), y[:100])
    output = str(tmp_path / "run")
    run({"dataset": {"uri": uri}, "methods": ["m-pca0"], "n_components": [2], "belonging": {}, "output": output})
    for deployment, config in (
        ("monitor/nightly-check", {"run": output, "dataset": new, "output": str(tmp_path / "monitor")}),
        ("refresh/hourly-inbox", {"run": output, "new": new, "output": str(tmp_path / "live")}),
    ):
        ended = operations.ended(operations.start(deployment, config))
        assert ended["state_type"] == "COMPLETED", operations.log_of(ended["id"])
        job = deployment.partition("/")[0]
        alarm = f"mmpca.{job}.alarm: {new}"
        wait_for(lambda alarm=alarm: any(alarm in note for note in Notes.told), 60, lambda: Notes.told)
    assert all("The class 1 moved by" in note for note in Notes.told if "alarm" in note)
    wait_for(lambda: operations.api("/deployments/name/refresh/hourly-inbox")["paused"], 60)
    assert not operations.api("/deployments/name/monitor/nightly-check")["paused"]


@pytest.mark.parametrize("kind", ["docker", "kubernetes"])
def test_the_other_work_pools_can_be_deployed_to(operations, kind):
    operations.prefect("work-pool", "create", kind, "--type", kind)
    file = str(bundled.path_of(f"prefect-{kind}"))
    deploy = ("--no-prompt", "deploy", "--prefect-file", file, "--all")
    if kind == "kubernetes":
        with pytest.raises(AssertionError, match="MMPCA_STORE is not set"):
            operations.prefect(*deploy)
        assert not [one for one in operations.api("/deployments/filter", {}) if one["name"].endswith("-kubernetes")]
    operations.prefect(*deploy, MMPCA_STORE="s3://bucket")
    template = operations.api(f"/work_pools/{kind}")["base_job_template"]["variables"]["properties"]
    deployed = {one["name"]: one for one in operations.api("/deployments/filter", {})}
    for name in ("nightly-table", "daily-quickstart", "new-rows", "hourly-inbox", "nightly-check"):
        deployment = deployed[f"{name}-{kind}"]
        assert set(deployment["job_variables"]) <= set(template)
        text = json.dumps([deployment["parameters"], deployment["schedules"]])
        assert "MMPCA_STORE" not in text
        assert ("s3://bucket/" in text) == (kind == "kubernetes")
        assert str(Path(file).parent) not in json.dumps(deployment)


def test_the_server_listens_on_loopback_only_and_sends_no_telemetry(operations):
    port = int(operations.url.rsplit(":", 1)[1])
    bound = {c.laddr.ip for c in psutil.net_connections("inet") if c.status == "LISTEN" and c.laddr.port == port}
    assert bound == {"127.0.0.1"}
    assert operations.api("/admin/settings")["server"]["analytics_enabled"] is False
