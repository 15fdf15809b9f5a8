"""What passes that apply scatters to blocks of vectors cost: vectors, operations, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mmpca_dist.datasets.base import UNIT_BYTES, Dataset, Span
from mmpca_dist.datasets.csr import CSR_ITEM
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.solvers.passes import CLASS_ROWS, LEAST_SAMPLE
from mmpca_dist.statistics.approximation import PROBES
from mmpca_dist.statistics.costs import largest_unit
from mmpca_dist.statistics.operator import SPARSE_COLUMNS, centre_type, panel_bytes, panel_rows, sparse_spans


@dataclass(frozen=True)
class PassesCosts:
    """What a solver in passes may cost.

    Attributes
    ----------
    vectors : list of int
        That scatters are applied to, for every pass; empty for one that takes class means alone.
    operations : list of float
        Multiply-adds of every pass.
    memory : int
        Bytes that a process holds, the one with the bases included.
    """

    vectors: list[int]
    operations: list[float]
    memory: int


def passes_costs(
    dataset: Dataset,
    spans: list[Span],
    solver: SolverOptions,
    *,
    n_components: int,
    n_classes: int,
    scatters: frozenset[str],
    medians: bool,
    standardize: bool,
    item: int,
    threads: int,
) -> PassesCosts:
    """Return the costs of `passes.statistics_in_passes`.

    Parameters
    ----------
    item : int
        Bytes of a number in products.
    threads : int
        That share the process.
    """
    d, groups = dataset.n_features, len(scatters & {"plain", "weighted"})
    size = min(n_components + solver.oversampling, d)
    between = n_classes * (1 + medians)
    width = min(size + between, d)
    most = 1 if solver.kind == "nystroem" else solver.passes
    vectors = [groups * (size + PROBES)] + [groups * width] * (most - 1) if groups else [0]
    if standardize and groups:
        vectors = [0, *vectors]
    kept = {"krylov": most * width, "subspace": width, "nystroem": 2 * width}[solver.kind] if groups else between
    largest, work = max(vectors), np.dtype("f8" if dataset.sparse else f"f{item}")
    unit_rows, unit = largest_unit(dataset, spans)
    centres, moments = centre_type(dataset.dtype, work), 2 * n_classes * d * 8
    if dataset.sparse:
        images, tasks = d * largest * (8 if standardize else item), len(sparse_spans(dataset, spans))
        task = sparse_unit(dataset, tasks) + images + 3 * moments
    else:
        images, tasks = d * largest * 8, len(spans)
        rows = min(unit_rows, panel_rows(d, work, centres))
        panels = rows * (panel_bytes(d, work, centres) + 2 * largest * item)
        task = unit + unit_rows * 24 + panels + d * largest * 3 * item + images + moments
    waiting = min(math.ceil(math.log2(tasks + 1)) + 2, tasks)
    sample = max(2 * size, LEAST_SAMPLE) + CLASS_ROWS * n_classes
    bases = groups * kept * d * (item if solver.kind != "nystroem" else 8)
    growing = d * width * (item * 5 + 8) + groups * d * PROBES * 8
    reading = min(threads, tasks) * task + waiting * (images + moments)
    sampling = threads * unit + sample * d * (dataset.dtype.itemsize + 3 * item)
    return PassesCosts(
        vectors,
        [2.0 * dataset.nnz * b for b in vectors],
        bases + d * n_classes * (centres.itemsize + 16) + max(reading + images, growing + images, sampling),
    )


def sparse_unit(dataset: Dataset, tasks: int) -> int:
    """Return the bytes of sparse rows that a task holds at once, of what centring makes of them, and of products."""
    share = min(1 / tasks, UNIT_BYTES / max(dataset.n_bytes, 1))
    columns = (2 * dataset.n_rows * share + 4 * dataset.n_features) * SPARSE_COLUMNS * 8
    return int(dataset.nnz * share * (dataset.dtype.itemsize + CSR_ITEM + 3 * 8) + columns)
