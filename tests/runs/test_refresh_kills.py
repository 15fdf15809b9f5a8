"""A refresh that is killed anywhere: readers have the old models or the new ones, and the next one mends it."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zarr
from helpers.leases import late_beats, write_owner
from helpers.refreshing import X, Y, bits, fill, fit, no_pictures, write
from helpers.runs import refreshed
from helpers.tables import write_npz

from mmpca_dist import load_model
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.events import Callback
from mmpca_dist.stores import storage

pytestmark = pytest.mark.usefixtures("no_report")


class KilledError(Exception):
    """Nothing that the library knows how to handle."""


class Writes:
    """Counts everything that is written or removed, and fails at the k-th, before it or when half of it is there."""

    def __init__(self, monkeypatch, at=None, half=False):
        self.at, self.half, self.count = at, half, 0
        put, write, remove = zarr.storage.LocalStore.set, storage.write_bytes, storage.remove_children

        async def failing_put(store, key, value):
            if self._dies():
                if self.half:
                    await put(store, key, value[: len(value) // 2])
                raise KilledError
            await put(store, key, value)

        def failing_write(uri, data):
            if self._dies():
                raise KilledError
            write(uri, data)

        def failing_remove(uri, names):
            if self._dies():
                if self.half:
                    remove(uri, list(names)[:1])
                raise KilledError
            remove(uri, names)

        monkeypatch.setattr(zarr.storage.LocalStore, "set", failing_put)
        monkeypatch.setattr(storage, "write_bytes", failing_write)
        monkeypatch.setattr(storage, "remove_children", failing_remove)

    def _dies(self):
        """From the k-th on, all fail: other threads of a process die with it."""
        self.count += 1
        return self.at is not None and self.count >= self.at


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run, an inbox, and what comes of both undisturbed."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        no_pictures(patch)
        base = fit(folder / "base", write("npz", folder / "first", X[:160], Y[:160]), methods=["fisher"])
        inbox = Path(fill(folder / "inbox", names=["a"]))
        refreshed(base, inbox, folder / "live")  # there are models already
        fill(inbox, names=["b", "c"])
        shutil.copytree(folder / "live", folder / "before")
        with pytest.MonkeyPatch.context() as counting:
            writes = Writes(counting)
            refreshed(base, inbox, folder / "live")
        return base, inbox, folder / "before", bits(folder / "live"), writes.count


@pytest.mark.parametrize(("half", "step"), [
    pytest.param(False, 1, id="before", marks=pytest.mark.slow),
    pytest.param(True, 2, id="half", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_kill_at_any_write_changes_nothing_of_the_result(half, step, small, tmp_path):
    base, inbox, before, expected, writes = small
    old = bits(before)
    assert writes > 40
    for at in range(1, writes + 1, step):
        live = tmp_path / str(at)
        shutil.copytree(before, live)
        with pytest.MonkeyPatch.context() as patch:
            Writes(patch, at, half)
            with pytest.raises(KilledError):
                refreshed(base, inbox, live)
        # Readers have the old models or the new ones, whole.
        assert bits(live) in (old, expected), at
        load_model(str(live), "fisher").transform(X)
        refreshed(base, inbox, live)
        assert bits(live) == expected, at
        assert not refreshed(base, inbox, live)["solved"]
        shutil.rmtree(live)


@pytest.mark.e2e
def test_a_kill_during_the_first_refresh(small, tmp_path):
    base, inbox, *_ = small
    with pytest.MonkeyPatch.context() as patch:
        writes = Writes(patch)
        refreshed(base, inbox, tmp_path / "whole")
    expected = bits(tmp_path / "whole")
    for at in range(1, writes.count + 1, 5):
        with pytest.MonkeyPatch.context() as patch:
            Writes(patch, at)
            with pytest.raises(KilledError):
                refreshed(base, inbox, tmp_path / str(at))
        refreshed(base, inbox, tmp_path / str(at))
        assert bits(tmp_path / str(at)) == expected, at
        shutil.rmtree(tmp_path / str(at))


KILL = """
import os, signal, sys
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.refresh import RefreshConfig, refresh

class Kill(Callback):
    def on_pass(self, stage, name):
        self.end(name)

    def on_stage_start(self, stage):
        self.end(stage)

    def end(self, word):
        if word == sys.argv[4]:
            os.kill(os.getpid(), signal.SIGKILL)

run, new, output = sys.argv[1:4]
refresh(RefreshConfig(run=run, new=new, output=output), [Kill()])
"""


@pytest.mark.parametrize("when", [
    pytest.param("b.npz", marks=pytest.mark.slow),
    pytest.param("solve", marks=pytest.mark.e2e),
    pytest.param("report", marks=pytest.mark.slow),
])  # fmt: skip
def test_kill_9(when, small, tmp_path):
    """Nothing of the process is left to clean up."""
    base, inbox, before, expected, _ = small
    live = shutil.copytree(before, tmp_path / "live")
    ended = subprocess.run([sys.executable, "-c", KILL, base, str(inbox), str(live), when], timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert bits(live) == bits(before)
    refreshed(base, inbox, live)
    assert bits(live) == expected


@pytest.mark.e2e
def test_an_inbox_that_changes_after_a_kill(small, tmp_path):
    """What was begun about rows that are gone is not taken for something else."""
    base, inbox, _, _, writes = small
    other = tmp_path / "inbox"
    shutil.copytree(inbox, other)
    write_npz(other / "b.npz", X[:33], Y[:33])
    refreshed(base, other, tmp_path / "undisturbed")
    for at in range(2, writes, 9):
        live = tmp_path / str(at)
        with pytest.MonkeyPatch.context() as patch:
            Writes(patch, at)
            with pytest.raises(KilledError):
                refreshed(base, inbox, live)
        taken = RunDirectory(str(live)).record("take") or {"generation": 0}
        if taken["generation"] > 1:
            with pytest.raises(InputError, match=r"b\.npz is not what was taken up"):
                refreshed(base, other, live)
            continue
        refreshed(base, other, live)
        assert bits(live) == bits(tmp_path / "undisturbed"), at


@pytest.mark.parametrize("last", ["reduce", "report"])
def test_one_that_was_taken_over_records_nothing_more(last, small, tmp_path, monkeypatch):
    """Not even where that happens after a stage was recorded, and before what the stage belongs to."""
    base, inbox, before, _, _ = small
    live = shutil.copytree(before, tmp_path / "live")
    records = {path.name: path.read_bytes() for path in (live / "records").iterdir()}

    class TakenOver(Callback):
        def on_stage_end(self, stage, manifest, reused):
            if stage == last:
                write_owner(live, number=99)

    late_beats(monkeypatch)
    with pytest.raises(OutputError, match="has taken it over"):
        refreshed(base, inbox, live, TakenOver())
    found = {path.name: path.read_bytes() for path in (live / "records").iterdir()}
    assert found["refresh.json"] == records["refresh.json"]
    assert (found["take.json"] == records["take.json"]) == (last == "reduce")
