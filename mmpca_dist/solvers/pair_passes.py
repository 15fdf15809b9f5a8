"""The scatter of M-PCA2 from passes over pairs of rows, without forming it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.neighbors.nearest import Neighbors
from mmpca_dist.neighbors.pair_statistics import apply_pairs, as_scatter, sum_pairs
from mmpca_dist.solvers.block_iteration import BlockIteration
from mmpca_dist.solvers.block_passes import kept_type, leading_start
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.solvers.ritz import approximate_eigenpairs
from mmpca_dist.statistics.krylov_statistics import probes
from mmpca_dist.statistics.pair_scatter import PairScatter
from mmpca_dist.statistics.tree_reduction import Progress


def pairs_in_passes(
    neighbors: Neighbors,
    *,
    mutual: str,
    precision: str,
    solver: SolverOptions,
    n_components: int,
    seed: int,
    basis: NDArray | None = None,
    progress: Progress | None = None,
) -> PairScatter:
    """Return the scatter of pairs of nearest rows in a basis that holds its leading part, in double precision.

    A first pass over the pairs draws the sample that the others, up to ``solver.passes``, begin with. ``basis``, that
    of other scatters, is not used: the leading vectors of this one need not lie there. ``seed`` is that of the probes.
    """
    d = neighbors.layout.cells.frame.centre.size
    first, edges = sum_pairs(neighbors, mutual=mutual, precision=precision, vectors=probes(d, seed), progress=progress)
    start = leading_start(first.sample, None, min(n_components + solver.oversampling, d), np.dtype(np.float64), False)

    def applied(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        return apply_pairs(neighbors, np.ascontiguousarray(vectors), mutual=mutual, progress=progress)

    iteration = BlockIteration(solver, seed)
    iteration.begin(start, applied(start), first.scatter, start[:, :0], float(np.finfo(np.float64).eps))
    del start  # it lives on in the basis
    passes = 2
    while not iteration.done:
        _follow(iteration, first.weight, first.trace, n_components, float(np.finfo(kept_type(precision)).eps))
        if iteration.done or passes > solver.passes or not iteration.basis.grow():
            break
        iteration.basis.absorb(applied(iteration.basis.block))
        passes += 1
    projected, known = iteration.found(passes, first.trace)
    scatter = as_scatter(neighbors, first, edges)
    return replace(scatter, scatter=projected.inside, basis=projected.basis, approximation=known)


def _follow(iteration: BlockIteration, weight: float, trace: float, n_components: int, epsilon: float) -> None:
    with single_blas_thread():
        projected, known = iteration.found(0, trace)
        S = projected.inside / weight
        iteration.follow(approximate_eigenpairs(S, known, 1 / weight, trace / weight, n_components, epsilon))
