"""Tables with a name in place of an address: of scikit-learn, and synthetic ones.

Their addresses are ``bundled:NAME?option=value&...`` and ``synthetic:KIND?option=value&...``.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError, did_you_mean, instead_of, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.memory_limits import check_table, refuse_larger
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.memory import ArrayRows
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.spans import default_chunk_rows, overlaps

TABLES = ("digits", "breast_cancer", "wine", "iris")
TABLE_OPTIONS = {"classes": "", "noise": 0.0, "seed": 0}
"""Classes to keep, by default all; the standard deviation of Gaussian noise added to every value; its seed."""
DRAWN_ROWS = 4096
LABELS, ROWS, GEOMETRY = range(3)
"""Streams of random numbers, so that labels can be drawn without the rows."""


class BundledTable(ArrayRows):
    """A table of scikit-learn, which each process loads whole."""

    label = "y"

    def __init__(self, uri: str) -> None:
        X, _, names = _load(uri)
        shape = (8, 8) if _parse(uri)[0] == "digits" else None
        self.facts = Facts(
            uri, len(X), X.shape[1], X.dtype, names, shape, kind="memory",
            resident_bytes=2 * X.nbytes,
        )  # fmt: skip

    @property
    def _X(self) -> NDArray:  # type: ignore[override]  # noqa: N802
        return _load(self.uri)[0]

    def column(self, name: str | None, setting: Setting | str) -> Column:
        if name is not None:
            return super().column(name, setting)
        return Column("y", self.uri, self.n_rows, partial(_read_labels, self.uri))

    @property
    def before_noise(self) -> Source | None:
        name, classes, noise, _ = _parse(self.uri)
        chosen = f"?classes={','.join(classes)}" if classes else ""
        return BundledTable(f"bundled:{name}{chosen}") if noise else None

    def fingerprint(self) -> str:
        return storage.digest("bundled", self.uri, self.n_rows, float(np.sum(self._X)))


def _read_labels(uri: str, start: int, stop: int) -> Known:
    return _load(uri)[1][start:stop], np.ones(stop - start, bool)


def _parse(uri: str) -> tuple[str, list[str], float, int]:
    """Return the name of a table, and the options ``classes``, ``noise`` and ``seed``."""
    name, _, query = uri.removeprefix("bundled:").partition("?")
    if name not in TABLES:
        raise InputError(
            f"There is no bundled data set {name!r}; there are {', '.join(TABLES)}.{did_you_mean(name, TABLES)}"
        )
    options = parse_options(uri, query, TABLE_OPTIONS)
    noise = options["noise"]
    if not 0 <= noise < np.inf:
        raise InputError(f"noise={noise} in {uri} is a standard deviation: it must be finite and not negative.")
    classes = [part.strip() for part in options["classes"].split(",") if part.strip()]
    if not classes and "classes=" in query:
        raise InputError(f"classes= in {uri} names no class; leave it out for all of them.")
    return name, classes, noise, options["seed"]


@functools.lru_cache(maxsize=2)
def _load(uri: str) -> tuple[NDArray, NDArray, list[str]]:
    """Return rows, labels, and names of the columns; the noise of a row does not depend on ``classes``."""
    import sklearn.datasets

    table, classes, noise, seed = _parse(uri)
    bundle = getattr(sklearn.datasets, f"load_{table}")()
    X, y = bundle.data, bundle.target_names[bundle.target]
    if noise:
        X = X + noise * np.random.default_rng(seed).standard_normal(X.shape)
    names = [str(name) for name in bundle.target_names]
    for name in classes:
        if name not in names:
            raise InputError(
                f"classes in {uri} names {name!r}, but the classes of {table} are "
                f"{some_names(names)}.{did_you_mean(name, names)}"
            )
    kept: NDArray | slice = np.isin(y.astype(str), classes) if classes else slice(None)
    return X[kept], y[kept], [str(name) for name in bundle.feature_names]


class SyntheticTable(Source):
    """Base of the generators; a subclass draws the labels and rows of one chunk."""

    defaults: ClassVar[dict[str, Any]]
    label = "y"

    def __init__(self, uri: str, options: dict[str, Any]) -> None:
        self.options = options
        if options["dtype"] not in ("float32", "float64"):
            raise InputError(f"dtype={options['dtype']} in {uri}: synthetic rows are float32 or float64.")
        self.facts = Facts(uri, options["n"], options["d"], np.dtype(options["dtype"]), kind="synthetic")
        if self.n_rows < 2 or self.n_features < 1:
            raise InputError(f"{uri} needs at least n=2 rows and d=1 columns.")
        check_table(uri, (self.n_rows, self.n_features), self.dtype)
        self._chunk_rows = default_chunk_rows(self.row_bytes)

    def _rng(self, stream: int, chunk: int = 0) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.options["seed"], spawn_key=(stream, chunk)))

    @abstractmethod
    def draw_labels(self, chunk: int, n_rows: int) -> NDArray[np.int64]:
        """Return the labels of the rows of a chunk."""

    @abstractmethod
    def draw_rows(self, chunk: int, out: NDArray) -> None:
        """Fill ``out`` with the rows of a chunk."""

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        for chunk, size, within, target in self._chunks(start, stop):
            if within == slice(0, size):
                self.draw_rows(chunk, out[target])
            else:
                rows = np.empty((size, self.n_features), self.dtype)
                self.draw_rows(chunk, rows)
                out[target] = rows[within]
        return out

    def column(self, name: str | None, setting: Setting | str) -> Column:
        if name is not None:
            return super().column(name, setting)
        return Column("y", self.uri, self.n_rows, self._read_labels)

    def _read_labels(self, start: int, stop: int) -> Known:
        drawn = [self.draw_labels(chunk, size)[within] for chunk, size, within, _ in self._chunks(start, stop)]
        return np.concatenate([np.zeros(0, np.int64), *drawn]), np.ones(stop - start, bool)

    def _chunks(self, start: int, stop: int) -> Iterator[tuple[int, int, slice, slice]]:
        """Yield number and size of each chunk that holds some rows, and where these are in it and among all rows."""
        edges = self.chunk_edges
        for chunk, first, last in overlaps(edges, start, stop):
            begin, end = edges[chunk : chunk + 2].tolist()
            yield chunk, end - begin, slice(first - begin, last - begin), slice(first - start, last - start)

    def fingerprint(self) -> str:
        return storage.digest("synthetic", type(self).__name__, self.options)


class GaussianClasses(SyntheticTable):
    """Two Gaussian classes with a shared covariance whose means differ along one axis.

    Options: ``imbalance`` is the share of class 1, ``distance`` that of the means along ``axis``, ``variance`` the
    variance on that axis, ``spread`` the variance on every other.

    Source: Luo & Durrant 2017, section 4.
    """

    defaults: ClassVar[dict[str, Any]] = {
        "n": 100_000, "d": 32, "imbalance": 0.5, "distance": 2.0, "variance": 1.0, "spread": 1.0,
        "axis": 0, "seed": 0, "dtype": "float32",
    }  # fmt: skip

    def __init__(self, uri: str, options: dict[str, Any]) -> None:
        super().__init__(uri, options)
        if not 0 < options["imbalance"] < 1:
            raise InputError(f"imbalance in {uri} is the share of class 1 and must lie between 0 and 1.")
        if options["variance"] < 0 or options["spread"] < 0:
            raise InputError(f"variance and spread in {uri} must not be negative.")
        if not 0 <= options["axis"] < self.n_features:
            raise InputError(f"axis in {uri} must be one of the columns 0 to {self.n_features - 1}.")

    def draw_labels(self, chunk: int, n_rows: int) -> NDArray[np.int64]:
        return (self._rng(LABELS, chunk).random(n_rows) < self.options["imbalance"]).astype(np.int64)

    def draw_rows(self, chunk: int, out: NDArray) -> None:
        self._rng(ROWS, chunk).standard_normal(dtype=self.dtype.type, out=out)
        axis, spread = self.options["axis"], self.options["spread"]
        on_axis = out[:, axis] * np.sqrt(self.options["variance"]).astype(self.dtype)
        if spread != 1:
            out *= np.sqrt(spread).astype(self.dtype)
        shift = self.options["distance"] * self.draw_labels(chunk, len(out))
        out[:, axis] = on_axis + shift.astype(self.dtype)


class GaussianClusters(SyntheticTable):
    """``k`` Gaussian clusters whose spectrum falls like 1/j, under a random rotation.

    Options: ``classes`` labels, assigned to clusters in turn (``assign=cluster``) or to each row at random
    (``assign=random``); ``separation`` scales the cluster centres, whose spectrum is the same 1/j.
    """

    defaults: ClassVar[dict[str, Any]] = {
        "n": 100_000, "d": 32, "k": 10, "classes": 2, "assign": "cluster", "separation": 2.0,
        "seed": 0, "dtype": "float32",
    }  # fmt: skip

    def __init__(self, uri: str, options: dict[str, Any]) -> None:
        super().__init__(uri, options)
        if options["assign"] not in ("cluster", "random"):
            raise InputError(f"assign={options['assign']} in {uri} must be 'cluster' or 'random'.")
        if options["classes"] < 2:
            raise InputError(f"{uri} needs at least two classes.")
        if options["k"] < (options["classes"] if options["assign"] == "cluster" else 1):
            raise InputError(f"{uri} has fewer clusters (k) than classes.")
        geometry = 8 * self.n_features * (options["k"] + 3 * self.n_features)
        refuse_larger(geometry, f"The geometry of {uri}", "Take fewer clusters (k) or columns (d)")

    def _clusters(self, chunk: int, n_rows: int) -> NDArray[np.int64]:
        return self._rng(LABELS, chunk).integers(self.options["k"], size=n_rows)

    def draw_labels(self, chunk: int, n_rows: int) -> NDArray[np.int64]:
        n_classes = self.options["classes"]
        if self.options["assign"] == "cluster":
            return self._clusters(chunk, n_rows) % n_classes
        rng = self._rng(LABELS, chunk)
        rng.integers(self.options["k"], size=n_rows)  # the clusters come first in this stream
        return rng.integers(n_classes, size=n_rows)

    def draw_rows(self, chunk: int, out: NDArray) -> None:
        rng = self._rng(ROWS, chunk)
        seed, k, separation = (self.options[name] for name in ("seed", "k", "separation"))
        centres, axes = _geometry(seed, k, self.n_features, separation)
        centres, axes = centres.astype(self.dtype), axes.astype(self.dtype)
        clusters = self._clusters(chunk, len(out))
        with single_blas_thread():
            for start in range(0, len(out), DRAWN_ROWS):
                rows = out[start : start + DRAWN_ROWS]
                noise = rng.standard_normal(rows.shape, dtype=self.dtype.type)
                np.matmul(noise, axes, out=rows)
                rows += centres[clusters[start : start + DRAWN_ROWS]]


@functools.lru_cache(maxsize=4)
def _geometry(seed: int, k: int, d: int, separation: float) -> tuple[NDArray, NDArray]:
    """Return cluster centres (k, d) and the scaled axes (d, d) that turn white noise into rows."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(GEOMETRY,)))
    with single_blas_thread():
        rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
        axes = rotation / np.sqrt(np.arange(1, d + 1))[:, None]
        return separation * rng.standard_normal((k, d)) @ axes, axes


KINDS: dict[str, type[SyntheticTable]] = {"gaussian": GaussianClasses, "clusters": GaussianClusters}


def open_synthetic(uri: str) -> SyntheticTable:
    """Open ``synthetic:KIND?option=value&...``; an ``InputError`` names an unknown kind or option, or a bad value."""
    name, _, query = uri.removeprefix("synthetic:").partition("?")
    if name not in KINDS:
        raise InputError(
            f"Unknown synthetic data set {name!r} in {uri}; there are {', '.join(KINDS)}.{did_you_mean(name, KINDS)}"
        )
    kind = KINDS[name]
    return kind(uri, parse_options(uri, query, kind.defaults))


def parse_options(uri: str, query: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an address, each of the type of its default."""
    options = dict(defaults)
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in options:
            raise InputError(f"Unknown option {key!r} in {uri}.{did_you_mean(key, options)}")
        kind = type(options[key])
        wrong = f"Option {key}={text} in {uri} must be {'a whole number' if kind is int else 'a number'}."
        with instead_of((ValueError, OverflowError), InputError, wrong):
            options[key] = _integer(text) if kind is int else kind(text)
    if options["seed"] < 0:
        raise InputError(f"seed={options['seed']} in {uri} must not be negative.")
    return options


def _integer(text: str) -> int:
    """Return an integer, also one written as ``1e6``."""
    number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


def _opened(request: Request) -> Source:
    if request.label is not None:
        raise InputError(f"{request.uri} has labels of its own: leave out dataset.label.")
    return BundledTable(request.uri) if request.uri.startswith("bundled:") else open_synthetic(request.uri)


FORMATS = (
    Format("bundled", "a bundled table", _opened, scheme="bundled:"),
    Format("synthetic", "a synthetic table", _opened, scheme="synthetic:"),
)
