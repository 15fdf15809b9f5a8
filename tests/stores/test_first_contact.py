"""A store that cannot be reached at the first contact is told of soon; one that has answered is waited for."""

import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from helpers.faulty_s3 import KEYS
from helpers.ingested import check_ingest
from helpers.servers import free_port
from helpers.tables import config_of

from mmpca_dist import evaluate, run
from mmpca_dist.errors import AccessError, OutageError
from mmpca_dist.runs.check import check
from mmpca_dist.stores import failures, storage

AT_MOST = 20


@pytest.fixture
def end(request, monkeypatch):
    """Point S3 at an address where nobody answers, in one of several ways."""
    with ExitStack() as stack:

        def silent(backlog):
            server = stack.enter_context(socket.socket())
            server.bind(("127.0.0.1", 0))
            server.listen(backlog)
            return server.getsockname()

        if request.param == "refused":
            host, port = "127.0.0.1", free_port()
        elif request.param == "unknown name":
            host, port = "nowhere.invalid", 80
        else:
            host, port = silent(0 if request.param == "full" else 50)
        for _ in range(4 * (request.param == "full")):  # packets to it are dropped, as by a firewall
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(failures, "_answered", set())
        monkeypatch.setattr(failures, "_unreachable", {})
        yield f"http://{host}:{port}"


pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.e2e
@pytest.mark.parametrize("end", ["refused", "unknown name", "silent", "full"], indirect=True)
def test_an_unreachable_table_is_told_of_within_twenty_seconds(end, tmp_path):
    began = time.monotonic()
    with pytest.raises(OutageError, match=r"Cannot read s3://b/t\.zarr: .*Check the address and the network"):
        run(config_of(tmp_path / "out", "s3://b/t.zarr"))
    assert time.monotonic() - began < AT_MOST
    assert not (tmp_path / "out").exists()


@pytest.mark.e2e
@pytest.mark.parametrize("end", ["silent"], indirect=True)
@pytest.mark.parametrize("work", [
    lambda end, folder: run(config_of("s3://b/out", "bundled:iris")),
    lambda end, folder: evaluate(config_of(folder / "out", "s3://b/t.csv")),
    lambda end, folder: check("s3://b/t.csv"),
    lambda end, folder: check_ingest("s3://b/t.csv", "s3://b/t.zarr"),
], ids=["output", "evaluate", "check", "ingest"])  # fmt: skip
def test_so_is_an_unreachable_output_or_text(end, work, tmp_path):
    began = time.monotonic()
    with pytest.raises(OutageError):
        work(end, tmp_path)
    assert time.monotonic() - began < AT_MOST


@pytest.mark.e2e
@pytest.mark.parametrize("end", ["refused", "full"], indirect=True)
def test_so_is_a_page_of_the_web(end):
    began = time.monotonic()
    with pytest.raises(AccessError, match="Check the address and the network"):
        check(f"{end}/t.csv")
    assert time.monotonic() - began < AT_MOST


def test_a_store_that_has_answered_is_waited_for(bucket, s3_proxy, monkeypatch):
    monkeypatch.setattr(failures, "_answered", set())
    assert failures.is_first_contact(f"{bucket}/x")
    assert not storage.exists(f"{bucket}/x")  # the answer is no, and an answer
    assert not failures.is_first_contact(f"{bucket}/y") and failures.is_first_contact("s3://another/y")


WORKER = """
import sys
from distributed import Client, LocalCluster
from mmpca_dist.stores import failures

if __name__ == "__main__":
    with LocalCluster(n_workers=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print(failures.is_first_contact("s3://b/x"), client.submit(failures.is_first_contact, "s3://b/x").result())
"""


@pytest.mark.e2e
def test_a_worker_is_patient_from_its_first_request_on(tmp_path):
    (tmp_path / "w.py").write_text(WORKER)
    ended = subprocess.run([sys.executable, str(tmp_path / "w.py")], capture_output=True, text=True, timeout=300)
    assert ended.stdout.split() == ["True", "False"], ended.stderr
