"""Types of stored columns: what is a number, which type a column is read in, which one holds those of two files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from mmpca_dist.tables.levels import is_text

VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types without most of Arrow's functions, and types with them."""


def is_number(kind: pa.DataType) -> bool:
    """Tell whether a type of columns is that of numbers; decimals are read as doubles."""
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type of columns is that of lists."""
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column is read in: of categories that are no text, runs and UUIDs that of the values."""
    if types.is_dictionary(kind):
        values = plain(kind.value_type)
        return pa.dictionary(kind.index_type, values) if is_text(values) else values
    if types.is_run_end_encoded(kind):
        return plain(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name.startswith("arrow."):
        return plain(kind.storage_type)
    return VIEWS.get(kind, kind)


def unified(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return a type that holds the values of two plain types, or None where there is none."""
    if types.is_dictionary(left) != types.is_dictionary(right):
        left, right = (kind.value_type if types.is_dictionary(kind) else kind for kind in (left, right))
    if is_number(left) and is_number(right) and types.is_decimal(left) != types.is_decimal(right):
        return pa.float64()
    if pa.null() not in (left, right):
        if types.is_date(left) != types.is_date(right):
            left, right = (pa.timestamp("s") if types.is_date(kind) else kind for kind in (left, right))
        if types.is_binary(left) != types.is_binary(right):
            return None
    schemas = [pa.schema([("", kind)]) for kind in (left, right)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").types[0]
    except pa.ArrowException:
        return None


def conformed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column in a type, as it is where it has that; an ``ArrowInvalid`` says that a value would change."""
    return column if column.type == kind else pa.chunked_array([_conformed(one, kind) for one in column.chunks], kind)


def _conformed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        return _conformed(values.storage, kind)
    if types.is_run_end_encoded(values.type):
        return _conformed(pc.run_end_decode(values), kind)
    if types.is_null(values.type):
        return pa.nulls(len(values), kind)
    if types.is_dictionary(values.type):
        levels = _conformed(values.dictionary, kind.value_type if types.is_dictionary(kind) else kind)
        values = pa.DictionaryArray.from_arrays(values.indices, levels)
        return values.cast(kind) if types.is_dictionary(kind) else values.dictionary_decode()
    return values.cast(kind)


def numpy_type(kind: pa.DataType) -> np.dtype:
    """Return the type of an array that holds numbers of a column."""
    kind = pa.uint8() if types.is_boolean(kind) else pa.float64() if types.is_decimal(kind) else kind
    return np.dtype(kind.to_pandas_dtype())


def column_numbers(values: pa.Array) -> NDArray:
    """Return numbers; NaN where there is none."""
    if types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if values.null_count and types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    return values.to_numpy(zero_copy_only=False)


def column_values(chunk: pa.Array) -> NDArray:
    """Return values of a column; the text of a category is stored once, and not copied."""
    if types.is_decimal(chunk.type):  # identifiers of 64 bits are no doubles
        chunk = chunk.cast(pa.float64() if chunk.type.scale else pa.int64())
    if chunk.null_count and (types.is_integer(chunk.type) or types.is_boolean(chunk.type)):
        chunk = chunk.fill_null(pa.scalar(0).cast(chunk.type))
    if not types.is_dictionary(chunk.type):
        return chunk.to_numpy(zero_copy_only=False)
    levels, codes = chunk.dictionary.to_numpy(zero_copy_only=False), chunk.indices.fill_null(0)
    return levels[codes.to_numpy(zero_copy_only=False)] if len(levels) else np.full(len(chunk), None, object)
