"""The plan of a run, from what its pilot measured and a formula for each algorithm that a pilot cannot try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.utils import format_bytes
from numpy.typing import NDArray

from mmpca_dist.eigen.block_passes import block_size
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions, SolverSelection, choose_solver
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.options import fits_memory
from mmpca_dist.passes.pilot import Footprint
from mmpca_dist.passes.sweeps import states_fit_memory
from mmpca_dist.planning.plan import PassPlan, Plan, Resources
from mmpca_dist.statistics.costs import summary_bytes
from mmpca_dist.statistics.from_rows import n_scatters, scatter_bytes
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span, default_chunk_rows

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

SLACK, THREAD_SLACK = 1.15, 32 << 20
"""Factor, and bytes of a thread, for what allocators and libraries keep beside what a pilot sees."""


COMPILED = 150 << 20
"""Resident memory that the compiled loops of searches and their compiler take."""


@dataclass(frozen=True)
class RunRequest:
    """The facts of a run before it reads rows, and the decisions that follow from these alone."""

    dataset: Dataset
    spans: list[Span]
    counts: NDArray[np.int64]
    """Rows of each class, shape (C,)."""
    needs: Needs
    """The facts of the rows that the methods need."""
    resources: Resources
    widths: Sequence[int] = ()
    """Components of the methods that rows are projected by."""
    formats: int = 0
    """Of projected rows."""
    kept: int = 0
    """Columns that go with projected rows."""
    n_methods: int = 0
    """Blocks of components of all methods, one for most."""
    standardize: bool = False
    solver: SolverOptions = field(default_factory=SolverOptions)

    @property
    def n_classes(self) -> int:
        return len(self.counts)

    @property
    def n_units(self) -> int:
        return sum(len(span.units) for span in self.spans)

    @cached_property
    def choice(self) -> SolverSelection:
        """The solver, and why it is this one."""
        dataset = self.dataset
        return choose_solver(self.solver, dataset.n_rows, dataset.n_columns, self.needs, dataset.held)

    @cached_property
    def scatters(self) -> int:
        """How many class scatters a pass for moments leaves."""
        return n_scatters(self.n_classes, self.dataset.n_features, self.needs.scatters)

    @property
    def search_in_memory(self) -> bool:
        """Whether searches may keep rows in the memory of this process; depends on the settings alone."""
        limit = self.resources.memory_limit * self.resources.workers
        return self.resources.in_process and fits_memory(self.dataset, limit)

    def sweep_in_memory(self, state_bytes: int) -> bool:
        """Tell whether the states of rows may stay in this process; depends on the settings alone."""
        limit = self.resources.memory_limit * self.resources.workers
        return self.resources.in_process and states_fit_memory(self.dataset.n_rows, state_bytes, limit)

    @property
    def state_bytes(self) -> int:
        """The largest state that sweeps keep of a row."""
        n, d = self.dataset.n_rows, self.dataset.n_features
        size = min(self.needs.n_components or 1, d, n)
        return max((need.state_bytes(self.n_classes, size, min(n, d)) for need in self.needs.swept), default=0)

    @property
    def projected_bytes(self) -> int:
        """The bytes of the projected rows, with their numbers, labels and kept columns."""
        beside = len(self.widths) * 8 * (1 + 2 * self.kept)
        return self.formats * self.dataset.n_rows * (sum(self.widths) * self.resources.item + beside)

    @property
    def solved(self) -> int:
        """The bytes that one process takes for statistics and their eigenproblem, whatever tasks do."""
        dataset, needs, solver = self.dataset, self.needs, self.solver
        n, d = dataset.n_rows, dataset.n_features
        if self.choice.kind == "dense":  # scatters, offsets of means, and eigenvectors
            return summary_bytes(8 * self.n_classes, d, self.scatters + 5)
        if self.choice.kind == "dual":
            # Rows in double precision as read, joined, centred, turned for the factorisation, and its basis; then
            # scatters of the classes, or sums of them, besides the eigenproblem.
            rank = min(d, n + self.n_classes * len(needs.medians))
            return n * d * 8 * 5 + scatter_bytes(self.n_classes, rank) + 8 * rank**2 * 8
        size = block_size(needs, solver, dataset.n_columns) + self.n_classes * (1 + len(needs.medians))
        vectors = len(needs.scatters) * (solver.passes + 5) * min(size, d) * d * self.resources.item
        return vectors + dataset.nnz * ARPACK_ITEM * (self.choice.kind == "arpack")


ARPACK_ITEM = 56
"""Bytes of a stored value while rows in memory are centred, or transposed, for ARPACK."""


@dataclass(frozen=True)
class Measured:
    """The measurements of a job by its pilot."""

    footprints: Sequence[Footprint]
    between: int
    """The most that the process took between passes."""
    seen: float = 1.0
    """Share of the classes that two units have."""

    def memory(self, threads: int) -> int:
        """Return the most that a process takes with so many threads."""
        return max([self.between, *(each.memory(threads, self.seen) for each in self.footprints)])


def floor_of(request: RunRequest) -> int:
    """Return the least that a run takes, without reading a row: two units, scatters, means, and what is solved."""
    dataset = request.dataset
    rows = max(stop - start for span in request.spans for start, stop in span.units)
    return 2 * dataset.share_bytes(rows) + request.solved


def make_plan(request: RunRequest, measured: Measured | None = None) -> Plan:
    """Return the plan of a run by what its pilot has measured; without, a floor to refuse what is far too large."""
    dataset, resources, choice = request.dataset, request.resources, request.choice
    threads, states = resources.process_threads, 2 * dataset.n_rows * request.state_bytes
    memory = floor_of(request) if measured is None else measured.memory(threads)
    if resources.in_process or choice.kind == "dual":
        memory = max(memory, request.solved)
    if request.sweep_in_memory(request.state_bytes):
        memory, states = memory + states, 0
    if any(need.takes_rows for need in request.needs.swept) and dataset.n_bytes <= LIMITS.direct_bytes:
        memory += 2 * dataset.n_bytes
    searches = search_costs_of(request)
    memory = max([memory, *(search.memory for search in searches)])
    footprints = measured.footprints if measured else ()
    kept = sum(each.checkpoints for each in footprints)
    stored = summary_bytes(request.n_classes, dataset.n_features, request.scatters) if choice.kind == "dense" else 0
    size = min(request.needs.n_components or dataset.n_features, dataset.n_features, dataset.n_rows)
    words = {"dual": "in the span of the rows", "dense": f"dense, {dataset.n_columns} x {dataset.n_columns}"}
    return plan_of(
        request,
        footprints,
        memory,
        solver=words.get(choice.kind, choice.kind),
        output=request.projected_bytes + request.n_methods * dataset.n_features * size * 8 + stored,
        search=sum_searches(searches),
        choice=choice,
        kept=max(kept, states),
        more="; ".join(
            ["medians again where brackets overflow or miss"] * bool(request.needs.medians)
            + ["sweeps until they converge"] * bool(request.needs.swept)
        ),
    )


def plan_of(request: RunRequest, footprints: Sequence[Footprint], memory: int, **others: Any) -> Plan:
    """Return the plan of passes; ``memory`` is what a process needs beside its memory before any data."""
    resources, dataset = request.resources, request.dataset
    if dataset.reads_ahead:  # a pilot's tasks have one unit
        rows = max(stop - start for span in request.spans for start, stop in span.units)
        memory += resources.process_threads * dataset.share_bytes(rows)
    base = resources.base + dataset.facts.resident_bytes + COMPILED * bool(request.needs.searches)
    passes = [
        PassPlan(each.name, each.n_bytes, each.seconds / min(resources.busy_threads, each.spans)) for each in footprints
    ]
    return Plan(
        passes=passes,
        spans=len(request.spans),
        memory=int(base + SLACK * memory + THREAD_SLACK * resources.process_threads),
        base=base,
        resources=resources,
        free=storage.free_bytes(resources.output),
        advice=_advice(dataset, request.spans),
        **others,
    )


def sum_searches(searches: Sequence[SearchCosts], at_once: bool = False) -> SearchCosts | None:
    """Return the costs of searches in turn, or of searches that are all in memory ``at_once``; None without any."""
    if not searches:
        return None
    largest = sum if at_once else max
    return replace(
        searches[-1],
        proved=all(search.proved for search in searches),
        pairs=sum(search.pairs for search in searches),
        scratch=largest(search.scratch for search in searches),
        memory=largest(search.memory for search in searches),
    )


def search_costs_of(request: RunRequest, more_queries: float = 1.0) -> list[SearchCosts]:
    """Return the costs of each search, that of some queries with so many times more of these."""
    if not request.needs.searches:
        return []
    from mmpca_dist.neighbors.costs import search_costs

    vectors, solving = 0, 0
    if request.choice.in_passes:  # a block of vectors and the basis that it is to join, in double precision
        vectors = block_size(request.needs, request.solver, request.dataset.n_features)
        solving = request.solved + 8 * request.dataset.n_features * vectors * (request.solver.passes + 5)
    return [
        search_costs(
            request.dataset,
            search.asking_more(more_queries),
            counts=request.counts,
            standardize=request.standardize,
            in_memory=request.search_in_memory,
            spans=request.spans,
            threads=request.resources.process_threads,
            vectors=vectors,
            solving=solving,
        )
        for search in request.needs.searches
    ]


def _advice(dataset: Dataset, spans: list[Span]) -> str:
    """Recommend smaller chunks if one row of chunks is larger than a reading unit."""
    rows = max(stop - start for span in spans for start, stop in span.units)
    chunk_rows = default_chunk_rows(dataset.row_bytes)
    if rows <= chunk_rows:
        return ""
    return (
        f" A task reads whole rows of whole chunks, {rows} rows or {format_bytes(rows * dataset.row_bytes)} at a time; "
        f"chunks of {chunk_rows} rows and all columns would do: mmpca ingest {dataset.uri} DEST.zarr."
    )
