"""The tables of scikit-learn: ``bundled:NAME?classes=A,B&noise=S&seed=I``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.readers.uri_options import Value, parse_options
from mmpca_dist.errors import InputError, did_you_mean, some_names

BUNDLED = ("digits", "breast_cancer", "wine", "iris")
DEFAULTS: Mapping[str, Value] = {"classes": "", "noise": 0.0, "seed": 0}


@dataclass(frozen=True)
class Bundled:
    """What the address of a bundled table says.

    Attributes
    ----------
    uri, name : str
    classes : tuple of str
        Whose rows are kept; none stands for all.
    noise : float
        Standard deviation of Gaussian noise that is added to every value.
    seed : int
        Of the noise.
    """

    uri: str
    name: str
    classes: tuple[str, ...]
    noise: float
    seed: int

    @classmethod
    def parse(cls, uri: str) -> Bundled:
        """Read an address.

        Raises
        ------
        InputError
            For an unknown name or option, or a value that does not fit.
        """
        name, _, query = uri.removeprefix("bundled:").partition("?")
        if name not in BUNDLED:
            raise InputError(
                f"There is no bundled data set {name!r}; there are {', '.join(BUNDLED)}.{did_you_mean(name, BUNDLED)}"
            )
        options = parse_options(uri, query, DEFAULTS)
        noise, seed = float(options["noise"]), int(options["seed"])
        if not 0 <= noise < np.inf:
            raise InputError(f"noise={noise} in {uri} is a standard deviation: it must be finite and not negative.")
        if seed < 0:
            raise InputError(f"seed={seed} in {uri} must not be negative.")
        classes = tuple(part.strip() for part in str(options["classes"]).split(",") if part.strip())
        if not classes and "classes=" in query:
            raise InputError(f"classes= in {uri} names no class; leave it out for all of them.")
        return cls(uri, name, classes, noise, seed)

    @property
    def without_noise(self) -> str:
        """The address of the same rows before noise was added."""
        chosen = f"?classes={','.join(self.classes)}" if self.classes else ""
        return f"bundled:{self.name}{chosen}"

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width of a row that is an image."""
        return (8, 8) if self.name == "digits" else None

    def load(self) -> tuple[NDArray, NDArray, list[str]]:
        """Return rows (n, d), labels (n,) and names of the columns.

        The noise of a row does not depend on which classes are kept.

        Raises
        ------
        InputError
            For a class that is not there.
        """
        import sklearn.datasets

        bundle = getattr(sklearn.datasets, f"load_{self.name}")()
        X, y = bundle.data, bundle.target_names[bundle.target]
        if self.noise:
            X = X + self.noise * np.random.default_rng(self.seed).standard_normal(X.shape)
        if self.classes:
            known = [str(name) for name in bundle.target_names]
            for wanted in self.classes:
                if wanted not in known:
                    raise InputError(
                        f"classes in {self.uri} names {wanted!r}, but the classes of {self.name} are "
                        f"{some_names(known)}.{did_you_mean(wanted, known)}"
                    )
            kept = np.isin(y.astype(str), self.classes)
            X, y = X[kept], y[kept]
        return X, y, [str(name) for name in bundle.feature_names]
