"""Which column of a table holds its labels, and which ones name rows, by their names, places and values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import pyarrow as pa

from mmpca_dist.column_words import GROUP, is_identifier
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.ingest.column_profiles import ColumnProfile
from mmpca_dist.tables.levels import is_text
from mmpca_dist.tables.readers.column_choice import LABEL_NAMES
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.spans import unit_edges
from mmpca_dist.tables.times import times_in


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


STRONG = words(
    "label class target species diagnosis outcome category survived churn churned exited attrition default fraud spam "
    "sentiment quality disposition canceled cancelled readmitted satisfaction stroke diabetes poisonous edible "
    "cultivar variety activity celltype annotation leiden louvain cluster"
)
WEAK = words("type status result risk response grade rating subtype genre topic decision disease segment")
FILLERS = words("is has the of name binary value flag cell id code obs")
"""Words beside which a usual word is the whole name, as in "is_fraud" or "class name"."""
PEOPLE = words("sex gender race ethnicity country nationality region city county address name description")
TIMES_AND_PLACES = words(
    "date datetime time timestamp year month day weekday dayofweek hour minute week quarter yr latitude longitude lat "
    "lon lng long zip zipcode postcode postal coordinate coordinates easting northing index rownames unnamed"
)
MAX_CLASSES = 50
"""Different values of a column that is taken for the label without being named."""
FEWEST_GROUPS = 5
"""Fewer groups do not fill the folds."""
NEARLY_ALL = 0.9
OTHERS = 2
"""Further candidates that are named."""


def repeats_id(name: str) -> bool:
    """Tell whether a column of this name that has values several times names groups of rows."""
    return is_identifier(name, "id") and not words_of(name) & STRONG


def makes_groups(column: ColumnProfile) -> bool:
    """Tell whether a column names groups of rows, which may be held out together."""
    many = FEWEST_GROUPS <= column.n_distinct <= column.n_known / 2 and column.is_names and not column.n_missing
    return many and bool(GROUP.search(column.name) or repeats_id(column.name))


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, such as "cover" and "type" of "Cover_Type" or "coverType"."""
    return frozenset(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+|\d+", name))


def label_among(columns: Sequence[ColumnProfile], named: str | None) -> tuple[ColumnProfile | None, str]:
    """Return the column of the labels and why it is this one, with other candidates; None where none seems to be."""
    by_name = {column.name: column for column in columns}
    if named == "none":
        return None, ""
    if named is not None:
        if named not in by_name:
            raise InputError(f"There is no column {named!r} (--label).{did_you_mean(named, by_name)}")
        return by_name[named], "as you say"
    usual = [by_name[name] for name in LABEL_NAMES if name in by_name and _is_by_name(by_name[name], by_name)]
    likely = [column for column in _in_order(columns) if column not in usual]
    if not usual and not likely:
        return None, ""
    label, *others = [*usual, *likely]
    why = "by its name" if usual or _rank_of_name(label) < 2 else "a guess"
    beside = " or ".join(repr(other.name) for other in others[:OTHERS])
    return label, f"{why}: name another with --label{f', such as {beside}' if beside else ''}"


def label_beside(source: Source) -> tuple[str | None, str]:
    """Return the likeliest label among the columns beside rows that have none; and why."""
    looks = []
    for name in source.beside_names if source.label is None else ():
        looks.append(ColumnProfile(name, len(source.beside_names)))
        column = source.column(name, "label")
        for start, stop in itertools.pairwise(unit_edges(source.chunk_edges, 8).tolist()):
            looks[-1].add(column.read_arrow(start, stop).combine_chunks())
    label, why = label_among(looks, None)
    return None if label is None else label.name, why


def _is_by_name(column: ColumnProfile, names: dict[str, ColumnProfile]) -> bool:
    """Tell whether a column called label or y is the label: no name of each row, no coordinate."""
    differ = column.n_distinct > NEARLY_ALL * column.n_known and column.n_known > 2
    if column.name == "y" and {"x", "X"} & names.keys() and ({"z", "Z"} & names.keys() or differ):
        return False
    return not (differ and column.is_names and (is_text(column.kind) or column.name == "label"))


def _in_order(columns: Sequence[ColumnProfile]) -> list[ColumnProfile]:
    """Return the columns that may hold classes, the likeliest first."""
    able = [column for column in columns if column.n_known and not _is_no_guess(column)]
    likely = [c for c in able if c.is_names and 2 <= c.n_distinct <= min(MAX_CLASSES, c.n_known / 2)]
    plain = [column for column in likely if not PEOPLE & words_of(column.name)]
    last, first = ([column for column in end if column in plain] for end in (able[-1:], able[:1]))
    texts = [column for column in able if is_text(column.kind)]
    usual, weak, parts, _ = ([c for c in reversed(likely) if _rank_of_name(c) == rank] for rank in range(4))
    tiers = [
        [c for c in last if c in usual], [c for c in first if c in usual], usual,
        [c for c in last if c.n_distinct == 2], [c for c in plain if texts == [c]], [c for c in last if c in texts],
        weak, [c for c in first if c.n_distinct == 2], last, parts, first, [c for c in reversed(plain) if c in texts],
        likely[::-1],
    ]  # fmt: skip
    return list(dict.fromkeys(itertools.chain(*tiers)))


def _rank_of_name(column: ColumnProfile) -> int:
    """Return 0 for a name that is a usual word for labels, 1 for a weaker word, 2 where it has such words, else 3."""
    core = words_of(column.name) - FILLERS
    ranks = (core & STRONG and core <= STRONG | WEAK, core and core <= WEAK, core & (STRONG | WEAK))
    return next((rank for rank, holds in enumerate(ranks) if holds), len(ranks))


def _is_no_guess(column: ColumnProfile) -> bool:
    """Tell whether a column is named like times, places, groups or identifiers of rows, or holds times."""
    if pa.types.is_temporal(column.kind) or _rank_of_name(column) == 0:
        return pa.types.is_temporal(column.kind)
    within, name = words_of(column.name), column.name.strip()
    by_word = TIMES_AND_PLACES & within and not STRONG & within and column.n_distinct > 2
    is_year = column.is_number and 1900 <= column.smallest <= column.largest <= 2100
    if is_year or (column.n_distinct <= MAX_CLASSES and times_in(column.levels)):
        return True
    return bool(by_word or is_identifier(name) or GROUP.search(name) or name.lower() in ("x", "y", "z"))
