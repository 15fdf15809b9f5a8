"""What Parquet, NumPy and text declare is bounded before it takes memory; headers whose parser fails."""

import ast
import bz2
import gzip
import io
import itertools
import lzma
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.ingested import ingest
from helpers.tables import npy, write_npz

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.passes.serialization import decode, encode
from mmpca_dist.tables import memory_limits
from mmpca_dist.tables.readers.npy import READINGS, NpyHeader, read_again

Y = np.arange(20) % 2


def test_a_row_group_that_declares_more_than_fits(tmp_path):
    """Equal values take next to nothing, until they are unpacked."""
    n = 3_000_000
    pq.write_table(
        pa.table({"a": np.zeros(n), "label": np.zeros(n, np.int8)}), tmp_path / "a.parquet", row_group_size=n
    )
    assert (tmp_path / "a.parquet").stat().st_size < 50_000
    with memory_limits.within(16 << 20, "the test"), pytest.raises(InputError, match=r"Row group 0 of .* \(the test\)"):
        open_dataset(tmp_path / "a.parquet")


SHAPES = ["(10000000000, 3)", "(10**15, 3)", "(1000000000000000, 3)", "(1000000000000000000, 30)", "(-5, 3)",
          "(2.5, 3)", "(True, 3)", "('a', 3)", "None", "(2, -4)", "(" * 3000, "-" * 3000 + "1", f"({'9' * 5000}, 3)",
          f"({'9' * 50}, 3)", "(3, (3, 3))", "()"]  # fmt: skip


def test_absurd_shapes_of_npy_and_npz(tmp_path):
    np.save(tmp_path / "y.npy", Y)
    for shape in SHAPES:
        (tmp_path / "X.npy").write_bytes(npy(shape))
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("X.npy", npy(shape))
            archive.write(tmp_path / "y.npy", "y.npy")
        for attempt in (
            lambda: open_dataset(tmp_path / "X.npy", label=str(tmp_path / "y.npy")),
            lambda: open_dataset(tmp_path / "a.npz"),
            lambda: open_dataset(tmp_path / "y.npy", label=str(tmp_path / "X.npy")),
        ):
            with pytest.raises(InputError) as caught:
                attempt()
            assert "\n" not in str(caught.value)


def test_types_of_npy_that_are_none(tmp_path):
    np.save(tmp_path / "y.npy", Y[:2])
    for descr in ("|O", "<f1000000000000", "|V99999999999", "x", "<U999999999", [("a", "<f8")], 5):
        (tmp_path / "X.npy").write_bytes(npy("(2, 3)", descr=descr))
        with pytest.raises(InputError):
            open_dataset(tmp_path / "X.npy", label=str(tmp_path / "y.npy"))


def test_a_member_that_unpacks_to_more_than_fits(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1 << 20, 4)), y=np.zeros(1 << 20, np.int8))
    assert (tmp_path / "a.npz").stat().st_size < 100_000
    with memory_limits.within(16 << 20, "the test"), pytest.raises(InputError, match=r"a.npz takes .* as \.npy files"):
        open_dataset(tmp_path / "a.npz")


def test_a_line_without_an_end(tmp_path, limits):
    limits.text_line_bytes = 1 << 20
    packers = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    for before, ending in itertools.product(["", "a,label\n1,0\n2,1\n", "1 1:2\n"], packers):
        for suffix in (".csv", ".libsvm"):
            path = tmp_path / f"a{suffix}{ending}"
            path.write_bytes(packers[ending](before.encode() + b"1" * (5 << 20)))
            with pytest.raises(InputError, match=r"Line \d of .* is longer than 1 MiB|is not"):
                ingest(path, tmp_path / "out.zarr")


@pytest.mark.parametrize(("name", "content"), [
    ("a.csv", "," * 2_000_000 + "\n" + "1," * 10),
    ("a.csv", "a" * 200_000 + ",label\n1,2\n"),
    ("a.csv", "a\0b,label\n1,0\n2,1\n\0,3\n"),
    ("a.csv", f"a,label\n1,{'9' * 5000}\n2,1\n"),
    ("a.csv", f"a,label\n{'x' * 5000},1\n2,1\n"),
    ("a.libsvm", f"1 {'9' * 5000}:1\n"),
    ("a.libsvm", f"{'9' * 5000} 1:1\n0 1:1\n"),
    ("a.libsvm", f"1 1:1 {'9' * 30}:2\n"),
    ("a.libsvm", f"1 {'9' * 5000}:1 2:1\n"),
])  # fmt: skip
def test_text_that_is_no_table(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    with memory_limits.within(4 << 30, "the test"), pytest.raises(InputError) as caught:
        ingest(tmp_path / name, tmp_path / "out.zarr")
    assert len(str(caught.value)) < 6_500 and not (tmp_path / "out.zarr").exists()


def test_a_dense_row_that_does_not_fit(tmp_path):
    (tmp_path / "a.libsvm").write_text("1 1:1\n0 2000000000:1\n")
    with memory_limits.within(1 << 30, "the test"), pytest.raises(InputError, match=r"A dense row of .* \(--sparse\)"):
        ingest(tmp_path / "a.libsvm", tmp_path / "out.zarr", sparse=False)


@pytest.mark.parametrize(
    "uri",
    ["synthetic:gaussian?n=1000000000000000000&d=3", "synthetic:gaussian?n=1e15&d=10", "synthetic:gaussian?n=-5",
     "synthetic:gaussian?n=2.5", "synthetic:gaussian?n=1e400", "synthetic:clusters?d=10000000&n=10",
     "synthetic:clusters?k=100000000000", "synthetic:gaussian?n=10&d=1e12", f"synthetic:gaussian?n={'9' * 5000}",
     f"bundled:iris?seed={'9' * 5000}", "bundled:iris\0"],
)  # fmt: skip
def test_absurd_names_of_data_sets(uri):
    with pytest.raises(InputError):
        open_dataset(uri)


MISMATCH = SystemError("AST constructor recursion depth mismatch (before=75, after=72)")


@pytest.fixture
def some_fail(monkeypatch):
    """Let some of NumPy's attempts to parse a header fail; return what counts them."""
    attempts, parse = itertools.count(), ast.literal_eval

    def literal_eval(text):
        if next(attempts) in (0, 2, 5):
            raise MISMATCH
        return parse(text)

    monkeypatch.setattr("ast.literal_eval", literal_eval)
    return attempts


def test_results_of_passes_are_not_damaged_for_that(some_fail):
    """Each time it gets further."""
    data = encode((np.arange(3.0), "text", np.arange(4)))
    floats, text, integers = decode(data)
    np.testing.assert_array_equal(floats, np.arange(3.0))
    np.testing.assert_array_equal(integers, np.arange(4))
    assert text == "text" and next(some_fail) > 6


@pytest.mark.parametrize("kind", [".npy", ".npz"])
def test_data_sets_are_opened_for_all_that(kind, tmp_path, some_fail):
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    if kind == ".npy":
        np.save(tmp_path / "rows.npy", X)
        np.save(tmp_path / "labels.npy", y)
        dataset = open_dataset(str(tmp_path / "rows.npy"), label=str(tmp_path / "labels.npy"))
    else:
        dataset = open_dataset(str(write_npz(tmp_path / "rows.npz", X, y)))
    rows, labels = dataset.read_rows(0, 6), dataset.read_labels(0, 6)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)
    assert next(some_fail) > 1


def test_a_stream_is_read_from_where_it_was(some_fail):
    stream = io.BytesIO()
    stream.write(b"before")
    np.save(stream, np.arange(4))
    stream.seek(6)
    header = NpyHeader.read(stream, "the stream")
    assert header.shape == (4,) and stream.read() == np.arange(4).tobytes()


def test_it_ends():
    """So often and no more; other errors at once."""
    asked = []

    @read_again
    def failing(error):
        asked.append(error)
        raise error

    with pytest.raises(SystemError, match="recursion depth mismatch"):
        failing(MISMATCH)
    assert len(asked) == READINGS
    asked.clear()
    with pytest.raises(ValueError, match="another"):
        failing(ValueError("another"))
    assert len(asked) == 1
