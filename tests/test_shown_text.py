"""Texts of data and settings are shown as they are: a terminal obeys none, and Markdown makes nothing of them."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from mmpca_pipelines import artifacts
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
    monkeypatch.setattr(artifacts, "create_markdown_artifact", lambda text, **_: published.append(text))
    monkeypatch.setattr(
        artifacts, "create_table_artifact", lambda rows, key, description: published.append(description)
    )
    monkeypatch.setattr(artifacts, "create_link_artifact", lambda *_, **__: None)
    hostile = "![a](http://evil.test/i.png) <img src=x> `code` [b](http://evil.test)\n# Title"
    found = {
        "verdict": hostile,
        "notes": [hostile],
        "html": hostile,
        "figures": [],
        "tables": {"errors": (hostile, [])},
    }
    now = SimpleNamespace(send=lambda request, *arguments, **keywords: request(*arguments, **keywords))
    artifacts.publish_evaluation(now, found)
    artifacts.publish_report(now, {"html": hostile, "notes": [hostile], "figures": []}, [], [], "", [])
    plain = r"\!\[a\](http://evil.test/i.png) \<img src=x\> \`code\` \[b\](http://evil.test) # Title"
    evaluation, report = (text for text in published if text.startswith("# "))
    assert evaluation.count(plain) == 3 and report.count(plain) == 2 and plain in published
    assert not any("](" in text.replace(r"\](", "") or "<img" in text.replace(r"\<", "") for text in published)
