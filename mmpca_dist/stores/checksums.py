"""Checksums of whole objects and of JSON; Zarr's chunks have their own."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

CHECKSUM = "checksum"
"""The key under which a JSON object holds the checksum of all its other keys."""
DIGITS = 16
PIECE = 1 << 17
"""Values that are copied at a time for their checksum."""


def checksum(data: bytes) -> str:
    """Return the CRC-32C of an object, as text."""
    return f"{google_crc32c.value(bytes(data)):08x}"


def extended(crc: int, values: NDArray) -> int:
    """Extend a CRC-32C by the values of an array, in C order and little-endian."""
    flat = np.ascontiguousarray(values).reshape(-1)
    for start in range(0, flat.size, PIECE):
        piece = flat[start : start + PIECE]
        crc = google_crc32c.extend(crc, piece.astype(piece.dtype.newbyteorder("<"), copy=False).tobytes())
    return crc


def to_json(value: dict[str, Any]) -> bytes:
    """Return the contents of a JSON file, a checksum among them."""
    plain = json.loads(json.dumps(value))  # as it will be read: tuples are lists then, and keys text
    return (json.dumps({**plain, CHECKSUM: _digest(plain)}, indent=1, sort_keys=True) + "\n").encode()


def from_json(data: bytes) -> dict[str, Any]:
    """Read what ``to_json`` wrote; raise ValueError for what is no JSON object, or does not match its checksum."""
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    if CHECKSUM not in value:
        raise ValueError("it has no checksum, and may be written by another program")
    if value.pop(CHECKSUM) != _digest(value):
        raise ValueError("its checksum does not match")
    return value


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:DIGITS]
