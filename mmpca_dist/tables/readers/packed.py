"""Packed values of Zarr arrays: what they stand for, by attributes that NetCDF's tools and xarray write.

Source: CF conventions 1.12, sections 2.5.1, missing data, and 8.1, packed data.
"""

from __future__ import annotations

import base64
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.errors import InputError

FILLS = ("_FillValue", "missing_value")
DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute by which xarray marks what it writes in version 2: its fill values stand for no value."""


@dataclass(frozen=True)
class Packing:
    """The numbers that stored values stand for: a multiple of each, and an offset; some stand for no value."""

    stored: np.dtype
    """The type that the bytes have, which for integers may have the other sign than that of the array."""
    fills: NDArray  # (k,), of that type
    scale: float
    offset: float

    @classmethod
    def of(cls, array: zarr.Array, where: str) -> Packing | None:
        """Return the packing of an array; None where its values stand for themselves."""
        attributes = dict(array.attrs)
        stored = _other_sign(array.dtype, attributes.get("_Unsigned"), where)
        if array.metadata.zarr_format == 2 and DIMENSIONS in attributes and array.fill_value is not None:
            attributes["_FillValue"] = array.fill_value
        found = [value for name in FILLS if name in attributes for value in _listed(attributes[name], array.dtype)]
        if odd := next((value for value in found if not np.isscalar(value)), None):
            raise InputError(f"{where} has the fill value {str(odd)[:40]!r} among its attributes, which is no value.")
        held = [_as_stored(value, dtype) for value in found for dtype in dict.fromkeys((array.dtype, stored))]
        fills = [fill.view(stored) for fill in held if fill is not None]
        scale, offset = (_number(attributes, *name, where) for name in (("scale_factor", 1.0), ("add_offset", 0.0)))
        if not fills and (scale, offset, stored) == (1, 0, array.dtype):
            return None
        if array.dtype.kind not in "iuf" and (scale, offset) != (1, 0):
            raise InputError(f"{where} has a scale_factor or an add_offset, and values of type {array.dtype}.")
        return cls(stored, np.asarray(fills, stored), scale, offset)

    @property
    def scales(self) -> bool:
        """Whether numbers are others than those that are stored."""
        return (self.scale, self.offset) != (1, 0)

    @property
    def dtype(self) -> np.dtype:
        """The type of the numbers: one that holds NaN where some stand for no value, and all whole numbers."""
        if self.scales:
            return np.dtype(np.float64)
        return np.result_type(self.stored, np.float16) if len(self.fills) else self.stored

    def gaps(self, stored: NDArray) -> NDArray[np.bool_]:
        """Return which values stand for none."""
        stored = stored.view(self.stored)
        return np.logical_or.reduce([np.zeros(stored.shape, bool), *(stored == fill for fill in self.fills)])

    def values(self, stored: NDArray) -> NDArray:
        """Return the numbers, and any where there is none."""
        stored = stored.view(self.stored)
        return stored * self.scale + self.offset if self.scales else stored

    def unpack(self, stored: NDArray, out: NDArray) -> NDArray:
        """Fill ``out`` with the numbers, and with NaN where there are none, and return it."""
        np.multiply(stored.view(self.stored), self.scale, out=out, casting="unsafe", dtype=out.dtype)
        if self.offset:
            out += self.offset
        if len(self.fills):
            out[self.gaps(stored)] = np.nan
        return out


def _other_sign(dtype: np.dtype, unsigned: Any, where: str) -> np.dtype:
    """Return the type of integers by the attribute ``_Unsigned``, which formats without unsigned ones have."""
    if dtype.kind in "iu" and unsigned not in (None, "true", "false"):
        raise InputError(f"{where} has the attribute _Unsigned {unsigned!r}, which must be 'true' or 'false'.")
    kind = {("i", "true"): "u", ("u", "false"): "i"}.get((dtype.kind, unsigned))
    return dtype if kind is None else np.dtype(f"{dtype.byteorder}{kind}{dtype.itemsize}")


def _listed(values: Any, dtype: np.dtype) -> list[Any]:
    values = values if isinstance(values, list) else [values]
    return [_decoded(value) if dtype.kind == "f" and isinstance(value, str) else value for value in values]


def _decoded(text: str) -> float:
    """Return the number in text, or in Base64, as xarray writes those of floats in version 3."""
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError, struct.error):
        return float(struct.unpack("<d", base64.standard_b64decode(text))[0])
    return np.nan


def _as_stored(value: Any, dtype: np.dtype) -> NDArray | None:
    """Return a value that stands for none as an array of this type holds it; None where that cannot hold it."""
    try:
        with np.errstate(all="ignore"):
            fill = np.asarray(value).astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return None
    return fill if fill == (value if dtype.kind in "iub" else fill) else None


def _number(attributes: dict[str, Any], name: str, default: float, where: str) -> float:
    value = attributes.get(name, default)
    try:
        number = float(np.asarray(value).item())
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number) or (name == "scale_factor" and number == 0):
        raise InputError(f"{where} has the attribute {name} {str(value)[:40]!r}, which must be a number other than 0.")
    return number
