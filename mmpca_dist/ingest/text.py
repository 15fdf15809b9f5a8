"""Text files, perhaps compressed or in another encoding, line by line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.ingest.row_source import RowSource
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.stores.compression import opened_text


class Text(RowSource):
    """A text file, perhaps compressed, whose progress is counted in bytes of the file."""

    def __init__(self, uri: str, dtype: np.dtype) -> None:
        self.uri, self.dtype = uri, dtype
        storage.require(uri)
        with storage.reached(uri) as (fs, path):
            self.total = int(fs.size(path) or 0)

    def _open(self) -> AbstractContextManager[tuple[Any, Any]]:
        """Open the file; yield it and the text within it (the same, unless compressed or in another encoding)."""
        return opened_text(self.uri)

    def _line(self, text: Any, number: int) -> bytes:
        """Return the next line, which has this number in the file."""
        limit = LIMITS.text_line_bytes
        line = text.readline(limit + 1)
        if len(line) > limit:
            raise InputError(f"Line {number} of {self.uri} is longer than {limit >> 20} MiB: this is no table.")
        return line

    def _lines(self, text: Any) -> Iterator[bytes]:
        for number in itertools.count(1):
            if not (line := self._line(text, number)):
                return
            yield line
