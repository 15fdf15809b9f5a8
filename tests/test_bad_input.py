"""Bad input: one clear sentence, nothing half-written, no traceback; through the library and through the flow."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from mmpca_dist import run
from mmpca_dist.errors import MmpcaError
from mmpca_dist.runs.config import load_config

N, D = 40, 3


def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, D)), np.arange(N) % 2


def write_zarr(path, X, y, chunk=10, **options):
    group = zarr.open_group(str(path), mode="w")
    for name, data, chunks in (("X", X, (chunk, X.shape[1])), ("y", y, (chunk,))):
        array = group.create_array(name, shape=data.shape, chunks=chunks, dtype=data.dtype, **options)
        array[...] = data
    return str(path)


def write_parquet(path, X, y):
    columns = {f"f{j}": column for j, column in enumerate(X.T)}
    pq.write_table(pa.table({**columns, "label": y}), path, row_group_size=10)
    return str(path)


def not_finite(folder):
    X, y = rows()
    X[25, 1] = np.nan
    return {"uri": write_zarr(folder / "a.zarr", X, y)}, ["nan", "row 25", "column 1", "chunk", "fill or drop"]


def infinite(folder):
    X, y = rows()
    X[7, 2] = -np.inf
    return {"uri": write_parquet(folder / "a.parquet", X, y)}, ["-inf", "row 7", "column 2 ('f2')", "row group 0"]


def one_class(folder):
    X, y = rows()
    return {"uri": write_zarr(folder / "a.zarr", X, 0 * y + 3)}, ["only 1 class", "label 3", "at least two"]


def label_mismatch(folder):
    X, y = rows()
    return {"uri": write_zarr(folder / "a.zarr", X, y[:-1])}, ["40 rows", "39 labels", "one label a row"]


def text_column(folder):
    X, y = rows()
    table = pa.table({"f0": X[:, 0], "colour": ["red"] * N, "label": y})
    pq.write_table(table, folder / "a.parquet")
    return {"uri": str(folder / "a.parquet")}, ["'colour'", "string", "must be numbers"]


def null_in_parquet(folder):
    X, y = rows()
    values = X[:, 0].tolist()
    values[12] = None
    pq.write_table(pa.table({"f0": values, "f1": X[:, 1], "label": y}), folder / "a.parquet", row_group_size=10)
    return {"uri": str(folder / "a.parquet")}, ["'f0'", "null", "row 12", "Fill or drop"]


def missing_chunk(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y)
    (folder / "a.zarr" / "X" / "c" / "2" / "0").unlink()
    return {"uri": uri}, ["lacks 1 of the chunks", "(2, 0)", "rows 20 to 29", "dataset.missing_chunks: fill"]


def missing_label_chunk(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y + 5)
    (folder / "a.zarr" / "y" / "c" / "1").unlink()
    return {"uri": uri}, ["lacks label chunks of 10 rows", "fill value 0", "Restore"]


def corrupt_chunk(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y, compressors=[zarr.codecs.Crc32cCodec()])
    path = folder / "a.zarr" / "X" / "c" / "3" / "0"
    data = bytearray(path.read_bytes())
    data[11] ^= 1
    path.write_bytes(bytes(data))
    return {"uri": uri}, ["chunk 3 (rows 30 to 39)", "checksum", "restore"]


def short_chunk(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y, compressors=None)
    path = folder / "a.zarr" / "X" / "c" / "1" / "0"
    path.write_bytes(path.read_bytes()[:-5])
    return {"uri": uri}, ["chunk 1 (rows 10 to 19)", "restore"]


def truncated_parquet(folder):
    X, y = rows()
    path = folder / "a.parquet"
    write_parquet(path, X, y)
    path.write_bytes(path.read_bytes()[:-100])
    return {"uri": str(path)}, ["not a readable Parquet file", "cut short"]


def too_many_components(folder):
    X, y = rows()
    return {"uri": write_zarr(folder / "a.zarr", X, y), "n_components": 4}, ["n_components=4", "3 features"]


def unknown_key(folder):
    X, y = rows()
    return {"uri": write_zarr(folder / "a.zarr", X, y), "extra": {"n_component": 2}}, [
        "Unknown key 'n_component'", "Did you mean 'n_components'?",
    ]  # fmt: skip


def nowhere(folder):
    return {"uri": str(folder / "nothing.zarr")}, ["does not exist"]


def unknown_protocol(folder):
    return {"uri": "s4://bucket/a.zarr"}, ["unknown protocol 's4'"]


def other_run(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y)
    run(load_config(str(configure(folder, {"uri": uri}, methods="[lol]"))))
    return {"uri": uri, "keep": True}, ["already holds a different run", "methods", "Choose another output"]


def too_little_memory(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y)
    return {"uri": uri, "extra": {"compute": {"memory_limit": "1MiB"}}}, ["The plan needs", "2.00 MiB", "memory_limit"]


CASES = [
    not_finite, infinite, one_class, label_mismatch, text_column, null_in_parquet, missing_chunk,
    missing_label_chunk, corrupt_chunk, short_chunk, truncated_parquet, too_many_components, unknown_key, nowhere,
    unknown_protocol, other_run, too_little_memory,
]  # fmt: skip


def configure(folder, case, methods="[pca, m-pca1b]"):
    import yaml

    content = {
        "dataset": {"uri": case["uri"]},
        "methods": yaml.safe_load(methods),
        "n_components": case.get("n_components", 2),
        "compute": {"workers": 2},
        "output": str(folder / "out"),
        **case.get("extra", {}),
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def assert_one_sentence(message, words):
    for word in words:
        assert word.lower() in message.lower(), message
    assert "\n" not in message and "Traceback" not in message


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_through_the_library(case, tmp_path):
    settings, words = case(tmp_path)
    with pytest.raises(MmpcaError) as caught:
        run(load_config(str(configure(tmp_path, settings))))
    assert_one_sentence(str(caught.value), words)
    if not settings.get("keep"):
        assert not (tmp_path / "out").exists(), "something was left half-written"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_through_the_command_and_the_flow(case, tmp_path, prefect_server, capfd):
    from pipelines.cli import main

    settings, words = case(tmp_path)
    path = configure(tmp_path, settings)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as caught:
        patch.setattr("sys.argv", ["mmpca", "run", str(path)])
        main()
    assert caught.value.code == 2
    streams = capfd.readouterr()
    assert "Traceback" not in streams.err + streams.out
    assert_one_sentence(streams.err.strip().splitlines()[-1], ["mmpca: ", *words])
    if not settings.get("keep"):
        assert not (tmp_path / "out").exists(), "something was left half-written"


def test_missing_row_chunks_are_read_as_fill_values_where_that_is_asked_for(tmp_path):
    X, y = rows()
    uri = write_zarr(tmp_path / "a.zarr", X, y)
    shutil.rmtree(tmp_path / "a.zarr" / "X" / "c" / "2")
    config = configure(tmp_path, {"uri": uri, "extra": {"dataset": {"uri": uri, "missing_chunks": "fill"}}})
    results = run(load_config(str(config)))
    assert results["count"]["n_rows"] == N


def test_missing_label_chunks_whose_fill_value_is_a_class_are_accepted_with_a_warning(tmp_path, caplog):
    X, y = rows()
    y[10:20] = 0
    uri = write_zarr(tmp_path / "a.zarr", X, y)  # Zarr leaves out the chunk of zeros by itself
    assert not (tmp_path / "a.zarr" / "y" / "c" / "1").exists()
    results = run(load_config(str(configure(tmp_path, {"uri": uri}))))
    assert results["count"]["counts"] == [25, 15]
    assert "read as the fill value 0" in caplog.text
