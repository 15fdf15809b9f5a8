"""Sources: blocks of rows and labels, of any format.

Text, perhaps compressed or in another encoding, is read line by line.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.stores.compression import opened_text
from mmpca_dist.tables.labels import distinct_labels, normalize_labels

LABELS = "y"
"""The array of the labels."""
Progress = Callable[[int, int], None]
"""Called with how much is read, and of how much."""
Codes = tuple[list[Any], NDArray]
"""A column of names in a block: its distinct values, and each row's number among them; or none, and numbers."""


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows of a source.

    ``rows``, dense or CSR, has shape (k, d); ``names`` are columns of names, the labels ``y`` among them where there
    are any; ``done`` is how far the source has been read, in its own units.
    """

    rows: NDArray | csr_array
    names: Mapping[str, Codes]
    done: int


class RowSource(ABC):
    """A table that can be ingested: blocks of rows with their labels, in order, read once."""

    uri: str
    n_features: int
    dtype: np.dtype
    total: int
    """How much there is to read, in the units of ``RowBlock.done``."""
    n_rows: int | None = None
    sparse = False
    """Whether the blocks are CSR rows, rather than dense ones."""
    nnz: int | None = None
    """Number of values of CSR rows, where it is known."""
    feature_names: list[str] | None = None
    image_shape: tuple[int, int] | None = None
    labels: str | None = None
    """The column of the labels, where there are others that could be meant."""
    notes: Sequence[str] = ()
    """A note for the user."""

    @abstractmethod
    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows."""

    def label_values(self, values: list[Any]) -> NDArray:
        """Return the distinct labels as they are to be stored."""
        return distinct_labels(values)

    def refusal(self) -> InputError | None:
        """Return the error that names all columns that hold no finite numbers, if rows can be read a second time."""
        return None

    def where(self, row: int) -> str:
        """Say where a row is, in the words of the source."""
        return f"row {row}"


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


def encode_block(labels: NDArray, where: str) -> Codes:
    """Return the distinct labels of an array and each row's number among them."""
    values, codes = np.unique(normalize_labels(labels, where), return_inverse=True)
    return values.tolist(), codes
