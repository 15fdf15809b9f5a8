"""The state of a solver in passes for one scatter: its basis, its history, and when it ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.solvers.block_solver import BLOCK_SOLVERS, Basis, Projected
from mmpca_dist.solvers.dense import Eigenpairs
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.solvers.ritz import is_contradicted, norm_bound
from mmpca_dist.statistics.krylov_statistics import Approximation, probes


class BlockIteration:
    """A scatter on its way to a basis that holds its leading part.

    Attributes
    ----------
    solver : SolverOptions
        Of a kind that is one of `BLOCK_SOLVERS`.
    seed : int
        Of the probes.
    done : bool
        Whether no more passes are wanted.
    """

    def __init__(self, solver: SolverOptions, seed: int) -> None:
        self.solver, self.seed, self.done = solver, seed, False
        self._history: list[dict[str, list[float]]] = []
        self._probed, self._epsilon = np.empty((0, 0)), 0.0
        self._basis: Basis | None = None

    def begin(
        self, start: NDArray, image: NDArray[np.float64], probed: NDArray[np.float64], others: NDArray[np.float64],
        epsilon: float,
    ) -> None:  # fmt: skip
        """Take up what the first pass makes of the start block and of the probes; ``others`` will join the basis.

        ``epsilon`` is the relative rounding error of the image.
        """
        self._probed, self._epsilon = probed, epsilon
        solver = BLOCK_SOLVERS[self.solver.kind]
        self._basis, self.done = solver.begin(start, image, others, epsilon, self.solver.passes), solver.one_pass

    @property
    def basis(self) -> Basis:
        """What the first pass began."""
        assert self._basis is not None  # noqa: S101  (a first pass comes before)
        return self._basis

    def follow(self, pairs: Eigenpairs) -> None:
        """Note how far the components are after a pass: once all meet the tolerance, the iteration is done."""
        self._history.append({"values": pairs.values.tolist(), "residuals": pairs.residuals.tolist()})
        self.done = bool((pairs.residuals <= self.solver.tolerance * pairs.values).all())

    def found(self, passes: int, trace: float) -> tuple[Projected, Approximation]:
        """Return the scatter in the basis so far, and what is known of the rest after so many passes."""
        with single_blas_thread():
            projected = self.basis.projected()
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
