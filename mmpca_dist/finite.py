"""Numbers that are not finite, which no choice takes and no certificate counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def or_infinite(values: Any) -> NDArray[np.float64]:
    """Return numbers with infinity for those that are not finite.

    Whatever chooses the least of some numbers, or compares them with a tolerance, passes them through here first.
    """
    values = np.asarray(values, np.float64)
    return np.where(np.isfinite(values), values, np.inf)


def or_none(value: float) -> float | None:
    """Return a number that JSON can hold: None for one that is not finite."""
    return float(value) if np.isfinite(value) else None
