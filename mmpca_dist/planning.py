"""What a run will cost, before it reads a row: passes, bytes, operations, memory, disk, time."""

from __future__ import annotations

import functools
import math
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from dask.utils import format_bytes

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.errors import PlanError
from mmpca_dist.statistics.gather import is_wide, use_pooled
from mmpca_dist.statistics.medians import KEPT_BYTES, key_type
from mmpca_dist.statistics.moments import BLOCK_ROWS
from mmpca_dist.statistics.summary import SAMPLE_BYTES

WORKER_BASE = 260 << 20
"""Resident memory of a Dask worker with this library imported."""

READ_RATES = {"local": 1.5e9, "remote": 1.5e8, "synthetic": 2.5e8, "memory": 1e10}
"""Bytes a second a thread: measured for a warm page cache and for the generators, a guess for object stores."""

SLACK = 1.15
"""Allocators keep some memory that was freed."""


@dataclass(frozen=True)
class PassPlan:
    """One pass over rows: bytes read, operations, and the expected seconds."""

    name: str
    bytes: int
    operations: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """The cost of a run. Sizes in bytes; memory is that of a worker, or of this process with threads."""

    passes: list[PassPlan]
    spans: int
    solver: str
    pooled: bool
    memory: int
    memory_limit: int
    output: int
    free: int | None

    @property
    def seconds(self) -> float:
        return sum(p.seconds for p in self.passes)

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.passes)

    @property
    def operations(self) -> float:
        return sum(p.operations for p in self.passes)

    def rows(self) -> list[tuple[str, str]]:
        """Return what to show: names and formatted values."""
        passes = ", ".join(p.name for p in self.passes)
        return [
            ("passes over the rows", f"{len(self.passes)} ({passes})"),
            ("tasks a pass", str(self.spans)),
            ("bytes to read", format_bytes(self.bytes)),
            ("operations", f"{self.operations:.2g}"),
            ("eigenproblem", self.solver),
            ("peak memory a worker", f"{format_bytes(self.memory)} of {format_bytes(self.memory_limit)}"),
            (
                "output",
                format_bytes(self.output) + ("" if self.free is None else f" of {format_bytes(self.free)} free"),
            ),
            ("expected time", f"{self.seconds:.0f} s" if self.seconds >= 1 else "under a second"),
        ]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def refuse_if_too_large(self) -> None:
        """Raise where memory or disk do not suffice.

        Raises
        ------
        PlanError
            With what is needed and what is allowed.
        """
        if self.memory > self.memory_limit:
            raise PlanError(
                f"The plan needs {format_bytes(self.memory)} of memory a worker, and {format_bytes(self.memory_limit)} "
                "are allowed. Raise compute.memory_limit, or use fewer compute.threads_per_worker, smaller chunks "
                "or fewer columns."
            )
        if self.free is not None and self.output > self.free:
            raise PlanError(
                f"The plan writes {format_bytes(self.output)}, and {format_bytes(self.free)} are free at the output. "
                "Free some, choose another output, or project fewer methods (project.methods)."
            )


@dataclass(frozen=True)
class Request:
    """What the plan must know of a run's settings."""

    n_classes: int
    largest: int
    n_methods: int
    n_projected: int
    formats: int
    medians: bool
    precision: str
    output: str
    workers: int
    threads_per_worker: int
    in_process: bool
    memory_limit: int


def make_plan(dataset: Dataset, spans: list[Span], request: Request) -> Plan:
    """Return the plan of a run over ``spans`` of a data set."""
    n, d = dataset.n_rows, dataset.n_features
    wide, pooled = is_wide(n, d), use_pooled(request.n_classes, d)
    n_threads = request.workers * request.threads_per_worker
    rank = min(request.largest, d, n)
    operations = n * d * min(n, d) * (2 if wide else 1 + pooled) * 1.0
    passes = [_pass("moments" if not wide else "rows", dataset, operations, n_threads, request.precision)]
    if request.medians and not wide and n * d * 8 > KEPT_BYTES:
        passes.insert(0, _pass("sample", dataset, 0, n_threads, request.precision, share=1 / 8))
    if request.n_projected:
        projecting = 2.0 * n * d * rank * request.n_projected
        passes.append(_pass("project", dataset, projecting, n_threads, request.precision))
    item = 4 if request.precision == "single" else 8
    return Plan(
        passes=passes,
        spans=len(spans),
        solver="in the span of the rows" if wide else f"dense, {d} x {d}",
        pooled=pooled and not wide,
        memory=_memory(dataset, spans, request, wide, pooled),
        memory_limit=request.memory_limit * (request.workers if request.in_process else 1),
        output=request.n_projected * request.formats * n * rank * item + request.n_methods * d * rank * 8,
        free=_free_bytes(request.output),
    )


def _memory(dataset: Dataset, spans: list[Span], request: Request, wide: bool, pooled: bool) -> int:
    """Project the peak resident memory of a worker, or of this process with threads."""
    d, c = dataset.n_features, request.n_classes
    work = 4 if request.precision == "single" else 8
    threads = request.threads_per_worker * (request.workers if request.in_process else 1)
    base = psutil.Process().memory_info().rss if request.in_process else WORKER_BASE
    base += dataset.resident_bytes
    unit_rows = max(stop - start for span in spans for start, stop in span.units)
    unit = int(unit_rows * dataset.row_bytes * (1 + dataset.read_overhead))
    indices = unit_rows * 24  # row numbers by class, labels and codes
    if wide:
        # Rows in float64: as read, joined, centred, turned for the factorisation, and its basis.
        reading = dataset.n_rows * d * 8 * 5 + unit
        return int((base + reading) * SLACK)
    summary = ((2 if pooled else c) * d * d + c * d) * 8
    kernel = BLOCK_ROWS * d * (dataset.dtype.itemsize + work) + d * d * (work + 8 * (2 if pooled else 1))
    waiting = math.ceil(math.log2(len(spans) + 1)) + 2
    reducing = threads * (unit + indices + kernel + summary) + waiting * summary
    if request.medians:
        sets = c * d * (2 * dataset.dtype.itemsize + 5 * 8)
        kept = 3 * KEPT_BYTES * (key_type(c, d).itemsize + 8) // 8
        sampling = threads * unit + 3 * SAMPLE_BYTES
        reducing = max(reducing + (threads + waiting) * sets + kept, sampling)
    solving = summary + 5 * d * d * 8 if request.in_process else 0
    projected = unit_rows * request.largest * request.n_projected * work * 2 + unit_rows * d * work
    projecting = threads * (unit + projected)
    return int((base + max(reducing, solving, projecting)) * SLACK)


def _pass(
    name: str, dataset: Dataset, operations: float, n_threads: int, precision: str, share: float = 1.0
) -> PassPlan:
    size = int(dataset.n_bytes * share)
    reading = size / READ_RATES[dataset.kind]
    multiplying = operations / _product_rate(precision)
    return PassPlan(name, size, operations, (reading + multiplying) / n_threads)


@functools.cache
def _product_rate(precision: str) -> float:
    """Measure, in a few milliseconds, multiply-adds a second of a symmetric product on one thread."""
    rows = np.ones((BLOCK_ROWS, 256), np.float32 if precision == "single" else np.float64)
    with single_blas_thread():
        rows.T @ rows
        begin = time.perf_counter()
        rows.T @ rows
        return rows.size * rows.shape[1] / (time.perf_counter() - begin)


def _free_bytes(uri: str) -> int | None:
    if not storage.is_local(uri):
        return None
    folder = Path(uri).absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
