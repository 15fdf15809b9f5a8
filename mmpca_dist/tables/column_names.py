"""Names of columns: those of an index, and several columns of one name."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa

from mmpca_dist.errors import some_names

INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__|Unnamed: 0(\.\d+)*")
"""Names that pandas and Dask give to an index without one, and pandas to a first column of CSV without one."""


def numbered(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal: a, a.1, a.2, as pandas numbers them; columns without a name stay so."""
    taken, times, unique = set(names), Counter[str](), []
    for name in names:
        new = name
        if name and times[name]:
            while new in taken:
                new, times[name] = f"{name}.{times[name]}", times[name] + 1
        taken.add(new)
        times[name] += not times[name]
        unique.append(new)
    return unique


def note_on_numbered(names: Sequence[str], uri: str) -> str | None:
    """Return a sentence on columns of one name; None where there are none."""
    repeated = [name for name, n in Counter(names).items() if n > 1 and name]
    what = f"Several columns of {uri} are called {some_names(repeated)}: they are numbered, such as"
    return f"{what} {repeated[0]}.1." if repeated else None


class StoredNames:
    """The names of columns in a file, of which several may be the same, and names of their own."""

    def __init__(self, stored: Sequence[str]) -> None:
        self._stored, self._unique = list(stored), numbered(stored)

    def unique(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema with a name of its own for each column."""
        named = [each.with_name(name) for each, name in zip(schema, self._unique, strict=True)]
        return pa.schema(named, schema.metadata)

    def note(self, uri: str) -> str | None:
        return note_on_numbered(self._stored, uri)

    def of(self, columns: Sequence[str]) -> list[str]:
        """Return the names of columns in the file, in its order."""
        pairs, asked = zip(self._unique, self._stored, strict=True), set(columns)
        return list(dict.fromkeys(old for new, old in pairs if new in asked))

    def named(self, table: pa.Table) -> pa.Table:
        """Return a table with all columns of some stored names, with names of their own; those of one name in order."""
        own = defaultdict[str, deque[str]](deque)
        for new, old in zip(self._unique, self._stored, strict=True):
            own[old].append(new)
        return table.rename_columns([own[name].popleft() for name in table.column_names])


def is_index(name: str) -> bool:
    """Tell whether a column is the index of a data frame, by its name."""
    return bool(INDEX.fullmatch(name))


def index_names(schema: pa.Schema) -> set[str]:
    """Return the columns that pandas and Dask stored for the index of a frame, by the metadata and by their names."""
    with suppress(ValueError, AttributeError, KeyError, TypeError, RecursionError):  # of damaged metadata
        levels = json.loads(schema.metadata[b"pandas"])["index_columns"]
        return {name for name in levels if isinstance(name, str)} | set(filter(is_index, schema.names))
    return set(filter(is_index, schema.names))
