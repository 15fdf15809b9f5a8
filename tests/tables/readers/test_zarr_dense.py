"""Reading past Zarr: what metadata say for certain, shards that ingest writes, and damage with its place."""

import copy
from types import SimpleNamespace

import numcodecs
import numpy as np
import pytest
import zarr
from helpers.ingested import ingest
from helpers.tables import COLUMNS, ROWS, X, write_small
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, ZstdCodec

from mmpca_dist import open_dataset
from mmpca_dist.errors import AccessError
from mmpca_dist.passes.units import read_batch
from mmpca_dist.tables.readers import zarr_groups
from mmpca_dist.tables.readers.plain_chunks import PlainChunks


@pytest.fixture
def array(tmp_path):
    X = np.arange(60, dtype=np.float32).reshape(20, 3)
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("X", data=X, chunks=(5, 3), shards=(10, 3), compressors=[Crc32cCodec()])
    group.create_array("y", data=np.arange(20) % 2)
    return zarr.open_group(tmp_path / "a.zarr", mode="r")["X"]


def with_metadata(array, document, key="c/0/0"):
    metadata = SimpleNamespace(to_dict=lambda: document, encode_chunk_key=lambda _: key)
    return SimpleNamespace(metadata=metadata, dtype=array.dtype, shape=array.shape)


def changed(document, *path, value):
    document = copy.deepcopy(document)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


SHARDING = ("codecs", 0, "configuration")
CHANGES = {
    "an unknown codec": ((*SHARDING, "codecs"), ({"name": "bytes", "configuration": {}}, {"name": "xor"})),
    "a codec with an unknown byte order": ((*SHARDING, "codecs", 0, "configuration", "endian"), "middle"),
    "a byte order that is no text": ((*SHARDING, "codecs", 0, "configuration", "endian"), 1),
    "a codec without a name": ((*SHARDING, "codecs"), ({"kind": "bytes"},)),
    "no codecs": (("codecs",), ()),
    "codecs of another kind": (("codecs",), 7),
    "an unknown grid": (("chunk_grid", "name"), "rectilinear"),
    "chunks of several sizes": ((*SHARDING, "chunk_shape"), ([5, 5], [3])),
    "chunks that do not fill a shard": ((*SHARDING, "chunk_shape"), (4, 3)),
    "no rows in a chunk": ((*SHARDING, "chunk_shape"), (0, 3)),
    "an index elsewhere": ((*SHARDING, "index_location"), "start"),
    "a storage transformer": (("storage_transformers",), ({"name": "offset"},)),
    "an unknown key": (("compaction",), {"kind": "x"}),
    "an unknown format": (("zarr_format",), 4),
}


def test_the_metadata_as_it_is_is_read_directly(array, tmp_path):
    """Guards the tests below, and works with every version of Zarr that is allowed."""
    document = array.metadata.to_dict()
    assert PlainChunks.of(with_metadata(array, document), tmp_path / "a.zarr" / "X") is not None
    out = np.empty((20, 3), np.float32)
    PlainChunks.of(array, tmp_path / "a.zarr" / "X").read(0, 20, out)
    np.testing.assert_array_equal(out, array[...])


def test_what_is_not_known_for_certain_goes_through_zarr(array, tmp_path):
    for path, value in CHANGES.values():
        document = changed(array.metadata.to_dict(), *path, value=value)
        assert PlainChunks.of(with_metadata(array, document), tmp_path / "a.zarr" / "X") is None, path
    assert PlainChunks.of(with_metadata(array, array.metadata.to_dict(), key=None), tmp_path) is None


def test_metadata_that_a_later_zarr_does_not_give_goes_through_zarr(array, tmp_path, monkeypatch):
    """A data set is read as before, only more slowly."""
    expected = np.asarray(array[...])

    def gone(_):
        raise AttributeError("to_dict")

    monkeypatch.setattr(type(array.metadata), "to_dict", gone)
    np.testing.assert_array_equal(open_dataset(tmp_path / "a.zarr").read_rows(0, 20), expected)


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
    direct.read(0, 80, out)
    np.testing.assert_array_equal(out, array[...])  # what is not stored is read by Zarr


@pytest.mark.parametrize("codecs", [{}, {"compressors": [Crc32cCodec()]}])
def test_blocks_of_any_size_are_the_rows(tmp_path, table, codecs):
    """They cross chunks and files, and a checksum is compared whatever stretch of its chunk is asked for."""
    X, _ = table
    direct = PlainChunks.of(sharded(tmp_path / "a", X, **codecs), tmp_path / "a")
    for start, stop, size in [(0, 257, 7), (0, 257, 300), (13, 14, 5), (5, 255, 10), (39, 121, 41)]:
        blocks = [block.copy() for block in direct.blocks(start, stop, np.empty((size, 4), np.float32))]
        assert [len(block) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
        np.testing.assert_array_equal(np.concatenate(blocks), X[start:stop])
    victim = tmp_path / "a" / "c" / "0" / "0"
    content = bytearray(victim.read_bytes())
    content[3] ^= 1  # the first row of the file
    victim.write_bytes(content)
    if codecs:
        with pytest.raises(ValueError, match="its checksum does not match"):
            list(direct.blocks(5, 8, np.empty((2, 4), np.float32)))
    assert len(list(direct.blocks(40, 60, np.empty((7, 4), np.float32)))) == 3  # of another file


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


CODECS = {"zstd": ZstdCodec(), "blosc": BloscCodec(), "gzip": GzipCodec(), "zarr 2": numcodecs.Zstd()}


@pytest.mark.parametrize("name", CODECS)
def test_rows_and_damage(name, tmp_path):
    write_small(tmp_path / "a.zarr", 2 if name == "zarr 2" else 3, compressors=CODECS[name])
    found = open_dataset(tmp_path / "a.zarr")
    assert np.array_equal(found.read_rows(0, ROWS), X)
    assert np.array_equal(found.read_rows(3, ROWS - 2), X[3 : ROWS - 2])
    chunks = [path for path in (tmp_path / "a.zarr/X").rglob("*") if path.is_file() and path.name[0] in "0123456789"]
    for path in chunks:
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(AccessError, match=r"chunk 0 \(rows 0 to \d+\) of .*a\.zarr/X"):
        read_batch(open_dataset(tmp_path / "a.zarr"), 0, ROWS)


def test_shards(tmp_path):
    group = zarr.open_group(write_small(tmp_path / "a.zarr"), mode="a")
    group.create_array("X", data=X, chunks=(5, COLUMNS), shards=(10, COLUMNS), compressors=ZstdCodec(), overwrite=True)
    assert np.array_equal(open_dataset(tmp_path / "a.zarr").read_rows(2, ROWS), X[2:])


def test_a_large_chunk_of_labels_is_decoded_once(tmp_path, monkeypatch):
    group, labels, read, asked = zarr.open_group(tmp_path / "a.zarr"), np.arange(450) % 7, zarr_groups.pixels_of, []
    group.create_array("X", data=np.ones((450, 2)))
    group.create_array("y", data=labels, chunks=(200,))
    monkeypatch.setattr(zarr_groups, "pixels_of", lambda *which: asked.append(which[1:]) or read(*which))
    dataset = open_dataset(tmp_path / "a.zarr")
    for start in range(0, 450, 20):
        found = dataset.read_labels(start, min(start + 20, 450))
        assert np.array_equal(found, labels[start : start + 20])
        found[:] = -1  # what is returned is the caller's own
    assert asked == [(0, 200), (200, 400), (400, 450)]
    assert np.array_equal(dataset.read_labels(150, 250), labels[150:250]) and asked[-1] == (150, 250)
