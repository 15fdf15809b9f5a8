"""A configuration in YAML with a reason for every choice, as a comment."""

from __future__ import annotations

from typing import Any

import yaml

from mmpca_dist.configuration.parsing import as_yaml
from mmpca_dist.runs.check import Check, Choice


def suggested_yaml(checked: Check) -> str:
    """Return the configuration that suits a table, each setting with its reason."""
    look = checked.look
    lines = [
        _comment(f"{look.uri}: {look.n_rows:,} rows, of which a run makes {checked.n_features:,} features.").strip(),
        "# mmpca plan, mmpca run and mmpca evaluate take this file. All settings: mmpca config.",
    ]
    section = ""
    for choice in checked.choices():
        group, dot, name = choice.key.rpartition(".")
        if group != section and dot:
            lines += ["", f"{group}:"]
        elif not dot and group != section:
            lines.append("")
        section = group
        lines += _lines(choice, name, "  " if dot else "")
    return "\n".join(lines) + "\n"


def settings(checked: Check) -> dict[str, Any]:
    """Return the same as the content of a configuration."""
    content: dict[str, Any] = {}
    for choice in checked.choices():
        group, dot, name = choice.key.rpartition(".")
        (content.setdefault(group, {}) if dot else content)[name] = choice.value
    return content


def _lines(choice: Choice, name: str, indent: str) -> list[str]:
    if choice.reasons:
        pairs = zip(choice.value, choice.reasons, strict=True)
        return [f"{indent}{name}:", *(f"{indent}  - {_scalar(one)}{_comment(reason)}" for one, reason in pairs)]
    value = as_yaml(choice.value) if isinstance(choice.value, list) else _scalar(choice.value)
    return [f"{indent}{name}: {value}{_comment(choice.reason)}"]


def _scalar(value: Any) -> str:
    """Return a value on one line: names that YAML would fold are quoted and escaped."""
    text = as_yaml(value)
    if "\n" in text:
        text = yaml.safe_dump(value, default_style='"', width=10**6).strip()
    return text


def _comment(text: str) -> str:
    """Return a comment of one line, in which nothing of the data can begin another."""
    words = "".join(letter if letter.isprintable() else " " for letter in text)
    return f"  # {' '.join(words.split())}" if text else ""
