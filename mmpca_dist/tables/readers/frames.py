"""Data frames in memory whose columns are not all numbers, read as Parquet is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.tables.dataset import grain_edges
from mmpca_dist.tables.levels import Levels
from mmpca_dist.tables.readers.formats import Request
from mmpca_dist.tables.readers.named_columns import ColumnRows


class FrameRows(ColumnRows):
    """The rows of an Arrow table in memory; columns of text become indicators."""

    def __init__(self, table: pa.Table, levels: Sequence[Levels] | None, names: list[str] | None) -> None:
        self._table = table
        request = Request(
            "X", "X", label_required=False, names=names, missing="mean", encode=True, levels=levels, unlabelled="refuse"
        )
        super().__init__(request, table.schema)
        self.facts = replace(self.facts, n_rows=len(table), has_labels=False)
        self._encode(request)

    def fingerprint(self) -> str:
        return ""

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return grain_edges(self.n_rows, self.row_bytes)

    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        yield self._table.select(columns).slice(start, stop - start), start


def is_mixed(X: Any) -> bool:
    """Tell whether an object is a data frame in memory with columns of text or categories."""
    if isinstance(X, pd.DataFrame):
        return not all(pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind) for kind in X.dtypes)
    return hasattr(X, "to_arrow") and any(str(kind) in ("String", "Enum", "Categorical") for kind in X.dtypes)


def encoded(X: Any, levels: Sequence[Levels] | None, names: list[str] | None) -> tuple[pd.DataFrame, FrameRows]:
    """Return a data frame of numbers, and the rows it is from; ``levels`` and ``names`` are those of a fit."""
    table = pa.Table.from_pandas(X, preserve_index=False) if isinstance(X, pd.DataFrame) else X.to_arrow()
    rows = FrameRows(table, levels, names)
    return pd.DataFrame(rows.read_rows(0, rows.n_rows), columns=rows.feature_names), rows
