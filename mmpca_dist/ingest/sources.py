"""Sources of ingest: which columns are taken, and the rows of data sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Setting
from mmpca_dist.ingest.csv import CSV_SUFFIXES, CsvRows
from mmpca_dist.ingest.libsvm import LIBSVM_SUFFIXES, LibsvmRows
from mmpca_dist.ingest.row_source import LABELS, RowBlock, RowSource, encode_block
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.compose import column_of, open_dataset
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import note_on_missing, refuse_made_up
from mmpca_dist.tables.readers.formats import stem_of
from mmpca_dist.tables.readers.named_columns import ColumnRows, refuse_gaps
from mmpca_dist.tables.source import readable
from mmpca_dist.tables.spans import cut_edges, unit_edges
from mmpca_dist.tables.values import names


@dataclass(frozen=True)
class Selection:
    """Which columns of a table are features, labels or neither, and the type of the rows; as for ``ingest``."""

    features: str | None = None
    label: str | int | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    unlabelled: bool = False
    dtype: str | None = None
    missing_chunks: str = "refuse"

    @property
    def columns(self) -> list[str]:
        """The columns of names that are written along with the rows."""
        return [*([] if self.unlabelled else [LABELS]), *self.keep]

    def check(self) -> None:
        """Raise an ``InputError`` for options that no source can honour."""
        if self.dtype not in (None, "float32", "float64"):
            raise InputError(f"dtype is {self.dtype!r}; rows can be converted to 'float32' or 'float64'.")
        for name in self.keep:
            if name in self.drop:
                raise InputError(f"--keep and --drop both name {name!r}: leave out one.")
            if not name or name in ("X", LABELS) or "/" in name or name.startswith((".", "__", "zarr.")):
                raise InputError(f"--keep names {name!r}, which cannot be an array next to X and y: rename it first.")

    def open(self, uri: str, sparse: bool | None) -> RowSource:
        """Open a source of any format; raise InputError where that cannot honour an option, or it is no such file."""
        stem = stem_of(uri)
        self._refuse_options(uri, stem)
        dtype = np.dtype(self.dtype or "float32")
        if stem.endswith(CSV_SUFFIXES):
            return CsvRows(uri, self.label, dtype, self.drop, self.keep, labelled=not self.unlabelled)
        if stem.endswith(LIBSVM_SUFFIXES):
            return LibsvmRows(uri, dtype, sparse)
        dataset = open_dataset(
            uri,
            features=self.features,
            label=None if self.label is None else str(self.label),
            drop=self.drop,
            beside=dict.fromkeys(self.keep, Setting("keep")),
            missing_chunks=self.missing_chunks,
        )
        source = dataset.stored
        refuse_gaps(source, self.keep)
        if source.label in self.keep:
            raise InputError(f"--keep names {source.label!r}, which is the label of {uri}.")
        return DatasetRows(dataset, sparse, {name: column_of(source, name, Setting("keep")) for name in self.keep})

    def _refuse_options(self, uri: str, stem: str) -> None:
        """Refuse options that the format of a source cannot honour."""
        is_csv, is_libsvm = stem.endswith(CSV_SUFFIXES), stem.endswith(LIBSVM_SUFFIXES)
        if self.unlabelled and self.label is not None:
            raise InputError(
                f"--label names {self.label!r}, and --unlabelled says that there are no labels: leave out one."
            )
        if self.unlabelled and not is_csv:
            raise InputError(
                f"--unlabelled is for CSV, which {uri} is not: rows of Zarr, Parquet and NumPy without labels are "
                "projected as they are."
            )
        idle = ("features", "label", "drop", "keep") if is_libsvm else ("features",) if is_csv else ()
        for option in idle:
            if (value := getattr(self, option)) not in (None, [], ()):
                what = "CSV" if is_csv else "LIBSVM text, whose lines begin with labels; its columns have no names"
                raise InputError(f"{option}={value!r} cannot be honoured: {uri} is {what}. Leave it out.")


class DatasetRows(RowSource):
    """A table that ``open_dataset`` opens, in its reading units; ``sparse=False`` makes CSR rows dense.

    ``keep`` are other columns of names, as the labels of data sets.
    """

    def __init__(self, dataset: Dataset, sparse: bool | None = None, keep: Mapping[str, Column] | None = None) -> None:
        self._dataset = dataset
        labels = {} if dataset.label_column is None else {LABELS: dataset.label_column}
        self._columns = {**labels, **(keep or {})}
        self.uri, self.n_features, self.dtype = dataset.uri, dataset.n_features, dataset.dtype
        self.feature_names, self.image_shape = dataset.feature_names, dataset.facts.image_shape
        self.n_rows = self.total = dataset.n_rows
        self.labels = f"column {dataset.stored.label!r}" if isinstance(dataset.stored, ColumnRows) else None
        self.sparse = dataset.sparse and sparse is not False
        self.nnz = dataset.nnz if self.sparse else None
        self.notes = [
            note_on_missing(column, "class" if name == LABELS else "name")
            for name, column in self._columns.items()
            if column.missing is not None
        ]

    def blocks(self) -> Iterator[RowBlock]:
        if not self.total:
            return
        edges = self._edges()
        buffer = np.empty((0 if self.sparse else max(np.diff(edges)), self.n_features), self.dtype)
        # Rows that have the fill value, of columns of which chunks are not stored.
        missing = {name: column.missing for name, column in self._columns.items()}
        filled = {name: (lacking.fill, 0) for name, lacking in missing.items() if lacking is not None}
        for start, stop in itertools.pairwise(edges):
            with readable(self._dataset.describe_chunk(start)):
                if self.sparse:
                    rows = self._dataset.read_sparse(start, stop)
                else:
                    rows = self._dataset.read_rows(start, stop, buffer[: stop - start])
                beside = {name: self._dataset.beside(column, start, stop) for name, column in self._columns.items()}
                values = {name: names(*found) for name, found in beside.items()}
            for name, (value, n_rows) in filled.items():
                filled[name] = value, n_rows + int(np.count_nonzero(values[name] == value))
            codes = {
                name: encode_block(found, self.uri if name == LABELS else f"{name!r} of {self.uri}")
                for name, found in values.items()
            }
            yield RowBlock(rows, codes, stop)
        for name, (_, n_rows) in filled.items():
            refuse_made_up(self._columns[name], n_rows)

    def _edges(self) -> list[int]:
        """Return the edges of reading units. Large ones are cut; each piece of a large chunk reads the whole chunk."""
        if self.sparse:
            units = np.asarray([0, self.total], np.int64)
            limit = LIMITS.chunk_bytes // max(self._dataset.share_bytes(1), 1)
        else:
            row_bytes = self._dataset.row_bytes
            units, limit = unit_edges(self._dataset.chunk_edges, row_bytes), LIMITS.band_bytes // row_bytes
        return cut_edges(units, max(limit, 1)).tolist()
