"""Arrays as users give them: masks become gaps, and blocks of Dask arrays are of the type that these declare."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist import dask_arrays as da
from mmpca_dist.errors import InputError, instead_of


def is_from(value: Any, library: str) -> bool:
    """Tell whether an object's class, or one of its bases, is of a library."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(value).__mro__)


def plain(values: Any, name: str) -> Any:
    """Return an array, or a Dask collection, as a plain array or Dask array: without mask, no matrix, none of Arrow.

    All else stays as it is. Raises InputError for a mask, but for that of rows X, which becomes NaN. Blocks that do not
    hold what a Dask array declares are refused as they are computed; labels may be wider than it declares.
    """
    if isinstance(values, list | tuple) and any(isinstance(value, np.ma.MaskedArray) for value in values):
        values = np.ma.array(values)
    if isinstance(values, np.ma.MaskedArray):
        return _without_mask(values, name)
    if isinstance(values, np.matrix):
        return np.asarray(values)
    if is_from(values, "pyarrow") and hasattr(values, "to_pandas"):
        return values.to_pandas()
    is_future = is_from(values, "distributed")
    if is_future or (is_from(values, "dask") and not isinstance(getattr(values, "ndim", None), int)):
        how = f"{name}.{'result' if is_future else 'compute'}()"
        raise InputError(f"{name} is a {type(values).__name__} of Dask, whose shape is not known: pass {how}.")
    if name != "X" and is_from(values, "dask") and hasattr(values, "to_dask_array"):
        values = values.to_dask_array()
    is_lazy = is_from(values, "dask") and isinstance(values, da.Array)
    return _with_checked_blocks(values, name) if is_lazy else values


def _without_mask(values: Any, name: str, where: str = "") -> NDArray:
    array, mask = np.asarray(np.ma.getdata(values)), np.ma.getmaskarray(values)
    if not mask.any():
        return array
    if name != "X":
        row = int(np.argwhere(mask)[0, 0])
        raise InputError(
            f"{name} is masked in row {row}{where}, and so has no value there. Leave such rows out, or give them a "
            f"value: {name}.filled(value)."
        )
    kind = array.dtype.kind
    gap = np.asarray(np.nan, array.dtype if kind in "fc" else np.float64 if kind in "iub" else object)
    return np.where(mask, gap, array)


def _with_checked_blocks(array: da.Array, name: str) -> da.Array:
    if not array.ndim:
        raise InputError(f"{name} is a Dask array of shape (); there must be values of rows.")
    is_masked = isinstance(array._meta, np.ma.MaskedArray)
    if array.name.startswith(("from-zarr-", f"{_as_declared.__name__}-")):  # it declares what is stored, or is checked
        return array
    wide = array.dtype.kind == "O" or (is_masked and array.dtype.kind in "iub")
    dtype = np.dtype(np.float64) if wide and name == "X" else array.dtype
    if name == "y" and dtype.kind in "iUSOT":  # any width
        dtype = np.dtype(np.int64 if dtype.kind == "i" else object)
    meta = array._meta if issparse(array._meta) else np.empty((0,) * array.ndim, dtype)
    width = array.shape[1:] if set(array.numblocks[1:]) <= {1} else None
    return da.map_blocks(_as_declared, array, dtype=dtype, meta=meta, declared=dtype, width=width, name_of_array=name)


def _as_declared(block: Any, declared: np.dtype, width: tuple[int, ...] | None, name_of_array: str) -> Any:
    """Return a block in the type that is declared; raise InputError where that would change a value."""
    if not issparse(block):
        masked = isinstance(block, np.ma.MaskedArray)
        block = _without_mask(block, name_of_array, " of a block") if masked else np.asarray(block)
    if width is not None and block.shape[1:] != width and not np.isnan(width).any():
        shape = ", ".join(["n", *map(str, width)])
        raise InputError(f"{name_of_array} declares blocks of shape ({shape}), and one has the shape {block.shape}.")
    if block.dtype == declared:
        return block
    if declared.kind == "O":
        return block.astype(object)
    if block.dtype.kind == "O" and all(isinstance(each, Number | None) for each in block.flat):
        block = block.astype(np.float64)
    held = block.data if issparse(block) else block
    example = held.reshape(-1)[:1]
    if held.dtype.kind in "fiub":
        with np.errstate(invalid="ignore", over="ignore"):
            same = (held.astype(declared) == held) | (held != held if declared.kind == "f" else False)
        if np.all(same):
            return block.astype(declared)
        example = held[~same]
    is_number = held.dtype.kind in "fiub"
    remedy = f"Declare what it holds: {name_of_array}.astype({block.dtype.name if is_number else 'object'!r})."
    raise InputError(
        f"{name_of_array} is a Dask array that declares {declared}, and a block of it holds {block.dtype}, such as "
        f"{example[0]}. {remedy if is_number or name_of_array == 'y' else 'It must hold numbers.'}"
    )


def with_known_chunks(array: da.Array, name: str) -> da.Array:
    """Return a Dask array whose chunks have known sizes, for which its blocks may be computed."""
    if not np.isnan(array.shape[0]):
        return array
    with instead_of(ValueError, InputError, f"Dask cannot compute the blocks of {name}: {{reason}}."):
        return array.compute_chunk_sizes()
