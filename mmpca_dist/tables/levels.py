"""Levels of text columns: what becomes an indicator column, and what is joined as rare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmpca_dist.errors import some_names
from mmpca_dist.faults import Fault
from mmpca_dist.limits import LIMITS

RARE = 0.001
"""Levels of a smaller share of the rows are joined."""
MOSTLY, FEWEST_ROWS = 0.5, 20
"""Columns are of no use that lack a larger share of their values, or whose text is new in more rows."""
MANY = 50
"""A column that makes more indicators is named."""
JOINED = "(rare)"
"""The name of joined levels."""


@dataclass(frozen=True)
class Levels:
    """The levels of a text column: those with an indicator each, and those that are joined; both sorted."""

    name: str
    kept: tuple[str, ...]
    rare: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, counts: Mapping[str, float]) -> Levels:
        """Return the levels of a column, given how many rows have each, or what these weigh."""
        least = RARE * sum(counts.values())
        rare = sorted(level for level, count in counts.items() if count < least)
        return cls(name, tuple(sorted(counts.keys() - set(rare))), tuple(rare))

    @property
    def names(self) -> list[str]:
        """Names of the indicator columns."""
        return [f"{self.name}={JOINED if levels == self.rare else levels[0]}" for levels in self.by_indicator]

    @property
    def by_indicator(self) -> list[tuple[str, ...]]:
        """The levels that each indicator column tells of; of two the second one's column is enough."""
        levels = [*((level,) for level in self.kept), *([self.rare] if self.rare else [])]
        return levels[1:] if len(levels) == 2 else levels

    def indicators(self, values: pa.Array, dtype: np.dtype) -> NDArray:
        """Return the indicators of text, shape (k, n): NaN where there is none, and zeros of a level that is new."""
        values = as_text(values)
        found = pc.index_in(values, pa.array([*self.kept, *self.rare], values.type))
        codes = np.minimum(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), len(self.kept))
        n_levels = len(self.kept) + bool(self.rare)
        indicators = (codes == np.arange(n_levels - len(self.by_indicator), n_levels)[:, None]).astype(dtype)
        if values.null_count:
            indicators[:, values.is_null().to_numpy(zero_copy_only=False)] = np.nan
        return indicators


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type of columns is that of text, plain or as categories."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def as_text(values: Any) -> Any:
    """Return a column as plain text: categories, and what a model knows as text where a file has numbers or nothing."""
    if pa.types.is_dictionary(values.type):
        return values.cast(values.type.value_type)
    return values if is_text(values.type) else values.cast(pa.string())


def count_levels(values: pa.ChunkedArray, weights: NDArray | None = None) -> Counter[str]:
    """Return how many rows have each value of a text column, or their weights; missing values are left out."""
    encoded = as_text(values).dictionary_encode().combine_chunks()
    n_levels = len(encoded.dictionary)
    codes = pc.fill_null(encoded.indices, n_levels).to_numpy()
    counts = np.bincount(codes, weights, n_levels + 1)[:n_levels].tolist()
    return Counter(dict(zip(encoded.dictionary.to_pylist(), counts, strict=True)))


def level_faults(counts: Mapping[str, Mapping[str, int]]) -> list[Fault]:
    """Return the text columns whose levels are too many for indicators, alone or together."""
    sizes = {name: len(of_column) for name, of_column in counts.items()}
    faults = [name for name, size in sizes.items() if size > LIMITS.max_levels]
    if not faults and sum(sizes.values()) > LIMITS.max_levels:
        faults = [max(sizes, key=lambda name: sizes[name])]
    example: Any = {name: next(iter(of_column), "") for name, of_column in counts.items()}
    return [
        Fault(
            f"{sizes[name]:,} different texts, such as {str(example[name])[:40]!r}, and indicators for at most "
            f"{LIMITS.max_levels:,} in all columns",
            {"name": name},
            "text",
        )
        for name in faults
    ]


def mostly_new_note(counts: Mapping[str, Mapping[str, int]]) -> str | None:
    """Return a sentence on text that is new in most rows, as identifiers are; None where there is none."""
    names = [name for name, rows in counts.items() if len(rows) > max(MOSTLY * sum(rows.values()), FEWEST_ROWS)]
    what = "Text is new in most rows, and has an indicator for each value"
    return f"{what}: {some_names(names)}. Leave such columns out." if names else None


def notes_on_many(levels: Iterable[Levels]) -> list[str]:
    """Return a note on columns of text that make many indicators each."""
    many = [f"{each.name} ({len(each.names):,})" for each in levels if len(each.names) > MANY]
    what = f"Columns of text that make more than {MANY} indicators each"
    return [f"{what}: {', '.join(many)}. Leave out those that are no features."] if many else []


def unseen_note(levels: Sequence[Levels], counts: Mapping[str, Mapping[str, int]], uri: str) -> str | None:
    """Return a sentence on values that the model has not seen; None where there are none."""
    parts = []
    for each in levels:
        known = {*each.kept, *each.rare}
        if new := {level: n for level, n in counts[each.name].items() if level not in known}:
            rows = sum(new.values())
            parts.append(f"{each.name} (such as {next(iter(new))!r}; {rows:,} row{'' if rows == 1 else 's'})")
    return (
        f"{uri} holds text that the model has not seen, whose indicators are 0: {', '.join(parts)}." if parts else None
    )
