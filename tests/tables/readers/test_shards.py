"""Shards that ingest writes, and reading them past Zarr: the same bytes, and every damage found."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

from mmpca_dist import open_dataset
from mmpca_dist.ingest.job import ingest
from mmpca_dist.tables.readers.zarr_dense import PlainChunks


@pytest.fixture
def table():
    rng = np.random.default_rng(7)
    return rng.standard_normal((257, 4)).astype(np.float32), rng.integers(-1, 3, 257)


def test_shards_are_whole_and_every_chunk_is_there(tmp_path, table):
    X, y = table
    np.savez(tmp_path / "a.npz", X=X, y=y)
    ingest(tmp_path / "a.npz", tmp_path / "a.zarr", chunk_bytes=160)  # 10 rows a chunk, 80 a shard
    rows = zarr.open_group(tmp_path / "a.zarr", mode="r")["X"]
    assert rows.chunks == (10, 4) and rows.shards == (80, 4) and np.isnan(rows.fill_value)
    assert isinstance(rows.metadata.codecs[0].codecs[-1], Crc32cCodec)
    assert len(list((tmp_path / "a.zarr" / "X" / "c").rglob("0"))) >= 4
    ingest(tmp_path / "a.npz", tmp_path / "b.zarr")
    rows = zarr.open_group(tmp_path / "b.zarr", mode="r")["X"]
    assert rows.chunks == (257, 4) and rows.shards is None


def sharded(path, X, **options):
    options = {"chunks": (10, X.shape[1]), "shards": (40, X.shape[1]), "compressors": None} | options
    array = zarr.create_array(path, shape=X.shape, dtype=X.dtype, config={"write_empty_chunks": True}, **options)
    array[...] = X
    return array


def test_shards_that_are_not_plain_are_left_to_zarr(tmp_path, table):
    X, _ = table
    codec = ShardingCodec(chunk_shape=(10, 4), codecs=[BytesCodec()], index_location="start")
    for name, options in {
        "compressed": {"compressors": "auto"},
        "index first": {"shards": None, "chunks": (40, 4), "compressors": None, "serializer": codec},
        "some columns": {"chunks": (10, 2)},
        "bare index": {
            "shards": None,
            "chunks": (40, 4),
            "serializer": ShardingCodec(chunk_shape=(10, 4), codecs=[BytesCodec()], index_codecs=[BytesCodec()]),
        },
    }.items():
        array = sharded(tmp_path / name, X, **options)
        assert PlainChunks.of(array, tmp_path / name) is None, name
    array = sharded(tmp_path / "holes", X)
    array = zarr.create_array(
        tmp_path / "hole", shape=(80, 4), chunks=(10, 4), shards=(40, 4), dtype="f4", compressors=None
    )
    array[:10] = 1  # of the first shard only one chunk is stored, of the second nothing
    direct = PlainChunks.of(array, tmp_path / "hole")
    out = np.empty((80, 4), np.float32)
    assert direct.read(0, 10, out[:10]) and (out[:10] == 1).all()
    assert not direct.read(0, 20, out[:20]) and not direct.read(40, 80, out[:40])


def test_damage_to_a_shard_is_found(tmp_path, table):
    X, y = table
    np.savez(tmp_path / "a.npz", X=X, y=y)
    ingest(tmp_path / "a.npz", tmp_path / "a.zarr", chunk_bytes=160)
    shard = tmp_path / "a.zarr" / "X" / "c" / "1" / "0"
    good = shard.read_bytes()
    for damaged, message in (
        (good[:50] + bytes([good[50] ^ 4]) + good[51:], "checksum does not match"),
        (good[:-30] + bytes([good[-30] ^ 4]) + good[-29:], "checksum of its index"),
        (good[:-200], "checksum of its index"),
        (good[:20], "less than the index"),
    ):
        shard.write_bytes(damaged)
        dataset = open_dataset(tmp_path / "a.zarr")
        with pytest.raises(ValueError, match=message):
            dataset.read_rows(80, 160)
        dataset.read_rows(0, 80)
