"""``TargetRows``: rows with numbers to predict in the place of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, MissingLabels
from mmpca_dist.tables.given_labels import as_targets
from mmpca_dist.tables.proxies import DatasetProxy


class TargetRows(DatasetProxy):
    """The rows of a data set with the values of columns, or with targets of their own, as rows of a single class."""

    def __init__(self, rows: Dataset, names: Sequence[str], columns: Sequence[Dataset] = ()) -> None:
        super().__init__(rows, has_labels=True)
        self._names, self._columns = tuple(names), tuple(columns)

    @property
    def targets(self) -> tuple[str, ...]:
        return self._names

    @property
    def missing_labels(self) -> MissingLabels | None:
        return None

    @property
    def addresses(self) -> list[str]:
        beside = [address for column in self._columns for address in column.addresses]
        return list(dict.fromkeys([*self._rows.addresses, *beside]))

    def fingerprint(self) -> str:
        own = self._rows.fingerprint()
        return own and storage.digest("targets", own, *self._names, *(c.fingerprint() for c in self._columns))

    def read_labels(self, start: int, stop: int) -> NDArray:
        return np.zeros(stop - start, np.int64)

    def read_targets(self, start: int, stop: int) -> NDArray[np.float64]:
        if not self._columns:
            return self._rows.read_targets(start, stop)
        columns = [as_targets(c.read_values(start, stop), c.values_place) for c in self._columns]
        return np.concatenate(columns, axis=1)
