"""Widened rows u = [x | g | z | y]: what stands behind the columns: gaps, covariates, and numbers to predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.passes.serialization import storable
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.facts import Facts

INDICATOR = "{} is missing"
"""The name of an indicator."""


@storable
@dataclass(frozen=True)
class Widening:
    """The columns beside the d columns of widened rows."""

    n_columns: int  # d
    gaps: NDArray[np.intp]  # (g,): the columns that have an indicator of missing values, ascending
    # (g,): what their missing values are filled with: of about their mean, single precision loses nothing
    fills: NDArray[np.float64]
    covariates: tuple[str, ...] = ()  # what the numbers of covariates are called; of a category "batch=b"
    names: tuple[str, ...] | None = None  # names of the columns with gaps
    targets: tuple[str, ...] = ()  # what the numbers to predict are called
    rounding: float = float(np.finfo(np.float64).eps)  # relative rounding error of the rows as they are stored

    @property
    def filled(self) -> int:
        """Columns without covariates, d + g."""
        return self.n_columns + len(self.gaps)

    @property
    def width(self) -> int:
        """Columns of widened rows."""
        return self.filled + len(self.covariates) + len(self.targets)

    @property
    def z(self) -> slice:
        """Where covariates stand."""
        return slice(self.filled, self.filled + len(self.covariates))

    @property
    def y(self) -> slice:
        """Where targets stand."""
        return slice(self.z.stop, self.width)

    @property
    def reads(self) -> tuple[str, ...]:
        """The arrays of batches that stand beside the columns."""
        return (*(["covariates"] if self.covariates else []), *(["targets"] if self.targets else []))

    @property
    def widens(self) -> Widening:
        """The columns beside those of rows in this form."""
        return self

    def facts(self, facts: Facts) -> Facts:
        """Return the facts of widened rows."""
        names = facts.feature_names
        if names is not None:
            indicators = (INDICATOR.format(names[j]) for j in self.gaps)
            names = [*names, *indicators, *self.covariates, *self.targets]
        kind = np.float64 if self.covariates or self.targets else np.result_type(facts.dtype, np.float32)
        return replace(facts, n_features=self.width, feature_names=names, image_shape=None, dtype=np.dtype(kind))

    def matrix(self, batch: Batch, out: NDArray | None = None) -> Any:
        """Return the widened rows of a batch, dense or CSR."""
        beside = batch.beside()
        if issparse(batch.X):
            return csr_array(scipy.sparse.hstack([batch.X, csr_array(beside)], "csr"))
        if out is None:
            double = beside is not None
            dtype = np.float64 if double else np.result_type(batch.X.dtype, np.float32)
            out = np.empty((len(batch), self.width), dtype)
        return self.rows(batch.X, beside, out)

    def rows(self, X: NDArray, beside: NDArray | None, out: NDArray) -> NDArray:
        """Fill ``out``, shape (n, d + g + q + t), with rows X (n, d) and what is `beside` them, and return it."""
        out[:, : self.n_columns] = X
        if len(self.gaps):
            missing = np.isnan(np.take(X, self.gaps, axis=1))
            rows, columns = np.divmod(np.flatnonzero(missing), len(self.gaps))
            out[rows, self.gaps[columns]] = self.fills[columns]
            out[:, self.n_columns : self.filled] = missing
        if beside is not None:
            out[:, self.filled :] = beside
        return out


def effective_precision(precision: str, widening: Widening | None) -> str:
    """Return "double" if rows carry covariates or targets, else the requested precision."""
    return "double" if widening is not None and (widening.covariates or widening.targets) else precision


def same_widening(left: Widening | None, right: Widening | None) -> bool:
    """Tell whether moments of rows that are widened in these ways merge; None stands for rows that are not."""
    if left is None or right is None:
        return left is right
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("n_columns", "gaps", "fills", "covariates", "targets")
    )
