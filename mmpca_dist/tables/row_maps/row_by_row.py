"""Maps of each row without a fit: ``unit-length``, and ``log1p`` and ``normalize-total``, the usual ones of counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.preprocessing import normalize

from mmpca_dist.errors import InputError
from mmpca_dist.settings import setting
from mmpca_dist.tables.row_maps.specification import Arrays, RowMap, RowMapKind


class UnitLength(RowMap):
    """Divides every row by its length; rows of zeros stay so."""

    def fitted(self, arrays: Arrays) -> Callable[[Any], Any]:
        return normalize


class Log1p(RowMap):
    """Takes log(1 + x) of every value x; zeros stay so."""

    by_value: ClassVar[bool] = True

    def fitted(self, arrays: Arrays) -> Callable[[Any], Any]:
        return _log1p


def _log1p(X: Any) -> Any:
    _refuse_values(X, "log1p takes values above -1", lambda least: least <= -1)
    return X.log1p() if issparse(X) else np.log1p(X)


class NormalizeTotal(RowMap):
    """Multiplies every row so that its values add up to ``to``; rows of zeros stay as they are."""

    to: float = setting(1e4, gt=0, example=1e6, description="Sum of the values of a row")

    def fitted(self, arrays: Arrays) -> Callable[[Any], Any]:
        return partial(_normalized, to=self.to)


def _normalized(X: Any, to: float) -> Any:
    _refuse_values(X, "normalize-total takes counts", lambda least: least < 0)
    total = np.asarray(X.sum(axis=1, dtype=np.float64)).reshape(-1)
    factors = np.where(total > 0, to / np.where(total > 0, total, 1.0), 1.0)
    if not issparse(X):
        return (X * factors[:, None]).astype(X.dtype, copy=False)
    data = X.data * np.repeat(factors, np.diff(X.indptr))
    return csr_array((data.astype(X.dtype, copy=False), X.indices, X.indptr), shape=X.shape)


def _refuse_values(X: Any, takes: str, is_refused: Callable[[Any], bool]) -> None:
    """Raise InputError where the least value is refused."""
    least = (X.data if issparse(X) else X).min(initial=0)
    if is_refused(least):
        raise InputError(
            f"The map {takes}, and found {least}. Leave it out, or name counts in dataset.features, such as "
            "layers/counts."
        )


MAPS = (
    RowMapKind("log1p", "takes log(1 + x) of every value x", Log1p),
    RowMapKind("normalize-total", "lets the values of every row add up to the same number", NormalizeTotal),
    RowMapKind("unit-length", "divides every row by its length", UnitLength),
)
