"""The table of methods: every margin structure as a weighted sum of class scatters and mean differences.

=========  ==================================  ===========  =========================  =============
method     its difference rows                 w_c          b_c, on D_c = m_c - m      divided by
=========  ==================================  ===========  =========================  =============
pca        rows minus the overall mean         1            n_c                        n
m-pca0     all pairs of different classes      n - n_c      n n_c                      their number
m-pca1a    rows minus the mean of the others   1            n_c n^2 / (n - n_c)^2      n
m-pca1b    rows minus the median of the        1            n_c, on m_c - median       n
           others
hsic       (delta kernel)                      0            n_c^2                      1
=========  ==================================  ===========  =========================  =============

S = (sum_c w_c G_c + b_c D_c D_c^T) / divisor, with G_c the centred scatter and m_c the mean of class c. "Others" are
the rows of all other classes (``one-vs-rest``), or each other class in turn (``one-vs-one``).

Source: Luo & Durrant 2017, section 3, for two classes; STAT 841 for HSIC.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.statistics.moments import ClassMoments

SCATTERS = ("pca", "m-pca0", "m-pca1a", "m-pca1b")


@dataclass(frozen=True)
class MarginScatter:
    """S = (sum_c w_c G_c + sum_o b_o D_o D_o^T) / n_rows.

    Attributes
    ----------
    class_weights : array of shape (C,)
        w_c.
    offsets : array of shape (m, d)
        D_o.
    offset_weights : array of shape (m,)
        b_o.
    n_rows : float
        Difference rows that S is the mean outer product of.
    max_rank : int
        What the structure allows at most, whatever the rows.
    """

    class_weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    offset_weights: NDArray[np.float64]
    n_rows: float
    max_rank: int

    def dense(self, moments: ClassMoments) -> NDArray[np.float64]:
        """Return S as a matrix, shape (d, d)."""
        weighted = self.offsets * np.sqrt(self.offset_weights)[:, None]
        return (moments.scatter(self.class_weights) + weighted.T @ weighted) / self.n_rows


def margin_scatter(
    method: str,
    moments: ClassMoments,
    medians: NDArray[np.float64] | None = None,
    pairing: str = "one-vs-rest",
) -> MarginScatter:
    """Return the scatter of ``pca``, ``m-pca0``, ``m-pca1a`` or ``m-pca1b``.

    Parameters
    ----------
    medians : array of shape (C, d), for ``m-pca1b``
        Coordinate-wise medians of the rows not of each class (``one-vs-rest``) or of each class (``one-vs-one``).

    Raises
    ------
    InputError
        For fewer than two classes with rows, or medians that are missing.
    """
    present = np.flatnonzero(moments.counts)
    if len(present) < 2:
        raise InputError(f"There is only {len(present)} class with rows: there must be at least two.")
    counts, n = moments.counts.astype(np.float64), float(moments.n_rows)
    rank = min(moments.n_features, moments.n_rows - 1)
    if method == "pca":
        return MarginScatter(np.ones(len(counts)), moments.deviations, counts, n, rank)
    if method == "m-pca0":
        pairs = (n**2 - np.sum(counts**2)) / 2
        return MarginScatter(n - counts, moments.deviations, n * counts, pairs, rank)
    ones = np.ones(len(counts))
    if method == "m-pca1a" and pairing == "one-vs-rest":
        return MarginScatter(ones, moments.deviations, counts * (n / (n - counts)) ** 2, n, rank)
    if method == "m-pca1a":
        pairs_of = list(combinations(present, 2))
        offsets = np.stack([moments.means[a] - moments.means[b] for a, b in pairs_of])
        weights = np.asarray([counts[a] + counts[b] for a, b in pairs_of])
        others = len(present) - 1
        return MarginScatter(others * ones, offsets, weights, n * others, rank)
    if medians is None:
        raise InputError("m-pca1b needs the medians of the other classes beside the class moments.")
    # The medians lie outside the span of the centred rows: the rank can be one more than that of the others.
    rank = min(moments.n_features, moments.n_rows)
    if pairing == "one-vs-rest":
        return MarginScatter(ones, moments.means - medians, counts, n, rank)
    ordered = [(a, b) for a in present for b in present if a != b]
    offsets = np.stack([moments.means[a] - medians[b] for a, b in ordered])
    others = len(present) - 1
    return MarginScatter(others * ones, offsets, counts[[a for a, _ in ordered]], n * others, rank)
