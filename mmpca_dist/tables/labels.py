"""Labels: normalised to integers, booleans or strings, and numbered."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.faults import Fault, Setting, render
from mmpca_dist.tables.column import MAX_STRETCHES, Column, MissingChunks
from mmpca_dist.tables.memory_limits import refuse_larger

NAME_CHARACTERS = 1000
"""Longer labels than this are texts, or what follows a quote that is not closed."""
NOT_UTF8 = "Labels in {} are bytes that are not UTF-8. Convert them to text first."


def label_array(y: Any, where: str) -> NDArray:
    """Return labels as an array; objects are checked before NumPy, which makes texts of numbers among texts."""
    if isinstance(y, list | tuple):
        values = np.asarray(y, dtype=object)
        refuse_texts(values.ravel().tolist(), f"Labels in {where}")
        y = values if any(isinstance(value, str | bytes) for value in values.ravel()) else y
    y = np.asarray(y)
    with instead_of(UnicodeDecodeError, InputError, NOT_UTF8.format(where)):
        y = np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y
    return _of_one_type(y, where) if y.dtype.kind in "OT" and y.ndim == 1 else y


def normalize_labels(y: Any, where: str) -> NDArray:
    """Return labels, shape (n,), as integers, booleans or fixed-width strings; ``where`` is their place, for errors.

    Bytes and floats that are whole numbers are converted. An ``InputError`` refuses missing labels, fractions and other
    types.
    """
    y = label_array(y, where)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(f"Labels in {where} have shape {y.shape}; they must be one value a row.")
    kind = y.dtype.kind
    if kind in "iubU":
        return y
    if kind == "f":
        exact = 2.0 ** (np.finfo(y.dtype).nmant + 1)  # beyond it, floats do not tell integers apart
        integral = (y == np.rint(y)) & (np.abs(y) < exact)
        if not integral.all():
            row = int(np.argmin(integral))
            raise InputError(
                f"Label {y[row]!s} at position {row} of {where} is not a whole number below {exact:.0f}. Labels must "
                "be classes: integers or strings. A run takes numbers to predict as dataset.target."
            )
        return y.astype(np.int64)
    if kind in "OT":
        return _of_one_type(y, where)
    raise InputError(f"Labels in {where} have type {y.dtype}; they must be integers or strings.")


def of_codes(codes: NDArray, names: NDArray) -> tuple[NDArray, NDArray[np.bool_]]:
    """Return the names that codes stand for, with anything in the place of other codes, and which codes are known."""
    known = (codes >= 0) & (codes < len(names))
    return np.append(names, names[:1] if len(names) else "")[np.where(known, codes, 0)], known


def _of_one_type(y: NDArray, where: str) -> NDArray:
    """Return labels that are Python's objects, shape (n,), as integers, booleans or strings."""
    values = [v.item() if isinstance(v, np.generic) else v for v in y.tolist()]
    with instead_of(UnicodeDecodeError, InputError, NOT_UTF8.format(where)):
        values = [v.decode() if isinstance(v, bytes) else v for v in values]
    values = [int(v) if isinstance(v, Decimal) and v == v // 1 else v for v in values]
    kinds = {type(v).__name__ for v in values if isinstance(v, str | int | float) and v == v}
    if len(kinds) > 1 and kinds != {"float", "int"}:
        raise InputError(f"Labels in {where} mix {' and '.join(sorted(kinds))}; use one type.")
    bad = next((i for i, v in enumerate(values) if not isinstance(v, str | bool | int)), None)
    if bad is not None:
        raise InputError(f"Label {y[bad]!r} at position {bad} of {where} is neither a string nor an integer.")
    refuse_texts(values, f"Labels in {where}")
    if values and all(type(value) is int for value in values):
        if (whole := _whole_numbers(values)) is not None:
            return whole
        raise InputError(
            f"Labels in {where} hold numbers such as {max(values, key=abs)}, beyond 64 bits: make them text."
        )
    return text_array(values, f"Labels in {where}")


def distinct_labels(values: list[Any]) -> NDArray:
    """Return distinct labels, which are of one type, as an array; integers that no 64-bit type holds become strings."""
    if not all(type(value) is int for value in values):
        return text_array(values, "The distinct labels")
    whole = _whole_numbers(values)
    return np.asarray([str(value) for value in values]) if whole is None else whole


def _whole_numbers(values: list[int]) -> NDArray | None:
    """Return integers as an array; None where no 64-bit type holds them."""
    for kind in (np.int64, np.uint64):  # without a type NumPy makes floats of some lists, which lose digits
        with suppress(OverflowError):
            return np.asarray(values, kind)
    return None


def text_array(values: list[Any], what: str) -> NDArray:
    """Return labels as an array, in which each takes as many bytes as the longest; refuse one that does not fit."""
    texts = [value for value in values if isinstance(value, str)]
    longest = max(map(len, texts), default=0)
    if nul := next((text for text in texts if text.endswith("\0")), ""):
        raise InputError(f"{what} hold {nul!r}: arrays of text lose NUL characters at the end. Give it another name.")
    refuse_larger(4 * longest * len(values), what, "Give the classes shorter names")
    return np.asarray(values)


def check_label_type(dtype: np.dtype, n_rows: int, where: str) -> None:
    """Refuse text that is too wide for names, and labels of ``n_rows`` rows that do not fit into memory."""
    if dtype.kind in "SU" and dtype.itemsize > 4 * NAME_CHARACTERS:
        raise InputError(
            f"Labels in {where} have type {dtype}: names of classes have {NAME_CHARACTERS} characters at most. Name "
            "other labels, or save these in a narrower type."
        )
    refuse_larger(n_rows * dtype.itemsize, f"The labels of {n_rows} rows of {where}")


def refuse_texts(values: list[Any], what: str) -> None:
    """Refuse texts that are too long for names of classes."""
    text = next((v for v in values if isinstance(v, str) and len(v) > NAME_CHARACTERS), None)
    if text is not None:
        raise InputError(
            f"{what} hold one of {len(text)} characters, {text[:40]!r}...: names of classes have {NAME_CHARACTERS} at "
            "most. Name another column, or see whether a quote is not closed."
        )


def unite(classes: NDArray, others: NDArray, where: str = "these rows") -> NDArray:
    """Return the sorted classes of both; refuse text among numbers, and booleans, which NumPy would make 1 and 0."""
    kinds = {classes.dtype.kind, others.dtype.kind}
    if len(kinds) > 1 and ("b" in kinds or np.result_type(classes, others).kind not in "iu"):
        raise InputError(f"Labels were {classes.dtype} and are now {others.dtype} in {where}; use one type.")
    return np.union1d(classes, others)


def encode(y: NDArray, classes: NDArray, where: str) -> NDArray[np.intp]:
    """Return the position of each label in the sorted ``classes``; refuse a label that is none of them."""
    width = int(classes[-1]) - int(classes[0]) + 1 if classes.dtype == y.dtype == np.int64 else len(y) + 1
    if width <= len(y):  # is four times as fast
        places = np.searchsorted(classes, classes[0] + np.arange(width))
        codes = np.take(places, y - classes[0], mode="clip")
    else:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    matches = classes[codes] == y
    if not np.all(matches):
        stranger = y[[np.argmin(matches)]].tolist()[0]
        raise InputError(f"Label {stranger!r} in {where} is none of the known classes.")
    return codes


def refuse_made_up(column: Column, filled: int, classes: NDArray | None = None) -> None:
    """Refuse label chunks that are not stored, unless their fill value is also the label of stored rows.

    Zarr omits chunks that hold only the fill value. ``filled`` counts all rows with that label; the fill value may also
    be one of ``classes``.
    """
    missing = column.missing
    if missing is None or filled > missing.n_rows:
        return
    if classes is None or not np.any(classes == missing.fill):
        raise InputError(
            f"{_lacking(column, missing)}, and their fill value {missing.fill!s} is not the label of any other row. "
            "Restore the missing chunks."
        )


def notes_on_missing(column: Column | None, what: str = "class") -> list[str]:
    """Return a note on rows of which chunks of a column are not stored, if any; the values name a ``what``."""
    if column is None or column.missing is None:
        return []
    text = (
        f"{_lacking(column, column.missing)}: they are read as {what} {column.missing.fill!s}, the fill value. Zarr "
        "leaves out chunks that hold only this value; restore the chunks if they were lost. {refuse} refuses such "
        "labels."
    )
    return [render([Fault(text, {"refuse": Setting("missing_chunks", "refuse")})])]


def _lacking(column: Column, missing: MissingChunks) -> str:
    *others, last = [f"{start} to {stop - 1}" for start, stop in missing.stretches]
    rows = ", ".join([*others, last if len(others) + 1 < MAX_STRETCHES else "..."])
    return f"{column.place} lacks label chunks of {missing.n_rows} rows of {column.name!r} (rows {rows})"
