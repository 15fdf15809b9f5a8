"""Small Zarr groups whose metadata can be changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import zarr

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
