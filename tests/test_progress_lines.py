"""Progress where there is no terminal: plain lines in a file or a pipe."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from mmpca_pipelines import console
from mmpca_pipelines.console import ProgressLines

SCRIPT = """
import sys
from rich.console import Console
from mmpca_dist.runs.evaluation_stages import evaluate
from mmpca_dist.limits import LIMITS
from mmpca_pipelines.console import ConsoleCallback

LIMITS.progress_line_seconds = 0.01
evaluate({
    "dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca0"], "n_components": [1, 2], "output": sys.argv[1],
    "evaluation": {"splits": "folds", "folds": 5, "count": 4, "classifiers": ["fisher", "svm"]},
}, [ConsoleCallback(Console())])
"""


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


def test_what_a_line_says(clock):
    told = ProgressLines(lambda line: None, "score")
    clock.now += 3
    assert told.line() == "score, 3 s"
    told.begin_pass("gather")
    assert told.line() == "score: gather, 3 s"
    clock.now += 20
    told.update(1200, 4000)
    assert told.line() == "score: gather, 1,200 of 4,000 (30%), 23 s, about 47 s left"
    told.update(4000, 4000)
    assert told.line() == "score: gather, 4,000 of 4,000 (100%), 23 s"
    told.begin_pass("classify")
    assert told.line() == "score: classify, 23 s"
    told.close()


def test_lines_end_with_their_stage(limits):
    limits.progress_line_seconds = 0.001
    printed = []
    told = ProgressLines(printed.append, "reduce")
    while not printed:
        pass
    told.close()
    count = len(printed)
    assert not told._thread.is_alive()
    assert len(printed) == count and set(printed) == {"reduce, under a second"}


@pytest.mark.slow
def test_a_pipe_gets_plain_lines(tmp_path):
    """Stage, pass, units and time; no control characters, and no line is cut."""
    found = subprocess.check_output([sys.executable, "-c", SCRIPT, str(tmp_path / "out")]).decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", found)
    line = r"  score: [a-z ]+, \d+ of \d+ \(\d+%\), (under a second|\d+ s)(, (under a second|about \d+ s) left)?"
    assert any(re.fullmatch(line, one) for one in found.splitlines()), found
    assert "left, by the time of the first splits" in found
