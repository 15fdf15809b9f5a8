"""Rows in memory, or lazy, as files that stages can read."""

from __future__ import annotations

import io
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.passes.dask_rows import whole_rows
from mmpca_dist.runs.projection import CHECKED
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.tables.dataset import Dataset, default_chunk_rows
from mmpca_dist.tables.foreign import ForeignTable, as_table, labels_of
from mmpca_dist.tables.labels import normalize_labels


def stored_rows(X: Any, y: Any, folder: str) -> dict[str, Any]:
    """Write rows, and labels if there are any, below a folder, and return the section ``dataset`` that reads them.

    Data frames in memory become Parquet, so that they may hold text, gaps, groups and weights; ``y`` may name one of
    their columns. Dense arrays become Zarr, piece by piece, and sparse rows a ``.npz`` file.

    Raises
    ------
    InputError
        For what is no table, or is in files already.
    OutputError
        Where the folder holds rows already.
    """
    if storage.exists(folder):
        raise OutputError(f"{folder} holds the rows of an earlier call. Name another folder.")
    if isinstance(y, str) and hasattr(X, "columns") and y in X.columns:
        y, X = X[y], X.drop(columns=[y]) if hasattr(X, "iloc") else X.drop(y)
    y, table = labels_of(y, X), as_table(X)
    names = None
    if isinstance(table, ForeignTable):
        names, table = getattr(table.sample, "columns", None), table.rows
    if isinstance(table, Dataset):
        raise InputError(f"{table.uri} is in files already: name it by dataset.uri of a configuration.")
    y = None if y is None else np.asarray(y.compute() if dask.is_dask_collection(y) else y)
    if hasattr(table, "columns"):
        return _as_parquet(table, y, storage.join(folder, "rows.parquet"))
    y = {} if y is None else {"y": normalize_labels(y, "y")}
    if issparse(getattr(table, "_meta", table)):
        rows = csr_array(table.compute() if dask.is_dask_collection(table) else table)
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": np.asarray(rows.shape)}
        uri = storage.join(folder, "rows.npz")
        buffer = io.BytesIO()
        np.savez(buffer, **parts, **y)
        storage.write_bytes(uri, buffer.getvalue())
        return {"uri": uri}
    return _as_zarr(table, y, names, storage.join(folder, "rows.zarr"))


def _as_parquet(frame: Any, y: Any, uri: str) -> dict[str, Any]:
    table = frame.to_arrow() if hasattr(frame, "to_arrow") else pa.Table.from_pandas(frame, preserve_index=False)
    label = {}
    if y is not None:
        name = next(name for name in ("label", "y", "label of rows") if name not in table.column_names)
        table, label = table.append_column(name, pa.array(normalize_labels(y, "y").tolist())), {"label": name}
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    storage.write_bytes(uri, buffer.getvalue())
    return {"uri": uri, **label}


def _as_zarr(X: Any, y: dict[str, Any], names: Any, uri: str) -> dict[str, Any]:
    X = whole_rows(X) if dask.is_dask_collection(X) else da.from_array(np.asarray(X))
    X = X.compute_chunk_sizes() if np.isnan(X.shape[0]) else X
    X = X.rechunk((default_chunk_rows(X.shape[1] * X.dtype.itemsize), -1))
    arrays = {"X": X, **{name: da.from_array(values, -1) for name, values in y.items()}}
    for name, values in arrays.items():
        kind = str if values.dtype.kind == "U" else values.dtype
        checks = {} if kind is str else CHECKED
        location = zarr_stores.zarr_location(storage.join(uri, name))
        stored = zarr.create_array(location, shape=values.shape, chunks=values.chunksize, dtype=kind, **checks)
        da.store(values, stored, lock=False)  # type: ignore[arg-type]
    zarr_stores.open_group(uri, "a").attrs.update({} if names is None else {"feature_names": list(names)})
    return {"uri": uri}
