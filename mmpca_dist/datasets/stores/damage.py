"""Report damage of this project's own files in one sentence that names the object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.datasets.stores import storage
from mmpca_dist.datasets.stores.zarr_stores import block_of, values_of
from mmpca_dist.errors import DamageError, MmpcaError

DAMAGED = (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError)
"""Reasons why an object that was written cannot be read, other than an address that is out of reach."""


@contextmanager
def reading_own(uri: str, remedy: str = storage.RESTORE) -> Iterator[None]:
    """Turn whatever damaged objects of this project raise into a ``DamageError``; other faults stay what they are.

    Parameters
    ----------
    uri : str
        What is read.
    remedy : str
        A sentence that says what to do about damage.
    """
    try:
        with storage.explained(uri):
            yield
    except DamageError:
        raise
    except MmpcaError as error:
        if isinstance(error.__cause__, DAMAGED):
            raise DamageError(f"{error} {remedy}".rstrip()) from error
        raise
    except Exception as error:  # whatever Zarr, codecs and parsers raise for damaged bytes
        raise DamageError(f"Cannot read {uri}: it is damaged ({_reason(error)}). {remedy}".rstrip()) from error


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    if "checksum" in text.lower():  # which Zarr follows with both of them, as bytes
        return "its checksum does not match"
    return f"it lacks {text}" if isinstance(error, KeyError) else text or type(error).__name__


def chunks_of(array: zarr.Array) -> Iterator[tuple[int, ...]]:
    """Yield the grid positions of the chunks, or shards, of an array."""
    stored = array.shards or array.chunks
    yield from np.ndindex(*(-(-size // chunk) for size, chunk in zip(array.shape, stored, strict=True)))


def refuse_absent_chunks(uri: str, array: zarr.Array, present: dict[str, int], remedy: str = storage.RESTORE) -> None:
    """Refuse an array of this project that lacks a chunk: Zarr would read fill values in its place.

    ``present`` has the sizes of the objects below ``uri``, by name.
    """
    for index in chunks_of(array):
        key = array.metadata.encode_chunk_key(index)
        if key not in present:
            raise DamageError(f"Cannot read {uri}/{key}: it does not exist. {remedy}".rstrip())


def read_chunks(uri: str, array: zarr.Array, remedy: str = storage.RESTORE) -> NDArray:
    """Return an array of this project, which has no shards; a chunk that is damaged is named."""
    try:
        return values_of(array)
    except Exception:  # the same comes again, of the chunk
        for index in chunks_of(array):
            with reading_own(f"{uri}/{array.metadata.encode_chunk_key(index)}", remedy):
                block_of(array, index)
        raise
