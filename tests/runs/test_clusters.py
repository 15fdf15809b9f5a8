"""Where tasks go: an address, a class of clusters, certificates; and what is said when nobody comes."""

import os
import re
import subprocess
import sys

import psutil
import pytest
from distributed import LocalCluster, SpecCluster
from helpers.__init__ import ROOT
from helpers.resuming import no_report
from helpers.runs import Recorder, model_hash
from helpers.tables import config_of
from helpers.watching import watched

from mmpca_dist import run
from mmpca_dist.errors import ClusterError, ConfigError, InputError
from mmpca_dist.jobs.events import Callback


class TwoThreads(LocalCluster):
    """A class of clusters that a user names."""

    def __init__(self, name="mine"):
        super().__init__(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address=None, name=name,
            protocol="tcp://", host="127.0.0.1",
        )  # fmt: skip


@pytest.fixture
def allowed(monkeypatch):
    """Let configurations name clusters of this module, and options that these do not know."""
    names = ["dask_nowhere.SLURMCluster", "distributed.NoCluster", "distributed.Client", "os.system", "a.B"]
    monkeypatch.setenv("MMPCA_CLUSTERS", ", ".join(["test_clusters.TwoThreads", *names]))
    monkeypatch.setenv("MMPCA_CLUSTER_OPTIONS", "colour")


def test_a_cluster_by_its_class(tmp_path, monkeypatch, allowed):
    no_report(monkeypatch)
    compute = {"cluster": "test_clusters.TwoThreads", "options": {"name": "mine"}, "workers": 2}
    run(config_of(tmp_path / "class", compute=compute))
    run(config_of(tmp_path / "threads"))
    assert model_hash(tmp_path / "class", ["pca"]) == model_hash(tmp_path / "threads", ["pca"])


@pytest.mark.e2e
def test_workers_that_come_and_go_leave_the_same_bits_and_dasks_report(tmp_path, monkeypatch, limits):
    """An adaptive cluster; groups of its tasks say which run they are of."""
    no_report(monkeypatch)
    limits.unit_bytes = limits.smallest_unit_bytes = 64 << 10
    rows = "synthetic:gaussian?n=200000&d=16"
    compute = {"cluster": "local", "adapt": {"minimum": 1, "maximum": 2}, "performance_report": True}
    adaptive = config_of(tmp_path / "my run", rows, compute=compute)
    bounds = watched(monkeypatch, SpecCluster, "adapt", lambda *_, **given: given)
    run(adaptive)
    run(config_of(tmp_path / "threads", rows))
    assert bounds == [{"minimum": 1, "maximum": 2}]
    assert model_hash(tmp_path / "my run", ["pca"]) == model_hash(tmp_path / "threads", ["pca"])
    page = (tmp_path / "my run" / "report" / "dask-performance.html").read_text()
    assert "my_run:moments" in page and "<script src" not in page


@pytest.mark.parametrize(("name", "options", "words"), [
    ("dask_nowhere.SLURMCluster", {}, r"no class .* can be imported here .*pip install dask-nowhere"),
    ("distributed.NoCluster", {}, "no class of Dask clusters .*'NoCluster'"),
    ("distributed.Client", {}, r"no class of Dask clusters .*\(it is another class\)"),
    ("os.system", {}, "is no class of Dask clusters"),
    ("test_clusters.TwoThreads", {"colour": "red"}, "does not start with the compute.options colour"),
])  # fmt: skip
def test_classes_that_are_none_are_refused(name, options, words, tmp_path, allowed):
    with pytest.raises(InputError, match=words):
        run(config_of(tmp_path / "out", compute={"cluster": name, "options": options}))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("compute", "words"), [
    ({"cluster": "cloud"}, "nor a class like"),
    ({"cluster": "threads", "options": {"a": 1}}, "options are for a class of clusters"),
    ({"cluster": "a.B", "options": {"api_token": "x"}}, "'api_token' may be a secret"),
    ({"cluster": "a.B", "options": {"env": {"AWS_SECRET_ACCESS_KEY": "x"}}}, "'AWS_SECRET_ACCESS_KEY' may be"),
    ({"cluster": "a.B", "options": {"job_script_prologue": ["export DB_PASSWORD=x"]}}, "'DB_PASSWORD' may be"),
    ({"cluster": "a.B", "options": {"auth": "x"}}, "'auth' may be a secret"),
    ({"cluster": "tls://h:1", "tls_ca_file": "ca.pem"}, "go together"),
    ({"cluster": "local", "tls_ca_file": "a", "tls_cert": "b", "tls_key": "c"}, "are for the address of a scheduler"),
    # Its workers would be paused at once, and the run would wait for them for ever.
    ({"cluster": "local", "memory_limit": "400MiB"}, "400MiB, and a worker holds .* Give 425MiB at least"),
    ({"cluster": "threads", "adapt": {"maximum": 4}}, "compute.adapt is for clusters that the run starts"),
    ({"cluster": "tcp://h:1", "adapt": {"maximum": 4}}, "compute.adapt is for clusters that the run starts"),
    ({"cluster": "local", "adapt": {"minimum": 3, "maximum": 2}}, "minimum is 3, and maximum is 2"),
    ({"cluster": "threads", "performance_report": True}, "performance_report is for a Dask cluster"),
    ({"cluster": "local", "wait": 0}, "compute.wait must be a number of seconds"),
])  # fmt: skip
def test_settings_that_do_not_fit_together(compute, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        run(config_of(tmp_path / "out", compute=compute))
    assert not (tmp_path / "out").exists()


def test_what_is_waited_for_is_said(tmp_path, monkeypatch, limits):
    """A scheduler without workers, to which one comes late; and one to which none comes."""
    no_report(monkeypatch)
    limits.awaited_seconds = 0.2
    with TwoThreads() as cluster:
        notes = Recorder()

        def come(message):
            notes.notes.append(message)
            cluster.scale(1)

        address = cluster.scheduler_address
        refused = config_of(tmp_path / "none", compute={"cluster": address, "wait": 0.4})
        with pytest.raises(ClusterError, match=r"has no workers after 0.4 s \(compute.wait\)"):
            run(refused, [notes])
        assert "Waiting for workers at" in notes.notes[0] and "0 of 1 there" in notes.notes[0]
        monkeypatch.setattr(notes, "on_note", come)
        run(config_of(tmp_path / "late", compute={"cluster": address}), [notes])
    assert len(notes.dashboards) == 1


TLS = """
import sys
from distributed import LocalCluster, Security
security = Security.temporary()
texts = {"ca": security.tls_ca_file, "cert": security.tls_client_cert, "key": security.tls_client_key}
for name, text in texts.items():
    open(f"{sys.argv[1]}/{name}.pem", "w").write(text)
cluster = LocalCluster(n_workers=1, processes=False, dashboard_address=None, host="127.0.0.1", security=security)
print(cluster.scheduler_address, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_scheduler_that_uses_tls(tmp_path, monkeypatch):
    pytest.importorskip("cryptography", reason="certificates are made with it")
    no_report(monkeypatch)
    process = subprocess.Popen(
        [sys.executable, "-c", TLS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("tls://")
        files = {"tls_ca_file": "ca.pem", "tls_cert": "cert.pem", "tls_key": "key.pem"}
        tls = {name: str(tmp_path / file) for name, file in files.items()}
        run(config_of(tmp_path / "out", compute={"cluster": address, **tls}))
        with pytest.raises(InputError, match="tls_ca_file, tls_cert and tls_key"):
            run(config_of(tmp_path / "plain", compute={"cluster": address, "wait": 2}))
    finally:
        process.stdin.close()
        process.wait(30)
    run(config_of(tmp_path / "threads"))
    assert model_hash(tmp_path / "out", ["pca"]) == model_hash(tmp_path / "threads", ["pca"])


@pytest.mark.slow
def test_a_scheduler_that_dies_in_the_middle_is_one_sentence(tmp_path, monkeypatch):
    """And the same settings go on, on another cluster."""
    no_report(monkeypatch)
    dask = [sys.executable, "-m", "dask.__main__"]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
         "--scheduler-file", str(tmp_path / "scheduler.json")],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    worker = subprocess.Popen(
        [*dask, "worker", "--scheduler-file", str(tmp_path / "scheduler.json"), "--nthreads", "1", "--no-dashboard",
         "--no-nanny"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip

    class KillScheduler(Callback):
        def on_progress(self, stage, done, total):
            if stage == "reduce" and done:
                scheduler.kill()

    from distributed import Client

    try:
        with Client(scheduler_file=str(tmp_path / "scheduler.json"), set_as_default=False, timeout=60) as client:
            address = client.scheduler.address
        config = config_of(tmp_path / "out", "synthetic:gaussian?n=400000&d=64", compute={"cluster": address})
        with pytest.raises(ClusterError, match="The connection to the Dask scheduler is lost"):
            run(config, [KillScheduler()])
    finally:
        scheduler.kill()
        worker.kill()
        scheduler.wait()
        worker.wait()
    assert (tmp_path / "out" / "records" / "count.json").exists(), "what was done stays"
    run(config_of(tmp_path / "out", "synthetic:gaussian?n=400000&d=64"))
    run(config_of(tmp_path / "whole", "synthetic:gaussian?n=400000&d=64"))
    assert model_hash(tmp_path / "out", ["pca"]) == model_hash(tmp_path / "whole", ["pca"])


@pytest.mark.parametrize("moment", ["workers are waited for", "before results come", "while they come"])
def test_a_scheduler_that_goes_is_told_as_a_lost_connection(moment, monkeypatch, tmp_path):
    """Whatever Dask makes of a scheduler that goes at such a moment, nobody waits for ever."""
    from distributed import Client
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError

    def lost(*_, **__):
        raise CommClosedError("gone")

    async def gone(self, *_):
        self._gather_future = None
        raise CommClosedError("gone") if moment == "while they come" else FutureCancelledError("span", "lost")

    if moment == "workers are waited for":
        monkeypatch.setattr(Client, "wait_for_workers", lost)
    else:
        monkeypatch.setattr(Client, "_gather_remote", gone)
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as local:
        config = config_of(tmp_path / "out", "bundled:iris", compute={"cluster": local.scheduler_address})
        with pytest.raises(ClusterError, match="The connection to the Dask scheduler is lost"):
            run(config)


@pytest.mark.slow
def test_a_script_that_starts_worker_processes_unguarded_is_told_so(tmp_path):
    """Every worker process would run the script, and start workers of its own."""
    script = tmp_path / "script.py"
    script.write_text(
        "from mmpca_dist import run\n"
        "run({'dataset': {'uri': 'bundled:iris'}, 'methods': ['pca'], 'n_components': 2, 'output': 'out',\n"
        "     'compute': {'cluster': 'local', 'workers': 1}})\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "ClusterError: The worker processes did not start" in ended.stderr
    assert 'if __name__ == "__main__"' in ended.stderr


@pytest.mark.e2e
def test_a_lost_worker_is_noted(tmp_path, monkeypatch):
    no_report(monkeypatch)
    notes = Recorder()

    class KillWorker(Callback):
        def on_progress(self, stage, done, total):
            if stage == "reduce" and len(pids) == 2:
                psutil.Process(pids.pop()).kill()

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local:
        pids = [each.pid for each in local.workers.values()]
        rows, compute = "synthetic:gaussian?n=400000&d=64", {"cluster": local.scheduler_address}
        run(config_of(tmp_path / "out", rows, compute=compute), [notes, KillWorker()])
    told = re.compile(r"The worker tcp:.* was lost: other workers take over its \d+ tasks")
    assert any(map(told.match, notes.notes))
