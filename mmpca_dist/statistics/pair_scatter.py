"""The scatter of pairs of rows, with a sample of their differences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.serialization import storable
from mmpca_dist.statistics.approximation import Approximation


@storable
@dataclass(frozen=True)
class PairScatter:
    """Differences x_i - x_nn(i) between rows and their nearest rows of other classes."""

    scatter: NDArray[np.float64]  # (r, r): weighted sum of the differences' outer products, in working coordinates
    weight: float  # sum of the weights
    # (s, d): differences of queries spread evenly over all, each with those to all other classes where there are
    # several; in (standardised) columns
    sample: NDArray[np.float64]
    queries: int  # rows that a nearest row was sought for
    fraction: float  # their share of all rows
    edges: NDArray[np.float64]  # (b + 1,): of the histogram of all distances
    counts: NDArray[np.int64]  # (b,)
    certificate: dict[str, Any] = field(default_factory=dict)  # what is proved and measured of the search
    # (k, d) each, where neighbours are approximate: differences to what was found and to what is nearest, for the
    # queries of the recall's sample that missed it
    missed: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    # (d, r): basis of ``scatter``, where it is not that of the other statistics, with what is known of the rest
    basis: NDArray | None = None
    approximation: Approximation | None = None

    @property
    def n_pairs(self) -> int:
        """Number of difference rows."""
        return int(self.counts.sum())

    def mean_outer_product(self) -> NDArray[np.float64]:
        """Return S of M-PCA2, shape (r, r).

        Source: Luo & Durrant 2017, section 3, M-PCA2.
        """
        return self.scatter / self.weight

    def sampling_error(
        self, vectors: NDArray[np.float64], eigenvalues: NDArray[np.float64], count: int
    ) -> dict[str, Any]:
        """Estimate the errors from searching for a sample of the rows, by the sampled differences.

        To first order an error E of S changes the eigenvalue l_i by v_i^T E v_i, and turns v_i towards v_j by
        v_j^T E v_i / (l_i - l_j). Source: Stewart & Sun 1990, "Matrix perturbation theory", chapter V.

        Parameters
        ----------
        vectors : array of shape (k, d)
            Leading eigenvectors, in the columns that the differences are in: those of the subspace and some more.
        eigenvalues : array of shape (k,)
        count : int
            How many span the subspace.

        Returns
        -------
        dict
            ``eigenvalues``: standard errors, (count,); ``angle``: root mean square, in degrees, of the largest angle
            to the subspace of all rows, to first order; what lies beyond the k-th eigenvalue counts as if it were
            equal to it. 90 where there is no gap, zero where all rows were searched for.
        """
        share = max(0.0, 1.0 - self.fraction) / self.queries
        if share == 0:
            return {"eigenvalues": [0.0] * count, "angle": 0.0}
        inside = self.sample @ vectors.T
        pairs, missed = self._by_query(inside), self._by_query(self.sample - inside @ vectors)
        others = np.append(eigenvalues[count:], eigenvalues[-1] if len(eigenvalues) > count else 0.0)
        errors, turned = [], 0.0
        for i in range(count):
            products = np.mean(pairs[:, :, i, None] * pairs, axis=1)
            beyond = np.mean(pairs[:, :, i, None] * missed, axis=1)
            errors.append(float(np.std(products[:, i], ddof=1) * np.sqrt(share)) if len(products) > 1 else np.nan)
            moments = np.append(np.mean(products[:, count:] ** 2, axis=0), np.mean(np.sum(beyond**2, axis=1)))
            with np.errstate(divide="ignore", invalid="ignore"):
                turned += np.where(moments > 0, share * moments / (eigenvalues[i] - others) ** 2, 0.0).sum()
        return {"eigenvalues": errors, "angle": float(np.degrees(np.arcsin(min(np.sqrt(turned), 1.0))))}

    def _by_query(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Group rows by query: the differences of one query to all classes are not independent."""
        return rows.reshape(-1, self.n_pairs // self.queries, rows.shape[1])

    def recall_error(self, vectors: NDArray[np.float64], eigenvalues: NDArray[np.float64], count: int) -> float:
        """Return an estimate, to first order, of the angle in degrees to the subspace of the exact neighbours.

        It is rather too large: the few queries that missed stand for all, and their scatter adds to it. Parameters are
        as for ``sampling_error``.
        """
        if self.missed is None:
            return 0.0
        approximate, nearest = self.missed
        leading = vectors[:count].T
        change = (approximate.T @ (approximate @ leading) - nearest.T @ (nearest @ leading)) / self.certificate[
            "recall"
        ]["sampled"]
        inside = vectors @ change
        beyond = change - vectors.T @ inside
        last = eigenvalues[-1] if len(eigenvalues) > count else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            turned = np.nan_to_num(inside[count:] / (eigenvalues[:count] - eigenvalues[count:, None]))
            rest = np.nan_to_num(beyond / (eigenvalues[:count] - last))
        sine = float(np.linalg.norm(np.concatenate([turned, rest]), 2))
        return float(np.degrees(np.arcsin(min(sine, 1.0))))
