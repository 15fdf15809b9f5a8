"""Columns that lack values, and unusable ones: one message that names all of them, with what to type."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mmpca_dist.errors import ColumnError
from mmpca_dist.faults import Asker, Fault, Setting

MAX_LISTED, MAX_OPTIONS = 20, 500
"""Columns that a message describes, and columns that its options to leave out name."""
YAML_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


def gaps_by_column(missing: Sequence[int] | NDArray, names: Sequence[str] | None) -> list[tuple[str, int]]:
    """Return the columns that lack values, and how many, the worst first; indicators of one text lack the same."""
    labels = (name.partition("=")[0] for name in names) if names else (f"column {j}" for j in range(len(missing)))
    lacking = {name: int(count) for name, count in zip(labels, missing, strict=False) if count}
    return sorted(lacking.items(), key=lambda pair: -pair[1])


@dataclass(frozen=True)
class ColumnFault(Fault):
    """Why a column of a ``table`` is refused: what is wrong, and where, such as "text: 'red' in row 0 (line 2)".

    Facts have its ``name``, or its number where it has none. The kind is ``text`` where numbers belong; ``words``:
    numbers with other cells, of which ``words`` can be called missing, and in other ``notations``; ``gap``: missing or
    infinite values; ``names``: a label or kept column with a cell that is no name.
    """

    @classmethod
    def all_said(cls, faults: Sequence[Fault], asker: Asker) -> str:
        facts, advice = faults[0].facts, _advice(faults, asker)
        if len(faults) == 1:
            what = f"Column {facts['name']!r} of {facts['table']} cannot be used as it is: {faults[0].text}."
            return f"{what} {_capital('; or '.join(advice))}."
        columns = [(fault.facts["name"], fault.text) for fault in faults[:MAX_LISTED]]
        width = max(len(name) for name, _ in columns)
        lines = [f"{len(faults)} columns of {facts['table']} cannot be used as they are:"]
        lines += [f"  {name:<{width}}  {problem}" for name, problem in columns]
        if len(faults) > MAX_LISTED:
            lines.append(f"  ... and {len(faults) - MAX_LISTED} more")
        return "\n".join([*lines, *map(_capital, advice)])


def refusal(uri: str, faults: Sequence[Fault], dropped: Sequence[str] = (), remedy: str = "") -> ColumnError:
    """Return the error that names all unusable columns, and how to leave them out besides those ``dropped``."""
    shared = {"table": uri, "dropped": dropped, "remedy": remedy}
    return ColumnError(*(ColumnFault(fault.text, {**fault.facts, **shared}, fault.kind) for fault in faults))


def _advice(faults: Sequence[Fault], asker: Asker) -> list[str]:
    if asker.estimator:
        advice = [_conversion(fault.facts) for fault in faults if fault.kind == "words"]
        return [*filter(None, advice[:1]), "drop or encode such columns"]
    command, kinds = asker.settings == "options", {fault.kind for fault in faults}
    features = [fault.facts["name"] for fault in faults if fault.kind != "names"]
    advice = []
    if features:
        left_out = _leaving_out(features[:MAX_OPTIONS], faults[0].facts["dropped"], asker)
        advice.append(f"leave out columns that are no features: {left_out}")
    words = dict.fromkeys(word for fault in faults for word in fault.facts.get("words", ()))
    if words:
        gaps = Setting("missing_values", list(words)).said(asker) if asker.settings != "keys" else _listed(words)
        advice.append(f"let such cells be missing: {gaps}, with {Setting('missing', 'mean').said(asker)}")
    if any("a decimal comma" in fault.facts.get("notations", ()) for fault in faults):
        advice.append(f"read a decimal comma: {Setting('decimal', ',').said(asker)}")
    if command and kinds & {"text", "words"}:
        texts = [fault.facts["name"] for fault in faults if fault.kind in ("text", "words")][:MAX_LISTED]
        advice.append(f"keep columns of names with the rows: {Setting('keep', texts).said(asker)}")
    if command and features:
        itself = "run on the table itself, which may hold text and, with dataset.missing=mean, gaps"
        advice.append(faults[0].facts["remedy"] or itself)
    elif "gap" in kinds:
        advice.append(f"let means stand for gaps: {Setting('missing', 'mean').said(asker)}")
    if "names" in kinds:
        advice.append("correct labels and columns to keep, which are integers or names in every row, or name others")
    return advice


def _conversion(facts: Mapping[str, Any]) -> str:
    """Return what makes numbers of a column of a data frame; nothing where a notation prevails that pandas lacks."""
    column = f"X[{facts['name']!r}]"
    if facts["words"] or not facts["notations"]:
        return f"convert numbers: {column} = pd.to_numeric({column}, errors='coerce')"
    commas = facts["notations"] == ["a decimal comma"]
    return f"convert numbers: {column} = {column}.str.replace(',', '.').astype(float)" if commas else ""


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _leaving_out(names: Sequence[str], dropped: Sequence[str], asker: Asker) -> str:
    """Return what leaves columns out."""
    if asker.settings != "keys":
        return Setting("drop", [*(dropped if asker.settings == "keywords" else []), *names]).said(asker)
    return _listed([*dropped, *names], "drop")


def _listed(names: Iterable[str], setting: str = "missing_values") -> str:
    listed = ",".join(json.dumps(name, ensure_ascii=False) if _is_delicate(name) else name for name in names)
    return f"--set {shlex.quote(f'dataset.{setting}=[{listed}]')}"


def _is_delicate(name: str) -> bool:
    """Tell whether a name must be quoted in a list in YAML."""
    return not name.replace("_", "a").isalnum() or not name[:1].isalpha() or name.lower() in YAML_WORDS
