"""The facts of a table: its sizes and columns, and what reading it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TABLE = "mmpca-table"
"""Attribute of a Zarr group: the sub-group that holds its table."""
ARRAYS = "mmpca-arrays"
"""Attribute of a Zarr group: the names of the arrays that an ingest wrote."""


@dataclass(frozen=True)
class Facts:
    """The facts of a table, and how it is read. A table made of another one replaces some of these."""

    uri: str
    n_rows: int
    n_features: int
    dtype: np.dtype
    feature_names: list[str] | None = None
    image_shape: tuple[int, int] | None = None
    sparse: bool = False
    """Whether rows are stored, and read, in CSR form."""
    kind: str = "local"
    """How fast it is read: ``local``, ``remote``, ``synthetic`` or ``memory``."""
    resident_bytes: int = 0
    """Bytes of the data that each process holds while the data set is in use."""
    rows_read: float = 1.0
    """Rows that are read for each row that is left, on average; more than one where some are left out."""


class Table:
    """A table of which the facts are known."""

    facts: Facts

    @property
    def uri(self) -> str:
        return self.facts.uri

    @property
    def addresses(self) -> Sequence[str]:
        """Addresses that are read."""
        return []

    def fingerprint(self) -> str:
        """Return what tells whether it has changed."""
        return ""

    @property
    def n_rows(self) -> int:
        return self.facts.n_rows

    @property
    def n_features(self) -> int:
        return self.facts.n_features

    @property
    def dtype(self) -> np.dtype:
        return self.facts.dtype

    @property
    def feature_names(self) -> list[str] | None:
        return self.facts.feature_names

    @property
    def sparse(self) -> bool:
        return self.facts.sparse

    @property
    def row_bytes(self) -> int:
        """Bytes of a dense row."""
        return self.n_features * self.dtype.itemsize

    @property
    def n_bytes(self) -> int:
        """Bytes that a pass over all rows reads."""
        return self.n_rows * self.row_bytes

    @property
    def nnz(self) -> int:
        """Number of stored values: all values of dense rows."""
        return self.n_rows * self.n_features

    @property
    def reads_ahead(self) -> bool:
        """Whether passes read the next unit while they work on one, as reading waits for others."""
        return self.facts.kind == "remote"

    def share_bytes(self, n_rows: int) -> int:
        """Return the bytes read for ``n_rows`` rows, on average."""
        return self.n_bytes * n_rows // max(self.n_rows, 1)
