"""Row maps, which are applied to rows as they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.row_maps.specification import ROW_MAPS, Arrays, RowMap
from mmpca_dist.tables.spans import cut_edges

MAP_ROWS = 256
"""Maps with columns of their own get so many rows at a time, aligned to the table's row numbers and filled up with
zeros: matrix products of other shapes round otherwise. 8,192 rows of 784 columns took 0.39 s to 1,000 Fourier features,
and 0.46 s in blocks of 32, 0.44 s in blocks of 4,096; Nystroem features 0.68 s, and 1.09 s and 0.62 s."""

Values = dict[str, Any]
"""A row map as configurations store it: its name and its options."""


def stored_form(row_map: RowMap) -> str | Values:
    """Return a row map as configurations store it: its name, with its options if it has any."""
    name, options = name_of(row_map), row_map.model_dump(mode="json")
    return {"name": name, **options} if options else name


def name_of(row_map: RowMap) -> str:
    """Return the name of a row map in configurations."""
    return next(kind.name for kind in ROW_MAPS.values() if kind.options is type(row_map))


@dataclass(frozen=True, eq=False)
class RowMaps:
    """Row maps, one after the other, which give rows in floating point.

    Each map gets what the one before it gives. A map with columns of its own gives dense rows. Rows of such maps can be
    read once all of these are fitted: ``fits`` is what the fit of every map has left.
    """

    maps: tuple[RowMap, ...]
    before: Facts
    """The facts of the rows that are mapped."""
    fits: Sequence[Arrays] | None = None

    @property
    def own_columns(self) -> bool:
        """Whether the columns are new ones."""
        return any(row_map.own_columns for row_map in self.maps)

    @cached_property
    def facts(self) -> Facts:
        """The facts of the rows after the maps."""
        before = self.before
        width, resident = before.n_features, before.resident_bytes
        for row_map in self.maps:
            resident += row_map.fitted_bytes(width)
            width = row_map.n_columns(width)
        # Single precision holds every integer of two bytes.
        dtype = before.dtype if before.dtype.kind == "f" else np.dtype("f4" if before.dtype.itemsize <= 2 else "f8")
        facts = replace(before, dtype=dtype, resident_bytes=resident)
        if not self.own_columns:
            return facts
        return replace(
            facts, n_features=width, feature_names=[f"{self._prefix}{column}" for column in range(width)],
            dtype=np.result_type(dtype, np.float32),  # half precision would lose what kernels tell apart
            sparse=False, image_shape=None,
        )  # fmt: skip

    @property
    def _prefix(self) -> str:
        return name_of([row_map for row_map in self.maps if row_map.own_columns][-1])

    def cut(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the edges of chunks; one whose mapped rows would be larger than a reading unit is cut."""
        if not self.own_columns:
            return edges
        row_bytes = self.facts.n_features * self.facts.dtype.itemsize
        return cut_edges(edges, max(LIMITS.unit_bytes // row_bytes // MAP_ROWS, 1) * MAP_ROWS)

    @cached_property
    def _steps(self) -> Sequence[Callable[[Any], Any]]:
        assert self.fits is not None  # noqa: S101  (rows are read once maps are fitted)
        return [one.fitted(fit) for one, fit in zip(self.maps, self.fits, strict=True)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_steps"}

    def apply(self, X: Any, start: int, where: Callable[[int], str]) -> Any:
        """Return rows after the maps, in their type.

        ``start`` is the number of the first in the table; ``where`` says where a row is, for messages.
        """
        if self.own_columns:
            return self._in_blocks(X, start, where)
        X = _row_by_row(X, self.facts.dtype)
        for step in self._steps:
            X = step(X)
        return csr_array(X, dtype=self.facts.dtype) if issparse(X) else np.ascontiguousarray(X, self.facts.dtype)

    def _in_blocks(self, X: Any, start: int, where: Callable[[int], str]) -> NDArray:
        stop, dtype = start + X.shape[0], self.facts.dtype
        out = np.empty((X.shape[0], self.facts.n_features), dtype)
        for first in range(start - start % MAP_ROWS, stop, MAP_ROWS):
            begin, end = max(first, start), min(first + MAP_ROWS, stop)
            block = filled_up(_row_by_row(X[begin - start : end - start], dtype), begin - first)
            for row_map, step in zip(self.maps, self._steps, strict=True):
                # Rows keep their precision until a map with columns of its own, as they do without it.
                block = step(block.astype(np.float64, copy=False) if row_map.own_columns else block)
            with np.errstate(over="ignore"):
                out[begin - start : end - start] = block[begin - first : end - first]
            if not (finite := np.isfinite(out[begin - start : end - start]).all(axis=1)).all():
                row = begin + int(np.argmin(finite))
                raise InputError(
                    f"{self._prefix} makes values of row {row}, in {where(row)}, that {dtype} cannot hold. Lower its "
                    "gamma or degree, or map rows to unit-length before."
                )
        return out


def _row_by_row(X: Any, dtype: np.dtype) -> Any:
    """Return rows, dense or CSR, as a type; dense ones row by row in memory: of others sums may round differently."""
    return X.astype(dtype, copy=False) if issparse(X) else np.ascontiguousarray(X, dtype)


def filled_up(X: Any, offset: int) -> Any:
    """Return a block of ``MAP_ROWS`` rows, of which X are those from ``offset`` on and all others are zeros."""
    n_rows = X.shape[0]
    if n_rows == MAP_ROWS:
        return X
    if issparse(X):
        ends = np.concatenate([np.zeros(offset), X.indptr, np.full(MAP_ROWS - offset - n_rows, X.indptr[-1])])
        return csr_array((X.data, X.indices, ends.astype(X.indptr.dtype)), shape=(MAP_ROWS, X.shape[1]))
    block = np.zeros((MAP_ROWS, X.shape[1]), X.dtype)
    block[offset : offset + n_rows] = X
    return block
