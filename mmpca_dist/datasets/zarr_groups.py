"""What rows in a Zarr group have around them: labels, names, and chunks that must all be there."""

from __future__ import annotations

import functools
import uuid
from abc import abstractmethod
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import Dataset
from mmpca_dist.datasets.zarr_labels import ZarrLabels, stored_values
from mmpca_dist.errors import InputError, did_you_mean


class ZarrGroupRows(Dataset):
    """Rows and labels of a Zarr group, version 3 or 2, at a path or fsspec URL.

    Parameters
    ----------
    uri : str
    features : str
        The array, or group of arrays, that holds the rows.
    label : str
        The array of labels, or a column of AnnData's table such as ``obs/cell_type``.
    missing_chunks : {"refuse", "fill"}
    label_required : bool
        Otherwise the labels may be absent.
    """

    def __init__(
        self,
        uri: str,
        features: str = "X",
        label: str = "y",
        missing_chunks: str = "refuse",
        label_required: bool = True,
    ) -> None:
        self.uri, self.features, self.label = uri, features, label
        self.missing_chunks = missing_chunks
        self._token = uuid.uuid4().hex
        group = storage.open_group(uri)
        self.has_labels = label_required or label in group
        labels = ZarrLabels.of(group, label, uri) if self.has_labels else None
        self.missing_label_rows = 0
        self.label_fill: Any = None
        self.kind = "local" if storage.is_local(uri) else "remote"
        self._where = f"{uri} ({features!r} with {label!r})" if labels is not None else f"{uri} ({features!r})"
        self._open(group, None if labels is None else labels.array.shape[0])
        self._attributes(group)
        if labels is not None:
            self._note_missing_labels(labels)

    @abstractmethod
    def _open(self, group: zarr.Group, n_labels: int | None) -> None:
        """Look at the rows: set their shape and type, and refuse what is none."""

    def _attributes(self, group: zarr.Group) -> None:
        names = group.attrs.get("feature_names", _column_names(group))
        if isinstance(names, list) and len(names) == self.n_features:
            self.feature_names = [str(name) for name in names]
        shape = group.attrs.get("image_shape")
        if isinstance(shape, list | tuple) and len(shape) == 2:
            height, width = (int(str(size)) for size in shape)
            self.image_shape = (height, width) if height * width == self.n_features else None

    def _refuse_missing(self, name: str, array: zarr.Array, what: str) -> None:
        """Zarr reads a missing chunk as fill values without a word; data may be missing only knowingly.

        ``what`` is in the chunks of the array ``name``, such as rows.
        """
        missing = [] if self.missing_chunks == "fill" else missing_chunks(self.uri, name, array)
        if missing:
            first, size = missing[0], (array.shards or array.chunks)[0]
            start = first[0] * size
            stop = min(start + size, array.shape[0])
            raise InputError(
                f"{self.uri} lacks {len(missing)} of the chunks of {name!r}, the first one {first}: {what} "
                f"{start} to {stop - 1}. Restore it, or set dataset.missing_chunks: fill to take its "
                f"{what} as {array.fill_value}."
            )

    def _note_missing_labels(self, labels: ZarrLabels) -> None:
        """Whether fill values are labels is known only when all labels are counted."""
        missing = missing_chunks(self.uri, labels.path, labels.array)
        chunk_rows = int((labels.array.shards or labels.array.chunks)[0])
        for (index,) in missing:
            self.missing_label_rows += min(chunk_rows, self.n_rows - index * chunk_rows)
        if missing:
            self.label_fill = labels.fill

    def read_labels(self, start: int, stop: int) -> NDArray:
        return _open_labels(self.uri, self.label, self._token).read(start, stop)

    def fingerprint(self) -> str:
        names = [self.features, self.label] if self.has_labels else [self.features]
        objects = [storage.list_objects(storage.join(self.uri, name)) for name in names]
        return storage.digest("zarr", self.n_rows, self.n_features, str(self.dtype), objects)


def _column_names(group: zarr.Group) -> list[str] | None:
    """Return the names in AnnData's table of columns, if the group has one."""
    table = group.get("var")
    names = stored_values(table.get(str(table.attrs.get("_index")))) if isinstance(table, zarr.Group) else None
    return None if names is None else [str(name) for name in names]


def array_of(group: zarr.Group, name: str, uri: str) -> zarr.Array:
    """Return the array of rows ``name``.

    Raises
    ------
    InputError
        Where there is none; says what there is.
    """
    found = group.get(name)
    if isinstance(found, zarr.Array):
        return found
    names = sorted(group.array_keys())
    raise InputError(
        f"{uri} has no array {name!r} (dataset.features); it holds {', '.join(names) or 'no arrays'}."
        f"{did_you_mean(name, names)}"
    )


def missing_chunks(uri: str, name: str, array: zarr.Array) -> list[tuple[int, ...]]:
    """Return the grid positions of the chunks (or shards) of ``array`` that are not stored."""
    present = {entry[0] for entry in storage.list_objects(storage.join(uri, name))}
    stored = array.shards or array.chunks
    grid = [-(-size // chunk) for size, chunk in zip(array.shape, stored, strict=True)]
    return [index for index in np.ndindex(*grid) if array.metadata.encode_chunk_key(index) not in present]


# Opened arrays are kept per process, by address: a task would otherwise read the metadata again, and the data
# set that is sent to workers holds no open files. The token is new for each data set that is opened, lest a
# long-lived worker know an array that has been replaced.
@functools.lru_cache(maxsize=16)
def _open_labels(uri: str, name: str, token: str) -> ZarrLabels:
    return ZarrLabels.of(storage.open_group(uri), name, uri)
