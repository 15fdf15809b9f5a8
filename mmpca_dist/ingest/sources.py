"""Sources of ingest, by their formats, and the rows of data sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Setting
from mmpca_dist.ingest.csv import CsvRows
from mmpca_dist.ingest.libsvm import LibsvmRows
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.ingest.row_source import LABELS, RowBlock, RowSource, encode_block
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.compose import column_of, compose, label_plays
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import notes_on_missing, refuse_made_up
from mmpca_dist.tables.readers.formats import Request, open_source, text_form
from mmpca_dist.tables.readers.named_columns import ColumnRows, refuse_gaps
from mmpca_dist.tables.source import readable
from mmpca_dist.tables.spans import cut_edges, unit_edges
from mmpca_dist.tables.values import names


def open_table(selection: IngestConfig, uri: str) -> RowSource:
    """Open a source of any format; raise InputError where that cannot honour an option, or it is no such file."""
    form = text_form(uri)
    is_csv, is_libsvm = form == "csv", form == "libsvm"
    _refuse_options(selection, uri, is_csv, is_libsvm)
    dtype = np.dtype(selection.dtype or "float32")
    if is_csv:
        return CsvRows(uri, dtype, selection)
    if is_libsvm:
        how = {name: getattr(selection, name) for name in ("numbers", "n_features", "first_index")}
        return LibsvmRows(uri, dtype, selection.sparse, **how)
    label = None if selection.label is None else str(selection.label)
    source = open_source(
        Request(
            storage.normalize(uri), uri, selection.features, label, drop=selection.drop, by_columns=True,
            beside=dict.fromkeys(selection.keep, Setting("keep")), missing_chunks=selection.missing_chunks,
            missing_values=tuple(map(str, selection.missing_values)), decimal=selection.decimal,
        )
    )  # fmt: skip
    dataset = compose(source, label_plays())
    refuse_gaps(source, selection.keep)
    if source.label in selection.keep:
        raise InputError(f"--keep names {source.label!r}, which is the label of {uri}.")
    keep = {name: column_of(source, name, Setting("keep")) for name in selection.keep}
    return DatasetRows(dataset, selection.sparse, keep)


def _refuse_options(selection: IngestConfig, uri: str, is_csv: bool, is_libsvm: bool) -> None:
    """Refuse options that the format of a source cannot honour."""
    if selection.unlabelled and selection.label is not None:
        raise InputError(
            f"--label names {selection.label!r}, and --unlabelled says that there are no labels: leave out one."
        )
    if selection.unlabelled and not is_csv:
        raise InputError(
            f"--unlabelled is for CSV, which {uri} is not: rows of Zarr, Parquet and NumPy without labels are "
            "projected as they are."
        )
    idle = ("features", "label", "drop", "keep") if is_libsvm else ("features",) if is_csv else ()
    for option in idle:
        if (value := getattr(selection, option)) not in (None, [], ()):
            what = "CSV" if is_csv else "LIBSVM text, whose lines begin with labels; its columns have no names"
            raise InputError(f"{option}={value!r} cannot be honoured: {uri} is {what}. Leave it out.")


class DatasetRows(RowSource):
    """The rows of a data set, made dense by ``sparse=False``, and other columns of names, ``keep``, as its labels."""

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
            note
            for name, column in self._columns.items()
            for note in notes_on_missing(column, "class" if name == LABELS else "name")
        ]

    def blocks(self) -> Iterator[RowBlock]:
        if not self.total:
            return
        edges = self._edges()
        buffer = np.empty((0 if self.sparse else max(np.diff(edges)), self.n_features), self.dtype)
        missing = {name: column.missing for name, column in self._columns.items() if column.missing is not None}
        n_filled = dict.fromkeys(missing, 0)
        for start, stop in itertools.pairwise(edges):
            with readable(self._dataset.describe_chunk(start)):
                if self.sparse:
                    rows = self._dataset.read_sparse(start, stop)
                else:
                    rows = self._dataset.read_rows(start, stop, buffer[: stop - start])
                columns = self._columns.items()
                values = {name: names(*self._dataset.beside(column, start, stop)) for name, column in columns}
            for name, lacking in missing.items():
                n_filled[name] += int(np.count_nonzero(values[name] == lacking.fill))
            codes = {
                name: encode_block(found, self.uri if name == LABELS else f"{name!r} of {self.uri}")
                for name, found in values.items()
            }
            yield RowBlock(rows, codes, stop)
        for name, n_rows in n_filled.items():
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
