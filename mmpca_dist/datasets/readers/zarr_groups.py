"""The base of Zarr data sets: labels, names, and missing chunks."""

from __future__ import annotations

import functools
import math
import re
import uuid
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import zarr
from numpy.typing import NDArray

from mmpca_dist.datasets.column_scatter import stored_heavy_columns
from mmpca_dist.datasets.dataset import Dataset, default_chunk_rows
from mmpca_dist.datasets.labels import check_label_type
from mmpca_dist.datasets.readers.group_attributes import ROWS
from mmpca_dist.datasets.readers.zarr_bounds import member
from mmpca_dist.datasets.readers.zarr_labels import ZarrLabels, stored_values
from mmpca_dist.datasets.stores import storage, zarr_stores
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.settings import setting_name


class ZarrGroupRows(Dataset):
    """Rows and labels of a Zarr group, version 3 or 2, at a path or fsspec URL.

    Parameters
    ----------
    uri : str
    place : str
        Where the arrays are: the group itself, or the sub-group that ``table_place`` finds. It stays the same while
        the table at ``uri`` is replaced, so that nobody reads a part of each.
    features : str
        The array, or group of arrays, that holds the rows.
    label : str
        The array of labels, or a column of AnnData's table such as ``obs/cell_type``.
    missing_chunks : {"refuse", "fill"}
    label_required : bool
        Otherwise the labels may be absent.
    """

    features: str

    def __init__(
        self,
        uri: str,
        place: str,
        features: str = "X",
        label: str = "y",
        missing_chunks: str = "refuse",
        label_required: bool = True,
    ) -> None:
        self.uri, self.place, self.features, self.label = uri, place, features, label
        self.missing_chunks = missing_chunks
        self._token = uuid.uuid4().hex
        group = zarr_stores.open_group(place)
        self.has_labels = label_required or member(group, label, uri) is not None
        labels = ZarrLabels.of(group, label, uri) if self.has_labels else None
        self.missing_label_rows = 0
        self.label_fill: Any = None
        self.kind = "local" if storage.is_local(uri) else "remote"
        self._where = f"{uri} ({features!r} with {label!r})" if labels is not None else f"{uri} ({features!r})"
        self._open(group, None if labels is None else labels.array.shape[0])
        self._refuse_other_rows(group)
        self._attributes(group)
        if labels is not None:
            n_rows = min(self.n_rows, default_chunk_rows(self.row_bytes))
            check_label_type(labels.array.dtype, n_rows, f"{uri}/{label}")
            self._note_missing_labels(labels)

    @abstractmethod
    def _open(self, group: zarr.Group, n_labels: int | None) -> None:
        """Look at the rows: set their shape and type, and refuse what is none."""

    def _refuse_other_rows(self, group: zarr.Group) -> None:
        """Metadata of arrays have no checksum: a digit that is another would make other columns of the same values."""
        written = group.attrs.get(ROWS)
        if self.features != "X" or not isinstance(written, list):
            return
        rows, *others = [*written, None]
        found = [self.n_features, str(self.dtype), None]
        if others != found or not isinstance(rows, int) or self.n_rows < rows:
            raise InputError(
                f"{self.uri}/{self.features} has {self.n_rows} rows of {self.n_features} columns of type {self.dtype}, "
                f"and was written with {str(written)[:60]}. Its metadata are damaged: restore them, or write it again."
            )

    def _attributes(self, group: zarr.Group) -> None:
        names = group.attrs.get("feature_names", _column_names(group, self.uri))
        if isinstance(names, list) and len(names) == self.n_features:
            self.feature_names = [str(name) for name in names]
        self.heavy_columns = stored_heavy_columns(group.attrs.get("heavy_columns", ()), self.n_features)
        shape = group.attrs.get("image_shape")
        if isinstance(shape, list | tuple) and len(shape) == 2:
            height, width = shape
            if isinstance(height, int) and isinstance(width, int) and height * width == self.n_features:
                self.image_shape = (height, width)

    def _refuse_missing(self, name: str, array: zarr.Array, what: str) -> None:
        """Zarr reads a missing chunk as fill values without a word; data may be missing only knowingly.

        ``what`` is in the chunks of the array ``name``, such as rows.
        """
        chunks = StoredChunks.of(self.place, name, array)
        if self.missing_chunks == "fill":
            chunks.refuse_made_up(f"{self.uri}/{name}")
        elif chunks.n_missing:
            first, size = chunks.first_missing, chunks.shape[0]
            start = first[0] * size
            stop = min(start + size, array.shape[0])
            raise InputError(
                f"{self.uri} lacks {chunks.n_missing} of the chunks of {name!r}, the first one {first}: {what} "
                f"{start} to {stop - 1}. Restore it, or set {setting_name('missing_chunks')}: fill to take its "
                f"{what} as {array.fill_value}."
            )

    def _note_missing_labels(self, labels: ZarrLabels) -> None:
        """Whether fill values are labels is known only when all labels are counted."""
        chunks = StoredChunks.of(self.place, labels.path, labels.array)
        if chunks.n_missing:
            chunks.refuse_made_up(f"{self.uri}/{labels.path}")
            size = chunks.shape[0]
            self.missing_label_rows = self.n_rows - sum(
                min(size, self.n_rows - index * size) for (index,) in chunks.stored
            )
            self.label_fill = labels.fill

    def read_labels(self, start: int, stop: int) -> NDArray:
        return _open_labels(self.place, self.label, self._token).read(start, stop)

    @property
    def addresses(self) -> list[str]:
        names = [self.features, self.label] if self.has_labels else [self.features]
        return [storage.join(self.place, name) for name in names]

    def fingerprint(self) -> str:
        objects = [storage.list_objects(address) for address in self.addresses]
        return storage.digest("zarr", self.n_rows, self.n_features, str(self.dtype), objects)


def _column_names(group: zarr.Group, uri: str) -> list[str] | None:
    """Return the names in AnnData's table of columns, if the group has one."""
    table = member(group, "var", uri)
    names = stored_values(table, str(table.attrs.get("_index")), uri) if isinstance(table, zarr.Group) else None
    return None if names is None else [str(name) for name in names]


def array_of(group: zarr.Group, name: str, uri: str) -> zarr.Array:
    """Return the array of rows ``name``.

    Raises
    ------
    InputError
        Where there is none; says what there is.
    """
    found = member(group, name, uri)
    if isinstance(found, zarr.Array):
        return found
    names = sorted(group.array_keys())
    raise InputError(
        f"{uri} has no array {name!r} ({setting_name('features')}); it holds {', '.join(names) or 'no arrays'}."
        f"{did_you_mean(name, names)}"
    )


MOST_GAPS, FEWEST_CHUNKS = 1000, 10_000
"""Of more chunks than the second number, at least one in so many is stored: others are only declared."""
CHUNK_NUMBER = re.compile(r"\d{1,18}")


@dataclass(frozen=True)
class StoredChunks:
    """Which chunks (or shards) of a grid are stored; a grid may declare far more than anybody has listed."""

    shape: tuple[int, ...]
    grid: tuple[int, ...]
    stored: set[tuple[int, ...]]

    @classmethod
    def of(cls, uri: str, name: str, array: zarr.Array) -> StoredChunks:
        """List the chunks of ``array``, which is called ``name`` in the group at ``uri``."""
        shape = array.shards or array.chunks
        grid = tuple(-(-size // chunk) for size, chunk in zip(array.shape, shape, strict=True))
        found = set()
        for key, *_ in storage.list_objects(storage.join(uri, name)):
            index = tuple(map(int, CHUNK_NUMBER.findall(key)))
            within = len(index) == len(grid) and all(i < size for i, size in zip(index, grid, strict=True))
            if within and array.metadata.encode_chunk_key(index) == key:
                found.add(index)
        return cls(shape, grid, found)

    @property
    def n_missing(self) -> int:
        return math.prod(self.grid) - len(self.stored)

    @property
    def first_missing(self) -> tuple[int, ...]:
        """The first one that is not stored, in C order; there must be one."""
        return next(
            index for number in range(len(self.stored) + 1) if (index := self._index(number)) not in self.stored
        )

    def _index(self, number: int) -> tuple[int, ...]:
        index = []
        for size in reversed(self.grid):
            number, within = divmod(number, size)
            index.append(within)
        return tuple(reversed(index))

    def refuse_made_up(self, where: str) -> None:
        """Refuse an array of which next to nothing is stored.

        Raises
        ------
        InputError
        """
        total = math.prod(self.grid)
        if total > FEWEST_CHUNKS and len(self.stored) * MOST_GAPS < total:
            raise InputError(
                f"{where} declares {total:,} chunks, of which {len(self.stored):,} are stored: next to nothing is "
                "there. Its metadata are damaged or made up, or the chunks were not copied."
            )


# Opened arrays are kept per process, by address: a task would otherwise read the metadata again, and the data
# set that is sent to workers holds no open files. The token is new for each data set that is opened, lest a
# long-lived worker know an array that has been replaced.
@functools.lru_cache(maxsize=16)
def _open_labels(uri: str, name: str, token: str) -> ZarrLabels:
    return ZarrLabels.of(zarr_stores.open_group(uri), name, uri)
