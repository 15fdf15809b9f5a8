"""``Dataset``: a view of the rows of a source: what its columns mean, which rows are left, and what is done to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.batch import Batch, dense, joined_batches, refuse_not_finite
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.covariates import Covariate
from mmpca_dist.tables.facts import Facts, Table
from mmpca_dist.tables.kept_rows import KeptRows, windows
from mmpca_dist.tables.mapped_rows import RowMaps, stored_form
from mmpca_dist.tables.roles import KEY, LABEL, ONE_CLASS, ONLY, TARGET, Played, Role
from mmpca_dist.tables.row_maps.specification import Arrays, RowMap
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.spans import reading_edges, unit_edges
from mmpca_dist.tables.values import Place

Roles = Collection[str] | None
"""The arrays of a batch that are read; None for all."""


@dataclass(frozen=True, eq=False)
class Dataset(Table):
    """A view of rows, as ``open_dataset`` returns it.

    It is sent to workers, and so holds addresses and metadata, never open files.
    """

    source: Source | Dataset
    """Where the rows are stored; or other rows, of which some are chosen by what they hold."""
    base: Facts
    """The facts of the rows before maps, and before they are widened."""
    played: tuple[Played, ...] = ()
    kept: KeptRows | None = None
    """The rows that are left of each chunk; None where all are."""
    mapped: RowMaps | None = None
    form: Any = None
    """How rows are widened or adjusted as they are read, see ``statistics.widening``."""

    @classmethod
    def of(cls, source: Source | Dataset) -> Dataset:
        """Return all rows of a source."""
        return cls(source, source.facts)

    @cached_property
    def facts(self) -> Facts:  # type: ignore[override]
        facts = self.base if self.mapped is None else self.mapped.facts
        return facts if self.form is None else self.form.facts(facts)

    @property
    def stored(self) -> Source:
        """The source as it was opened."""
        return self.source.stored if isinstance(self.source, Dataset) else self.source

    @property
    def named_columns(self) -> bool:
        """Whether rows are read from named columns, rather than from an array whose names are stored apart."""
        return self.stored.named_columns and not self._own_columns

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        edges = self.source.chunk_edges if self.kept is None else self.kept.edges
        return edges if self.mapped is None else self.mapped.cut(edges)

    # What columns mean

    def with_look(self, role: Role, column: Column | None, look: Any, name: str = "") -> Dataset:
        """Return the same rows with one more column in a role, given a look at it, without those that it leaves out."""
        classless = [Played(ONE_CLASS, None)] if role is TARGET and not self.has_labels else []
        same = replace(self, played=(*self.played, *classless, Played(role, column, look, name)))
        return same if role.keeps is None else same._without_left_out(role.why_left_out)

    def labelled_by(self, column: Column, role: Role = LABEL) -> Dataset:
        """Return the same rows with another column for their labels."""
        others = tuple(each for each in self.played if each.role.into != "label")
        return replace(self, played=(*others, Played(role, column)))

    def keyed(self, key: Callable[[Batch], NDArray], role: Role = KEY) -> Dataset:
        """Return the same rows with keys that a function makes of batches for their labels; it may number the rows."""
        # Roles see rows that are left out, and so not the numbers of those that are left: another view does.
        rows = self if self.kept is None else replace(Dataset.of(self.unwidened), form=self.form)
        return rows.with_look(role, None, key)

    def predicting(self, names: Sequence[str]) -> Dataset:
        """Return the same rows with the numbers in the column of their labels as targets with these names."""
        played = (Played(TARGET, each.column, tuple(names)) if each.role is LABEL else each for each in self.played)
        return replace(self, played=(Played(ONE_CLASS, None), *played))

    def unlabelled(self) -> Dataset:
        """Return the same rows without their labels."""
        source = self.source.unlabelled() if isinstance(self.source, Dataset) else self.source
        played = tuple(each for each in self.played if each.role.into not in ("label", "targets"))
        return replace(self, source=source, played=played)

    def of_one_class(self) -> Dataset:
        """Return the same rows without their labels, all of one class."""
        rows = self.unlabelled()
        return replace(rows, played=(Played(ONE_CLASS, None), *rows.played))

    @property
    def classless(self) -> bool:
        """Whether rows are of one class as they have no labels."""
        return not self.has_labels and bool(self.columns_into("label"))

    def only(self, keep: Callable[[Batch], NDArray[np.bool_]]) -> Dataset:
        """Return the rows that ``keep`` tells by a batch of their labels and weights; they are numbered anew."""
        return Dataset.of(self).with_look(ONLY, None, keep)

    def over(self, source: Source) -> Dataset:
        """Return this view over another source, such as the blocks of a Dask array, which has columns in its blocks."""
        if isinstance(self.source, Dataset):
            same = replace(self, source=self.source.over(source))
        else:
            same = replace(self, source=source, played=tuple(each.over(source) for each in self.played))
        return same if self.kept else replace(same, base=replace(self.base, n_rows=same.source.n_rows))

    def over_rows(self, source: Dataset) -> Dataset:
        """Return the same of a source whose rows have another form."""
        base = replace(source.facts, n_rows=self.base.n_rows, rows_read=self.base.rows_read)
        return replace(self, source=source, base=base)

    def with_maps(self, maps: Sequence[RowMap], fits: Sequence[Arrays] | None = None) -> Dataset:
        """Return the rows after row maps; raise InputError where one cannot be fitted to so many rows."""
        if not maps:
            return self
        if fits is None:
            for row_map in maps:
                row_map.check(self.n_rows, self.uri)
            fits = None if any(row_map.own_columns for row_map in maps) else [{} for _ in maps]
        return replace(self, mapped=RowMaps(tuple(maps), self.facts, fits))

    @property
    def unmapped(self) -> Dataset:
        """The rows before row maps."""
        return replace(self, mapped=None, form=None)

    @property
    def unwidened(self) -> Dataset:
        """The rows without the extra columns of widening."""
        return replace(self, form=None)

    def columns_into(self, array: str) -> list[Played]:
        """Return the columns that make an array of batches."""
        inner = self.source.columns_into(array) if isinstance(self.source, Dataset) else []
        return inner + [each for each in self.played if each.role.into == array]

    @property
    def has_labels(self) -> bool:
        """Whether a column of the table tells the outcome of rows: labels, or numbers to predict."""
        return any(each.column is not None for each in self.columns_into("label")) or bool(self.targets)

    @property
    def label_column(self) -> Column | None:
        """The column of the labels, or of what they are made of."""
        return next((each.column for each in self.columns_into("label")), None)

    @property
    def covariates(self) -> tuple[Covariate, ...]:
        return tuple(each.look for each in self.columns_into("covariates"))

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the numbers to predict, of rows that have these in the place of classes."""
        return tuple(name for each in self.columns_into("targets") for name in each.names)

    @property
    def widening(self) -> Any:
        """The widening of widened rows; None of others."""
        inner = self.source.widening if isinstance(self.source, Dataset) else None
        return inner if self.form is None else self.form.widens

    @property
    def n_columns(self) -> int:
        """Columns of the table, and of models; widened rows have more."""
        return self.n_features if self.widening is None else self.widening.n_columns

    # Rows

    def batch(self, start: int, stop: int, *, X: bool = True, roles: Roles = None, out: NDArray | None = None) -> Batch:
        """Return rows ``start`` to ``stop``: X, in ``out`` where that serves, and the arrays of ``roles``."""
        if X and self.form is not None:
            read = None if roles is None else {*roles, *self.form.reads}
            batch = self.unwidened.batch(start, stop, roles=read)
            return replace(batch, table=self, X=self.form.matrix(batch, out))
        stretches = [(start, stop, slice(None))] if self.kept is None else list(self.kept.stretches(start, stop))
        parts, rows, out = [], [], out if self.mapped is None else None
        if X and out is None and len(stretches) > 1 and not self.base.sparse:
            out = np.empty((stop - start, self.base.n_features), self.base.dtype)
        for begin, end, some in stretches:
            batch = self._stretch(begin, end, roles)
            parts.append(batch.take(some) if self.kept is not None else batch)
            if X:
                done, at = sum(map(len, parts[:-1])), parts[-1].at
                target = None if out is None else out[done : done + len(at)]
                rows.append(self._rows(begin, end, at, target))
                if len(stretches) > 1 and target is not None and rows[-1] is not target:
                    target[...] = rows[-1]  # rows in memory are read without a buffer
        batch = joined_batches(parts, start)
        if not X:
            return batch
        whole = rows[0] if len(rows) == 1 else vstack(rows, format="csr") if issparse(rows[0]) else out
        if self.mapped is not None:
            refuse_not_finite(replace(batch, table=self.unmapped, X=whole))
            whole = self.mapped.apply(whole, start, self.describe_chunk)
        return replace(batch, X=whole)

    def _rows(self, begin: int, end: int, at: NDArray[np.int64], out: NDArray | None) -> Any:
        """Return the rows ``at`` of rows ``begin`` to ``end`` of the source."""
        if len(at) == end - begin:
            return self.source.read(begin, end, out)
        rows = self.source.read(begin, end)
        return rows[at - begin] if issparse(rows) else np.take(rows, at - begin, axis=0, out=out, mode="clip")

    def _stretch(self, begin: int, end: int, roles: Roles) -> Batch:
        """Return what is left of rows ``begin`` to ``end`` of the source."""
        at, drops = np.arange(begin, end), self.kept is not None
        taken = [
            each for each in self.played
            if roles is None or each.role.into in roles or (drops and each.role.keeps is not None)
        ]  # fmt: skip
        if roles is not None and (reads := {name for each in taken for name in each.role.reads}):
            roles = {*roles, *reads}
            taken = [each for each in self.played if each in taken or each.role.into in roles]
        if isinstance(self.source, Dataset):
            batch = replace(self.source.batch(begin, end, X=False, roles=roles), table=self, at=at)
        else:
            batch = Batch(self, begin, at, at)
        read: dict[int, Known] = {}
        for each in taken:
            place = Place(self.uri, self.uri if each.column is None else each.column.place, batch.rows)
            values = batch if each.column is None else self._known(each.column, batch.at, read)
            array = each.role.encode(values, place, each.look)
            left = each.role.keeps(array) if drops and each.role.keeps is not None else None
            array = each.role.combine(batch.roles.get(each.role.into), array)
            batch = replace(batch, roles={**batch.roles, each.role.into: array})
            if left is not None and not left.all():
                batch = batch.take(left)
                read = {column: (known[0][left], known[1][left]) for column, known in read.items()}
        return batch

    def _known(self, column: Column, rows: NDArray[np.int64], read: dict[int, Known]) -> Known:
        """Return the values of a column in some rows of the source, in order, and which are there."""
        if id(column) not in read:
            parts = [column.read(0, 0)] if not len(rows) else []
            for begin, end, places in windows(rows, self.source):
                values, there = column.read(begin, end)
                if len(values) != end - begin:
                    raise InputError(f"{column.place} has {len(values)} of the values of rows {begin} to {end - 1}.")
                parts.append((values, there) if len(places) == end - begin else (values[places], there[places]))
            values, there = (
                np.concatenate([part[i] for part in parts]) if len(parts) > 1 else parts[0][i] for i in (0, 1)
            )
            read[id(column)] = values, there
        return read[id(column)]

    def read(self, start: int, stop: int, out: NDArray | None = None) -> Any:
        """Return rows ``start`` to ``stop`` as methods see them, widened or adjusted, dense or CSR."""
        return self.batch(start, stop, roles=(), out=out).X

    @property
    def by_blocks(self) -> bool:
        """Whether the rows are those of their source, which is read by blocks."""
        as_stored = self.kept is None and self.mapped is None and self.form is None
        return as_stored and not self.sparse and not self.reads_ahead and self.source.by_blocks

    def blocks(self, start: int, stop: int, out: NDArray) -> Iterator[NDArray]:
        """Yield rows ``start`` to ``stop``, as many at a time as ``out`` holds, which the next ones overwrite."""
        return self.source.blocks(start, stop, out)

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        """Return rows ``start`` to ``stop`` as a C-ordered array (stop - start, n_features); ``out`` may be filled."""
        return dense(self.read(start, stop, None if self.sparse else out), out)

    def read_sparse(self, start: int, stop: int) -> csr_array:
        """Return rows ``start`` to ``stop`` in CSR form."""
        return csr_array(self.read(start, stop))

    def read_labels(self, start: int, stop: int) -> NDArray:
        """Return the labels of rows ``start`` to ``stop``, shape (stop - start,)."""
        return self.batch(start, stop, X=False, roles=("label",)).label

    def value_batches(self, *roles: str) -> Iterator[Batch]:
        """Yield batches of some roles, without X, unit by unit."""
        for start, stop in itertools.pairwise(unit_edges(self.chunk_edges, 8).tolist()):
            yield self.batch(start, stop, X=False, roles=roles)

    def values(self, column: Column, *roles: str) -> Iterator[tuple[Known, Place, Batch]]:
        """Yield the values of a column in these rows, where they are, and the batch of some roles, unit by unit."""
        for batch in self.value_batches(*roles):
            yield self._known(column, batch.at, {}), Place(self.uri, column.place, batch.rows), batch

    def beside(self, column: Column, start: int, stop: int) -> tuple[Known, Place]:
        """Return the values of another stored column in rows ``start`` to ``stop`` of this view, and where they are."""
        batch = self.batch(start, stop, X=False, roles=())
        return self._known(column, batch.at, {}), Place(self.uri, column.place, batch.rows)

    def source_row(self, row: int) -> int:
        """Return the number of a row in what the user gave, for messages."""
        return int(self.batch(row, row + 1, X=False, roles=()).rows[0])

    def describe_chunk(self, row: int) -> str:
        """Say where a row is stored, for messages."""
        return self.stored.describe_chunk(self.source_row(row))

    def _without_left_out(self, why: str) -> Dataset:
        """Return the same view with the number of rows that are left of each chunk; as it is where all are."""
        edges, units = self.source.chunk_edges, reading_edges(self.source)
        sizes = np.zeros(len(edges) - 1, np.int64)
        counting = replace(self, kept=KeptRows.of(np.diff(edges), edges, units))
        for begin, end in itertools.pairwise(unit_edges(edges, 8).tolist()):
            at = counting._stretch(begin, end, ()).at
            sizes += np.bincount(np.searchsorted(edges, at, side="right") - 1, minlength=len(sizes))
        n_rows = int(sizes.sum())
        if not n_rows:
            raise InputError(f"No row of {self.uri} is left: {why}.")
        if n_rows == self.base.n_rows:
            return self
        base = replace(self.base, n_rows=n_rows, rows_read=self.base.rows_read * self.base.n_rows / n_rows)
        return replace(self, base=base, kept=KeptRows.of(sizes, edges, units))

    # What identifies the rows, and what reading them costs

    @property
    def addresses(self) -> list[str]:
        """Files that hold the rows and their columns, or folders of them; none where nothing is stored."""
        columns = [each.column.addresses for each in self.played if each.column is not None]
        return list(dict.fromkeys(itertools.chain(self.source.addresses, *columns)))

    def fingerprint(self) -> str:
        """Identify the content without reading rows: that of the source and of each column in a role."""
        columns = [(each.role.name, each.column.fingerprint()) for each in self.played if each.column is not None]
        maps = [] if self.mapped is None else [stored_form(row_map) for row_map in self.mapped.maps]
        return storage.digest("view", self.source.fingerprint(), columns, maps)

    @property
    def in_memory(self) -> bool:
        """Whether dense rows are in memory as they are, so that reading needs no buffer."""
        return self.mapped is None and self.form is None and self.source.in_memory

    @property
    def held(self) -> bool:
        """Whether sparse rows, as they are, and their labels are in the memory of each process."""
        return self.sparse and self.form is None and not self.targets and self.facts.kind == "memory"

    @property
    def _own_columns(self) -> bool:
        return self.mapped is not None and self.mapped.own_columns

    @property
    def n_bytes(self) -> int:
        return self.n_rows * self.row_bytes if self._own_columns else self.source.n_bytes

    @property
    def nnz(self) -> int:
        beside = 0 if self.form is None else self.n_rows * (self.n_features - self.form.filled)
        own = self.n_rows * (self.base if self.mapped is None else self.mapped.facts).n_features
        return (own if self._own_columns else self.source.nnz) + beside
