"""AnnData's files as its documentation lays them out, written with h5py alone."""

import h5py
import numpy as np
from scipy.sparse import csr_array, issparse

TEXT = h5py.string_dtype()


def as_text(values):
    return np.asarray([str(value) for value in values], dtype=object)


def write_column(group, name, values, kind="category"):
    """Write a column of a table: categories (None for none), text, a masked array of integers, or numbers."""
    values = np.asarray(values)
    if kind == "category":
        known = np.asarray([value is not None for value in values.tolist()])
        levels = sorted({str(value) for value in values[known].tolist()})
        column = group.create_group(name)
        column.attrs.update({"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False})
        column.create_dataset("categories", data=as_text(levels), dtype=TEXT)
        codes = [levels.index(str(value)) if value is not None else -1 for value in values.tolist()]
        column.create_dataset("codes", data=np.asarray(codes, np.int8))
    elif kind == "masked":
        column = group.create_group(name)
        column.attrs.update({"encoding-type": "nullable-integer", "encoding-version": "0.1.0"})
        column.create_dataset("values", data=np.asarray([value or 0 for value in values.tolist()]))
        column.create_dataset("mask", data=np.asarray([value is None for value in values.tolist()]))
    else:
        column = group.create_dataset(name, data=as_text(values) if kind == "text" else values,
                                      dtype=TEXT if kind == "text" else None)  # fmt: skip
        column.attrs.update(
            {"encoding-type": "string-array" if kind == "text" else "array", "encoding-version": "0.2.0"}
        )


def write_table(file, name, index, columns):
    group = file.create_group(name)
    group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
    group.attrs["column-order"] = np.asarray(list(columns), dtype=TEXT)
    write_column(group, "_index", index, "text")
    for column, (values, kind) in columns.items():
        write_column(group, column, values, kind)


def write_matrix(file, name, X, **options):
    if not issparse(X):
        file.create_dataset(name, data=X, **options).attrs.update(
            {"encoding-type": "array", "encoding-version": "0.2.0"}
        )
        return
    rows = csr_array(X) if X.format != "csc" else X
    group = file.create_group(name)
    kind = {"encoding-type": f"{rows.format}_matrix", "encoding-version": "0.1.0"}
    group.attrs.update({**kind, "shape": np.asarray(rows.shape)})
    for part in ("data", "indices", "indptr"):
        group.create_dataset(part, data=getattr(rows, part), **options)


def write_h5ad(path, X, obs, names=None, layers=None, **options):
    """Write rows, a table ``obs`` of (values, kind) by name, and names of the variables; return the path."""
    names = [f"g{i}" for i in range(X.shape[1])] if names is None else names
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        write_matrix(file, "X", X, **options)
        write_table(file, "obs", [f"cell{i}" for i in range(X.shape[0])], obs)
        write_table(file, "var", names, {})
        for name, rows in (layers or {}).items():
            write_matrix(file, f"layers/{name}", rows)
    return str(path)
