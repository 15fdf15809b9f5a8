"""Linear models with a smooth loss by Newton's method, with BFGS between passes that renew second derivatives.

A step p from [w; b] solves H p = -g. With u = a - b' f of a row with the label term (a, b'), g is the sum of
-b' L'(u) [x; 1] over the rows and H that of b'^2 L''(u) [x; 1] [x; 1]^T, each with the derivatives of the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mmpca_dist.optimise.descent import Descent, some_of, with_some
from mmpca_dist.optimise.loss_sums import Loss, LossSums, SumLosses
from mmpca_dist.optimise.model_sweeps import ModelFit, ModelSweep
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import Step


@storable
@dataclass(frozen=True)
class LinearFit(ModelFit):
    """m models that are being fitted; passes set them back whose steps are not accepted."""

    descent: Descent  # of the penalty's parameters and b
    reach: Array  # (m,): an upper bound of the length of rows [x; 1]; infinite before a pass with second derivatives
    age: int = 0  # passes since the last one with second derivatives

    @classmethod
    def start_at(cls, point: Array, metric: Array | None = None) -> Self:
        """Return models before their first pass, at parameters and b of shape (m, n + 1)."""
        unknown, none = np.full(len(point), np.inf), np.zeros(len(point), np.int64)
        descent = Descent.start(point, metric)
        return cls(descent, unknown, bound=-unknown, start=unknown, is_done=none > 0, idle=none, setbacks=none)

    @property
    def objective(self) -> Array:  # type: ignore[override]
        return self.descent.value

    @property
    def best(self) -> Array:  # type: ignore[override]
        return self.descent.point


@dataclass(frozen=True, kw_only=True)
class NewtonSweep(ModelSweep[LinearFit, LossSums]):
    """Passes for m models of a smooth loss, with a squared penalty."""

    loss: Loss
    with_hessian: bool = True  # whether passes may sum second derivatives, which take (r + 1)^2 doubles a model
    state_bytes = 0

    def step(self, fitted: LinearFit) -> Step[LossSums]:
        active, trial = np.flatnonzero(~fitted.is_done), fitted.descent.trial
        coef, intercept = self.penalty.coefficients(trial[active, :-1]), trial[active, -1]
        hessian_models = np.arange(len(active) if self._needs_hessian(fitted) else 0)
        moved = (fitted.descent.step[:, None] * fitted.descent.direction)[active]
        change = np.append(self.penalty.coefficients(moved[:, :-1]), moved[:, -1:], axis=1)
        return SumLosses(coef, intercept, self.loss, self.terms, active, self.units, hessian_models, change)

    def update(self, fitted: LinearFit, sums: LossSums) -> LinearFit:
        active = ~fitted.is_done
        updated = replace(self, alphas=self.alphas[active])._update(some_of(fitted, active), sums)
        return with_some(fitted, active, updated)

    def _update(self, fitted: LinearFit, sums: LossSums) -> LinearFit:
        """Return the fit after a pass, for models that are all active."""
        trial = fitted.descent.trial
        value = sums.loss + self.alphas * self.penalty.values(trial[:, :-1])
        gradient, metric = self.penalty.lifted(sums.gradient), self.penalty.lifted_twice(sums.hessians)
        self.penalty.add_derivatives(self.alphas, trial, gradient, metric)
        self._hold_intercept(metric, gradient)
        accepted = fitted.descent.accepts(value, self._slope(fitted.descent))
        shorter = self._best_fraction(fitted.descent, sums.along)
        descent = fitted.descent.moved_to(accepted, value, gradient, metric, self._direction, shorter)
        bound = np.where(accepted, self._bound(fitted, sums, descent), fitted.bound)
        new = replace(
            fitted,
            descent=descent,
            bound=bound,
            start=fitted.start if fitted.n_passes else value,
            reach=fitted.reach if fitted.n_passes else self._reach(sums),
            n_passes=fitted.n_passes + 1,
            setbacks=fitted.setbacks + ~accepted,
            age=0 if len(metric) else fitted.age + 1,
        )
        return self._judged(fitted, new, (fitted.gaps, new.gaps))

    def _best_fraction(self, descent: Descent, along: Array) -> Array | None:
        """Return the fraction of the trial step with the least objective, shape (m,); None where none is known."""
        if not len(along):
            return None
        points = [descent.toward(part)[:, :-1] for part in self.loss.fractions]
        values = along + self.alphas * np.stack([self.penalty.values(point) for point in points])
        return np.asarray(self.loss.fractions)[values.argmin(axis=0)]

    def _bound(self, before: LinearFit, sums: LossSums, descent: Descent) -> Array:
        """Return a lower bound of the minimum: proved, or estimated where directions bear no penalty."""
        if self.penalty.is_free:
            return descent.value - self._decrease(descent)
        return self._dual_bound(before, sums)

    def _reach(self, sums: LossSums) -> Array:
        """Return a bound on the length of rows [x; 1], shape (m,), from the second derivatives at zero."""
        if not len(sums.hessians):
            return np.full(len(sums.loss), np.inf)
        return np.sqrt(np.trace(sums.hessians, axis1=1, axis2=2) / self.loss.values(np.ones(1)).curvature)

    def _needs_hessian(self, fitted: LinearFit) -> bool:
        """Return whether the next pass sums second derivatives."""
        is_due = not len(fitted.descent.metric) or fitted.age + 1 >= self.loss.renewal
        return self.with_hessian and is_due

    def _slope(self, descent: Descent) -> Array:
        """Return the linear decrease of a whole step, shape (m,); negative."""
        return descent.slope

    def _direction(self, descent: Descent) -> Array:
        """Return the next direction from a state, shape (m, n + 1)."""
        return descent.quasi_newton_direction()

    def _decrease(self, descent: Descent) -> Array:
        """Return the decrease of the quadratic model along the next step, shape (m,)."""
        return -descent.slope / 2
