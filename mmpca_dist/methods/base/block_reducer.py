"""``BlockReducer``: the base of the estimators that solvers in passes serve."""

from __future__ import annotations

from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.statistics.class_weights import ClassWeight


class BlockReducer(MomentReducer):
    """Base of the reducers that solvers in passes serve, with the options of such solvers."""

    def __init__(
        self, n_components: int | None = None, *,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
        oversampling: int = 10, passes: int = 4, tolerance: float = 1e-4,
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.oversampling, self.passes, self.tolerance = oversampling, passes, tolerance

    def _solver_options(self) -> SolverOptions:
        return SolverOptions(self.solver, self.oversampling, self.passes, self.tolerance)
