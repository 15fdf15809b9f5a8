"""What a pass over pairs of rows leaves: the scatter of their differences, and some of the differences themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PairScatter:
    """Differences x_i - x_nn(i) between rows and their nearest rows of other classes.

    Attributes
    ----------
    scatter : array of shape (r, r)
        Weighted sum of the differences' outer products, in working coordinates.
    weight : float
        Sum of the weights: the number of difference rows.
    sample : array of shape (s, d)
        Differences of pairs spread evenly over all, in (standardised) columns.
    queries : int
        Rows that a nearest row was sought for.
    fraction : float
        Their share of all rows.
    edges, counts : arrays of shape (b + 1,) and (b,)
        Histogram of all distances.
    certificate : dict
        What is proved and measured of the search.
    missed : pair of arrays of shape (k, d), or None
        Where neighbours are approximate: differences to what was found and to what is nearest, for the queries of
        the recall's sample that missed it.
    """

    scatter: NDArray[np.float64]
    weight: float
    sample: NDArray[np.float64]
    queries: int
    fraction: float
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    certificate: dict[str, Any] = field(default_factory=dict)
    missed: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def mean_outer_product(self) -> NDArray[np.float64]:
        """Return S of M-PCA2, shape (r, r).

        Source: Luo & Durrant 2017, section 3, M-PCA2.
        """
        return self.scatter / self.weight

    def sampling_error(
        self, vectors: NDArray[np.float64], eigenvalues: NDArray[np.float64], wanted: int
    ) -> dict[str, Any]:
        """Return what searching for a sample of the rows leaves uncertain, estimated from the sampled differences.

        Parameters
        ----------
        vectors : array of shape (k, d)
            Leading eigenvectors, in the columns that the differences are in: those wanted and some more.
        eigenvalues : array of shape (k,)
        wanted : int
            How many span the subspace.

        Returns
        -------
        dict
            ``eigenvalues``: standard errors, (wanted,); ``angle``: root mean square, in degrees, of the largest angle
            to the subspace of all rows, to first order; what lies beyond the k-th eigenvalue counts as if it were
            equal to it. 90 where there is no gap, zero where all rows were searched for.
        """
        share = max(0.0, 1.0 - self.fraction) / self.weight
        squares = (self.sample @ vectors.T) ** 2
        errors = np.std(squares[:, :wanted], axis=0, ddof=1) * np.sqrt(share)
        beyond = np.maximum(np.einsum("ij,ij->i", self.sample, self.sample) - squares.sum(axis=1), 0)
        moments = squares[:, :wanted].T @ np.column_stack([squares[:, wanted:], beyond]) / len(self.sample)
        others = np.append(eigenvalues[wanted:], eigenvalues[-1] if len(eigenvalues) > wanted else 0.0)
        gaps = eigenvalues[:wanted, None] - others
        with np.errstate(divide="ignore", invalid="ignore"):
            turned = np.where(moments > 0, share * moments / gaps**2, 0.0).sum()
        sine = 0.0 if share == 0 else min(float(np.sqrt(turned)), 1.0)
        return {"eigenvalues": errors.tolist(), "angle": float(np.degrees(np.arcsin(sine)))}

    def recall_error(self, vectors: NDArray[np.float64], eigenvalues: NDArray[np.float64], wanted: int) -> float:
        """Return an estimate, to first order, of the angle in degrees to the subspace of the exact neighbours.

        It is rather too large: the few queries that missed stand for all, and their scatter adds to it.

        Parameters
        ----------
        vectors, eigenvalues, wanted
            As for ``sampling_error``.
        """
        if self.missed is None:
            return 0.0
        found, nearest = self.missed
        leading = vectors[:wanted].T
        change = (found.T @ (found @ leading) - nearest.T @ (nearest @ leading)) / self.certificate["recall"]["sampled"]
        inside = vectors @ change
        beyond = change - vectors.T @ inside
        last = eigenvalues[-1] if len(eigenvalues) > wanted else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            turned = np.nan_to_num(inside[wanted:] / (eigenvalues[:wanted] - eigenvalues[wanted:, None]))
            rest = np.nan_to_num(beyond / (eigenvalues[:wanted] - last))
        sine = float(np.linalg.norm(np.concatenate([turned, rest]), 2))
        return float(np.degrees(np.arcsin(min(sine, 1.0))))
