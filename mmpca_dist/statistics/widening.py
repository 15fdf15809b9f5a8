"""Widened rows u = [x | g | z | y]: what stands behind the columns: gaps, covariates, and numbers to predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.serialization import storable


@storable
@dataclass(frozen=True)
class Widening:
    """What stands beside d columns of widened rows."""

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

    def beside(self, rows: Any, start: int, stop: int) -> NDArray[np.float64] | None:
        """Return covariates and targets of rows of a data set, shape (stop - start, q + t); None without any."""
        read = [rows.read_covariates] if self.covariates else []
        read += [rows.read_targets] if self.targets else []
        parts = [each(start, stop) for each in read]
        return np.concatenate(parts, axis=1) if len(parts) > 1 else next(iter(parts), None)

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


def implied(precision: str, widening: Widening | None) -> str:
    """Return the precision of products: double with covariates or targets, whatever is asked for."""
    return "double" if widening is not None and (widening.covariates or widening.targets) else precision


def same_widening(left: Widening | None, right: Widening | None) -> bool:
    """Tell whether moments of rows that are widened in these ways merge; None stands for rows that are not."""
    if left is None or right is None:
        return left is right
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("n_columns", "gaps", "fills", "covariates", "targets")
    )
