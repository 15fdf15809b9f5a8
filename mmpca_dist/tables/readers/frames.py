"""Data frames in memory whose columns are not all numbers, read as Parquet is."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

import pandas as pd
import pyarrow as pa

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.tables.column_faults import refusal
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.levels import Levels
from mmpca_dist.tables.number_texts import NumberTexts
from mmpca_dist.tables.readers.formats import Request
from mmpca_dist.tables.readers.memory import weighted
from mmpca_dist.tables.readers.named_columns import ColumnRows


class FrameRows(ColumnRows):
    """The rows of an Arrow table in memory; columns of text become indicators."""

    reads_spelled = False

    def __init__(self, table: pa.Table, levels: Sequence[Levels] | None, names: list[str] | None) -> None:
        self._table = table
        request = Request(
            "X", "X", label_required=False, names=names or table.column_names,  # one called y is no label
            missing="mean", encode=True, levels=levels,
        )  # fmt: skip
        super().__init__(request, table.schema)
        self.label = None
        self._complete(request, len(table))

    def fingerprint(self) -> str:
        return ""

    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        yield self._table.select(columns).slice(start, stop - start), start


def is_mixed(X: Any) -> bool:
    """Tell whether an object is a data frame in memory with columns of text or categories."""
    if isinstance(X, pd.DataFrame):
        return not all(kind.kind in "biufc" for kind in X.dtypes)
    return hasattr(X, "to_arrow") and not all(
        (kind.is_numeric() and not kind.is_decimal()) or str(kind) == "Boolean" for kind in X.dtypes
    )


def encoded(
    X: Any, levels: Sequence[Levels] | None, names: list[str] | None, sample_weight: Any = None
) -> tuple[pd.DataFrame, FrameRows]:
    """Return a data frame of numbers, and the rows it is from; ``levels`` and ``names`` are those of a fit."""
    rows = FrameRows(arrow_of(X), levels, names)
    if levels is None and sample_weight is not None:
        rows = rows.with_levels_of(weighted(Dataset.of(rows), sample_weight).value_batches("weight"))
    numbers = [each.name for each in rows.levels if _are_numbers([*each.kept, *each.rare])]
    if levels is None and numbers:
        warnings.warn(
            f"Text of X holds numbers, and has an indicator for each: {some_names(numbers)}. Convert these columns.",
            UserWarning, stacklevel=6,
        )  # fmt: skip
    index = X.index if isinstance(X, pd.DataFrame) else None
    return pd.DataFrame(rows.read(0, rows.n_rows), index=index, columns=rows.feature_names), rows


def arrow_of(X: Any) -> pa.Table:
    """Return a data frame as an Arrow table; Python's numbers that no 64-bit type holds become doubles.

    Raises InputError for columns that mix types, such as text and numbers.
    """
    if not isinstance(X, pd.DataFrame):
        return X.to_arrow()
    try:
        return pa.Table.from_pandas(X, preserve_index=False)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        numeric = {name: float for name, column in X.items() if column.dtype == "O" and column.map(_is_number).all()}
        if numeric:
            return arrow_of(X.astype(numeric))
        found = {str(name): NumberTexts() for name in X.select_dtypes(object).columns}
        for name, cells in found.items():
            cells.add(Counter(map(str, X[name].dropna())))
        if faults := [cells.fault(name) for name, cells in found.items() if cells.are_numbers and cells.others]:
            raise refusal("X", faults) from error
        reasons = "; ".join(map(str, error.args))
        raise InputError(f"The data frame X has columns that cannot be read: {reasons}.") from error


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, Real) and not isinstance(value, bool))


def _are_numbers(texts: list[str]) -> bool:
    return len(texts) > 2 and bool(pd.to_numeric(pd.Series(texts), errors="coerce").notna().all())
