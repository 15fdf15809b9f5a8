"""``normalize-total``: let the values of every row add up to the same number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError
from mmpca_dist.settings import setting
from mmpca_dist.tables.row_maps.specification import Arrays, RowMap, RowMapKind


class NormalizeTotal(RowMap):
    """Multiplies every row so that its values add up to ``to``; rows of zeros stay as they are."""

    to: float = setting(1e4, gt=0, example=1e6, description="Sum of the values of a row")

    def fitted(self, arrays: Arrays) -> Callable[[Any], Any]:
        return partial(_normalized, to=self.to)


def _normalized(X: Any, to: float) -> Any:
    least = (X.data if issparse(X) else X).min(initial=0)
    if least < 0:
        raise InputError(
            f"The map normalize-total takes counts, and found {least}. Leave it out, or name counts in "
            "dataset.features, such as layers/counts."
        )
    total = np.asarray(X.sum(axis=1, dtype=np.float64)).reshape(-1)
    factors = np.where(total > 0, to / np.where(total > 0, total, 1.0), 1.0)
    if not issparse(X):
        return (X * factors[:, None]).astype(X.dtype, copy=False)
    data = X.data * np.repeat(factors, np.diff(X.indptr))
    return csr_array((data.astype(X.dtype, copy=False), X.indices, X.indptr), shape=X.shape)


MAP = RowMapKind("normalize-total", "lets the values of every row add up to the same number", NormalizeTotal)
