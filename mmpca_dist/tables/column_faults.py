"""Unusable columns of a table: one message that names all of them, with what to type."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from mmpca_dist.errors import ColumnError
from mmpca_dist.settings import setting_name

MAX_LISTED, MAX_OPTIONS = 20, 500
"""Columns that a message describes, and columns that its options to leave out name."""
YAML_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


@dataclass(frozen=True)
class ColumnFault:
    """Why a column is refused."""

    name: str
    """Its name, or its number where it has none."""
    problem: str
    """What is wrong with it, and where, such as "text: 'red' in row 0 (line 2)"."""
    kind: str = "text"
    """``text`` where numbers belong; ``gap``: missing or infinite values; ``names``: a label or kept column with a cell
    that is no name."""


def refusal(uri: str, faults: Sequence[ColumnFault], dropped: Sequence[str] = (), remedy: str = "") -> ColumnError:
    """Return the error that names all columns that cannot be used.

    It says how to leave them out: by options of ``mmpca ingest``, or by the setting ``dataset.drop`` of a
    configuration, which leaves out ``dropped`` already. ``remedy`` is another way of an ingest.
    """
    options = setting_name("drop").startswith("--")
    kinds, features = {fault.kind for fault in faults}, [fault.name for fault in faults if fault.kind != "names"]
    advice = []
    if features:
        left_out = _leaving_out(features[:MAX_OPTIONS], options, dropped)
        advice.append(f"leave out columns that are no features: {left_out}")
    if options and "text" in kinds:
        texts = [fault.name for fault in faults if fault.kind == "text"][:MAX_LISTED]
        advice.append(f"keep columns of names with the rows: {setting_name('keep', texts)}")
    if options and features:
        advice.append(remedy or "run on the table itself, which may hold text and, with dataset.missing=mean, gaps")
    elif "gap" in kinds:
        advice.append(f"let means stand for gaps: {setting_name('missing', 'mean')}")
    if "names" in kinds:
        advice.append("correct labels and columns to keep, which are integers or names in every row, or name others")
    if len(faults) == 1:
        what = f"Column {faults[0].name!r} of {uri} cannot be used as it is: {faults[0].problem}."
        return ColumnError(f"{what} {_capital('; or '.join(advice))}.", faults)
    width = max(len(fault.name) for fault in faults[:MAX_LISTED])
    lines = [f"{len(faults)} columns of {uri} cannot be used as they are:"]
    lines += [f"  {fault.name:<{width}}  {fault.problem}" for fault in faults[:MAX_LISTED]]
    if len(faults) > MAX_LISTED:
        lines.append(f"  ... and {len(faults) - MAX_LISTED} more")
    return ColumnError("\n".join([*lines, *map(_capital, advice)]), faults)


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _leaving_out(names: Sequence[str], options: bool, dropped: Sequence[str]) -> str:
    """Return the options that leave columns out."""
    if options:
        return setting_name("drop", names)
    if setting_name("drop") != "dataset.drop":
        return setting_name("drop", [*dropped, *names])
    listed = ",".join(f'"{name}"' if _is_delicate(name) else name for name in [*dropped, *names])
    return f"--set {shlex.quote(f'dataset.drop=[{listed}]')}"


def _is_delicate(name: str) -> bool:
    """Tell whether a name must be quoted in a list in YAML."""
    return not name.replace("_", "a").isalnum() or not name[0].isalpha() or name.lower() in YAML_WORDS
