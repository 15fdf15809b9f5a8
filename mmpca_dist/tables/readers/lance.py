"""Rows in Lance tables: plain columns, or one of fixed-size lists, of the version that is newest at the opening."""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.stores import storage
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.named_columns import ColumnRows
from mmpca_dist.tables.source import readable
from mmpca_dist.tables.spans import cut_edges, default_chunk_rows, overlaps


class LanceRows(ColumnRows):
    """Rows and labels of a Lance table. Its chunks are fragments, cut where they are larger than a reading unit."""

    def __init__(self, request: Request) -> None:
        self._token, self._version = uuid.uuid4().hex, None
        storage.require(request.uri)
        table = _opened(request.uri, None, self._token)
        self._version, fragments = table.version, table.get_fragments()
        super().__init__(request, table.schema)
        self._starts = list(itertools.accumulate((fragment.count_rows() for fragment in fragments), initial=0))
        self._data = [storage.join(self.uri, "data", file.path) for part in fragments for file in part.data_files()]
        self._complete(request, self._starts[-1])

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return cut_edges(np.asarray(self._starts), default_chunk_rows(max(self.row_bytes, 1)))

    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        fragments = _opened(self.uri, self._version, self._token).get_fragments()
        for number, first, last in overlaps(self._starts, start, stop):
            with readable(f"rows {first} to {last - 1} of {self.uri}"):
                rows = {"offset": first - self._starts[number], "limit": last - first}
                table = fragments[number].scanner(columns=columns, **rows).to_table()
            yield table.select(columns), first

    @property
    def addresses(self) -> list[str]:
        return self._data

    def fingerprint(self) -> str:
        return storage.digest(self._version, super().fingerprint())


@functools.lru_cache(maxsize=16)
def _opened(uri: str, version: int | None, token: str) -> Any:
    absent = f"{uri} is a Lance table. Install 'mmpca-dist[lance]' to read it ({{reason}})."
    with readable(uri), instead_of(ImportError, InputError, absent):
        import lance

        return lance.dataset(uri, version=version)


FORMAT = Format("lance", "Lance", LanceRows, suffixes=(".lance",), columns=True)
