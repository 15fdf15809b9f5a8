"""Data sets in a folder that an environment variable names, and files that are fetched into it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from helpers.evaluating import store
from helpers.operations import ROOT
from helpers.runs import open_and_close
from helpers.serving import NAME, section, serving

from mmpca_dist.configuration.data_location import _between_minus_one_and_one, located
from mmpca_dist.configuration.schema import parse_config, parse_model
from mmpca_dist.configuration.sections import DatasetConfig
from mmpca_dist.errors import AccessError, ConfigError, InputError
from mmpca_dist.ingest.job import ingest
from mmpca_dist.runs.stages import preview
from mmpca_dist.stores import storage


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return the bytes of a data set."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    X = np.random.default_rng(0).standard_normal((40, 3))
    return store(tmp_path / "source.npz", X, np.arange(40) % 2).read_bytes()


@pytest.mark.parametrize("folder", ["$MMPCA_MINE", "${MMPCA_MINE}", "$MMPCA_MINE/inner", "${MMPCA_MINE}/inner"])
def test_folders_that_a_variable_names(folder, data, tmp_path, monkeypatch):
    monkeypatch.setenv("MMPCA_MINE", str(tmp_path / "data"))
    place = tmp_path / "data" / folder.partition("/")[2] / NAME
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    assert located(section(folder)) == str(place)


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_an_absent_file_is_fetched_once_under_its_name(kind, data, tmp_path, limits):
    limits.download_piece_bytes = 100
    folder = tmp_path / "data" if kind == "local" else f"memory://{tmp_path.name}-fetched"
    with serving(data) as (address, asked):
        for _ in range(2):
            place = located(section(folder, address))
            assert place == f"{folder}/{NAME}" and storage.read_bytes(place) == data
        assert asked == ["/elsewhere/other%20name.npz?version=2"]
    assert storage.names_in(str(folder)) == [NAME]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"status": 404}, "HTTPError: 404 Client Error: Not Found"),
        ({"length": 100_000}, "IncompleteRead"),
        (None, "Connection refused"),
    ],
)
def test_a_network_that_fails_is_one_sentence(answer, reason, data, tmp_path):
    """Nothing is left of what did not come whole."""
    with serving(data, **(answer or {})) as (address, _):
        if answer is not None:
            error = failing(tmp_path / "data", address)
    if answer is None:
        error = failing(tmp_path / "data", address)
    assert error.startswith(f"{NAME} is not in {tmp_path}/data, and the file {address} could not be fetched (")
    assert reason in error and "Put the file there by hand, or try again with a connection to 127.0.0.1:" in error
    assert not list((tmp_path / "data").iterdir())


def failing(folder, address):
    with pytest.raises(AccessError) as caught:
        located(section(folder, address))
    return str(caught.value)


def test_a_disk_that_fails_is_not_the_network(data, tmp_path):
    (tmp_path / "data").write_text("a file")
    with serving(data) as (address, _), pytest.raises(AccessError, match=r"^Cannot write .*/data/rows.npz: "):
        located(section(tmp_path / "data", address))


@pytest.mark.parametrize("scaled", [False, True])
def test_a_data_set_of_openml(scaled, tmp_path, monkeypatch):
    """Numbers as they are, or from -1 to 1 as LIBSVM's collection has them; other columns as indicators."""
    frame = pd.DataFrame({"a": [1.0, 3.0, 2.0], "b": [0, 0, 0], "c": pd.Categorical(["x", "y", "x"])})
    asked = []

    def fetch_openml(data_id, *, cache, **_settings):
        assert not cache  # which would be a copy in the home folder
        asked.append(data_id)
        return SimpleNamespace(data=frame, target=pd.Series(["good", "bad", "good"], dtype="category"))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    place = located(section(tmp_path, "openml:59?scale=libsvm" if scaled else "openml:59"))
    found = pq.read_table(place).to_pydict()
    assert asked == [59] and found.pop("label") == ["good", "bad", "good"]
    if scaled:
        assert found == {"f0": [-1, 1, 0], "f1": [0, 0, 0], "f2": [1, -1, 1], "f3": [-1, 1, -1]}
    else:
        assert found == {"f0": [1, 3, 2], "f1": [0, 0, 0], "f2": [1, 0, 1], "f3": [0, 1, 0]}


@pytest.mark.parametrize("uri", ["../rows.npz", "a/../../rows.npz", "..", "%2e%2e/rows.npz", "a\\..\\..\\rows.npz"])
@pytest.mark.parametrize("download", [None, "openml:59"])
def test_a_data_set_stays_in_its_folder(uri, download, data, tmp_path):
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "rows.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"leaves the folder of dataset.data_dir"):
        located(DatasetConfig(uri=uri, data_dir=str(tmp_path / "data"), download=download))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "rows.npz", "source.npz"]


@pytest.mark.parametrize(
    ("name", "download"),
    [
        ("evil.pth", "http://127.0.0.1:9/x"),
        ("authorized_keys", "http://127.0.0.1:9/x"),
        ("a.yaml", "http://127.0.0.1:9/x"),
    ],
)
def test_only_tables_are_fetched(name, download, tmp_path):
    with pytest.raises(InputError, match=r"must be called \*\."):
        located(DatasetConfig(uri=name, data_dir=str(tmp_path), download=download))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("variable", ["SECRET", "PATH", "AWS_SECRET_ACCESS_KEY", "XMMPCA_DATA", "HOMES"])
def test_other_variables_stand_for_nothing(variable, tmp_path, monkeypatch):
    monkeypatch.setenv(variable, "hunter2")
    with pytest.raises(InputError, match=r"only HOME and those that begin with MMPCA_") as caught:
        located(DatasetConfig(uri=NAME, data_dir=f"${variable}"))
    assert variable in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize("value", ["{}/hunter2", "hunter2", "memory://hunter2", "s4://hunter2"])
@pytest.mark.parametrize("download", [None, "http://127.0.0.1:9/x.npz"])
@pytest.mark.parametrize("content", [None, b"no archive"])
def test_no_message_shows_the_value_of_a_variable(value, download, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MMPCA_MINE", value.format(tmp_path))
    if content and "hunter2" in value and ":" not in value:
        storage.write_bytes(f"hunter2/{NAME}", content)
    config = {"dataset": {"uri": NAME, "data_dir": "$MMPCA_MINE", "download": download}, "methods": "pca",
              "n_components": 2, "output": str(tmp_path / "out")}  # fmt: skip
    for attempt in (preview, open_and_close):
        with pytest.raises(InputError) as caught:
            attempt(parse_config(config, "the test"))
        assert "$MMPCA_MINE" in str(caught.value) and "hunter2" not in str(caught.value)


PLANNING = """
import os, sys
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
seen = []
def watch(event, args):
    writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING and args[0] != os.devnull
    changes = event in {"os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate", "os.rmdir"}
    connects = event in {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen"}
    if (writes or changes or connects) and "__pycache__" not in str(args):  # numba's, for kernels that it compiles
        seen.append(f"{event} {args}")
sys.path.insert(0, sys.argv[1])
from mmpca_dist.errors import InputError
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.runs.evaluation_stages import preview_evaluation
from mmpca_dist.runs.stages import preview
sys.addaudithook(watch)
for path in sys.argv[2:]:
    for function in (preview, preview_evaluation):
        try:
            function(load_config(path)).rows()
        except InputError as error:
            print(error)
print("SEEN", seen)
"""


def test_a_plan_fetches_and_writes_nothing(data, tmp_path):
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    ingest(tmp_path / "source.npz", tmp_path / "rows.zarr")
    frame = pd.DataFrame(X, columns=list("abc")).assign(label=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    texts = {
        "zarr": "dataset: {uri: rows.zarr}",
        "parquet": "dataset: {uri: rows.parquet}",
        "npz": "dataset: {uri: source.npz}",
        "absent": "dataset: {uri: rows.npz, data_dir: data, download: 'http://127.0.0.1:9/rows.npz'}",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(f"{text}\nmethods: [pca, m-pca2]\nn_components: 2\noutput: out\n")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-B", "-c", PLANNING, str(ROOT), *[f"{name}.yaml" for name in texts]],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "There is no rows.npz in data, the folder of dataset.data_dir. A run fetches it from "
        "http://127.0.0.1:9/rows.npz; a plan does not. Put it there first."
    ] * 2 + ["SEEN []"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_the_data_of_libsvm_are_those_of_uci_scaled(real_data):
    """So that what is fetched is what published figures are of."""
    (raw, y), (scaled, labels) = real_data("ionosphere_raw"), real_data("ionosphere")
    found = np.stack([_between_minus_one_and_one(column) for column in raw.T], axis=1)
    np.testing.assert_allclose(found, scaled, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(y, labels)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            "ftp://host/file",
            "download must be openml:NUMBER, openml:NUMBER?scale=libsvm, or the http(s) address of a file, such as",
        ),
        (
            "https://",
            "download must be openml:NUMBER, openml:NUMBER?scale=libsvm, or the http(s) address of a file, such as",
        ),
        ("openml:59?scale=other", "download must be openml:NUMBER, openml:NUMBER?scale=libsvm, or the http(s) address"),
        ("https://user:secret@host/file", "An address that begins with https:// carries credentials"),
    ],
)
def test_what_is_no_address_of_a_file(address, expected):
    with pytest.raises(ConfigError) as caught:
        parse_model(DatasetConfig, {"uri": NAME, "data_dir": "data", "download": address}, "the test")
    assert expected in str(caught.value) and "user:secret" not in str(caught.value)


def test_a_file_with_another_hash_is_refused_and_not_kept(data, tmp_path):
    right, wrong = hashlib.sha256(data).hexdigest(), "0" * 64
    with serving(data) as (address, _):
        fetched = DatasetConfig(uri=NAME, data_dir=str(tmp_path / "data"), download=address)
        with pytest.raises(InputError, match=r"is not the one of dataset\.download_hash: .*does not match"):
            located(fetched.model_copy(update={"download_hash": f"sha256:{wrong}"}))
        assert not list((tmp_path / "data").iterdir())
        place = located(fetched.model_copy(update={"download_hash": f"sha256:{right}"}))
    assert storage.read_bytes(place) == data
