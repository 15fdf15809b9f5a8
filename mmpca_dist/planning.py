"""What a run will cost, before it reads a row: passes, bytes, operations, memory, disk, time."""

from __future__ import annotations

import functools
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from dask.utils import format_bytes
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.errors import PlanError
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.scratch import fits_memory, row_bytes
from mmpca_dist.statistics.costs import largest_unit, reading_wide, reducing
from mmpca_dist.statistics.gather import is_wide, use_pooled
from mmpca_dist.statistics.medians import KEPT_BYTES, foreseen_rounds, key_type
from mmpca_dist.statistics.moments import BLOCK_ROWS
from mmpca_dist.statistics.sample import evenly_chosen, sample_rows

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

WORKER_BASE = 260 << 20
"""Resident memory of a Dask worker with this library imported."""

READ_RATES = {"local": 1.5e9, "remote": 1.5e8, "synthetic": 2.5e8, "memory": 1e10}
"""Bytes a second a thread: measured for a warm page cache and for the generators, a guess for object stores."""

WRITE_RATES = {True: 5e8, False: 1e8}
"""Bytes a second a thread, on a local disk or elsewhere: guesses on the side of caution."""

COUNT_RATE = 2e8
"""Values a second a thread that are counted against the brackets of medians: measured."""

SLACK = 1.15
"""Allocators keep some memory that was freed."""

DRIFT = 1.2
"""Brackets may hold this much more than their share before the plan counts on another pass."""


@dataclass(frozen=True)
class PassPlan:
    """One pass over rows: bytes read, operations, and the expected seconds."""

    name: str
    bytes: int
    operations: float
    seconds: float


@dataclass(frozen=True)
class Resources:
    """What a run may use, and where it writes; ``memory_limit`` in bytes a worker."""

    precision: str
    output: str
    workers: int
    threads_per_worker: int
    in_process: bool
    memory_limit: int

    @property
    def process_threads(self) -> int:
        """Threads that share one process."""
        return self.threads_per_worker * (self.workers if self.in_process else 1)

    @property
    def busy_threads(self) -> int:
        """Threads that work at a time, on all machines."""
        n_threads = self.workers * self.threads_per_worker
        return min(n_threads, os.cpu_count() or 1) if self.in_process else n_threads

    @property
    def item(self) -> int:
        """Bytes of a number in products."""
        return 4 if self.precision == "single" else 8

    @property
    def base(self) -> int:
        """Resident memory of the process before it holds any data."""
        return int(psutil.Process().memory_info().rss) if self.in_process else WORKER_BASE


@dataclass(frozen=True)
class Plan:
    """The cost of a run. Sizes in bytes; memory is that of a worker, or of this process with threads.

    ``base`` is the part of ``memory`` that the process has before any data, ``more_passes`` how many passes for
    medians may come on top, ``search`` what the search for nearest rows costs, where there is one.
    """

    passes: list[PassPlan]
    more_passes: int
    spans: int
    solver: str
    pooled: bool
    memory: int
    base: int
    resources: Resources
    output: int
    free: int | None
    search: SearchCosts | None = None

    @property
    def written(self) -> int:
        """Bytes at the output at a time: what stays there, and the scratch that is on a disk."""
        return self.output + (self.search.scratch if self.search and not self.search.in_memory else 0)

    @property
    def seconds(self) -> float:
        return sum(p.seconds for p in self.passes)

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.passes)

    @property
    def operations(self) -> float:
        return sum(p.operations for p in self.passes)

    @property
    def memory_limit(self) -> int:
        """What a worker is allowed, or this process with threads."""
        return self.resources.memory_limit * (self.resources.workers if self.resources.in_process else 1)

    @property
    def allowed(self) -> str:
        """The memory limit, and how it comes about."""
        found, workers = format_bytes(self.memory_limit), self.resources.workers
        if not self.resources.in_process or workers == 1:
            return found
        return f"{found} ({workers} workers x {format_bytes(self.resources.memory_limit)})"

    def rows(self) -> list[tuple[str, str]]:
        """Return what to show: names and formatted values."""
        passes, count = ", ".join(p.name for p in self.passes), str(len(self.passes))
        if self.more_passes:
            count += f" to {len(self.passes) + self.more_passes}"
            passes += "; medians again where brackets overflow or miss"
        time = f"{_duration(self.seconds)} for the passes"
        if self.search is not None:
            searching = self.search.seconds(self.resources.busy_threads)
            time += f", {self._bound + ' ' if searching >= 1 else ''}{_duration(searching)} for the search"
        rows = [
            ("passes over the rows", f"{count} ({passes})"),
            ("tasks a pass", str(self.spans)),
            ("bytes to read", format_bytes(self.bytes)),
            ("operations", f"{self.operations:.2g}"),
            ("pairs to compare", "" if self.search is None else f"{self._bound} {self.search.pairs:.2g}"),
            ("eigenproblem", self.solver),
            ("peak memory a worker", f"{format_bytes(self.memory)} of {self.allowed}"),
            ("of that before any data", format_bytes(self.base)),
            ("scratch", self._scratch()),
            (
                "output",
                format_bytes(self.output) + ("" if self.free is None else f" of {format_bytes(self.free)} free"),
            ),
            ("expected time", time),
        ]
        return [row for row in rows if row[1]]

    @property
    def _bound(self) -> str:
        """What the numbers of the search are: a bound where every row is searched for exactly, else a guess."""
        return "up to" if self.search is None or self.search.proved else "perhaps"

    def _scratch(self) -> str:
        if self.search is None:
            return ""
        size = f"up to {format_bytes(self.search.scratch)}"
        return f"{size}, in memory" if self.search.in_memory else f"{size} at the output, gone afterwards"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "memory_limit": self.memory_limit}

    def refuse_if_too_large(self) -> None:
        """Raise where memory or disk do not suffice.

        Raises
        ------
        PlanError
            With what is needed and what is allowed.
        """
        if self.memory > self.memory_limit:
            raise PlanError(
                f"The plan needs {format_bytes(self.memory)} of memory a worker, {format_bytes(self.base)} of it "
                f"before any data, and {self.allowed} are allowed. Raise compute.memory_limit, or use fewer "
                "compute.threads_per_worker, smaller chunks or fewer columns."
            )
        if self.free is not None and self.written > self.free:
            scratch = self.written - self.output
            part = f", {format_bytes(scratch)} of it scratch of the search for m-pca2" if scratch else ""
            raise PlanError(
                f"The plan writes {format_bytes(self.written)}{part}, and {format_bytes(self.free)} are free at the "
                "output. Free some, choose another output, or project fewer methods (project.methods)."
            )


def search_in_memory(dataset: Dataset, resources: Resources) -> bool:
    """Tell whether a search may keep rows in the memory of this process, by the limit of the settings alone."""
    return resources.in_process and fits_memory(
        dataset.n_rows * row_bytes(dataset), resources.memory_limit * resources.workers
    )


@dataclass(frozen=True)
class Request:
    """What the plan must know of a run's settings.

    ``counts`` are the rows of each class, ``median_rows`` is the number of rows in all sets of classes whose medians
    are wanted, together, and ``search`` what m-pca2 wants, if it is among the methods.
    """

    counts: NDArray[np.int64]
    largest: int
    n_methods: int
    n_projected: int
    formats: int
    median_rows: int
    resources: Resources
    standardize: bool = False
    search: Search | None = None

    @property
    def n_classes(self) -> int:
        return len(self.counts)


def make_plan(dataset: Dataset, spans: list[Span], request: Request) -> Plan:
    """Return the plan of a run over ``spans`` of a data set."""
    n, d, resources = dataset.n_rows, dataset.n_features, request.resources
    wide, pooled = is_wide(n, d), use_pooled(request.n_classes, d)
    rank = min(request.largest, d, n)
    operations = n * d * min(n, d) * (2 if wide else 1 + pooled) * 1.0
    counted = 0 if wide else request.median_rows * d
    passes = [_pass("rows" if wide else "moments", dataset, operations, resources, counted=counted)]
    more_passes = 0
    if request.median_rows and not wide:
        before, after, more_passes = _median_passes(dataset, spans, request)
        passes = [*before, *passes, *after]
    search = _search_costs(dataset, spans, request)
    if search is not None:
        scratch = 0 if search.in_memory else search.scratch
        cells = _pass("cells", dataset, search.preparation, resources, written=scratch)
        passes += [_sample_pass(dataset, spans, resources), cells]
    widths = [rank] * request.n_projected
    if widths:
        passes.append(_projection_pass(dataset, resources, widths, request.formats))
    base = resources.base + dataset.resident_bytes
    held = [
        reading_wide(dataset, spans)
        if wide
        else reducing(
            dataset,
            spans,
            n_classes=request.n_classes,
            pooled=pooled,
            medians=request.median_rows > 0,
            item=resources.item,
            threads=resources.process_threads,
        ),
        _projecting(dataset, spans, resources, widths),
    ]
    if search is not None:
        held.append(search.memory)
    if resources.in_process and not wide:
        held.append(((2 if pooled else request.n_classes) + 5) * d * d * 8)  # solving
    return Plan(
        passes=passes,
        more_passes=more_passes,
        spans=len(spans),
        solver="in the span of the rows" if wide else f"dense, {d} x {d}",
        pooled=pooled and not wide,
        memory=int((base + max(held)) * SLACK),
        base=base,
        resources=resources,
        output=_projected_bytes(dataset, resources, widths, request.formats) + request.n_methods * d * rank * 8,
        free=_free_bytes(resources.output),
        search=search,
    )


def plan_projection(
    dataset: Dataset, spans: list[Span], resources: Resources, *, widths: list[int], formats: int
) -> Plan:
    """Return the plan of a projection alone, by methods of ``widths`` components into so many formats."""
    base = resources.base + dataset.resident_bytes
    return Plan(
        passes=[_projection_pass(dataset, resources, widths, formats)],
        more_passes=0,
        spans=len(spans),
        solver="",
        pooled=False,
        memory=int((base + _projecting(dataset, spans, resources, widths)) * SLACK),
        base=base,
        resources=resources,
        output=_projected_bytes(dataset, resources, widths, formats),
        free=_free_bytes(resources.output),
    )


def _median_passes(dataset: Dataset, spans: list[Span], request: Request) -> tuple[list[PassPlan], list[PassPlan], int]:
    """Return the passes before and after that of the moments, and how many more there may be.

    The forecast is for rows in random order; where they are sorted, single spans overflow their share of the budget.
    """
    entry = key_type(request.n_classes, dataset.n_features).itemsize + dataset.dtype.itemsize
    values = request.median_rows * dataset.n_features
    if values * entry <= KEPT_BYTES:
        return [], [], 0
    chosen = _chosen_rows(spans)
    sampled = min(sample_rows(dataset.row_bytes), chosen)
    n_medians = request.n_classes * dataset.n_features
    rounds = foreseen_rounds(values, entry, n_medians, sampled)
    most = foreseen_rounds(DRIFT * values, entry, n_medians, sampled) + 1
    sample = _sample_pass(dataset, spans, request.resources)
    return [sample], [_pass("medians", dataset, 0, request.resources, counted=values)] * (rounds - 1), most - rounds


def _chosen_rows(spans: list[Span]) -> int:
    """Return how many rows are in the reading units that a sample comes from."""
    units = [unit for span in spans for unit in span.units]
    return sum(units[i][1] - units[i][0] for i in evenly_chosen(len(units)))


def _sample_pass(dataset: Dataset, spans: list[Span], resources: Resources) -> PassPlan:
    return _pass("sample", dataset, 0, resources, share=_chosen_rows(spans) / dataset.n_rows)


def _search_costs(dataset: Dataset, spans: list[Span], request: Request) -> SearchCosts | None:
    if request.search is None:
        return None
    from mmpca_dist.neighbors.costs import search_costs

    resources = request.resources
    unit_rows, unit = largest_unit(dataset, spans)
    return search_costs(
        dataset,
        request.search,
        counts=request.counts,
        standardize=request.standardize,
        in_memory=search_in_memory(dataset, resources),
        spans=len(spans),
        unit_rows=unit_rows,
        unit=unit,
        threads=resources.process_threads,
    )


def _projecting(dataset: Dataset, spans: list[Span], resources: Resources, widths: list[int]) -> int:
    """Project what a process holds while it projects: a unit as it is read and converted, and what becomes of it."""
    unit_rows, unit = largest_unit(dataset, spans)
    # All methods at once, and one of them on its way into a file: its columns, the table and the bytes.
    numbers = dataset.n_features + 2 * sum(widths) + 3 * max(widths, default=0)
    return resources.process_threads * (unit + unit_rows * numbers * resources.item)


def _projected_bytes(dataset: Dataset, resources: Resources, widths: list[int], formats: int) -> int:
    return formats * dataset.n_rows * sum(widths) * resources.item


def _projection_pass(dataset: Dataset, resources: Resources, widths: list[int], formats: int) -> PassPlan:
    operations = 2.0 * dataset.n_rows * dataset.n_features * sum(widths)
    written = _projected_bytes(dataset, resources, widths, formats)
    return _pass("project", dataset, operations, resources, written=written)


def _pass(
    name: str,
    dataset: Dataset,
    operations: float,
    resources: Resources,
    *,
    share: float = 1.0,
    counted: int = 0,
    written: int = 0,
) -> PassPlan:
    size = int(dataset.n_bytes * share)
    seconds = size / READ_RATES[dataset.kind] + operations / _product_rate(resources.precision)
    seconds += counted / COUNT_RATE + written / WRITE_RATES[storage.is_local(resources.output)]
    return PassPlan(name, size, operations, seconds / resources.busy_threads)


@functools.cache
def _product_rate(precision: str) -> float:
    """Measure, in a few milliseconds, multiply-adds a second of a symmetric product on one thread."""
    rows = np.ones((BLOCK_ROWS, 256), np.float32 if precision == "single" else np.float64)
    with single_blas_thread():
        rows.T @ rows
        begin = time.perf_counter()
        rows.T @ rows
        return rows.size * rows.shape[1] / (time.perf_counter() - begin)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _free_bytes(uri: str) -> int | None:
    if not storage.is_local(uri):
        return None
    folder = Path(uri)
    with storage.explained(uri, "write to"):
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free
