"""Synthetic rows, drawn chunk by chunk from a seed."""

from __future__ import annotations

import functools
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.dataset import Dataset, chunk_edges, default_chunk_rows
from mmpca_dist.datasets.memory_limits import refuse_absurd, refuse_larger
from mmpca_dist.datasets.readers.formats import Format
from mmpca_dist.datasets.readers.uri_options import Value, parse_options
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError, did_you_mean

BLOCK_ROWS = 4096
LABELS, ROWS, GEOMETRY = range(3)
"""Streams of random numbers: labels can be drawn without the rows."""


class SyntheticDataset(Dataset):
    """Base of the generators; a subclass draws the labels and rows of one chunk."""

    defaults: ClassVar[dict[str, Value]]
    kind = "synthetic"
    read_overhead = 0.1

    def __init__(self, uri: str, options: dict[str, Value]) -> None:
        self.uri, self.options = uri, options
        self.n_rows, self.n_features = int(options["n"]), int(options["d"])
        if options["dtype"] not in ("float32", "float64"):
            raise InputError(f"dtype={options['dtype']} in {uri}: synthetic rows are float32 or float64.")
        self.dtype = np.dtype(str(options["dtype"]))
        if int(options["seed"]) < 0:
            raise InputError(f"seed={options['seed']} in {uri} must not be negative.")
        if self.n_rows < 2 or self.n_features < 1:
            raise InputError(f"{uri} needs at least n=2 rows and d=1 columns.")
        refuse_absurd(uri, (self.n_rows, self.n_features), self.dtype.itemsize)
        refuse_larger(self.row_bytes, f"A row of {uri}", "Take fewer columns")
        self._chunk_rows = default_chunk_rows(self.row_bytes)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, self._chunk_rows)

    def _rng(self, stream: int, chunk: int = 0) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(int(self.options["seed"]), spawn_key=(stream, chunk)))

    def draw_labels(self, chunk: int, n_rows: int) -> NDArray[np.int64]:
        raise TypeError(f"{type(self).__name__} draws no labels")

    def draw_rows(self, chunk: int, out: NDArray) -> None:
        raise TypeError(f"{type(self).__name__} draws no rows")

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        for chunk, first, size, lo, hi in self._overlaps(start, stop):
            target = out[first + lo - start : first + hi - start]
            if hi - lo == size:
                self.draw_rows(chunk, target)
            else:
                whole = np.empty((size, self.n_features), self.dtype)
                self.draw_rows(chunk, whole)
                target[...] = whole[lo:hi]
        return out

    def read_labels(self, start: int, stop: int) -> NDArray:
        parts = [self.draw_labels(chunk, size)[lo:hi] for chunk, _, size, lo, hi in self._overlaps(start, stop)]
        return np.concatenate(parts)

    def _overlaps(self, start: int, stop: int) -> list[tuple[int, int, int, int, int]]:
        """Return (chunk, its first row, its size, first and last row wanted within it)."""
        found = []
        for chunk in range(start // self._chunk_rows, -(-stop // self._chunk_rows)):
            first = chunk * self._chunk_rows
            size = min(self._chunk_rows, self.n_rows - first)
            found.append((chunk, first, size, max(start - first, 0), min(stop - first, size)))
        return found

    def fingerprint(self) -> str:
        return storage.digest("synthetic", type(self).__name__, self.options)


class GaussianClasses(SyntheticDataset):
    """Two Gaussian classes with a shared covariance whose means differ along one axis.

    Options: ``imbalance`` is the share of class 1, ``distance`` what its mean is further along ``axis``,
    ``variance`` the variance on that axis, ``spread`` the variance on every other.

    Source: Luo & Durrant 2017, section 4.
    """

    defaults: ClassVar[dict[str, Value]] = {
        "n": 100_000, "d": 32, "imbalance": 0.5, "distance": 2.0, "variance": 1.0, "spread": 1.0,
        "axis": 0, "seed": 0, "dtype": "float32",
    }  # fmt: skip

    def __init__(self, uri: str, options: dict[str, Value]) -> None:
        super().__init__(uri, options)
        if not 0 < float(options["imbalance"]) < 1:
            raise InputError(f"imbalance in {uri} is the share of class 1 and must lie between 0 and 1.")
        if float(options["variance"]) < 0 or float(options["spread"]) < 0:
            raise InputError(f"variance and spread in {uri} must not be negative.")
        if not 0 <= int(options["axis"]) < self.n_features:
            raise InputError(f"axis in {uri} must be one of the columns 0 to {self.n_features - 1}.")

    def draw_labels(self, chunk: int, n_rows: int) -> NDArray[np.int64]:
        return (self._rng(LABELS, chunk).random(n_rows) < float(self.options["imbalance"])).astype(np.int64)

    def draw_rows(self, chunk: int, out: NDArray) -> None:
        self._rng(ROWS, chunk).standard_normal(dtype=self.dtype.type, out=out)
        axis, spread = int(self.options["axis"]), float(self.options["spread"])
        on_axis = out[:, axis] * np.sqrt(float(self.options["variance"])).astype(self.dtype)
        if spread != 1:
            out *= np.sqrt(spread).astype(self.dtype)
        shift = float(self.options["distance"]) * self.draw_labels(chunk, len(out))
        out[:, axis] = on_axis + shift.astype(self.dtype)


class GaussianClusters(SyntheticDataset):
    """``k`` Gaussian clusters, spectrum falling like 1/j, turned by a random rotation.

    Options: ``classes`` labels given to whole clusters in turn (``assign=cluster``) or to each row at random
    (``assign=random``); ``separation`` scales the cluster centres, whose spectrum is the same 1/j.
    """

    defaults: ClassVar[dict[str, Value]] = {
        "n": 100_000, "d": 32, "k": 10, "classes": 2, "assign": "cluster", "separation": 2.0,
        "seed": 0, "dtype": "float32",
    }  # fmt: skip

    def __init__(self, uri: str, options: dict[str, Value]) -> None:
        super().__init__(uri, options)
        if options["assign"] not in ("cluster", "random"):
            raise InputError(f"assign={options['assign']} in {uri} must be 'cluster' or 'random'.")
        if not int(options["classes"]) >= 2:
            raise InputError(f"{uri} needs at least two classes.")
        if int(options["k"]) < (int(options["classes"]) if options["assign"] == "cluster" else 1):
            raise InputError(f"{uri} has fewer clusters (k) than classes.")
        geometry = 8 * self.n_features * (int(options["k"]) + 3 * self.n_features)
        refuse_larger(geometry, f"The geometry of {uri}", "Take fewer clusters (k) or columns (d)")

    def _clusters(self, chunk: int, n_rows: int) -> NDArray[np.int64]:
        return self._rng(LABELS, chunk).integers(int(self.options["k"]), size=n_rows)

    def draw_labels(self, chunk: int, n_rows: int) -> NDArray[np.int64]:
        n_classes = int(self.options["classes"])
        if self.options["assign"] == "cluster":
            return self._clusters(chunk, n_rows) % n_classes
        rng = self._rng(LABELS, chunk)
        rng.integers(int(self.options["k"]), size=n_rows)  # the clusters come first in this stream
        return rng.integers(n_classes, size=n_rows)

    def draw_rows(self, chunk: int, out: NDArray) -> None:
        rng = self._rng(ROWS, chunk)
        centres, axes = _geometry(
            int(self.options["seed"]),
            int(self.options["k"]),
            self.n_features,
            float(self.options["separation"]),
        )
        clusters = self._clusters(chunk, len(out))
        centres, axes = centres.astype(self.dtype), axes.astype(self.dtype)
        with single_blas_thread():
            for start in range(0, len(out), BLOCK_ROWS):
                rows = out[start : start + BLOCK_ROWS]
                noise = rng.standard_normal(rows.shape, dtype=self.dtype.type)
                np.matmul(noise, axes, out=rows)
                rows += centres[clusters[start : start + BLOCK_ROWS]]


@functools.lru_cache(maxsize=4)
def _geometry(seed: int, k: int, d: int, separation: float) -> tuple[NDArray, NDArray]:
    """Return cluster centres (k, d) and the scaled axes (d, d) that turn white noise into rows."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(GEOMETRY,)))
    with single_blas_thread():
        rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
        axes = rotation / np.sqrt(np.arange(1, d + 1))[:, None]
        return separation * rng.standard_normal((k, d)) @ axes, axes


KINDS: dict[str, type[SyntheticDataset]] = {"gaussian": GaussianClasses, "clusters": GaussianClusters}


def open_synthetic(uri: str) -> SyntheticDataset:
    """Open ``synthetic:KIND?option=value&...``.

    Raises
    ------
    InputError
        For an unknown kind or option, or a value that does not parse.
    """
    name, _, query = uri.removeprefix("synthetic:").partition("?")
    if name not in KINDS:
        raise InputError(
            f"Unknown synthetic data set {name!r} in {uri}; there are {', '.join(KINDS)}.{did_you_mean(name, KINDS)}"
        )
    kind = KINDS[name]
    return kind(uri, parse_options(uri, query, kind.defaults))


FORMAT = Format("synthetic", "a synthetic table", lambda request: open_synthetic(request.uri), scheme="synthetic:")
