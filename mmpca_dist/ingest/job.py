"""Ingest: any labelled table into a chunked Zarr group with checksums."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError
from mmpca_dist.faults import asking, who_asks
from mmpca_dist.ingest.csv import CsvRows
from mmpca_dist.ingest.destination import Destination
from mmpca_dist.ingest.group_writer import ZarrWriter, zarr_writer
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.ingest.row_source import LABELS, Progress, RowSource
from mmpca_dist.ingest.sources import open_table
from mmpca_dist.ingest.to_parquet import check_typed, refuse_choices, write_parquet
from mmpca_dist.stores import storage
from mmpca_dist.stores.overlaps import refuse_inside, refuse_overlap
from mmpca_dist.tables.changes import unchanged
from mmpca_dist.tables.column_scatter import ColumnSpread, dominance_note, dominant_columns
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.readers.csr import value_type
from mmpca_dist.tables.readers.formats import text_form
from mmpca_dist.tables.readers.parquet_folders import SUFFIXES

SUM_BYTES = 4 * 8
"""Bytes for each column: mean and squares, of a block and of all rows."""
LISTED_CLASSES = 100
"""Manifests give the number of rows of each class up to this many classes."""


def ingest(config: IngestConfig, progress: Progress, note: Callable[[str], None]) -> dict[str, Any]:
    """Write a labelled table as a Zarr group of rows ``X`` (n, d) and labels ``y`` (n,), a few blocks at a time.

    A destination that ends with ``.parquet`` gets all columns of CSV with their types, text among them, or the rows of
    a table of Delta Lake. Sparse rows stay sparse: ``X`` is then a group of arrays ``data``, ``indices`` and
    ``indptr``, as AnnData has it.

    ``progress`` is called with how much is read, and of how much: in rows, for text in bytes of the file; ``note`` with
    what the user should know. Returned is, for JSON, what was written, its rows of each class, its bytes and seconds.

    Raises InputError for a source that is no table of finite numbers with one label a row, or that changes meanwhile,
    and leaves nothing at the destination; OutputError where that may not be replaced, lies inside a run or a data set,
    or another ingest writes there; PlanError where the rows do not fit the disk.
    """
    started = time.monotonic()
    if config.destination.endswith(SUFFIXES):
        refuse_choices(config)
        origin, target = storage.normalize(config.source), storage.normalize(config.destination)
        manifest = write_parquet(origin, target, config, progress, note)
    else:
        target, origin, *labels = _addresses(config)
        config.check()
        Destination.of(target).prepare(config.replaces, note)
        with unchanged(origin, *labels) as check, asking(replace(who_asks(), settings="options")):
            manifest = _write(open_table(config, origin), target, config, progress, note, check)
    return {"source": origin, "destination": target, **manifest, "seconds": round(time.monotonic() - started, 3)}


def _write(
    rows: RowSource, destination: str, config: IngestConfig, progress: Progress, note: Callable[[str], None],
    check: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    is_guessed = config.label is None and rows.labels is not None
    told = list(rows.notes)
    for line in told:
        note(line)
    if is_guessed:
        labels = f"{rows.labels}," if "," in str(rows.labels) else rows.labels
        note(f"Labels are taken from {labels} of {rows.uri}, since none was named. Name another with --label.")
    as_csr = rows.sparse if config.sparse is None else config.sparse
    shape = _image_shape(rows, config.image_shape)
    dtype = np.dtype(config.dtype or rows.dtype).newbyteorder("=")
    if dtype.itemsize > 8:
        raise InputError(f"{rows.uri} has columns of type {dtype}; convert them to float64.")
    dtype = value_type(dtype) if as_csr else dtype
    columns = [*([] if config.unlabelled else [LABELS]), *config.keep]
    with zarr_writer(destination, rows, dtype, columns, sparse=as_csr, overwrite=config.replaces) as writer:
        heavy = _copy(rows, writer, dtype, as_csr, progress)
        check()
        for line in rows.notes[len(told) :]:
            note(line)
        optional = {
            "feature_names": rows.feature_names, "dominant_columns": heavy, "image_shape": shape,
            "from_zero": getattr(rows, "first_index", 1) == 0,
        }  # fmt: skip
        attributes = {name: value for name, value in optional.items() if value}
        classes, n_bytes = writer.finish(attributes, rows.label_values)
    warning = dominance_note(heavy, rows.feature_names, rows.n_features)
    if warning is not None and not config.unlabelled:
        note(warning)
    class_rows = {"class_rows": {str(name): count for name, count in classes.items()}}
    return {
        "rows": writer.n_rows, "columns": rows.n_features, "dtype": str(dtype), "sparse": as_csr,
        "labels": rows.labels, "labels_guessed": is_guessed, "kept": config.keep, "classes": len(classes),
        **(class_rows if len(classes) <= LISTED_CLASSES else {}), "bytes": n_bytes,
    }  # fmt: skip


def _image_shape(rows: RowSource, image_shape: tuple[int, int] | None) -> list[int]:
    shape = tuple(image_shape or rows.image_shape or ())
    if shape and (len(shape) != 2 or int(np.prod(shape)) != rows.n_features):
        raise InputError(f"image_shape {shape} does not make {rows.n_features} columns, which {rows.uri} has.")
    return [int(size) for size in shape]


def _copy(
    rows: RowSource, writer: ZarrWriter, dtype: np.dtype, as_csr: bool, progress: Progress
) -> list[tuple[int, float]]:
    """Write all rows, and return the columns that hold nearly all of their scatter."""
    sums = f"A sum for each of {rows.n_features:,} columns of {rows.uri}"
    refuse_larger(SUM_BYTES * rows.n_features, sums, "Take fewer columns")
    spread = ColumnSpread(rows.n_features)
    for block in rows.blocks():
        _refuse_not_finite(block.rows, dtype, writer.n_rows, rows)
        spread.add(block.rows)
        writer.append(replace(block, rows=csr_array(block.rows.astype(dtype, copy=False))) if as_csr else block)
        progress(block.done, max(rows.total, block.done))
        del block  # before the next one is read
    return dominant_columns(spread.squares)


def check_ingest(config: IngestConfig, note: Callable[[str], None]) -> None:
    """Refuse what can be refused at once, as ``ingest`` does: an occupied destination, an absent file, its columns.

    The first block of CSV and the metadata of other tables are looked at; where one column cannot be used, all of CSV
    is read to name the others. ``note`` is called with what may be wrong.
    """
    if config.destination.endswith(SUFFIXES):
        check_typed(storage.normalize(config.source), storage.normalize(config.destination), config)
        return
    target, origin, *_ = _addresses(config)
    if storage.is_local(origin) and not origin.startswith(storage.NAMED):
        storage.require(origin)
    Destination.of(target).prepare(config.replaces, note)
    if text_form(origin) == "libsvm":
        return
    config.check()
    with asking(replace(who_asks(), settings="options")):
        rows = open_table(config, origin)
        if not isinstance(rows, CsvRows) or (block := next(rows.blocks(), None)) is None:
            return
        _refuse_not_finite(block.rows, rows.dtype, 0, rows)
        counts = (np.diff(block.rows, axis=0) == 1).all(axis=0) & (len(block.rows) > 2)
        for j in np.flatnonzero(counts).tolist():
            name = rows.name_of(rows.features[j])
            note(f"Column {name!r} only counts the rows: leave it out with --drop, unless it is a measurement.")


def _addresses(config: IngestConfig) -> list[str]:
    """Return the destination, then what is read; refuse to write where rows or labels are, or into what is there."""
    origin, target = storage.normalize(config.source), storage.normalize(config.destination)
    inputs = [origin]
    if isinstance(config.label, str) and origin.endswith(".npy"):
        inputs.append(storage.normalize(config.label))
    for uri in inputs:
        refuse_overlap(uri, target)
        refuse_overlap(uri, Destination.of(target).work)
    refuse_inside(target)
    return [target, *inputs]


def _refuse_not_finite(X: Any, dtype: np.dtype, first_row: int, source: RowSource) -> None:
    if X.dtype.kind != "f":
        return
    values = X.data if issparse(X) else X
    with np.errstate(over="ignore"):
        finite = np.isfinite(values if dtype.itemsize >= values.dtype.itemsize else values.astype(dtype))
    if finite.all():
        return
    if (error := source.refusal()) is not None:
        raise error
    if issparse(X):
        row, column = (int(coordinate[np.argmin(finite)]) for coordinate in X.tocoo().coords)
    else:
        row, column = divmod(int(np.argmin(finite)), X.shape[1])
    value = X[row, column]
    title = f"{column} ({source.feature_names[column]!r})" if source.feature_names else str(column)
    fault = "NaN" if np.isnan(value) else f"{value:g}, infinite or too large a number for {dtype},"
    raise InputError(
        f"Feature {title} of {source.uri} has {fault} in {source.where(first_row + row)}. Features must be finite "
        "numbers: fill it, or drop the row."
    )
