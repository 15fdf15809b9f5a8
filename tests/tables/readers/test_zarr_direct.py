"""Reading past Zarr: only what the metadata says for certain, whatever a later version of Zarr makes of it."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec

from mmpca_dist.tables.readers.formats import open_dataset
from mmpca_dist.tables.readers.zarr_dense import PlainChunks


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
    assert PlainChunks.of(array, tmp_path / "a.zarr" / "X").read(0, 20, out)
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
