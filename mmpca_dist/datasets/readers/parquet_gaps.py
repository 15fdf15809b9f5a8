"""Missing values in Parquet columns, from the statistics of row groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow.parquet as pq

from mmpca_dist.datasets.column_faults import ColumnFault, Gaps

MOST_STATISTICS = 500_000
"""Of columns times row groups, each of which takes some microseconds to look up; where there are more, what the others
count is found as rows are read."""


def gaps_of(row_groups: Iterable[pq.RowGroupMetaData], names: Mapping[str, str]) -> Gaps:
    """Return which columns have missing values, by the metadata of row groups.

    Parameters
    ----------
    names : mapping
        The columns, and the kind of fault that missing values are.
    """
    counts, complete, looked_up = dict.fromkeys(names, 0), True, 0
    for metadata in row_groups:
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


def _places(metadata: pq.RowGroupMetaData, names: Mapping[str, str]) -> dict[str, int]:
    """Return where the values of columns are in a row group; those of a list are a column of their own."""
    found = {}
    for place in range(metadata.num_columns):
        path = metadata.column(place).path_in_schema
        name = path if path in names else path.rsplit(".", 2)[0]
        if name in names:
            found[name] = place
    return found
