"""The reference of scores, from the moments of reduced rows, and ``RowScorer``."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.belonging.score import SCORES, Reference, ScoredRows
from mmpca_dist.blas import single_blas_thread
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.units import BLOCK_ROWS, blocks
from mmpca_dist.predictors.linear import pseudo_inverse_root
from mmpca_dist.predictors.reduced_moments import EPS, ReducedMoments
from mmpca_dist.statistics.adjustment import Adjustment


def reference_of(reduced: ReducedMoments, loadings: NDArray, shrinkage: float = 1e-3) -> Reference:
    """Return the reference of rows by the moments of their coordinates, whatever these are less.

    ``loadings`` A have shape (d, K), in standardised units where rows are standardised. The scatter within classes
    is W_g = (1 - g) W / n + g tr(W) / (n K) I with g = ``shrinkage``, as of `FisherDiscriminant`.
    """
    n, size = reduced.total, loadings.shape[1]
    with single_blas_thread():
        centres = reduced.means - reduced.counts @ reduced.means / n
        total = reduced.within + (centres * reduced.counts[:, None]).T @ centres
        squares = loadings.T @ loadings
    degrees, floors = max(n - 1, 1), reduced.floors.sum(axis=0)
    within = (1 - shrinkage) * reduced.covariance
    within += shrinkage * np.trace(reduced.covariance) / size * np.eye(size)
    return Reference(
        pseudo_inverse_root(total / degrees, floors / degrees),
        pseudo_inverse_root(squares, 10 * size * EPS * np.diagonal(squares)),
        reduced.classes,
        reduced.counts,
        centres,
        reduced.scatters,
        pseudo_inverse_root(within, reduced.covariance_floors),
    )


def scores_of(Z: NDArray, squares: NDArray, reference: Reference, names: Sequence[str]) -> dict[str, NDArray]:
    """Return the columns of some scores of rows, given coordinates less their mean (n, K) and |D^-1 (x - mean)|^2."""
    return functools.reduce(operator.or_, (SCORES[name].of(ScoredRows(Z, squares), reference) for name in names))


@storable
@dataclass(frozen=True)
class RowScorer:
    """The reductions x -> A^T (x - mean) of several methods to rows of d columns, with their references."""

    matrix: NDArray[np.float64]
    """A of all methods side by side, shape (d, M)."""
    mean: NDArray[np.float64]
    scale: NDArray[np.float64] | None
    """Standard deviations, shape (d,), where methods work on standardised rows; A is divided by them."""
    references: Mapping[str, tuple[NDArray[np.intp], Reference]]
    """By method, with the columns of A that are its own."""
    adjustment: Adjustment | None = None
    """How widened rows come to the columns."""

    def only(self, methods: Sequence[str]) -> RowScorer:
        """Return the scorer of some of the methods."""
        columns = [self.references[method][0] for method in methods]
        ends = np.cumsum([0, *map(len, columns)])
        references = {
            method: (np.arange(*ends[i : i + 2]), self.references[method][1]) for i, method in enumerate(methods)
        }
        return replace(self, matrix=self.matrix[:, np.concatenate(columns)], references=references)

    def scores(self, X: Any, names: Sequence[str], covariates: Any = None) -> dict[str, dict[str, NDArray]]:
        """Return the columns of some scores of rows (n, d), dense or CSR, by method.

        Widened rows have their ``covariates``; of CSR rows they may come apart, shape (n, q).
        """
        parts = [
            self._of_block(X[some], names, None if covariates is None else covariates[some])
            for some in blocks(X.shape[0], BLOCK_ROWS)
        ]
        return {
            method: {name: np.concatenate([part[method][name] for part in parts]) for name in columns}
            for method, columns in parts[0].items()
        }

    def _of_block(self, X: Any, names: Sequence[str], covariates: Any) -> dict[str, dict[str, NDArray]]:
        with single_blas_thread():
            Z, squares = self.coordinates(X, covariates)
            return {
                method: scores_of(Z[:, own], squares, reference, names)
                for method, (own, reference) in self.references.items()
            }

    def coordinates(self, X: Any, covariates: Any = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return A^T (x - mean), shape (n, M), and |D^-1 (x - mean)|^2, shape (n,); D is the diagonal of the scale."""
        d = len(self.mean)
        if not issparse(X):
            rows = (X if self.adjustment is None or X.shape[1] == d else self.adjustment.rows(X)) - self.mean
            Z = rows @ self.matrix
            rows *= self._units
            return Z, np.einsum("ij,ij->i", rows, rows)
        covariates = X[:, d:].toarray() if X.shape[1] > d else covariates
        X, centre = X[:, :d].astype(np.float64), self.mean * self._units
        scaled = X.multiply(self._units).tocsr()
        Z = X @ self.matrix - self.mean @ self.matrix
        squares = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel() - 2 * (scaled @ centre) + centre @ centre
        if covariates is not None and self.adjustment is not None and len(self.adjustment.slopes):
            offsets = covariates - self.adjustment.centre
            slopes = self.adjustment.slopes * self._units
            Z -= offsets @ (self.adjustment.slopes @ self.matrix)
            along = scaled @ slopes.T - centre @ slopes.T
            squares += np.einsum("ij,ij->i", offsets, offsets @ (slopes @ slopes.T) - 2 * along)
        return Z, np.maximum(squares, 0)

    @property
    def _units(self) -> NDArray[np.float64]:
        return np.ones_like(self.mean) if self.scale is None else 1 / self.scale
