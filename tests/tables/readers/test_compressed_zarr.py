"""Compressed Zarr, decoded by zarrs where it is installed, gives the bits of Zarr; damage is named with its place."""

from __future__ import annotations

import numcodecs
import numpy as np
import pytest
import zarr
from helpers.table_files import COLUMNS, ROWS, X, store
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from mmpca_dist import open_dataset
from mmpca_dist.errors import AccessError
from mmpca_dist.passes.units import read_unit
from mmpca_dist.tables.readers import zarr_dense

CODECS = {"zstd": ZstdCodec(), "blosc": BloscCodec(), "gzip": GzipCodec(), "zarr 2": numcodecs.Zstd()}


@pytest.fixture(params=[True, False], ids=["zarrs", "zarr"])
def with_zarrs(request, monkeypatch):
    if request.param:
        pytest.importorskip("zarrs")
    else:
        monkeypatch.setattr(zarr_dense, "_decode_with_zarrs", lambda array: None)
    return request.param


@pytest.mark.parametrize("name", CODECS)
def test_rows_and_damage(name, with_zarrs, tmp_path):
    store(tmp_path / "a.zarr", 2 if name == "zarr 2" else 3, compressors=CODECS[name])
    found = open_dataset(tmp_path / "a.zarr")
    assert np.array_equal(found.read_rows(0, ROWS), X)
    assert np.array_equal(found.read_rows(3, ROWS - 2), X[3 : ROWS - 2])
    chunks = [path for path in (tmp_path / "a.zarr/X").rglob("*") if path.is_file() and path.name[0] in "0123456789"]
    for path in chunks:
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(AccessError, match=r"chunk 0 \(rows 0 to \d+\) of .*a\.zarr/X"):
        read_unit(open_dataset(tmp_path / "a.zarr"), 0, ROWS)


def test_shards(with_zarrs, tmp_path):
    group = zarr.open_group(store(tmp_path / "a.zarr"), mode="a")
    group.create_array("X", data=X, chunks=(5, COLUMNS), shards=(10, COLUMNS), compressors=ZstdCodec(), overwrite=True)
    assert np.array_equal(open_dataset(tmp_path / "a.zarr").read_rows(2, ROWS), X[2:])
