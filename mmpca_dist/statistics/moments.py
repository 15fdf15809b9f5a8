"""Class moments: count, mean and centred scatter of every class, merged exactly.

Source: Chan, Golub & LeVeque 1983, "Algorithms for computing the sample variance", for the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.labels import unite
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.serialization import storable

BLOCK_ROWS = 2048
"""Rows of a symmetric product: at 256 columns 2,048 and 4,096 rows run equally fast, 512 rows 1.5 times slower."""

CENTRE_ROWS = 64
"""Rows, evenly spaced, whose mean is subtracted before any product: their mean is within an eighth of a standard
deviation of the class's, so that nothing is lost to cancellation however far the mean is from zero."""

SMALLEST = {
    "float32": float(np.finfo(np.float32).tiny),
    "float64": float(np.sqrt(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)),
}
"""Of rows in single precision, which are scaled before they are squared, and in double: smaller deviations vanish."""
SAFE_EXPONENT = 20
"""Columns beyond 2^20 or below 2^-20 are scaled by a power of two, lest their single-precision squares overflow or
vanish."""

Visit = Callable[[int, NDArray], None]
"""Called with a class and a block of its rows, before they are changed."""


@storable
@dataclass(frozen=True)
class ClassMoments:
    """Count, mean and centred scatter of C classes of rows in d columns.

    Attributes
    ----------
    classes : array of shape (C,)
        Sorted labels.
    counts : int64 array of shape (C,)
    means : float64 array of shape (C, d)
        Zero for a class without rows.
    scatters : float64 array of shape (k, d, d)
        ``scatters[j] = sum_c weights[j, c] G_c`` with G_c = sum over class c of (x - m_c)(x - m_c)^T.
    weights : float64 array of shape (k, C)
        The identity where every class has its own scatter; two rows, 1 and n_c, where C d^2 would not fit.
    """

    classes: NDArray
    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    scatters: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def empty(cls, classes: NDArray, n_features: int, weights: NDArray | None = None) -> ClassMoments:
        """Return the moments of no rows."""
        weights = np.eye(len(classes)) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(
            np.asarray(classes),
            np.zeros(len(classes), np.int64),
            np.zeros((len(classes), n_features)),
            np.zeros((len(weights), n_features, n_features)),
            weights,
        )

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def n_features(self) -> int:
        return self.means.shape[1]

    @property
    def pooled(self) -> bool:
        """Whether weighted sums of class scatters are kept, rather than every scatter."""
        return not np.array_equal(self.weights, np.eye(len(self.counts)))

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of all rows, shape (d,)."""
        return self.counts @ self.means / self.n_rows

    @property
    def deviations(self) -> NDArray[np.float64]:
        """Class means minus the mean of all rows, shape (C, d)."""
        return self.means - self.mean

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

    def _mix(self, class_weights: NDArray) -> NDArray[np.float64]:
        """Return the coefficients of the stored scatters in a weighted sum of the class scatters."""
        target = np.asarray(class_weights, dtype=np.float64)
        mix, *_ = np.linalg.lstsq(self.weights.T, target, rcond=None)
        if not np.allclose(mix @ self.weights, target, rtol=1e-9, atol=0):
            raise InputError(
                "These moments pool the scatters of the classes for the class counts they were taken with; "
                "after rows were added they no longer determine this method. Take the moments anew."
            )
        return np.asarray(mix)

    def merge(self, other: ClassMoments) -> ClassMoments:
        """Return the moments of both sets of rows together; exact.

        Raises
        ------
        InputError
            If classes, columns or pooling differ.
        """
        if (
            not np.array_equal(self.classes, other.classes)
            or self.means.shape != other.means.shape
            or not np.array_equal(self.weights, other.weights)
        ):
            raise InputError("Moments merge only where classes, columns and class weights agree.")
        merged = ClassMoments(self.classes, self.counts.copy(), self.means.copy(), self.scatters.copy(), self.weights)
        merged._absorb(np.arange(len(self.classes)), other.counts, other.means, other.scatters)
        return merged

    def with_classes(self, classes: NDArray) -> ClassMoments:
        """Return the same moments over a larger set of classes; the new ones have no rows."""
        grown = ClassMoments.empty(classes, self.n_features)
        at = np.searchsorted(classes, self.classes)
        grown.counts[at], grown.means[at], grown.scatters[at] = self.counts, self.means, self.scatters
        return grown

    def summed(self, classes: NDArray) -> ClassMoments:
        """Return the same moments over a larger set of classes with one scatter, the sum of those of all classes.

        Rows of any class extend it, which pooled scatters weighted by class counts do not allow; M-PCA0 does not follow
        from it.
        """
        grown = ClassMoments.empty(classes, self.n_features, np.ones((1, len(classes))))
        at = np.searchsorted(classes, self.classes)
        grown.counts[at], grown.means[at] = self.counts, self.means
        grown.scatters[0] = self.scatters[0] if np.all(self.weights[0] == 1) else self.scatter(np.ones(len(at)))
        return grown

    def scaled(self, factors: NDArray) -> ClassMoments:
        """Return the moments of the rows with column j multiplied by ``factors[j]``."""
        scatters = self.scatters * factors[:, None]
        scatters *= factors  # in place: they are the largest of all
        return ClassMoments(self.classes, self.counts, self.means * factors, scatters, self.weights)

    def _absorb(self, at: NDArray, counts: NDArray, means: NDArray, scatters: NDArray | list[NDArray]) -> None:
        """Merge rows of the classes ``at`` into these moments, in place.

        ``scatters`` are theirs, one for each row of ``weights`` that gives one of these classes any weight.
        """
        before, total = self.counts[at], self.counts[at] + counts
        delta = np.where((before > 0)[:, None], means - self.means[at], means)
        share = counts / np.maximum(total, 1)
        between = before * share
        touched = np.flatnonzero(self.weights[:, at].any(axis=1))
        for target, scatter in zip(touched, scatters, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                spread = delta * np.sqrt(self.weights[target, at] * between)[:, None]
                self.scatters[target] += scatter
                self.scatters[target] += spread.T @ spread
            if not np.isfinite(np.trace(self.scatters[target])):
                raise InputError(too_large(np.dtype(np.float64)))
        self.means[at] += delta * share[:, None]
        self.counts[at] = total


def merge_classes(stored: ClassMoments, arrived: ClassMoments, where: str = "these rows") -> ClassMoments:
    """Return the moments of both sets of rows, over the classes of both; exact.

    If the stored scatters are pooled, the result has only their sum over all classes.

    Raises
    ------
    InputError
        If the columns differ, or one set of labels is text and the other is numbers.
    """
    classes = unite(stored.classes, arrived.classes, where)
    if stored.pooled:
        return stored.summed(classes).merge(arrived.summed(classes))
    return stored.with_classes(classes).merge(arrived.with_classes(classes))


def pooled_weights(counts: NDArray) -> NDArray[np.float64]:
    """Return class weights (1 and n_c) whose two scatters suffice for every method."""
    return np.vstack([np.ones(len(counts)), counts]).astype(np.float64)


class ChunkAdder:
    """Adds chunks of rows to moments, in place, with buffers of its own.

    Parameters
    ----------
    moments : ClassMoments
        Changed in place.
    dtype : dtype
        Of the rows.
    precision : {"single", "double"}
        Of the products; sums of products are double.
    """

    def __init__(self, moments: ClassMoments, dtype: np.dtype, precision: str) -> None:
        d = moments.n_features
        work = np.dtype(np.float32 if precision == "single" else np.float64)
        self.moments = moments
        self._pooled = moments.pooled
        native = np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")
        self._raw = np.empty((BLOCK_ROWS, d), native)
        self._panel = np.empty((BLOCK_ROWS, d), work)
        self._ones = np.ones(BLOCK_ROWS, work)
        self._product = np.empty((d, d), work)
        self._partial = np.empty((len(moments.weights) if self._pooled else 1, d, d))
        self._row_class = np.empty(BLOCK_ROWS, np.intp)
        self._centre_type = np.result_type(native, work)
        self._fill = 0

    def add(
        self, X: NDArray, codes: NDArray, locate: Callable[[int, int, float], str], visit: Visit | None = None
    ) -> None:
        """Add a chunk.

        Parameters
        ----------
        X : array of shape (n, d)
        codes : int array of shape (n,)
            Position of each row's class.
        locate : callable
            Returns the message for a value that is not finite: called with its row in the chunk, column and value.
        visit : callable, optional
            Called with every block of rows.
        """
        if X.dtype == bool:
            X = X.view(np.uint8)
        scale = safe_scale(X, self._panel.dtype)
        groups: list[tuple[int, int, NDArray, NDArray]] = []
        self._partial[...] = 0
        for label, rows in class_groups(codes):
            centre = provisional_centre(X, rows).astype(self._centre_type)
            total = np.zeros(X.shape[1])
            with np.errstate(invalid="ignore", over="ignore"):
                self._add_class(X, label, rows, centre, scale, total, visit)
            if not np.isfinite(total).all():
                raise InputError(explain_not_finite(X, rows, self._panel.dtype, locate))
            mean = centre + (total if scale is None else total / scale) / len(rows)
            groups.append((label, len(rows), mean, total))
            if not self._pooled:
                self._close([groups.pop()], scale)
        if groups:
            self._close(groups, scale)

    def _add_class(
        self, X: NDArray, label: int, rows: NDArray, centre: NDArray, scale: NDArray | None, total: NDArray,
        visit: Visit | None,
    ) -> None:  # fmt: skip
        start = 0
        while start < len(rows):
            size = min(BLOCK_ROWS - self._fill, len(rows) - start)
            raw = self._raw[:size]
            np.take(X, rows[start : start + size], axis=0, out=raw, mode="clip")
            if visit is not None:
                visit(label, raw)
            panel = self._panel[self._fill : self._fill + size]
            np.subtract(raw, centre, out=panel, casting="same_kind")
            if scale is not None:
                panel *= scale
            total += self._ones[:size] @ panel
            self._row_class[self._fill : self._fill + size] = label
            self._fill += size
            start += size
            if self._fill == BLOCK_ROWS:
                self._flush()

    def _flush(self) -> None:
        """Add the products of the rows in the panel to the partial scatters."""
        panel = self._panel[: self._fill]
        if not self._pooled:
            np.matmul(panel.T, panel, out=self._product)
            self._partial[0] += self._product
        else:
            for weights, partial in zip(self.moments.weights, self._partial, strict=True):
                weighted = panel * np.sqrt(weights[self._row_class[: self._fill], None]).astype(panel.dtype)
                np.matmul(weighted.T, weighted, out=self._product)
                partial += self._product
        self._fill = 0

    def _close(self, groups: list[tuple[int, int, NDArray, NDArray]], scale: NDArray | None) -> None:
        """Centre the partial scatters on the class means and merge them into the moments.

        ``groups`` are label, count, mean and sum of each class.
        """
        labels, counts, means, sums = (np.array(values) for values in zip(*groups, strict=True))
        with np.errstate(invalid="ignore", over="ignore"):
            self._flush()
            weights = self.moments.weights[:, labels] if self._pooled else np.ones((1, 1))
            for partial, weight in zip(self._partial, weights, strict=True):
                offset = sums * np.sqrt(weight / counts)[:, None]
                partial -= offset.T @ offset
                if scale is not None:
                    exact = scale.astype(np.float64)  # squares of single-precision scales over- or underflow
                    partial /= exact[:, None] * exact
        if not np.isfinite(np.trace(self._partial, axis1=1, axis2=2)).all():
            raise InputError(too_large(self._panel.dtype))
        self.moments._absorb(labels, counts, means, self._partial)
        self._partial[...] = 0


def class_groups(codes: NDArray) -> Iterator[tuple[int, NDArray]]:
    """Yield each class present and its rows, in order."""
    # 16-bit keys are sorted by radix, in linear time.
    keys = codes.astype(np.uint16) if len(codes) and codes.max() < 1 << 16 else codes
    order = np.argsort(keys, kind="stable")
    counts = np.bincount(codes)
    ends = np.cumsum(counts)
    for label in np.flatnonzero(counts):
        yield int(label), order[ends[label] - counts[label] : ends[label]]


def provisional_centre(X: NDArray, rows: NDArray | None = None) -> NDArray[np.float64]:
    """Return column means of a few rows; for a constant column exactly its value, so that its scatter is zero."""
    sample = X[_few(np.arange(len(X)) if rows is None else rows)]
    with np.errstate(invalid="ignore"):
        mean = sample.mean(axis=0, dtype=np.float64)
    return np.where((sample == sample[0]).all(axis=0), sample[0], mean)


def _few(rows: NDArray) -> NDArray:
    return rows[:: -(-len(rows) // CENTRE_ROWS)]


def safe_scale(X: NDArray, work: np.dtype) -> NDArray | None:
    """Return powers of two, by column, that bring squares into the range of single precision; None if not needed.

    Raises InputError where no column varies by more than vanishes when it is squared.
    """
    if X.dtype.itemsize < 4 or not len(X):
        return None
    sample = X[_few(np.arange(len(X)))].astype(np.float64)
    with np.errstate(invalid="ignore"):
        spread = np.abs(sample - sample.mean(axis=0)).max(axis=0)
    smallest = SMALLEST[work.name]
    if 0 < np.fmax.reduce(spread) < smallest and (X.max(axis=0) - X.min(axis=0)).max() < smallest:
        raise InputError(too_small(work))
    if work != np.float32:
        return None
    _, exponent = np.frexp(spread)
    unsafe = (np.abs(exponent) > SAFE_EXPONENT) & np.isfinite(spread)
    # Powers of two that single precision can hold; what lies beyond them is refused as too large, or is zero.
    return np.where(unsafe, np.ldexp(1.0, np.clip(-exponent, -126, 126)), 1.0).astype(work) if unsafe.any() else None


def explain_not_finite(X: NDArray, rows: NDArray, work: np.dtype, locate: Callable[[int, int, float], str]) -> str:
    """Return a message that names the first value that is not finite, or says that products overflowed."""
    for start in range(0, len(rows), BLOCK_ROWS):
        some = np.sort(rows)[start : start + BLOCK_ROWS]
        bad = ~np.isfinite(X[some])
        if bad.any():
            row, column = np.argwhere(bad)[0]
            return locate(int(some[row]), int(column), float(X[some[row], column]))
    return too_large(work)


def too_large(work: np.dtype) -> str:
    if work == np.float32:
        return "The rows hold values whose squares are too large for single precision; set precision: double."
    return "The rows hold values whose squares are too large even for double precision; scale them down."


def too_small(work: np.dtype) -> str:
    if work == np.float32:
        return (
            f"The rows vary by less than {SMALLEST[work.name]:.0e}, which is zero in single precision; set precision: "
            "double, or scale them up."
        )
    return (
        f"The rows vary by less than {SMALLEST[work.name]:.0e}, whose squares are zero even in double precision; scale "
        "them up."
    )
