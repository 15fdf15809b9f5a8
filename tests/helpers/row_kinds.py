"""Rows of every kind that a search for neighbours may meet, with labels of every proportion."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

WIDTHS = (1, 2, 3, 7, 8, 9, 16, 17, 18, 25, 40, 63, 64, 65, 130, 256, 301)
"""Fewer than 8 columns, frames without, with and with a short second bound."""
DTYPES = ("float64", "float32", "float16", "int8", "uint8", "int64", "bool")


def equal_but_one(rng, n, d):
    X = np.full((n, d), 0.1)
    X[rng.integers(n), rng.integers(d)] += 1
    return X


def constant_columns(rng, n, d):
    X = rng.standard_normal((n, d))
    X[:, :: 2 if d > 1 else 1] = 1e6
    return X


def outliers(rng, n, d):
    X = rng.standard_normal((n, d))
    X[rng.random(n) < 0.05] *= 1e30
    return X


def equidistant(rng, n, d):
    """Rows around the first at one exact distance, in every direction: all are ties for it."""
    v = np.round(rng.standard_normal(d) * 1024)
    X = np.stack([rng.permutation(v) * rng.choice([-1, 1], d) for _ in range(n)])
    X[: max(1, n // 10)] = 0
    return X


KINDS = {
    "gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "falling": lambda rng, n, d: rng.standard_normal((n, d)) / np.arange(1, d + 1),
    "grid": lambda rng, n, d: rng.integers(-2, 3, (n, d)).astype(float),
    "binary": lambda rng, n, d: (rng.random((n, d)) < 0.2).astype(float),
    "duplicates": lambda rng, n, d: rng.standard_normal((max(1, n // 6), d))[rng.integers(0, max(1, n // 6), n)],
    "equal": lambda rng, n, d: np.full((n, d), 0.1),
    "equal_but_one": equal_but_one,
    "constant_columns": constant_columns,
    "far_mean": lambda rng, n, d: rng.standard_normal((n, d)) + 1e6,
    "tight_clusters": lambda rng, n, d: (
        rng.standard_normal((5, d))[rng.integers(0, 5, n)] + 1e-6 * rng.standard_normal((n, d))
    ),
    "huge": lambda rng, n, d: 1e30 * rng.standard_normal((n, d)),
    "tiny": lambda rng, n, d: 1e-30 * rng.standard_normal((n, d)),
    # Squares of these are hardly larger than the smallest normal numbers; of less they are refused.
    "vanishing": lambda rng, n, d: 1e-149 * rng.standard_normal((n, d)),
    "outliers": outliers,
    "equidistant": equidistant,
    # The same, but for the last bits of single precision.
    "last_bits": lambda rng, n, d: (
        equidistant(rng, n, d).astype(np.float32) * (1 + rng.integers(-2, 3, (n, 1)) * np.float32(2**-23))
    ).astype(float),
}


def as_type(X, dtype):
    """Return rows of a type, as near as it permits."""
    if dtype == "bool":
        return np.median(X) < X
    if dtype in ("int8", "uint8", "int64"):
        largest = np.abs(X).max() or 1.0
        X = X / largest * {"int8": 120, "uint8": 120, "int64": 2.0**62}[dtype]
        return (X + 120 if dtype == "uint8" else X).astype(dtype)
    if dtype == "float16":
        return (X / (np.abs(X).max() or 1.0)).astype(dtype)
    if dtype == "float32":
        return np.clip(X, -3e38, 3e38).astype(dtype)
    return X


@st.composite
def labelled_rows(draw):
    """Rows of every kind with labels of every proportion."""
    n, d = draw(st.integers(2, 48)), draw(st.sampled_from(WIDTHS))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    X = as_type(KINDS[draw(st.sampled_from(list(KINDS)))](rng, n, d), draw(st.sampled_from(DTYPES)))
    n_classes = draw(st.sampled_from([2, 2, 3, 4, 7]))
    y = rng.integers(0, n_classes, n)
    proportions = draw(st.sampled_from(["random", "one row", "sorted"]))
    if proportions == "one row":
        y = np.where(np.arange(n) == rng.integers(n), 0, 1 + y % max(n_classes - 1, 1))
    elif proportions == "sorted":
        y = np.sort(y)
    assume(len(np.unique(y)) > 1)
    return X, y
