"""Small arrays and statistics on disk, in Zarr groups with checksums."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.datasets import storage
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.pairs import PairScatter
from mmpca_dist.statistics.working import Statistics, tall_statistics


def save_arrays(uri: str, arrays: dict[str, NDArray | None]) -> None:
    """Write float64 arrays to a new Zarr group, matrix by matrix."""
    group = storage.open_group(uri, "w")
    with storage.explained(uri, "write"):
        for name, array in arrays.items():
            if array is None:
                continue
            chunks = tuple(max(size, 1) for size in array.shape)
            target = group.create_array(
                name,
                shape=array.shape,
                dtype="float64",
                chunks=(1, *chunks[1:]) if array.ndim == 3 else chunks,
                fill_value=np.nan,
                compressors=[zarr.codecs.Crc32cCodec()],
                config={"write_empty_chunks": True},
            )
            target[...] = array


def load_arrays(uri: str) -> dict[str, NDArray[np.float64]]:
    """Read what ``save_arrays`` wrote."""
    return {name: np.asarray(array[...]) for name, array in storage.open_group(uri).arrays()}


def save_statistics(uri: str, statistics: Statistics) -> None:
    """Store statistics; those of tall data must not be standardised, so that later rows can be merged in."""
    moments = statistics.moments
    save_arrays(
        uri,
        {
            "counts": moments.counts.astype(np.float64),
            "means": moments.means,
            "scatters": moments.scatters,
            "weights": moments.weights,
            "medians": statistics.medians,
            "mean": statistics.mean,
            "scale": statistics.scale,
            "basis": statistics.basis,
        },
    )


def load_statistics(uri: str, classes: NDArray, *, precision: str, standardize: bool) -> Statistics:
    """Read what ``save_statistics`` wrote, standardised where asked for."""
    found = load_arrays(uri)
    moments = ClassMoments(
        classes, found["counts"].astype(np.int64), found["means"], found["scatters"], found["weights"]
    )
    medians = found.get("medians")
    if "basis" not in found:
        return tall_statistics(moments, medians, precision=precision, standardize=standardize)
    return Statistics(moments, medians, found["mean"], found.get("scale"), found["basis"], "double")


def save_pairs(uri: str, pairs: PairScatter) -> None:
    """Store the scatter of pairs; its certificate belongs into the stage's record."""
    numbers = np.asarray([pairs.weight, pairs.queries, pairs.fraction])
    arrays = {name: np.asarray(getattr(pairs, name), np.float64) for name in ("scatter", "sample", "edges", "counts")}
    missed = {} if pairs.missed is None else {"missed_found": pairs.missed[0], "missed_nearest": pairs.missed[1]}
    save_arrays(uri, {**arrays, **missed, "numbers": numbers})


def load_pairs(uri: str, certificate: dict[str, Any]) -> PairScatter:
    """Read what ``save_pairs`` wrote."""
    found = load_arrays(uri)
    weight, queries, fraction = found["numbers"].tolist()
    return PairScatter(
        found["scatter"], weight, found["sample"], int(queries), fraction,
        found["edges"], found["counts"].astype(np.int64), certificate,
        (found["missed_found"], found["missed_nearest"]) if "missed_found" in found else None,
    )  # fmt: skip
