"""The scatter of M-PCA2 from passes over the pairs of rows: never formed, like the others of many columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.neighbors.nearest import Neighbors
from mmpca_dist.neighbors.pairs import as_scatter, sum_pairs
from mmpca_dist.solvers.krylov import GrowingBasis, Projected, nystroem
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.solvers.passes import leading_start
from mmpca_dist.solvers.ritz import norm_bound
from mmpca_dist.statistics.approximation import Approximation, probes
from mmpca_dist.statistics.pairs import PairScatter
from mmpca_dist.statistics.reduction import Progress


def pairs_in_passes(
    neighbors: Neighbors,
    *,
    mutual: str,
    precision: str,
    solver: SolverOptions,
    n_components: int,
    basis: NDArray | None = None,
    progress: Progress | None = None,
) -> PairScatter:
    """Return the scatter of pairs of nearest rows in a basis that holds its leading part.

    A first pass over the pairs draws the sample that the others begin with. ``basis``, that of other scatters, is not
    used: the leading vectors of this one need not lie there.
    """
    d = neighbors.layout.cells.frame.centre.size
    probing, passes = probes(d), 1
    first, edges = sum_pairs(neighbors, mutual=mutual, precision=precision, vectors=probing, progress=progress)
    start = leading_start(first.sample, None, min(n_components + solver.oversampling, d), np.dtype(np.float64), False)

    def apply(vectors: NDArray) -> NDArray[np.float64]:
        nonlocal passes
        passes += 1
        sums, _ = sum_pairs(
            neighbors, mutual=mutual, precision=precision, vectors=vectors.astype(np.float64), progress=progress
        )
        return sums.scatter

    projected = _project(apply, start, solver)
    error = None
    if projected.outside is None:
        found = projected.basis @ (projected.inside @ (projected.basis.T @ probing))
        error = norm_bound(np.linalg.norm(first.scatter - found, axis=0))
    known = Approximation(solver.kind, passes, first.trace, projected.outside, first.scatter, error)
    scatter = replace(as_scatter(neighbors, first, edges), scatter=projected.inside, basis=projected.basis)
    return replace(scatter, approximation=known)


def _project(
    apply: Callable[[NDArray], NDArray[np.float64]], start: NDArray[np.float64], solver: SolverOptions
) -> Projected:
    if solver.kind == "nystroem":
        return nystroem(start, apply(start), start[:, :0], float(np.finfo(np.float64).eps))
    keep = solver.kind == "krylov"
    growing = GrowingBasis(
        start, start.shape[1] * (solver.passes if keep else 1), keep=keep, dtype=np.dtype(np.float64)
    )
    growing.absorb(apply(start))
    for _ in range(solver.passes - 1):
        if not growing.grow():
            break
        growing.absorb(apply(growing.block))
    return growing.projected()
