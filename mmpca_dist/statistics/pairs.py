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
    """

    scatter: NDArray[np.float64]
    weight: float
    sample: NDArray[np.float64]
    queries: int
    fraction: float
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    certificate: dict[str, Any] = field(default_factory=dict)

    def mean_outer_product(self) -> NDArray[np.float64]:
        """Return S of M-PCA2, shape (r, r).

        Source: Luo & Durrant 2017, section 3, M-PCA2.
        """
        return self.scatter / self.weight
