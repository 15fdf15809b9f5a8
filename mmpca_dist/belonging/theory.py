"""Limits of T2 and Q from theory: those of independent rows of one normal distribution."""

from __future__ import annotations

import numpy as np

from mmpca_dist.belonging.model import Belonging
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.working_statistics import Statistics, SubspaceStatistics

WIDEST = 2000
"""Working coordinates whose covariance is cubed for the limit of Q: half a second."""


def theory_limits(belonging: Belonging, alpha: float, statistics: Statistics | None = None) -> dict[str, float]:
    """Return the limits of T2 and, where ``statistics`` of the rows tell it, of Q, that new rows exceed with ``alpha``.

    Source: Tracy, Young & Mason 1992, "Multivariate control charts for individual observations", for T2; Jackson &
    Mudholkar 1979, "Control procedures for residuals associated with principal component analysis", for Q.
    """
    from scipy.stats import f, norm  # slow to import

    own, reference = belonging.scorer.references[belonging.method]
    n, size, limits = float(reference.counts.sum()), reference.spread.shape[1], {}
    if "t2" in belonging.counts and n > size > 0:
        limits["t2"] = size * (n * n - 1) / (n * (n - size)) * float(f.isf(alpha, size, n - size))
    if statistics is None or isinstance(statistics, SubspaceStatistics) or "q" not in belonging.counts:
        return limits
    moments, scale = statistics.moments, 1 if statistics.scale is None else statistics.scale[:, None]
    if moments.n_features > WIDEST:
        return limits
    try:
        within = moments.scatter(np.ones(len(moments.counts)))
    except InputError:  # of scatters that were pooled with other weights
        return limits
    total = (within + (moments.deviations * moments.counts[:, None]).T @ moments.deviations) / max(n - 1, 1)
    span = statistics.coordinates(belonging.scorer.matrix[:, own] * scale) @ reference.span
    rest = np.eye(len(total)) - span @ span.T
    rest = rest @ total @ rest
    first, second, third = float(np.trace(rest)), float(np.sum(rest**2)), float(np.sum(rest @ rest * rest))
    if first > 1e-9 * np.trace(total):  # else Q is rounding
        h = 1 - 2 * first * third / (3 * second**2)
        root = 1 + float(norm.isf(alpha)) * np.sqrt(2 * second * h * h) / first + second * h * (h - 1) / first**2
        limits["q"] = float(first * root ** (1 / h))
    return limits
