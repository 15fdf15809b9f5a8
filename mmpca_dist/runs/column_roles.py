"""What each column of a table is for: label, feature, groups of an evaluation, or to be left out; and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mmpca_dist.configuration.sections import EvaluationConfig
from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.ingest.column_looks import ColumnLook
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.column_faults import ColumnFault
from mmpca_dist.tables.levels import Levels, is_text
from mmpca_dist.tables.readers.named_columns import LABEL_NAMES

LABEL, NUMBER, INDICATORS, LEFT_OUT, GROUPS = "label", "number", "indicators", "left out", "groups"
USUAL_LABELS = ("class", "target", "species", "diagnosis", "outcome", "category", "type")
GROUP_WORDS = frozenset(
    {
        "patient", "subject", "person", "participant", "donor", "individual", "user", "customer", "client", "household",
        "family", "group", "site", "hospital", "batch", "plate", "vineyard", "farm", "school", "animal", "mouse",
        "session", "device", "speaker", "author",
    }
)  # fmt: skip
IDENTIFIER_WORDS = frozenset({"id", "uid", "uuid", "guid", "key", "nr", "no", "number", "index", "idx", "row"})
DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([ T].*)?")
MOST_CLASSES = 50
"""Different values of a column that is taken for the label without being named."""
MOSTLY = 0.5
"""Columns are left out that lack more than this share of their values, and texts that differ in so many rows."""
FEWEST_ROWS = 20
"""With fewer rows, different values do not make an identifier."""


@dataclass(frozen=True)
class Role:
    """What becomes of a column, and the reason."""

    column: ColumnLook
    use: str
    reason: str = ""
    fault: ColumnFault | None = None
    """Why a run refuses the column, unless a setting leaves it out or lets it pass."""

    @property
    def n_features(self) -> int:
        """Features that the column becomes."""
        if self.use == INDICATORS:
            return len(Levels.of(self.column.name, self.column.levels).names)
        return int(self.use == NUMBER)


def label_of(columns: Sequence[ColumnLook], named: str | None) -> tuple[ColumnLook | None, str]:
    """Return the column of the labels and why it is that one; None where none seems to be.

    Raises InputError where there is no column of the name.
    """
    by_name = {column.name: column for column in columns}
    if named is not None:
        if named not in by_name:
            hint = did_you_mean(named, by_name) or f" Its columns are {some_names(list(by_name))}."
            raise InputError(f"There is no column {named!r} (--label).{hint}")
        return by_name[named], "as you say"
    for name in LABEL_NAMES:
        if name in by_name:
            return by_name[name], "by its name"
    likely = [column for column in columns if _is_like_a_label(column)]
    usual = [column for column in likely if column.name.lower() in USUAL_LABELS]
    if usual:
        return usual[0], "guessed by its name; name another with --label"
    if likely:
        return likely[-1], f"guessed: the last column of at most {MOST_CLASSES} names; name another with --label"
    return None, ""


def _is_like_a_label(column: ColumnLook) -> bool:
    names = is_text(column.kind) or pa.types.is_boolean(column.kind) or (column.is_number and column.is_whole)
    return names and 2 <= column.n_distinct <= min(MOST_CLASSES, column.n_known / 2)


def is_continuous(label: ColumnLook) -> bool:
    """Tell whether a label holds numbers to predict rather than classes."""
    return label.is_number and (not label.is_whole or label.n_distinct > max(MOST_CLASSES, label.n_known / 20))


def roles_of(columns: Sequence[ColumnLook], label: ColumnLook | None) -> list[Role]:
    """Return what becomes of each column."""
    roles: list[Role] = []
    seen: dict[tuple[int, int], str] = {}
    likely = [column for column in columns if column is not label and _makes_groups(column)]
    groups = max(likely, key=lambda column: column.n_distinct, default=None)
    for column in columns:
        if column is label:
            roles.append(Role(column, LABEL))
        elif column is groups:
            reason = f"{column.n_distinct:,} groups of rows, which an evaluation holds out as a whole"
            roles.append(Role(column, GROUPS, reason, _fault(column)))
        else:
            reason = _reason_to_leave_out(column, seen.get((column.digest, column.n_missing)))
            if not reason and column in likely and (column.is_number or column.n_distinct > MOST_CLASSES):
                reason = "it names groups of rows"
            use = INDICATORS if is_text(column.kind) else NUMBER
            roles.append(Role(column, LEFT_OUT if reason else use, reason, _fault(column)))
            if not reason:
                seen[column.digest, column.n_missing] = column.name
    return _few_enough_levels(roles)


def _words(name: str) -> set[str]:
    """Return the words that a name is made of: ``patientID`` and ``patient_id`` have the same."""
    return {word.lower().rstrip("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)} | {name.lower()}


def _makes_groups(column: ColumnLook) -> bool:
    names = is_text(column.kind) or (column.is_number and column.is_whole)
    is_named = bool(_words(column.name) & GROUP_WORDS)
    folds = EvaluationConfig.model_fields["folds"].default
    return names and is_named and not column.n_missing and folds <= column.n_distinct <= column.n_known / 2


def _reason_to_leave_out(column: ColumnLook, same: str | None) -> str:
    """Return why a column is no feature; empty where it is one."""
    if not column.n_known:
        return "no row has a value"
    if pa.types.is_nested(column.kind) or pa.types.is_binary(column.kind):
        return f"it holds type {column.kind}"
    if pa.types.is_temporal(column.kind) or _is_text_of_dates(column):
        return "a date: turn it into a number, such as days since one of them, to use it"
    if column.smallest == column.largest or (not _is_fraction(column) and column.n_distinct == 1):
        return "all rows have the same value"
    if column.n_infinite:
        return f"{column.n_infinite:,} values are infinite: correct them to use it"
    if column.n_missing > MOSTLY * column.n_rows:
        return f"{column.n_missing / column.n_rows:.0%} of its values are missing"
    if same is not None:
        return f"it equals {same!r}"
    return _identifies(column)


def _is_fraction(column: ColumnLook) -> bool:
    return column.is_number and not column.is_whole


def _is_text_of_dates(column: ColumnLook) -> bool:
    return is_text(column.kind) and all(DATE.fullmatch(text) for text in column.levels)


def _identifies(column: ColumnLook) -> str:
    """Return why a column tells rows rather than what they are like; empty where it does not."""
    n_rows = column.n_known
    if is_text(column.kind):
        if column.all_differ and n_rows >= FEWEST_ROWS:
            return "an identifier: every row has another text"
        if column.n_distinct > max(MOSTLY * n_rows, FEWEST_ROWS):
            return "nearly every row has another text"
        if column.n_distinct > LIMITS.max_levels:
            return f"about {column.n_distinct:,} different texts, and indicators for {LIMITS.max_levels:,} at most"
        return ""
    if not column.is_number or _is_fraction(column) or not column.all_differ or n_rows < FEWEST_ROWS:
        return ""
    # So many numbers of a narrower range, drawn at random, differ with a chance of less than exp(-10).
    is_dense = column.largest - column.smallest < n_rows**2 / 20
    if column.counts_rows or is_dense or _words(column.name) & IDENTIFIER_WORDS:
        return "an identifier: a whole number that is another in every row"
    return ""


def _fault(column: ColumnLook) -> ColumnFault | None:
    """Return why a run refuses a column as it is."""
    if pa.types.is_temporal(column.kind) or pa.types.is_nested(column.kind) or pa.types.is_binary(column.kind):
        return ColumnFault(column.name, f"type {column.kind}, where numbers belong")
    if column.n_infinite:
        return ColumnFault(column.name, f"{column.n_infinite:,} infinite values", "gap")
    if is_text(column.kind) and column.n_distinct > LIMITS.max_levels:
        return ColumnFault(
            column.name, f"about {column.n_distinct:,} different texts, and at most {LIMITS.max_levels:,}"
        )
    if column.n_missing:
        return ColumnFault(column.name, f"{column.n_missing:,} missing values", "gap")
    return None


def _few_enough_levels(roles: list[Role]) -> list[Role]:
    """Leave out texts with most levels until all indicators together are few enough."""
    sizes = {role.column.name: role.column.n_distinct for role in roles if role.use == INDICATORS}
    reasons = {}
    while sum(sizes.values()) > LIMITS.max_levels:
        name = max(sizes, key=lambda name: sizes[name])
        reasons[name] = f"{sizes.pop(name):,} different texts, and indicators of all columns are too many"
    return [
        Role(role.column, LEFT_OUT, reasons[role.column.name], role.fault) if role.column.name in reasons else role
        for role in roles
    ]


def scales(roles: Sequence[Role]) -> tuple[float, float]:
    """Return the smallest and the largest standard deviation of the columns of numbers."""
    deviations = np.asarray([role.column.deviation for role in roles if role.use == NUMBER and role.column.is_number])
    deviations = deviations[deviations > 0]
    return (float(deviations.min()), float(deviations.max())) if len(deviations) else (1.0, 1.0)
