"""Sources: rows and columns as they are stored; one file a format in ``tables/readers``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import AccessError, InputError, MmpcaError
from mmpca_dist.faults import Setting
from mmpca_dist.stores import failures, storage
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.facts import Table
from mmpca_dist.tables.spans import chunk_edges, chunk_of, grain_edges


class Source(Table, ABC):
    """Rows and columns as they are stored.

    Instances are sent to workers, so they hold addresses and metadata, never open files, rows or credentials.
    """

    features: str | None = None
    """The array or column that the rows are read from, where there may be several."""
    label: str | None = None
    """The array, column or file that the labels are read from; None where there are none."""
    note: str | None = None
    """A note on the rows for the user."""
    levels: Sequence[Any] = ()
    """Levels of columns of text, see ``tables.levels``."""
    columns: Sequence[str] = ()
    """The stored columns that the features are made of, where they have names."""
    named_columns: bool = False
    """Whether rows are read from named columns, rather than from an array whose names are stored apart."""
    dominant_columns: Sequence[tuple[int, float]] = ()
    """The few columns that hold nearly all of the scatter, with their shares, where the table records them."""
    beside_names: Sequence[str] = ()
    """The stored columns that are neither features nor labels."""
    _chunk_rows: int | None = None
    """Rows of a chunk of a regular grid; None of other grids, and of rows that can be cut anywhere."""
    _edges: NDArray[np.int64] | None = None
    """The edges of chunks of an irregular grid."""

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        """Row numbers where chunks begin, and the number of rows at the end; strictly increasing."""
        if self._edges is not None:
            return self._edges
        if self._chunk_rows is not None:
            return chunk_edges(self.n_rows, self._chunk_rows)
        return grain_edges(self.n_rows, self.row_bytes)

    @abstractmethod
    def read(self, start: int, stop: int, out: NDArray | None = None) -> Any:
        """Return rows ``start`` to ``stop``: CSR where they are stored so, else a C-ordered array (n, n_features).

        ``out``, of that shape and of the type of the rows, may be filled and returned.
        """

    @property
    def by_blocks(self) -> bool:
        """Whether `blocks` of a chunk take no longer than all of it at once."""
        return False

    def blocks(self, start: int, stop: int, out: NDArray) -> Iterator[NDArray]:
        """Yield rows ``start`` to ``stop``, as many at a time as ``out`` holds, which the next ones overwrite."""
        for first in range(start, stop, len(out)):
            last = min(first + len(out), stop)
            yield self.read(first, last, out[: last - first])

    def column(self, name: str | None, setting: Setting | str) -> Column:
        """Return a stored column; None is the label.

        Raises InputError, which calls the column by the ``setting`` that names it, where there is none.
        """
        raise InputError(
            f"{{setting}} is {str(name)!r}, and {self.uri} has no columns but its features. Name a .npy file with a "
            "value for each row.",
            setting=setting,
        )

    def fingerprint(self) -> str:
        """Identify the rows without reading them: metadata, object names, sizes, etags or times."""
        objects = [storage.list_objects(address) for address in self.addresses]
        shape = self.n_rows, self.n_features, str(self.dtype)
        return storage.digest(type(self).__name__, *shape, self.features, list(self.columns), objects)

    @property
    def addresses(self) -> Sequence[str]:
        """Files that hold the rows, or folders of them; none where nothing is stored."""
        return [self.uri] if self.facts.kind in ("local", "remote") else ()

    @property
    def in_memory(self) -> bool:
        """Whether dense rows are in memory, so that reading needs no buffer."""
        return self.facts.kind == "memory" and not self.sparse

    @property
    def before_noise(self) -> Source | None:
        """The same rows before noise was added to them, where they can be read."""
        return None

    def with_levels_of(self, batches: Iterable[Batch]) -> Self:
        """Return the same table with the levels that its text has in some rows of it, rare by their weights."""
        return self

    @property
    def layout(self) -> str:
        """How rows are stored, in words: chunks, and where it is known their codec."""
        return f"chunks of up to {np.diff(self.chunk_edges).max(initial=0):,} rows ({len(self.chunk_edges) - 1:,})"

    def describe_chunk(self, row: int) -> str:
        """Say where a row is stored, for messages."""
        _, start, stop = chunk_of(self.chunk_edges, row)
        return f"rows {start} to {stop - 1} of {self.uri}"


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn any error of a store or codec, which raise many types for damaged data, into one sentence."""
    try:
        yield
    except (MmpcaError, MemoryError):
        raise
    except Exception as error:
        remedy = "The data are damaged or out of reach: restore them from their source."
        raise AccessError(f"Cannot read {what}: {failures.in_words(error)}. {remedy}") from error
