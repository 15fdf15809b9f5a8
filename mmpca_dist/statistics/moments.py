"""Class moments: count, mean and centred scatter of every class, merged exactly.

Source: Chan, Golub & LeVeque 1983, "Algorithms for computing the sample variance", for the merge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.passes.serialization import storable
from mmpca_dist.statistics.column_units import weighted_mean
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.drift import Drift, drift_between
from mmpca_dist.statistics.outer_products import add_outer_products, class_blocks
from mmpca_dist.statistics.precision import DOUBLE, LARGE, refuse_too_large
from mmpca_dist.statistics.target_sums import TargetSums
from mmpca_dist.statistics.widening import Widening, same_widening
from mmpca_dist.tables.labels import unite

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Of the largest weight of a class, for each scatter that is stored."""


@storable
@dataclass(frozen=True)
class ClassMoments:
    """Count, mean and centred scatter of C classes of rows in d columns.

    Attributes
    ----------
    classes : array of shape (C,)
        Sorted labels.
    counts : float64 array of shape (C,)
        Sums of the weights of the rows: their numbers, where rows have no weights.
    sizes : int64 array of shape (C,)
        Numbers of rows, which bound ranks.
    means : float64 array of shape (C, d)
        Zero for a class without rows.
    scatters : float64 array of shape (k, d, d)
        ``scatters[j] = sum_c weights[j, c] G_c`` with G_c = sum over class c of w (x - m_c)(x - m_c)^T, w being the
        weight of a row.
    weights : float64 array of shape (k, C) or None
        None where every class has its own scatter: ``scatters[c] = G_c``. Ones, and n_c where a method needs it, where
        C d^2 would not fit.
    widening : Widening or None
        What stands behind the columns of widened rows, in moments that are yet to be adjusted.
    targets : TargetSums or None
        What is known of numbers to predict, which have a single class; None of classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import class_moments
    >>> X, y = load_iris(return_X_y=True)
    >>> first, second = class_moments(X[::2], y[::2]), class_moments(X[1::2], y[1::2])
    >>> both = first.merge(second)
    >>> both.sizes.tolist(), both.means.shape, both.scatters.shape
    ([50, 50, 50], (3, 4), (3, 4, 4))
    """

    classes: NDArray
    counts: NDArray[np.float64]
    sizes: NDArray[np.int64]
    means: NDArray[np.float64]
    scatters: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    widening: Widening | None = None
    targets: TargetSums | None = None

    def __repr__(self) -> str:
        return f"<ClassMoments: {self.n_rows:,} rows, {self.n_features:,} features, {len(self.classes)} classes>"

    @classmethod
    def empty(cls, classes: NDArray, n_features: int, weights: NDArray | None = None) -> ClassMoments:
        """Return the moments of no rows."""
        n_classes, n_scatters = len(classes), len(classes) if weights is None else len(weights)
        return cls(
            np.asarray(classes), np.zeros(n_classes), np.zeros(n_classes, np.int64), np.zeros((n_classes, n_features)),
            np.zeros((n_scatters, n_features, n_features)), None if weights is None else np.asarray(weights, float),
        )  # fmt: skip

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def total(self) -> float:
        """Sum of the weights of all rows: their number, where they have none."""
        return float(self.counts.sum())

    @property
    def n_features(self) -> int:
        return self.means.shape[1]

    @property
    def pooled(self) -> bool:
        """Whether weighted sums of class scatters are kept, rather than every scatter."""
        return self.weights is not None

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of all rows, shape (d,)."""
        return weighted_mean(self.means, self.counts)

    @property
    def deviations(self) -> NDArray[np.float64]:
        """Class means minus the mean of all rows, shape (C, d); the largest class takes no digits of the others."""
        apart = self.means - self.means[np.argmax(self.counts)]
        apart -= weighted_mean(apart, self.counts)
        return apart

    def scatter(self, class_weights: NDArray) -> NDArray[np.float64]:
        """Return sum_c w_c G_c, shape (d, d).

        Raises
        ------
        InputError
            If the pooled scatters do not determine it.
        """
        return np.tensordot(self._mix(class_weights), self.scatters, axes=1)

    def trace(self, class_weights: NDArray) -> float:
        """Return the trace of ``scatter(class_weights)``."""
        return float(self._mix(class_weights) @ np.einsum("kii->k", self.scatters))

    def column_squares(self) -> NDArray[np.float64]:
        """Return the sum of squared deviations of each column from its mean, over all classes, shape (d,)."""
        within = self._mix(np.ones(len(self.counts))) @ np.einsum("kii->ki", self.scatters)
        return np.asarray(within + self.counts @ self.deviations**2)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether each column varies, shape (d,), whatever the weights of the scatters."""
        return np.einsum("kii->ki", self.scatters).any(axis=0) | self.deviations[self.counts > 0].any(axis=0)

    def _mix(self, class_weights: NDArray) -> NDArray[np.float64]:
        """Return the coefficients of the stored scatters in a weighted sum of the class scatters."""
        target = np.asarray(class_weights, dtype=np.float64)
        if self.weights is None:
            return target
        mix, *_ = np.linalg.lstsq(self.weights.T, target, rcond=None)
        rounding = ROUNDING * len(self.weights) * float(np.abs(target).max(initial=0))
        if not np.allclose(mix @ self.weights, target, rtol=1e-9, atol=rounding):
            raise InputError(
                "These moments pool the scatters of the classes, and what they keep does not determine this method: "
                "m-pca0 needs moments of all rows from one pass. Take the moments of all rows at once."
            )
        return np.asarray(mix)

    def merge(self, other: ClassMoments) -> ClassMoments:
        """Return the moments of both sets of rows together; exact.

        Pooled scatters of other class weights leave only their sum over all classes, from which m-pca0 does not follow.

        Raises
        ------
        InputError
            If classes or columns differ.
        """
        same_columns = self.means.shape == other.means.shape and same_widening(self.widening, other.widening)
        if not (np.array_equal(self.classes, other.classes) and same_columns):
            raise InputError("Moments merge only where classes and columns agree.")
        return join_moments(self, other)

    def drift(self, arriving: ClassMoments, components: NDArray | None = None) -> Drift:
        """Tell which classes of arriving rows differ from these in mean or spread, and whether their shares do.

        Parameters
        ----------
        arriving : ClassMoments
            Of the same columns.
        components : array of shape (K, d), optional
            Of a model that was fitted before the rows arrived; by default all columns are compared.

        Returns
        -------
        Drift
            ``classes``, each with ``F``, ``p``, ``direction``; ``shares``, and ``moved()``. See ``drift_between``.

        Raises
        ------
        InputError
            For other columns, or too few rows.
        """
        return drift_between(self, arriving, components)

    def over(self, classes: NDArray, weights: NDArray | None = None) -> ClassMoments:
        """Return the same moments over a larger set of classes; the new ones have no rows.

        Parameters
        ----------
        weights : array of shape (k, C), for pooled scatters
            Weights of all these classes.
        """
        if len(classes) == len(self.classes):
            return replace(self, classes=classes)
        at, wider = np.searchsorted(classes, self.classes), ClassMoments.empty(classes, self.n_features, weights)
        wider.counts[at], wider.sizes[at], wider.means[at] = self.counts, self.sizes, self.means
        if self.pooled:
            return replace(wider, scatters=self.scatters, widening=self.widening)
        wider.scatters[at] = self.scatters
        return replace(wider, widening=self.widening)

    def of_seen(self, seen: NDArray[np.intp]) -> ClassMoments:
        """Return pooled moments over the classes at these positions, which are all that have rows; else all."""
        if self.weights is None or len(seen) == len(self.counts):
            return self
        return replace(self._at(seen), weights=self.weights[:, seen])

    def summed(self) -> ClassMoments:
        """Return the same moments with one scatter, the sum of those of all classes; m-pca0 does not follow from it."""
        ones = np.ones((1, len(self.classes)))
        if self.weights is not None and np.all(self.weights[0] == 1):
            return replace(self, scatters=self.scatters[:1], weights=ones)
        return replace(self, scatters=self.scatter(ones[0])[None], weights=ones)

    def scaled(self, factors: NDArray) -> ClassMoments:
        """Return the moments of the rows with column j multiplied by ``factors[j]``."""
        scatters = self.scatters * factors[:, None]
        scatters *= factors  # in place: they are the largest of all
        targets = None if self.targets is None else self.targets.scaled(factors)
        return replace(self, means=self.means * factors, scatters=scatters, targets=targets)

    def mapped(self, matrix: NDArray, offset: NDArray | float = 0.0) -> ClassMoments:
        """Return the moments of the rows x after an affine map, ``x @ matrix + offset``.

        Parameters
        ----------
        matrix : array of shape (d, e)
        offset : array of shape (e,)
        """
        return replace(self, means=self.means @ matrix + offset, scatters=matrix.T @ self.scatters @ matrix)

    def reweighted(self, factors: NDArray) -> ClassMoments:
        """Return the moments of the same rows with the weights of class c multiplied by ``factors[c]``.

        A class with factor 0 has no rows then.

        Raises
        ------
        InputError
            If pooled scatters hold that of a class which is to vanish.
        """
        counting = factors > 0
        sizes, means = np.where(counting, self.sizes, 0), np.where(counting[:, None], self.means, 0)
        dropped = {"counts": self.counts * factors, "sizes": sizes, "means": means}
        if self.weights is None:
            return replace(self, scatters=self.scatters * factors[:, None, None], **dropped)
        if np.any(self.weights[:, ~counting & (self.sizes > 0)]):
            raise InputError("These moments pool the scatters of the classes, so that none can be left out of them.")
        absent = np.eye(len(self.weights), 1)  # as `pooled_weights` has it of classes without rows
        weights = np.where(counting, self.weights / np.where(counting, factors, 1), absent)
        return replace(self, weights=weights, **dropped)

    def select(self, cells: NDArray[np.intp]) -> ClassMoments:
        """Return the moments of the classes at these positions.

        Raises
        ------
        InputError
            If the scatters are pooled with those of other classes.
        """
        if self.weights is None:
            return replace(self._at(cells), scatters=self.scatters[cells])
        alone = ~np.delete(self.weights, cells, axis=1).any(axis=1)
        if not alone.any():
            raise InputError("These moments pool the scatters of the classes, so that none can be taken alone.")
        return replace(self._at(cells), scatters=self.scatters[alone], weights=self.weights[alone][:, cells])

    def _at(self, cells: NDArray[np.intp]) -> ClassMoments:
        """Return the classes at these positions with all scatters."""
        return replace(
            self, classes=self.classes[cells], counts=self.counts[cells], sizes=self.sizes[cells],
            means=self.means[cells],
        )  # fmt: skip

    def merged(self, groups: NDArray[np.intp], classes: NDArray) -> ClassMoments:
        """Return the moments of groups of the classes; exact.

        Parameters
        ----------
        groups : int array of shape (C,)
            Position of each class's group.
        classes : array of shape (G,)
            Sorted labels of the groups.

        Raises
        ------
        InputError
            If pooled scatters weight the classes of a group differently.

        Notes
        -----
        Source: n = sum n_k, m = sum n_k m_k / n, G = sum [G_k + n_k (m_k - m) (m_k - m)^T].
        """
        weights = None
        if self.weights is not None:
            weights = np.zeros((len(self.weights), len(classes)))
            weights[:, groups] = self.weights
            if not np.array_equal(weights[:, groups], self.weights):
                raise InputError("These moments pool scatters, with other weights of classes that are to be merged.")
        merged = ClassMoments.empty(classes, self.n_features, weights)
        for group in np.unique(groups[self.counts > 0]):
            cells = np.flatnonzero((groups == group) & (self.counts > 0))
            counts, means = self.counts[cells], self.means[cells]
            merged.counts[group], merged.sizes[group] = counts.sum(), self.sizes[cells].sum()
            merged.means[group] = mean = weighted_mean(means, counts)
            offsets = (means - mean) * np.sqrt(counts)[:, None]
            if weights is None:
                merged.scatters[group] = self.scatters[cells].sum(axis=0) + offsets.T @ offsets
            else:
                add_outer_products(merged, np.full(len(cells), group), offsets, DOUBLE)
        if weights is not None:
            merged.scatters[...] += self.scatters
        return replace(merged, widening=self.widening)

    def _absorb(self, other: ClassMoments, work: np.dtype) -> None:
        """Merge rows of some of these classes into these moments, in place."""
        if self.pooled:
            self.scatters[...] += other.scatters
        seen = np.flatnonzero(other.counts)
        for block in class_blocks(seen, self):
            at = np.searchsorted(self.classes, other.classes[block])
            before, arrived = self.counts[at], other.counts[block]
            delta = other.means[block] - self.means[at]  # from zero, where there were no rows before
            share = arrived / (before + arrived)
            if not self.pooled:
                for own, its in [(at, block)] if self.n_features < LARGE else zip(at, block, strict=True):
                    self.scatters[own] += other.scatters[its]
            both = np.flatnonzero(before)
            add_outer_products(self, at[both], delta[both] * np.sqrt(before * share)[both, None], work)
            self.means[at] += delta * share[:, None]
            self.counts[at] += arrived
            self.sizes[at] += other.sizes[block]
        refuse_too_large(self.scatters, DOUBLE)


def join_moments(left: ClassMoments, right: ClassMoments, work: np.dtype = DOUBLE) -> ClassMoments:
    """Return the moments of both sets of rows, over the classes of both, which are sorted; exact.

    Pooled scatters of other class weights leave only their sum over all classes. ``work`` is the precision of products
    of differences of means; their sums are double.
    """
    classes = left.classes
    if not np.array_equal(classes, right.classes):
        classes = np.union1d(left.classes, right.classes)
    weights = _common_weights(left, right, classes)
    if weights is None and (left.pooled or right.pooled):
        left, right, weights = left.summed(), right.summed(), np.ones((1, len(classes)))
    joined = left.over(classes, weights)
    for name in ("counts", "sizes", "means", "scatters"):
        if getattr(joined, name) is getattr(left, name):
            joined = replace(joined, **{name: getattr(left, name).copy()})
    joined._absorb(right, work)
    return joined


def _common_weights(left: ClassMoments, right: ClassMoments, classes: NDArray) -> NDArray[np.float64] | None:
    """Return the weights of pooled scatters over the ``classes`` of both; None where they differ."""
    if left.weights is None or right.weights is None or len(left.weights) != len(right.weights):
        return None
    weights = np.empty((len(left.weights), len(classes)))
    at = np.searchsorted(classes, left.classes)
    weights[:, np.searchsorted(classes, right.classes)] = right.weights
    agreeing = np.isin(left.classes, right.classes, assume_unique=True)
    if not np.array_equal(weights[:, at[agreeing]], left.weights[:, agreeing]):
        return None
    weights[:, at] = left.weights
    return weights


def merge_classes(stored: ClassMoments, arrived: ClassMoments, where: str = "these rows") -> ClassMoments:
    """Return the moments of both sets of rows, over the classes of both; exact.

    If the stored scatters are pooled, or those of all classes would not fit, the result has only their sum. Raises
    InputError if the columns differ, or one set of labels is text and the other is numbers.
    """
    classes = unite(stored.classes, arrived.classes, where)
    if stored.pooled or use_pooled(len(classes), stored.n_features):
        stored, arrived = stored.summed(), arrived.summed()
    return replace(join_moments(stored, arrived), classes=classes)
