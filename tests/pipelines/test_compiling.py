"""Who waits for the compiler is told so, and only then."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers.operations import artifacts_of
from rich.console import Console

import mmpca_dist
from mmpca_dist import compile_notice, jit
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.neighbors import pair_statistics
from mmpca_dist.runs.fit import run

RUN = """
import json, sys
from mmpca_dist import run
from mmpca_dist.jobs.events import Callback

class Hears(Callback):
    stages = []
    def on_compile(self, stage):
        self.stages.append(stage)

if __name__ == "__main__":
    run(json.loads(sys.argv[1]), [Hears()])
    print("compiled", Hears.stages)
"""
SETTINGS = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca2"], "n_components": [2]}


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["threads", "local"])
def test_told_once_per_machine(cluster, tmp_path):
    """On a machine whose numba has no cache, and then on one that has; also by the workers of a cluster."""
    script = tmp_path / "script.py"
    script.write_text(RUN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = []
    for output in ("first", "second"):
        settings = {**SETTINGS, "compute": {"cluster": cluster, "workers": 1}, "output": str(tmp_path / output)}
        command = [sys.executable, str(script), json.dumps(settings)]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
        assert found.returncode == 0, found.stderr
        said.append(found.stdout.splitlines()[-1])
    assert said == ["compiled ['search']", "compiled []"]
    assert list(Path(tmp_path, "cache").rglob("*.nbi"))


def test_a_compilation_of_another_package_is_none_of_ours(monkeypatch):
    import numba

    import mmpca_dist.jit  # noqa: F401  (listens)

    monkeypatch.setattr(compile_notice, "begun", lambda: pytest.fail("told of a compilation"))
    for module in (__name__, None):  # pynndescent makes functions of no module
        function = lambda x: x + 1  # noqa: E731  (each is compiled)
        function.__module__ = module
        assert numba.njit(function)(1) == 2


SEARCH = """
import numpy as np
from mmpca_dist import NearestOpposite
X = np.random.default_rng(0).standard_normal((40, 3))
print(NearestOpposite().fit(X, np.arange(40) % 2).kneighbors()[0].min())
"""


@pytest.mark.slow
def test_loops_are_compiled_again_where_what_they_call_has_changed(tmp_path):
    """Numba's own cache looks at the file of the calling function alone."""
    package = tmp_path / "mmpca_dist"
    shutil.copytree(Path(mmpca_dist.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def nearest():
        command = [sys.executable, "-c", SEARCH]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
        assert ended.returncode == 0, ended.stderr
        return float(ended.stdout)

    before = nearest()
    bounds = package / "neighbors" / "bounds.py"
    text, sums = bounds.read_text(), "+ ((s4 + s5) + (s6 + s7))) + rest"
    assert text.count(sums) == 1
    bounds.write_text(text.replace(sums, sums.replace("+ rest", "+ 4 * rest")))
    assert nearest() == pytest.approx(2 * before)


def test_environments_of_a_user_share_a_cache(tmp_path):
    """Unless NUMBA_CACHE_DIR names another, or the folder of caches cannot be written."""
    source = Path(mmpca_dist.__file__).parent
    shutil.copytree(source, tmp_path / "mmpca_dist", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "file").touch()

    def cache(path, **variables):
        code = "from mmpca_dist.statistics import sparse_products as s; print(s.__file__, s.add_rows.stats.cache_path)"
        environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        environment |= {"PYTHONPATH": str(path), "XDG_CACHE_HOME": str(tmp_path / "caches"), **variables}
        command = [sys.executable, "-c", code]
        return subprocess.check_output(command, cwd=tmp_path / path, env=environment, text=True).split()

    (module, first), (copy, second) = cache(source.parent), cache(tmp_path)
    assert module != copy and first == second and Path(first).is_relative_to(tmp_path / "caches")
    assert Path(cache(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "own"))[1]).is_relative_to(tmp_path / "own")
    assert Path(cache(tmp_path, XDG_CACHE_HOME=str(tmp_path / "file"))[1]).is_relative_to(tmp_path / "mmpca_dist")


def test_modules_with_compiled_functions_are_part_of_the_cache_key():
    folder = Path(jit.__file__).parent
    using = {path for path in folder.rglob("*.py") if re.search("^@(compiled|reordered)", path.read_text(), re.M)}
    assert using == {folder / f"{name}.py" for name in jit.MODULES}


@pytest.fixture
def compiles(monkeypatch):
    """A search that compiles in a thread of Dask, twice."""
    search = pair_statistics.with_pairs

    def slow(*arguments, **options):
        for _ in range(2):
            thread = threading.Thread(target=compile_notice.begun)
            thread.start()
            thread.join()
        return search(*arguments, **options)

    monkeypatch.setattr(pair_statistics, "with_pairs", slow)


@pytest.mark.e2e
def test_terminals_pages_and_journals_have_a_line(compiles, prefect_server, tmp_path):
    from mmpca_pipelines.console import ConsoleCallback
    from mmpca_pipelines.entrypoints import fit_flow
    from mmpca_pipelines.flows import ended

    console = Console(file=io.StringIO(), width=100)
    config = parse_config({**SETTINGS, "output": str(tmp_path / "out")}, "the test")
    state = ended(fit_flow, config, ConsoleCallback(console)).state
    assert state.is_completed()
    printed = console.file.getvalue()
    line = f"search: {compile_notice.COMPILING}"
    assert printed.count(line) == 1 and printed.index(line) < printed.index("✓ search")
    events = [json.loads(one) for one in (tmp_path / "out" / "events.jsonl").read_text().splitlines()]
    assert [event["stage"] for event in events if event["event"] == "compile"] == ["search"]
    assert "out-progress" in artifacts_of(state)


def test_a_watcher_that_fails_does_not_end_the_work(compiles, tmp_path):
    class Fails:
        def __getattr__(self, name):
            return lambda *_: None

        def on_compile(self, stage):
            raise ConnectionError(stage)

    results = run({**SETTINGS, "output": str(tmp_path / "out")}, [Fails()])
    assert "report" in results
    assert compile_notice._watchers == []
