"""Blocks are skipped work: what a pass finds is the same, to the last bit, as where units are read at once."""

from __future__ import annotations

import threading

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from zarr.codecs import Crc32cCodec

from mmpca_dist import MarginPCA, class_moments, open_dataset
from mmpca_dist.errors import AccessError, InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.units import BLOCK_BYTES, block_rows, read_batches, rows_of_classes, rows_within
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.outer_products import class_blocks
from mmpca_dist.statistics.scatter_operator import panel_rows
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import Span

N, D = 5000, 7


def stored(path, X, y, **options):
    """Write rows in plain chunks of 700, four of them a file."""
    group = zarr.open_group(path, mode="w")
    options = {"chunks": (700, D), "shards": (2800, D), "compressors": None, **options}
    group.create_array("X", data=X, config={"write_empty_chunks": True}, **options)
    group.create_array("y", data=y, config={"write_empty_chunks": True})
    return open_dataset(path)


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    return (rng.standard_normal((N, D)) * 30 + 60), rng.integers(4, size=N)


def test_rows_of_a_block_follow_from_what_a_row_takes(limits):
    """Bits of sums depend on them."""
    assert [block_rows(width) for width in (0, 1, 64, 65, 1000, 2047, 10**6)] == [2048, 2048, 2048, 2016, 131, 64, 64]
    assert block_rows(10**6, 16) == 16 and block_rows(8192, 16) == BLOCK_BYTES // 8 // 8192
    assert [rows_of_classes(3, d) for d in (1, 256, 400, 512, 5000)] == [3072, 3072, 4800, 6144, 6144]
    assert rows_of_classes(1, 1) == 2048
    assert [rows_within(100, n) for n in (1, 33, 200)] == [100, 3, 1]
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    limits.centred_bytes = 4 << 20
    assert [panel_rows(d, single, single) for d in (10, 1000, 10**6)] == [2048, 1048, 64]
    assert panel_rows(1000, single, double) == 349
    for weights, size in ((None, 409), (np.ones((1, 3000)), 2048)):
        cut = class_blocks(np.arange(3000), ClassMoments.empty(np.arange(3000), 5, weights))
        assert len(next(cut)) == size


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u1", "i2", "bool"])
@pytest.mark.parametrize("pooled", [False, True])
def test_a_pass_by_blocks_finds_the_same_bits(tmp_path, table, dtype, pooled, monkeypatch):
    X, y = table
    if pooled:
        monkeypatch.setattr(LIMITS, "pooled_bytes", 1)
    dataset = stored(tmp_path / "a.zarr", X.astype(dtype), y)
    assert dataset.by_blocks
    found = class_moments(dataset)
    monkeypatch.setattr(Dataset, "by_blocks", False)
    expected = class_moments(dataset)
    for name in ("counts", "means", "scatters"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_blocks_are_the_rows_of_their_unit_with_their_roles(tmp_path, table):
    X, y = table
    dataset = stored(tmp_path / "a.zarr", X, y, compressors=[Crc32cCodec()])
    (batch,) = read_batches(dataset, Span(0, (100, N)), by_blocks=True)
    assert batch.X is None
    blocks = [(block.start, block.X.copy(), block.label) for block in batch.blocks(999)]
    assert [start for start, _, _ in blocks] == list(range(100, N, 999))
    np.testing.assert_array_equal(np.concatenate([rows for _, rows, _ in blocks]), X[100:])
    np.testing.assert_array_equal(np.concatenate([labels for _, _, labels in blocks]), y[100:])
    (whole,) = read_batches(dataset, Span(0, (100, N)))
    for block in whole.blocks(10_000):
        np.testing.assert_array_equal(block.X, X[100:])


def test_what_is_wrong_in_a_block_is_named_as_in_a_unit(tmp_path, table):
    X, y = table
    dataset = stored(tmp_path / "a.zarr", X, y, compressors=[Crc32cCodec()])
    X[3333, 5] = np.inf
    with pytest.raises(InputError, match="Found inf in row 3333, column 5"):
        class_moments(stored(tmp_path / "b.zarr", X, y, compressors=[Crc32cCodec()]))
    victim = tmp_path / "a.zarr" / "X" / "c" / "1" / "0"
    content = bytearray(victim.read_bytes())
    content[-400] ^= 1  # in the last chunk of the table
    victim.write_bytes(content)
    with pytest.raises(AccessError, match=r"Cannot read chunk \d+ \(rows \d+ to 4999\).*checksum"):
        class_moments(dataset)


def test_blocks_of_columns_cross_row_groups_and_files(tmp_path, table):
    X, y = table
    names = [f"x{j}" for j in range(D)]
    for part, some in enumerate((slice(1234), slice(1234, N))):
        pq.write_table(pa.table([*X[some].T, y[some]], [*names, "y"]), tmp_path / f"{part}.parquet", row_group_size=500)
    dataset = open_dataset(tmp_path, label="y")
    assert dataset.by_blocks
    for start, stop, size in [(0, N, 2048), (100, 600, 77), (1200, 1300, 1000)]:
        blocks = [block.copy() for block in dataset.blocks(start, stop, np.empty((size, D)))]
        assert [len(block) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
        np.testing.assert_array_equal(np.concatenate(blocks), X[start:stop])


def test_the_next_unit_of_a_bucket_is_read_while_one_is_worked_on(table, monkeypatch):
    """Whoever takes a unit sees the next one begin, and never the one after that; an error comes in its place."""
    X, y = table
    for name, array in (("X", X), ("y", y)):
        with fsspec.open(f"memory://ahead/{name}.npy", "wb") as file:
            np.save(file, array)
    dataset = open_dataset("memory://ahead/X.npy", label="memory://ahead/y.npy")
    begun, read = [threading.Event() for _ in range(6)], Dataset.batch

    def batch(self, start, stop, **options):
        begun[start // 1000].set()
        if start == 4000 and options.get("X", True):
            raise ValueError("gone")
        return read(self, start, stop, **options)

    monkeypatch.setattr(Dataset, "batch", batch)
    assert dataset.reads_ahead and not rows_in_memory(X, y).reads_ahead
    units = read_batches(dataset, Span(0, tuple(range(0, N + 1, 1000))), ())
    for number in range(4):
        unit = next(units)
        assert begun[number + 1].wait(10) and not begun[number + 2].is_set()
        np.testing.assert_array_equal(unit.X, X[1000 * number : 1000 * (number + 1)])
    with pytest.raises(AccessError, match="gone"):
        next(units)


@pytest.mark.parametrize("form", ["zarr", "npy", "parquet"])
def test_medians_are_those_of_rows_in_memory(tmp_path, table, form):
    """Readers that serve blocks, and rows of whole numbers, which lie on the ends of brackets."""
    X, y = np.round(table[0]), table[1]
    if form == "zarr":
        dataset = stored(tmp_path / "a.zarr", X, y)
    elif form == "npy":
        np.save(tmp_path / "X.npy", X)
        np.save(tmp_path / "y.npy", y)
        dataset = open_dataset(tmp_path / "X.npy", label=str(tmp_path / "y.npy"))
    else:
        pq.write_table(pa.table([*X.T, y], [*(f"x{j}" for j in range(D)), "y"]), tmp_path / "a.parquet")
        dataset = open_dataset(tmp_path / "a.parquet", label="y")
    assert dataset.by_blocks
    model, expected = MarginPCA(2, "m-pca1b").fit(dataset), MarginPCA(2, "m-pca1b").fit(X, y)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-6)
