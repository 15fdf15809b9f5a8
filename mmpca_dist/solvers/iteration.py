"""Passes that apply a scatter to blocks of vectors: what they leave, how they grow a basis, and when they end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.solvers.dense import Eigenpairs
from mmpca_dist.solvers.krylov import GrowingBasis, Projected, nystroem
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.solvers.ritz import is_contradicted, norm_bound
from mmpca_dist.statistics.approximation import Approximation, probes


class BlockIteration:
    """A scatter on its way to a basis that holds its leading part.

    Attributes
    ----------
    solver : SolverOptions
        Of kind ``krylov``, ``subspace`` or ``nystroem``.
    seed : int
        Of the probes.
    done : bool
        Whether no more passes are wanted.
    """

    def __init__(self, solver: SolverOptions, seed: int) -> None:
        self.solver, self.seed, self.done = solver, seed, False
        self._history: list[dict[str, list[float]]] = []
        self._probed, self._epsilon = np.empty((0, 0)), 0.0
        self._growing: GrowingBasis | None = None
        self._projected: Projected | None = None

    def begin(
        self, start: NDArray, image: NDArray[np.float64], probed: NDArray[np.float64], others: NDArray[np.float64],
        epsilon: float,
    ) -> None:  # fmt: skip
        """Take up what the first pass makes of the start block and of the probes; ``others`` will join the basis.

        ``epsilon`` is the relative rounding error of the image.
        """
        self._probed, self._epsilon = probed, epsilon
        if self.solver.kind == "nystroem":
            self._projected, self.done = nystroem(start, image, others, epsilon), True
            return
        keep = self.solver.kind == "krylov"
        width = start.shape[1] + others.shape[1]
        capacity = width * (self.solver.passes if keep else 1)
        self._growing = GrowingBasis(start, capacity, keep=keep, dtype=start.dtype)
        self._growing.absorb(image)

    @property
    def growing(self) -> GrowingBasis:
        assert self._growing is not None  # noqa: S101  (only those that are not done are asked)
        return self._growing

    def follow(self, pairs: Eigenpairs) -> None:
        """Note how far the components are after a pass: once all meet the tolerance, the iteration is done."""
        self._history.append({"values": pairs.values.tolist(), "residuals": pairs.residuals.tolist()})
        self.done = bool((pairs.residuals <= self.solver.tolerance * pairs.values).all())

    def found(self, passes: int, trace: float) -> tuple[Projected, Approximation]:
        """Return the scatter in the basis so far, and what is known of the rest after so many passes."""
        with single_blas_thread():
            projected = self.growing.projected() if self._projected is None else self._projected
            error = self._error(projected, trace) if projected.outside is None else None
        return projected, Approximation(
            self.solver.kind, passes, trace, projected.outside, self._probed, error, self._history, self.seed
        )

    def _error(self, projected: Projected, trace: float) -> float:
        """Return a bound on the norm of the scatter less what a sketch makes of it, which is positive semidefinite."""
        probing = probes(len(projected.basis), self.seed)
        approximate = projected.basis @ (projected.inside @ (projected.basis.T @ probing))
        bound = norm_bound(np.linalg.norm(self._probed - approximate, axis=0))
        lacking = trace - float(np.trace(projected.inside))
        return lacking if is_contradicted(bound, lacking, len(probing), self._epsilon * trace) else bound
