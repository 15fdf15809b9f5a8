"""An ingest may die at any moment: readers see the old table or the new one, and the next ingest removes its traces."""

import json
import multiprocessing
import os
import signal
import threading

import fsspec
import numpy as np
import pytest
from helpers.dying import KilledError, Steps, ingest_and_die
from helpers.ingested import check_ingest, ingest

from mmpca_dist.errors import AccessError, InputError, OutputError
from mmpca_dist.ingest.destination import Destination
from mmpca_dist.runs.listing import clean
from mmpca_dist.stores import failures, storage
from mmpca_dist.tables.compose import open_dataset

OLD, NEW = (f"synthetic:gaussian?n=40&d=4&seed={seed}" for seed in (1, 2))
"""Tables of one shape, so that chunks of the one would pass for chunks of the other."""
MOST = 60
"""More steps than any ingest here makes."""


def rows_of(uri):
    dataset = open_dataset(uri)
    return dataset.read_rows(0, dataset.n_rows)


def state_of(place):
    """Return which table readers find: None, or 0 for the old and 1 for the new one."""
    try:
        found = rows_of(place)
    except InputError:
        return None
    (which,) = [i for i, uri in enumerate((OLD, NEW)) if np.array_equal(found, rows_of(uri))]
    return which


def killed(last, place, overwrite):
    """Ingest the new table in another process, and tell whether that was killed after so many steps."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["mmpca_dist.ingest.job", "mmpca_dist.tables.readers.built_in_tables"])
    process = context.Process(target=ingest_and_die, args=(last, NEW, place, overwrite, dict(os.environ)))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.parametrize("way", ("ingest", "clean", "check"))
@pytest.mark.e2e
def test_killed_as_it_replaces_a_group_on_a_disk(tmp_path, way):
    """``kill -9`` between the two renames leaves no group at the destination; the next command puts it back."""
    seen, place = [], tmp_path / "a.zarr"
    for last in range(MOST):
        storage.remove(str(place))
        ingest(OLD, place)
        if not killed(last, place, True):
            break
        seen.append(state_of(place))
        if way == "ingest":
            ingest(NEW, place, overwrite=True)
            assert state_of(place) == 1
        elif way == "check":
            with pytest.raises(OutputError, match="Zarr group at"):
                check_ingest(NEW, place)
            assert state_of(place) == (seen[-1] or 0)
        elif storage.names_in(str(tmp_path)) != ["a.zarr"]:
            clean(str(tmp_path))
            assert state_of(place) == (seen[-1] or 0)
        assert storage.names_in(str(tmp_path)) == ["a.zarr"]
    assert state_of(place) == 1 and storage.names_in(str(tmp_path)) == ["a.zarr"]
    assert seen == sorted(seen, key=lambda one: (one == 1, one is None))  # the old one, for a moment none, the new one
    assert seen.count(None) == 1 and {0, 1} < set(seen)


@pytest.mark.e2e
def test_killed_as_it_writes_a_new_group_on_a_disk(tmp_path):
    seen, place = [], tmp_path / "a.zarr"
    for last in range(MOST):
        storage.remove(str(place))
        if not killed(last, place, False):
            break
        seen.append(state_of(place))
        if seen[-1] is None:
            ingest(NEW, place)
        else:
            with pytest.raises(OutputError, match="Zarr group at"):
                ingest(NEW, place)
        assert storage.names_in(str(tmp_path)) == ["a.zarr"] and state_of(place) == 1
    assert {None, 1} == set(seen)


@pytest.mark.e2e
def test_what_was_written_since_the_kill_is_not_replaced(tmp_path):
    """Nor is the group that would have been put back lost."""
    place = tmp_path / "a.zarr"
    for last in range(MOST):
        storage.remove(str(place))
        ingest(OLD, place)
        assert killed(last, place, True)
        if not place.exists():
            break
        ingest(NEW, place, overwrite=True)
    place.mkdir()
    (place / "letter.txt").write_text("keep me")
    for _ in range(2):
        with pytest.raises(OutputError, match=r"a\.zarr\.partial/old is the group that was at .* Move one of them"):
            ingest(NEW, place, overwrite="any")
        assert "left alone" in str(clean(str(tmp_path))[0])
    assert (place / "letter.txt").exists()
    np.testing.assert_array_equal(rows_of(tmp_path / "a.zarr.partial/old"), rows_of(OLD))
    place.rename(tmp_path / "elsewhere")
    clean(str(tmp_path))
    assert storage.names_in(str(tmp_path)) == ["a.zarr", "elsewhere"] and state_of(place) == 0


@pytest.fixture(params=["folder_in_memory", pytest.param("bucket", marks=pytest.mark.slow)], ids=["memory", "s3"])
def folder(request):
    return request.getfixturevalue(request.param)


def die_after(last, folder, monkeypatch):
    """Let every change of a store after so many fail, in this process: nothing that it does afterwards counts."""

    def die():
        raise KilledError

    monkeypatch.setenv("MMPCA_STORAGE_PATIENCE", "0.001")
    steps, lock = Steps(last, die), threading.Lock()
    if folder.startswith("memory:"):
        memory = type(fsspec.filesystem("memory"))
        for name in ("pipe_file", "rm_file"):
            monkeypatch.setattr(memory, name, steps.before(getattr(memory, name)))
        return steps
    repeat, repeat_async = failures.patiently, failures.patiently_async

    def count(what):
        if what.startswith(("write ", "create ", "remove ")):
            with lock:
                steps.count()

    def counted(what, operation):
        count(what)
        return repeat(what, operation)

    async def counted_async(what, operation):
        count(what)
        return await repeat_async(what, operation)

    monkeypatch.setattr(failures, "patiently", counted)
    monkeypatch.setattr(failures, "patiently_async", counted_async)
    return steps


def objects(folder):
    return [name for name, *_ in storage.list_objects(folder)]


@pytest.mark.parametrize("replaces", [True, False], ids=["replaced", "new"])
@pytest.mark.e2e
def test_dead_before_any_change_of_a_store(folder, replaces, monkeypatch):
    """Readers find the whole old table or the whole new one at every moment; every trace goes with the next ingest."""
    seen, place = [], f"{folder}/a.zarr"
    for last in range(MOST):
        storage.remove(place)
        if replaces:
            ingest(OLD, place)
        with monkeypatch.context() as patched:
            steps = die_after(last, folder, patched)
            try:
                ingest(NEW, place, overwrite=replaces)
            except KilledError:
                pass
            else:
                assert steps.made <= last
                break
        seen.append(state_of(place))
        if replaces or seen[-1] is None:
            ingest(NEW, place, overwrite=replaces)
        else:
            with pytest.raises(OutputError, match="Zarr group at"):
                ingest(NEW, place)
        assert state_of(place) == 1
        assert storage.names_in(folder) == ["a.zarr"]
        assert len(storage.names_in(place)) == (2 if replaces else 3)
    assert state_of(place) == 1
    assert seen == sorted(seen, key=lambda one: one == 1)
    assert set(seen) == ({0, 1} if replaces else {None, 1})


def test_only_what_the_dead_ingest_wrote_is_removed(folder, monkeypatch):
    """Objects of others that have come to the same prefix meanwhile stay."""
    place = f"{folder}/a.zarr"
    with monkeypatch.context() as patched, pytest.raises(KilledError):
        die_after(5, folder, patched)
        ingest(NEW, place)
    storage.write_bytes(f"{place}/letter.txt", b"keep me")
    assert any(name.startswith("a.zarr/X/") for name in objects(folder))
    (cleaned,) = clean(folder)
    assert "put right" in str(cleaned) and cleaned.n_bytes > 0
    assert objects(folder) == ["a.zarr/letter.txt"]


def test_a_store_that_stops_answering_costs_no_table(folder, monkeypatch):
    """What the group at the destination says of itself is unknown then, and not that it is of another ingest."""
    place = f"{folder}/a.zarr"
    ingest(OLD, place)
    written = []
    with monkeypatch.context() as patched:
        write, read = storage.write_bytes, storage.read_bytes

        def write_bytes(uri, data):
            write(uri, data)
            written.append(uri)

        def read_bytes(uri):
            if uri == f"{place}/zarr.json" in written:
                raise AccessError(f"Cannot read {uri}: no answer came in time.")
            return read(uri)

        patched.setattr(storage, "write_bytes", write_bytes)
        patched.setattr(storage, "read_bytes", read_bytes)
        with pytest.raises(AccessError, match="no answer"):
            ingest(NEW, place, overwrite=True)
    assert state_of(place) == 1
    with pytest.raises(OutputError, match="Zarr group at"):
        ingest(NEW, place)  # which tidies up, too
    assert state_of(place) == 1 and storage.names_in(folder) == ["a.zarr"] and len(storage.names_in(place)) == 2


def test_an_ingest_that_was_taken_for_dead_ends(tmp_path, limits):
    """It was asleep, say: another has tidied its work by now, which is told in one sentence."""
    place = tmp_path / "a.zarr"
    lease = tmp_path / "a.zarr.partial/lease-000001.json"

    def sleep(done, total):
        owner = json.loads(lease.read_text())
        lease.write_text(json.dumps({**owner, "token": "another"}))
        limits.lease_beat = -1.0

    with pytest.raises(OutputError, match="no longer this run's"):
        ingest("synthetic:gaussian?n=4000&d=8", place, chunk_bytes=1000, progress=sleep)
    assert not place.exists()
    lease.write_text('{"dead": 1}')
    limits.lease_beat, limits.lease_expiry = 0.1, 0.1
    assert Destination.of(str(place)).recover()
    assert storage.names_in(str(tmp_path)) == []
