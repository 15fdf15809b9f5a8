"""What has no checksum is read until two readings agree, over connections that are not encrypted; not for ever."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from mmpca_dist.datasets import patience, storage
from mmpca_dist.datasets.object_stores import PatientFileSystem
from mmpca_dist.datasets.zarr_stores import PatientStore
from mmpca_dist.errors import AccessError


def agreed(read):
    return patience.agreed("read s3://b/x", read, lambda: True)


def agreed_async(read):
    async def wait():
        return read()

    return asyncio.run(patience.agreed_async("read s3://b/x", wait, lambda: True))


EITHER = pytest.mark.parametrize("agreement", [agreed, agreed_async])


@EITHER
def test_two_readings_in_a_row_count(agreement):
    assert agreement(iter([1, 2, 1, 3, 3, 4]).__next__) == 3


@EITHER
def test_readings_that_never_agree_end_with_a_sentence(agreement, monkeypatch):
    monkeypatch.setenv("MMPCA_STORAGE_PATIENCE", "0.2")
    with pytest.raises(AccessError, match="Cannot read s3://b/x: in 0 s no two answers in a row were alike"):
        agreement(itertools.count().__next__)


@EITHER
def test_slow_readings_have_three_chances(agreement, monkeypatch):
    monkeypatch.setenv("MMPCA_STORAGE_PATIENCE", "1e-9")
    assert agreement(iter([1, 2, 3, 3]).__next__) == 3


class Changing:
    """A file system of which others change what is listed all the time."""

    def __init__(self):
        self._times = itertools.count()

    def invalidate_cache(self):
        pass

    def unstrip_protocol(self, path):
        return f"http://{path}"

    def find(self, path, detail=False):
        return [f"{path}/{next(self._times)}"]

    def cat_file(self, path, start=None, end=None):
        return b'{"at": %d}' % next(self._times)


@pytest.fixture
def changing(monkeypatch):
    monkeypatch.setenv("MMPCA_STORAGE_PATIENCE", "0.2")
    fs = PatientFileSystem(Changing(), "http")
    monkeypatch.setattr(storage, "filesystem", lambda uri: (fs, "b"))
    return fs


def test_a_listing_that_changes_all_the_time(changing):
    """It is not tried again by those who are patient with networks."""
    with pytest.raises(AccessError, match=r"Cannot list http://b: .* Something goes on writing there"):
        storage.list_objects("http://b")


def test_a_record_that_changes_all_the_time_is_not_called_damaged(changing):
    with pytest.raises(AccessError, match="no two answers in a row were alike"):
        storage.read_json("http://b")


def test_a_listing_of_zarr_that_changes_all_the_time(changing, monkeypatch):
    times = itertools.count()

    class Store:
        path, fs = "b", changing._fs

        async def list_dir(self, prefix):
            yield f"{prefix}/{next(times)}"

    store = PatientStore.__new__(PatientStore)
    store._store, store._protocol = Store(), "http"

    async def names():
        return [name async for name in store.list_dir("X")]

    with pytest.raises(AccessError, match="Cannot list http://b/X: "):
        asyncio.run(names())
