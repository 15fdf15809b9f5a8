"""Operations on remote stores are repeated while they fail for reasons that pass, each for itself."""

from __future__ import annotations

import asyncio

import pytest

from mmpca_dist.stores import failures
from mmpca_dist.stores.remote_files import PatientFileSystem
from mmpca_dist.stores.zarr_stores import PatientStore


class Flaky:
    """A file system, and a store of Zarr's, that fail at every second call."""

    def __init__(self):
        self._calls = 0

    def find(self, path):
        self._calls += 1
        if self._calls % 2:
            raise ConnectionResetError
        return ["a"]

    async def list_dir(self, prefix):
        for name in self.find(prefix):
            yield f"{prefix}/{name}"


def test_what_breaks_off_is_tried_again(limits):
    limits.first_pause = 0.0

    async def names():
        return [name async for name in PatientStore(Flaky(), "http://b", "").list_dir("X")]

    assert PatientFileSystem(Flaky(), "http").find("b") == ["a"]
    assert asyncio.run(names()) == ["X/a"]


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
