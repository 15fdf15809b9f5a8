"""Measure peak memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from mmpca_dist.jobs.job import Job
from mmpca_dist.statistics.tree_reduction import PeakMemory, Threads


@contextmanager
def measured(job: Job, interval: float = 0.01) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the peak memory since: of the workers, or of this process with threads."""
    job.memory = PeakMemory()
    if isinstance(job.scheduler, Threads):
        with watched_memory(interval) as peak:
            yield lambda: peak() - job.held
    else:
        yield lambda: job.memory.largest


@contextmanager
def watched_memory(interval: float = 0.01) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the peak resident memory of this process since."""
    process, stop = psutil.Process(), threading.Event()
    peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not stop.wait(interval):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: peak
    finally:
        stop.set()
        watcher.join()
