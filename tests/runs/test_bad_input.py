"""Bad input: one clear sentence, nothing half-written, no traceback; through the library and through the flow.

What opening and reading say of bad tables is in ``test_dataset_errors``.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers.cases import each
from helpers.servers import forbidding_server

from mmpca_dist import run
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.errors import MmpcaError

pytestmark = pytest.mark.usefixtures("no_report")

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


def null_in_parquet(folder):
    X, y = rows()
    values = X[:, 0].tolist()
    values[12] = None
    pq.write_table(pa.table({"f0": values, "f1": X[:, 1], "label": y}), folder / "a.parquet", row_group_size=10)
    return {"uri": str(folder / "a.parquet")}, ["'f0'", "1 missing value (null)", "Leave out", "dataset.drop=[f0]"]


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


def too_many_components(folder):
    X, y = rows()
    return {"uri": write_zarr(folder / "a.zarr", X, y), "n_components": 4}, ["n_components=4", "3 features"]


def unknown_key(folder):
    X, y = rows()
    return {"uri": write_zarr(folder / "a.zarr", X, y), "extra": {"n_component": 2}}, [
        "Unknown key 'n_component'", "Did you mean 'n_components'?",
    ]  # fmt: skip


def damaged_labels(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y, compressors=[zarr.codecs.Crc32cCodec()])
    path = folder / "a.zarr" / "y" / "c" / "2"
    path.write_bytes(b"damaged!" + path.read_bytes()[8:])
    return {"uri": uri}, ["labels of rows", "a.zarr/y", "checksum", "restore"]


def forbidden(folder):
    uri = f"http://127.0.0.1:{forbidding_server()}/a.parquet"
    return {"uri": uri}, [uri, "permission denied", "credentials"]


def memory_of_another_process(folder):
    return {"uri": "memory://a/a.zarr", "extra": {"compute": {"cluster": "local"}}}, [
        "memory://a/a.zarr", "memory of this process", "compute.cluster: threads",
    ]  # fmt: skip


def output_in_memory_of_another_process(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y)
    return {"uri": uri, "extra": {"output": "memory://a/out", "compute": {"cluster": "local"}}}, [
        "memory://a/out", "storage that they share",
    ]  # fmt: skip


def output_is_a_file(folder):
    X, y = rows()
    (folder / "note.txt").write_text("mine")
    return {"uri": write_zarr(folder / "a.zarr", X, y), "extra": {"output": str(folder / "note.txt")}}, [
        "note.txt is a file", "Choose another output",
    ]  # fmt: skip


def output_below_a_file(folder):
    X, y = rows()
    (folder / "note.txt").write_text("mine")
    return {"uri": write_zarr(folder / "a.zarr", X, y), "extra": {"output": str(folder / "note.txt" / "out")}}, [
        "Cannot write", "note.txt is a file where a folder belongs",
    ]  # fmt: skip


def other_files_in_the_output(folder):
    X, y = rows()
    (folder / "out" / "model").mkdir(parents=True)
    (folder / "out" / "model" / "mine.txt").write_text("mine")
    return {"uri": write_zarr(folder / "a.zarr", X, y)}, ["holds other files ('model')", "Choose another output"]


def empty_address(folder):
    return {"uri": ""}, ["address is empty"]


def other_run(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y)
    run(load_config(str(configure(folder, {"uri": uri}, methods="[lol]"))))
    return {"uri": uri}, ["already holds a different run", "methods", "Choose another output"]


def too_little_memory(folder):
    X, y = rows()
    uri = write_zarr(folder / "a.zarr", X, y)
    return {"uri": uri, "extra": {"compute": {"memory_limit": "1MiB"}}}, ["The plan needs", "2.00 MiB", "memory_limit"]


CASES = [
    not_finite, infinite, null_in_parquet, missing_label_chunk, corrupt_chunk, too_many_components, unknown_key,
    other_run, too_little_memory, damaged_labels, forbidden, memory_of_another_process,
    output_in_memory_of_another_process, output_is_a_file, output_below_a_file, other_files_in_the_output,
    empty_address,
]  # fmt: skip


def contents(folder):
    """Return every path below a folder, and the bytes of its files."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


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


def test_through_the_library(tmp_path):
    for case, folder in each(CASES, tmp_path):
        settings, words = case(folder)
        path = configure(folder, settings)
        before = contents(folder)
        with pytest.raises(MmpcaError) as caught:
            run(load_config(str(path)))
        assert_one_sentence(str(caught.value), words)
        assert contents(folder) == before, "something was left half-written"


def assert_refused_by_the_command(arguments, words, capfd):
    from mmpca_pipelines.__main__ import main

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as caught:
        patch.setattr("sys.argv", ["mmpca", *arguments])
        main()
    streams = capfd.readouterr()
    assert caught.value.code == 2, streams.err
    assert "Traceback" not in streams.err + streams.out
    assert_one_sentence(streams.err.strip().splitlines()[-1], ["mmpca: ", *words])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.e2e
def test_through_the_command_and_the_flow(case, tmp_path, prefect_server, capfd):
    settings, words = case(tmp_path)
    path = configure(tmp_path, settings)
    before = contents(tmp_path)
    assert_refused_by_the_command(["run", str(path)], words, capfd)
    assert contents(tmp_path) == before, "something was left half-written"


@pytest.mark.e2e
def test_new_rows_that_are_not_finite(tmp_path, prefect_server, capfd):
    X, y = rows()
    config = configure(tmp_path, {"uri": write_zarr(tmp_path / "a.zarr", X, y)})
    run(load_config(str(config)))
    X[25, 1] = np.inf
    new = write_zarr(tmp_path / "new.zarr", X, y)
    before = contents(tmp_path)
    arguments = ["transform", str(tmp_path / "out"), new, str(tmp_path / "dest")]
    words = ["Found inf in row 25, column 1", "chunk 2", "new.zarr"]
    assert_refused_by_the_command(arguments, words, capfd)
    assert contents(tmp_path) == before, "something was left half-written"
    assert_refused_by_the_command([*arguments[:3], str(tmp_path / "new.zarr")], ["new.zarr is there already"], capfd)
