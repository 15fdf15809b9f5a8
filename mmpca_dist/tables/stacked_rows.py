"""Several data sets with the same columns as one table: their rows, one data set after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, overlaps

ALIKE = {
    "n_features": "the number of columns:", "dtype": "the type:", "sparse": "sparse storage:",
    "feature_names": "the names:",
}  # fmt: skip


class StackedRows(Dataset):
    """The rows of data sets in their order. They must agree in their columns, and each has chunks of its own."""

    def __init__(self, uri: str, parts: Sequence[Dataset]) -> None:
        first = parts[0]
        for part in parts[1:]:
            _refuse_other_columns(part, first)
        self._parts = [part for part in parts if part.n_rows] or [first]
        self._edges = np.cumsum([0, *(part.n_rows for part in self._parts)])
        self.label, self.features = first.label, first.features
        self.facts = replace(
            first.facts, uri=uri, n_rows=int(self._edges[-1]), has_labels=all(part.has_labels for part in parts),
            read_overhead=max(part.read_overhead for part in parts),
            resident_bytes=sum(part.resident_bytes for part in parts),
        )  # fmt: skip

    def _within(self, start: int, stop: int) -> Iterator[tuple[Dataset, int, int]]:
        """Yield the parts that hold some rows, and the first and last of these there."""
        for number, first, last in overlaps(self._edges, start, stop):
            begin = int(self._edges[number])
            yield self._parts[number], first - begin, last - begin

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        pairs = zip(self._parts, self._edges, strict=False)
        return np.unique(np.concatenate([begin + part.chunk_edges for part, begin in pairs]))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out, done = np.empty((stop - start, self.n_features), self.dtype) if out is None else out, 0
        for part, begin, end in self._within(start, stop):
            target = out[done : done + end - begin]
            rows = part.read_rows(begin, end, target)
            if rows is not target:
                target[...] = rows
            done += end - begin
        return out

    def read_sparse(self, start: int, stop: int) -> csr_array:
        return vstack([part.read_sparse(begin, end) for part, begin, end in self._within(start, stop)], format="csr")

    def _joined(self, start: int, stop: int, read: Callable[[Dataset, int, int], NDArray]) -> NDArray:
        pieces = [(part, read(part, begin, end)) for part, begin, end in self._within(start, stop)]
        kinds = {"number" if values.dtype.kind in "iuf" else values.dtype.kind: part.uri for part, values in pieces}
        if len(kinds) > 1:
            files = " and ".join(kinds.values())
            raise InputError(f"{files} have numbers and names in one column. Write it with one type in all files.")
        return np.concatenate([values for _, values in pieces])

    def read_labels(self, start: int, stop: int) -> NDArray:
        return self._joined(start, stop, lambda part, *rows: part.read_labels(*rows))

    def read_values(self, start: int, stop: int) -> NDArray:
        return self._joined(start, stop, lambda part, *rows: part.read_values(*rows))

    def read_column(self, start: int, stop: int) -> Any:
        read = [part.read_column(begin, end) for part, begin, end in self._within(start, stop)]
        return pa.chunked_array([one.cast(read[0].type) for one in read])

    @property
    def beside_names(self) -> list[str]:
        return self._parts[0].beside_names

    def is_labelled(self, start: int, stop: int) -> NDArray[np.bool_]:
        return self._joined(start, stop, lambda part, *rows: part.is_labelled(*rows))

    def with_label(self, name: str, setting: str) -> Dataset | None:
        same = self._labelled_by(name)
        same._parts = [part for part in (part.with_label(name, setting) for part in self._parts) if part is not None]
        return same if len(same._parts) == len(self._parts) else None

    def with_gaps(self) -> Any:
        same = super().with_gaps()
        same._parts = [part.with_gaps() for part in self._parts]
        return same

    @property
    def n_bytes(self) -> int:
        return sum(part.n_bytes for part in self._parts)

    @property
    def nnz(self) -> int:
        return sum(part.nnz for part in self._parts)

    def reading_bytes(self, n_rows: int) -> int:
        return max(part.reading_bytes(n_rows) for part in self._parts)

    def sparse_bytes(self, n_rows: int) -> int:
        return 2 * max(part.sparse_bytes(n_rows) for part in self._parts)

    @property
    def addresses(self) -> list[str]:
        return [address for part in self._parts for address in part.addresses]

    def fingerprint(self) -> str:
        return storage.digest("stacked", [part.fingerprint() for part in self._parts])

    def describe_chunk(self, row: int) -> str:
        part, begin, _ = next(self._within(row, row + 1))
        return part.describe_chunk(begin)


def _refuse_other_columns(part: Dataset, first: Dataset) -> None:
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
