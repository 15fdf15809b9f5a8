"""What a plan says: the cost of a run, what it may use, and when it is refused."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dask.utils import format_bytes

from mmpca_dist.errors import PlanError
from mmpca_dist.solvers.options import Choice

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

WORKER_BASE = 340 << 20
"""Resident memory of a Dask worker with this library imported: 327 MiB were measured."""

PROCESS_BASE = 384 << 20
"""Resident memory of a process that has run flows, drawn pictures and imported the search.

What else a long-lived process holds is its own affair: the same settings are refused everywhere, or nowhere.
"""


MOST_LISTED = 20
"""Passes that are named one by one."""


@dataclass(frozen=True)
class PassPlan:
    """One pass over rows: bytes read, operations, and the expected seconds."""

    name: str
    bytes: int
    operations: float
    seconds: float


@dataclass(frozen=True)
class WorkPlan:
    """What is done beside passes over the rows: operations, and roughly the seconds."""

    name: str
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
        return PROCESS_BASE if self.in_process else WORKER_BASE


@dataclass(frozen=True)
class Plan:
    """The cost of a run. Sizes in bytes; memory is that of a worker, or of this process with threads.

    ``work`` is what an evaluation does beside its passes; it is counted, and its seconds come from usual rates.
    ``base`` is the part of ``memory`` that the process has before any data, ``more_passes`` how many passes for
    medians may come on top, ``search`` what the search for nearest rows costs, where there is one, ``choice`` the
    solver with the reason for it, ``advice`` how other chunks would help, and ``kept`` what groups of spans leave at
    the output until their stage is done, for an attempt after this one. ``note`` is what the user should know before.
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
    choice: Choice | None = None
    advice: str = ""
    kept: int = 0
    fits: int = 0
    work: list[WorkPlan] = field(default_factory=list)
    note: str = ""

    @property
    def scratch(self) -> int:
        """Bytes of scratch at the output, of one stage at a time."""
        return max(self.kept, self.search.scratch if self.search and not self.search.in_memory else 0)

    @property
    def written(self) -> int:
        """Bytes at the output at a time: what stays there, and scratch."""
        return self.output + self.scratch

    @property
    def seconds(self) -> float:
        return sum(p.seconds for p in self.passes) + sum(w.seconds for w in self.work)

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.passes)

    @property
    def operations(self) -> float:
        return sum(p.operations for p in self.passes) + sum(w.operations for w in self.work)

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
        passes, count = _listed([p.name for p in self.passes]), str(len(self.passes))
        if self.more_passes:
            count += f" to {len(self.passes) + self.more_passes}"
            passes += "; medians again where brackets overflow or miss"
        rows = [
            ("passes over the rows", f"{count} ({passes})"),
            ("tasks a pass", str(self.spans)),
            ("bytes to read", format_bytes(self.bytes)),
            ("operations", f"{self.operations:.2g}"),
            ("pairs to compare", "" if self.search is None else f"{self._bound} {self.search.pairs:.2g}"),
            ("classifiers fitted", f"up to {self.fits:,} times to rows" if self.fits else ""),
            ("eigenproblem", self.solver if self.choice is None else f"{self.solver} ({self.choice.reason})"),
            ("peak memory a worker", f"{format_bytes(self.memory)} of {self.allowed}"),
            ("of that before any data", format_bytes(self.base)),
            ("scratch", self._scratch()),
            (
                "output",
                format_bytes(self.output) + ("" if self.free is None else f" of {format_bytes(self.free)} free"),
            ),
            ("expected time", self._time()),
            ("note", self.note),
        ]
        return [row for row in rows if row[1]]

    @property
    def _bound(self) -> str:
        """What the numbers of the search are: a bound where every row is searched for exactly, else a guess."""
        return "up to" if self.search is None or self.search.proved else "perhaps"

    def _time(self) -> str:
        """Return how long it takes, in words; roughly, where it is not for passes alone."""
        found = f"{duration(sum(one.seconds for one in self.passes))} for the passes"
        if self.search is not None:
            searching = self.search.seconds(self.resources.busy_threads)
            found += f", {self._bound + ' ' if searching >= 1 else ''}{duration(searching)} for the search"
        if not self.work:
            return found
        found += "".join(f", {duration(one.seconds)} to {one.name}" for one in self.work)
        return f"roughly, by operations at usual rates: {found}"

    def _scratch(self) -> str:
        found = []
        if self.search is not None and self.search.in_memory:
            found.append(f"up to {format_bytes(self.search.scratch)} in memory")
        if self.scratch:
            found.append(f"up to {format_bytes(self.scratch)} at the output, gone afterwards")
        return "; ".join(found)

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
            solver = ""
            if self.choice is not None and not self.choice.in_passes:
                without = " without pls, ridge and lasso, which need the whole scatter" if self.choice.formed else ""
                solver = f", or set solver.kind: krylov{without}"
            raise PlanError(
                f"The plan needs {format_bytes(self.memory)} of memory a worker, {format_bytes(self.base)} of it "
                f"before any data, and {self.allowed} are allowed. Raise compute.memory_limit, or use fewer "
                f"compute.threads_per_worker, smaller chunks or fewer columns{solver}.{self.advice}"
            )
        if self.free is not None and self.written > self.free:
            of = " of the search for m-pca2" if self.scratch > self.kept else ""
            part = f", {format_bytes(self.scratch)} of it scratch{of}" if self.scratch else ""
            raise PlanError(
                f"The plan writes {format_bytes(self.written)}{part}, and {format_bytes(self.free)} are free at the "
                "output. Free some, choose another output, or project fewer methods (project.methods)."
            )


def _listed(names: list[str]) -> str:
    """Return names in order; many of them by how often each comes."""
    if len(names) <= MOST_LISTED:
        return ", ".join(names)
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def time_left(seconds: float) -> str:
    """Return how long something takes still, in words."""
    return f"{'about ' if seconds >= 1 else ''}{duration(seconds)} left"
