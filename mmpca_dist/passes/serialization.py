"""Serialise nested dataclasses, tuples and arrays to ``.npz`` bytes, without pickle."""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.tables.readers.npy import read_again

T = TypeVar("T")
PACKAGE = __name__.partition(".")[0]
_SHAPE = "as-json"
"""Name, unlike that of any field, of the array that holds how everything fits together."""

_storable: dict[str, type] = {}


def storable(cls: type[T]) -> type[T]:
    """Let the instances of a dataclass be stored by `encode`, field by field."""
    _storable[f"{cls.__module__}:{cls.__qualname__}"] = cls
    return cls


def flattened(value: Any) -> dict[str, NDArray]:
    """Return a value as arrays of numbers, named by their fields, for `rebuilt`.

    Raises TypeError for what is neither an array, a plain value, a tuple, list or dictionary of these, nor a dataclass
    that is `storable`.
    """
    arrays: dict[str, NDArray] = {}
    shape = json.dumps(_described(value, arrays)).encode()
    return {_SHAPE: np.frombuffer(shape, np.uint8), **arrays}


def rebuilt(arrays: Mapping[str, NDArray]) -> Any:
    """Return the value that was flattened, of arrays that may be of a wider type."""
    return _built(json.loads(arrays[_SHAPE].astype(np.uint8).tobytes()), arrays)


def encode(value: Any) -> bytes:
    """Return a value as bytes with checksums, for `decode`; raise TypeError as `flattened`."""
    file = io.BytesIO()
    np.savez(file, **flattened(value))  # type: ignore[arg-type]
    # No view of the buffer: Python before 3.12.4 crashes where the garbage collector meets one in a cycle.
    return file.getvalue()


def decode(data: bytes) -> Any:
    """Return the value that was encoded, to the last bit; only strides of arrays may differ.

    Raises ValueError for bytes that are damaged or something else.
    """
    try:
        return _decoded(data)
    except Exception as error:  # whatever archives, arrays and JSON raise for damaged bytes
        raise ValueError("damaged bytes, or no result of a pass") from error


@read_again
def _decoded(data: bytes) -> Any:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return rebuilt(file)


def size_of(value: Any) -> int:
    """Return the bytes of all arrays within a value."""
    return sum(array.nbytes for array in _arrays_of(value))


def is_contiguous(value: Any) -> bool:
    """Tell whether all arrays within a value have strides that `decode` preserves."""
    return all(array.flags.forc for array in _arrays_of(value))


def _arrays_of(value: Any) -> Collection[NDArray]:
    arrays: dict[str, NDArray] = {}
    _described(value, arrays)
    return arrays.values()


def _described(value: Any, arrays: dict[str, NDArray], name: str = "") -> Any:
    def inner(part: Any, item: Any) -> Any:
        return _described(item, arrays, f"{name}.{part}" if name else str(part))

    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biufU":
            raise TypeError(f"An array of type {array.dtype} cannot be stored.")
        name = name or "0"
        arrays[name] = array.copy()[..., None].view(np.uint32) if _in_parts(array.dtype) else array
        return {"array" if isinstance(value, np.ndarray) else "number": name, "dtype": array.dtype.str}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [inner(*item) for item in enumerate(value)]}
    if isinstance(value, dict):
        names = [key if isinstance(key, str) and key.isidentifier() else number for number, key in enumerate(value)]
        pairs = zip(names, value.items(), strict=True)
        return {"dict": [[inner(f"key {name}", key), inner(name, item)] for name, (key, item) in pairs]}
    kind = f"{type(value).__module__}:{type(value).__qualname__}"
    if kind not in _storable:
        raise TypeError(f"{type(value).__qualname__} cannot be stored; see 'storable'.")
    fields = {field.name: inner(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)}
    return {"class": kind, "fields": fields}


def _built(shape: Any, arrays: Mapping[str, NDArray]) -> Any:
    if not isinstance(shape, dict):
        return shape
    if "array" in shape:
        return _array(arrays[shape["array"]], np.dtype(shape["dtype"]))
    if "number" in shape:
        return _array(arrays[shape["number"]], np.dtype(shape["dtype"]))[()]
    if "float" in shape:
        return float.fromhex(shape["float"])
    if "tuple" in shape:
        return tuple(_built(item, arrays) for item in shape["tuple"])
    if "list" in shape:
        return [_built(item, arrays) for item in shape["list"]]
    if "dict" in shape:
        return {_built(key, arrays): _built(item, arrays) for key, item in shape["dict"]}
    fields = {name: _built(item, arrays) for name, item in shape["fields"].items()}
    return _class_of(shape["class"])(**fields)


def _array(stored: NDArray, dtype: np.dtype) -> NDArray:
    """Return an array in the type that it had; code points become text again."""
    return stored.astype(np.uint32).view(dtype)[..., 0] if _in_parts(dtype) else stored.astype(dtype, copy=False)


def _in_parts(dtype: np.dtype) -> bool:
    """Tell whether entries are stored as 32-bit numbers: text, and whole numbers that a double may not hold."""
    return dtype.kind == "U" or (dtype.kind in "iu" and dtype.itemsize > 4)


def _class_of(name: str) -> type:
    """Return a storable class; its module may not be loaded in this process yet."""
    module = name.partition(":")[0]
    if name not in _storable and module.partition(".")[0] == PACKAGE:
        importlib.import_module(module)
    return _storable[name]
