"""A value of the labels that says that a row has none, such as 0 in a raster of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.settings import setting_name
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.proxies import DatasetProxy


class LabelsWithout(DatasetProxy):
    """The rows of a data set; those whose label is ``value`` have none, which ``refuses`` tells to be an error."""

    def __init__(self, rows: Dataset, value: str | int, refuses: bool) -> None:
        super().__init__(rows)
        self._value, self._refuses, missing = value, refuses, rows.missing_labels
        is_none = missing is not None and self._is_value(np.asarray([missing.fill]))[0]
        self.missing_labels = None if is_none else missing

    def _is_value(self, labels: NDArray) -> NDArray[np.bool_]:
        if labels.dtype.kind == "U":
            return np.asarray(labels == str(self._value))
        is_number = isinstance(self._value, int) or self._value.removeprefix("-").isdecimal()
        return np.asarray(labels == int(self._value)) if is_number else np.zeros(len(labels), bool)

    def read_labels(self, start: int, stop: int) -> NDArray:
        labels = self._rows.read_labels(start, stop)
        if self._refuses and (absent := self._is_value(labels)).any():
            raise InputError(
                f"Row {start + int(np.argmax(absent))} of {self.uri} has the label {self._value!r}, which "
                f"unlabelled_value says is none. {setting_name('unlabelled', 'skip')} leaves out such rows."
            )
        return labels

    def is_labelled(self, start: int, stop: int) -> NDArray[np.bool_]:
        labelled = self._rows.is_labelled(start, stop)
        labelled[labelled] = ~self._is_value(self._rows.read_labels(start, stop)[labelled])
        return labelled

    def fingerprint(self) -> str:
        return storage.digest("without", self._rows.fingerprint(), str(self._value))
