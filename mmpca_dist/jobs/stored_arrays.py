"""Store small arrays, statistics and fits of row maps in Zarr groups with checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.object_records import AGAIN, GROUP, VALUES, open_arrays, read_recorded, refuse_other_values
from mmpca_dist.jobs.records import MapsRecord, ReduceRecord
from mmpca_dist.passes.serialization import decode, encode
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.approximation import Approximation
from mmpca_dist.statistics.medians import by_pairing
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.target_sums import TargetSums
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.statistics.working_statistics import (
    ColumnStatistics,
    ColumnSums,
    RowSpaceStatistics,
    Statistics,
    SubspaceStatistics,
    tall_statistics,
)
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import read_chunks, reading_own
from mmpca_dist.tables.row_maps.specification import Arrays

STATISTICS = "statistics.zarr"
WEIGHTED = "weighted_"
"""Before the names of arrays in the basis for M-PCA0."""


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


ADJUSTMENT = ("deltas", "slopes", "centre")
TARGETS = ("mean", "cross", "squares")


def save_statistics(run: RunDirectory, statistics: Statistics) -> list[str]:
    """Store statistics, and return the names of the outputs.

    Those of tall data must not be standardised, so that later rows can be merged in.
    """
    arrays = _arrays_of(statistics)
    if isinstance(statistics, SubspaceStatistics) and statistics.weighted is not None:
        arrays |= {f"{WEIGHTED}{name}": array for name, array in _arrays_of(statistics.weighted).items()}
    return [save_arrays(run, STATISTICS, arrays)]


def _arrays_of(statistics: Statistics) -> dict[str, NDArray | None]:
    moments = statistics.unadjusted if isinstance(statistics, ColumnStatistics) else statistics.moments
    columns = None if isinstance(statistics, ColumnStatistics) else statistics.columns
    return {
        "counts": moments.counts,
        "sizes": moments.sizes,
        "means": moments.means,
        "scatters": moments.scatters,
        "weights": moments.weights,
        "medians": np.concatenate(list(statistics.medians.values())) if statistics.medians else None,
        "mean": statistics.mean,
        "scale": statistics.scale,
        "basis": statistics.basis,
        "subtracted": np.asarray([statistics.subtracted]),
        **_adjustment_arrays(statistics.adjustment),
        **{f"target_{name}": getattr(moments.targets, name, None) for name in TARGETS},
        **({} if columns is None else {f"column_{name}": array for name, array in vars(columns).items()}),
        **_approximation_arrays(statistics.approximation),
    }


def _adjustment_arrays(adjustment: Adjustment | None) -> dict[str, NDArray | None]:
    if adjustment is None:
        return {}
    widening = adjustment.widening
    arrays = {name: getattr(adjustment, name) for name in ADJUSTMENT} | {
        "gaps": widening.gaps,
        "fills": widening.fills,
        "beside": np.frombuffer(
            json.dumps([widening.covariates, widening.targets, widening.rounding]).encode(), np.uint8
        ),
    }
    return {name: array if array.size else None for name, array in arrays.items()}


def _widening(arrays: dict[str, NDArray[np.float64]], width: int | None = None) -> Widening | None:
    """Return what stands beside the columns: those of models, or of moments of this ``width``."""
    if "beside" not in arrays:
        return None
    covariates, targets, rounding = json.loads(bytes(arrays["beside"].astype(np.uint8)).decode())
    gaps, fills = (arrays.get(name, np.zeros(0)) for name in ("gaps", "fills"))
    n_columns = len(arrays["mean"]) if width is None else width - len(gaps) - len(covariates) - len(targets)
    return Widening(
        n_columns, gaps.astype(np.intp), fills, tuple(covariates), targets=tuple(targets), rounding=rounding
    )


def _adjustment(widening: Widening, arrays: dict[str, NDArray[np.float64]]) -> Adjustment:
    deltas, slopes, centre = (arrays.get(name, np.zeros(0)) for name in ADJUSTMENT)
    return Adjustment(
        widening, deltas, slopes.reshape(-1, widening.n_columns), centre, taken=np.zeros(widening.n_columns)
    )


def _approximation_arrays(approximation: Approximation | None) -> dict[str, NDArray | None]:
    """Return an approximation as arrays; its history as one of shape (passes, values and residuals, components)."""
    if approximation is None:
        return {}
    history = [(entry["values"], entry["residuals"]) for entry in approximation.history]
    width = max((len(values) for values, _ in history), default=0)
    padded = np.full((len(history), 2, width), np.nan)
    for i, entry in enumerate(history):
        padded[i, :, : len(entry[0])] = entry
    return {
        "solver": np.frombuffer(approximation.solver.encode(), np.uint8),
        "numbers": np.asarray([approximation.passes, approximation.trace, approximation.seed], np.float64),
        "outside": approximation.outside,
        "probed": approximation.probed,
        "history": padded if padded.size else None,
    }


def _approximation(arrays: dict[str, NDArray[np.float64]]) -> Approximation | None:
    if "solver" not in arrays:
        return None
    solver = bytes(arrays["solver"].astype(np.uint8)).decode()
    passes, trace, seed = arrays["numbers"].tolist()
    history = [
        {"values": values[~np.isnan(values)].tolist(), "residuals": residuals[~np.isnan(residuals)].tolist()}
        for values, residuals in arrays.get("history", ())
    ]
    return Approximation(solver, int(passes), trace, arrays["outside"], arrays["probed"], history, int(seed))


def load_statistics(
    run: RunDirectory, record: ReduceRecord, classes: NDArray, config: RunConfig, as_asked: bool = False
) -> Statistics:
    """Read what ``save_statistics`` wrote for a run: in the units of the columns or, ``as_asked``, standardised."""
    arrays, pairings = load_arrays(run, record, STATISTICS), config.needs().medians
    shrinkages = {tuple(name): value for *name, value in record.get("shrinkages", [])}
    with reading_own(run.path(STATISTICS), AGAIN):  # what does not fit together is damage, too
        if "basis" in arrays:
            return replace(_in_basis(arrays, classes, config.precision, pairings), shrinkages=shrinkages)
        moments, medians = _moments(arrays, classes), by_pairing(arrays.get("medians"), pairings)
    asked: dict[str, Any] = {"standardize": config.standardizes, "class_weight": config.class_weight}
    statistics = tall_statistics(moments, medians, precision=config.precision, **(asked if as_asked else {}))
    return replace(statistics, shrinkages=shrinkages)


def _moments(arrays: dict[str, NDArray[np.float64]], classes: NDArray) -> ClassMoments:
    sizes = arrays["sizes"].astype(np.int64)
    widening = None if "basis" in arrays else _widening(arrays, arrays["means"].shape[1])
    return ClassMoments(
        classes, arrays["counts"], sizes, arrays["means"], arrays["scatters"], arrays.get("weights"), widening
    )


def _in_basis(
    arrays: dict[str, NDArray[np.float64]], classes: NDArray, precision: str, pairings: Sequence[str]
) -> RowSpaceStatistics | SubspaceStatistics:
    """Return statistics of fewer rows than columns, which are in double precision, or from passes."""
    widening = _widening(arrays)
    moments = _moments(arrays, classes)
    if widening is not None and "target_cross" in arrays:
        targets = TargetSums(widening.targets, *(arrays[f"target_{name}"] for name in TARGETS))
        moments = replace(moments, targets=targets)
    shared: dict[str, Any] = {
        "moments": moments,
        "medians": by_pairing(arrays.get("medians"), pairings),
        "mean": arrays["mean"],
        "scale": arrays.get("scale"),
        "basis": arrays["basis"],
        "subtracted": float(arrays["subtracted"][0]),
        "adjustment": None if widening is None else _adjustment(widening, arrays),
        "columns": ColumnSums(arrays["column_means"], arrays["column_squares"]) if "column_means" in arrays else None,
    }
    approximation = _approximation(arrays)
    if approximation is None:
        return RowSpaceStatistics(**shared, precision="double")
    of_weighted = {name.removeprefix(WEIGHTED): array for name, array in arrays.items() if name.startswith(WEIGHTED)}
    weighted = _in_basis(of_weighted, classes, precision, pairings) if of_weighted else None
    assert not isinstance(weighted, RowSpaceStatistics)  # noqa: S101  (both are from the same passes)
    return SubspaceStatistics(**shared, precision=precision, approximation=approximation, weighted=weighted)
