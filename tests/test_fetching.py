"""Data sets in a folder that an environment variable names, and files that are fetched into it."""

from __future__ import annotations

import http.server
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from evaluating import store

from mmpca_dist.datasets import storage
from mmpca_dist.errors import AccessError, ConfigError
from mmpca_dist.runs.config import parse_model
from mmpca_dist.runs.locating import _between_minus_one_and_one, located
from mmpca_dist.runs.sections import DatasetConfig

NAME = "rows.npz"


@contextmanager
def serving(data, *, status=200, length=None):
    """Yield the address of a file, and a list that gets an entry whenever it is asked for."""
    asked = []

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data) if length is None else length))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/elsewhere/other%20name.npz?version=2", asked
        server.shutdown()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return the bytes of a data set."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    X = np.random.default_rng(0).standard_normal((40, 3))
    return store(tmp_path / "source.npz", X, np.arange(40) % 2).read_bytes()


def section(folder, download=None):
    return DatasetConfig(uri=NAME, data_dir=str(folder), download=download)


@pytest.mark.parametrize("folder", ["$MY_DATA", "${MY_DATA}", "$MY_DATA/inner", "${MY_DATA}/inner"])
def test_folders_that_a_variable_names(folder, data, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_DATA", str(tmp_path / "data"))
    place = tmp_path / "data" / folder.partition("/")[2] / NAME
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    assert located(section(folder)) == str(place)


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_an_absent_file_is_fetched_once_under_its_name(kind, data, tmp_path, monkeypatch):
    monkeypatch.setattr("mmpca_dist.runs.locating.PIECE_BYTES", 100)
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
        ({"status": 404}, "HTTPError: HTTP Error 404: Not Found"),
        ({"length": 100_000}, "of 100000 bytes came"),
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

    def fetch_openml(data_id, **_settings):
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
