"""Everything in object storage: each format, each step of a run, and no credential anywhere but in the environment."""

import gzip
import inspect
import json
import logging
import pickle
import sys
from functools import partial
from pathlib import Path

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from helpers.ingested import ingest
from helpers.tables import content_of, write_npz
from zarr.storage import WrapperStore

from mmpca_dist import load_model, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.errors import AccessError, InputError, MmpcaError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import open_job
from mmpca_dist.passes.scratch import ZarrScratch
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.remote_files import Bucket
from mmpca_dist.tables.compose import open_dataset
from mmpca_pipelines.cli import cli

pytestmark = pytest.mark.usefixtures("no_report")

SECRET = "aRecognisableSecret4711"  # noqa: S105


def table(n=120, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return (rng.normal(size=(n, d)) + y[:, None]).astype(np.float32), y


def put(uri, data):
    storage.write_bytes(uri, data)
    return uri


def csv_of(X, y):
    lines = [",".join([*(f"{value:.9g}" for value in row), str(label)]) for row, label in zip(X, y, strict=True)]
    return "\n".join([",".join([*(f"c{j}" for j in range(X.shape[1])), "label"]), *lines, ""]).encode()


def objects_of(s3):
    """Return all objects of the bucket by name."""
    fs, path = storage.filesystem(s3)
    return {name: fs.cat_file(name) for name in fs.find(path)}


def saved(tmp_path, save, name):
    save(tmp_path / name)
    return (tmp_path / name).read_bytes()


EVERYDAY = ("zarr", "npz")
KINDS = [
    *EVERYDAY,
    *(pytest.param(kind, marks=pytest.mark.e2e) for kind in ("csr", "parquet", "folder", "npz csr", "npy")),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_is_read(kind, bucket, tmp_path):
    X, y = table()
    label = None
    if kind in ("zarr", "csr"):
        put(f"{bucket}/in.csv", csv_of(X, y))
        ingest(f"{bucket}/in.csv", f"{bucket}/in.zarr", sparse=kind == "csr")
        uri = f"{bucket}/in.zarr"
    elif kind in ("parquet", "folder"):
        uri = f"{bucket}/in.parquet"
        for part, rows in enumerate([slice(None)] if kind == "parquet" else [slice(0, 50), slice(50, None)]):
            found = pa.table({**{f"c{j}": X[rows, j] for j in range(X.shape[1])}, "label": y[rows]})
            sink = pa.BufferOutputStream()
            pq.write_table(found, sink, write_page_checksum=True, row_group_size=40)
            put(uri if kind == "parquet" else f"{uri}/{part}.parquet", sink.getvalue().to_pybytes())
    elif kind.startswith("npz"):
        write = partial(write_npz, X=X, y=y, sparse=kind == "npz csr")
        uri = put(f"{bucket}/in.npz", saved(tmp_path, write, "in.npz"))
    else:
        uri = put(f"{bucket}/in.npy", saved(tmp_path, lambda path: np.save(path, X), "in.npy"))
        label = put(f"{bucket}/y.npy", saved(tmp_path, lambda path: np.save(path, y), "y.npy"))
    dataset = open_dataset(uri, label=label)
    np.testing.assert_array_equal(dataset.read_rows(0, len(X)), X)
    np.testing.assert_array_equal(dataset.read_rows(37, 83), X[37:83])
    np.testing.assert_array_equal(dataset.read_labels(0, len(X)), y)
    assert dataset.fingerprint() == open_dataset(uri, label=label).fingerprint()
    again = pickle.loads(pickle.dumps(dataset))  # noqa: S301
    np.testing.assert_array_equal(again.read_rows(0, 9), X[:9])


@pytest.mark.e2e
def test_text_is_ingested(bucket):
    X, y = table()
    rows = [" ".join(f"{j + 1}:{value:.9g}" for j, value in enumerate(row)) for row in X]
    libsvm = "\n".join(f"{label} {row}" for row, label in zip(rows, y, strict=True)).encode()
    zstd = pa.compress(csv_of(X, y), "zstd", asbytes=True)
    texts = {"in.csv.gz": gzip.compress(csv_of(X, y)), "in.csv.zst": zstd, "in.csv": csv_of(X, y), "in.libsvm": libsvm}
    for name, content in texts.items():
        ingest(put(f"{bucket}/{name}", content), f"{bucket}/out.zarr", overwrite=name != "in.csv.gz")
        dataset = open_dataset(f"{bucket}/out.zarr")
        np.testing.assert_array_equal(dataset.read_rows(0, len(X)), X)
        np.testing.assert_array_equal(dataset.read_labels(0, len(X)), y)


def settings(uri, output, cluster="threads"):
    compute = {"cluster": cluster, "workers": 2, "threads_per_worker": 1, "memory_limit": "2GiB"}
    methods, project = ["pca", "m-pca0", "m-pca2"], {"format": ["zarr", "parquet"]}
    return content_of(output, uri, methods=methods, project=project, compute=compute)


@pytest.fixture
def secret(monkeypatch, bucket):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return SECRET


def without_secret(what, data):
    assert SECRET.encode() not in (data if isinstance(data, bytes) else str(data).encode()), what


def invoke(*arguments):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    without_secret("the output", result.output)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["threads", "local"])
def test_every_step_in_object_storage_and_no_secret_anywhere(
    cluster, bucket, secret, prefect_server, tmp_path, caplog, monkeypatch
):
    """Ingest, plan, run, show and transform by the command line, under Prefect."""
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "mmpca_dist")
    monkeypatch.chdir(tmp_path)
    X, y = table()
    put(f"{bucket}/in.csv", csv_of(X, y))
    config, output = tmp_path / "run.yaml", f"{bucket}/runs/first"
    config.write_text(json.dumps(settings(f"{bucket}/in.zarr", output, cluster)))
    invoke("ingest", f"{bucket}/in.csv", f"{bucket}/in.zarr")
    assert "peak memory" in invoke("plan", config)
    assert not storage.exists(output)
    invoke("run", config)
    assert "m-pca2" in invoke("show", output)
    put(f"{bucket}/new.csv", csv_of(*table(seed=1)))
    invoke("ingest", f"{bucket}/new.csv", f"{bucket}/new.zarr")
    invoke("transform", output, f"{bucket}/new.zarr", f"{bucket}/new")
    invoke("run", config)  # nothing is left to do

    expected = load_model(output, "m-pca2").transform(table(seed=1)[0])
    got = open_dataset(f"{bucket}/new/projected/m-pca2.zarr")
    np.testing.assert_allclose(got.read_rows(0, len(X)), expected, rtol=1e-5, atol=1e-5)
    got = open_dataset(f"{output}/projected/m-pca2.parquet", drop=["row"])
    np.testing.assert_allclose(got.read_rows(0, len(X)), load_model(output, "m-pca2").transform(X), atol=1e-5)
    assert not any("scratch" in name for name in objects_of(bucket))

    for name, data in objects_of(bucket).items():
        without_secret(name, data)
        without_secret(name, name)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    for record in caplog.records:
        without_secret(record.name, record.getMessage())
    for what, data in prefect_records().items():
        without_secret(what, data)


def prefect_records():
    """Return all that a Prefect server keeps: runs with their parameters, task runs, artifacts, logs, and its file."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_HOME

    with get_client(sync_client=True) as client:
        found = {
            "flow runs": [run.model_dump_json() for run in client.read_flow_runs()],
            "task runs": [run.model_dump_json() for run in client.read_task_runs()],
            "artifacts": [one.model_dump_json() for one in client.read_artifacts()],
        }
    assert any("runs/first" in run for run in found["flow runs"])
    assert found["artifacts"]
    home = Path(str(PREFECT_HOME.value()))
    files = {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert files
    return found | files


@pytest.mark.e2e
def test_no_secret_in_what_workers_are_sent(bucket, secret):
    X, y = table()
    put(f"{bucket}/in.csv", csv_of(X, y))
    ingest(f"{bucket}/in.csv", f"{bucket}/in.zarr")
    config = parse_config(settings(f"{bucket}/in.zarr", f"{bucket}/run"), "the test")
    with open_job(config, Callback()) as job:
        job.dataset.read_rows(0, 9)  # after use: nothing opened stays in it
        scratch = ZarrScratch(f"{bucket}/scratch")
        scratch.put("t", {"a": X})
        assert scratch.get("t", ("a",))[0].shape == X.shape
        for what in (job.dataset, job.config, job.spans, scratch, job.run, storage.filesystem(bucket)[0]):
            for dumps in (pickle.dumps, cloudpickle.dumps):
                without_secret(type(what).__name__, dumps(what))


def test_addresses_with_credentials_are_refused(no_server, tmp_path, monkeypatch, caplog):
    """By whatever takes an address; `tests/stores/test_addresses.py` has the forms."""
    monkeypatch.chdir(tmp_path)
    fine, address = (
        {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": 2},
        f"s3://AKIA:{SECRET}@bucket/a.zarr",
    )
    attempts = [
        lambda: storage.filesystem(address),
        lambda: open_dataset(address),
        lambda: run({**fine, "output": address}),
        lambda: run({**fine, "dataset": {"uri": address}, "output": "out"}),
        lambda: load_model(address, "pca"),
        lambda: ingest(address, "out.zarr"),
        lambda: ingest("bundled:iris", address),
    ]
    commands = ("show", address), ("ingest", address, "o.zarr"), ("transform", address, "bundled:iris", "o")
    attempts += [partial(CliRunner().invoke, cli, command, catch_exceptions=False) for command in commands]
    for attempt in attempts:
        with pytest.raises(MmpcaError, match="carries credentials") as caught:
            attempt()
        without_secret("the message", str(caught.value))
    without_secret("the log", caplog.text)
    assert not list(tmp_path.iterdir())


@pytest.mark.e2e
def test_what_is_absent_is_said_so_and_a_lost_chunk_is_noticed(bucket):
    for uri in (f"{bucket}/none.zarr", f"{bucket}/none.parquet", f"{bucket}/none.npz", f"{bucket}-none/none.zarr"):
        with pytest.raises(InputError, match=r"does not exist|there is no Zarr group"):
            open_dataset(uri)
    X, y = table()
    put(f"{bucket}/in.csv", csv_of(X, y))
    ingest(f"{bucket}/in.csv", f"{bucket}/in.zarr")
    dataset = open_dataset(f"{bucket}/in.zarr")
    fs, path = storage.filesystem(f"{bucket}/in.zarr/X")
    for name, _, _ in storage.list_objects(f"{bucket}/in.zarr/X"):
        if name.startswith("c/"):
            fs.rm_file(f"{path}/{name}")
    with pytest.raises(InputError, match="lacks 1 of the chunks"):
        open_dataset(f"{bucket}/in.zarr")
    assert np.isnan(dataset.read_rows(0, 3)).all()  # a reader that was open before


@pytest.mark.e2e
def test_ranges_of_objects_and_ends_beyond_them(bucket):
    data = np.random.default_rng(0).bytes(3000)
    put(f"{bucket}/data", data)
    put(f"{bucket}/empty", b"")
    fs, path = storage.filesystem(f"{bucket}/data")
    assert fs.cat_file(path) == data and fs.size(path) == 3000
    assert fs.cat_file(path, 1000, 2500) == data[1000:2500]
    assert fs.cat_file(path, 2900, 9999) == data[2900:]
    assert fs.cat_file(path, 100) == data[100:]
    assert fs.cat_file(path, 5000, 9999) == fs.cat_file(path, 7, 7) == fs.cat_file(f"{path[:-4]}empty", 0, 9) == b""
    with fs.open(path) as file:
        assert file.read(10) == data[:10] and file.seek(-5, 2) == 2995 and file.read() == data[2995:]


def test_no_operation_of_zarrs_wrapper_passes_by_the_retries_and_the_prefix():
    """A version of Zarr that adds one must be noticed: it would read and write at the root of the bucket."""
    for name, method in inspect.getmembers(WrapperStore, inspect.isfunction):
        if name in vars(WrapperStore) and {"key", "prefix", "requests", "values"} & set(
            inspect.signature(method).parameters
        ):
            assert name in vars(zarr_stores.PatientStore) or name == "set_partial_values", (
                name
            )  # which no store here supports


@pytest.mark.e2e
def test_a_part_of_a_shard_is_read_below_the_prefix(bucket):
    rows = np.arange(24.0).reshape(8, 3)
    group = zarr_stores.open_group(f"{bucket}/folder/x.zarr", "w")
    group.create_array("X", data=rows, chunks=(1, 3), shards=(4, 3))
    array = zarr_stores.open_group(f"{bucket}/folder/x.zarr")["X"]
    assert np.array_equal(zarr_stores.values_of(array, 1, 3), rows[1:3])


@pytest.mark.parametrize("name", ["a//b", "a\nb", "a/../b", "a/./b"])
def test_names_that_obstore_cannot_reach_are_refused(name, bucket):
    with pytest.raises(InputError, match=r"obstore cannot reach|as a folder"):
        storage.write_bytes(f"{bucket}/{name}", b"")


def test_objects_of_others_that_obstore_cannot_list_are_said_to_be_so(bucket):
    import boto3

    boto3.client("s3").put_object(Bucket=bucket.removeprefix("s3://"), Key="folder//x", Body=b"1")
    with pytest.raises(AccessError, match=r"names with an empty, '\.' or '\.\.' part"):
        storage.names_in(f"{bucket}/folder")
    assert storage.names_in(f"{bucket}/another") == []


@pytest.mark.parametrize("module", ["obstore.store", "boto3"])
def test_without_the_packages_the_extras_are_named(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"Cannot read s3://absent/x: .*install 'mmpca-dist\[s3\]'"):
        storage.exists("s3://absent/x")


def test_without_credentials_nobody_waits(bucket, monkeypatch, caplog):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(AccessError, match="there are no valid credentials"):
        storage.exists(f"{bucket}/x")
    assert not [each for each in caplog.records if each.name == "mmpca_dist.storage"], "something is tried again"
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    assert not storage.exists(f"{bucket}/x")


def test_an_azure_account_that_is_not_known_is_a_sentence(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InputError, match=r"Cannot reach abfs://c/a.zarr: its storage account is not known") as caught:
        storage.exists("abfs://c/a.zarr")
    assert "AZURE_STORAGE_ACCOUNT_NAME, or in the address: abfs://CONTAINER@ACCOUNT" in str(caught.value)


@pytest.mark.parametrize("protocol", ["az", "abfs", "abfss"])
def test_the_account_of_an_address_comes_before_that_of_the_environment(protocol, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")
    bucket, path = Bucket.of(f"{protocol}://box@one.dfs.core.windows.net/a/b")
    assert (bucket, path) == (Bucket(protocol, "box", "one"), "box/a/b")
    assert Bucket.of(f"{protocol}://box/a")[0].account == "another"
