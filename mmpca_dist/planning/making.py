"""What a run will cost, before it reads a row: passes, bytes, operations, memory, disk, time."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from dask.utils import format_bytes
from numpy.typing import NDArray

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import Dataset, Span, default_chunk_rows
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.scratch import fits_memory, row_bytes
from mmpca_dist.planning.plan import PassPlan, Plan, Resources
from mmpca_dist.planning.projecting import projected_bytes, projecting
from mmpca_dist.planning.timing import median_passes, plan_pass, sample_pass
from mmpca_dist.solvers.costs import PassesCosts, pair_passes_costs, passes_costs
from mmpca_dist.solvers.options import Choice, SolverOptions, choose_solver
from mmpca_dist.statistics.checkpoint import most_kept
from mmpca_dist.statistics.costs import largest_unit, reading_wide, reducing, summary_bytes
from mmpca_dist.statistics.gather import is_wide, scatter_bytes, use_pooled
from mmpca_dist.statistics.medians import KEPT_BYTES

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

SLACK = 1.15
"""Allocators keep some memory that was freed."""


def search_in_memory(dataset: Dataset, resources: Resources) -> bool:
    """Tell whether a search may keep rows in the memory of this process, by the limit of the settings alone."""
    return resources.in_process and fits_memory(
        dataset.n_rows * row_bytes(dataset), resources.memory_limit * resources.workers
    )


@dataclass(frozen=True)
class Request:
    """What the plan must know of a run's settings.

    ``counts`` are the rows of each class, ``median_rows`` is the number of rows in all sets of classes whose medians
    are wanted, together, ``search`` what m-pca2 wants, if it is among the methods, and ``scatters`` what the methods
    are made from (see ``solvers.passes``).
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
    solver: SolverOptions = field(default_factory=SolverOptions)
    scatters: frozenset[str] = frozenset({"plain"})

    @property
    def n_classes(self) -> int:
        return len(self.counts)


def make_plan(dataset: Dataset, spans: list[Span], request: Request) -> Plan:
    """Return the plan of fits to all rows, over ``spans`` of a data set, and of projections."""
    n, d, resources = dataset.n_rows, dataset.n_features, request.resources
    wide, pooled = is_wide(n, d), use_pooled(request.n_classes, d)
    rank = min(request.largest, d, n)
    base = resources.base + dataset.resident_bytes
    choice = choose_solver(request.solver, n, d, request.largest, needed=request.scatters)
    if choice.in_passes:
        passes, more_passes, costs = _in_passes(dataset, spans, request, choice.kind)
        reducing, sums = costs.memory, costs.sums
    else:
        passes, more_passes = _at_once(dataset, spans, request)
        reducing = _forming(dataset, spans, request)
        sums = n * d * 8 if wide else summary_bytes(request.n_classes, d, pooled)
    sums += KEPT_BYTES if request.median_rows else 0
    kept = (len(passes) + more_passes) * most_kept(dataset.n_bytes, len(spans), sums)
    search = search_costs_of(dataset, spans, request, choice)
    if search is not None:
        passes += search_passes(dataset, spans, resources, search)
    widths = [rank] * request.n_projected
    if widths:
        passes.append(_projection_pass(dataset, resources, widths, request.formats))
    held = [reducing, projecting(dataset, spans, resources, widths)]
    if search is not None:
        held.append(search.memory)
    form = "in the span of the rows" if wide else f"dense, {d} x {d}"
    return Plan(
        passes=passes,
        more_passes=more_passes,
        spans=len(spans),
        solver=choice.kind if choice.in_passes else form,
        pooled=pooled and not wide and not choice.in_passes,
        memory=int((base + max(held)) * SLACK),
        base=base,
        resources=resources,
        output=projected_bytes(dataset, resources, widths, request.formats) + request.n_methods * d * rank * 8,
        free=_free_bytes(resources.output),
        advice=_advice(dataset, spans),
        search=search,
        choice=choice,
        kept=kept,
    )


def _forming(dataset: Dataset, spans: list[Span], request: Request) -> int:
    """Return what a process holds while scatters are formed and solved, or few rows kept."""
    n, d, resources = dataset.n_rows, dataset.n_features, request.resources
    if is_wide(n, d):
        return wide_bytes(dataset, spans, request)
    pooled = use_pooled(request.n_classes, d)
    held = reducing(
        dataset,
        spans,
        n_classes=request.n_classes,
        pooled=pooled,
        medians=request.median_rows > 0,
        item=resources.item,
        threads=resources.process_threads,
    )
    solving = ((2 if pooled else request.n_classes) + 5) * d * d * 8
    return max(held, solving) if resources.in_process else held


def wide_bytes(dataset: Dataset, spans: list[Span], request: Request, at_most: bool = False) -> int:
    """Return what a process holds of few rows of many columns; ``at_most`` of any number of rows up to all."""
    rank = wide_rank(dataset, request)
    return reading_wide(dataset, spans, rank, scatter_bytes(request.n_classes, rank, at_most))


def wide_rank(dataset: Dataset, request: Request) -> int:
    """Return the dimensions of what few rows span, and medians beside them."""
    return min(dataset.n_features, dataset.n_rows + (request.n_classes if request.median_rows else 0))


def _at_once(dataset: Dataset, spans: list[Span], request: Request) -> tuple[list[PassPlan], int]:
    """Return the passes that form scatters, or keep few rows, and how many more for medians there may be."""
    n, d, resources = dataset.n_rows, dataset.n_features, request.resources
    wide, pooled = is_wide(n, d), use_pooled(request.n_classes, d)
    operations = n * d * min(n, d) * (2 if wide else 1 + pooled) * 1.0
    counted = 0 if wide else request.median_rows * d
    found = plan_pass("rows" if wide else "moments", dataset, operations, resources, counted=counted)
    if not request.median_rows or wide:
        return [found], 0
    before, after, more = _medians(dataset, spans, request)
    return [*before, found, *after], more


def _in_passes(
    dataset: Dataset, spans: list[Span], request: Request, kind: str
) -> tuple[list[PassPlan], int, PassesCosts]:
    """Return the passes that apply scatters to vectors, how many more there may be, and what they cost."""
    resources = request.resources
    costs = passes_costs(
        dataset,
        spans,
        replace(request.solver, kind=kind),
        n_components=request.largest,
        n_classes=request.n_classes,
        scatters=request.scatters,
        medians=request.median_rows > 0,
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
    before, after, more = _medians(dataset, spans, request)
    counting = plan_pass("medians", dataset, 0, resources, counted=request.median_rows * dataset.n_features)
    return [sample, *before, counting, *after, *passes], more, costs


def _medians(dataset: Dataset, spans: list[Span], request: Request) -> tuple[list[PassPlan], list[PassPlan], int]:
    return median_passes(dataset, spans, request.resources, rows=request.median_rows, n_classes=request.n_classes)


def plan_projection(
    dataset: Dataset, spans: list[Span], resources: Resources, *, widths: list[int], formats: int
) -> Plan:
    """Return the plan of a projection alone, by methods of ``widths`` components into so many formats."""
    passes = [_projection_pass(dataset, resources, widths, formats)]
    held = projecting(dataset, spans, resources, widths)
    return plan_of_passes(
        dataset, spans, passes, resources, held, output=projected_bytes(dataset, resources, widths, formats)
    )


def plan_of_passes(
    dataset: Dataset,
    spans: list[Span],
    passes: list[PassPlan],
    resources: Resources,
    held: int,
    *,
    more_passes: int = 0,
    solver: str = "",
    output: int = 0,
    kept: int = 0,
    advice: str = "",
    search: SearchCosts | None = None,
) -> Plan:
    """Return the plan of passes during which a process holds ``held`` bytes, beside what it has before any data."""
    base = resources.base + dataset.resident_bytes
    return Plan(
        passes=passes,
        more_passes=more_passes,
        spans=len(spans),
        solver=solver,
        pooled=False,
        memory=int((base + held) * SLACK),
        base=base,
        resources=resources,
        output=output,
        free=_free_bytes(resources.output),
        advice=_advice(dataset, spans) + advice,
        search=search,
        kept=kept,
    )


def plan_moments(
    parts: Sequence[tuple[Dataset, list[Span], int]], resources: Resources, *, n_classes: int, pooled: bool, models: int
) -> Plan:
    """Return the plan of adding the rows of data sets to stored moments, one data set after the other, and solving.

    Parameters
    ----------
    parts : sequence of (data set, its spans, number of its classes)
    n_classes : int
        Of all rows together.
    pooled : bool
        Whether one scatter stands for those of all classes.
    models : int
        Bytes of the models that are written.
    """
    d = parts[0][0].n_features
    scatters = (1 if pooled else n_classes) * d * d * 8
    held = [5 * scatters + 5 * d * d * 8]  # what is stored and what is new, both over all classes too, and their sum
    passes = []
    for dataset, spans, found in parts:
        taking = reducing(
            dataset, spans,
            n_classes=found, pooled=pooled, medians=False, item=resources.item, threads=resources.process_threads,
        )  # fmt: skip
        held.append(taking + dataset.resident_bytes)
        passes.append(plan_pass("moments", dataset, dataset.n_rows * d * d * 1.0, resources))
    whole = PassPlan("moments of the new rows", *(sum(sizes) for sizes in zip(*map(_numbers, passes), strict=True)))
    return Plan(
        passes=[whole],
        more_passes=0,
        spans=sum(len(spans) for _, spans, _ in parts),
        solver=f"dense, {d} x {d}",
        pooled=pooled,
        memory=int((resources.base + max(held)) * SLACK),
        base=resources.base,
        resources=resources,
        output=2 * scatters + models,
        free=_free_bytes(resources.output),
        advice="".join(dict.fromkeys(_advice(dataset, spans) for dataset, spans, _ in parts)),
    )


def _numbers(one: PassPlan) -> tuple[int, float, float]:
    return one.bytes, one.operations, one.seconds


def _advice(dataset: Dataset, spans: list[Span]) -> str:
    """Say which chunks would help, where one row of chunks is more than a reading unit; else nothing."""
    rows, fitting = largest_unit(dataset, spans)[0], default_chunk_rows(dataset.row_bytes)
    if rows <= fitting:
        return ""
    return (
        f" A task reads whole rows of whole chunks, {rows} rows or {format_bytes(rows * dataset.row_bytes)} at a time; "
        f"chunks of {fitting} rows and all columns would do: mmpca ingest {dataset.uri} DEST.zarr."
    )


def search_costs_of(dataset: Dataset, spans: list[Span], request: Request, choice: Choice) -> SearchCosts | None:
    if request.search is None:
        return None
    from mmpca_dist.neighbors.costs import search_costs

    resources, solving = request.resources, None
    unit_rows, unit = largest_unit(dataset, spans)
    if choice.in_passes:
        solving = pair_passes_costs(
            dataset.n_features,
            replace(request.solver, kind=choice.kind),
            n_components=request.largest,
            n_classes=request.n_classes,
            groups=len(request.scatters & {"plain", "weighted"}),
            medians=request.median_rows > 0,
            item=resources.item,
        )
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
        vectors=solving.vectors if solving else None,
        solving=solving.memory if solving else 0,
    )


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
