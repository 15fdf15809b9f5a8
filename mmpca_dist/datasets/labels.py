"""Labels of any origin, brought to one of three kinds: integers, booleans, strings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError

MAX_CLASSES = 100_000
"""More distinct labels than this are measurements, not classes."""


def normalize_labels(y: NDArray, where: str) -> NDArray:
    """Return labels as integers, booleans or fixed-width strings.

    Parameters
    ----------
    y : array of shape (n,)
        Integers, booleans, strings, bytes, or floats that are whole numbers.
    where : str
        What to call the labels in an error.

    Raises
    ------
    InputError
        For missing labels, fractions and other types.
    """
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(f"Labels in {where} have shape {y.shape}; they must be one value a row.")
    kind = y.dtype.kind
    if kind in "iub":
        return y
    if kind == "f":
        whole = (y == np.rint(y)) & (np.abs(y) < 2.0**63)
        if not whole.all():
            row = int(np.argmin(whole))
            raise InputError(
                f"Label {y[row]!s} at position {row} of {where} is not a whole number. Labels must be classes: "
                "integers or strings."
            )
        return y.astype(np.int64)
    if kind == "S":
        return np.char.decode(y, "utf-8")
    if kind in "OT":
        values = [v.item() if isinstance(v, np.generic) else v for v in y.tolist()]
        bad = next((i for i, v in enumerate(values) if not isinstance(v, str | bool | int)), None)
        if bad is not None:
            raise InputError(f"Label {y[bad]!r} at position {bad} of {where} is neither a string nor an integer.")
        kinds = {type(v) for v in values}
        if len(kinds) > 1:
            raise InputError(f"Labels in {where} mix {' and '.join(sorted(k.__name__ for k in kinds))}; use one type.")
        return np.asarray(values)
    if kind == "U":
        return y
    raise InputError(f"Labels in {where} have type {y.dtype}; they must be integers or strings.")


def unite(known: NDArray, found: NDArray, where: str = "these rows") -> NDArray:
    """Return the sorted classes of both.

    Raises
    ------
    InputError
        Where some are text and others numbers.
    """
    if known.dtype.kind != found.dtype.kind and np.result_type(known, found).kind not in "iu":
        raise InputError(f"Labels were {known.dtype} and are now {found.dtype} in {where}; use one type.")
    return np.union1d(known, found)


def encode(y: NDArray, classes: NDArray, where: str) -> NDArray[np.intp]:
    """Return the position of each label in the sorted ``classes``.

    Raises
    ------
    InputError
        For a label that is none of the classes.
    """
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    known = classes[codes] == y
    if not np.all(known):
        stranger = y[int(np.argmin(known))]
        raise InputError(f"Label {stranger!r} in {where} is none of the known classes.")
    return codes
