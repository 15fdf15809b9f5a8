"""Which columns of a source ingest takes; opens sources of any format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.datasets.ingest.csv import CSV_SUFFIXES, CsvRows
from mmpca_dist.datasets.ingest.group_writer import LABELS, Block
from mmpca_dist.datasets.ingest.libsvm import LIBSVM_SUFFIXES, LibsvmRows
from mmpca_dist.datasets.ingest.sources import DatasetRows, NumpyRows, open_npy, open_npz
from mmpca_dist.datasets.readers.formats import stem_of
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError
from mmpca_dist.settings import settings_named


class RowSource(Protocol):
    """What can be ingested: blocks of rows with their labels, in order, read once."""

    uri: str
    n_features: int
    n_rows: int | None
    dtype: np.dtype
    sparse: bool
    """Whether the blocks are CSR rows, rather than dense ones."""
    nnz: int | None
    """Number of values of CSR rows, where it is known."""
    feature_names: list[str] | None
    image_shape: tuple[int, int] | None
    labels: str | None
    """The column of the labels, where there are others that could be meant."""
    total: int
    notes: list[str]
    """What the user should know."""

    def blocks(self) -> Iterator[Block]:
        """Yield all rows."""

    def label_values(self, values: list[Any]) -> NDArray:
        """Return the distinct labels as they are to be stored."""

    def where(self, row: int) -> str:
        """Say where a row is, in the words of the source."""


@dataclass(frozen=True)
class Selection:
    """Which columns of a table are features, labels or neither, and the type of the rows; as for ``ingest``."""

    features: str | None = None
    label: str | int | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    unlabelled: bool = False
    dtype: str | None = None

    @property
    def label_name(self) -> str | None:
        """The name of the label, for formats whose columns have no numbers."""
        return None if self.label is None else str(self.label)

    @property
    def beside(self) -> dict[str, str]:
        """The columns to keep, as ``open_dataset`` takes them."""
        return dict.fromkeys(self.keep, "--keep")

    def check(self) -> None:
        """Refuse options that no source can honour.

        Raises
        ------
        InputError
        """
        if self.dtype not in (None, "float32", "float64"):
            raise InputError(f"dtype is {self.dtype!r}; rows can be converted to 'float32' or 'float64'.")
        for name in self.keep:
            if name in self.drop:
                raise InputError(f"--keep and --drop both name {name!r}: leave out one.")
            if not name or name in ("X", LABELS) or "/" in name or name.startswith((".", "__", "zarr.")):
                raise InputError(f"--keep names {name!r}, which cannot be an array beside X and y: rename it first.")

    def csv(self, uri: str) -> CsvRows:
        """Open CSV.

        Raises
        ------
        InputError
        """
        dtype = np.dtype(self.dtype or "float32")
        return CsvRows(uri, self.label, dtype, self.drop, self.keep, labelled=not self.unlabelled)

    def dataset(self, uri: str, more: Sequence[str] = ()) -> Dataset:
        """Open a data set without the columns to drop, and some more.

        Raises
        ------
        InputError
        """
        # This module is part of the package that open_dataset belongs to.
        from mmpca_dist.datasets.readers.formats import open_dataset

        drop = [*self.drop, *more]
        return open_dataset(uri, features=self.features, label=self.label_name, drop=drop, beside=self.beside)

    def open(self, uri: str, sparse: bool | None, stack: ExitStack) -> RowSource:
        """Open a source of any format; ``stack`` closes its files.

        Raises
        ------
        InputError
            Where the format cannot honour an option, or it is no such file.
        """
        stem = stem_of(uri)
        self._refuse_unlabelled(uri, stem)
        self._refuse_nameless(uri, stem)
        if stem.endswith(CSV_SUFFIXES):
            return self.csv(uri)
        if stem.endswith(LIBSVM_SUFFIXES):
            if self.label is not None:
                raise InputError(f"label={self.label!r} cannot be honoured: each line of {uri} begins with its label.")
            return LibsvmRows(uri, np.dtype(self.dtype or "float32"), sparse)
        name = self.label_name
        if uri.endswith(".npz"):
            return open_npz(uri, self.features or "X", name or "y", stack, sparse)
        if uri.endswith(".npy") and name is not None and not storage.is_local(uri):
            rows, labels = (open_npy(file, stack) for file in (uri, storage.normalize(name)))
            return NumpyRows(rows, labels, uri)
        with settings_named():
            return self._stored(uri, sparse)

    def _stored(self, uri: str, sparse: bool | None) -> DatasetRows:
        from mmpca_dist.datasets.readers.formats import open_column

        dataset = self.dataset(uri)
        label = getattr(dataset, "label", None)
        if label in self.keep:
            raise InputError(f"--keep names {label!r}, which is the label of {uri}.")
        return DatasetRows(dataset, sparse, {name: open_column(dataset, name, setting="--keep") for name in self.keep})

    def _refuse_unlabelled(self, uri: str, stem: str) -> None:
        """Refuse what cannot be taken for rows without labels."""
        if not self.unlabelled:
            return
        if self.label is not None:
            raise InputError(
                f"--label names {self.label!r}, and --unlabelled says that there are no labels: leave out one."
            )
        if not stem.endswith(CSV_SUFFIXES):
            raise InputError(
                f"--unlabelled is for CSV, which {uri} is not: rows of Zarr, Parquet and NumPy without labels are "
                "projected as they are."
            )

    def _refuse_nameless(self, uri: str, stem: str) -> None:
        """Refuse to choose by name among columns that have none."""
        for option, columns in (("drop", self.drop), ("keep", self.keep)):
            if columns and stem.endswith((*LIBSVM_SUFFIXES, ".npz", ".npy")):
                others = "CSV and Parquet" if option == "drop" else "CSV, Parquet and Zarr"
                raise InputError(
                    f"{option}={list(columns)} cannot be honoured: {uri} has no columns with names; those of {others} "
                    "have."
                )
        if self.features is not None and stem.endswith((*CSV_SUFFIXES, *LIBSVM_SUFFIXES)):
            raise InputError(
                f"features={self.features!r} cannot be honoured: every column of {uri} but the label is a feature."
            )
