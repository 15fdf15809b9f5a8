"""``Plan``: the cost of a job, and whether it fits."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from dask.utils import format_bytes

from mmpca_dist.durations import duration
from mmpca_dist.eigen.options import SolverSelection
from mmpca_dist.errors import PlanError, some_names

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

WORKER_BASE = 340 << 20
"""Resident memory of a Dask worker with this library imported: 327 MiB were measured."""
PROCESS_BASE = 384 << 20
"""Resident memory of a process that has run flows, drawn pictures and imported the search.

The plan ignores what else a long-lived process holds: it then refuses the same settings everywhere, or nowhere.
"""


def counted_names(names: list[str]) -> str:
    """Return the names of passes, with their numbers where there are several of a name."""
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in Counter(names).items())


@dataclass(frozen=True)
class PassPlan:
    """One pass over rows: bytes read, and the expected seconds."""

    name: str
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Resources:
    """The resources that a run may use, and where it writes; ``memory_limit`` is bytes a worker."""

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
        """Threads that run at a time, on all machines."""
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
    """The cost of a run. Sizes are in bytes; memory is that of a worker, or of this process with threads."""

    passes: list[PassPlan]
    spans: int
    memory: int
    base: int  # the part of ``memory`` before any data
    resources: Resources
    free: int | None
    more: str = ""  # passes that may be added, in words
    solver: str = ""
    output: int = 0
    search: SearchCosts | None = None
    choice: SolverSelection | None = None  # the solver and its reason
    remedy: str = "smaller chunks or fewer columns"  # of what fewer would need less
    advice: str = ""  # on chunks that are too large
    kept: int = 0  # checkpoints, or states between sweeps, at the output, which are deleted when their stage is done
    fits: int = 0  # of every method, while some rows are held out; their time and operations are not in the plan
    at_once: int = 0  # of these fits, that end together: where all do, nothing is told of the time
    classifier_fits: int = 0
    note: str = ""  # for the user to read before the run

    def after(self, choice: Plan, stage: str, remedy: str, passes: list[PassPlan] | None = None) -> Plan:
        """Return the plan of a job that has an evaluation in folds for one of its stages, with those of its ``passes``.

        They are all, unless others of the job serve the folds as well.
        """
        passes = [replace(each, name=f"{stage}: {each.name}") for each in (choice.passes if passes is None else passes)]
        return replace(
            self, passes=[*passes, *self.passes], memory=max(choice.memory, self.memory), fits=choice.fits,
            at_once=choice.at_once, search=self.search or choice.search,
            remedy=remedy if choice.memory > self.memory else self.remedy,
        )  # fmt: skip

    @property
    def scratch(self) -> int:
        """Bytes of scratch at the output, of one stage at a time."""
        return max(self.kept, self.search.scratch if self.search and not self.search.in_memory else 0)

    @property
    def written(self) -> int:
        """Most bytes at the output at a time: results and scratch."""
        return self.output + self.scratch

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.passes)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.passes)

    @property
    def memory_limit(self) -> int:
        """The limit of a worker, or of this process with threads."""
        return self.resources.memory_limit * (self.resources.workers if self.resources.in_process else 1)

    @property
    def allowed(self) -> str:
        """The memory limit in words."""
        limit, workers = format_bytes(self.memory_limit), self.resources.workers
        if not self.resources.in_process:
            return f"{limit} a worker"
        if workers == 1:
            return limit
        return f"{limit} ({workers} workers x {format_bytes(self.resources.memory_limit)})"

    def rows(self) -> list[tuple[str, str]]:
        """Return names and formatted values, to be shown."""
        count = f"{len(self.passes)}{' or more' if self.more else ''}"
        passes = "; ".join(filter(None, [counted_names([each.name for each in self.passes]), self.more]))
        free = "" if self.free is None else f" of {format_bytes(self.free)} free"
        rows = [
            ("passes over the rows", f"{count} ({passes})" if self.passes else ""),
            ("tasks a pass", str(self.spans)),
            ("bytes to read", format_bytes(self.bytes) if self.passes else ""),
            ("pairs to compare", self._pairs()),
            ("splits", f"every method is fitted {self.fits:,} times" if self.fits else ""),
            ("classifiers fitted", f"up to {self.classifier_fits:,} times to rows" if self.classifier_fits else ""),
            ("eigenproblem", self.solver if self.choice is None else f"{self.solver} ({self.choice.reason})"),
            ("peak memory", f"{format_bytes(self.memory)} of {self.allowed}"),
            ("of that before any data", format_bytes(self.base)),
            ("scratch", self._scratch()),
            ("output", format_bytes(self.output) + free if self.output else ""),
            ("expected time", self._time()),
            ("note", self.note),
        ]
        return [row for row in rows if row[1]]

    def _pairs(self) -> str:
        if self.search is None or self.fits:
            return ""
        return f"{'up to' if self.search.proved else 'perhaps'} {self.search.pairs:,.0f}"

    def _time(self) -> str:
        if self.fits:
            return "told after the first splits" if self.fits > self.at_once else "not known: all splits end together"
        if not self.passes:
            return "not measured: the rows are two reading units or fewer"
        search = "" if self.search is None else "; that of the search is told by the speed of its first units"
        return f"{duration(self.seconds)} for the passes, by the speed of two units{search}"

    def _scratch(self) -> str:
        sizes = []
        if self.search is not None and self.search.in_memory:
            sizes.append(f"up to {format_bytes(self.search.scratch)} in memory")
        if self.scratch:
            sizes.append(f"up to {format_bytes(self.scratch)} at the output, gone afterwards")
        return "; ".join(sizes)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "memory_limit": self.memory_limit}

    def refuse_if_too_large(self) -> None:
        """Raise `PlanError`, with what is needed and what is allowed, if memory or disk do not suffice."""
        if self.memory > self.memory_limit:
            solver = ""
            if self.choice is not None and not self.choice.in_passes:
                methods = some_names(self.choice.full_scatter)
                without = f" without {methods}, which need the whole scatter" if self.choice.full_scatter else ""
                solver = f", or set solver.kind: krylov{without}"
            raise PlanError(
                f"The plan needs {format_bytes(self.memory)} of memory, {format_bytes(self.base)} of it before "
                f"any data, and {self.allowed} are allowed. Raise compute.memory_limit, or use fewer "
                f"compute.threads_per_worker, {self.remedy}{solver}.{self.advice}"
            )
        if self.free is not None and self.written > self.free:
            search = " of the search for m-pca2" if self.scratch > self.kept else ""
            scratch = f", {format_bytes(self.scratch)} of it scratch{search}" if self.scratch else ""
            raise PlanError(
                f"The plan writes {format_bytes(self.written)}{scratch}, and {format_bytes(self.free)} are free at the "
                "output. Free some, choose another output, or project fewer methods (project.methods)."
            )
