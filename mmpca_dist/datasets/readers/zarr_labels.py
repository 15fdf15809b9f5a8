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
    """Labels of shape (n,): as they are stored, or as numbers (codes) of ``categories``.

    ``path`` is where the array of them is within the group at ``uri``; ``mask`` is true where there is no label.
    """

    uri: str
    path: str
    array: zarr.Array
    categories: NDArray | None = None
    mask: zarr.Array | None = None

    @classmethod
    def of(cls, group: zarr.Group, name: str, uri: str) -> ZarrLabels:
        """Return the labels called ``name``, which may be a path such as ``obs/cell_type``.

        Raises
        ------
        InputError
            Where there are none of this name, or in a form that is not known.
        """
        found = member(group, name, uri)
        if found is None:
            names = [*sorted(group.array_keys()), *_columns(group)]
            held = some_names(names).replace("'", "") if names else "no arrays"
            raise InputError(
                f"{uri} has no array {name!r} ({setting_name('label')}); it holds {held}.{did_you_mean(name, names)}"
            )
        if isinstance(found, zarr.Array):
            return cls(uri, name, _flat(found, name, uri))
        codes, values, mask = (member(found, part, f"{uri}/{name}") for part in ("codes", "values", "mask"))
        with storage.explained(uri):
            categories = stored_values(found, "categories", f"{uri}/{name}")
        if isinstance(codes, zarr.Array) and categories is not None:
            categories = normalize_labels(categories, f"{uri}/{name}/categories")
            _refuse_other_codes(codes, categories, f"{uri}/{name}")
            return cls(uri, f"{name}/codes", _flat(codes, name, uri), categories)
        if isinstance(values, zarr.Array) and isinstance(mask, zarr.Array):
            if mask.shape != values.shape:
                raise InputError(f"{uri}/{name} has values of shape {values.shape} and a mask of {mask.shape}.{AGAIN}")
            return cls(uri, f"{name}/values", _flat(values, name, uri), None, _flat(mask, name, uri))
        raise InputError(
            f"The labels {name!r} of {uri} are a group of encoding-type {found.attrs.get('encoding-type')!r}; they "
            "must be an array, or a column as AnnData writes it, such as one of strings or categories."
        )

    def read(self, start: int, stop: int) -> NDArray:
        """Return the labels of rows ``start`` to ``stop``."""
        where = f"{self.uri}/{self.path}"
        with reading_labels(where, start, stop):
            stored = values_of(self.array, start, stop)
            if self.mask is not None:
                absent = values_of(self.mask, start, stop)
                self._refuse_absent(absent, start, where, "it is marked as missing")
            return self._named(stored, start, where)

    @property
    def fill(self) -> Any:
        """What the labels of a chunk are that is not stored."""
        return self._named(np.asarray([self.array.fill_value]), 0, f"{self.uri}/{self.path}")[0]

    def _named(self, stored: NDArray, start: int, where: str) -> NDArray:
        if self.categories is None:
            return normalize_labels(stored, where)
        n = len(self.categories)
        self._refuse_absent((stored < 0) | (stored >= n), start, where, f"its code is none of the {n} categories")
        return self.categories[stored]

    @staticmethod
    def _refuse_absent(absent: NDArray, start: int, where: str, reason: str) -> None:
        if absent.any():
            raise InputError(
                f"Row {start + int(np.argmax(absent))} has no label in {where}: {reason}. Leave the row out, or give "
                "it a label."
            )


def stored_values(group: zarr.Group, name: str, uri: str) -> NDArray | None:
    """Return an array of AnnData, whole, be it plain or beside a mask of what is missing; None for anything else."""
    found = member(group, name, uri)
    if isinstance(found, zarr.Group):
        found = member(found, "values", f"{uri}/{name}")
    if not isinstance(found, zarr.Array):
        return None
    refuse_larger(math.prod(found.shape) * found.dtype.itemsize, f"{uri}/{name}, read whole,", "Store fewer values")
    return values_of(found)


def _refuse_other_codes(codes: zarr.Array, categories: NDArray, where: str) -> None:
    """Refuse codes that are no numbers of categories, and a category that is there twice: then two codes are one class.

    Categories of a chunk that is gone are all alike.
    """
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


def _columns(group: zarr.Group) -> list[str]:
    """Return the columns of AnnData's table of rows, if the group has one."""
    table = group.get("obs")
    return [f"obs/{name}" for name in sorted(table)] if isinstance(table, zarr.Group) else []
