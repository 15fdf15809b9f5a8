"""The sweeps of BM2PCA: the factors of z and lambda of every row, what they leave, and what follows from a pass.

The covariances of z are (B + s A)^-1 with the same B = I + E[tau] E[W^T W] and A = C^2 E[eta~ eta~^T] for all rows; s
is the sum of E[1/lambda] over the terms of a row. With U^T B U = I and U^T A U = diag(mu) they are
U diag(1 / (1 + s mu)) U^T: one generalised eigenproblem a sweep serves all rows, in coordinates v, z = U v.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.models.bayesian_margin.posterior import (
    Array,
    Constants,
    Posterior,
    RowSums,
    TableSums,
    UpdateSums,
    evidence_bound,
    transposed,
    update,
)
from mmpca_dist.passes.centred_rows import CentredRows, RowUnits
from mmpca_dist.passes.label_terms import LabelTerms, Terms
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import BlockStep, Step, Sweep
from mmpca_dist.passes.units import block_rows

FEWEST_ROWS = 16
"""Rows of a block, at least."""
TINY = 1e-200
"""Keeps a square that underflows from making E[1/lambda] infinite."""


@dataclass(frozen=True)
class RowUpdate:
    """The update of z and lambda of every row that follows from a posterior, for m variants."""

    directions: Array  # (m k, d): E[tau] (M U)^T, of all variants one below the other
    shift: Array  # (m, k): what the images of the location are
    rotation: Array  # (m, k, k): U
    widths: Array  # (m, k): mu
    pull: Array  # (m, k): U^T C E[eta~]
    push: Array  # (m, k): U^T C^2 E[eta_(k+1) eta~]
    constant: Array  # (m,): E[eta_(k+1)]
    constant_square: Array  # (m,): E[eta_(k+1)^2]
    C: Array  # (m,)
    base: Array
    """(m,): (log |U U^T| + k) / 2, the entropy of z where s is zero, up to a constant that the prior takes back."""

    @classmethod
    def of(cls, q: Posterior, constants: Constants) -> RowUpdate:
        m, d, k = q.loadings.shape
        C, squares = constants.C, q.weight_squares
        B = np.eye(k) + q.noise[:, None, None] * q.loading_squares(constants.n_features)
        lower = np.linalg.cholesky(B)
        A = np.linalg.solve(lower, C[:, None, None] ** 2 * squares[:, :k, :k])
        A = np.linalg.solve(lower, transposed(A))
        widths, vectors = np.linalg.eigh((A + transposed(A)) / 2)
        rotation = np.linalg.solve(transposed(lower), vectors)
        images = q.noise[:, None, None] * (q.loadings @ rotation)
        return cls(
            directions=np.ascontiguousarray(transposed(images)).reshape(m * k, d),
            shift=np.einsum("md,mdk->mk", q.location, images),
            rotation=rotation,
            widths=np.maximum(widths, 0),
            pull=C[:, None] * np.einsum("mi,mij->mj", q.weights[:, :k], rotation),
            push=C[:, None] ** 2 * np.einsum("mi,mij->mj", squares[:, k, :k], rotation),
            constant=q.weights[:, k],
            constant_square=squares[:, k, k],
            C=C,
            base=k / 2 - np.log(np.einsum("mii->mi", lower)).sum(axis=1),
        )

    def __call__(self, rows: CentredRows, terms: Terms, inverse: Array) -> tuple[RowSums, Array]:
        """Update z, then lambda, given E[1/lambda] of the terms, shape (n, m, T).

        Return the sums with the factors as they are afterwards, and E[1/lambda]; 0 where there is no term.
        """
        k, C = self.widths.shape[1], self.C[:, None]
        # Of shape (m, T, n): loops run over table rows that are adjacent in memory.
        levels, signs, inverse = (
            np.ascontiguousarray(np.moveaxis(each, 0, 2)) for each in (terms.levels, terms.signs, inverse)
        )
        count = inverse.sum(axis=1)
        variances = 1 / (1 + self.widths[:, :, None] * count[:, None])
        pull = signs.sum(axis=1) + C * (inverse * levels * signs).sum(axis=1)
        latent = np.empty((len(C), k + 1, len(terms.signs)))  # v, and 1
        latent[:, k] = 1
        v = latent[:, :k]
        np.subtract(rows.images(self.directions).reshape(v.shape), self.shift[:, :, None], out=v)
        v += self.pull[:, :, None] * pull[:, None]
        v -= self.push[:, :, None] * count[:, None]
        v *= variances
        f = np.einsum("mk,mkn->mn", self.pull / C, v) + self.constant[:, None]
        squares = np.einsum("mk,mkn->mn", self.widths, v**2 + variances) + 2 * np.einsum("mk,mkn->mn", self.push, v)
        f_squares = squares / C**2 + self.constant_square[:, None]
        u_squares = levels**2 - 2 * levels * signs * f[:, None] + signs**2 * f_squares[:, None]
        roots = C[:, :, None] * np.sqrt(np.maximum(u_squares, TINY))
        inverse = np.where(signs != 0, 1 / roots, 0.0)
        if terms.trains is not None:
            trains = np.ascontiguousarray(terms.trains.T)[:, None]
            for each in (latent, variances, inverse):
                each *= trains
            signs = signs * trains
        return self._sums(rows, latent, variances, levels, signs, inverse), np.moveaxis(inverse, 2, 0)

    def _sums(
        self, rows: CentredRows, latent: Array, variances: Array, levels: Array, signs: Array, inverse: Array
    ) -> RowSums:
        """Return the sums over rows, the last axis; of those that do not train, all but levels are zero."""
        m, k, n = variances.shape
        count, products = inverse.sum(axis=1), (inverse * levels * signs).sum(axis=1)
        squares = latent @ transposed(latent)
        weighted = (latent * count[:, None]) @ transposed(latent)
        diagonal = np.arange(k)
        squares[:, diagonal, diagonal] += variances.sum(axis=2)
        weighted[:, diagonal, diagonal] += np.einsum("mn,mkn->mk", count, variances)
        signed = signs.sum(axis=1)
        factors = np.stack([signed + self.C[:, None] * products, signed, products], axis=1)
        turn = np.zeros((m, k + 1, k + 1))  # of z~ = turn [v; 1]
        turn[:, :k, :k], turn[:, k, k] = self.rotation, 1
        squares, weighted = (turn @ each @ transposed(turn) for each in (squares, weighted))
        pull, plain, weighted_signs = np.moveaxis(factors @ transposed(latent) @ transposed(turn), 1, 0)
        cross = rows.cross(latent[:, :k].reshape(m * k, n)).reshape(m, k, -1)
        trained = np.where(variances[:, 0] > 0, 1.0, 0.0).sum(axis=1)
        logs = np.log(np.where(variances > 0, variances, 1)).sum(axis=(1, 2))
        latent_squares = squares[:, :k, :k]
        is_term = inverse > 0
        return RowSums(
            cross=transposed(self.rotation @ cross),
            latent=squares[:, :k, k],
            latent_squares=latent_squares,
            weighted=weighted,
            pull=pull,
            signs=plain,
            weighted_signs=weighted_signs,
            levels=np.where(is_term, levels, 0.0).sum(axis=(1, 2)),
            weighted_levels=(inverse * levels**2).sum(axis=(1, 2)),
            roots=np.divide(1, inverse, out=np.zeros_like(inverse), where=is_term).sum(axis=(1, 2)),
            entropy=trained * self.base + logs / 2 - np.einsum("mii->m", latent_squares) / 2,
        )


@storable
@dataclass(frozen=True)
class SweptVariants:
    """Variants that are being fitted: their posterior, the sums that stay the same, and the bounds of every sweep."""

    posterior: Posterior
    table: TableSums | None
    bounds: Array


_UnitSums = tuple[RowSums, TableSums | None]
"""The latter in the first sweep."""


@dataclass(frozen=True)
class _UpdateRows(BlockStep[_UnitSums]):
    """The step of a sweep: z, then lambda, of every row of a unit."""

    update: RowUpdate
    terms: LabelTerms
    units: RowUnits
    is_first: bool

    @property
    def block_rows(self) -> int:
        return block_rows(self.update.widths.size, FEWEST_ROWS)  # by the latent coordinates of all variants

    def of_block(self, rows: CentredRows, terms: Terms, state: NDArray | None) -> tuple[_UnitSums, NDArray]:
        trains = np.ones(terms.signs.shape[:2]) if terms.trains is None else terms.trains
        is_term = (terms.signs != 0) * trains[:, :, None]
        sums, inverse = self.update(rows, terms, is_term / self.update.C[:, None] if state is None else state)
        return (sums, TableSums.of(rows, trains) if self.is_first else None), inverse


@dataclass(frozen=True)
class MarginSweep(Sweep[SweptVariants, _UnitSums]):
    """Sweeps of some variants over rows, until bounds rise by no more than ``tol`` nats a value and variant."""

    name: str
    constants: Constants
    terms: LabelTerms
    units: RowUnits
    tol: float
    max_iter: int

    @property
    def state_bytes(self) -> int:  # type: ignore[override]
        return 8 * len(self.constants.C) * self.terms.per_row

    def step(self, fitted: SweptVariants) -> Step[_UnitSums]:
        rows = RowUpdate.of(fitted.posterior, self.constants)
        return _UpdateRows(rows, self.terms, self.units, fitted.table is None)

    def update(self, fitted: SweptVariants, sums: _UnitSums) -> SweptVariants:
        of_rows, of_table = sums
        table = of_table if fitted.table is None else fitted.table
        assert table is not None  # noqa: S101  (the first sweep takes it)
        known = UpdateSums(of_rows, table, self.constants)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            posterior = update(fitted.posterior, known)
            bound = evidence_bound(posterior, known)
        if not np.isfinite(bound).all():
            raise InputError(
                f"The evidence bound is not finite after sweep {len(fitted.bounds) + 1}, with C from "
                f"{self.constants.C.min():g} to {self.constants.C.max():g}: numbers overflow. Choose C nearer to 1, or "
                "standardise the columns (standardize)."
            )
        return SweptVariants(posterior, table, np.vstack([fitted.bounds, bound]))

    def is_done(self, fitted: SweptVariants) -> bool:
        return len(fitted.bounds) >= self.max_iter or self.gain(fitted) <= self.tol

    def gain(self, fitted: SweptVariants) -> float:
        """Return by how much the last sweep raised the bounds, in nats a value and variant; infinite before the second.

        The likelihood of a row grows with its columns, and so does what is worth a pass.
        """
        if len(fitted.bounds) < 2 or fitted.table is None:
            return np.inf
        values = fitted.table.n_rows.sum() * self.constants.n_features
        return float((fitted.bounds[-1] - fitted.bounds[-2]).sum() / values)

    def describe(self, fitted: SweptVariants) -> str:
        gain = self.gain(fitted)
        rise = "" if np.isinf(gain) else f", up by {gain:.3g} nats a value"
        return f"evidence bound {fitted.bounds[-1].sum():.6g}{rise}"
