"""Labels in a Zarr group: an array, or a column of AnnData's ``obs``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import reading_labels
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.datasets.memory_limits import refuse_larger
from mmpca_dist.datasets.readers.zarr_bounds import member
from mmpca_dist.datasets.stores import storage
from mmpca_dist.datasets.stores.zarr_stores import values_of
from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.settings import setting_name

AGAIN = " It is damaged: write it again, or restore it from its source."


@dataclass(frozen=True)
class ZarrLabels:
    """Labels of shape (n,), or codes of ``categories``; ``mask`` is true where there is no label.

    ``path`` is the name of their array within the group at ``uri``.
    """

    uri: str
    path: str
    array: zarr.Array
    categories: NDArray | None = None
    mask: zarr.Array | None = None

    @classmethod
    def of(cls, group: zarr.Group, name: str, uri: str) -> ZarrLabels:
        """Return the labels called ``name``, which may be a path such as ``obs/cell_type``."""
        labels, where = member(group, name, uri), f"{uri}/{name}"
        if labels is None:
            table = group.get("obs")
            columns = [f"obs/{column}" for column in sorted(table)] if isinstance(table, zarr.Group) else []
            raise no_array(uri, name, "label", [*sorted(group.array_keys()), *columns])
        if isinstance(labels, zarr.Array):
            return cls(uri, name, _flat(labels, name, uri))
        codes, values, mask = (member(labels, part, where) for part in ("codes", "values", "mask"))
        with storage.explained(uri):
            categories = stored_values(labels, "categories", where)
        if isinstance(codes, zarr.Array) and categories is not None:
            categories = normalize_labels(categories, f"{where}/categories")
            _refuse_other_codes(codes, categories, where)
            return cls(uri, f"{name}/codes", _flat(codes, name, uri), categories)
        if isinstance(values, zarr.Array) and isinstance(mask, zarr.Array):
            if mask.shape != values.shape:
                raise InputError(f"{where} has values of shape {values.shape} and a mask of {mask.shape}.{AGAIN}")
            return cls(uri, f"{name}/values", _flat(values, name, uri), None, _flat(mask, name, uri))
        raise InputError(
            f"The labels {name!r} of {uri} are a group of encoding-type {labels.attrs.get('encoding-type')!r}; they "
            "must be an array, or a column as AnnData writes it, such as one of strings or categories."
        )

    def read(self, start: int, stop: int) -> NDArray:
        """Return the labels of rows ``start`` to ``stop``."""
        where = f"{self.uri}/{self.path}"
        with reading_labels(where, start, stop):
            stored = values_of(self.array, start, stop)
            if self.mask is not None:
                _refuse_absent(values_of(self.mask, start, stop), start, where, "it is marked as missing")
            return self._named(stored, start, where)

    @property
    def fill(self) -> Any:
        """The label of rows in chunks that are not stored."""
        return self._named(np.asarray([self.array.fill_value]), 0, f"{self.uri}/{self.path}")[0]

    def _named(self, stored: NDArray, start: int, where: str) -> NDArray:
        if self.categories is None:
            return normalize_labels(stored, where)
        n = len(self.categories)
        _refuse_absent((stored < 0) | (stored >= n), start, where, f"its code is none of the {n} categories")
        return self.categories[stored]


def no_array(uri: str, name: str, setting: str, names: list[str]) -> InputError:
    """Return the error for an array that is not in a group, which holds others."""
    others = some_names(names).replace("'", "") or "no arrays"
    return InputError(
        f"{uri} has no array {name!r} ({setting_name(setting)}); it holds {others}.{did_you_mean(name, names)}"
    )


def stored_values(group: zarr.Group, name: str, uri: str) -> NDArray | None:
    """Return an array of AnnData, plain or beside a mask of missing values; None for anything else."""
    array = member(group, name, uri)
    if isinstance(array, zarr.Group):
        array = member(array, "values", f"{uri}/{name}")
    if not isinstance(array, zarr.Array):
        return None
    refuse_larger(math.prod(array.shape) * array.dtype.itemsize, f"{uri}/{name}, read whole,", "Store fewer values")
    return values_of(array)


def _refuse_absent(absent: NDArray, start: int, where: str, reason: str) -> None:
    if absent.any():
        raise InputError(
            f"Row {start + int(np.argmax(absent))} has no label in {where}: {reason}. Leave the row out, or give it a "
            "label."
        )


def _refuse_other_codes(codes: zarr.Array, categories: NDArray, where: str) -> None:
    """Refuse codes that are no integers, and equal categories, as those of a missing chunk: two codes are one class."""
    if codes.dtype.kind not in "iu":
        raise InputError(f"The codes of {where} have type {codes.dtype}, and must be integers.{AGAIN}")
    values, times = np.unique(categories, return_counts=True)
    if (times > 1).any():
        value = str(values[np.argmax(times > 1)])
        raise InputError(f"{where}/categories holds {value!r} {times.max()} times, or lacks a chunk.{AGAIN}")


def _flat(labels: zarr.Array, name: str, uri: str) -> zarr.Array:
    if labels.ndim != 1:
        raise InputError(f"{name!r} of {uri} has shape {labels.shape}; labels must have shape (n,).")
    return labels
