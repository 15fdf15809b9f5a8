"""Multinomial logistic regression by Newton's method, a pass over the rows for each step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import log_softmax

from mmpca_dist.errors import InputError
from mmpca_dist.optimise.descent import Descent
from mmpca_dist.optimise.model_sweeps import relative
from mmpca_dist.passes.centred_rows import Array, RowUnits
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import Step, Sweep, Sweeper, SweptNeed
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.statistics.row_space import WorkingRows
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.batch import Batch

MAX_PARAMETERS = 8192
"""Their second derivatives take 512 MiB."""


def contrasts(n_classes: int) -> Array:
    """Return orthonormal vectors (C - 1, C) orthogonal to the constant: outputs are determined up to a constant."""
    return np.asarray(scipy.linalg.helmert(n_classes))


NewtonSums = tuple[Array, Array, Array]
"""The losses of all rows, (1,), and their derivatives by the p parameters: (1, p), and the lower half of (1, p, p)."""


@storable
@dataclass(frozen=True)
class NewtonFit:
    """The best parameters (C - 1, r + 1) so far, constants last, their objective, and the passes.

    ``gap`` is what a whole Newton step would gain, relative to the objective: an estimate of how far the minimum is.
    ``descent`` goes on from there.
    """

    best: Array
    descent: Any  # a `Descent`; None at the end
    objective: float = np.inf
    gap: float = np.inf
    n_passes: int = 0


def _sum_rows(
    batch: Batch, state: NDArray | None, *, parameters: Array, classes: NDArray, units: RowUnits
) -> tuple[NewtonSums, None]:
    """Return the sums over the rows of a unit: the step of a sweep."""
    codes, H, (m, p) = batch.codes(classes), contrasts(len(classes)), parameters.shape
    loss, gradient, hessian = 0.0, np.zeros((m, p)), np.zeros((m, p, m, p))
    for block, centred in units.blocks(batch, BLOCK_ROWS):
        rows = np.column_stack([centred.X, np.ones(len(centred.X))])
        log_shares = log_softmax(rows @ parameters.T @ H, axis=1)
        loss -= float(log_shares[np.arange(len(rows)), codes[block]].sum())
        shares = np.exp(log_shares)
        means = shares @ H.T
        gradient += (means - H.T[codes[block]]).T @ rows
        for i in range(m):
            for j in range(i + 1):
                curvature = shares @ (H[i] * H[j]) - means[:, i] * means[:, j]
                hessian[i, :, j] += rows.T @ (curvature[:, None] * rows)
    return (np.array([loss]), gradient.reshape(1, -1), hessian.reshape(1, m * p, m * p)), None


@dataclass(frozen=True)
class LogisticSweep(Sweep[NewtonFit, NewtonSums]):
    """Newton's method, by the line search of ``Descent`` for a single point: the parameters row by row."""

    classes: NDArray
    units: RowUnits
    weights: Array  # (p,): alpha for coefficients, 0 for constants
    tol: float
    max_iter: int
    name: str = "sweep"
    state_bytes: int = 0

    def step(self, fitted: NewtonFit) -> Step[NewtonSums]:
        parameters = fitted.descent.trial.reshape(fitted.best.shape)
        return partial(_sum_rows, parameters=parameters, classes=self.classes, units=self.units)

    def update(self, fitted: NewtonFit, sums: NewtonSums) -> NewtonFit:
        (loss, gradient, hessian), descent = sums, fitted.descent
        penalty = self.weights * descent.trial
        value, metric = loss + (penalty * descent.trial).sum(axis=1) / 2, hessian + np.diag(self.weights)
        accepted = descent.accepts(value, descent.slope)
        moved = descent.moved_to(accepted, value, gradient + penalty, metric, Descent.quasi_newton_direction)
        descent = replace(moved, metric=metric[:0])  # each pass brings its own
        gap = float(relative(-descent.slope / 2, descent.value, np.zeros(1))[0])
        best = descent.point.reshape(fitted.best.shape)
        return NewtonFit(best, descent, float(descent.value[0]), gap, fitted.n_passes + 1)

    def is_done(self, fitted: NewtonFit) -> bool:
        return fitted.gap <= self.tol or fitted.n_passes >= self.max_iter

    def describe(self, fitted: NewtonFit) -> str:
        return f"objective {fitted.objective:.6g}, gap about {fitted.gap:.2g}"


@dataclass(frozen=True)
class LogisticFit(SweptNeed):
    """Multinomial logistic regression as a need: all that determines the fit but the rows.

    It leaves the parameters of `contrasts` in (standardised) columns; constants are outputs for the mean of the rows.
    """

    alpha: float
    tol: float
    max_iter: int
    is_nested = True

    def fit(self, statistics: Statistics, sweeper: Sweeper, n_components: int) -> NewtonFit:
        working = WorkingRows.of(statistics, sweeper)
        classes = sweeper.rows.census.classes
        start = np.zeros((len(classes) - 1, working.width + 1))
        if start.size > MAX_PARAMETERS:
            raise InputError(
                f"Logistic discriminants of {len(classes)} classes and {working.width:,} columns have {start.size:,} "
                f"parameters; {MAX_PARAMETERS:,} are the most. Choose columns first, or use fisher."
            )
        weights = np.full_like(start, self.alpha)
        weights[:, -1] = 0
        sweep = LogisticSweep(classes, working.units(), weights.ravel(), self.tol, self.max_iter)
        dense = replace(working.sweeper, keeps_sparse=False)
        fitted = dense.run(sweep, NewtonFit(start, Descent.start(start.reshape(1, -1))))
        best = np.column_stack([working.in_columns(fitted.best[:, :-1]), fitted.best[:, -1]])
        return replace(fitted, best=best, descent=None)

    def largest(self, statistics: Statistics) -> int:
        return int(np.count_nonzero(statistics.moments.counts)) - 1
