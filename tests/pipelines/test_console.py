"""What consoles show: texts of data as they are, and progress in plain lines where there is no terminal."""

import io
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mmpca_dist.jobs import events
from mmpca_dist.jobs.events import StageLines
from mmpca_pipelines import results
from mmpca_pipelines.console import Terminal, plan_table, rows_table

HOSTILE = "[/x] \x1b]0;title\x07\x1b[31m \u202egnp.exe"
SHOWN = r"[/x] \x1b]0;title\x07\x1b[31m \u202egnp.exe"


@pytest.mark.parametrize(
    "content",
    [HOSTILE, plan_table([(HOSTILE, HOSTILE)]), rows_table("Errors", [{HOSTILE: HOSTILE}])],
    ids=["text", "plan", "rows"],
)
def test_a_terminal_obeys_no_text(content):
    file = io.StringIO()
    Terminal(file=file, width=200).print(content, markup=False, highlight=False)
    assert SHOWN in file.getvalue() and "\x1b" not in file.getvalue()


def test_markdown_makes_nothing_of_texts():
    published = []
    shown = SimpleNamespace(show=lambda _, words, markdown=None, **__: published.append(markdown or words))
    hostile = "![a](http://evil.test/i.png) <img src=x> `code` [b](http://evil.test)\n```\n# Title"
    result = SimpleNamespace(
        folder=hostile, lead=[hostile, hostile], words=[hostile], title=hostile, rows=[{"method": hostile}],
        legend=hostile, tables={"errors": (hostile, [])}, next={}, notes=[hostile],
        report={"html": hostile, "figures": []},
    )  # fmt: skip
    results.publish(shown, result)
    plain = r"\!\[a\](http://evil.test/i.png) \<img src=x\> \`code\` \[b\](http://evil.test) \`\`\` # Title"
    (page,) = (text for text in published if text.startswith("# "))
    assert page.count(plain) == 7 and plain in published
    code = re.compile(r"^```\n(?:.*\n)*?```$", re.M)
    for text in (code.sub("", text) for text in published):
        assert "](" not in text.replace(r"\](", "") and "<img" not in text.replace(r"\<", "") and "```" not in text


SCRIPT = """
import sys
from rich.console import Console
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.limits import LIMITS
from mmpca_pipelines.console import ConsoleCallback

LIMITS.progress_line_seconds = 0.01
evaluate({
    "dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca0"], "n_components": [1, 2], "output": sys.argv[1],
    "evaluation": {"splits": "folds", "folds": 5, "count": 4, "classifiers": ["fisher", "svm"]},
}, [ConsoleCallback(Console())])
"""


def test_what_lines_say_and_how_often(monkeypatch, limits):
    now, limits.progress_line_seconds = [100.0], 10
    monkeypatch.setattr(events, "time", SimpleNamespace(monotonic=lambda: now[0]))
    said: list[str] = []
    told = StageLines(said.append, "score")
    for seconds, name, done, line in (
        (9, None, 1, None),
        (2, None, 2, "score, 2 of 4,000 (0%), 11 s, about 2 h left"),
        (5, "gather", 1, None),
        (20, None, 1200, "score: gather, 1,200 of 4,000 (30%), 36 s, about 47 s left of this pass"),
        (20, None, 4000, "score: gather, 4,000 of 4,000 (100%), 56 s"),
    ):
        said.clear()
        now[0] += seconds
        if name:
            told.begin_pass(name)
        told.update(done, 4000)
        assert said == ([line] if line else [])


@pytest.mark.parametrize(("steps", "left"), [
    ([(30, 1, ""), (12, 5, "")], "about 3 s left"),  # half a minute to compile, before the first of 6 units
    ([(1, 4, ""), (12, 5, "")], "about 12 s left"),  # four were done before this process
    ([(1, 2, ""), (12, 2, "")], ""),  # nothing was measured yet
    ([(1, 0, ""), (12, 3, "")], "about 12 s left"),
    ([(1, 5, ""), (1, 1, "pairs"), (12, 3, "")], "about 18 s left of this pass"),  # another pass
])  # fmt: skip
def test_the_time_that_is_left_is_told_by_the_speed_of_what_was_seen(steps, left, monkeypatch, limits):
    now, limits.progress_line_seconds = [100.0], 10
    monkeypatch.setattr(events, "time", SimpleNamespace(monotonic=lambda: now[0]))
    said: list[str] = []
    told = StageLines(said.append, "search")
    for seconds, done, name in steps:
        now[0] += seconds
        if name:
            told.begin_pass(name)
        told.update(done, 6)
    assert said[-1].endswith(left) and ("left" in said[-1]) == bool(left)


@pytest.mark.slow
def test_a_pipe_gets_plain_lines(tmp_path):
    """Stage, pass, units and time; no control characters, and no line is cut."""
    found = subprocess.check_output([sys.executable, "-c", SCRIPT, str(tmp_path / "out")]).decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", found)
    line = r"  score: [a-z ]+, \d+ of \d+ \(\d+%\), (under a second|\d+ s)"
    line += r"(, (under a second|about \d+ s) left of this pass)?"
    assert any(re.fullmatch(line, one) for one in found.splitlines()), found
    assert "left, by the time of the first splits" in found
