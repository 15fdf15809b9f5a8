"""One live run a folder: a second is refused, a dead one is taken over, at once or when it has not been heard of."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import psutil
import pytest
from helpers.leases import late_beats, write_owner
from helpers.tables import make_config

import mmpca_dist.stores.lease as lease_module
from mmpca_dist.errors import AccessError, OutputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import open_job
from mmpca_dist.jobs.journal import Journal
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import Owner, held, holder

HOLD = """
import sys, time
from mmpca_dist.stores.lease import held
with held(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def soon(limits):
    """Beats and expiry within the patience of a test."""
    limits.lease_beat, limits.lease_expiry = 0.1, 0.5


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_a_second_run_is_refused_while_the_first_lives(where, tmp_path):
    uri = str(tmp_path / "run") if where == "disk" else f"memory://lease-{tmp_path.name}"
    with held(uri):
        with pytest.raises(OutputError, match=rf"in use by process {os.getpid()} on .* last said so \d s ago"):
            held(uri).__enter__()
        assert holder(uri).pid == os.getpid()
    assert holder(uri) is None
    with held(uri):
        pass
    assert storage.names_in(uri) == []


def test_of_many_that_try_one_holds(tmp_path):
    held_by, refused = [], []

    def attempt(number):
        try:
            with held(str(tmp_path)):
                held_by.append(number)
                time.sleep(0.5)
        except OutputError:
            refused.append(number)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(attempt, range(16)))
    assert len(held_by) == 1 and len(refused) == 15


def test_a_dead_process_is_taken_over_at_once(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(OutputError, match=f"process {process.pid}"):
        held(str(tmp_path)).__enter__()
    process.send_signal(signal.SIGKILL)
    process.wait()
    notes = []
    with held(str(tmp_path), notes.append):
        assert storage.names_in(str(tmp_path)) == ["lease-000002.json"]
    assert len(notes) == 1 and f"from process {process.pid}" in notes[0]


def test_a_process_number_that_is_used_again_is_another_process(tmp_path):
    owner = replace(Owner.here(), token="other", started=0.0)  # noqa: S106  (no password)
    storage.write_json(f"{tmp_path}/lease-000001.json", asdict(owner))
    with held(str(tmp_path)):
        pass


def test_elsewhere_what_was_not_heard_of_is_watched_before_it_is_taken_over(soon, tmp_path):
    """A beat from the future locks nobody out."""
    for ago in (10, -86400):
        tmp_path.mkdir(exist_ok=True)
        owner = write_owner(tmp_path, beat=time.time() - ago)
        notes = []
        with held(str(tmp_path), notes.append):
            assert storage.names_in(str(tmp_path)) == ["lease-000002.json"]
        assert "waiting" in notes[0] and str(owner) in notes[1]


def test_elsewhere_a_wrong_clock_is_no_death(soon, tmp_path):
    """It beats on, though its clock is an hour late."""

    def beat(_seconds):
        write_owner(tmp_path, beat=time.time() - 3600, beats=7)

    write_owner(tmp_path, beat=time.time() - 3600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease_module.time, "sleep", beat)
        with pytest.raises(OutputError, match=r"in use by process .* on far"):
            held(str(tmp_path)).__enter__()


def test_a_clock_that_is_set_is_no_death(tmp_path, monkeypatch):
    """Nor does it make the dead live: what psutil says of the begin of a process moves with the clock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    began = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: began(self) + 3600)
    try:
        with pytest.raises(OutputError, match=f"process {process.pid}"):
            held(str(tmp_path)).__enter__()
    finally:
        process.kill()
        process.wait()
    with held(str(tmp_path)):
        pass


HALF, OTHER = b'{"token": "ab', b'{"token": "ab", "new": 1}'


def test_a_lease_that_cannot_be_read_ends(soon, tmp_path):
    """Its owner died as it wrote it, on a file system where that can be seen, or when the power went."""
    for content in (b"", HALF, b"[]", OTHER):
        storage.write_bytes(f"{tmp_path}/lease-000001.json", content)
        notes = []
        assert holder(str(tmp_path)) is None
        with held(str(tmp_path), notes.append):
            assert storage.names_in(str(tmp_path)) == ["lease-000002.json"]
        assert "was in use by a process whose lease cannot be read" in notes[0] and len(notes) == 2


def test_a_lease_that_could_not_be_read_and_is_renewed_holds(soon, tmp_path, monkeypatch):
    for renew in (lambda: write_owner(tmp_path), lambda: (tmp_path / "lease-000001.json").write_bytes(OTHER)):
        (tmp_path / "lease-000001.json").write_bytes(HALF)
        monkeypatch.setattr(lease_module.time, "sleep", lambda _seconds, renew=renew: renew())
        with pytest.raises(OutputError, match="is in use by"):
            held(str(tmp_path)).__enter__()


def test_a_late_owner_looks_before_it_goes_on_whatever_the_clock_says(tmp_path, monkeypatch):
    with held(str(tmp_path)) as lease:
        write_owner(tmp_path, number=2)
        lease.check()  # it has just said that it lives: nobody takes over so soon
        late_beats(monkeypatch)
        now = time.time()
        monkeypatch.setattr(lease_module.time, "time", lambda: now - 3600)
        with pytest.raises(OutputError, match="has taken it over"):
            lease.check()


def test_elsewhere_what_was_just_heard_of_is_refused(tmp_path):
    write_owner(tmp_path)
    with pytest.raises(OutputError, match="on far"):
        held(str(tmp_path)).__enter__()


def test_a_run_that_slept_finds_that_its_lease_was_taken(soon, tmp_path):
    with held(str(tmp_path)) as lease:
        lease.check()
        write_owner(tmp_path, number=2)
        deadline = time.monotonic() + 20
        with pytest.raises(OutputError, match=r"no longer this run's: .* on far.* has taken it over"):
            while time.monotonic() < deadline:
                lease.check()
                time.sleep(0.05)
    assert storage.names_in(str(tmp_path)) == ["lease-000002.json"], "the other's lease stays"


def test_a_lease_that_cannot_be_renewed_is_lost_after_a_while(soon, tmp_path, monkeypatch):
    def fail(uri, data):
        raise AccessError("the disk is away")

    with held(str(tmp_path)) as lease:
        monkeypatch.setattr(storage, "write_bytes", fail)
        lease.check()
        deadline = time.monotonic() + 20
        with pytest.raises(OutputError, match="could not be renewed"):
            while time.monotonic() < deadline:
                lease.check()
                time.sleep(0.05)


def test_beats_are_written(soon, tmp_path):
    with held(str(tmp_path)):
        deadline = time.monotonic() + 20
        while holder(str(tmp_path)).beats < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize("error", [None, AccessError("the disk"), OutputError("refused")], ids=repr)
def test_a_fresh_run_whose_folder_was_taken_over_leaves_it_alone(error, tmp_path):
    """What is there is the new owner's by now, whatever ends the old one."""
    config = make_config(tmp_path / "out", "bundled:iris", methods=["pca"], n_components=2)
    words = "has taken it over" if error is None else str(error)
    with pytest.raises(type(error or OutputError()), match=words), open_job(config, Callback()) as job:
        write_owner(tmp_path / "out", 2)
        (tmp_path / "out" / "scratch").mkdir()
        if error is not None:
            raise error
        job.lease.renew()
        job.progress("reduce")(1, 2)
    assert (tmp_path / "out" / "run.json").exists() and (tmp_path / "out" / "scratch").exists()


def test_what_died_while_it_claimed_the_folder_is_cleared_away(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".run.json.0123abcd.partial").write_text("{")
    config = make_config(tmp_path / "out", "bundled:iris", methods=["pca"], n_components=2)
    with open_job(config, Callback()) as job:
        assert job.run.exists
    assert not list((tmp_path / "out").glob("*.partial"))


def test_what_is_logged_while_the_journal_is_stored_is_noted(tmp_path, monkeypatch):
    """Another attempt after a fault of the store, say; the lease logs too, from a thread of its own."""
    write, uri = storage.write_bytes, f"memory://journal-{tmp_path.name}"

    def failing_once(place, data):
        logging.getLogger("mmpca_dist.storage").warning("again in a moment")
        write(place, data)

    monkeypatch.setattr(storage, "write_bytes", failing_once)

    def keep():
        with Journal(uri, "key").kept() as journal:
            journal.on_stage_start("reduce")
            journal.on_stage_end("reduce", {}, reused=False)

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert "again in a moment" in storage.read_bytes(f"{uri}/events.jsonl").decode()


def test_a_lease_that_could_not_be_removed_does_not_lock_its_own_process_out(tmp_path, monkeypatch):
    def failing(*_):
        raise AccessError("the network")

    with pytest.MonkeyPatch.context() as patch, held(str(tmp_path / "run")):
        patch.setattr(storage, "remove", failing)
        write = (tmp_path / "run" / "lease-000001.json").read_text()
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "lease-000001.json").write_text(write)
    with held(str(tmp_path / "run")):
        assert holder(str(tmp_path / "run")).pid == os.getpid()


@pytest.mark.parametrize("error", [KeyboardInterrupt, AccessError])
def test_a_claim_that_is_broken_off_does_not_lock_its_own_process_out(error, tmp_path, monkeypatch):
    """The lease is written, its process goes on, and nobody renews the lease."""
    uri, create = str(tmp_path / "out"), storage.create_bytes

    def create_and_fail(*details):
        create(*details)
        raise error("as soon as it is written")

    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(storage, "create_bytes", create_and_fail)
        with held(uri):
            pytest.fail("it is held")
    with held(uri) as lease:
        assert lease.number == 2
