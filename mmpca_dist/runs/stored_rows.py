"""Rows in memory, or lazy, as files that stages can read."""

from __future__ import annotations

import io
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.passes.dask_rows import whole_rows
from mmpca_dist.runs.row_tables import CHECKED
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.tables.dataset import Dataset, default_chunk_rows
from mmpca_dist.tables.foreign import ForeignTable, as_table, labels_of
from mmpca_dist.tables.labels import normalize_labels
from mmpca_dist.tables.readers.memory import CSR_PARTS


def stored_rows(X: Any, y: Any, folder: str) -> dict[str, Any]:
    """Write rows and labels into a folder, and return the section ``dataset`` of a configuration that reads them.

    A folder that holds the same rows already is left as it is.

    Data frames in memory become Parquet, as they may hold text and gaps; ``y`` may name a column. Dask arrays become
    Zarr, piece by piece; other rows a ``.npz`` file. Raises InputError for what is no table, or is in files already.
    """
    if isinstance(y, str) and y in getattr(X, "columns", ()):
        y, X = X[y], X[[name for name in X.columns if name != y]]
    y, table, names = labels_of(y, X), as_table(X), None
    if isinstance(table, ForeignTable):
        names, table = getattr(table.sample, "columns", None), table.rows
    if isinstance(table, Dataset):
        raise InputError(f"{table.uri} is in files already: name it by dataset.uri of a configuration.")
    if issparse(getattr(table, "_meta", None)):
        table = table.compute()
    labels = None if y is None else normalize_labels(dask.compute(y)[0], "y")
    n_rows = getattr(table, "shape", (None,))[0]
    if labels is not None and isinstance(n_rows, int) and len(labels) != n_rows:
        raise InputError(f"X has {n_rows:,} rows, and y {len(labels):,} labels.")
    buffer, uri = io.BytesIO(), storage.join(folder, "rows")
    if hasattr(table, "columns"):
        frame = table.to_arrow() if hasattr(table, "to_arrow") else pa.Table.from_pandas(table, preserve_index=False)
        name = next(name for name in ("label", "y", "label of rows") if name not in frame.column_names)
        frame = frame if labels is None else frame.append_column(name, pa.array(labels.tolist()))
        pq.write_table(frame, buffer)
        _keep(f"{uri}.parquet", buffer.getvalue())
        return {"uri": f"{uri}.parquet"} | ({} if labels is None else {"label": name})
    y = {} if labels is None else {"y": labels}
    if dask.is_dask_collection(table):
        _write_zarr(f"{uri}.zarr", table, y, names)
        return {"uri": f"{uri}.zarr"}
    parts: dict[str, Any] = {"X": table}
    if issparse(table):
        rows = csr_array(table)
        parts = {name: getattr(rows, name) for name in CSR_PARTS}
    np.savez(buffer, **parts, **y)
    _keep(f"{uri}.npz", buffer.getvalue())
    return {"uri": f"{uri}.npz"}


def _keep(uri: str, content: bytes) -> None:
    """Write a file, or leave it where it holds the same."""
    if not storage.exists(uri):
        storage.write_bytes(uri, content)
    elif storage.read_bytes(uri) != content:
        raise OutputError(f"{uri} holds other rows, of an earlier call. Name another folder.")


def _write_zarr(uri: str, X: da.Array, y: dict[str, Any], names: Any) -> None:
    if storage.exists(uri):
        raise OutputError(f"{uri} holds the rows of an earlier call. Name another folder.")
    X = whole_rows(X.compute_chunk_sizes() if np.isnan(X.shape[0]) else X)
    X = X.rechunk((default_chunk_rows(X.shape[1] * X.dtype.itemsize), -1))
    group = zarr_stores.open_group(uri, "a")
    for name, values in {"X": X, **{name: da.from_array(labels, -1) for name, labels in y.items()}}.items():
        form: dict[str, Any] = {"dtype": str} if values.dtype.kind == "U" else {"dtype": values.dtype, **CHECKED}
        stored = group.create_array(name, shape=values.shape, chunks=values.chunksize, **form)
        da.store(values, stored, lock=False)  # type: ignore[arg-type]
    group.attrs.update({} if names is None else {"feature_names": list(names)})
