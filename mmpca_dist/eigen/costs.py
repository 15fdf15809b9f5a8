"""Cost of solvers in passes: vectors, operations, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mmpca_dist.eigen.block_passes import block_size
from mmpca_dist.eigen.block_solver import BLOCK_SOLVERS
from mmpca_dist.eigen.blocks.arpack import ARPACK, lanczos_vectors
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.limits import LIMITS
from mmpca_dist.statistics.approximation import PROBES
from mmpca_dist.statistics.costs import largest_unit
from mmpca_dist.statistics.scatter_operator import SPARSE_COLUMNS, centre_type, panel_bytes, panel_rows, sparse_spans
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.csr import CSR_ITEM
from mmpca_dist.tables.spans import Span

ARPACK_ITEM = 56
"""Bytes of a stored value while rows in memory are centred, or transposed, for ARPACK."""


@dataclass(frozen=True)
class PassesCosts:
    """Upper limits on the costs of a solver in passes."""

    vectors: list[int]  # that scatters are applied to, for every pass; empty for one that takes class means alone
    operations: list[float]  # multiply-adds of every pass
    memory: int  # bytes that a process holds, the one with the bases included
    sums: int  # bytes that a span, or several, leave


def passes_costs(
    dataset: Dataset,
    spans: list[Span],
    solver: SolverOptions,
    needs: Needs,
    *,
    n_classes: int,
    standardize: bool,
    item: int,
    threads: int,
) -> PassesCosts:
    """Return the costs of `block_passes.statistics_in_passes`, on threads that share a process.

    ``item`` are the bytes of a number in products.
    """
    d, groups = dataset.n_features, len(needs.scatters)
    size = block_size(needs, solver, dataset.n_columns)
    between = n_classes * (1 + len(needs.medians))
    width = min(size + between, d)
    kind = BLOCK_SOLVERS[solver.kind]
    vectors = [groups * (size + PROBES)] + [groups * width] * (solver.passes - 1) if groups else [0]
    if solver.kind == ARPACK.name:
        width = min(groups * size + between, d)
        vectors = [groups * (width + PROBES)]
    if groups and (standardize or solver.kind == ARPACK.name):
        vectors = [0, *vectors]
    basis = kind.basis_bytes(solver.passes, width, item) if groups else between * item
    bases = groups * d * basis
    largest, work = max(vectors), np.dtype("f8" if dataset.sparse else f"f{item}")
    unit_rows, unit = largest_unit(dataset, spans)
    centres, moments = centre_type(dataset.dtype, work), 2 * n_classes * d * 8
    if dataset.sparse:
        images, tasks = d * largest * (8 if standardize else item), len(sparse_spans(dataset, spans))
        task = sparse_unit(dataset, tasks) + images + 3 * moments
        if dataset.widening is not None:  # vectors of widened rows
            bases += d * largest * 8
    else:
        images, tasks = d * largest * 8, len(spans)
        rows = min(unit_rows, panel_rows(d, work, centres))
        panels = rows * (panel_bytes(d, work, centres) + 2 * largest * item)
        task = unit + unit_rows * 24 + panels + d * largest * 3 * item + images + moments
    waiting = min(math.ceil(math.log2(tasks + 1)) + 2, tasks)
    sample = max(2 * size, LIMITS.start_rows) + LIMITS.start_class_rows * n_classes
    growing = growing_bytes(d, width, item) + groups * d * PROBES * 8
    reading = min(threads, tasks) * task + waiting * (images + moments)
    sampling = threads * unit + sample * d * (dataset.dtype.itemsize + 3 * item)
    if solver.kind == ARPACK.name:  # rows in double precision, and as they are centred; vectors of either side
        side = min(dataset.n_rows + n_classes, d)
        vectors_bytes = (lanczos_vectors(size, side) + 2 * size) * side * 8 + (groups + 2) * size * d * 8
        sampling = max(sampling, dataset.nnz * ARPACK_ITEM + vectors_bytes)
    return PassesCosts(
        vectors,
        [2.0 * dataset.nnz * b for b in vectors],
        bases + d * n_classes * (centres.itemsize + 16) + max(reading + images, growing + images, sampling),
        images + moments,
    )


def growing_bytes(n_features: int, width: int, item: int) -> int:
    """Return the bytes a solver needs in addition to a basis, of numbers of ``item`` bytes, while the basis grows."""
    return n_features * width * (item * 5 + 8)


def pair_passes_costs(
    n_features: int, solver: SolverOptions, needs: Needs, *, n_classes: int, item: int
) -> tuple[list[int], int]:
    """Return the costs of `pair_passes.pairs_in_passes`: the vectors of each pass, and bytes.

    The bytes are of its basis, of that of other scatters, which is there meanwhile, and of what it takes to grow.
    """
    d, size = n_features, block_size(needs, solver, n_features)
    width = min(size + n_classes * (1 + len(needs.medians)), d)
    kind = BLOCK_SOLVERS[solver.kind]
    others = len(needs.scatters) * (kind.basis_bytes(solver.passes, width, item) + PROBES * 8)
    basis = kind.basis_bytes(solver.passes, size, 8) + PROBES * 8
    return [PROBES] + [size] * solver.passes, d * (others + basis) + growing_bytes(d, size, 8)


def sparse_unit(dataset: Dataset, tasks: int) -> int:
    """Return the bytes of the sparse rows that a task holds at once, with their centred form and products."""
    share = min(1 / tasks, LIMITS.unit_bytes / max(dataset.n_bytes, 1))
    columns = (2 * dataset.n_rows * share + 4 * dataset.n_features) * SPARSE_COLUMNS * 8
    return int(dataset.nnz * share * (dataset.dtype.itemsize + CSR_ITEM + 3 * 8) + columns)
