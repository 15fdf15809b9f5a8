"""Times of rows: numbers, dates or timestamps, and unsigned integers in the same order."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.tables.column import Known
from mmpca_dist.tables.values import Place

SIGN = np.uint64(1 << 63)
LARGEST = 2**64 - 1


def times(known: Known, place: Place) -> NDArray:
    """Return times, shape (n,): integers, doubles or datetime64.

    Raises InputError for what is missing, not finite, or no time.
    """
    values, there = known
    kind = values.dtype.kind
    if kind not in "iufM":
        raise InputError(
            f"The times in {place.where} have type {values.dtype}; they must be numbers, dates or timestamps."
        )
    good = there & np.isfinite(values) if kind == "f" else there
    if not good.all():
        position = int(np.argmin(good))
        if not there[position]:
            raise place.no_value(there, "time")
        raise InputError(
            f"Row {place.row(position)} has the time {values[position]} in {place.where}. Leave the row out, or give "
            "it a time."
        )
    return values.astype(np.float64) if kind == "f" else values


def order_keys(times: NDArray) -> NDArray[np.uint64]:
    """Return unsigned integers that are in the order of the times, and equal where these are."""
    if times.dtype.kind == "u":
        return times.astype(np.uint64)
    if times.dtype.kind == "f":
        bits = (times + 0.0).view(np.uint64)  # of -0.0 and 0.0 the same
        return np.where(bits & SIGN, ~bits, bits | SIGN)
    return times.astype(np.int64).view(np.uint64) ^ SIGN


def key_before(boundary: str | float, dtype: np.dtype, where: str) -> int:
    """Return the largest key of times of a type that are before a boundary, or -1 where there are none.

    Raises InputError for a boundary that is no time of this kind.
    """
    first = _first_time(boundary, dtype, where)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if first > limits.max:
            return LARGEST
        first = max(first, limits.min)
    return int(order_keys(np.asarray([first], dtype))[0]) - 1


def _first_time(boundary: str | float, dtype: np.dtype, where: str) -> Any:
    """Return the first time of a type that is not before a boundary."""
    if dtype.kind == "M":
        date = _as_date(boundary)
        if date is None:
            raise InputError(
                f"The boundary {boundary!r} is no date, and {where} holds dates: write it like 2024-01-31."
            )
        first = date.astype(dtype)
        return first + np.asarray(1, dtype.str.replace("M8", "m8")) if first < date else first
    try:
        number = Decimal(str(boundary))  # exact, beyond 2^53 too
    except InvalidOperation:
        number = Decimal("nan")
    if not math.isfinite(number):  # as a double, so that no power of ten is written out
        raise InputError(f"The boundary {boundary!r} is no number, and {where} holds numbers.")
    return float(number) if dtype.kind == "f" else math.ceil(number)


def _as_date(boundary: str | float) -> np.datetime64 | None:
    """Return a date or time in ISO 8601, in universal time, which it is in where it names no zone."""
    try:
        date = datetime.datetime.fromisoformat(str(boundary))
    except ValueError:
        return None
    if date.tzinfo is not None:
        date = date.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(date, "us")
