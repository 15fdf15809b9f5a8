"""Write rows, labels and kept columns to a Zarr group, shard by shard."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.ingest.destination import Destination, Overwrite, Writing
from mmpca_dist.datasets.ingest.shards import CHUNK_BYTES, Body, CsrBody, DenseBody, create_array
from mmpca_dist.datasets.labels import MAX_CLASSES, normalize_labels, refuse_texts
from mmpca_dist.datasets.readers.csr import index_type
from mmpca_dist.datasets.readers.zarr_groups import ARRAYS, ROWS
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError, PlanError

SPOOL_BYTES = 32 << 20
"""Labels beyond this many bytes (four a row) wait for the end in a temporary file."""

LABELS = "y"
"""The array of the labels."""

Codes = tuple[list[Any], NDArray]
"""A column of names in a block: its distinct values, and each row's number among them."""


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a source.

    ``rows``, dense or CSR, has shape (k, d); ``names`` are columns of names, the labels ``y`` among them where there
    are any; ``done`` is how far the source has been read, in its own units.
    """

    rows: Any
    names: Mapping[str, Codes]
    done: int


class ZarrWriter:
    """Writes rows ``X`` (n, d) and columns of names (n,), such as labels ``y``, into a new Zarr group, n unknown.

    Whole shards are written, one after the other, and the metadata of the group comes last: until then there is no
    new group at the address, see ``replacing``. Leaving the ``with`` block before ``finish`` removes what was begun.

    Parameters
    ----------
    destination : str
        Path or fsspec URL of the group.
    overwrite : bool or "any"
        Replace a group that an ingest has completed, or any Zarr group, once the new one is complete.
    chunk_bytes : int
        Size of a chunk of dense rows; eight make a shard. Data that fits one shard becomes one chunk.
    columns : sequence of str
        The columns of names that will come, each of which becomes an array.

    Raises
    ------
    OutputError
        When something is at the destination that may not be replaced, or another ingest writes there.
    """

    def __init__(
        self,
        destination: str,
        *,
        overwrite: Overwrite = False,
        chunk_bytes: int = CHUNK_BYTES,
        note: Callable[[str], None] | None = None,
        columns: Sequence[str] = (LABELS,),
    ) -> None:
        self.destination, self.chunk_bytes = storage.normalize(destination), chunk_bytes
        self.n_rows = 0
        self._overwrite, self._target = overwrite, Destination.of(destination)
        if self._target.recover(note) and note is not None:
            note(f"What a killed ingest had left beside {self._target.uri} has been put right.")
        self._target.refuse_what_is_there(overwrite)
        self._stack = ExitStack()
        self._writing: Writing | None = None
        self._columns = {name: _Spool("labels" if name == LABELS else f"values of column {name!r}") for name in columns}
        self._body: Body | None = None

    def __enter__(self) -> ZarrWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for column in self._columns.values():
            column.close()
        self._stack.__exit__(kind, error, trace)

    def begin(
        self,
        n_features: int,
        dtype: np.dtype,
        n_rows: int | None = None,
        *,
        nnz: int | None = None,
        sparse: bool = False,
    ) -> None:
        """Say what rows will come, and in which form they are to be written.

        Numbers of rows, and of the values stored of ``sparse`` ones, only serve to see that they fit the disk.

        Raises
        ------
        PlanError
            Where the local disk has less space free than the rows need.
        """
        row_bytes = n_features * dtype.itemsize
        if self._target.is_local and n_rows is not None and not (sparse and nnz is None):
            n_bytes = csr_bytes(n_rows, nnz or 0, n_features, dtype) if sparse else n_rows * row_bytes
            folder = next(p for p in Path(self._target.uri).parents if p.exists())
            free = shutil.disk_usage(folder).free
            if n_bytes > free:
                raise PlanError(
                    f"{n_rows} rows of {n_features} columns as {dtype} need {n_bytes / 2**30:.1f} GiB and "
                    f"the disk of {self.destination} has {free / 2**30:.1f} GiB free. Choose another destination."
                )
        self._writing = self._stack.enter_context(self._target.claimed(list(self._columns), self._overwrite))
        body = CsrBody if sparse else DenseBody
        self._n_features, self._dtype = n_features, dtype
        self._body = body(self._writing.place, self.destination, n_features, dtype, self.chunk_bytes)

    def append(self, block: Block) -> None:
        """Take rows, which are converted to the type given to ``begin``, and their names."""
        assert self._body is not None and self._writing is not None, "begin comes first"  # noqa: S101
        self._writing.lease.check()
        for name, (values, codes) in block.names.items():
            self._columns[name].append(values, codes, self.n_rows)
        self._body.append(block.rows)
        self.n_rows += block.rows.shape[0]

    def finish(
        self, attributes: dict[str, Any], label_values: Callable[[list[Any]], NDArray]
    ) -> tuple[dict[Any, int], int]:
        """Write what is left and the columns of names; make the group appear.

        Parameters
        ----------
        attributes : dict
            Attributes of the group; ``complete: true`` is added.
        label_values : callable
            Turns the list of a column's distinct values into an array of integers or strings.

        Returns
        -------
        classes : dict
            Number of rows by label, in sorted order; none without labels.
        n_bytes : int
            What is stored.

        Raises
        ------
        InputError
            Without any row, or when the labels are not classes.
        OutputError
            When something has appeared at the destination meanwhile.
        """
        if self.n_rows == 0:
            raise InputError(f"There are no rows to write to {self.destination}: the source is empty.")
        assert self._body is not None and self._writing is not None  # noqa: S101  (rows came, so it was begun)
        place = self._writing.place
        self._body.finish()
        values = {name: label_values(column.values) for name, column in self._columns.items()}
        for name, column in self._columns.items():
            self._write_column(place, name, column, values[name], min(self._body.label_chunk_rows, self.n_rows))
        n_bytes = sum(size for _, size, _ in storage.list_objects(place))
        rows = [self.n_rows, self._n_features, str(self._dtype)]
        self._writing.complete({**attributes, ARRAYS: ["X", *self._columns], ROWS: rows})
        self._stack.close()
        return self._columns[LABELS].count(values[LABELS]) if LABELS in values else {}, n_bytes

    def _write_column(self, place: str, name: str, column: _Spool, values: NDArray, chunk: int) -> None:
        # Strings of a fixed width have no agreed form in Zarr v3, those of any width have one. NumPy makes unsigned
        # numbers of Python's that are of another C type than uint64.
        kind = str if values.dtype.kind == "U" else np.dtype(f"{values.dtype.kind}{values.dtype.itemsize}")
        chunk = min(chunk, max(1, CHUNK_BYTES // values.dtype.itemsize))
        array = create_array(
            storage.join(place, name),
            self.destination,
            shape=(self.n_rows,),
            chunks=(chunk,),
            dtype=kind,
            fill_value="" if kind is str else 0,
        )
        with storage.explained(self.destination, "write"):
            for start, codes in column.blocks(chunk):
                array[start : start + len(codes)] = values[codes]


class _Spool:
    """A column of names as they come, four bytes a row: numbers into the list of distinct ones, which is short."""

    def __init__(self, what: str) -> None:
        self.values: list[Any] = []
        self._what = what
        self._known: dict[Any, int] = {}
        self._counts = np.zeros(0, np.int64)
        self._file = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115

    def append(self, values: list[Any], codes: NDArray, first_row: int) -> None:
        refuse_texts(values, f"The {self._what} up to row {first_row + len(codes)}")
        for value in values:
            if value not in self._known:
                self._known[value] = len(self.values)
                self.values.append(value)
        if len(self.values) > MAX_CLASSES:
            raise InputError(
                f"By row {first_row + len(codes)} there are {len(self.values)} different {self._what}, "
                f"{values[-1]!r} among them: these are measurements, not classes. Name another column, or bin it."
            )
        numbers = np.asarray([self._known[value] for value in values], np.int32)[codes]
        counts = np.bincount(numbers, minlength=len(self.values))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self._file.write(numbers.tobytes())

    def blocks(self, n_rows: int) -> Iterator[tuple[int, NDArray[np.int32]]]:
        """Yield (first row, numbers) of ``n_rows`` rows at a time."""
        self._file.seek(0)
        start = 0
        while data := self._file.read(4 * n_rows):
            codes = np.frombuffer(data, np.int32)
            yield start, codes
            start += len(codes)

    def count(self, values: NDArray) -> dict[Any, int]:
        """Return the number of rows by label, sorted; ``values`` are the labels as they are written."""
        counts: dict[Any, int] = {}
        for value, count in zip(values.tolist(), self._counts.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + count
        return dict(sorted(counts.items()))

    def close(self) -> None:
        self._file.close()


def encode_block(labels: NDArray, where: str) -> Codes:
    """Return the distinct labels of an array and each row's number among them."""
    values, codes = np.unique(normalize_labels(labels, where), return_inverse=True)
    return values.tolist(), codes


def csr_bytes(n_rows: int, nnz: int, n_features: int, dtype: np.dtype) -> int:
    """Return the bytes of CSR rows as they are written."""
    return nnz * (dtype.itemsize + np.dtype(index_type(n_features, 0)).itemsize) + (n_rows + 1) * 8
