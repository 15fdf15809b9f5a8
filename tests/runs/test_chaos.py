"""Processes die at random moments of a run, and nothing is lost: the results are the same, bit by bit.

Seeds are printed; a moment and a victim follow from them.
"""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from helpers import ROOT
from helpers.dask_processes import dask_processes
from helpers.resuming import no_report, results_hash, small_units
from helpers.servers import free_port
from helpers.tables import labelled, make_config, write_zarr

from mmpca_dist import run
from mmpca_dist.errors import ClusterError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.limits import LIMITS

pytestmark = pytest.mark.chaos

SETTINGS = {"methods": ["pca", "m-pca0", "m-pca1b", "m-pca2", "fisher"], "n_components": 3}
WORKER_DEATHS = {"exit": signal.SIGKILL, "segfault": signal.SIGSEGV, "graceful close": signal.SIGTERM}
SWEEPS = {
    "methods": [
        "bm2pca",
        {"name": "projection-penalty", "reduction": "m-pca2", "alpha": "auto", "alphas": [1, 100]},
        {"name": "projection-penalty", "label": "hinge", "loss": "hinge", "max_iter": 8},
    ],
    "n_components": 2,
}
SEEDS, FLOWS, SCHEDULERS = 100, 4, 6
DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pytest
from helpers.resuming import no_report, small_units
from helpers.tables import make_config
from mmpca_dist import run
patch = pytest.MonkeyPatch()
small_units(patch)
no_report(patch)
run(make_config(**json.loads(sys.argv[2])))
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    X, y = labelled(2000, 8, 3, 11)
    return write_zarr(tmp_path_factory.mktemp("rows") / "rows.zarr", X, y, 20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with dask_processes(tmp_path_factory.mktemp("dask"), free_port()) as processes:
        yield processes


class Clock(Callback):
    """Says when each stage began."""

    def __init__(self):
        self.begin, self.stages = time.monotonic(), {}

    def on_stage_start(self, stage):
        self.stages[stage] = time.monotonic() - self.begin


def undisturbed(config):
    """Return the hash of a run's results and how long it takes when workers are warm."""
    run(config)
    expected = results_hash(config.output)
    shutil.rmtree(config.output)
    begin = time.monotonic()
    run(config)
    return expected, time.monotonic() - begin


@pytest.mark.parametrize(("settings", "count"), [(SETTINGS, SEEDS), (SWEEPS, 12)], ids=["passes", "sweeps"])
def test_workers_that_die_a_hundred_times(settings, count, rows, cluster, tmp_path, monkeypatch):
    """Killed, by a segmentation fault, or asked to end: at moments spread over all stages."""
    small_units(monkeypatch, unit_bytes=64 * 80)
    no_report(monkeypatch)  # no worker has a part in it
    compute = {"cluster": cluster.address, "wait": 300}
    expected, seconds = undisturbed(make_config(tmp_path / "whole", rows, compute=compute, **settings))
    table = {}
    for seed in range(count):
        draw = random.Random(seed)
        name = list(WORKER_DEATHS)[seed % 3]
        moment = seconds * (seed + draw.random()) / count
        config = make_config(tmp_path / f"seed-{seed}", rows, compute=compute, **settings)
        clock = Clock()
        timer = threading.Timer(moment, cluster.kill_worker, (WORKER_DEATHS[name], draw.randrange(2)))
        timer.start()
        run(config, [clock])
        timer.join()
        assert results_hash(config.output) == expected, f"seed {seed}: {name} after {moment:.2f} s"
        stage = max((begin, stage) for stage, begin in clock.stages.items() if begin <= moment or stage == "count")[1]
        table[name, stage] = table.get((name, stage), 0) + 1
    print(f"\nseeds 0 to {count - 1}; deaths of workers, all results equal:")
    for (name, stage), deaths in sorted(table.items()):
        print(f"  {name:<15}during {stage:<8}{deaths:>4}")


def start(config, settings):
    """Start a run in a process of its own."""
    content = json.dumps(
        {"output": config.output, "uri": config.dataset.uri, "compute": config.compute.model_dump(), **settings}
    )
    folder = str(ROOT / "tests")
    return subprocess.Popen([sys.executable, "-c", DRIVER, folder, content], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("cluster_name", "settings"),
    [("threads", SETTINGS), ("local", SETTINGS), ("address", SETTINGS), ("threads", SWEEPS), ("address", SWEEPS)],
    ids=["threads", "local", "address", "threads-sweeps", "address-sweeps"],
)
def test_flows_that_are_killed(cluster_name, settings, rows, cluster, tmp_path):
    """kill -9 of the process that drives the run, again and again, until one comes to the end."""
    compute = {"cluster": cluster.address if cluster_name == "address" else cluster_name, "workers": 2}
    whole = make_config(tmp_path / "whole", rows, compute=compute, **settings)
    begin = time.monotonic()
    assert start(whole, settings).wait(300) == 0
    seconds, expected = time.monotonic() - begin, results_hash(whole.output)
    for seed in range(FLOWS):
        draw = random.Random(seed)
        config = make_config(tmp_path / f"seed-{seed}", rows, compute=compute, **settings)
        deaths = 0
        for _ in range(3):
            process = start(config, settings)
            try:
                process.wait(seconds * draw.uniform(0.3, 0.9))
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                deaths += 1
        process = start(config, settings)
        _, words = process.communicate(timeout=300)
        assert process.returncode == 0, words
        assert results_hash(config.output) == expected, f"seed {seed}"
        print(f"{cluster_name}, seed {seed}: {deaths} deaths, results equal")


def test_schedulers_that_are_killed(rows, cluster, tmp_path, monkeypatch):
    """The run ends with one sentence, and goes on when there is a scheduler again."""
    small_units(monkeypatch, unit_bytes=64 * 80)
    no_report(monkeypatch)
    compute = {"cluster": cluster.address, "wait": 300}
    expected, seconds = undisturbed(make_config(tmp_path / "whole", rows, compute=compute, **SETTINGS))
    lost = 0
    for seed in range(SCHEDULERS):
        draw = random.Random(seed)
        config = make_config(tmp_path / f"seed-{seed}", rows, compute=compute, **SETTINGS)
        timer = threading.Timer(draw.uniform(0, seconds), cluster.restart_scheduler)
        timer.start()
        try:
            run(config)
        except ClusterError:
            lost += 1
            timer.join()
            run(config)
        timer.join()
        assert results_hash(config.output) == expected, f"seed {seed}"
    print(f"\nseeds 0 to {SCHEDULERS - 1}: {lost} runs lost their scheduler and went on; all results equal")
    assert lost > 0


class Stopper(Callback):
    """Stops a worker of the local cluster, without killing it, as soon as the rows are being read."""

    def __init__(self):
        self.stopped, self.notes = None, []

    def on_progress(self, stage, done, total):
        if stage == "reduce" and self.stopped is None and done < total // 2:
            workers = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
            self.stopped = min(workers, key=lambda worker: worker.pid)
            self.stopped.send_signal(signal.SIGSTOP)

    def on_note(self, message):
        self.notes.append(message)


def test_a_worker_that_is_stopped_and_not_dead(rows, tmp_path, monkeypatch):
    """Its tasks go elsewhere, the user is told, and the results are the same."""
    small_units(monkeypatch)
    no_report(monkeypatch)
    monkeypatch.setattr(LIMITS, "silent_seconds", 20.0)
    expected, _ = undisturbed(make_config(tmp_path / "expected", rows, **SETTINGS))
    compute = {"cluster": "local", "workers": 2, "threads_per_worker": 1}
    config, stopper = make_config(tmp_path / "run", rows, compute=compute, **SETTINGS), Stopper()
    run(config, [stopper])
    assert results_hash(config.output) == expected
    silent = re.compile(
        "Nothing has been heard for 20 s of tcp://127.0.0.1:[0-9]+: other workers take over their tasks"
    )
    assert any(silent.match(note) for note in stopper.notes)
    assert not stopper.stopped.is_running()
