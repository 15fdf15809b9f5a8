"""Squared losses with a projection penalty from moments alone: the coefficients are (S + alpha R)^-1 c."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from mmpca_dist.errors import InputError
from mmpca_dist.optimise.loss_sums import LOSSES, SumLosses
from mmpca_dist.optimise.model_sweeps import Minimum, relative
from mmpca_dist.optimise.penalties import SubspacePenalty
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.label_terms import FoldTerms
from mmpca_dist.passes.sweeps import OnePass
from mmpca_dist.statistics.row_space import WorkingRows
from mmpca_dist.statistics.working_statistics import EPS

LEAST_PIVOT = 1e-12
"""Least pivot of a matrix with ones on its diagonal: systems with smaller pivots lose most digits to rounding."""
MAX_STEPS = 5
STRIDE, STRIDES = 100.0, 40
"""Between weights of the penalty that are tried in turn, and the largest number of them."""


@dataclass(frozen=True)
class Definite:
    """The Cholesky factor of a matrix that is scaled to a diagonal of ones, and the scale, shape (r,)."""

    factor: Array
    scale: Array

    @classmethod
    def of(cls, matrix: Array, least: float) -> Self | None:
        """Return the factor of a symmetric matrix, or None where the square of a pivot is not above ``least``."""
        diagonal = np.diagonal(matrix)
        if not (diagonal > 0).all():
            return None
        scale = 1 / np.sqrt(diagonal)
        factor, failed = scipy.linalg.lapack.dpotrf(matrix * scale[:, None] * scale, lower=1)
        return cls(factor, scale) if not failed and np.diagonal(factor).min() ** 2 > least else None

    def solve(self, right: Array) -> Array:
        """Return the solutions for right sides, both of shape (m, r)."""
        solved, _ = scipy.linalg.lapack.dpotrs(self.factor, (right * self.scale).T, lower=1)
        return np.asarray(solved.T * self.scale)

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of the inverse, shape (r,)."""
        inverse, _ = scipy.linalg.lapack.dpotri(self.factor, lower=1)
        return np.asarray(np.diagonal(inverse) * self.scale**2)


@dataclass(frozen=True)
class Squares:
    """Sums over n rows x with m targets y."""

    n_rows: float
    scatter: Array  # (r, r): sum of x x^T
    total: Array  # (r,): sum of x
    cross: Array  # (m, r): sums of y x
    moves: Array  # (m,): sums of y
    squares: Array  # (m,): sums of y^2

    def centred(self) -> Squares:
        """Return the sums of rows and targets less their means."""
        mean = self.total / self.n_rows
        return Squares(
            self.n_rows,
            self.scatter - self.n_rows * np.outer(mean, mean),
            np.zeros_like(self.total),
            self.cross - np.outer(self.moves, mean),
            np.zeros_like(self.moves),
            self.squares - self.moves**2 / self.n_rows,
        )

    def minimum(
        self,
        penalty: SubspacePenalty,
        alphas: Array,
        *,
        has_intercept: bool,
        rounding: float = EPS,
        is_rotated: bool = False,
    ) -> list[Minimum]:
        """Return the models with the smallest |y - f|^2 + alpha w^T R w, for every alpha.

        ``rounding`` is the relative rounding error of products of two columns, or, of rows in rotated coordinates, of
        any two of these relative to all. Raises InputError where the rows do not determine the coefficients of
        directions that bear no penalty.
        """
        sums, R = self.centred() if has_intercept else self, penalty.matrix()
        spread = np.maximum(np.diagonal(sums.scatter), 0)
        rounded = np.sqrt(rounding * (np.full_like(spread, spread.sum()) if is_rotated else spread))
        missing, minima = np.sqrt(rounding * sums.squares), []
        for alpha in alphas.tolist():
            (nearby, steps), w, left = sums._nearby(R, alpha), np.zeros_like(sums.cross), sums.cross
            for _ in range(steps):
                w = w + nearby.solve(left)
                left = sums.cross - w @ sums.scatter - alpha * penalty.apply(w)
            losses = sums.squares + np.einsum("mr,mr->m", w, w @ sums.scatter - 2 * sums.cross)
            objective = np.maximum(losses, 0) + alpha * penalty.values(w)
            missed = sums._missed(R, penalty, alpha, w, left, rounded, missing)
            b = (self.moves - w @ self.total) / self.n_rows if has_intercept else np.zeros(len(w))
            minima.append(Minimum(w, b, objective, relative(missed, objective, sums.squares)))
        return minima

    def refuse_undetermined(self, penalty: SubspacePenalty) -> None:
        """Raise InputError where rows do not vary along a direction that bears no penalty, whatever its weight."""
        self._nearby(penalty.matrix(), float(np.diagonal(self.scatter).max(initial=0.0)))

    def _nearby(self, R: Array, alpha: float) -> tuple[Definite, int]:
        """Return the factor of S + a R, with alpha as a, or else one near to it, and the number of steps to take.

        Where that is singular up to rounding, a larger a serves: steps (S + a R)^-1 r approach the minimum, and in the
        directions without scatter they are there at once, as what is least in them does not depend on a. Beyond the
        scatter a smaller a serves, for a single step: nothing of S would be left next to alpha in free directions.
        """
        spread = np.diagonal(self.scatter)
        size = float(spread.max(initial=0.0))
        larger = max(LEAST_PIVOT * float(spread[spread > 0].min(initial=size)), STRIDE * alpha)
        above = [larger * STRIDE**i for i in range(STRIDES) if larger * STRIDE**i < size]
        below = [alpha / STRIDE**i for i in range(STRIDES) if alpha / STRIDE**i >= size]
        rounding = 10 * len(R) * EPS
        for weight, least in [(a, LEAST_PIVOT) for a in (alpha, *above)] + [(a, rounding) for a in (*below, size)]:
            factor = Definite.of(self.scatter + weight * R, least)
            if factor is not None:
                return factor, 2 if weight == alpha else MAX_STEPS if weight > alpha else 1
        raise InputError(
            "Rows do not vary along some direction of the reduction, whose coefficients bear no penalty, so that these "
            "are not determined: set epsilon above 0, or reduce to fewer components."
        )

    def _missed(
        self, R: Array, penalty: SubspacePenalty, alpha: float, w: Array, left: Array, rounded: Array, missing: Array
    ) -> Array:
        """Return bounds on how far the objectives at w lie above their minima, shape (m,).

        With the residual r = c - A w, A = S + alpha R, that is r^T A^-1 r, and at most r^T B^-1 r for any B below A;
        any share of S is below S. ``rounded`` (r,) and ``missing`` (m,) are roots of rounding errors, on the diagonal
        of S and of the targets' squares: those of entries of S and c are products of two.
        """
        length, errors = np.abs(w) @ rounded, len(R) * rounded**2
        unsure = (missing + length)[:, None] * rounded + EPS * alpha * np.abs(w) @ np.abs(R)
        floor, largest = len(R) * EPS, float(errors.max(initial=0.0))
        least = alpha * float(np.min(penalty.rest[penalty.rest > 0], initial=1.0))
        missed = np.full(len(w), np.inf)
        for share in (1.0, least / max(16 * largest, least)):
            below = share * self.scatter + alpha * R
            below.reshape(-1)[:: len(R) + 1] -= share * errors + alpha * floor
            factor = Definite.of(below, floor)
            if factor is not None:
                known = np.einsum("mr,mr->m", left, factor.solve(left))
                missed = (np.sqrt(known) + np.sqrt(unsure**2 @ factor.inverse_diagonal())) ** 2
                break
        return missed + length**2


def squares_by_fold(rows: WorkingRows, name: str, terms: FoldTerms) -> dict[int, Squares]:
    """Return the sums of the rows that train, by the fold that is held out, from a pass of this name.

    ``terms`` are of the models of each fold, fold by fold. At w = 0 and b = 0 multipliers are 2 y, and second
    derivatives 2.
    """
    m, n_models = len(terms.held_out), int(np.count_nonzero(terms.held_out == terms.held_out[0]))
    zeros, firsts = np.zeros((m, rows.width)), np.arange(0, m, n_models)
    step = SumLosses(zeros, np.zeros(m), LOSSES["squared"], terms, np.arange(m), rows.units(), firsts)
    sums = rows.sweeper.run(OnePass(name, step), None)
    assert sums is not None  # noqa: S101  (it has passed)
    cross, moves, folds = sums.cross.sum(axis=0) / 2, sums.moves.sum(axis=0) / 2, {}
    for first, outer in zip(firsts.tolist(), sums.hessians / 2, strict=True):
        models = slice(first, first + n_models)
        n_rows, total, scatter = float(outer[-1, -1]), outer[:-1, -1].copy(), outer[:-1, :-1].copy()
        fold = int(terms.held_out[first])
        folds[fold] = Squares(n_rows, scatter, total, cross[models], moves[models], sums.loss[models])
    return folds
