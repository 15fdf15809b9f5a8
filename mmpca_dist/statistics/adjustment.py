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
from scipy.sparse import csc_array, issparse

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.faults import Col
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.units import BLOCK_ROWS, blocks
from mmpca_dist.statistics.column_units import EPS, ROUNDING
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.target_sums import TargetSums
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.tables.batch import Batch

CUTOFF = 1e-10
"""Covariates are dependent where no more than this share of their scatter within classes is left."""
LOADED = 1e-4
"""Covariates with a smaller share of the largest loading have no part in a combination."""
LOST = 64
"""A column is lost where no more is left of its variance than so many rounding errors of what was subtracted; up to 34
were seen of columns of which nothing is left."""
CANCELLING = 16
"""Slopes of nearly dependent covariates cancel: of the rounding errors of each, one in so many counts."""


@storable
@dataclass(frozen=True)
class CrossSums:
    """Sums over widened rows u by class, and of products with their covariates and targets."""

    counts: NDArray[np.float64]
    totals: NDArray[np.float64]
    """Of u less its origin, shape (C, d + g + q + t)."""
    products: NDArray[np.float64]
    """Of [z | y] and u, shape (q + t, d + g + q + t), y less their origin."""
    origin: NDArray[np.float64]
    """Of columns with gaps their fixed value, of targets a row near them, else 0: spreads may be far smaller."""

    def __add__(self, other: CrossSums) -> CrossSums:
        other = other._about(self.origin)
        counts, totals = self.counts + other.counts, self.totals + other.totals
        return CrossSums(counts, totals, self.products + other.products, self.origin)

    def _about(self, origin: NDArray[np.float64]) -> CrossSums:
        """Return the same sums with another origin of the targets."""
        step, beside, total = self.origin - origin, slice(-len(self.products), None), self.counts.sum()
        if not step.any():
            return self
        sums = self.totals.sum(axis=0)
        of_u = sums + total * step
        of_u[: beside.start] += total * self.origin[: beside.start]
        products = self.products + np.outer(step[beside], of_u) + np.outer(sums[beside], step)
        return CrossSums(self.counts, self.totals + np.outer(self.counts, step), products, origin)

    @classmethod
    def of(cls, batch: Batch, classes: NDArray) -> Self:
        """Add up a batch of widened rows, dense or CSR, shape (n, d + g + q + t)."""
        u, widening, codes, n_classes = batch.X, batch.table.widening, batch.codes(classes), len(classes)
        weights = np.ones(len(codes)) if batch.weight is None else batch.weight
        members = csc_array((weights, codes, np.arange(len(codes) + 1)), (n_classes, len(codes)))
        z, origin = u[:, widening.filled :], np.zeros(widening.width)
        z = z.toarray() if issparse(z) else z.copy()
        y = z[:, len(widening.covariates) :]
        origin[widening.gaps], origin[widening.y] = widening.fills, y[0]
        y -= y[0].copy()
        products = np.asarray((u.T @ (weights[:, None] * z)).T, np.float64)
        products[:, widening.y] = z.T @ (weights[:, None] * y)
        totals = members @ u
        totals = np.asarray(totals.toarray() if issparse(totals) else totals, np.float64)
        totals[:, widening.y] = members @ y
        if len(widening.gaps):
            totals[:, widening.gaps] = 0
            for rows in blocks(len(codes), BLOCK_ROWS):
                near = np.take(u[rows], widening.gaps, axis=1) - widening.fills
                totals[:, widening.gaps] += members[:, rows] @ near
        return cls(np.bincount(codes, weights, n_classes).astype(np.float64), totals, products, origin)


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
    # (d,): variance of what is subtracted from a column, or more: that of adjusted rows has rounding errors of this
    taken: NDArray[np.float64]

    @classmethod
    def of_mean(cls, widening: Widening, mean: NDArray[np.float64], near: NDArray[np.float64]) -> Self:
        """Return the map of rows with this mean, shape (d + g + q + t,), that removes no covariates.

        ``near``, shape (g,), has the means of columns with gaps less their fixed values. Raises InputError for a column
        without any value.
        """
        shares = mean[widening.n_columns : widening.filled]
        if (shares >= 1).any():
            empty = int(np.argmax(shares >= 1))
            column = Col(int(widening.gaps[empty]), None if widening.names is None else widening.names[empty])
            raise InputError("Column {column} has no value in any row that is fitted to: drop it.", column=column)
        deltas, taken = near / (1 - shares), np.zeros(widening.n_columns)
        taken[widening.gaps] = deltas**2 * shares * (1 - shares)
        slopes = np.zeros((len(widening.covariates), widening.n_columns))
        return cls(widening, deltas, slopes, mean[widening.z], taken)

    @classmethod
    def of(cls, moments: ClassMoments) -> Self:
        """Return the map that moments of widened rows tell.

        Raises InputError also for a covariate that the class determines.
        """
        widening = moments.widening
        assert widening is not None  # noqa: S101  (they are of widened rows)
        mean = moments.mean
        without = cls.of_mean(widening, mean, mean[widening.gaps] - widening.fills)
        if not widening.covariates:
            return without
        within = moments.scatter(np.ones(len(moments.counts)))[widening.filled :]
        return without._with_slopes(within, _between(moments.deviations[:, widening.z], moments.counts), moments.total)

    @classmethod
    def of_sums(cls, widening: Widening, sums: CrossSums) -> Self:
        """Return the map that sums over the rows tell; raise as ``of``."""
        counts, total = sums.counts, sums.counts.sum()
        mean = sums.totals.sum(axis=0) / total
        without = cls.of_mean(widening, mean, mean[widening.gaps])
        if not widening.covariates:
            return without
        means = sums.totals / np.where(counts > 0, counts, 1)[:, None]
        means[:, widening.gaps] += widening.fills
        within = sums.products - (means[:, widening.filled :] * counts[:, None]).T @ means
        return without._with_slopes(within, _between(means[:, widening.z] - mean[widening.z], counts), total)

    def _with_slopes(self, within: NDArray[np.float64], between: NDArray[np.float64], total: float) -> Self:
        """Return the map with slopes from the scatter within classes of [z | y] and u, (q + t, d + g + q + t).

        ``between`` is what the classes explain of the products of z, shape (q, q); the targets explain more. ``total``
        is the sum of the weights of the rows.
        """
        q, widening = len(between), self.widening
        of_z, of_y = within[:q], within[q:]
        if len(of_y):
            lengths = np.sqrt(np.diag(of_y[:, widening.y]))
            lengths = np.where(lengths > 0, lengths, 1.0)
            own = np.linalg.pinv(of_y[:, widening.y] / lengths / lengths[:, None], CUTOFF, hermitian=True)
            explained = of_z[:, widening.y] / lengths @ own @ (of_y / lengths[:, None])
            of_z, between = of_z - explained, between + explained[:, widening.z]
        cross, own = self.columns_of(of_z), of_z[:, widening.z]
        _refuse_determined(self.widening, np.diag(own), np.diag(between))
        roots, cutoff = np.sqrt(np.maximum(np.diag(own + between), 0)), max(10 * q * EPS, CUTOFF)
        roots = np.where(roots > 0, roots, 1.0)
        values, vectors = np.linalg.eigh(own / roots / roots[:, None])
        kept = values > cutoff
        _refuse_determined_together(widening, vectors[:, ~kept], between / roots / roots[:, None], 10 * cutoff)
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        slopes = inverse / roots / roots[:, None] @ cross
        sizes, between = np.abs(slopes), np.maximum(np.diag(between), 0)
        lengths = np.sqrt(np.maximum(np.diag(own) + between, 0))
        explained = np.einsum("qd,qd->d", slopes, own @ slopes) + (np.sqrt(between) @ sizes) ** 2
        taken = self.taken + (explained + (lengths @ sizes) ** 2 / CANCELLING) / total
        return replace(self, slopes=slopes, taken=taken)

    @classmethod
    def of_slopes(cls, slopes: NDArray[np.float64], centre: NDArray[np.float64]) -> Self:
        """Return the map that removes covariates from rows without gaps."""
        none, names = np.zeros(0), tuple(map(str, range(len(slopes))))
        widening = Widening(slopes.shape[1], none.astype(np.intp), none, names)
        return cls(widening, none, slopes, centre, np.zeros(slopes.shape[1]))

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

    def fitted_rows(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the adjusted rows that a fit is to, shape (n, d), constant in `lost_columns`."""
        v = self.rows(u)
        lost = lost_columns(v.var(axis=0), v.mean(axis=0), self)
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

    def moments(self, widened: ClassMoments) -> ClassMoments:
        """Return the moments of adjusted rows."""
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
        return replace(widened, means=means, scatters=scatters, widening=None, targets=targets)


def lost_columns(
    variances: NDArray[np.float64], mean: NDArray[np.float64], adjustment: Adjustment, unit: float = EPS
) -> NDArray[np.bool_]:
    """Tell which adjusted columns are constant but for rounding errors, by their variances and mean, shape (d,).

    These are errors of products, whose relative one is ``unit``, of the rows as they are stored, and of the mean.
    """
    taken, of_rows = adjustment.taken, adjustment.widening.rounding
    floors = np.maximum(LOST * unit * taken, of_rows**2 * (taken + mean**2))
    return np.asarray(variances <= np.maximum(floors, (ROUNDING * mean) ** 2))


def make_constant(moments: ClassMoments, columns: NDArray[np.bool_]) -> None:
    """Make columns of adjusted rows constant, in place."""
    moments.means[:, columns] = moments.mean[columns]
    moments.scatters[:, columns], moments.scatters[:, :, columns] = 0, 0
    if moments.targets is not None:
        moments.targets.cross[columns] = 0


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


def _between(deviations: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((deviations * counts[:, None]).T @ deviations)


def _refuse_determined_together(widening: Widening, constant: NDArray, between: NDArray, cutoff: float) -> None:
    """Raise InputError where a combination of covariates that is ``constant`` within classes differs between them.

    Combinations are the columns of ``constant``, shape (q, k). The inverse of the scatter within the classes would take
    no effect for theirs, and so split it among the covariates.
    """
    shares, turns = np.linalg.eigh(constant.T @ between @ constant)
    if not len(shares) or shares[-1] <= cutoff:
        return
    loadings = np.abs(constant @ turns[:, -1])
    loaded = np.asarray(widening.covariates)[loadings > LOADED * loadings.max()].tolist()
    names = list(dict.fromkeys(name.partition("=")[0] for name in loaded))
    whose = "targets" if widening.targets else "classes"
    what = "covariates {} together follow" if len(names) > 1 else "categories of the covariate {} follow"
    raise InputError(
        f"The {what.format(some_names(names))} from the {whose}: a combination of them varies with the {whose} alone, "
        f"so that its effect cannot be told apart from that of the {whose}. Leave out {names[-1]!r}."
    )
