"""The fits of row maps in the folder of a run: arrays in Zarr, a group for each map that has any."""

from __future__ import annotations

from collections.abc import Sequence

from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.object_records import GROUP, objects_in
from mmpca_dist.jobs.records import MapsRecord
from mmpca_dist.jobs.stored_arrays import load_arrays, save_arrays
from mmpca_dist.tables.mapped_rows import MappedRows
from mmpca_dist.tables.row_maps.specification import Arrays


def _group(number: int) -> str:
    return f"maps/{number}.zarr"


def save_fits(run: RunDirectory, fits: Sequence[Arrays]) -> list[str]:
    """Store the fits of row maps, and return the names of the outputs."""
    outputs = []
    for number, fit in enumerate(fits, 1):
        if fit:
            save_arrays(run.path(_group(number)), dict(fit))
            outputs.append(_group(number) + GROUP)
    return outputs


def load_fits(run: RunDirectory, record: MapsRecord, n_maps: int) -> list[Arrays]:
    """Return the fits of so many row maps; raise DamageError where they are not what was written."""
    stored = record["outputs"]
    return [
        load_arrays(run.path(_group(number)), objects_in(record, _group(number)))
        if _group(number) + GROUP in stored
        else {}
        for number in range(1, n_maps + 1)
    ]


def with_stored_fits(rows: MappedRows, run: RunDirectory, record: MapsRecord) -> MappedRows:
    """Return rows after their fitted maps."""
    return MappedRows(rows.source, rows.maps, load_fits(run, record, len(rows.maps)))
