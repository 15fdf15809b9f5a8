"""The scatter of M-PCA2 from passes over pairs of rows, without forming it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.eigen.block_passes import BlockIteration, leading_start
from mmpca_dist.eigen.certificate import approximate_eigenpairs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.neighbors.nearest import Neighbors
from mmpca_dist.neighbors.pair_statistics import apply_pairs, as_scatter, sum_pairs
from mmpca_dist.statistics.approximation import probes
from mmpca_dist.statistics.pair_scatter import PairScatter
from mmpca_dist.statistics.precision import work_type


def pairs_in_passes(
    neighbors: Neighbors, *, precision: str, solver: SolverOptions, n_components: int, seed: int
) -> PairScatter:
    """Return the scatter of pairs of nearest rows in a basis that holds its leading part, in double precision.

    A first pass over the pairs draws the sample that the others, up to ``solver.passes``, begin with. ``seed`` is that
    of the probes.
    """
    d = neighbors.layout.n_features
    first, edges = sum_pairs(neighbors, precision=precision, vectors=probes(d, seed))
    start = leading_start(first.sample, None, min(n_components + solver.oversampling, d), np.dtype(np.float64), False)
    iteration = BlockIteration(solver, seed, start, apply_pairs(neighbors, start), first.scatter, start[:, :0])
    del start  # it lives on in the basis
    epsilon, passes = float(np.finfo(work_type(precision)).eps), 2
    while not iteration.done:
        with single_blas_thread():
            projected, approximation = iteration.approximation(0, first.trace)
            S, share, trace = projected.inside / first.weight, 1 / first.weight, first.trace / first.weight
            iteration.follow(approximate_eigenpairs(S, approximation, share, trace, n_components, epsilon))
        if iteration.done or passes > solver.passes or not iteration.basis.grow():
            break
        iteration.basis.absorb(apply_pairs(neighbors, iteration.basis.block))
        passes += 1
    projected, approximation = iteration.approximation(passes, first.trace)
    scatter = as_scatter(neighbors, first, edges)
    return replace(scatter, scatter=projected.inside, basis=projected.basis, approximation=approximation)
