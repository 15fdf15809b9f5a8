"""Labels beside the rows of a Zarr group: an array, or a column of AnnData's table ``obs``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import reading_labels
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.errors import InputError, did_you_mean, some_names


@dataclass(frozen=True)
class ZarrLabels:
    """Labels of shape (n,): as they are stored, or as numbers (codes) of ``categories``.

    ``path`` is where the array of them is within the group at ``uri``.
    """

    uri: str
    path: str
    array: zarr.Array
    categories: NDArray | None = None

    @classmethod
    def of(cls, group: zarr.Group, name: str, uri: str) -> ZarrLabels:
        """Return the labels called ``name``, which may be a path such as ``obs/cell_type``.

        Raises
        ------
        InputError
            Where there are none of this name, or in a form that is not known.
        """
        found = group.get(name)
        if found is None:
            names = [*sorted(group.array_keys()), *_columns(group)]
            held = some_names(names).replace("'", "") if names else "no arrays"
            raise InputError(
                f"{uri} has no array {name!r} (dataset.label); it holds {held}.{did_you_mean(name, names)}"
            )
        if isinstance(found, zarr.Array):
            return cls(uri, name, _flat(found, name, uri))
        form = found.attrs.get("encoding-type")
        codes, categories = found.get("codes"), found.get("categories")
        if form != "categorical" or not isinstance(codes, zarr.Array) or not isinstance(categories, zarr.Array):
            raise InputError(
                f"The labels {name!r} of {uri} are a group of encoding-type {form!r}; they must be an array or "
                "'categorical', such as pandas writes them after astype('category')."
            )
        with storage.explained(uri):
            values = normalize_labels(np.asarray(categories[:]), f"{uri}/{name}/categories")
        return cls(uri, f"{name}/codes", _flat(codes, name, uri), values)

    def read(self, start: int, stop: int) -> NDArray:
        """Return the labels of rows ``start`` to ``stop``."""
        where = f"{self.uri}/{self.path}"
        with reading_labels(where, start, stop):
            return self._named(np.asarray(self.array[start:stop]), start, where)

    @property
    def fill(self) -> Any:
        """What the labels of a chunk are that is not stored."""
        return self._named(np.asarray([self.array.fill_value]), 0, f"{self.uri}/{self.path}")[0]

    def _named(self, stored: NDArray, start: int, where: str) -> NDArray:
        if self.categories is None:
            return normalize_labels(stored, where)
        known = (stored >= 0) & (stored < len(self.categories))
        if not known.all():
            row = int(np.argmin(known))
            raise InputError(
                f"Row {start + row} has no label in {where}: its code {stored[row]} is none of the "
                f"{len(self.categories)} categories. Leave the row out, or give it a label."
            )
        return self.categories[stored]


def _flat(labels: zarr.Array, name: str, uri: str) -> zarr.Array:
    if labels.ndim != 1:
        raise InputError(f"{name!r} of {uri} has shape {labels.shape}; labels must have shape (n,).")
    return labels


def _columns(group: zarr.Group) -> list[str]:
    """Return the columns of AnnData's table of rows, if the group has one."""
    table = group.get("obs")
    return [f"obs/{name}" for name in sorted(table)] if isinstance(table, zarr.Group) else []
