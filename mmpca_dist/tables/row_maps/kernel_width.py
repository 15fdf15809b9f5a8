"""``gamma: scale``, the width of a kernel from the variance of the values."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scipy.sparse import issparse

from mmpca_dist.errors import InputError
from mmpca_dist.settings import setting
from mmpca_dist.tables.row_maps.specification import Arrays

SAMPLE_ROWS, SAMPLE_BYTES = 2048, 64 << 20
"""The variance comes from up to so many rows, or rows of so many bytes. With 2,048 rows of 10 independent columns its
relative standard error is about 1%, far below what the choice of a width matters."""

Gamma = Literal["scale"] | Annotated[float, Field(gt=0)]


def gamma_option() -> Any:
    """Return the option ``gamma`` of a row map."""
    return setting(
        "scale",
        values="scale, or a number above 0",
        example=0.1,
        description="Width of the kernel: scale is 1 / (d x variance of the values), d the columns; the variance is "
        "that of all values of a sample of rows",
    )


def width_rows(gamma: Any, row_bytes: int) -> int:
    """Return how many rows the width is estimated from: none where it is a number."""
    return max(2, min(SAMPLE_ROWS, SAMPLE_BYTES // row_bytes)) if gamma == "scale" else 0


def gamma_of(gamma: Any, sample: Any, n_features: int) -> float:
    """Return the width: the number itself, or 1 / (d x variance of the values of the sample).

    Raises InputError where all values of the sample are equal.
    """
    if gamma != "scale":
        return float(gamma)
    variance = _variance(sample, n_features)
    if not variance > 0:
        raise InputError(
            f"gamma: scale divides by the variance of the values, and all values of a sample of {sample.shape[0]} "
            "rows are equal. Give gamma as a number."
        )
    return 1 / (n_features * variance)


def width_remarks(gamma: Any, arrays: Arrays) -> list[str]:
    """Return what the width is where it was estimated."""
    return [f"gamma is {arrays['gamma'][0]:.4g}, from the variance of the values"] if gamma == "scale" else []


def _variance(sample: Any, n_features: int) -> float:
    if not issparse(sample):
        return float(np.var(sample))
    size = sample.shape[0] * n_features
    mean = float(sample.data.sum()) / size
    return (float(np.sum((sample.data - mean) ** 2)) + (size - sample.nnz) * mean**2) / size
