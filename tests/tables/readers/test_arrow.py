"""Arrow IPC files as a source: the rows of the same table in Parquet, and refusals of what is damaged or too large."""

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from helpers.ingested import ingest

from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.errors import ColumnError, InputError, MmpcaError
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import within

TYPES = {"a": "f4", "b": "f8", "c": "i2", "d": "?", "e": "u1"}


def table(n=100, seed=0, **others):
    rng = np.random.default_rng(seed)
    columns = {name: (10 * rng.standard_normal(n)).astype("i8").astype(kind) for name, kind in TYPES.items()}
    label = pa.array(np.asarray(["left", "right", "middle"])[np.arange(n) % 3]).dictionary_encode()
    return pa.table({**columns, "note": [f"row {i}" for i in range(n)], "label": label, **others})


def write(path, rows, *, batch=17, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=batch)
    return str(path)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize(("n", "batch"), [(100, 17), (100, 100), (33, 1), (2, 5)])
def test_rows_and_labels_are_those_of_parquet(n, batch, compression, tmp_path):
    rows = table(n)
    pq.write_table(rows, tmp_path / "t.parquet")
    expected = open_dataset(tmp_path / "t.parquet", drop=["note"])
    found = open_dataset(write(tmp_path / "t.arrow", rows, batch=batch, compression=compression), drop=["note"])
    assert (found.n_rows, found.n_features, found.dtype) == (n, 5, expected.dtype)
    assert found.feature_names == expected.feature_names == list(TYPES)
    assert found.chunk_edges.tolist() == [*range(0, n, batch), n]
    for start, stop in ((0, n), (n // 3, n // 2 + 1), (n - 1, n)):
        np.testing.assert_array_equal(found.read_rows(start, stop), expected.read_rows(start, stop))
        np.testing.assert_array_equal(found.read_labels(start, stop), expected.read_labels(start, stop))


def test_feather_files_and_fixed_size_lists(tmp_path):
    X = np.random.default_rng(1).standard_normal((40, 6)).astype("f4")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    pyarrow.feather.write_feather(pa.table({"X": lists, "y": np.arange(40) % 2}), str(tmp_path / "t.feather"))
    found = open_dataset(tmp_path / "t.feather", features="X")
    np.testing.assert_array_equal(found.read_rows(0, 40), X)
    np.testing.assert_array_equal(found.read_labels(3, 9), np.arange(3, 9) % 2)


def test_a_batch_without_rows_is_no_chunk(tmp_path):
    (rows,) = table(20).drop_columns("note").to_batches()
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), rows.schema) as writer:
        for part in (rows.slice(0, 0), rows.slice(0, 7), rows.slice(7, 0), rows.slice(7)):
            writer.write_batch(part)
    found = open_dataset(tmp_path / "t.arrow")
    assert found.chunk_edges.tolist() == [0, 7, 20]
    assert found.describe_chunk(12) == f"record batch 3 (rows 7 to 19) of {tmp_path / 't.arrow'}"
    assert len(found.read_rows(5, 12)) == 7


@pytest.mark.usefixtures("no_report")
def test_a_run_and_an_ingest_give_what_they_give_of_parquet(tmp_path):
    rows = table(200).drop_columns("note")
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=17)
    write(tmp_path / "t.arrow", rows, compression="zstd")
    models = []
    for name in ("t.parquet", "t.arrow"):
        output, ingested = str(tmp_path / f"{name}-out"), str(tmp_path / f"{name}.zarr")
        settings = {"methods": ["pca", "m-pca1b"], "n_components": 2}
        run({"dataset": {"uri": str(tmp_path / name)}, "output": output, **settings})
        ingest(str(tmp_path / name), ingested)
        models.append([load_model(output, method).components_ for method in settings["methods"]])
        models[-1].append(open_dataset(ingested).read_rows(0, 200))
    for parquet, arrow in zip(*models, strict=True):
        np.testing.assert_array_equal(parquet, arrow)


def test_an_object_store_is_read_by_ranges(bucket, tmp_path):
    rows = table(300).drop_columns("note")
    local = write(tmp_path / "t.arrow", rows, batch=50)
    uri = f"{bucket}/t.arrow"
    storage.write_bytes(uri, (tmp_path / "t.arrow").read_bytes())
    found, expected = open_dataset(uri), open_dataset(local)
    np.testing.assert_array_equal(found.read_rows(40, 260), expected.read_rows(40, 260))
    np.testing.assert_array_equal(found.read_labels(0, 300), expected.read_labels(0, 300))
    assert found.facts.kind == "remote"


def test_missing_values_and_texts_are_refused_by_name(tmp_path):
    gap = pa.array([1.0, None, 3.0] + [0.0] * 17)
    found = open_dataset(write(tmp_path / "gap.arrow", table(20, gap=gap).drop_columns("note")))
    with pytest.raises(ColumnError, match=r"Column 'gap' of .* has missing values \(null\), the first in row 1"):
        found.read_rows(0, 20)
    with pytest.raises(ColumnError, match=r"Column 'note' of .* type string, where"):
        open_dataset(write(tmp_path / "text.arrow", table(20)))


def test_streams_and_other_files_are_named(tmp_path):
    rows = table(20)
    with pa.ipc.new_stream(str(tmp_path / "stream.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    with pytest.raises(InputError, match=r"Streams and Feather 1 .* write them as Arrow files \(Feather 2\)"):
        open_dataset(tmp_path / "stream.arrow")
    for content in (b"", b"A", b"ARROW1", bytes(1000), b"ARROW1" + bytes(8), b"FEA1" + bytes(100)):
        (tmp_path / "other.ipc").write_bytes(content)
        with pytest.raises(InputError, match=r"it (is|may be) cut short"):
            open_dataset(tmp_path / "other.ipc")


def read_all(path):
    found = open_dataset(path, drop=["note"])
    return found.read_rows(0, found.n_rows), found.read_labels(0, found.n_rows)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_whatever_is_cut_off_or_flipped_ends_in_rows_or_in_one_sentence(compression, tmp_path):
    """Arrow files have no checksums: a flipped value is read as it is. Nothing crashes, and nothing is cut short."""
    write(tmp_path / "whole.arrow", table(60), compression=compression)
    data = (tmp_path / "whole.arrow").read_bytes()
    path, rng = tmp_path / "broken.arrow", np.random.default_rng(0)
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        with pytest.raises(MmpcaError):
            read_all(path)
    refused = 0
    for _ in range(400):
        broken = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            broken[place] = rng.integers(0, 256)
        path.write_bytes(broken)
        try:
            rows, labels = read_all(path)
            assert rows.shape[1] == 5 and len(rows) == len(labels)
        except MmpcaError:
            refused += 1
    assert 50 < refused < 400


def test_a_batch_that_declares_more_than_memory_is_refused(tmp_path):
    write(tmp_path / "t.arrow", table(1000).drop_columns("note"), batch=1000, compression="zstd")
    with within(1000, "the test's"), pytest.raises(InputError, match=r"Record batch 0 of .* smaller record batches"):
        open_dataset(tmp_path / "t.arrow")
