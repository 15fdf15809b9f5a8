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

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import cut_edges, default_chunk_rows, overlaps, readable
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.named_columns import ColumnRows


class LanceDataset(ColumnRows):
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
        objects = [storage.list_objects(file) for file in self._data]
        return storage.digest("lance", self._version, self.n_rows, list(self.columns), self.label, objects)


@functools.lru_cache(maxsize=16)
def _opened(uri: str, version: int | None, token: str) -> Any:
    try:
        import lance
    except ImportError as error:
        raise InputError(f"{uri} is a Lance table. Install 'mmpca-dist[lance]' to read it ({error}).") from error
    with readable(uri):
        return lance.dataset(uri, version=version)


FORMAT = Format("lance", "Lance", LanceDataset, suffixes=(".lance",), columns=True)
