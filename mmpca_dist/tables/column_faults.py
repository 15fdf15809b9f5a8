"""Unusable columns of a table: one message that names all of them, with what to type."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from mmpca_dist.errors import ColumnError

MAX_LISTED, MAX_OPTIONS = 20, 500
"""Columns that a message describes, and columns that its options to leave out name."""
YAML_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


@dataclass(frozen=True)
class ColumnFault:
    """Why a column is refused."""

    name: str
    """Its name, or its number where it has none."""
    problem: str
    """What is wrong with it, and where, such as "text, such as 'red' in row 0 (line 2)"."""
    kind: str = "text"
    """``text`` where numbers belong; ``gap``: missing or infinite values; ``names``: a label or kept column with a cell
    that is no name."""


@dataclass(frozen=True)
class Gaps:
    """Columns with missing values by the metadata, and whether the metadata cover all rows and columns."""

    faults: list[ColumnFault]
    complete: bool


def refusal(
    uri: str, faults: Sequence[ColumnFault], *, options: bool = True, dropped: Sequence[str] = ()
) -> ColumnError:
    """Return the error that names all columns that cannot be used.

    It says how to leave them out: by ``options`` of a command, or by the setting ``dataset.drop`` of a configuration,
    which leaves out ``dropped`` already.
    """
    if len(faults) == 1:
        return ColumnError(_sentence(uri, faults[0], options, dropped), faults)
    features = [fault for fault in faults if fault.kind != "names"]
    texts = [fault for fault in features if fault.kind == "text"]
    width = max(len(fault.name) for fault in faults[:MAX_LISTED])
    lines = [f"{len(faults)} columns of {uri} cannot be used as they are:"]
    lines += [f"  {fault.name:<{width}}  {fault.problem}" for fault in faults[:MAX_LISTED]]
    if len(faults) > MAX_LISTED:
        lines.append(f"  ... and {len(faults) - MAX_LISTED} more")
    if features:
        lines.append(f"Leave out columns that are no features with: {_leaving_out(features, options, dropped)}")
    if texts and options:
        kept = " ".join(f"--keep {shlex.quote(fault.name)}" for fault in texts[:MAX_LISTED])
        lines.append(f"To split evaluations by a column of names, such as a patient's, store it with the rows: {kept}")
    if options and features:
        lines.append(
            "To use text, dates and gaps as they are, write Parquet, which keeps them: mmpca ingest "
            f"{shlex.quote(uri)} DEST.parquet"
        )
    elif any(fault.kind == "gap" for fault in features):
        lines.append("To use columns with gaps, let their mean stand for them: --set dataset.missing=mean")
    if any(fault.kind == "names" for fault in faults):
        lines.append(
            "Labels and columns to keep are integers or names in every row: correct them, or name others. Columns to "
            "keep can also be left out."
        )
    return ColumnError("\n".join(lines), faults)


def _sentence(uri: str, fault: ColumnFault, options: bool, dropped: Sequence[str]) -> str:
    begin = f"Column {fault.name!r} of {uri} cannot be used as it is: {fault.problem}."
    if fault.kind == "names":
        return (
            f"{begin} Labels and columns to keep are integers or names in every row: correct it, or name another. "
            "A column to keep can also be left out."
        )
    leave = f"leave it out with {_leaving_out([fault], options, dropped)}"
    if fault.kind == "gap":
        return f"{begin} Fill or drop these rows, or {leave}."
    keep = f", or keep it with the rows by --keep {shlex.quote(fault.name)}" if options else ""
    return f"{begin} Encode it as numbers, or {leave}{keep}."


def _leaving_out(faults: Sequence[ColumnFault], options: bool, dropped: Sequence[str]) -> str:
    """Return the options that leave columns out."""
    names = [fault.name for fault in faults[:MAX_OPTIONS]]
    if options:
        return " ".join(f"--drop {shlex.quote(name)}" for name in names)
    listed = ",".join(f'"{name}"' if _is_delicate(name) else name for name in [*dropped, *names])
    return f"--set {shlex.quote(f'dataset.drop=[{listed}]')}"


def _is_delicate(name: str) -> bool:
    """Tell whether a name must be quoted in a list in YAML."""
    return not name.replace("_", "a").isalnum() or not name[0].isalpha() or name.lower() in YAML_WORDS
