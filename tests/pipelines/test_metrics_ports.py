"""Counters for Prometheus can be scraped, and a port that is taken ends no run."""

import os
import re
import socket
import subprocess
import sys
import urllib.request

import pytest
import yaml
from helpers.operations import prefect_at_work, wait_for
from helpers.servers import free_port

SMALL = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": [2]}
SERVE = """
import urllib.request
from mmpca_pipelines.flows import METRICS_PORT

assert METRICS_PORT, METRICS_PORT
print(METRICS_PORT, b"mmpca_passes" in urllib.request.urlopen(f"http://localhost:{METRICS_PORT}/metrics").read())
"""


def taken(n):
    """Yield sockets that hold ports in a row, and the first of these."""
    for _ in range(50):
        first, held = free_port(), []
        try:
            for port in range(first, first + n):
                held.append(socket.create_server(("", port)))  # noqa: PERF401
        except OSError:
            for one in held:
                one.close()
            continue
        return first, held
    raise AssertionError("no ports in a row are free")


@pytest.mark.parametrize("n", [0, 1, 3])
def test_the_first_free_port_serves_the_counters(n, tmp_path):
    first, held = taken(n)
    settings = {"PREFECT_CLIENT_METRICS_ENABLED": "true", "PREFECT_CLIENT_METRICS_PORT": str(first)}
    found = subprocess.run(
        [sys.executable, "-c", SERVE], env={**os.environ, **settings, "PREFECT_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    for one in held:
        one.close()
    assert found.returncode == 0, found.stderr
    port, has_ours = found.stdout.split()
    assert first + n <= int(port) <= first + n + 5 and has_ours == "True"


def test_nothing_is_served_unasked():
    from mmpca_pipelines.artifacts import serve_metrics

    assert serve_metrics() is None


@pytest.mark.server
def test_runs_of_a_worker_and_of_a_command_can_be_scraped_with_the_variable_set(tmp_path_factory):
    """The worker takes the port itself, and each run the next one, which its log names."""
    home, folder = tmp_path_factory.mktemp("prefect"), tmp_path_factory.mktemp("runs")
    settings = {"PREFECT_CLIENT_METRICS_ENABLED": "true", "PREFECT_CLIENT_METRICS_PORT": str(free_port())}
    long = {**SMALL, "dataset": {"uri": "synthetic:gaussian?n=20000000&d=64"}, "output": str(folder / "long")}
    from mmpca_dist.configuration import bundled

    with prefect_at_work(home, folder) as found:
        found.prefect("work-pool", "create", "local", "--type", "process")
        found.prefect("--no-prompt", "deploy", "--prefect-file", str(bundled.path_of("prefect")), "--all")
        with found.process("prefect", "worker", "start", "--pool", "local", **settings) as worker:
            wait_for(lambda: found.api("/work_pools/local/workers/filter", {}), 120, lambda: worker.poll())
            identifier = found.start("fit/daily-quickstart", long)
            found.tells(identifier, "Stage reduce: moments", 300)
            address = re.search(r"Counters for Prometheus: (http\S+)", found.log_of(identifier))[1]
            page = urllib.request.urlopen(address).read().decode()  # noqa: S310
            assert re.search(r'mmpca_passes_total\{stage="reduce"\} [1-9]', page)
            (folder / "c.yaml").write_text(yaml.safe_dump({**SMALL, "output": str(folder / "command")}))
            ran = subprocess.run(
                [sys.executable, "-m", "mmpca_pipelines", "run", str(folder / "c.yaml")],
                env={**found.environment, **settings}, capture_output=True, text=True, timeout=300,
            )  # fmt: skip
            assert ran.returncode == 0, ran.stdout + ran.stderr
            found.prefect("flow-run", "cancel", identifier)
            found.ended(identifier)
