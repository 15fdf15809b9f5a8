"""What has no checksum is read until two readings agree, over connections that are not encrypted; not for ever."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from mmpca_dist.errors import AccessError
from mmpca_dist.stores import failures, storage
from mmpca_dist.stores.remote_files import PatientFileSystem
from mmpca_dist.stores.zarr_stores import PatientStore


def agreed(read):
    return failures.agreed("read s3://b/x", read, lambda: True)


def agreed_async(read):
    async def wait():
        return read()

    return asyncio.run(failures.agreed_async("read s3://b/x", wait, lambda: True))


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


class Store:
    """A store of Zarr's; ``answers`` gives the names in its one folder, or raises."""

    def __init__(self, answers):
        self._answers = answers

    async def list_dir(self, prefix):
        for name in self._answers():
            yield f"{prefix}/{name}"


def names_in(store):
    """Return what a patient store says is in its folder X."""
    patient = PatientStore.__new__(PatientStore)
    patient._store, patient._address, patient._prefix, patient._is_plain = store, "http://b", "", True

    async def names():
        return [name async for name in patient.list_dir("X")]

    return asyncio.run(names())


def test_a_listing_of_zarr_that_changes_all_the_time(changing):
    times = itertools.count()
    with pytest.raises(AccessError, match="Cannot list http://b/X: "):
        names_in(Store(lambda: [next(times)]))


class EveryOther:
    """A file system that fails at every second call."""

    def __init__(self, error):
        self._calls, self._error = itertools.count(), error

    def answers(self):
        if next(self._calls) % 2:
            raise self._error
        return ["a"]

    def find(self, path, detail=False):
        return self.answers()


def test_a_fault_costs_one_reading_not_all_that_must_agree(monkeypatch):
    """Two readings in one attempt would never both succeed."""
    monkeypatch.setenv("MMPCA_STORAGE_PATIENCE", "3")
    failing = EveryOther(ConnectionResetError())
    assert failing.find("b") == ["a"]  # so that the second of two readings fails
    with pytest.raises(ConnectionResetError):
        failing.find("b")
    assert PatientFileSystem(failing, "http").find("b") == ["a"]
    assert names_in(Store(failing.answers)) == ["X/a"]


@pytest.mark.parametrize(("error", "passes"), [(ConnectionResetError(), True), (RuntimeError(), False)])
def test_what_breaks_off_passes_and_what_is_not_known_is_tried_three_times(error, passes, limits):
    limits.first_pause = 0.0
    answers = iter([error] * 5 + ["whole"])

    def read():
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    if passes:
        assert failures.patiently("read x", read) == "whole"
    else:
        with pytest.raises(RuntimeError):
            failures.patiently("read x", read)
        assert len(list(answers)) == 3
