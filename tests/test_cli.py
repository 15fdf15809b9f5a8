"""The command line as a person meets it: a terminal, mistakes, Ctrl-C, settings."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

ROOT = Path(__file__).parents[1]
MMPCA = [sys.executable, "-m", "pipelines.cli"]
LONG = "synthetic:gaussian?n=40000000&d=64"


def environment(home):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    return {**kept, "PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "80"}


@pytest.fixture(scope="module")
def prefect_home(tmp_path_factory):
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture
def long_config(tmp_path):
    content = {"dataset": {"uri": LONG}, "methods": ["pca"], "n_components": [2], "output": str(tmp_path / "out")}
    path = tmp_path / "long.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def in_terminal(arguments, home, when, act, seconds=90):
    """Run a command in a terminal of its own, act once ``when`` has appeared, return (exit code, what it printed)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*MMPCA, *arguments], environment(home))  # noqa: S606
    shown, acted, end = b"", False, time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([terminal], [], [], 0.2)
            try:
                piece = os.read(terminal, 65536) if ready else None
            except OSError:  # how Linux says that the other side has gone
                break
            if piece == b"":
                break
            shown += piece or b""
            if not acted and when in shown:
                acted = True
                time.sleep(0.5)
                act(pid, terminal)
        else:
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"still running after {seconds} s: {shown[-2000:].decode(errors='replace')}")
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
    return os.waitstatus_to_exitcode(status), text.replace("\r", "")


def press_ctrl_c(_pid, terminal):
    os.write(terminal, b"\x03")


def end_server(pid, _terminal):
    servers = [p for p in psutil.Process(pid).children(recursive=True) if "pipelines.server" in p.cmdline()]
    assert len(servers) == 1
    servers[0].kill()


@pytest.mark.parametrize(
    ("cluster", "act", "code", "reason"),
    [
        ("threads", press_ctrl_c, 130, "stopped."),
        ("local", press_ctrl_c, 130, "stopped."),
        ("threads", end_server, 1, "The temporary Prefect server has ended."),
    ],
    ids=["ctrl-c", "ctrl-c with worker processes", "server killed"],
)
def test_a_run_broken_off_ends_soon_with_one_line(prefect_home, long_config, tmp_path, cluster, act, code, reason):
    arguments = ["run", str(long_config), "--set", f"compute.cluster={cluster}"]
    found, text = in_terminal(arguments, prefect_home, b"reduce: moments", act)
    assert found == code, text
    assert text.rstrip().endswith(f"mmpca: {reason} The same command goes on from the stages that are done.")
    assert "Starting a temporary Prefect server (set PREFECT_API_URL to use yours)" in text
    assert "Traceback" not in text
    assert (tmp_path / "out" / "records" / "count.json").exists()
    assert not (tmp_path / "out" / "records" / "reduce.json").exists()


def mmpca(*arguments, home="unused", **more):
    return subprocess.run(
        [*MMPCA, *map(str, arguments)], env={**environment(home), **more}, capture_output=True, text=True, timeout=120
    )


def test_a_server_that_does_not_answer_is_named(long_config, prefect_home, tmp_path):
    ended = mmpca("run", long_config, home=prefect_home, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert ended.returncode == 2
    assert "No Prefect server answers at http://127.0.0.1:9/api (PREFECT_API_URL)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["dataset.uri=no/such.parquet"], "no/such.parquet"),
        (["n_components=65"], "n_components=65 is more than the 64 features"),
    ],
    ids=["no data set", "too many components"],
)
def test_mistakes_are_answered_before_a_server_starts(long_config, tmp_path, settings, expected):
    ended = mmpca("run", long_config, *[word for s in settings for word in ("--set", s)])
    assert ended.returncode == 2
    assert expected in ended.stderr
    assert "Prefect" not in ended.stdout + ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_taken_output_is_refused_before_a_server_starts(long_config, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    ended = mmpca("run", long_config)
    assert ended.returncode == 2
    assert "holds other files ('mine.txt') and no run" in ended.stderr
    assert "Prefect" not in ended.stdout + ended.stderr
