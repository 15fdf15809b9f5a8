"""Bad input: one clear sentence, nothing half-written, no traceback; through the library and through the flow.

What opening and reading say of bad tables is in ``test_dataset_errors``.
"""

import numpy as np
import pytest
import yaml
import zarr
from helpers import each
from helpers.servers import server
from helpers.tables import write_parquet, write_zarr

from mmpca_dist import run
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.errors import MmpcaError

pytestmark = pytest.mark.usefixtures("no_report")

X, Y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
CHECKED = {"compressors": [zarr.codecs.Crc32cCodec()], "everywhere": True}


def changed(row, column, value):
    rows = X.copy()
    rows[row, column] = value
    return rows


def write(folder, rows=X, labels=Y, **options):
    return write_zarr(folder / "a.zarr", rows, labels, 10, **options)


def missing_label_chunk(folder):
    uri = write(folder, labels=Y + 5)
    (folder / "a.zarr" / "y" / "c" / "1").unlink()
    return uri


def corrupt_chunk(folder):
    uri, path = write(folder, **CHECKED), folder / "a.zarr" / "X" / "c" / "3" / "0"
    data = bytearray(path.read_bytes())
    data[11] ^= 1
    path.write_bytes(bytes(data))
    return uri


def damaged_labels(folder):
    uri, path = write(folder, **CHECKED), folder / "a.zarr" / "y" / "c" / "2"
    path.write_bytes(b"damaged!" + path.read_bytes()[8:])
    return uri


def beside_a_file(folder):
    (folder / "note.txt").write_text("mine")
    return write(folder)


def other_files_in_the_output(folder):
    (folder / "out" / "model").mkdir(parents=True)
    (folder / "out" / "model" / "mine.txt").write_text("mine")
    return write(folder)


def other_run(folder):
    uri = write(folder)
    run(load_config(str(configure(folder, uri, methods=["lol"]))))
    return uri


LOCAL = {"compute": {"cluster": "local"}}
CASES = {
    # name: (makes the address, settings, what the message must say, ADDRESS being that)
    "not finite": (lambda f: write(f, changed(25, 1, np.nan)), {}, [
        "nan", "row 25", "column 1", "chunk", "fill or drop"]),
    "infinite": (lambda f: write_parquet(f / "a.parquet", changed(7, 2, -np.inf), Y, size=10), {}, [
        "-inf", "row 7", "column 2 ('f2')", "row group 0"]),
    "null in parquet": (lambda f: write_parquet(f / "a.parquet", changed(12, 0, np.nan), Y, size=10), {}, [
        "'f0'", "1 missing value (null)", "Leave out", "dataset.drop=[f0]"]),
    "missing label chunk": (missing_label_chunk, {}, ["lacks label chunks of 10 rows", "fill value 0", "Restore"]),
    "corrupt chunk": (corrupt_chunk, {}, ["chunk 3 (rows 30 to 39)", "checksum", "restore"]),
    "too many components": (write, {"n_components": 4}, ["n_components=4", "3 features"]),
    "unknown key": (write, {"n_component": 2}, ["Unknown key 'n_component'", "Did you mean 'n_components'?"]),
    "other run": (other_run, {}, ["already holds a different run", "methods", "Choose another output"]),
    "too little memory": (write, {"compute": {"memory_limit": "1MiB"}}, [
        "The plan needs", "2.00 MiB", "memory_limit"]),
    "damaged labels": (damaged_labels, {}, ["labels of rows", "a.zarr/y", "checksum", "restore"]),
    "forbidden": (lambda f: f"http://127.0.0.1:{server(403)}/a.parquet", {}, [
        "ADDRESS", "permission denied", "credentials"]),
    "memory of another process": (lambda f: "memory://a/a.zarr", LOCAL, [
        "memory://a/a.zarr", "memory of this process", "compute.cluster: threads"]),
    "output in memory of another process": (write, {"output": "memory://a/out", **LOCAL}, [
        "memory://a/out", "storage that they share"]),
    "output is a file": (beside_a_file, {"output": "note.txt"}, ["note.txt is a file", "Choose another output"]),
    "output below a file": (beside_a_file, {"output": "note.txt/out"}, [
        "Cannot write", "note.txt is a file where a folder belongs"]),
    "other files in the output": (other_files_in_the_output, {}, [
        "holds other files ('model')", "Choose another output"]),
    "empty address": (lambda f: "", {}, ["address is empty"]),
}  # fmt: skip


def contents(folder):
    """Return every path below a folder, and the bytes of its files."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def configure(folder, uri, output="out", **changes):
    output = output if "://" in output else str(folder / output)
    content = {"dataset": {"uri": uri}, "methods": ["pca", "m-pca1b"], "n_components": 2, "compute": {"workers": 2}}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**content, "output": output, **changes}))
    return path


def prepared(case, folder):
    """Return the configuration of a case, and what must be said of it."""
    make, changes, words = CASES[case]
    uri = make(folder)
    return configure(folder, uri, **changes), [word.replace("ADDRESS", uri) for word in words]


def assert_one_sentence(message, words):
    for word in words:
        assert word.lower() in message.lower(), message
    assert "\n" not in message and "Traceback" not in message


def test_through_the_library(tmp_path):
    for case, folder in each(CASES, tmp_path):
        path, words = prepared(case, folder)
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


@pytest.mark.parametrize("case", CASES)
@pytest.mark.e2e
def test_through_the_command_and_the_flow(case, tmp_path, prefect_server, capfd):
    path, words = prepared(case, tmp_path)
    before = contents(tmp_path)
    assert_refused_by_the_command(["run", str(path)], words, capfd)
    assert contents(tmp_path) == before, "something was left half-written"


@pytest.mark.e2e
def test_new_rows_that_are_not_finite(tmp_path, prefect_server, capfd):
    run(load_config(str(configure(tmp_path, write(tmp_path)))))
    new = write_zarr(tmp_path / "new.zarr", changed(25, 1, np.inf), Y, 10)
    before = contents(tmp_path)
    arguments = ["transform", str(tmp_path / "out"), new, str(tmp_path / "dest")]
    words = ["Found inf in row 25, column 1", "chunk 2", "new.zarr"]
    assert_refused_by_the_command(arguments, words, capfd)
    assert contents(tmp_path) == before, "something was left half-written"
    assert_refused_by_the_command([*arguments[:3], str(tmp_path / "new.zarr")], ["new.zarr is there already"], capfd)
