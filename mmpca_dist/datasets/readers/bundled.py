"""The tables of scikit-learn: ``bundled:NAME?classes=A,B&noise=S&seed=I``."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, DatasetProxy
from mmpca_dist.datasets.readers.formats import Format, Option, parse_options
from mmpca_dist.datasets.readers.memory import ArrayDataset
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError, did_you_mean, some_names

TABLES = ("digits", "breast_cancer", "wine", "iris")
DEFAULTS: Mapping[str, Option] = {"classes": "", "noise": 0.0, "seed": 0}
"""Classes to keep, by default all; the standard deviation of Gaussian noise added to every value; its seed."""


class BundledDataset(DatasetProxy):
    """A table of scikit-learn, which each process loads whole."""

    kind = "memory"

    def __init__(self, uri: str) -> None:
        rows, names = _load(uri)
        super().__init__(rows)
        self.feature_names, self.resident_bytes = names, 2 * self.n_bytes
        self.image_shape = (8, 8) if _parse(uri)[0] == "digits" else None

    @property
    def _rows(self) -> ArrayDataset:
        return _load(self.uri)[0]

    @property
    def before_noise(self) -> Dataset | None:
        name, classes, noise, _ = _parse(self.uri)
        chosen = f"?classes={','.join(classes)}" if classes else ""
        return BundledDataset(f"bundled:{name}{chosen}") if noise else None

    def fingerprint(self) -> str:
        return storage.digest("bundled", self.uri, self.n_rows, float(np.sum(self.read_rows(0, self.n_rows))))


def _parse(uri: str) -> tuple[str, list[str], float, int]:
    """Return the name of a table, and the options ``classes``, ``noise`` and ``seed``."""
    name, _, query = uri.removeprefix("bundled:").partition("?")
    if name not in TABLES:
        raise InputError(
            f"There is no bundled data set {name!r}; there are {', '.join(TABLES)}.{did_you_mean(name, TABLES)}"
        )
    options = parse_options(uri, query, DEFAULTS)
    noise, seed = float(options["noise"]), int(options["seed"])
    if not 0 <= noise < np.inf:
        raise InputError(f"noise={noise} in {uri} is a standard deviation: it must be finite and not negative.")
    if seed < 0:
        raise InputError(f"seed={seed} in {uri} must not be negative.")
    classes = [part.strip() for part in str(options["classes"]).split(",") if part.strip()]
    if not classes and "classes=" in query:
        raise InputError(f"classes= in {uri} names no class; leave it out for all of them.")
    return name, classes, noise, seed


@functools.lru_cache(maxsize=2)
def _load(uri: str) -> tuple[ArrayDataset, list[str]]:
    """Return rows with labels, and names of the columns; the noise of a row does not depend on ``classes``."""
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
    return ArrayDataset(X[kept], y[kept], uri), [str(name) for name in bundle.feature_names]


FORMAT = Format("bundled", "a bundled table", lambda request: BundledDataset(request.uri), scheme="bundled:")
