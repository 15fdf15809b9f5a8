"""Cases, and how they are timed: every entry in a process of its own, on the same file, in rounds of random order."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil

Role = Literal["ours", "own", "peer", "floor"]
"""The base of the ratios, another form of it, a function of others, and work that no pass can do without."""
Data = dict[str, Any]
Run = Callable[[Any], Data]

THREADS = psutil.cpu_count(logical=True) or 2
SLOW_SECONDS, SLOWEST_SECONDS = 10.0, 30.0
"""From where on an entry has one timed run; from where on its first run is that."""
PACKAGES = (
    "mmpca-dist", "numpy", "scipy", "dask", "zarr", "pyarrow", "scikit-learn", "scikit-learn-intelex", "dask-ml",
    "faiss-cpu", "pynndescent", "scanpy", "ikpls", "cvmatrix", "skglm", "numba",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A function that a case times, of the data as they are loaded; returns ``passes`` and a ``value`` to be judged."""

    name: str
    run: Run
    role: Role = "peer"
    needs: tuple[str, ...] = ()
    approximate: bool = False


@dataclass
class Case:
    """Data of several sizes, the entries that are timed on them, and the judge of what these find.

    ``make`` writes files and returns what tells of them: ``bytes`` is what a pass reads. ``load`` is not timed.
    ``published`` are figures of others, of other rows on other hardware: name, figure, source.
    """

    name: str
    make: Callable[..., Data]
    sizes: dict[str, dict[str, Any]]
    judge: Callable[[Any, Any], dict[str, float]] | None = None
    load: Callable[[Data], Any] = dict
    published: tuple[tuple[str, str, str], ...] = ()
    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, name: str, run: Run, role: Role = "peer", **others: Any) -> None:
        self.entries[name] = Entry(name, run, role, **others)


def sized(names: str, tiny: tuple, usual: tuple, full: tuple, **others: Any) -> dict[str, dict[str, Any]]:
    """Return the arguments of ``make`` for each size."""
    values = {"tiny": tiny, "usual": usual, "full": full}
    return {size: {**dict(zip(names.split(), value, strict=True)), **others} for size, value in values.items()}


class UnmeasuredError(Exception):
    """Why an entry has no seconds."""


class Worker:
    """An entry with its data loaded, which runs whenever it is asked."""

    def __init__(self, case: Case, entry: Entry, data: Data, tiny: Data) -> None:
        import dask

        dask.config.set(scheduler="threads", num_workers=THREADS)
        self._run, self._judge = entry.run, case.judge
        if tiny != data:
            self._run(case.load(tiny))  # imports, compiled loops and pools of threads are there
        self._data = case.load(data)
        with suppress(OSError):  # Linux forgets its peak so far
            Path("/proc/self/clear_refs").write_text("5")
        self._base = psutil.Process().memory_info().rss

    def ask(self) -> Data:
        begin, spent = time.perf_counter(), _processor()
        answer = self._run(self._data)
        times = {"seconds": time.perf_counter() - begin, "processor": _processor() - spent}
        value = answer.pop("value", None)
        answer = {**times, **answer, "peak": max(_peak() - self._base, 0)}  # an entry may time a part of itself
        if self._judge and value is not None:
            answer["accuracy"], self._judge = self._judge(self._data, value), None
        return answer


def _processor() -> float:
    """Return the seconds of the processor of this process and of those that it started and that ended."""
    return sum(os.times()[:4])


def _peak() -> int:
    with suppress(OSError):
        return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10
    return int(psutil.Process().memory_info().rss)


class ProcessWorker:
    """A worker in a process of its own."""

    def __init__(self, *what: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, *what))
        self._process.start()
        other.close()
        self._answer()

    def _answer(self) -> Data:
        try:
            answer: Data | str = self._pipe.recv()
        except (EOFError, ConnectionError):
            answer = "its process died"
        if isinstance(answer, str):
            self.close()
            raise UnmeasuredError(answer)
        return answer

    def ask(self) -> Data:
        self._pipe.send(True)
        return self._answer()

    def close(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()


def _serve(pipe: Any, *what: Any) -> None:
    try:
        worker = Worker(*what)
        pipe.send({})
        while pipe.recv():
            pipe.send(worker.ask())
    except EOFError:
        return
    except Exception as error:
        pipe.send(_told(error))


def _told(error: Exception) -> str:
    """Return a line about an error, without addresses of files."""
    words = " ".join(str(error).splitlines()[:1]).split()
    kind = "" if isinstance(error, UnmeasuredError) else f"{type(error).__name__}: "
    return kind + " ".join(word for word in words if "/" not in word)[:100]


def measure(case: Case, size: str, folder: Path, rounds: int = 5, isolated: bool = True) -> Data:
    """Time all entries of a case in rounds of random order, after a warm-up, and return its record."""
    data, tiny = (case.make(folder, **case.sizes[kind]) for kind in (size, "tiny"))
    rows: dict[str, Data] = {
        entry.name: {"name": entry.name, "role": entry.role, "runs": {}} for entry in case.entries.values()
    }
    start: Callable[..., Any] = ProcessWorker if isolated else Worker
    workers: dict[str, Any] = {}
    rng = np.random.default_rng(0)
    try:
        for number in range(-1 if isolated else 0, rounds):
            for name in (str(name) for name in rng.permutation(list(rows))):
                if _is_over(rows[name], number):
                    continue
                try:
                    if name not in workers:
                        entry = _required(case.entries[name])
                        workers[name] = start(replace(case, entries={}), entry, data, tiny)
                    _keep(rows[name], workers[name].ask(), number)
                except Exception as error:
                    rows[name]["status"] = _told(error)
    finally:
        for worker in workers.values() if isolated else ():
            worker.close()
    record = {"case": case.name, "size": size, "shape": case.sizes[size], "published": case.published}
    return {**record, "load": os.getloadavg()[0], **_compared(list(rows.values()), data.get("bytes"))}


def _required(entry: Entry) -> Entry:
    absent = [name for name in entry.needs if importlib.util.find_spec(name) is None]
    if absent:
        raise UnmeasuredError(f"not installed: {', '.join(absent)}")
    return entry


def _is_over(row: Data, number: int) -> bool:
    first = row.get("warm-up", 0.0)
    return "status" in row or (number > -1 and first > SLOWEST_SECONDS) or (number > 0 and first > SLOW_SECONDS)


def _keep(row: Data, answer: Data, number: int) -> None:
    seconds, peak = answer.pop("seconds"), max(row.get("peak", 0), answer.pop("peak"))
    row |= {**answer, "peak": peak}
    if number < 0:
        row["warm-up"] = seconds
    if number >= 0 or seconds > SLOWEST_SECONDS:
        row["runs"][str(max(number, 0))] = seconds


def _compared(rows: list[Data], n_bytes: int | None) -> Data:
    """Return the rows with medians and with ratios to ours and to the floor: its seconds for each pass."""
    ours = next(row["runs"] for row in rows if row["role"] == "ours")
    timed = [row for row in rows if row["runs"]]
    for row in timed:
        row["seconds"] = statistics.median(row["runs"].values())
        ratios = [seconds / ours[number] for number, seconds in row["runs"].items() if number in ours]
        row["ratio"] = statistics.median(ratios) if ratios else None
        if n_bytes and row.get("passes"):
            row["bytes"] = row["passes"] * n_bytes
    floors: list[Any] = [row.get("seconds") for row in rows if row["role"] == "floor"]
    floor = sum(floors) if floors and None not in floors else None
    for row in timed if floor else ():
        if row["role"] in ("ours", "own") and row.get("passes"):
            row["times the floor"] = row["seconds"] / (floor * row["passes"])
    return {"floor": floor, "rows": rows}


def environment() -> Data:
    """Return hardware, versions and date."""
    cpu, versions = platform.machine(), {"python": platform.python_version()}
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
        flags = next((line for line in lines if line.startswith("flags")), "")
        cpu += " with AVX-512" if "avx512f" in flags else " with AVX2" if "avx2" in flags else ""
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    memory = psutil.virtual_memory().total
    machine = {"processor": cpu, "architecture": platform.machine(), "cores": THREADS, "memory": memory}
    today = datetime.now(UTC).date().isoformat()
    return {"date": today, "load": os.getloadavg()[0], "machine": machine, "versions": versions}
