"""Leases: one live run a folder, taken over when its owner is dead.

Leases are files ``lease-000001.json`` and so on in the folder of the run; the highest number holds. They are created
by conditional writes alone, which every disk and object store has, so two runs never hold the same number.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil

from mmpca_dist.errors import AccessError, MmpcaError, OutputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage

PREFIX = "lease-"
REMOVED = "its lease has been removed, as by somebody who removed the folder"
LEASE = re.compile(PREFIX + r"([0-9]{6}|[1-9][0-9]{6,})\.json")

log = logging.getLogger(__name__)
_ours: set[str] = set()
"""Tokens of the leases that this process holds."""


@dataclass(frozen=True)
class Owner:
    """Who holds a lease: a process of a machine, and when it last said that it lives."""

    token: str
    host: str
    machine: str
    """Where process numbers mean the same."""
    pid: int
    started: float
    """When the process began, by a clock of its machine that nobody sets: numbers of processes are used again."""
    since: float
    beat: float
    """Time of the last renewal, in seconds since 1970."""
    beats: int = 0

    @classmethod
    def here(cls) -> Owner:
        """Return this process."""
        now, pid = time.time(), os.getpid()
        return cls(uuid.uuid4().hex, socket.gethostname(), _machine(), pid, _started(pid), now, now)

    def __str__(self) -> str:
        if not self.machine:
            return "a process whose lease cannot be read"
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid} on {self.host}, since {since}"


def _machine() -> str:
    """Name where a process number means one process: a boot of a machine, and a container on it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{platform.node()} {int(psutil.boot_time())}"


def _started(pid: int) -> float:
    """Return when a process began, in ticks since the machine did, or raise a ``psutil.Error`` without such a process.

    psutil's own time changes when the clock is set.
    """
    try:
        return float(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except OSError:
        return psutil.Process(pid).create_time()


def _clock() -> float:
    """Return seconds of a clock that nobody sets; where the system has one, it goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass
class Lease:
    """A lease that this process holds, renewed by a thread of its own."""

    uri: str
    number: int
    owner: Owner
    _lost: str | None = None
    _renewed: float = field(default_factory=_clock)
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def is_lost(self) -> bool:
        """Whether another run holds the folder by now; reads the folder."""
        self.renew()
        return self._lost is not None

    def check(self, now: bool = False) -> None:
        """Raise an ``OutputError`` where another run has taken over, or the folder was removed; ``now`` reads it."""
        if now or _clock() - self._renewed > 3 * LIMITS.lease_beat:
            self.renew()  # this process was asleep, and the thread that renews may be so still
        if self._lost is not None:
            raise OutputError(f"{self.uri} is no longer this run's: {self._lost}.")

    @contextmanager
    def cleared(self, clear: Callable[[], object]) -> Iterator[None]:
        """Where the folder was removed, tell that in place of what follows; ``clear`` what it has got since."""
        try:
            yield
        except Exception:
            if self.is_lost and self._lost == REMOVED:
                with suppress(MmpcaError):
                    clear()
                self.check()
            raise

    def renew(self) -> None:
        """Renew the lease now; see whether it is lost."""
        if self._lost is not None:
            return
        begun = _clock()
        try:
            _, newest = _newest(self.uri)
            if newest is None or newest.token != self.owner.token:
                self._lost = f"{newest} has taken it over. What is finished is kept" if newest else REMOVED
                return
            renewed = replace(self.owner, beat=time.time(), beats=self.owner.beats + 1)
            storage.write_bytes(_uri_of(self.uri, self.number), storage.to_json(asdict(renewed)))
            self.owner, self._renewed = renewed, begun
        except AccessError as error:
            log.warning("Cannot renew the lease: %s", error)
            if _clock() - self._renewed > LIMITS.lease_expiry:
                self._lost = f"its lease could not be renewed for {LIMITS.lease_expiry:.0f} s"

    def _keep_renewing(self) -> None:
        while not self._stop.wait(LIMITS.lease_beat) and self._lost is None:
            try:
                self.renew()
            except Exception:  # or the lease would end, and nobody know
                log.warning("Cannot renew the lease", exc_info=True)


@contextmanager
def held(uri: str, on_note: Callable[[str], None] | None = None) -> Iterator[Lease]:
    """Hold the lease of a folder, and renew it; raise an ``OutputError`` while another process that lives holds it.

    ``on_note`` is told where it is taken over from a run that has died, or may have.
    """
    lease = _claimed(uri, on_note or (lambda message: None))
    thread = threading.Thread(target=lease._keep_renewing, name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease._stop.set()
        thread.join()
        _ours.discard(lease.owner.token)
        with suppress(MmpcaError):  # what cannot be removed expires
            storage.remove(_uri_of(uri, lease.number))
            storage.remove_children(uri, [])  # the folder, where nothing else is in it


def holder(uri: str) -> Owner | None:
    """Return who holds the lease of a folder and lives, as far as can be told without waiting."""
    _, owner = _newest(uri)
    return owner if owner is not None and _seems_alive(owner) else None


def _claimed(uri: str, on_note: Callable[[str], None]) -> Lease:
    while True:
        number, previous = _newest(uri)
        if previous is not None:
            _refuse_if_alive(uri, previous, on_note)
        lease = Lease(uri, number + 1, Owner.here())
        _ours.add(lease.owner.token)
        try:
            if not storage.create_bytes(_uri_of(uri, lease.number), storage.to_json(asdict(lease.owner))):
                _ours.discard(lease.owner.token)
                continue  # another run was faster: see who
            if previous is not None:
                on_note(f"Took {uri} over from {previous}, which has ended.")
                for older in _numbers(uri):
                    if older < lease.number:
                        storage.remove(_uri_of(uri, older))
        except BaseException:
            _ours.discard(lease.owner.token)  # nobody renews it, so this process may take it again
            raise
        return lease


def _refuse_if_alive(uri: str, owner: Owner, on_note: Callable[[str], None]) -> None:
    if _seems_alive(owner):
        ago = max(time.time() - owner.beat, 0)
        raise OutputError(
            f"{uri} is in use by {owner}; it last said so {ago:.0f} s ago. Wait for it to end, or choose another "
            "output."
        )
    if owner.machine == _machine():
        return
    pause = 1.5 * LIMITS.lease_beat
    on_note(f"{uri} was in use by {owner}; waiting {pause:.0f} s to see whether that has ended.")
    time.sleep(pause)
    _, newest = _newest(uri)  # clocks may differ, beats tell
    if newest is not None and (newest.token, newest.beats) != (owner.token, owner.beats):
        raise OutputError(f"{uri} is in use by {newest}. Wait for it to end, or choose another output.")


def _seems_alive(owner: Owner) -> bool:
    if owner.machine != _machine():
        return abs(time.time() - owner.beat) <= LIMITS.lease_expiry  # one from the future had a wrong clock
    if owner.pid == os.getpid():
        return owner.token in _ours  # one that could not be removed is none
    try:
        zombie = psutil.Process(owner.pid).status() == psutil.STATUS_ZOMBIE
        return abs(_started(owner.pid) - owner.started) < 1 and not zombie
    except psutil.Error:
        return False


def is_lease(name: str) -> bool:
    """Tell whether a file is a lease, or the partial file of a process that died while it wrote one."""
    return LEASE.fullmatch(name) is not None or storage.is_partial(name, PREFIX)


def _numbers(uri: str) -> list[int]:
    return [int(found[1]) for name in storage.names_in(uri) if (found := LEASE.fullmatch(name))]


def _uri_of(uri: str, number: int) -> str:
    return storage.join(uri, f"{PREFIX}{number:06d}.json")


def _newest(uri: str) -> tuple[int, Owner | None]:
    """Return the number and owner of the newest lease, or 0 and None; one that vanishes meanwhile was given up."""
    numbers = _numbers(uri)
    if not numbers:
        return 0, None
    number = max(numbers)
    lease_uri = _uri_of(uri, number)
    try:
        return number, Owner(**storage.read_json(lease_uri))
    except (AccessError, TypeError) as error:
        if not storage.exists(lease_uri):
            return _newest(uri)
        if isinstance(error, AccessError) and not isinstance(error.__cause__, ValueError):
            raise  # it is out of reach
        # Half-written, when the power went say: the digest of its content tells whether somebody renews it.
        return number, Owner(storage.digest(storage.read_bytes(lease_uri).hex()), "", "", 0, 0.0, 0.0, 0.0)
