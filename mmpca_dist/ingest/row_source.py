"""Sources of an ingest: blocks of rows and labels, from a table of any format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError
from mmpca_dist.tables.labels import distinct_labels, normalize_labels

LABELS = "y"
"""The array of the labels."""
Codes = tuple[list[Any], NDArray]
"""A column of names in a block: its distinct values, and each row's number among them."""


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


def encode_block(labels: NDArray, where: str) -> Codes:
    """Return the distinct labels of an array and each row's number among them."""
    values, codes = np.unique(normalize_labels(labels, where), return_inverse=True)
    return values.tolist(), codes
