"""Store small arrays, statistics and fits of row maps in Zarr groups with checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.object_records import AGAIN, GROUP, VALUES, open_arrays, read_recorded, refuse_other_values
from mmpca_dist.jobs.records import MapsRecord
from mmpca_dist.passes.serialization import decode, encode, flattened, rebuilt
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics, tall_statistics
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import read_chunks, reading_own
from mmpca_dist.tables.row_maps.specification import Arrays

STATISTICS, CELLS = "statistics.zarr", "cells.npz"


def save_arrays(run: RunDirectory, folder: str, arrays: Mapping[str, NDArray | None]) -> str:
    """Write arrays to a new Zarr group, a folder of a run, and return the name of the output.

    They are written matrix by matrix, in single precision if they are, else in double.
    """
    uri = run.path(folder)
    group = zarr_stores.open_group(uri, "w")
    with storage.explained(uri, "write"):
        for name, array in arrays.items():
            if array is None:
                continue
            values = np.asarray(array, np.float32 if array.dtype == np.float32 else np.float64)
            chunks = tuple(max(size, 1) for size in values.shape)
            target = group.create_array(
                name,
                shape=values.shape,
                dtype=values.dtype,
                chunks=(1, *chunks[1:]) if array.ndim == 3 else chunks,
                fill_value=np.nan,
                **zarr_stores.CHECKED,
                attributes={VALUES: storage.extended(0, values)},
            )
            target[...] = values
    return folder + GROUP


def load_arrays(run: RunDirectory, record: Mapping[str, Any], folder: str) -> dict[str, NDArray]:
    """Read what ``save_arrays`` wrote into a folder of a run, whose objects a record has.

    Raises DamageError, which names the object that is missing or damaged.
    """
    arrays = {}
    for name, array in open_arrays(run.uri, record, folder).items():
        path = run.path(folder, name)
        arrays[name] = read_chunks(path, array, AGAIN)
        refuse_other_values(path, array, storage.extended(0, arrays[name]))
    return arrays


def save_value(run: RunDirectory, path: str, value: Any) -> str:
    """Write what `encode` takes to a file of a run, and return the name of the output."""
    storage.write_bytes(run.path(path), encode(value))
    return path


def load_value(run: RunDirectory, record: Mapping[str, Any], path: str) -> Any:
    """Read what `save_value` wrote; raise DamageError where that is not what a record has."""
    data = read_recorded(run.uri, record, path)
    with reading_own(run.path(path), AGAIN):
        return decode(data)


def _group(number: int) -> str:
    return f"maps/{number}.zarr"


def save_fits(run: RunDirectory, fits: Sequence[Arrays]) -> list[str]:
    """Store the fits of row maps, and return the names of the outputs."""
    return [save_arrays(run, _group(number), fit) for number, fit in enumerate(fits, 1) if fit]


def load_fits(run: RunDirectory, record: MapsRecord, n_maps: int) -> list[Arrays]:
    """Return the fits of so many row maps; raise DamageError where they are not what was written."""
    stored = record["outputs"]
    groups = map(_group, range(1, n_maps + 1))
    return [load_arrays(run, record, group) if group + GROUP in stored else {} for group in groups]


def save_statistics(run: RunDirectory, statistics: Statistics) -> list[str]:
    """Store statistics, and return the names of the outputs.

    Those of tall data must not be standardised, so that later rows can be merged in.
    """
    kept: Any = replace(statistics, shrinkages={})  # which the record has
    if isinstance(statistics, ColumnStatistics):
        kept = {"moments": statistics.unadjusted, "medians": statistics.medians}
        if statistics.cells is not None:
            return [save_arrays(run, STATISTICS, flattened(kept)), save_value(run, CELLS, statistics.cells)]
    return [save_arrays(run, STATISTICS, flattened(kept))]


def load_statistics(
    run: RunDirectory, record: Mapping[str, Any], config: RunConfig, as_asked: bool = False
) -> Statistics:
    """Read what ``save_statistics`` wrote for a run: in the units of the columns or, ``as_asked``, standardised."""
    arrays = load_arrays(run, record, STATISTICS)
    shrinkages = {tuple(name): value for *name, value in record.get("shrinkages", [])}
    with reading_own(run.path(STATISTICS), AGAIN):  # what does not fit together is damage, too
        kept = rebuilt(arrays)
    if isinstance(kept, dict):
        asked: dict[str, Any] = {"standardize": config.standardizes, "class_weight": config.class_weight}
        kept = tall_statistics(**kept, precision=config.precision, **(asked if as_asked else {}))
    return cast(Statistics, replace(kept, shrinkages=shrinkages))
