"""The sweeps of BM2PCA: the step on a unit of rows, and what follows from a pass."""

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
    update,
)
from mmpca_dist.models.bayesian_margin.row_update import RowUpdate
from mmpca_dist.passes.array_sums import ArraySums
from mmpca_dist.passes.centred_rows import CentredRows, RowUnits
from mmpca_dist.passes.label_terms import LabelTerms, Terms
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import BlockStep, Step, Sweep
from mmpca_dist.passes.units import block_rows

FEWEST_ROWS = 16
"""Rows of a block, at least."""


@storable
@dataclass(frozen=True)
class SweptVariants:
    """Variants that are being fitted: their posterior, the sums that stay the same, and the bounds of every sweep."""

    posterior: Posterior
    table: TableSums | None
    bounds: Array


@storable
@dataclass(frozen=True)
class _UnitSums(ArraySums):
    rows: RowSums
    table: TableSums | None


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
        return _UnitSums(sums, TableSums.of(rows, trains) if self.is_first else None), inverse


@dataclass(frozen=True)
class MarginSweep(Sweep[SweptVariants, _UnitSums]):
    """Sweeps of some variants over rows, until bounds rise by no more than ``tol`` nats a value and variant."""

    name: str
    constants: Constants
    terms: LabelTerms
    units: RowUnits
    tol: float
    max_iter: int
    keeps_sparse: bool = False

    @property
    def state_bytes(self) -> int:  # type: ignore[override]
        return 8 * len(self.constants.C) * self.terms.per_row

    def step(self, fitted: SweptVariants) -> Step[_UnitSums]:
        rows = RowUpdate.of(fitted.posterior, self.constants)
        return _UpdateRows(rows, self.terms, self.units, fitted.table is None)

    def update(self, fitted: SweptVariants, sums: _UnitSums) -> SweptVariants:
        table = sums.table if fitted.table is None else fitted.table
        assert table is not None  # noqa: S101  (the first sweep takes it)
        known = UpdateSums(sums.rows, table, self.constants)
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
