"""Every kind of data set reads the rows that were written, whatever the range, and tells when they change."""

import itertools
import os
import pickle
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers import each
from helpers.tables import write_npz, write_parquet, write_zarr
from helpers.watching import watched
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, TransposeCodec

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.tables.compose import column_of, open_rows
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.readers.plain_chunks import PlainChunks

N, D = 103, 4
RANGES = [(0, N), (0, 1), (N - 1, N), (5, 41), (20, 40), (39, 62), (3, 4), (41, 57), (19, 60)]


def table(dtype="float32"):
    """Return rows, some of a kind that only the right type holds, and labels."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal((N, D)) * 50 + 60).astype(dtype), rng.integers(3, size=N)


def assert_reads(dataset, X, y, fills=False):
    """Ranges of rows, new ones or in a given array, and labels are those."""
    for start, stop in RANGES:
        np.testing.assert_array_equal(dataset.read_rows(start, stop), X[start:stop])
        out = np.zeros((stop - start, D), X.dtype)
        found = dataset.read_rows(start, stop, out)
        assert np.shares_memory(found, out) or not fills
        np.testing.assert_array_equal(found, X[start:stop])
        np.testing.assert_array_equal(dataset.read_labels(start, stop), y[start:stop])


BIG = BytesCodec(endian="big")
PLAIN = {"compressors": None, "filters": None}
ZARR = {
    # options of the array of rows, and whether its chunks are read without Zarr
    "v3 compressed": ({}, False),
    "v3 blosc": ({"compressors": BloscCodec()}, False),
    "v3 uncompressed": (PLAIN, True),
    "v3 uncompressed, checksums": ({"compressors": [Crc32cCodec()]}, True),
    "v3 big-endian": ({**PLAIN, "serializer": BIG}, False),
    "v3 transposed": ({"compressors": None, "filters": [TransposeCodec(order=(1, 0))]}, False),
    "v3 sharded": ({"shards": (40, D)}, False),
    "v3 sharded, uncompressed": ({**PLAIN, "shards": (40, D)}, True),
    "v3 sharded, uncompressed, checksums": ({"compressors": [Crc32cCodec()], "shards": (40, D)}, True),
    "v3 column chunks": ({**PLAIN, "columns": 3}, False),
    "v3 one chunk": ({**PLAIN, "chunk": N}, True),
    "v2 compressed": ({"v2": True}, False),
    "v2 uncompressed": ({"v2": True, **PLAIN}, True),
    "v2 Fortran order": ({"v2": True, "order": "F", **PLAIN}, False),
    "v2 nested keys": ({"v2": True, "chunk_key_encoding": {"name": "v2", "separator": "/"}, **PLAIN}, True),
}  # fmt: skip


@pytest.mark.parametrize("layout", ZARR)
def test_zarr_of_every_layout(layout, tmp_path):
    """The direct way to uncompressed chunks is skipped work: its bytes are those of Zarr's own reading."""
    options, direct = ZARR[layout]
    for dtype, folder in each(["float32", "float64", "uint8", "int16", "bool"], tmp_path):
        X, y = table(dtype)
        dataset = open_dataset(write_zarr(folder / "a.zarr", X, y, **{"chunk": 20, "labels_in": 30, **options}))
        array = zarr.open_group(str(folder / "a.zarr"), mode="r")["X"]
        plain = PlainChunks.of(array, folder / "a.zarr" / "X")
        if dtype not in ("uint8", "bool") or layout != "v3 big-endian":  # bytes have no order
            assert (plain is not None) is direct, "the layout takes another way than this test is about"
        assert (dataset.n_rows, dataset.n_features, dataset.dtype) == (N, D, np.dtype(dtype))
        np.testing.assert_array_equal(array[...], X)
        assert_reads(dataset, X, y, fills=True)


@pytest.mark.parametrize("layout", [name for name, (_, direct) in ZARR.items() if direct])
def test_the_direct_way_refuses_what_zarr_refuses(layout, tmp_path):
    """A chunk cut short is an error; with checksums a single flipped bit is one too."""
    X, y = table()
    dataset = open_dataset(write_zarr(tmp_path / "a.zarr", X, y, **{"chunk": 20, **ZARR[layout][0]}))
    files = sorted(
        p for p in (tmp_path / "a.zarr" / "X").rglob("*") if p.is_file() and not p.name.startswith((".", "z"))
    )
    for victim in (files[0], files[-1]):
        whole = victim.read_bytes()
        victim.write_bytes(whole[:-9])
        with pytest.raises(Exception, match=r".+"):
            dataset.read_rows(0, N)
        if "checksums" in layout:
            victim.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
            with pytest.raises(Exception, match=r"[Cc]hecksum|crc|CRC"):
                dataset.read_rows(0, N)
        victim.write_bytes(whole)
        np.testing.assert_array_equal(dataset.read_rows(0, N), X)


def test_string_labels_and_other_names_in_zarr(tmp_path):
    X, y = table()
    names = np.asarray(["ant", "bee", "cuckoo"])[y]
    uri = write_zarr(tmp_path / "a.zarr", X, names)
    group = zarr.open_group(uri)
    group.attrs.update(feature_names=["a", "b", "c", "d"], image_shape=[2, 2])
    group.create_array("pixels", data=X + 1)
    group.create_array("digits", data=y)
    dataset, other = open_dataset(uri), open_dataset(uri, features="pixels", label="digits")
    assert dataset.read_labels(3, 50).tolist() == names[3:50].tolist()
    assert (dataset.feature_names, dataset.facts.image_shape) == (["a", "b", "c", "d"], (2, 2))
    np.testing.assert_array_equal(other.read_rows(0, N), X + 1)
    np.testing.assert_array_equal(other.read_labels(0, N), y)


def write_list(path, X, y, size):
    rows = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"rows": rows, "label": y}), path, row_group_size=size)
    return str(path)


@pytest.mark.parametrize("write", [write_parquet, write_list])
def test_parquet_of_columns_or_one_list_column(write, tmp_path):
    for dtype, group_rows in itertools.product(["float32", "float64", "int8", "uint16", "bool"], [17, N]):
        X, y = table(dtype)
        dataset = open_dataset(write(tmp_path / "a.parquet", X, y, size=group_rows))
        assert (dataset.n_rows, dataset.n_features) == (N, D)
        assert dataset.chunk_edges.tolist() == [*range(0, N, group_rows), N]
        assert_reads(dataset, X, y)


def test_parquet_files_of_a_folder_follow_each_other_by_name(tmp_path):
    X, y = table()
    for name, part in (("part-1", slice(40, N)), ("part-0", slice(0, 40))):
        write_parquet(tmp_path / f"{name}.parquet", X[part], y[part], size=16)
    write_parquet(tmp_path / "part-00.parquet", X[:0], y[:0])  # an empty file in between
    dataset = open_dataset(tmp_path)
    assert_reads(dataset, X, y)
    assert dataset.feature_names == ["f0", "f1", "f2", "f3"]


def test_parquet_columns_of_mixed_types_and_dictionary_labels(tmp_path):
    _, y = table()
    names = np.asarray(["ant", "bee", "cuckoo"])[y]
    columns = {"small": np.arange(N, dtype=np.int8), "label": pa.array(names).dictionary_encode(), "x": np.ones(N) / 3}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    dataset = open_dataset(tmp_path / "a.parquet")
    np.testing.assert_array_equal(dataset.read_rows(2, 9), np.column_stack([np.arange(2, 9), np.ones(7) / 3]))
    assert dataset.read_labels(0, N).tolist() == names.tolist()


def test_numpy_files(tmp_path):
    X, y = table()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    np.savez_compressed(tmp_path / "a.npz", X=X, y=y, spare=y[:3])
    mapped = open_dataset(tmp_path / "X.npy", label=str(tmp_path / "y.npy"))
    for dataset in (mapped, open_dataset(tmp_path / "a.npz")):
        assert_reads(dataset, X, y)


@pytest.mark.parametrize("values", [np.arange(3000) / 7, np.arange(3000) % 9, np.asarray(["ant", "bee"] * 1500)])
def test_a_column_that_is_a_file_is_read_by_ranges(values, tmp_path):
    """What is sent to workers holds its address, not its values."""
    np.save(tmp_path / "column.npy", values)
    rows = rows_in_memory(np.broadcast_to(np.zeros(2), (3000, 2)), np.arange(3000) % 2)
    column = column_of(rows.stored, str(tmp_path / "column.npy"), "dataset.weight")
    assert len(pickle.dumps(column)) < 1500
    np.testing.assert_array_equal(column.read(7, 60)[0], values[7:60])
    assert column.read_arrow(2990, 3000).to_pylist() == values[2990:].tolist()


def test_bundled_data_has_names():
    bundle, dataset = load_iris(), open_dataset("bundled:iris")
    np.testing.assert_array_equal(dataset.read_rows(0, 150), bundle.data)
    assert dataset.read_labels(0, 150).tolist() == bundle.target_names[bundle.target].tolist()
    assert dataset.feature_names == bundle.feature_names
    assert open_dataset("bundled:digits").facts.image_shape == (8, 8)


def test_a_bundle_of_some_classes_has_their_rows():
    whole, some = open_dataset("bundled:digits"), open_dataset("bundled:digits?classes=2,0")
    y = whole.read_labels(0, whole.n_rows)
    kept = np.isin(y, [0, 2])
    np.testing.assert_array_equal(some.read_rows(0, some.n_rows), whole.read_rows(0, whole.n_rows)[kept])
    np.testing.assert_array_equal(some.read_labels(0, some.n_rows), y[kept])
    assert (some.facts.image_shape, some.feature_names) == ((8, 8), whole.feature_names)
    assert some.stored.before_noise is whole.stored.before_noise is None
    assert open_dataset("bundled:iris?classes=setosa,virginica").n_rows == 100


def test_noise_of_a_bundle_is_what_it_says_and_belongs_to_rows_not_to_the_choice_of_classes():
    whole, some = (open_dataset(f"bundled:digits?noise=4&seed=3{choice}") for choice in ("", "&classes=1"))
    clean, n = whole.stored.before_noise, whole.n_rows
    assert clean.uri == "bundled:digits"
    noise = whole.read_rows(0, n) - clean.read(0, n)
    # 115,008 draws: standard errors 0.012 of the mean and 0.0083 of the deviation; bounds are six of them.
    assert abs(noise.mean()) < 0.072
    assert noise.std() == pytest.approx(4, abs=0.05)
    y = whole.read_labels(0, n)
    np.testing.assert_array_equal(some.read_rows(0, some.n_rows), whole.read_rows(0, n)[y == 1])
    assert some.stored.before_noise.uri == "bundled:digits?classes=1"
    other = open_dataset("bundled:digits?noise=4&seed=4")
    assert not np.array_equal(other.read_rows(0, 1), whole.read_rows(0, 1))
    assert len({data.fingerprint() for data in (whole.stored, some.stored, clean, other.stored)}) == 4


SYNTHETIC = (
    "gaussian?n=3000&d=3&imbalance=0.3",
    "clusters?n=3000&d=3&k=5&classes=3",
    "clusters?n=3000&d=3&assign=random",
)


@pytest.mark.parametrize("spec", SYNTHETIC)
@given(ends=st.tuples(st.integers(0, 3000), st.integers(0, 3000)))
def test_synthetic_rows_are_the_same_whatever_the_range(spec, ends):
    dataset = open_dataset(f"synthetic:{spec}")
    dataset.stored._chunk_rows = 700  # several chunks, the last a short one
    start, stop = sorted(ends)
    if start == stop:
        return
    X, y = dataset.read_rows(0, 3000), dataset.read_labels(0, 3000)
    np.testing.assert_array_equal(dataset.read_rows(start, stop), X[start:stop])
    np.testing.assert_array_equal(dataset.read_labels(start, stop), y[start:stop])


def test_synthetic_options_do_what_they_say():
    dataset = open_dataset("synthetic:gaussian?n=40000&d=3&imbalance=0.25&distance=3&axis=1&variance=4&spread=9&seed=5")
    X, y = dataset.read_rows(0, 40000).astype(float), dataset.read_labels(0, 40000)
    # standard errors: 0.0022 of the share, below 0.04 of a mean and 1.5% of a variance: bounds are five of them
    assert y.mean() == pytest.approx(0.25, abs=0.011)
    np.testing.assert_allclose(X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0), [0, 3, 0], atol=0.2)
    np.testing.assert_allclose(X[y == 0].var(axis=0), [9, 4, 9], rtol=0.075)
    other = open_dataset("synthetic:gaussian?n=40000&d=3&seed=6").read_rows(0, 10)
    assert not np.allclose(other, open_dataset("synthetic:gaussian?n=40000&d=3&seed=7").read_rows(0, 10))


WRITERS = {
    "zarr": write_zarr, "parquet": write_parquet, "npz": write_npz, "npy": lambda path, X, y=None: np.save(path, X),
}  # fmt: skip


def in_memory(kind, folder, X, y):
    """Return the address of what is written, in the in-memory file system, and arguments to open it."""
    WRITERS[kind](folder / f"a.{kind}", X, y)
    np.save(folder / "y.npy", y)
    memory = fsspec.filesystem("memory")
    for name in (f"a.{kind}", "y.npy"):
        memory.put(str(folder / name), f"/tests-{kind}/{name}", recursive=True)
    return f"memory://tests-{kind}/a.{kind}", {"label": f"memory://tests-{kind}/y.npy"} if kind == "npy" else {}


@pytest.mark.parametrize("kind", WRITERS)
def test_urls_of_object_storage(kind, tmp_path):
    """The in-memory file system stands for s3, gs and az: everything goes by fsspec."""
    X, y = table()
    uri, arguments = in_memory(kind, tmp_path, X, y)
    dataset = open_dataset(uri, **arguments)
    assert_reads(dataset, X, y)
    assert dataset.fingerprint() == open_dataset(uri, **arguments).fingerprint()


def test_npy_in_object_storage_is_read_by_ranges(tmp_path, monkeypatch):
    """Header and rows, and never the file."""
    X, y = table()
    X = np.tile(X, (2000, 1))
    uri, arguments = in_memory("npy", tmp_path, X, np.tile(y, 2000)[:, None].astype(np.int8))
    read = watched(monkeypatch, type(fsspec.filesystem("memory")), "cat_file")
    dataset = open_dataset(uri, **arguments)
    assert dataset.facts.kind == "remote"
    np.testing.assert_array_equal(dataset.read_rows(50_000, 50_100), X[50_000:50_100])
    np.testing.assert_array_equal(dataset.read_labels(5, 50), y[5:50])
    assert sum(map(len, read)) < 150_000 < X.nbytes


@pytest.mark.parametrize("kind", WRITERS)
def test_rows_that_may_do_without_labels(kind, tmp_path):
    X, y = table()
    WRITERS[kind](tmp_path / f"a.{kind}", X)
    rows = open_rows(tmp_path / f"a.{kind}")
    assert rows.label is None
    np.testing.assert_array_equal(rows.read(5, 50), X[5:50])
    assert rows.fingerprint() == open_rows(tmp_path / f"a.{kind}").fingerprint()
    with pytest.raises(InputError, match=r"label|array 'y'"):
        open_dataset(tmp_path / f"a.{kind}")
    with pytest.raises(InputError, match="kind"):
        column_of(open_rows(tmp_path / f"a.{kind}", label="kind"), None, "label")
    assert any_dataset(kind, tmp_path, X, y).has_labels


@pytest.mark.parametrize("address", ["{path}", "file:{path}", "file://{path}", "{relative}", "{tilde}"])
def test_addresses_of_local_files(address, tmp_path, monkeypatch):
    X, y = table()
    path = Path(write_zarr(tmp_path / "a.zarr", X, y))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    dataset = open_dataset(address.format(path=path, relative="a.zarr", tilde="~/a.zarr"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # as workers are
    np.testing.assert_array_equal(dataset.read_rows(0, N), X)


KINDS = ("zarr", "parquet", "npz", "npy", "bundled", "synthetic")


def any_dataset(kind, folder, X, y):
    if kind in ("bundled", "synthetic"):
        return open_dataset({"bundled": "bundled:wine", "synthetic": f"synthetic:{SYNTHETIC[1]}"}[kind])
    WRITERS[kind](folder / f"a.{kind}", X, y)
    np.save(folder / "y.npy", y)
    return any_dataset_again(kind, folder)


@pytest.mark.parametrize("kind", KINDS)
def test_data_sets_travel_to_workers_without_their_rows(kind, tmp_path):
    X, y = table()
    dataset = any_dataset(kind, tmp_path, np.tile(X, (20, 1)), np.tile(y, 20))
    dataset.read_rows(0, 10)
    sent = pickle.dumps(dataset)
    assert len(sent) < 3000 < dataset.n_rows * dataset.n_features * 4
    arrived = pickle.loads(sent)  # noqa: S301
    np.testing.assert_array_equal(arrived.read_rows(3, 9), dataset.read_rows(3, 9))
    assert arrived.fingerprint() == dataset.fingerprint()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_change_of_the_data_changes_fingerprint_and_rows(kind, tmp_path):
    """Within one process: nothing that was read before may stand in for what is there now."""
    X, y = table()
    before = any_dataset(kind, tmp_path, X, y)
    seen, rows = before.fingerprint(), before.read_rows(0, N).copy()
    assert any_dataset_again(kind, tmp_path).fingerprint() == seen
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))  # clocks of file systems are coarse
    after = any_dataset(kind, tmp_path, X + 1, y)
    assert after.fingerprint() != seen
    np.testing.assert_array_equal(after.read_rows(0, N), X + 1)
    np.testing.assert_array_equal(rows, X)


def any_dataset_again(kind, folder):
    return open_dataset(folder / f"a.{kind}", label=str(folder / "y.npy") if kind == "npy" else None)


def test_synthetic_fingerprints_tell_the_options():
    prints = {open_dataset(f"synthetic:{spec}").fingerprint() for spec in (*SYNTHETIC, SYNTHETIC[0] + "&seed=1")}
    assert len(prints) == 4
