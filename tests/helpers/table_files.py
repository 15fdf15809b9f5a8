"""Files of tables: Zarr groups in both versions of the format, some with changed metadata, and `.npy` files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
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


def npy(shape, n_bytes=64, descr="<f8"):
    file = io.BytesIO()
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    file.write(b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n" + bytes(n_bytes))
    return file.getvalue()


ROWS, COLUMNS = 20, 3


X, Y = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)), np.arange(ROWS) % 2


def store(folder, version=3, rows=X, labels=Y, **options):
    group = zarr.open_group(folder, mode="w", zarr_format=version)
    group.create_array("X", data=rows, chunks=(10, COLUMNS), **options)
    group.create_array("y", data=labels, chunks=(ROWS,), **options)
    return Path(folder)


def change(folder, array, **changes):
    path = Path(folder) / array / "zarr.json"
    found = json.loads(path.read_text())
    for key, value in changes.items():
        if key == "chunk":
            found["chunk_grid"]["configuration"]["chunk_shape"] = value
        else:
            found[key] = value
    path.write_text(json.dumps(found))
