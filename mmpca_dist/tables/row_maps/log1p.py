"""``log1p``: the logarithm of one more than every value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from mmpca_dist.errors import InputError
from mmpca_dist.tables.row_maps.specification import Arrays, RowMap, RowMapKind


class Log1p(RowMap):
    """Takes log(1 + x) of every value x; zeros stay so."""

    def fitted(self, arrays: Arrays) -> Callable[[Any], Any]:
        return _log1p


def _log1p(X: Any) -> Any:
    least = (X.data if issparse(X) else X).min(initial=0)
    if least <= -1:
        raise InputError(
            f"The map log1p takes values above -1, and found {least}. Leave it out, or name counts in "
            "dataset.features, such as layers/counts."
        )
    return X.log1p() if issparse(X) else np.log1p(X)


MAP = RowMapKind("log1p", "takes log(1 + x) of every value x", Log1p)
