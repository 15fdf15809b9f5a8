"""Cost of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.utils import format_bytes
from numpy.typing import NDArray

from mmpca_dist.eigen.costs import PassesCosts, pair_passes_costs, passes_costs
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions, SolverSelection, choose_solver
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.options import fits_memory
from mmpca_dist.passes.checkpoint import most_kept
from mmpca_dist.passes.sweeps import SweepRound, states_fit_memory, sweep_spans
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.planning.passes import RowPasses
from mmpca_dist.planning.plan import PassPlan, Plan, Resources
from mmpca_dist.statistics.costs import largest_unit, summary_bytes
from mmpca_dist.statistics.from_rows import n_scatters, scatter_bytes
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.row_maps.sampling import by_chunk, sample_plan
from mmpca_dist.tables.spans import Span, default_chunk_rows

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

SLACK = 1.15
"""Factor for freed memory that allocators keep."""
POSTERIORS = 6
"""Arrays of the size of the vectors that coexist while a fit is updated."""


def search_in_memory(dataset: Dataset, resources: Resources) -> bool:
    """Tell whether a search may keep rows in the memory of this process; depends on the settings alone."""
    return resources.in_process and fits_memory(dataset, resources.memory_limit * resources.workers)


@dataclass(frozen=True)
class RunRequest:
    """Facts about a run that its plan follows from."""

    counts: NDArray[np.int64]  # (C,): rows of each class
    needs: Needs  # what the methods need to know of the rows
    n_methods: int  # blocks of components of all methods, one for most
    n_projected: int  # of those that are projected
    formats: int
    kept: int  # columns that go with projected rows
    median_rows: int  # rows in all sets of classes whose medians are needed, together
    resources: Resources
    standardize: bool = False
    solver: SolverOptions = field(default_factory=SolverOptions)

    @property
    def largest(self) -> int:
        """The largest number of components."""
        return self.needs.n_components or 1

    @property
    def n_classes(self) -> int:
        return len(self.counts)


def make_plan(rows: RowPasses, request: RunRequest) -> Plan:
    """Return the plan of fits to all rows of a data set, and of projections."""
    dataset, n_classes, resources = rows.dataset, request.n_classes, request.resources
    n, d = dataset.n_rows, dataset.n_features
    rank, scatters = min(request.largest, d, n), n_scatters(n_classes, d, request.needs.scatters)
    choice, gathered = choose_solver(request.solver, n, dataset.n_columns, request.needs, dataset.held), 0
    if choice.in_passes:
        solver = choice.kind
        passes, more_passes, costs = _operator_passes(rows, request, choice.kind)
        memory, node, stored = costs.memory, costs.sums, 0
    elif choice.kind == "dual":
        solver = "in the span of the rows"
        passes, more_passes = [rows.plan("rows", 2.0 * dataset.nnz * min(n, d))], 0
        gathered = wide_bytes(rows, request)
        memory, node, stored = gathered, n * d * 8, 0
    else:
        solver = f"dense, {dataset.n_columns} x {dataset.n_columns}"
        operations = 1.0 * dataset.nnz * d * (scatters if scatters < n_classes else 1)
        passes, more_passes = rows.moments(operations, median_rows=request.median_rows, n_classes=n_classes)
        memory = rows.reducing(n_classes, scatters=scatters, median_rows=request.median_rows)
        if resources.in_process:  # forms scatters and offsets of means, and solves for their eigenvectors
            memory = max(memory, summary_bytes(8 * n_classes, d, scatters + 5))
        node = stored = summary_bytes(n_classes, d, scatters)
    sweeps, more_sweeps, sweeping, states = _sweeps(rows, request.needs, n_classes, gathered, choice.in_passes)
    memory = max(memory, sweeping)
    node += LIMITS.kept_bytes if request.median_rows else 0
    kept = (len(passes) + more_passes) * most_kept(dataset.n_bytes, len(rows.spans), node)
    searches = search_costs_of(rows, request, choice)
    for search in searches:
        passes += search_passes(rows, search)
    passes += sweeps
    widths = [rank] * request.n_projected
    if widths:
        passes.append(rows.project(widths, request.formats, request.kept))
    return plan_of_passes(
        rows,
        passes,
        max(memory, rows.projecting(widths, request.kept), *(search.memory for search in searches)),
        more_passes=more_passes,
        solver=solver,
        output=rows.projected_bytes(widths, request.formats, request.kept) + request.n_methods * d * rank * 8 + stored,
        search=sum_searches(searches),
        choice=choice,
        kept=max(kept, states),
        more_sweeps=more_sweeps,
    )


def sum_searches(searches: Sequence[SearchCosts], at_once: bool = False) -> SearchCosts | None:
    """Return the costs of searches in turn, or of searches that are all in memory ``at_once``; None without any."""
    if not searches:
        return None

    def values(name: str) -> Iterator[Any]:
        return (getattr(search, name) for search in searches)

    largest = sum if at_once else max
    sizes = {name: largest(values(name)) for name in ("scratch", "memory")}
    return replace(searches[-1], proved=all(values("proved")), pairs=sum(values("pairs")), **sizes)


def wide_bytes(rows: RowPasses, request: RunRequest) -> int:
    """Return the bytes of a process with few rows of many columns, and with the problem in their span.

    Rows in float64 as read, joined, centred, turned for the factorisation, and its basis; then scatters of the classes,
    or of sums of them, besides buffers and the eigenproblem.
    """
    dataset, rank = rows.dataset, wide_rank(rows.dataset, request)
    solving = scatter_bytes(request.n_classes, rank) + 8 * rank**2 * 8 + 3 * BLOCK_ROWS * rank * 8
    return dataset.n_rows * dataset.n_features * 8 * 5 + largest_unit(dataset, rows.spans)[1] + solving


def wide_rank(dataset: Dataset, request: RunRequest) -> int:
    """Return the largest dimension of the span of few rows and of medians."""
    return min(dataset.n_features, dataset.n_rows + request.n_classes * len(request.needs.medians))


def _operator_passes(rows: RowPasses, request: RunRequest, kind: str) -> tuple[list[PassPlan], int, PassesCosts]:
    """Return the passes that apply scatters to vectors, how many more there may be, and their costs."""
    resources = request.resources
    costs = passes_costs(
        rows.dataset,
        rows.spans,
        replace(request.solver, kind=kind),
        request.needs,
        n_classes=request.n_classes,
        standardize=request.standardize,
        item=resources.item,
        threads=resources.process_threads,
    )
    passes = [
        rows.plan("apply" if vectors else "moments", operations)
        for vectors, operations in zip(costs.vectors, costs.operations, strict=True)
    ]
    if rows.dataset.widening is not None:  # means and slopes come before the rows they adjust
        passes = [rows.plan("means", 0), *passes]
    more = request.solver.passes - 1 if kind == "arpack" else 0
    if not request.median_rows:
        return [rows.sample(), *passes], more, costs
    before, after, more_passes = rows.medians(request.median_rows, request.n_classes)
    medians = rows.plan("medians", 0, counted=request.median_rows * rows.dataset.n_features)
    return [rows.sample(), *before, medians, *after, *passes], more_passes + more, costs


def plan_projection(
    dataset: Dataset, spans: list[Span], resources: Resources, *, widths: list[int], formats: int, kept: int
) -> Plan:
    """Return the plan of a projection alone, by methods of ``widths`` components into so many formats."""
    rows = RowPasses(dataset, spans, resources)
    output = rows.projected_bytes(widths, formats, kept)
    return plan_of_passes(rows, [rows.project(widths, formats, kept)], rows.projecting(widths, kept), output=output)


def plan_of_passes(rows: RowPasses, passes: list[PassPlan], memory: int, **others: Any) -> Plan:
    """Return the plan of passes; ``memory`` is what a process needs in addition to its memory before any data."""
    base = rows.resources.base + rows.dataset.facts.resident_bytes
    return Plan(
        passes=passes,
        spans=len(rows.spans),
        memory=int((base + memory) * SLACK),
        base=base,
        resources=rows.resources,
        free=storage.free_bytes(rows.resources.output),
        advice=_advice(rows.dataset, rows.spans),
        **others,
    )


def plan_moments(
    parts: Sequence[tuple[Dataset, list[Span], int]], resources: Resources, *, n_classes: int, pooled: bool, models: int
) -> Plan:
    """Return the plan of a refresh: add the rows of data sets to stored moments, in turn, and solve.

    ``parts`` are data sets, their spans and the number of their classes; ``n_classes`` is that of all rows together.
    ``pooled`` statistics keep only a sum of the classes' scatters. ``models`` are the bytes of the models.
    """
    d, width = parts[0][0].n_features, parts[0][0].n_columns
    moments = summary_bytes(n_classes, d, 1 if pooled else n_classes)
    memory = 5 * moments + 5 * d * d * 8  # stored and new moments, both also over all classes, and their sum
    passes = []
    for dataset, spans, n_own_classes in parts:
        rows = RowPasses(dataset, spans, resources)
        scatters = 1 if pooled else n_own_classes
        reducing = rows.reducing(n_own_classes, scatters=scatters)
        memory = max(memory, reducing + dataset.facts.resident_bytes)
        passes.append(rows.plan("moments", 1.0 * dataset.nnz * d))
    sums = (sum(getattr(each, name) for each in passes) for name in ("bytes", "seconds"))
    return Plan(
        passes=[PassPlan("moments of the new rows", *sums)],
        spans=sum(len(spans) for _, spans, _ in parts),
        solver=f"dense, {width} x {width}",
        memory=int((resources.base + memory) * SLACK),
        base=resources.base,
        resources=resources,
        output=2 * moments + models,
        free=storage.free_bytes(resources.output),
        advice="".join(dict.fromkeys(_advice(dataset, spans) for dataset, spans, _ in parts)),
    )


def _advice(dataset: Dataset, spans: list[Span]) -> str:
    """Recommend smaller chunks if one row of chunks is larger than a reading unit."""
    rows, chunk_rows = largest_unit(dataset, spans)[0], default_chunk_rows(dataset.row_bytes)
    if rows <= chunk_rows:
        return ""
    return (
        f" A task reads whole rows of whole chunks, {rows} rows or {format_bytes(rows * dataset.row_bytes)} at a time; "
        f"chunks of {chunk_rows} rows and all columns would do: mmpca ingest {dataset.uri} DEST.zarr."
    )


def search_costs_of(rows: RowPasses, request: RunRequest, choice: SolverSelection) -> list[SearchCosts]:
    """Return the costs of each search."""
    if not request.needs.searches:
        return []
    from mmpca_dist.neighbors.costs import search_costs

    resources, solving = request.resources, 0
    vectors: list[int] | None = None
    if choice.in_passes:
        solver, d = replace(request.solver, kind=choice.kind), rows.dataset.n_features
        vectors, solving = pair_passes_costs(d, solver, request.needs, n_classes=request.n_classes, item=resources.item)
    return [
        search_costs(
            rows.dataset,
            search,
            counts=request.counts,
            standardize=request.standardize,
            in_memory=search_in_memory(rows.dataset, resources),
            spans=rows.spans,
            threads=resources.process_threads,
            vectors=vectors,
            solving=solving,
        )
        for search in request.needs.searches
    ]


def search_passes(rows: RowPasses, search: SearchCosts) -> list[PassPlan]:
    """Return the passes that lay out rows for a search."""
    written = 0 if search.in_memory else search.scratch
    return [rows.sample(), rows.plan("cells", 0, written=written)]


def sweep_in_memory(n_rows: int, state_bytes: int, resources: Resources) -> bool:
    """Tell whether the states of rows may stay in this process; depends on the settings alone."""
    limit = resources.memory_limit * resources.workers
    return resources.in_process and states_fit_memory(n_rows, state_bytes, limit)


def _sweeps(
    rows: RowPasses, needs: Needs, n_classes: int, gathered: int, in_passes: bool
) -> tuple[list[PassPlan], int, int, int]:
    """Return passes of all fits by sweeps, how many more there may be, bytes of a process, and states at the output.

    ``gathered`` is what a process takes that has few rows of many columns in memory; 0 where sweeps read the rows.
    ``in_passes`` is whether a solver in passes serves, which reads sparse rows as they are.
    """
    dataset, resources = rows.dataset, rows.resources
    n, d = dataset.n_rows, dataset.n_features
    passes: list[PassPlan] = []
    keeps_sparse = dataset.sparse and in_passes
    more, memory, states = 0, 0, 0
    for need in needs.swept:
        rounds = need.rounds(n_classes, min(needs.n_components or 1, d, n), min(n, d))
        in_memory = sweep_in_memory(n, max(each.state_bytes for each in rounds), resources)
        for each in rounds:
            written = 0 if in_memory else n * each.state_bytes
            values = n * min(n, d) if gathered else dataset.nnz
            operations = 2.0 * values * each.columns + n * each.row_operations + each.update_operations
            if gathered:
                passes.append(rows.plan("rows", each.expected * operations))
            else:
                sweep = rows.plan("sweep", operations, written=written)
                passes += [sweep] * each.expected
                more += each.most - each.expected
            memory = max(memory, gathered + _sweeping(rows, each, in_memory, bool(gathered), keeps_sparse))
            states = max(states, 2 * written)
        if need.takes_rows and dataset.n_bytes <= LIMITS.direct_bytes:
            memory += 2 * dataset.n_bytes
    return passes, more, memory, states


def _sweeping(rows: RowPasses, each: SweepRound, in_memory: bool, gathered: bool, keeps_sparse: bool) -> int:
    """Return the bytes of a process during sweeps: units with their states, blocks, sums, posterior, and states."""
    dataset, resources = rows.dataset, rows.resources
    n, d = dataset.n_rows, dataset.n_features
    spans = sweep_spans(dataset, each.state_bytes)
    unit_rows, unit = largest_unit(dataset, spans)
    unit = 4 * dataset.share_bytes(unit_rows) if keeps_sparse else unit
    width = min(n, d) + 1 if gathered else d
    vectors = 8 * width * each.columns
    sums = vectors + each.sum_bytes
    converted = 0 if keeps_sparse else 8 * BLOCK_ROWS * width
    task = (0 if gathered else unit) + 2 * unit_rows * each.state_bytes + converted + each.block_bytes + 3 * sums
    waiting = math.ceil(math.log2(len(spans) + 1)) + 2
    states = 2 * n * each.state_bytes if in_memory else 0
    posterior = POSTERIORS * sums + (3 * 8 * d * each.columns if gathered else 0)
    return resources.process_threads * task + min(waiting, len(spans)) * sums + states + posterior


def with_row_maps(plan: Plan, dataset: Dataset, spans: list[Span]) -> Plan:
    """Return the plan of a job that fits the row maps of its data set before all else; others stay as they are."""
    if dataset.mapped is None or dataset.mapped.fits is not None:
        return plan
    passes: list[PassPlan] = []
    source = before = dataset.unmapped
    memory, counts = 0, set[tuple[int, int]]()
    for number, row_map in enumerate(dataset.mapped.maps):
        count, seed = row_map.sample_rows(before.row_bytes), row_map.sample_seed
        reading = 0
        if count and (count, seed) not in counts:
            counts.add((count, seed))
            sizes = [
                stop - start
                for start, stop, _ in by_chunk(sample_plan(dataset.n_rows, count, seed), source.chunk_edges)
            ]
            passes.append(RowPasses(source, spans, plan.resources).plan("row maps", 0, n_rows=sum(sizes)))
            read = source.sparse_bytes if source.sparse else source.reading_bytes
            reading = plan.resources.process_threads * read(max(sizes))
        # The sample as it is stored, drawn and joined, and its mapped rows in double precision.
        sample = count * (2 * source.row_bytes + 8 * source.n_features + 16 * before.n_features)
        memory = max(memory, sample + max(reading, row_map.fitting_bytes(before.n_features)))
        before = source.with_maps(dataset.mapped.maps[: number + 1])
    held = int((plan.base + memory) * SLACK)
    return replace(plan, passes=[*passes, *plan.passes], memory=max(plan.memory, held))
