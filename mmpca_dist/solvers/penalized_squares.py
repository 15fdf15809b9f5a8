"""Squared losses with a projection penalty, for all weights of the penalty at once, from moments alone.

The coefficients (S + alpha R)^-1 c of every alpha follow from one generalised eigenproblem, R u = nu (S + a R) u with
some weight a at which S + a R is definite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy.linalg

from mmpca_dist.errors import InputError
from mmpca_dist.solvers.penalties import SubspacePenalty
from mmpca_dist.statistics.centred_rows import Array, RowUnits
from mmpca_dist.statistics.coordinates import EPS
from mmpca_dist.statistics.label_terms import FoldTerms
from mmpca_dist.statistics.loss_sums import LossSums, SumLosses
from mmpca_dist.statistics.losses import LOSSES
from mmpca_dist.statistics.serialization import storable
from mmpca_dist.statistics.sweeps import Step, Sweep


@dataclass(frozen=True)
class SquaresPath:
    """The solutions for one scatter of rows and all alphas.

    Attributes
    ----------
    vectors : array of shape (r, r)
        U, with U^T (S + a R) U = I and U^T R U = diag(shares).
    shares : array of shape (r,)
        nu.
    weight : float
        a.
    """

    vectors: Array
    shares: Array
    weight: float

    @classmethod
    def of(cls, scatter: Array, penalty: SubspacePenalty) -> Self:
        """Return the path for a scatter X^T X, shape (r, r).

        Raises
        ------
        InputError
            Where the rows do not determine the coefficients of directions that bear no penalty.
        """
        size = float(np.trace(scatter)) / len(scatter)
        weight = size if size > 0 else 1.0
        matrix = scatter + weight * penalty.matrix()
        factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
        if failed:
            raise InputError(
                "Rows do not vary along some direction of the reduction, whose coefficients bear no penalty, so that "
                "these are not determined: set epsilon above 0, or reduce to fewer components."
            )
        half = scipy.linalg.solve_triangular(factor, penalty.matrix(), lower=True, check_finite=False)
        turned = scipy.linalg.solve_triangular(factor, half.T, lower=True, check_finite=False)
        shares, vectors = scipy.linalg.eigh((turned + turned.T) / 2, check_finite=False)
        vectors = scipy.linalg.solve_triangular(factor, vectors, lower=True, trans="T", check_finite=False)
        return cls(vectors, np.clip(shares, 0, 1 / weight), weight)

    def coefficients(self, cross: Array, alphas: Array) -> Array:
        """Return (S + alpha R)^-1 c for every c, shape (m, r), with its own alpha (m,)."""
        factors = 1 + (alphas[:, None] - self.weight) * self.shares
        return np.asarray((cross @ self.vectors / factors) @ self.vectors.T)


class SquaresMinimum(NamedTuple):
    """Coefficients (m, r), intercepts (m,), minima (m,), and bounds on their relative rounding errors (m,)."""

    coef: Array
    intercept: Array
    objective: Array
    gaps: Array


@storable
@dataclass(frozen=True)
class Squares:
    """Sums over n rows x with m targets y.

    Attributes
    ----------
    n_rows : float
    scatter : array of shape (r, r)
        Of x x^T.
    total : array of shape (r,)
        Of x.
    cross : array of shape (m, r)
        Of y x.
    moves, squares : arrays of shape (m,)
        Of y and y^2.
    """

    n_rows: float
    scatter: Array
    total: Array
    cross: Array
    moves: Array
    squares: Array

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
        self, penalty: SubspacePenalty, alphas: Array, *, has_intercept: bool, rounding: float = EPS
    ) -> list[SquaresMinimum]:
        """Return the models with the smallest |y - f|^2 + alpha w^T R w, for every alpha.

        ``rounding`` is the relative rounding error of products of two columns.
        """
        sums = self.centred() if has_intercept else self
        path = SquaresPath.of(sums.scatter, penalty)
        return [self._solved(sums, path, penalty, float(alpha), has_intercept, rounding) for alpha in alphas]

    def _solved(
        self, sums: Squares, path: SquaresPath, penalty: SubspacePenalty, alpha: float, has_intercept: bool,
        rounding: float,
    ) -> SquaresMinimum:  # fmt: skip
        weights = np.full(len(sums.cross), alpha)

        def left(w: Array) -> Array:
            return sums.cross - w @ sums.scatter - alpha * penalty.apply(w)

        w = path.coefficients(sums.cross, weights)
        w = w + path.coefficients(left(w), weights)  # one step of iterative refinement
        objective = sums.squares - np.einsum("mr,mr->m", w, sums.cross + left(w))
        missed = np.abs(np.einsum("mr,mr->m", left(w), path.coefficients(left(w), weights)))
        missed += rounding * (np.abs(w) @ np.sqrt(np.maximum(np.diagonal(sums.scatter), 0))) ** 2
        b = (self.moves - w @ self.total) / self.n_rows if has_intercept else np.zeros(len(w))
        scale = np.maximum(objective, np.finfo(float).tiny)
        return SquaresMinimum(w, b, np.maximum(objective, 0), missed / scale)


@storable
@dataclass(frozen=True)
class SquaresFit:
    """The sums of every fold's training rows; empty before the pass."""

    squares: tuple[Squares, ...] = ()


@dataclass(frozen=True)
class SquaresPass(Sweep[SquaresFit, LossSums]):
    """The single pass for squared losses: sums for ``n_models`` targets over the training rows of every fold."""

    name: str
    terms: FoldTerms
    n_models: int
    units: RowUnits
    keeps_sparse: bool = False
    state_bytes = 0

    def step(self, fitted: SquaresFit) -> Step[LossSums]:
        m = len(self.terms.held_out)
        models, hessian_models = np.arange(m), np.arange(0, m, self.n_models)
        zeros = np.zeros((m, len(self.units.centre)))
        return SumLosses(zeros, np.zeros(m), LOSSES["squared"], self.terms, models, self.units, hessian_models)

    def update(self, fitted: SquaresFit, sums: LossSums) -> SquaresFit:
        cross, moves = sums.cross.sum(axis=0) / 2, sums.moves.sum(axis=0) / 2
        folds = []
        for number, outer in enumerate(sums.hessians / 2):
            models = slice(number * self.n_models, (number + 1) * self.n_models)
            n_rows, total, scatter = float(outer[-1, -1]), outer[:-1, -1].copy(), outer[:-1, :-1].copy()
            folds.append(Squares(n_rows, scatter, total, cross[models], moves[models], sums.loss[models]))
        return SquaresFit(tuple(folds))

    def is_done(self, fitted: SquaresFit) -> bool:
        return bool(fitted.squares)

    def describe(self, fitted: SquaresFit) -> str:
        return f"sums of {len(fitted.squares)} sets of rows"
