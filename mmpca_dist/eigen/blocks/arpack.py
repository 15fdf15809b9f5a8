"""ARPACK for sparse rows in memory: what it finds begins a basis, in which passes then tell residuals and bounds.

Source: Lehoucq, Sorensen & Yang 1998, "ARPACK users' guide".
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from mmpca_dist.eigen.block_solver import BlockSolver
from mmpca_dist.eigen.blocks.krylov import KRYLOV
from mmpca_dist.statistics.column_units import ROUNDING
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.scatter_operator import centre_sparse
from mmpca_dist.statistics.scatters import WeightedScatter
from mmpca_dist.tables.batch import Batch

SEED = 1998
MARGIN = 1e-2
"""ARPACK's tolerance over that of residuals: it holds on the shorter side, and copies of an eigenvalue come late."""


def lanczos_vectors(count: int, size: int) -> int:
    """Return how many vectors ARPACK keeps: 1.5 for each eigenvector take a fifth less time than its own 2."""
    return min(20 + count + count // 2, size)


def arpack_vectors(
    batch: Batch, moments: ClassMoments, scatter: WeightedScatter, mean: NDArray[np.float64],
    scale: NDArray[np.float64] | None, count: int, tolerance: float,
) -> NDArray[np.float64]:  # fmt: skip
    """Return leading eigenvectors, shape (d, K), of a `ClassWeighting.scatter` of CSR rows.

    It is a multiple of B^T B with B = [R - r m^T; D]: rows less the mean of all, which have most of what lies between
    the classes in them, and the rest of that. Lanczos works on the shorter side: where u is an eigenvector of B B^T,
    B^T u is one of B^T B. ``moments`` are those of rows less ``mean`` and over ``scale``.
    """
    codes = batch.codes(moments.classes)
    roots = np.sqrt(scatter.class_weights[codes] * (1.0 if batch.weight is None else batch.weight))
    rows, absent = centre_sparse(batch, np.zeros_like(codes), mean[None])
    units = np.ones_like(mean) if scale is None else scale
    rows.data *= np.repeat(roots, np.diff(rows.indptr)) / units[rows.indices]
    centre, (n, d), turned = absent.toarray()[0] / units, rows.shape, rows.T
    rest = scatter.offset_weights - scatter.class_weights * moments.counts
    more = rest > ROUNDING * scatter.offset_weights
    between = np.sqrt(rest[more])[:, None] * scatter.offsets[more]

    def times(V: NDArray) -> NDArray:
        return np.concatenate([rows @ V - np.multiply.outer(roots, centre @ V), between @ V])

    def back(U: NDArray) -> NDArray:
        return turned @ U[:n] - np.multiply.outer(centre, roots @ U[:n]) + between.T @ U[n:]

    size, is_wide = min(n + len(between), d), n + len(between) < d
    product = LinearOperator((size, size), lambda u: times(back(u)) if is_wide else back(times(u)), dtype=np.float64)
    rng, count = np.random.default_rng(SEED), min(count, size - 1)
    options: dict[str, Any] = {"v0": rng.standard_normal(size), "ncv": lanczos_vectors(count, size)}
    if "rng" in inspect.signature(eigsh).parameters:  # else SciPy's own is no other in each process
        options["rng"] = rng
    try:
        values, vectors = eigsh(product, count, tol=tolerance * MARGIN, **options)
    except ArpackError:  # rows do not vary, or it does not converge: passes go on from anything
        return rng.standard_normal((d, count))
    if not is_wide:
        return np.asarray(vectors)
    kept = values > ROUNDING * size * values.max(initial=0.0)
    turned = turned.tocsr()  # products with a block are twice as fast
    return back(vectors[:, kept] / np.sqrt(values[kept]))


ARPACK = BlockSolver(
    name="arpack",
    description="ARPACK on sparse rows in memory, and passes that prove what it finds",
    begin=KRYLOV.begin,
)
