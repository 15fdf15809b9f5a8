"""Zarr groups of rows and labels, in both versions of the format."""

from __future__ import annotations

import zarr

N, D = 103, 4


def write_zarr(path, X, y, *, v2=False, chunks=(20, D), labels_in=30, **options):
    """Write a group with arrays X and y."""
    group = zarr.open_group(str(path), mode="w", zarr_format=2 if v2 else 3)
    rows = group.create_array("X", shape=X.shape, dtype=X.dtype, chunks=chunks, **options)
    rows[...] = X
    labels = group.create_array("y", shape=y.shape, dtype=y.dtype, chunks=(labels_in,))
    labels[...] = y
    return str(path)
