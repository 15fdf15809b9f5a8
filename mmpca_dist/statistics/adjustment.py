"""The map v = A^T u + b of widened rows back to their columns, known once their moments are merged.

Widened rows u = [x | g | z | y] are d columns x whose missing values are filled with a fixed value, indicators g of
gaps in some of them, covariates z and targets y. Means and slopes, and so A and b, follow from the moments of u: fold
by fold, and for rows that come later, nothing is read again. Targets stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError
from mmpca_dist.passes.array_sums import ArraySums
from mmpca_dist.passes.serialization import storable
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.target_sums import TargetSums
from mmpca_dist.statistics.widening import Widening

EPS = float(np.finfo(np.float64).eps)
CUTOFF = 1e-10
"""Covariates are dependent where no more than this share of their scatter within classes is left."""
LOST = 64
"""A column is lost where no more is left of its squares than so many rounding errors of what was subtracted; up to 26
were seen of columns of which nothing is left."""


@storable
@dataclass(frozen=True)
class CrossSums(ArraySums):
    """Sums over widened rows u by class, and of products with their covariates and targets."""

    counts: NDArray[np.float64]
    totals: NDArray[np.float64]
    """Of u, shape (C, d + g + q + t)."""
    products: NDArray[np.float64]
    """Of [z | y] and u, shape (q + t, d + g + q + t)."""

    @classmethod
    def of(cls, u: Any, codes: NDArray, n_classes: int, weights: NDArray | None, filled: int) -> Self:
        """Add up rows, dense or CSR, shape (n, d + g + q + t), of which ``filled`` columns are no covariates."""
        weights = np.ones(len(codes)) if weights is None else weights
        members = csr_array((weights, (codes, np.arange(len(codes)))), (n_classes, len(codes)))
        z = u[:, filled:]
        z = z.toarray() if issparse(z) else z
        products = (u.T @ (weights[:, None] * z)).T
        totals = members @ u
        return cls(
            np.bincount(codes, weights, n_classes).astype(np.float64),
            np.asarray(totals.toarray() if issparse(totals) else totals, np.float64),
            np.asarray(products, np.float64),
        )


@storable
@dataclass(frozen=True)
class Adjustment:
    """The map v = A^T u + b: means stand for missing values, and what covariates explain within classes is gone.

    Source: with p_j the share of missing values of column j and m_j the mean of its filled values, the mean of the
    others is (m_j - p_j c_j) / (1 - p_j), c_j being the fixed value. Covariates: limma's ``removeBatchEffect`` with the
    classes, or the targets, as design, B = W_zz^+ W_zx of the scatter W that these leave, v = x - B^T (z - mean of z).
    """

    widening: Widening
    deltas: NDArray[np.float64]  # (g,): mean of the values of a column less its fixed value
    slopes: NDArray[np.float64]  # (q, d): B
    centre: NDArray[np.float64]  # (q,): mean of z

    @classmethod
    def of_mean(cls, widening: Widening, mean: NDArray[np.float64]) -> Self:
        """Return the map of rows with this mean, shape (d + g + q + t,), that removes no covariates.

        Raises InputError for a column without any value.
        """
        shares, filled = mean[widening.n_columns : widening.filled], mean[widening.gaps]
        if (shares >= 1).any():
            empty = int(np.argmax(shares >= 1))
            name = "" if widening.names is None else f" ({widening.names[empty]!r})"
            raise InputError(f"Column {widening.gaps[empty]}{name} has no value in any row that is fitted to: drop it.")
        q = len(widening.covariates)
        deltas = (filled - widening.fills) / (1 - shares)
        return cls(widening, deltas, np.zeros((q, widening.n_columns)), mean[widening.z])

    @classmethod
    def of(cls, moments: ClassMoments) -> Self:
        """Return the map that moments of widened rows tell.

        Raises InputError also for a covariate that the class determines.
        """
        widening = moments.widening
        assert widening is not None  # noqa: S101  (they are of widened rows)
        without, q = cls.of_mean(widening, moments.mean), len(widening.covariates)
        if not q:
            return without
        within = moments.scatter(np.ones(len(moments.counts)))[widening.filled :]
        return without._with_slopes(within, moments.counts @ moments.deviations[:, widening.z] ** 2)

    @classmethod
    def of_sums(cls, widening: Widening, sums: CrossSums) -> Self:
        """Return the map that sums over the rows tell; raise as ``of``."""
        counts, q = sums.counts, len(widening.covariates)
        mean = sums.totals.sum(axis=0) / counts.sum()
        without = cls.of_mean(widening, mean)
        if not q:
            return without
        means = sums.totals / np.where(counts > 0, counts, 1)[:, None]
        within = sums.products - (means[:, widening.filled :] * counts[:, None]).T @ means
        return without._with_slopes(within, counts @ (means[:, widening.z] - mean[widening.z]) ** 2)

    def _with_slopes(self, within: NDArray[np.float64], between: NDArray[np.float64]) -> Self:
        """Return the map with slopes from the scatter within classes of [z | y] and u, (q + t, d + g + q + t).

        ``between`` is what the classes explain of the squares of z, shape (q,); the targets explain more.
        """
        q, widening = len(between), self.widening
        of_z, of_y = within[:q], within[q:]
        if len(of_y):
            lengths = np.sqrt(np.diag(of_y[:, widening.y]))
            lengths = np.where(lengths > 0, lengths, 1.0)
            own = np.linalg.pinv(of_y[:, widening.y] / lengths / lengths[:, None], CUTOFF, hermitian=True)
            explained = of_z[:, widening.y] / lengths @ own @ (of_y / lengths[:, None])
            of_z, between = of_z - explained, between + np.diag(explained[:, widening.z])
        cross, own = self.columns_of(of_z), of_z[:, widening.z]
        _refuse_determined(self.widening, np.diag(own), between)
        roots = np.sqrt(np.where(np.diag(own) > 0, np.diag(own), 1.0))
        values, vectors = np.linalg.eigh(own / roots / roots[:, None])
        kept = values > max(10 * q * EPS, CUTOFF)
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        return replace(self, slopes=inverse / roots / roots[:, None] @ cross)

    @classmethod
    def of_slopes(cls, slopes: NDArray[np.float64], centre: NDArray[np.float64]) -> Self:
        """Return the map that removes covariates from rows without gaps."""
        none, names = np.zeros(0), tuple(map(str, range(len(slopes))))
        return cls(Widening(slopes.shape[1], none.astype(np.intp), none, names), none, slopes, centre)

    @property
    def means(self) -> NDArray[np.float64]:
        """Means of the values of the columns with gaps, shape (g,)."""
        return self.widening.fills + self.deltas

    def columns_of(self, u: NDArray) -> NDArray:
        """Return the columns of widened rows, or rows of scatters, with means in the place of missing values."""
        v = u[:, : self.widening.n_columns].copy()
        v[:, self.widening.gaps] += u[:, self.widening.n_columns : self.widening.filled] * self.deltas
        return v

    def rows(self, u: NDArray) -> NDArray:
        """Return adjusted rows, shape (n, d)."""
        return self.without(self.columns_of(u), u[:, self.widening.z])

    def without(self, X: NDArray, Z: NDArray | None) -> NDArray:
        """Return rows X (n, d) less what covariates Z (n, q) explain of them."""
        if Z is None or not len(self.slopes):
            return X
        return X - ((Z - self.centre) @ self.slopes).astype(X.dtype)

    def subtracted(self, beside: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the squares of what is subtracted from each column, or more, shape (d,).

        ``beside``, shape (g + q,) or longer, has the squares of what stands beside the columns. The squares of adjusted
        columns are off by rounding errors of these, however small they are.
        """
        lengths, g = np.sqrt(np.maximum(beside, 0)), len(self.deltas)
        sizes = lengths[g : g + len(self.slopes)] @ np.abs(self.slopes)
        sizes[self.widening.gaps] += lengths[:g] * np.abs(self.deltas)
        return np.asarray(sizes**2)

    def lost(self, squares: NDArray[np.float64], beside: NDArray[np.float64], unit: float = EPS) -> NDArray[np.bool_]:
        """Tell which adjusted columns, with these ``squares``, are constant but for rounding errors, shape (d,).

        ``beside`` is as in ``subtracted``, and ``unit`` the relative rounding error of products.
        """
        return np.asarray(squares <= LOST * unit * self.subtracted(beside))

    def fitted_rows(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the adjusted rows that a fit is to, shape (n, d), constant in columns that are `lost`."""
        v = self.rows(u)
        lost = self.lost(v.var(axis=0), u[:, self.widening.n_columns :].var(axis=0))
        v[:, lost] = v[0, lost]
        return v

    def widened(self, vectors: NDArray) -> NDArray:
        """Return A V, shape (d + q + t, b), for vectors V (d, b) and rows without gaps."""
        both = np.zeros((self.widening.width, vectors.shape[1]), vectors.dtype)
        both[: len(vectors)] = vectors
        both[self.widening.z] = -(self.slopes @ vectors)
        return both

    def explained(self, Z: Any, matrix: NDArray) -> NDArray:
        """Return what covariates Z (n, q) explain of rows that are projected by ``matrix`` (d, K)."""
        return (Z - self.centre) @ (self.slopes @ matrix)

    def moments(self, widened: ClassMoments, unit: float = EPS) -> ClassMoments:
        """Return the moments of adjusted rows, constant in columns that are `lost`."""
        widening, targets = self.widening, None
        d, gaps, filled = widening.n_columns, widening.gaps, widening.filled
        scatters = np.empty((len(widened.scatters), d, d))
        for scatter, G in zip(scatters, widened.scatters, strict=True):
            both = self.columns_of(G)
            both -= G[:, widening.z] @ self.slopes
            scatter[...] = both[:d]
            scatter[gaps] += both[d:filled] * self.deltas[:, None]
            scatter -= self.slopes.T @ both[widening.z]
            if widening.targets:  # then there is a single class
                mean, squares = widened.means[0, widening.y], G[widening.y, widening.y]
                targets = TargetSums(widening.targets, mean, np.ascontiguousarray(both[widening.y].T), squares)
        means = self.rows(widened.means)
        adjusted = replace(widened, means=means, scatters=scatters, widening=None, targets=targets)
        lost = self.lost(adjusted.column_squares(), widened.column_squares()[d:], unit)
        means[:, lost], scatters[:, lost], scatters[:, :, lost] = adjusted.mean[lost], 0, 0
        if targets is not None:
            targets.cross[lost] = 0
        return adjusted


def _refuse_determined(widening: Widening, within: NDArray, between: NDArray) -> None:
    """Raise InputError for a covariate of which nothing varies within classes, or beyond what the targets explain."""
    names = widening.covariates
    varying = {
        name.partition("=")[0] for name, left in zip(names, within > CUTOFF * (within + between), strict=True) if left
    }
    for name in names:
        column = name.partition("=")[0]
        if column not in varying:
            reason = "follows from the targets" if widening.targets else "is the same in all rows of each class"
            whose = "the targets" if widening.targets else "the classes"
            raise InputError(
                f"The covariate {column!r} {reason}, so that its effect cannot be told apart from that of {whose}. "
                "Leave it out."
            )


def adjustment_of(moments: ClassMoments) -> Adjustment | None:
    """Return the map that moments of widened rows tell; None of rows that are not widened."""
    return None if moments.widening is None else Adjustment.of(moments)
