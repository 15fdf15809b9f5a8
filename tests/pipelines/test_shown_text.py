"""Texts of data and settings are shown as they are: a terminal obeys none, and Markdown makes nothing of them."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest

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


def test_markdown_makes_nothing_of_texts(monkeypatch):
    published = []
    shown = SimpleNamespace(show=lambda _, words, markdown=None, **__: published.append(markdown or words))
    hostile = "![a](http://evil.test/i.png) <img src=x> `code` [b](http://evil.test)\n```\n# Title"
    record = {"verdict": hostile, "answer": [hostile], "next": [], "notes": [hostile], "html": hostile, "figures": []}
    row = dict.fromkeys(("method", "components", "share", "leading eigenvalues"), hostile)
    monkeypatch.setattr(results, "components_and_legend", lambda _: ([row], ""))
    monkeypatch.setattr(results, "summary", lambda _: [hostile])
    results.publish_evaluation(shown, hostile, {**record, "tables": {"errors": (hostile, [])}})
    results.publish_run(shown, hostile, record, [], [])
    plain = r"\!\[a\](http://evil.test/i.png) \<img src=x\> \`code\` \[b\](http://evil.test) \`\`\` # Title"
    evaluation, report = (text for text in published if text.startswith("# "))
    assert evaluation.count(plain) == 3 and report.count(plain) == 6 and plain in published
    code = re.compile(r"^```\n(?:.*\n)*?```$", re.M)
    for text in (code.sub("", text) for text in published):
        assert "](" not in text.replace(r"\](", "") and "<img" not in text.replace(r"\<", "") and "```" not in text
