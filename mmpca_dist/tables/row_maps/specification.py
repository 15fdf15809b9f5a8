"""``RowMap``, the base of row maps with their options, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from mmpca_dist.registry import Registry
from mmpca_dist.settings import Section

Arrays = Mapping[str, NDArray]
"""Arrays that a fit leaves, by name."""


class RowMap(Section, ABC):
    """A map of single rows. The fields of a subclass are its options in configurations.

    A map that makes columns of its own is fitted once, before rows are mapped: to a sample of the rows, or to the
    number of columns alone. It sees no labels.
    """

    own_columns: ClassVar[bool] = False
    """Whether its columns are new ones, in dense rows; otherwise rows keep their columns, and sparse rows stay so."""
    by_value: ClassVar[bool] = False
    """Whether what it does to a value depends on no other value of the row."""

    @property
    def sample_seed(self) -> int:
        """Which sample of the rows a fit looks at: the option ``seed``, where there is one."""
        return int(getattr(self, "seed", 0))

    def n_columns(self, n_features: int) -> int:
        """Return the number of columns that rows get: the option ``n_components``, where there is one."""
        return int(getattr(self, "n_components", n_features))

    def check(self, n_rows: int, where: str) -> None:
        """Raise InputError where it cannot be fitted to a table of so many rows; ``where`` is its address."""

    def sample_rows(self, row_bytes: int) -> int:
        """Return how many rows a fit looks at, or all where there are fewer; ``row_bytes`` are those of a row."""
        return 0

    def fit(self, sample: Any, n_features: int) -> dict[str, NDArray]:
        """Return the arrays that the map is made of.

        Parameters
        ----------
        sample : array or csr_array of shape (m, n_features), or None
            Finite rows, in double precision, spread evenly over the table; None where ``sample_rows`` is 0.
        n_features : int
        """
        return {}

    @abstractmethod
    def fitted(self, arrays: Arrays) -> Callable[[Any], Any]:
        """Return what maps a block of rows, dense or CSR, without changing it; it must be picklable.

        Maps with columns of their own get blocks in double precision, and return dense ones.
        """

    def remarks(self, arrays: Arrays) -> list[str]:
        """Return what a reader of the run must know of the fit, as clauses."""
        return []

    def fitted_bytes(self, n_features: int) -> int:
        """Return the bytes of the arrays."""
        return 0


@dataclass(frozen=True)
class RowMapKind:
    """A kind of row map: its name in configurations, what it does to a row in words, and the model of its options."""

    name: str
    description: str
    options: type[RowMap]


ROW_MAPS = Registry(RowMapKind, "mmpca_dist.tables.row_maps", group="mmpca_dist.row_maps")
