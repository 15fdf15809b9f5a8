"""What passes that apply scatters to blocks of vectors cost: vectors, operations, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.solvers.passes import CLASS_ROWS, LEAST_SAMPLE
from mmpca_dist.statistics.approximation import PROBES
from mmpca_dist.statistics.costs import largest_unit
from mmpca_dist.statistics.operator import centre_type, panel_bytes, panel_rows


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
    largest, item = max(vectors), 8 if dataset.sparse else item
    unit_rows, unit = largest_unit(dataset, spans)
    work = np.dtype(f"f{item}")
    centres = centre_type(dataset.dtype, work)
    rows = min(unit_rows, panel_rows(d, work, centres))
    images, moments = d * largest * 8, 2 * n_classes * d * 8
    panels = rows * (panel_bytes(d, work, centres) + 2 * largest * item)
    task = unit + unit_rows * 24 + panels + d * largest * 3 * item + images + moments
    waiting = math.ceil(math.log2(len(spans) + 1)) + 2
    sample = max(2 * size, LEAST_SAMPLE) + CLASS_ROWS * n_classes
    bases = groups * kept * d * (item if solver.kind != "nystroem" else 8)
    growing = d * width * 8 * 6 + groups * d * PROBES * 8
    reading = threads * task + waiting * (images + moments)
    return PassesCosts(
        vectors,
        [2.0 * dataset.nnz * b for b in vectors],
        bases + d * n_classes * (centres.itemsize + 16) + max(reading + images, growing + images, sample * d * 8 * 4),
    )
