"""A data set with other labels."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset

_SAME = (
    "uri", "n_rows", "n_features", "dtype", "feature_names", "named_columns", "image_shape", "sparse", "in_memory",
    "kind", "read_overhead", "resident_bytes",
)  # fmt: skip


class Relabelled(Dataset):
    """Base of data sets that read the rows of another, and have labels of their own."""

    def __init__(self, rows: Dataset) -> None:
        self._rows = rows
        for name in _SAME:
            setattr(self, name, getattr(rows, name))

    @property
    def chunk_edges(self) -> NDArray:
        return self._rows.chunk_edges

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._rows.read_rows(start, stop, out)

    def read_sparse(self, start: int, stop: int) -> Any:
        return self._rows.read_sparse(start, stop)

    def sparse_bytes(self, n_rows: int) -> int:
        return self._rows.sparse_bytes(n_rows)

    def reading_bytes(self, n_rows: int) -> int:
        return self._rows.reading_bytes(n_rows)

    def share_bytes(self, n_rows: int) -> int:
        return self._rows.share_bytes(n_rows)

    def describe_chunk(self, row: int) -> str:
        return self._rows.describe_chunk(row)

    @property
    def n_bytes(self) -> int:
        return self._rows.n_bytes

    @property
    def nnz(self) -> int:
        return self._rows.nnz

    def fingerprint(self) -> str:
        raise TypeError("the rows of a data set under other labels have no fingerprint of their own")
