"""Serialise nested dataclasses, tuples and arrays to ``.npz`` bytes, without pickle."""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.tables.readers.npy import read_again

T = TypeVar("T")
PACKAGE = __name__.partition(".")[0]
_SHAPE = "shape"
"""Name of the array that holds how everything fits together, as JSON."""

_storable: dict[str, type] = {}


def storable(cls: type[T]) -> type[T]:
    """Let the instances of a dataclass be stored by `encode`, field by field."""
    _storable[f"{cls.__module__}:{cls.__qualname__}"] = cls
    return cls


def encode(value: Any) -> bytes:
    """Return a value as bytes with checksums, for `decode`.

    Raises TypeError for what is neither an array, a plain value, a tuple, list or dictionary of these, nor a dataclass
    that is `storable`.
    """
    arrays: list[NDArray] = []
    shape = _described(value, arrays)
    file = io.BytesIO()
    named = {str(number): array for number, array in enumerate(arrays)}
    np.savez(file, **{_SHAPE: np.frombuffer(json.dumps(shape).encode(), np.uint8)}, **named)  # type: ignore[arg-type]
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
        return _built(json.loads(file[_SHAPE].tobytes()), file)


def size_of(value: Any) -> int:
    """Return the bytes of all arrays within a value."""
    return sum(array.nbytes for array in _arrays_of(value))


def is_contiguous(value: Any) -> bool:
    """Tell whether all arrays within a value have strides that `decode` preserves."""
    return all(array.flags.forc for array in _arrays_of(value))


def _arrays_of(value: Any) -> list[NDArray]:
    arrays: list[NDArray] = []
    _described(value, arrays)
    return arrays


def _described(value: Any, arrays: list[NDArray]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biufUS":
            raise TypeError(f"An array of type {array.dtype} cannot be stored.")
        arrays.append(array)
        return {"array" if isinstance(value, np.ndarray) else "number": len(arrays) - 1}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_described(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_described(item, arrays) for item in pair] for pair in value.items()]}
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    if name not in _storable:
        raise TypeError(f"{type(value).__qualname__} cannot be stored; see 'storable'.")
    fields = {field.name: _described(getattr(value, field.name), arrays) for field in dataclasses.fields(value)}
    return {"class": name, "fields": fields}


def _built(shape: Any, arrays: Any) -> Any:
    if not isinstance(shape, dict):
        return shape
    if "array" in shape:
        return arrays[str(shape["array"])]
    if "number" in shape:
        return arrays[str(shape["number"])][()]
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


def _class_of(name: str) -> type:
    """Return a storable class; its module may not be loaded in this process yet."""
    module = name.partition(":")[0]
    if name not in _storable and module.partition(".")[0] == PACKAGE:
        importlib.import_module(module)
    return _storable[name]
