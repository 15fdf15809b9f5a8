"""Members of Zarr groups that others wrote: damaged metadata, and chunks that do not fit into memory, are refused."""

from __future__ import annotations

import math
from typing import Any

import numcodecs
import zarr
import zarr.codecs.blosc
from numcodecs.compat import ensure_contiguous_ndarray

from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import refuse_larger

SHARD_ENTRY_BYTES = 16


class WholeBlosc(numcodecs.Blosc):
    """Blosc that refuses a chunk which is cut short: numcodecs reads on beyond its end, and returns what is there."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        data = ensure_contiguous_ndarray(buf).view("u1")
        if int.from_bytes(data[12:16].tobytes(), "little") > len(data):
            raise ValueError("it ends early")
        return super().decode(buf, out)


numcodecs.register_codec(WholeBlosc)  # of Zarr 2
zarr.codecs.blosc.Blosc = WholeBlosc  # of Zarr 3


def member(group: zarr.Group, name: str, uri: str) -> zarr.Array | zarr.Group | None:
    """Return the member ``name`` of a group.

    Refuses damaged metadata, chunks that are declared larger than the memory, and the codec that runs code.
    """
    if "\0" in name:
        raise InputError(f"{name!r} is no name of an array of {uri}: it holds the character NUL.")
    try:
        with storage.explained(f"{uri}/{name}"):
            item = group.get(name)
    except MmpcaError:
        raise
    except Exception as error:  # Zarr raises many types for damaged metadata
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InputError(
            f"Cannot read {uri}/{name}: its Zarr metadata are damaged, or of a kind that is not known ({reason[:200]})."
        ) from error
    if isinstance(item, zarr.Array):
        _check(item, f"{uri}/{name}")
    return item


def _check(array: zarr.Array, where: str) -> None:
    n_items = math.prod(array.chunks)
    if array.ndim and not n_items * math.prod(array.shards or (1,)):
        raise InputError(f"The chunks of {where} have shape {array.chunks}, which is empty. Its metadata are damaged.")
    refuse_larger(n_items * array.dtype.itemsize, f"A chunk of {where}", "Store it in smaller chunks")
    if array.shards is not None:
        n_chunks = math.prod(-(-a // b) for a, b in zip(array.shards, array.chunks, strict=True))
        refuse_larger(SHARD_ENTRY_BYTES * n_chunks, f"The index of a shard of {where}", "Store it in smaller shards")
    metadata: Any = array.metadata
    codecs = () if metadata.zarr_format == 3 else (metadata.compressor, *(metadata.filters or ()))
    if any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs):
        raise InputError(
            f"{where} is stored by the codec 'pickle', which runs what is in the data and is never used. Store it as "
            "numbers, or labels as strings."
        )
