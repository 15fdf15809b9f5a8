"""Which axis the first component keeps: section 4 of Luo & Durrant 2017 for two Gaussian classes.

Both classes have variance S along the axis on which their means differ by D, and at most T along any direction
perpendicular to it; p is the share of one of them. Difference rows of a method have, up to rounding of the counts,

===========================  ===================  ==============  ======================
method                       along the axis       elsewhere       axis kept for D^2 over
===========================  ===================  ==============  ======================
pca                          S + p (1 - p) D^2    T               (T - S) / (p (1 - p))
m-pca0                       2 S + D^2            2 T             2 (T - S)
m-pca1a, m-pca1b             S + D^2              T               T - S
===========================  ===================  ==============  ======================

which follows from the table in ``mmpca_dist.statistics.scatters`` with scatter n_c Sigma within class c (the median
of a Gaussian is its mean). M-PCA2 has no such formula: its rows lead to nearest rows, whose distribution depends on n
and d too.
"""

from __future__ import annotations

import math

_WITHIN = {"pca": 1.0, "m-pca0": 2.0, "m-pca1a": 1.0, "m-pca1b": 1.0}
"""The weight of the covariance within classes."""
PREDICTED = tuple(_WITHIN)
"""The methods whose mean outer product is known."""


def axis_eigenvalues(
    method: str, share: float, distance: float, variance: float = 1.0, spread: float = 1.0
) -> tuple[float, float]:
    """Return the variance of a method's difference rows along the axis of the means, and the largest elsewhere.

    ``share`` is that of one class in the rows, ``variance`` and ``spread`` those within classes along the axis and (at
    most) perpendicular to it; as in ``synthetic:gaussian``.

    Returns
    -------
    (float, float)
        The first component of many rows is the axis where the first is larger, and perpendicular to it where the
        second is.

    References
    ----------
    Luo & Durrant 2017, section 4.

    Examples
    --------
    >>> axis_eigenvalues("pca", 0.5, distance=2, spread=4), axis_eigenvalues("m-pca0", 0.5, distance=2, spread=4)
    ((2.0, 4.0), (6.0, 8.0))
    """
    within, between = _weights(method, share)
    return within * variance + between * distance**2, within * spread


def threshold_distance(method: str, share: float, variance: float = 1.0, spread: float = 1.0) -> float:
    """Return the distance of the class means beyond which a method's first component is the axis of the means.

    Returns
    -------
    float
        Zero where the variance along the axis is the largest anyway.

    References
    ----------
    Luo & Durrant 2017, section 4.

    Examples
    --------
    >>> [threshold_distance(method, 0.1, spread=4.24) for method in ("pca", "m-pca0", "m-pca1a")]
    [6.0, 2.545584412271571, 1.8]
    """
    within, between = _weights(method, share)
    return math.sqrt(within * max(spread - variance, 0.0) / between)


def _weights(method: str, share: float) -> tuple[float, float]:
    """Return what the covariance within classes, and the squared distance of the means, count for."""
    return _WITHIN[method], share * (1 - share) if method == "pca" else 1.0
