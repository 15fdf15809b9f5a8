"""Cost of a run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from dask.utils import format_bytes
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span, default_chunk_rows
from mmpca_dist.datasets.stores import storage
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.scratch import fits_memory, row_bytes
from mmpca_dist.planning.passes import median_passes, moment_passes, plan_pass, projected_bytes, projecting, sample_pass
from mmpca_dist.planning.plan import PassPlan, Plan, Resources
from mmpca_dist.solvers.costs import PassesCosts, pair_passes_costs, passes_costs
from mmpca_dist.solvers.needs import Needs
from mmpca_dist.solvers.options import Choice, SolverOptions, choose_solver
from mmpca_dist.statistics.checkpoint import most_kept
from mmpca_dist.statistics.costs import largest_unit, reading_wide, reducing, summary_bytes
from mmpca_dist.statistics.gather import is_wide, scatter_bytes, use_pooled

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

SLACK = 1.15
"""Factor for freed memory that allocators keep."""


def search_in_memory(dataset: Dataset, resources: Resources) -> bool:
    """Tell whether a search may keep rows in the memory of this process; depends on the settings alone."""
    return resources.in_process and fits_memory(
        dataset.n_rows * row_bytes(dataset), resources.memory_limit * resources.workers
    )


@dataclass(frozen=True)
class Request:
    """Facts about a run that its plan follows from.

    ``counts`` are the rows of each class, ``median_rows`` is the number of rows in all sets of classes whose medians
    are needed, together, and ``needs`` states what the methods need to know of the rows.
    """

    counts: NDArray[np.int64]
    needs: Needs
    n_methods: int
    n_projected: int
    formats: int
    median_rows: int
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


def make_plan(dataset: Dataset, spans: list[Span], request: Request) -> Plan:
    """Return the plan of fits to all rows, over ``spans`` of a data set, and of projections."""
    n, d, resources = dataset.n_rows, dataset.n_features, request.resources
    n_classes, wide, pooled = request.n_classes, is_wide(n, d), use_pooled(request.n_classes, d)
    rank = min(request.largest, d, n)
    choice = choose_solver(request.solver, n, d, request.needs)
    if choice.in_passes:
        solver = choice.kind
        passes, more_passes, costs = _operator_passes(dataset, spans, request, choice.kind)
        memory, node = costs.memory, costs.sums
    elif wide:
        solver = "in the span of the rows"
        passes, more_passes = [plan_pass("rows", dataset, n * d * min(n, d) * 2.0, resources)], 0
        memory, node = wide_bytes(dataset, spans, request), n * d * 8
    else:
        solver = f"dense, {d} x {d}"
        passes, more_passes = moment_passes(
            dataset, spans, resources, n * d * min(n, d) * (1.0 + pooled),
            median_rows=request.median_rows, n_classes=n_classes,
        )  # fmt: skip
        memory, node = _dense_bytes(dataset, spans, request, pooled), summary_bytes(n_classes, d, pooled)
    node += LIMITS.kept_bytes if request.median_rows else 0
    kept = (len(passes) + more_passes) * most_kept(dataset.n_bytes, len(spans), node)
    searches = search_costs_of(dataset, spans, request, choice)
    for search in searches:
        passes += search_passes(dataset, spans, resources, search)
    widths = [rank] * request.n_projected
    if widths:
        passes.append(_projection_pass(dataset, resources, widths, request.formats))
    memory = max(memory, projecting(dataset, spans, resources, widths), *(search.memory for search in searches))
    return plan_of_passes(
        dataset,
        spans,
        passes,
        resources,
        memory,
        more_passes=more_passes,
        solver=solver,
        pooled=pooled and not wide and not choice.in_passes,
        output=projected_bytes(dataset, resources, widths, request.formats) + request.n_methods * d * rank * 8,
        search=sum_searches(searches),
        choice=choice,
        kept=kept,
    )


def sum_searches(searches: Sequence[SearchCosts], at_once: bool = False) -> SearchCosts | None:
    """Return the costs of searches in turn, or of searches that are all in memory ``at_once``; None without any."""
    if not searches:
        return None
    largest = sum if at_once else max
    return replace(
        searches[-1],
        pairs=sum(search.pairs for search in searches),
        scratch=largest(search.scratch for search in searches),
        memory=largest(search.memory for search in searches),
        read=sum(search.read for search in searches),
        preparation=sum(search.preparation for search in searches),
        products=sum(search.products for search in searches),
        proved=all(search.proved for search in searches),
    )


def _dense_bytes(dataset: Dataset, spans: list[Span], request: Request, pooled: bool) -> int:
    """Return the bytes of a process that forms scatters and solves for their eigenvectors."""
    d, resources = dataset.n_features, request.resources
    forming = reducing(
        dataset,
        spans,
        n_classes=request.n_classes,
        pooled=pooled,
        medians=request.median_rows > 0,
        item=resources.item,
        threads=resources.process_threads,
    )
    solving = ((2 if pooled else request.n_classes) + 5) * d * d * 8
    return max(forming, solving) if resources.in_process else forming


def wide_bytes(dataset: Dataset, spans: list[Span], request: Request, at_most: bool = False) -> int:
    """Return the bytes of a process with few rows of many columns; ``at_most`` for any number of rows up to all."""
    rank = wide_rank(dataset, request)
    return reading_wide(dataset, spans, rank, scatter_bytes(request.n_classes, rank, at_most))


def wide_rank(dataset: Dataset, request: Request) -> int:
    """Return the largest dimension of the span of few rows, and of medians beside them."""
    return min(dataset.n_features, dataset.n_rows + request.n_classes * len(request.needs.medians))


def _operator_passes(
    dataset: Dataset, spans: list[Span], request: Request, kind: str
) -> tuple[list[PassPlan], int, PassesCosts]:
    """Return the passes that apply scatters to vectors, how many more there may be, and their costs."""
    resources = request.resources
    costs = passes_costs(
        dataset,
        spans,
        replace(request.solver, kind=kind),
        request.needs,
        n_classes=request.n_classes,
        standardize=request.standardize,
        item=resources.item,
        threads=resources.process_threads,
    )
    passes = [
        plan_pass("apply" if vectors else "moments", dataset, operations, resources)
        for vectors, operations in zip(costs.vectors, costs.operations, strict=True)
    ]
    sample = sample_pass(dataset, spans, resources)
    if not request.median_rows:
        return [sample, *passes], 0, costs
    before, after, more_passes = median_passes(
        dataset, spans, resources, rows=request.median_rows, n_classes=request.n_classes
    )
    medians = plan_pass("medians", dataset, 0, resources, counted=request.median_rows * dataset.n_features)
    return [sample, *before, medians, *after, *passes], more_passes, costs


def plan_projection(
    dataset: Dataset, spans: list[Span], resources: Resources, *, widths: list[int], formats: int
) -> Plan:
    """Return the plan of a projection alone, by methods of ``widths`` components into so many formats."""
    passes = [_projection_pass(dataset, resources, widths, formats)]
    memory = projecting(dataset, spans, resources, widths)
    return plan_of_passes(
        dataset, spans, passes, resources, memory, output=projected_bytes(dataset, resources, widths, formats)
    )


def plan_of_passes(
    dataset: Dataset,
    spans: list[Span],
    passes: list[PassPlan],
    resources: Resources,
    memory: int,
    *,
    more_passes: int = 0,
    solver: str = "",
    pooled: bool = False,
    output: int = 0,
    kept: int = 0,
    advice: str = "",
    search: SearchCosts | None = None,
    choice: Choice | None = None,
) -> Plan:
    """Return the plan of passes; ``memory`` is what a process needs beside its memory before any data."""
    base = resources.base + dataset.resident_bytes
    return Plan(
        passes=passes,
        more_passes=more_passes,
        spans=len(spans),
        solver=solver,
        pooled=pooled,
        memory=int((base + memory) * SLACK),
        base=base,
        resources=resources,
        output=output,
        free=_free_bytes(resources.output),
        advice=_advice(dataset, spans) + advice,
        search=search,
        choice=choice,
        kept=kept,
    )


def plan_moments(
    parts: Sequence[tuple[Dataset, list[Span], int]], resources: Resources, *, n_classes: int, pooled: bool, models: int
) -> Plan:
    """Return the plan of a refresh: add the rows of data sets to stored moments, in turn, and solve.

    Parameters
    ----------
    parts : sequence of (data set, its spans, number of its classes)
    n_classes : int
        Of all rows together.
    pooled : bool
        Whether the statistics keep only a sum of the classes' scatters.
    models : int
        Bytes of the models that are written.
    """
    d = parts[0][0].n_features
    scatters = (1 if pooled else n_classes) * d * d * 8
    memory = 5 * scatters + 5 * d * d * 8  # stored and new moments, both also over all classes, and their sum
    passes = []
    for dataset, spans, n_own_classes in parts:
        forming = reducing(
            dataset, spans, n_classes=n_own_classes, pooled=pooled, medians=False,
            item=resources.item, threads=resources.process_threads,
        )  # fmt: skip
        memory = max(memory, forming + dataset.resident_bytes)
        passes.append(plan_pass("moments", dataset, dataset.n_rows * d * d * 1.0, resources))
    whole = PassPlan(
        "moments of the new rows",
        sum(each.bytes for each in passes),
        sum(each.operations for each in passes),
        sum(each.seconds for each in passes),
    )
    return Plan(
        passes=[whole],
        more_passes=0,
        spans=sum(len(spans) for _, spans, _ in parts),
        solver=f"dense, {d} x {d}",
        pooled=pooled,
        memory=int((resources.base + memory) * SLACK),
        base=resources.base,
        resources=resources,
        output=2 * scatters + models,
        free=_free_bytes(resources.output),
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


def search_costs_of(dataset: Dataset, spans: list[Span], request: Request, choice: Choice) -> list[SearchCosts]:
    """Return the costs of each search."""
    if not request.needs.searches:
        return []
    from mmpca_dist.neighbors.costs import search_costs

    resources = request.resources
    vectors: list[int] | None = None
    memory = 0
    unit_rows, unit = largest_unit(dataset, spans)
    if choice.in_passes:
        solver = replace(request.solver, kind=choice.kind)
        vectors, memory = pair_passes_costs(
            dataset.n_features, solver, request.needs, n_classes=request.n_classes, item=resources.item
        )
    return [
        search_costs(
            dataset,
            need.search,
            counts=request.counts,
            standardize=request.standardize,
            in_memory=search_in_memory(dataset, resources),
            spans=len(spans),
            unit_rows=unit_rows,
            unit=unit,
            threads=resources.process_threads,
            vectors=vectors,
            solving=memory,
        )
        for need in request.needs.searches
    ]


def search_passes(dataset: Dataset, spans: list[Span], resources: Resources, search: SearchCosts) -> list[PassPlan]:
    """Return the passes that lay out rows for a search."""
    scratch = 0 if search.in_memory else search.scratch
    cells = plan_pass("cells", dataset, search.preparation, resources, written=scratch)
    return [sample_pass(dataset, spans, resources), cells]


def _projection_pass(dataset: Dataset, resources: Resources, widths: list[int], formats: int) -> PassPlan:
    operations = 2.0 * dataset.nnz * sum(widths)
    written = projected_bytes(dataset, resources, widths, formats)
    return plan_pass("project", dataset, operations, resources, written=written, dense=not dataset.sparse)


def _free_bytes(uri: str) -> int | None:
    if not storage.is_local(uri):
        return None
    folder = Path(uri)
    with storage.explained(uri, "write to"):
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free
