"""The services of ``docker/compose.yaml`` work together: deployments run through them, and a browser sees them run."""

import base64
import re
import urllib.error

import numpy as np
import psutil
import pytest
from helpers.browser import browser_at_work
from helpers.ingested import ingest
from helpers.operations import Operations, wait_for
from helpers.resuming import results_hash
from helpers.stack import answers, stack_at_work
from helpers.tables import labelled

from mmpca_dist import load_model, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.stores import storage
from mmpca_dist.tables.compose import open_dataset

pytestmark = pytest.mark.server

BUCKET = "s3://mmpca"
SETTINGS = {"methods": ["pca", "m-pca0", "m-pca2"], "n_components": [2, 4]}
LONG = {
    "dataset": {"uri": "synthetic:gaussian?n=12000000&d=32"},
    "methods": ["pca", "m-pca0"],
    "n_components": [2],
    "project": {"methods": []},
}
"""Many spans: long enough that Dask's workers can be held while they work on them."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    pytest.importorskip("moto.server", reason="moto[server] is not installed")
    pytest.importorskip("obstore", reason="obstore is not installed")
    with stack_at_work(tmp_path_factory.mktemp("stack")) as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.s3.items():
            patch.setenv(name, value)
        yield found


def on_the_cluster(stack, settings, output):
    compute = {"cluster": stack.scheduler, "workers": 2, "threads_per_worker": 1, "memory_limit": "2GiB"}
    return {**settings, "compute": compute, "output": output}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Write a table as text, and return its path."""
    X, y = labelled(4000, 12, 3, 5)
    path = tmp_path_factory.mktemp("table") / "table.csv"
    np.savetxt(path, np.column_stack([X, y]), "%.9g", ",", header=",".join([*(f"c{j}" for j in range(12)), "label"]))
    path.write_text(path.read_text().removeprefix("# "))
    return path


@pytest.fixture(scope="module")
def done(stack, table):
    """A table uploaded, ingested, fitted and projected by deployments: the flow runs by deployment."""
    storage.write_bytes(f"{BUCKET}/table.csv", table.read_bytes())
    rows, output = f"{BUCKET}/table.zarr", f"{BUCKET}/runs/first"
    fit = on_the_cluster(stack, {**SETTINGS, "dataset": {"uri": rows}}, output)
    steps = {
        "ingest/nightly-table": {"source": f"{BUCKET}/table.csv", "destination": rows, "label": "label"},
        "fit/daily-quickstart": fit,
        "transform/new-rows": {"output": output, "dataset": rows, "destination": f"{BUCKET}/new"},
    }
    return {name: stack.operations.ended(stack.operations.start(name, config), 400) for name, config in steps.items()}


@pytest.fixture(scope="module")
def plain(table, tmp_path_factory):
    """The same by the library alone, on files of this computer: the folder of the run."""
    folder = tmp_path_factory.mktemp("plain")
    ingest(str(table), str(folder / "table.zarr"), label="label")
    settings = {**SETTINGS, "dataset": {"uri": str(folder / "table.zarr")}, "output": str(folder / "run")}
    run(parse_config(settings, "the test"))
    return folder / "run"


def downloaded(uri, folder):
    """Copy a folder of the bucket to this computer, and return where to."""
    fs, path = storage.filesystem(uri)
    for name in fs.find(path):
        target = folder / name.removeprefix(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(fs.cat_file(name))
    return folder


def test_deployments_run_through_the_whole_stack(stack, done):
    operations = stack.operations
    for name, flow_run in done.items():
        assert flow_run["state_type"] == "COMPLETED", (name, operations.log_of(flow_run["id"]))
        tasks = operations.api("/task_runs/filter", {"task_runs": {"flow_run_id": {"any_": [flow_run["id"]]}}})
        assert len(tasks) <= 50
    assert done["ingest/nightly-table"]["state"]["message"].startswith("4000 rows of 12")
    assert done["fit/daily-quickstart"]["state"]["message"] == f"Report: {BUCKET}/runs/first/report/index.html"
    assert done["transform/new-rows"]["state"]["message"].startswith("4000 rows, with their labels")

    found = operations.artifacts(done["fit/daily-quickstart"]["id"])
    assert {f"first-{name}" for name in ("plan", "components", "search", "result", "figure-projection")} <= set(found)
    assert found["first-progress"]["data"] == 100
    dashboard = re.search(r"\((http://127\.0\.0\.1:\d+/status)\)", found["first-dask-dashboard"]["data"])[1]
    assert answers(dashboard)


def test_results_are_those_of_the_library_alone(done, plain, tmp_path):
    """The same bits: statistics, models and projected rows, by two processes and object storage as by threads."""
    assert done["transform/new-rows"]["state_type"] == "COMPLETED"
    assert results_hash(downloaded(f"{BUCKET}/runs/first", tmp_path / "run")) == results_hash(plain)
    for method in SETTINGS["methods"]:
        stored, expected = (load_model(folder, method, 2) for folder in (f"{BUCKET}/runs/first", str(plain)))
        np.testing.assert_array_equal(stored.components_, expected.components_)
        new = open_dataset(f"{BUCKET}/new/projected/{method}.zarr").read_rows(0, 4000)
        fitted = open_dataset(str(plain / "projected" / f"{method}.zarr")).read_rows(0, 4000)
        np.testing.assert_array_equal(new, fitted)


def test_no_password_is_written_anywhere(stack, done):
    """Not in Prefect's database (parameters, artifacts, logs, events), the bucket, logs, or what ``ps`` shows."""
    kept = {"the database": stack.dump()}
    fs, path = storage.filesystem(BUCKET)
    kept |= {name: fs.cat_file(name) for name in fs.find(path)}
    kept |= {str(file): file.read_bytes() for file in stack.folder.rglob("*") if file.is_file()}
    kept["command lines"] = "\n".join(" ".join(process.cmdline()) for process in stack.processes()).encode()
    for word in (b"runs/first", b"dask-dashboard", b"Beginning flow run", done["fit/daily-quickstart"]["id"].encode()):
        assert word in kept["the database"]
    assert "mmpca/runs/first/run.json" in kept
    assert b"dask worker" in kept["command lines"]
    passwords = [stack.secrets[name] for name in ("POSTGRES_PASSWORD", "PREFECT_PASSWORD", "S3_SECRET_KEY")]
    encoded = base64.b64encode(f"mmpca:{stack.secrets['PREFECT_PASSWORD']}".encode()).decode()
    assert not [name for name, data in kept.items() for word in (*passwords, encoded) if word.encode() in data]


def test_nobody_answers_strangers(stack):
    """Prefect's server asks for its password, and no service listens but on the loopback."""
    port = stack.operations.url.rsplit(":", 1)[1]
    for password in ({}, {"PREFECT_API_AUTH_STRING": "mmpca:wrong"}):
        stranger = Operations(stack.folder, stack.folder, port, **password)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            stranger.api("/flow_runs/filter", {})
    listening = [
        connection.laddr.ip
        for process in stack.processes()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) > 6
    assert set(listening) == {"127.0.0.1"}


@pytest.fixture(scope="module")
def long_run(stack):
    """Start a run of many spans, and return its id; it is not waited for."""
    return stack.operations.start("fit/daily-quickstart", on_the_cluster(stack, LONG, f"{BUCKET}/runs/long"))


@pytest.fixture
def browser(tmp_path):
    with browser_at_work(tmp_path) as found:
        yield found


def sign_in(browser, stack):
    """Sign in as a user does, at the second attempt."""
    browser.open(stack.operations.url)
    browser.write("input[type=password]", "mmpca:wrong")
    browser.click("button[type=submit]")
    browser.shows("Authentication failed")
    browser.open(stack.operations.url)
    browser.write("input[type=password]", f"mmpca:{stack.secrets['PREFECT_PASSWORD']}")
    browser.click("button[type=submit]")
    browser.shows("Flow Runs")


def test_a_browser_sees_a_run_its_progress_and_its_pictures(stack, browser, tmp_path, request):
    operations = stack.operations
    sign_in(browser, stack)
    identifier = request.getfixturevalue("long_run")
    page = f"{operations.url}/runs/flow-run/{identifier}"

    def progress():
        found = operations.artifacts(identifier).get("long-progress")
        return found if found and 0 < found["data"] < 100 else None

    def progress_is_shown():
        browser.open(f"{operations.url}/artifacts/artifact/{bar['id']}")
        browser.shows("spans done")
        told = float(re.search(r"Progress: ([\d.]+)%", browser.text)[1])
        return 0 < told < 100 and told == pytest.approx(progress()["data"], abs=1)  # shown in whole numbers

    bar = wait_for(progress, 300, lambda: operations.log_of(identifier))
    with stack.workers_held():
        wait_for(progress_is_shown, 60, lambda: (browser.text, progress()))
        browser.picture(tmp_path / "progress.png")
        browser.open(page)
        browser.shows("\nRunning\n")  # alone in a line: the state, not words of the log
        browser.shows("Stage reduce: moments")
        assert operations.run(identifier)["state_type"] == "RUNNING"
    browser.shows("\nCompleted\n", 300)  # the page follows by itself
    browser.open(page)  # its list of artifacts does not
    browser.press("Artifacts")
    for words in ("long-figure-spectrum", "long-plan", "long-dask-dashboard"):
        browser.shows(words)
    browser.picture(tmp_path / "run.png")

    figure = operations.artifacts(identifier)["long-figure-spectrum"]
    browser.open(f"{operations.url}/artifacts/artifact/{figure['id']}")
    browser.find("img[src^='data:image/svg']")
    width = "return document.querySelector(\"img[src^='data:image/svg']\").naturalWidth"
    wait_for(lambda: browser.run(width) > 0, 60, lambda: browser.text[:300])
    browser.picture(tmp_path / "figure.png")

    def asked_elsewhere():
        return [line for line in browser.complaints() if "ERR_NAME_NOT_RESOLVED" in line]

    assert not asked_elsewhere()
    browser.run("fetch('https://elsewhere.example/').catch(() => {})")
    assert wait_for(asked_elsewhere, 60)  # it would be noticed
    assert operations.ended(identifier)["state_type"] == "COMPLETED"


def test_a_long_run_on_two_workers_has_the_bits_of_threads(stack, long_run, tmp_path):
    """Many spans, each taken by the worker that is free."""
    assert stack.operations.ended(long_run, 400)["state_type"] == "COMPLETED"
    run(parse_config({**LONG, "output": str(tmp_path / "plain")}, "the test"))
    assert results_hash(downloaded(f"{BUCKET}/runs/long", tmp_path / "stack")) == results_hash(tmp_path / "plain")
