"""Fixtures: real data where it is at hand, and reproducible property tests."""

import logging
import os
import sys
import uuid
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.faulty_s3 import KEYS, FaultyS3
from hypothesis import HealthCheck, settings

from mmpca_dist.configuration import bundled
from mmpca_dist.limits import LIMITS

# Prefect's console handler would write to streams that pytest has closed. Read when Prefect is imported.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# `pytest --hypothesis-profile=fuzz`: other examples every time, and many. A failure prints the line that repeats it.
settings.register_profile("fuzz", settings.get_profile("suite"), derandomize=False, max_examples=2000, print_blob=True)
settings.load_profile("suite")


FAST = (
    "test_checkpoint", "test_dask_rows", "test_dataset_errors", "test_datasets", "test_krylov", "test_moments",
    "test_object_storage", "test_pairs", "test_runs", "test_storing", "test_tables", "test_transforming",
    "test_unforeseen_errors", "test_zarr_dense",
)  # fmt: skip
"""Files whose tests are marked ``fast``: they take every dependency through its paces, in a few minutes."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem in FAST:
            item.add_marker(pytest.mark.fast)


@pytest.fixture(scope="session", autouse=True)
def nothing_in_the_working_directory():
    """No test leaves a file in the folder that the tests were started in."""
    before = {path.name for path in Path().iterdir()}
    yield
    after = {path.name for path in Path().iterdir() if not path.name.startswith((".", "__pycache__"))}
    assert not after - before, f"a test left {', '.join(sorted(after - before))} in {Path.cwd()}"


@pytest.fixture(scope="session")
def real_path():
    """Return a function that finds a file of the published data sets, or skips the test."""
    folder = Path(os.environ.get("MMPCA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

    def find(file):
        if not (folder / file).exists():
            pytest.skip(f"{file} is not in {folder}; set MMPCA_DATA to the folder of the published data sets")
        return folder / file

    return find


@pytest.fixture(scope="session")
def real_data(real_path):
    """Return a function that loads a published data set (X, y) by name, or skips the test."""

    def load(name):
        tables = ("ionosphere", "ionosphere_raw", "mushrooms", "colon", "sonar")
        if name in tables:
            found = pq.read_table(real_path(f"{name}.parquet"))
            y = found.column("label").to_numpy()
            return np.column_stack([c.to_numpy() for c in found.drop_columns(["label"]).columns]), y
        with np.load(real_path(f"{name}.npz")) as arrays:
            return arrays["X"], arrays["y"]

    return load


@pytest.fixture
def limits():
    """Return ``LIMITS``; what a test sets there is put back afterwards."""
    before = dict(vars(LIMITS))
    yield LIMITS
    vars(LIMITS).update(before)


@pytest.fixture
def several_units(limits):
    """Reading units of at most 20 rows of 5 doubles, so that Dask blocks are not joined into one."""
    limits.unit_bytes = 20 * 5 * 8


@pytest.fixture
def cluster(request):
    """Return a client of as many worker processes as the parameter says."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=request.param, **options) as local, Client(local) as client:
        yield client


@pytest.fixture
def mmpca(monkeypatch, capsys):
    """Return a function that runs the command in this process and returns (exit code, what it printed, its errors)."""
    from mmpca_pipelines import console as shown
    from mmpca_pipelines.__main__ import main

    for console in (shown.console, shown.errors):
        monkeypatch.setattr(console, "width", 80)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mmpca", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def no_server(monkeypatch):
    """Start no Prefect server, and fail where one is waited for."""
    server = SimpleNamespace(check=lambda: None, connect=lambda: pytest.fail("a Prefect server is waited for"))
    monkeypatch.setattr("mmpca_pipelines.server.PrefectServer", lambda *_: nullcontext(server))


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    """A temporary Prefect server for all tests of flows; starting one takes seconds."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture(scope="session")
def operations(tmp_path_factory):
    """A Prefect server of its own process, with the bundled deployments and a worker."""
    from helpers.operations import prefect_at_work, wait_for

    home, folder = tmp_path_factory.mktemp("prefect"), tmp_path_factory.mktemp("runs")
    with prefect_at_work(home, folder) as found:
        found.prefect("work-pool", "create", "local", "--type", "process")
        found.prefect("--no-prompt", "deploy", "--prefect-file", str(bundled.path_of("prefect")), "--all")
        with found.process("prefect", "worker", "start", "--pool", "local") as worker:
            wait_for(lambda: found.api("/work_pools/local/workers/filter", {}), 60, lambda: worker.poll())
            yield found


@pytest.fixture(scope="session")
def moto_port():
    """Start a local S3 server, and return its port."""
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    pytest.importorskip("obstore", reason="obstore is not installed")
    s3 = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    s3.start()
    yield s3.get_host_and_port()[1]
    s3.stop()


@pytest.fixture(scope="session")
def s3_proxy(moto_port):
    """Return a proxy before the local S3 server, through which everything goes."""
    return FaultyS3(moto_port)


@pytest.fixture
def bucket(s3_proxy, monkeypatch):
    """Return the URL of an empty bucket of a local S3 server, which the environment leads to."""
    import boto3

    for name, value in {**KEYS, "AWS_ENDPOINT_URL": s3_proxy.url}.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{uuid.uuid4().hex[:8]}"
    boto3.client("s3").create_bucket(Bucket=name)
    s3_proxy.reset()
    yield f"s3://{name}"
    s3_proxy.reset()


@pytest.fixture
def folder_in_memory():
    """Return the address of a folder in memory."""
    place = f"memory://{uuid.uuid4().hex}"
    yield place
    fs = fsspec.filesystem("memory")
    if fs.exists(place):
        fs.rm(place, recursive=True)


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request):
    """Return a folder of each kind of storage."""
    fixtures = {"local": "tmp_path", "memory": "folder_in_memory", "s3": "bucket"}
    return str(request.getfixturevalue(fixtures[request.param]))


@pytest.fixture
def memory():
    """Return an address in memory, which has no renaming, as object stores have none."""
    fs = fsspec.filesystem("memory")
    yield "memory://ingest/made.zarr"
    if fs.exists("/ingest"):
        fs.rm("/ingest", recursive=True)


@pytest.fixture
def no_report(monkeypatch):
    """Leave out the pictures of runs, which take longer than all else."""
    from helpers.refreshing import no_pictures

    no_pictures(monkeypatch)


@pytest.fixture
def merging(monkeypatch):
    """Return a function that lets evaluations whose output ends so merge moments, and all others have the rows."""

    from mmpca_dist.runs import evaluation_scores

    def choose(ending):
        def route(*given):
            merged = given[-1].output.endswith(ending)
            return merged, not merged

        monkeypatch.setattr(evaluation_scores, "route", route)

    return choose
