"""The parts of all results: sentences, tables, notes and commands, which renderers show as they are."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any

from mmpca_dist.jobs.records import ReportRecord
from mmpca_dist.stores import storage

CONFIG = "report/config.yaml"
"""The configuration of a run, for further commands."""
Listing = tuple[str, list[dict[str, str]]]
"""The title of a table, and its rows as texts."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """Results of a run or of an evaluation: texts and plain numbers, of which renderers compute nothing more."""

    folder: str = ""
    lead: list[str] = field(default_factory=list)
    """The results in sentences, the first of which says most."""
    words: list[str] = field(default_factory=list)
    """Further sentences."""
    title: str = ""
    rows: list[dict[str, str]] = field(default_factory=list)
    """The table that says most, as texts, with its title."""
    legend: str = ""
    """The meaning of its columns."""
    numbers: list[dict[str, Any]] = field(default_factory=list)
    """Its numbers, as they were computed."""
    tables: dict[str, Listing] = field(default_factory=dict)
    """All tables, by key."""
    next: dict[str, str] = field(default_factory=dict)
    """Commands to type next, by their purpose."""
    commands: list[str] = field(default_factory=list)
    """Those of them that follow from the results."""
    notes: list[str] = field(default_factory=list)
    """Notes that a reader needs."""
    report: ReportRecord | None = None
    """Where the page and its pictures are; None before they are written."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        names = ("lead", "words", "numbers", "legend", "tables", "next", "notes")
        return {name: getattr(self, name) for name in names}


def config_in(folder: str) -> str:
    """Return the file of a run's configuration as commands name it."""
    return shlex.quote(storage.join(folder, CONFIG)) if storage.is_local(folder) else "my.yaml"


def about_config(folder: str) -> str:
    """Return what commands mean by my.yaml, where they name it."""
    return "" if storage.is_local(folder) else " (my.yaml is the configuration of this run)"


def commands_by_purpose(folder: str, commands: list[str]) -> dict[str, str]:
    """Return the commands that follow from results by their purpose: a run of what they name, a further evaluation."""
    aims = {"mmpca run": "Fit it to all rows", "mmpca evaluate": "Try more components"}
    begun = {command: next(aim for start, aim in aims.items() if command.startswith(start)) for command in commands}
    return {f"{aim}{about_config(folder)}:": command for command, aim in begun.items()}
