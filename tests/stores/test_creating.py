"""Exactly one of many that create an object at once succeeds, and what is there is whole and its own."""

import errno
import io
import os
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.resuming import Killed, die_half_way

from mmpca_dist.errors import AccessError
from mmpca_dist.stores import storage
from mmpca_dist.stores.storage import create_bytes

SIZE = 200_000


def content(writer):
    return bytes([writer]) * SIZE


def at(uri):
    fs, path = storage.filesystem(uri)
    return fs.cat_file(path)


@pytest.fixture(params=["local", "memory", "s3"])
def place(request, tmp_path):
    if request.param == "s3":
        return request.getfixturevalue("bucket") + "/locks"
    return str(tmp_path / "locks") if request.param == "local" else f"memory://{uuid.uuid4().hex}/locks"


def test_created_once(place):
    uri = f"{place}/deep/lock"
    assert create_bytes(uri, b"first")
    assert not create_bytes(uri, b"second")
    assert not create_bytes(uri, b"first")  # not even where it is the same
    assert at(uri) == b"first"
    storage.remove_children(f"{place}/deep", ["lock"])
    assert create_bytes(uri, b"third")
    assert at(uri) == b"third"


def test_one_of_sixteen_threads_wins(place):
    for attempt in range(2):
        uri, ready = f"{place}/lock{attempt}", threading.Barrier(16)

        def create(writer, uri=uri, ready=ready):
            ready.wait()
            return create_bytes(uri, content(writer))

        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(create, range(16)))
        assert won.count(True) == 1
        assert at(uri) == content(won.index(True))


@pytest.mark.parametrize("write", [create_bytes, storage.write_bytes])
def test_what_was_killed_half_way_is_nothing_to_readers(write, tmp_path):
    """Not even to those who take all that is in a folder, as readers of Parquet do."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3]}), sink)
    storage.write_bytes(str(tmp_path / "rows" / "part-0.parquet"), sink.getvalue())
    with pytest.raises(Killed):
        die_half_way(write, str(tmp_path / "rows" / "part-1.parquet"), sink.getvalue())
    assert len(list(tmp_path.rglob("*.partial"))) == 1
    assert pq.read_table(tmp_path / "rows").num_rows == 3
    assert not storage.exists(str(tmp_path / "rows" / "part-1.parquet"))
    assert storage.remove_partials(str(tmp_path)) == len(sink.getvalue())
    assert [path.name for path in tmp_path.rglob("*.*")] == ["part-0.parquet"]


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(AccessError, match="no space"):
        storage.write_bytes(str(tmp_path / "lock"), b"mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_file_systems_without_hard_links(number, tmp_path, monkeypatch):
    def refuse(*_args):
        raise OSError(number, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    uri = str(tmp_path / "lock")
    assert [create_bytes(uri, b"mine"), create_bytes(uri, b"yours")] == [True, False]
    assert at(uri) == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_link_whose_answer_was_lost_counts(tmp_path, monkeypatch):
    link = os.link

    def answer_lost(source, target):
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", answer_lost)
    assert create_bytes(str(tmp_path / "lock"), b"mine")


@pytest.mark.parametrize("fault", ["slowdown", "reset", "lost", "slow", "truncated", "upload"])
@pytest.mark.e2e
def test_an_object_is_created_in_spite_of_faults(fault, bucket, s3_proxy):
    s3_proxy.reset({0: fault})
    assert create_bytes(f"{bucket}/lock", b"mine")
    assert at(f"{bucket}/lock") == b"mine"
    s3_proxy.reset({0: fault})
    assert not create_bytes(f"{bucket}/lock", b"yours")
    assert at(f"{bucket}/lock") == b"mine"


def test_no_place_to_create_it_in(tmp_path, bucket):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AccessError, match="is a file where a folder belongs"):
        create_bytes(str(tmp_path / "file" / "lock"), b"mine")
    with pytest.raises(AccessError, match="bucket or container does not exist"):
        create_bytes(f"{bucket}-absent/lock", b"mine")
