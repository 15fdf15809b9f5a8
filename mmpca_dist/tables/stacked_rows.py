"""Several sources with the same columns as one: their rows, one source after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import vstack

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.spans import overlaps

ALIKE = {
    "n_features": "the number of columns:", "dtype": "the type:", "sparse": "sparse storage:",
    "feature_names": "the names:",
}  # fmt: skip


class Stack(Source):
    """The rows of sources in their order. They must agree in their columns, and each has chunks of its own."""

    def __init__(self, uri: str, parts: Sequence[Source]) -> None:
        first = parts[0]
        for part in parts[1:]:
            _refuse_other_columns(part, first)
        self._parts = [part for part in parts if part.n_rows] or [first]
        self._part_edges = np.cumsum([0, *(part.n_rows for part in self._parts)])
        self.features, self.beside_names = first.features, first.beside_names
        self.label = first.label if all(part.label is not None for part in parts) else None
        self.facts = replace(
            first.facts, uri=uri, n_rows=int(self._part_edges[-1]),
            resident_bytes=sum(part.facts.resident_bytes for part in parts),
        )  # fmt: skip

    def _within(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield the numbers of the parts that hold some rows, and the first and last of these there."""
        for number, first, last in overlaps(self._part_edges, start, stop):
            begin = int(self._part_edges[number])
            yield number, first - begin, last - begin

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        pairs = zip(self._parts, self._part_edges, strict=False)
        return np.unique(np.concatenate([begin + part.chunk_edges for part, begin in pairs]))

    def read(self, start: int, stop: int, out: NDArray | None = None) -> Any:
        within = [(self._parts[number], begin, end) for number, begin, end in self._within(start, stop)]
        if self.sparse:
            return vstack([part.read(begin, end) for part, begin, end in within], format="csr")
        out, done = np.empty((stop - start, self.n_features), self.dtype) if out is None else out, 0
        for part, begin, end in within:
            target = out[done : done + end - begin]
            rows = part.read(begin, end, target)
            if rows is not target:
                target[...] = rows
            done += end - begin
        return out

    def column(self, name: str | None, setting: Setting | str) -> Column:
        columns = [part.column(name, setting) for part in self._parts]
        place = f"column {columns[0].name!r} of {self.uri}"
        return Column(columns[0].name, place, self.n_rows, partial(self._read_column, columns), [
            address for column in columns for address in column.addresses
        ], arrow_reader=partial(self._read_arrow, columns))  # fmt: skip

    def _read_column(self, columns: Sequence[Column], start: int, stop: int) -> Known:
        within = [(columns[number], begin, end) for number, begin, end in self._within(start, stop)]
        within = within or [(columns[0], 0, 0)]  # no rows have a type, too
        pieces = [(column, column.read(begin, end)) for column, begin, end in within]
        kinds = {"number" if known[0].dtype.kind in "iuf" else known[0].dtype.kind: at.place for at, known in pieces}
        if len(kinds) > 1:
            files = " and ".join(kinds.values())
            raise InputError(f"{files} have numbers and names in one column. Write it with one type in all files.")
        values, there = zip(*(known for _, known in pieces), strict=True)
        return np.concatenate(values), np.concatenate(there)

    def _read_arrow(self, columns: Sequence[Column], start: int, stop: int) -> pa.ChunkedArray:
        read = [columns[number].read_arrow(begin, end) for number, begin, end in self._within(start, stop)]
        return pa.chunked_array([chunk for one in read for chunk in one.cast(read[0].type).chunks], read[0].type)

    @property
    def n_bytes(self) -> int:
        return sum(part.n_bytes for part in self._parts)

    @property
    def nnz(self) -> int:
        return sum(part.nnz for part in self._parts)

    @property
    def addresses(self) -> list[str]:
        return [address for part in self._parts for address in part.addresses]

    def fingerprint(self) -> str:
        return storage.digest("stacked", [part.fingerprint() for part in self._parts])

    def describe_chunk(self, row: int) -> str:
        number, begin, _ = next(self._within(row, row + 1))
        return self._parts[number].describe_chunk(begin)


def _refuse_other_columns(part: Source, first: Source) -> None:
    for fact, what in ALIKE.items():
        here, there = getattr(part, fact), getattr(first, fact)
        if here == there:
            continue
        if isinstance(here, list) and isinstance(there, list):
            i = next(i for i, names in enumerate(zip(here, there, strict=True)) if names[0] != names[1])
            what, here, there = f"the name of column {i}:", repr(here[i]), repr(there[i])
        raise InputError(
            f"{part.uri} and {first.uri} differ in {what} {_shown(here)} and {_shown(there)}. Write all files of one "
            "table with the same columns in the same order."
        )


def _shown(value: Any) -> Any:
    return "some" if isinstance(value, list) else "none" if value is None else value
