"""Workers of a cluster with other code than this process are refused, when it is connected and as they join."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import mmpca_dist
from mmpca_dist import Callback, MarginPCA, evaluate
from mmpca_dist.errors import ClusterError, InputError
from mmpca_dist.passes import worker_code

Y = np.arange(60) % 3
X = np.random.default_rng(1).normal(size=(60, 4)) + Y[:, None]
LAZY = da.from_array(X, (20, 4))
OPTIONS = {"methods": "pca", "n_components": [1], "splits": "folds"}


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(0, processes=False, protocol="tcp://", dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Return folders with this package, and with another version, of other files."""
    folder = tmp_path_factory.mktemp("elsewhere")
    source = Path(mmpca_dist.__file__).parent
    for name in ("other", "older"):
        shutil.copytree(source, folder / name / "mmpca_dist", ignore=shutil.ignore_patterns("__pycache__"))
    limits = folder / "other" / "mmpca_dist" / "limits.py"
    limits.write_text(limits.read_text() + "\nCHANGED = True\n")
    shutil.rmtree(folder / "older" / "mmpca_dist" / "passes")
    return folder


@contextmanager
def worker(cluster, client, path=None):
    """Run a worker in a process of its own, which finds the package in a folder."""
    before = len(client.nthreads())
    command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-nanny"]
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    options = ["--nthreads", "1", "--no-dashboard"]
    with subprocess.Popen([*command, *options], env=environment, cwd="/") as process:
        try:
            client.wait_for_workers(before + 1, timeout=60)
            yield
        finally:
            process.terminate()


@pytest.mark.parametrize("version", ["other", "older"])
def test_other_files_are_refused(cluster, elsewhere, version):
    with Client(cluster) as client, worker(cluster, client, elsewhere / version):
        for use in (
            lambda: MarginPCA(2).fit(LAZY, Y),
            lambda: evaluate(X, Y, client=client, **OPTIONS),
            lambda: evaluate(X, Y, **{"compute.cluster": cluster.scheduler_address}, **OPTIONS),
        ):
            with pytest.raises(ClusterError, match="of other files: results could differ"):
                use()


def test_workers_that_join_are_refused_by_the_next_pass(cluster, elsewhere):
    with Client(cluster) as client, worker(cluster, client):
        fitted = MarginPCA(2).fit(LAZY, Y)
        np.testing.assert_allclose(np.abs(fitted.components_), np.abs(MarginPCA(2).fit(X, Y).components_), atol=1e-5)
        with worker(cluster, client, elsewhere / "other"), pytest.raises(ClusterError, match="of other files"):
            MarginPCA(2).fit(LAZY, Y)


class Notes(Callback):
    def __init__(self):
        self.notes = []

    def on_note(self, note):
        self.notes.append(note)


def test_other_libraries_are_noted(cluster, monkeypatch):
    with Client(cluster) as client, worker(cluster, client):
        code, libraries = worker_code._of_this_process()
        monkeypatch.setattr(worker_code, "_of_this_process", lambda: (code, {**libraries, "numpy": "1.0"}))
        told = Notes()
        evaluate(X, Y, client=client, callbacks=[told], **OPTIONS)
    assert any(f"Workers have numpy {np.__version__} (1.0 here)." in note for note in told.notes)


def test_asynchronous_clients_are_refused():
    from distributed.utils_test import gen_test

    @gen_test()
    async def use():
        local = LocalCluster(1, processes=False, asynchronous=True, dashboard_address=None)
        async with local as cluster, Client(cluster, asynchronous=True) as client:
            for call in (lambda: evaluate(X, Y, client=client, **OPTIONS), lambda: MarginPCA(2).fit(LAZY, Y)):
                with pytest.raises(InputError, match="is asynchronous"):
                    call()

    use()


@pytest.mark.parametrize("where", ["stdin", "daemon"])
def test_local_workers_say_why_they_cannot_start(where, tmp_path):
    call = f"evaluate(X, Y, **{{'compute.cluster': 'local'}}, **{OPTIONS!r})"
    code = f"""
import multiprocessing
import numpy as np
from mmpca_dist import evaluate
Y = np.arange(60) % 3
X = np.random.default_rng(1).normal(size=(60, 4))
def call():
    try:
        {call}
    except Exception as error:
        print(type(error).__name__, error)
if __name__ == "__main__":
    if {where == "daemon"}:
        process = multiprocessing.Process(target=call, daemon=True)
        process.start()
        process.join()
    else:
        call()
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    given = {"input": code} if where == "stdin" else {}
    command = [sys.executable, "-"] if where == "stdin" else [sys.executable, str(script)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **given)
    assert "Worker processes cannot start" in out.stdout, out.stderr
    assert "__main__" not in out.stdout
