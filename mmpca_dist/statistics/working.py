"""The statistics every method is solved from, in coordinates small enough to solve in.

Tall data keeps its own columns. Where there are fewer rows than columns, rows (and the medians, which lie outside
their span) are turned into an orthonormal basis of what they span: every scatter maps that space into itself, so the
problem shrinks from d x d to at most (n + C) x (n + C) and no d x d matrix is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.statistics.moments import ChunkAdder, ClassMoments
from mmpca_dist.statistics.pairs import PairScatter

BASIS_ROWS = 8192


@dataclass(frozen=True)
class Approximation:
    """What a solver in passes knows of a weighted class scatter G beyond its part in the basis Q.

    Attributes
    ----------
    solver : str
    passes : int
        Over the rows that it took.
    trace : float
        Of G.
    outside : array of shape (s, r) or None
        G Q - Q (Q^T G Q) = N outside, with orthonormal columns N; None where it is not known.
    probed : array of shape (d, p)
        G applied to ``probes(d, p)``, which the basis knows nothing of.
    error : float or None
        Where ``outside`` is not known: bound on the norm of G less its approximation, from the probes.
    history : list of dict
        ``values`` and ``residuals`` of the leading components after every pass.
    """

    solver: str
    passes: int
    trace: float
    outside: NDArray[np.float64] | None
    probed: NDArray[np.float64]
    error: float | None = None
    history: list[dict[str, list[float]]] = field(default_factory=list)


PROBES, PROBE_BASE = 20, 2.0
"""Gaussian vectors that bound what lies outside a basis. Halko, Martinsson & Tropp 2011, lemma 4.1: the norm of B is at
most a sqrt(2 / pi) times the longest of B w_1 ... B w_r, except with probability a^-r; here a = 2 and r = 20: 10^-6."""
PROBE_SEED = 2011


def probes(n_features: int, count: int = PROBES) -> NDArray[np.float64]:
    """Return standard Gaussian vectors, shape (d, p), always the same."""
    return np.random.default_rng(PROBE_SEED).standard_normal((n_features, count))


@dataclass(frozen=True)
class Statistics:
    """Class moments and medians in working coordinates, and the way back to the columns.

    A row x has working coordinates ``((x - origin) / scale) @ basis``.

    Attributes
    ----------
    moments : ClassMoments
        In r working coordinates.
    medians : array of shape (T, r) or None
        Medians of the sets of classes that M-PCA1b needs, in working coordinates.
    mean : array of shape (d,)
        Mean of the rows in their own units.
    scale : array of shape (d,) or None
        Standard deviations that the columns are divided by, where the methods work on standardised rows.
    basis : array of shape (d, r) or None
        Orthonormal columns; None where the working coordinates are the (scaled) columns.
    precision : {"single", "double"}
        Of the products behind the moments.
    raw : ClassMoments or None
        Moments of the rows in their own units; None where they were solved in their span.
    pairs : PairScatter or None
        Of nearest rows of different classes, for M-PCA2.
    approximation : Approximation or None
        Where the basis holds the leading part of a scatter only.
    weighted : Statistics or None
        The same in a basis for M-PCA0, whose class weights differ from those of the other methods.
    """

    moments: ClassMoments
    medians: NDArray[np.float64] | None
    mean: NDArray[np.float64]
    scale: NDArray[np.float64] | None
    basis: NDArray | None
    precision: str
    raw: ClassMoments | None = None
    pairs: PairScatter | None = None
    approximation: Approximation | None = None
    weighted: Statistics | None = None

    @property
    def fixed(self) -> str | None:
        """Why no more rows can be merged in, in words; None where they can."""
        if self.approximation is not None:
            return "its scatters were applied to vectors, pass by pass, and never formed"
        if self.raw is None:
            return "there were fewer rows than columns, and what is kept of them lives in the space they span"
        if self.raw.pooled:
            return "the scatters of many classes were pooled for the class counts of just these rows"
        return None

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def epsilon(self) -> float:
        """Relative rounding error of a product of the pass."""
        return float(np.finfo(np.float32 if self.precision == "single" else np.float64).eps)

    def loadings(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring vectors in working coordinates, shape (r, K), back to the columns: shape (K, d)."""
        if self.basis is None:
            return np.ascontiguousarray(vectors.T)
        found = np.empty((vectors.shape[1], len(self.basis)))
        for start in range(0, len(self.basis), BASIS_ROWS):  # a basis in single precision is never copied as a whole
            found[:, start : start + BASIS_ROWS] = (self.basis[start : start + BASIS_ROWS] @ vectors).T
        return found


def standard_deviations(variances: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return square roots of variances; 1 for a column that is constant up to rounding."""
    deviations = np.sqrt(np.maximum(variances, 0))
    constant = deviations <= 10 * np.finfo(np.float64).eps * np.abs(mean)
    return np.where(constant, 1.0, deviations)


def tall_statistics(
    moments: ClassMoments, medians: NDArray[np.float64] | None, *, precision: str, standardize: bool = False
) -> Statistics:
    """Return statistics whose working coordinates are the columns."""
    mean = moments.mean
    if not standardize:
        return Statistics(moments, medians, mean, None, None, precision, moments)
    offsets = moments.deviations
    variances = np.diagonal(moments.scatter(np.ones(len(moments.counts)))) + moments.counts @ offsets**2
    scale = standard_deviations(variances / moments.n_rows, mean)
    scaled = moments.scaled(1 / scale)
    return Statistics(scaled, None if medians is None else medians / scale, mean, scale, None, precision, moments)


def wide_statistics(
    X: NDArray,
    codes: NDArray[np.intp],
    classes: NDArray,
    *,
    medians_of: NDArray[np.bool_] | None = None,
    standardize: bool = False,
) -> Statistics:
    """Return statistics of few rows of many columns, in double precision.

    Parameters
    ----------
    X : array of shape (n, d), finite
    codes : int array of shape (n,)
        Position of each row's class.
    medians_of : bool array of shape (T, C), optional
        Sets of classes whose medians are wanted.
    """
    X = np.asarray(X, dtype=np.float64)
    mean = X.mean(axis=0)
    rows = X - mean
    scale = None
    if standardize:
        scale = standard_deviations(np.einsum("ij,ij->j", rows, rows) / len(X), mean)
        rows /= scale
    extra = np.empty((0, X.shape[1]))
    if medians_of is not None:
        extra = np.stack([np.median(rows[member[codes]], axis=0) for member in medians_of])
    with single_blas_thread():
        basis, triangle = scipy.linalg.qr(np.concatenate([rows, extra]).T, mode="economic", check_finite=False)
        coordinates = np.ascontiguousarray(triangle.T)
        moments = ClassMoments.empty(classes, basis.shape[1])
        adder = ChunkAdder(moments, np.dtype(np.float64), "double")
        adder.add(coordinates[: len(X)], codes, lambda row, column, value: f"Found {value} in row {row}.")
    medians = coordinates[len(X) :] if medians_of is not None else None
    return Statistics(moments, medians, mean, scale, basis, "double")
