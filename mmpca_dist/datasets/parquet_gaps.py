"""Which columns of Parquet have missing values, from the statistics of row groups: no row is read for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmpca_dist.datasets.base import Dataset
from mmpca_dist.datasets.column_faults import ColumnFault, refusal
from mmpca_dist.datasets.parquet_rows import ParquetDataset

MOST_STATISTICS = 500_000
"""Of columns times row groups, each of which takes some microseconds to look up; where there are more, what the others
count is found as rows are read."""


@dataclass(frozen=True)
class Gaps:
    """Columns with missing values, and whether the statistics tell of all row groups."""

    faults: list[ColumnFault]
    complete: bool


def gaps_of(dataset: ParquetDataset, beside: tuple[str, ...] = ()) -> Gaps:
    """Return which features, labels and columns ``beside`` have missing values, by the metadata."""
    names = dict.fromkeys(dataset.columns, "gap") | {name: "names" for name in (dataset.label, *beside) if name}
    counts, complete, looked_up = dict.fromkeys(names, 0), True, 0
    for metadata in dataset.row_groups():
        places = _places(metadata, names)
        looked_up += len(places)
        complete = complete and len(places) == len(names)  # others are in the names of folders
        if looked_up > MOST_STATISTICS:
            complete = False
            break
        for name, place in places.items():
            statistics = metadata.column(place).statistics
            if statistics is None or not statistics.has_null_count:
                complete = False
            else:
                counts[name] += statistics.null_count
    faults = [
        ColumnFault(name, f"{count:,} missing value{'s' * (count != 1)} (null)", names[name])
        for name, count in counts.items()
        if count
    ]
    return Gaps(faults, complete)


def refuse_gaps(dataset: Dataset, dropped: Sequence[str]) -> None:
    """Refuse Parquet of which the metadata counts missing values, before any row is read.

    Raises
    ------
    ColumnError
        Which names all such columns, and the setting that leaves them out.
    """
    if not isinstance(dataset, ParquetDataset):
        return
    faults = gaps_of(dataset).faults
    if faults:
        raise refusal(dataset.uri, faults, options=False, dropped=dropped)


def _places(metadata: Any, names: dict[str, str]) -> dict[str, int]:
    """Return where the values of columns are in a row group; those of a list are a column of their own."""
    found = {}
    for place in range(metadata.num_columns):
        path = metadata.column(place).path_in_schema
        name = path if path in names else path.rsplit(".", 2)[0]
        if name in names:
            found[name] = place
    return found
