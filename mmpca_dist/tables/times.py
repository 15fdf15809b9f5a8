"""Times of rows: numbers, dates or timestamps, and unsigned integers in the same order."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.tables.column import Known
from mmpca_dist.tables.values import Place

SIGN = np.uint64(1 << 63)
LARGEST = 2**64 - 1
MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
DAY = r"\d{1,2}(st|nd|rd|th)?"
CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([ap]\.?m\.?)?\s*(z|utc|gmt|[+-]\d{2}:?\d{2})?"
YEAR, MM, DD = r"(19|20)\d\d", r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])"
DATE = re.compile(
    rf"((mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?(\d{{1,4}}(?P<mark>[-/.])\d{{1,2}}(?P=mark)\d{{1,4}}\.?|"
    rf"{YEAR}[-/]{MM}|{YEAR}[-/ ]?[qw]\d{{1,2}}|q[1-4][-/ ]?{YEAR}|{YEAR}{MM}{DD}|"
    rf"{DAY}[-\s./]*{MONTH}([-\s,./]*\d{{2,4}})?|{MONTH}[-\s]*{DAY}(,?\s+\d{{4}})?|{MONTH}[-\s,]*\d{{4}}|"
    rf"\d{{4}}[-\s]{MONTH}[-\s]{DAY})([t\s,]+{CLOCK})?",
    re.I,
)
TIME_OF_DAY = re.compile(CLOCK, re.I)


def times_in(texts: Iterable[str]) -> str:
    """Return "dates" or "times of day" where all texts are such; else nothing."""
    texts = [text.strip() for text in texts]
    forms = {"dates": DATE, "times of day": TIME_OF_DAY}
    return next((what for what, form in forms.items() if texts and all(map(form.fullmatch, texts))), "")


def remedy_for(kind: pa.DataType) -> str:
    """Return what to make of a type of columns that is one of times; nothing of others."""
    if not pa.types.is_temporal(kind):
        return ""
    if pa.types.is_time(kind):
        return "turn times of day into numbers, such as hours since midnight"
    if pa.types.is_duration(kind) or pa.types.is_interval(kind):
        return "turn lengths of time into numbers, such as days"
    return "turn dates into numbers, such as days since one of them"


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
