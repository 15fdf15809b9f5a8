"""Tables that tests make: labelled rows in memory, files of them in every format, and configurations over them."""

import io
import json
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
import zarr
from scipy.sparse import csr_array
from sklearn.impute import SimpleImputer

from mmpca_dist import open_dataset
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.methods.base.registry import METHODS


def labelled(n, d, n_classes, seed, *, mean=3.0, separation=1.5):
    """Return rows with a spectrum that falls (so that eigenvectors are well separated) and unequal classes."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2)
    y = rng.choice(n_classes, size=n, p=shares)
    y[:n_classes] = np.arange(n_classes)
    scales = 2.0 ** (-np.arange(d) / 2)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    X = rng.standard_normal((n, d)) * scales + separation * rng.standard_normal((n_classes, d))[y] * scales
    return X @ rotation + mean, y


def entangled(n, d, seed, n_classes=3):
    """Rows whose classes overlap, so that neighbours often lie in other cells."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1)), rng.integers(0, n_classes, n)


def counts_like_text(n, d, n_classes, seed, *, dtype="float32", share=0.2):
    """Return CSR rows as (data, indices, indptr), dense, and labels; columns of different weight, so that spectra fall.

    The columns of a row are in no order, some of the values are zeros, and the first, a middle and the last row have
    none.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    rates = rng.uniform(0.2, 1, (n_classes, d))[y] * share * 2
    present = rng.random((n, d)) < rates
    present[[0, n // 2, n - 1]] = False
    values = rng.integers(0, 5, (n, d)) * (1 + 2 * (np.arange(d) % 5))
    kept = [rng.permutation(np.flatnonzero(row)) for row in present]
    indices = np.concatenate(kept)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in kept])])
    data = values[np.repeat(np.arange(n), np.diff(indptr)), indices].astype(dtype)
    return (data, indices.astype(np.int32), indptr.astype(np.int32)), np.where(present, values, 0).astype(dtype), y


def mixed(n, d, n_classes, seed):
    """Return rows of few directions and noise, whose path lets columns leave, with unequal scales and a far mean."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    hidden = rng.standard_normal((n, 3)) + y[:, None] * rng.standard_normal(3)
    X = hidden @ rng.standard_normal((3, d)) + 0.5 * rng.standard_normal((n, d))
    return X * np.logspace(-1, 1, d) + 7, y


def with_targets(n, d, q, seed, mean=3.0):
    """Return rows, and targets that follow them with noise."""
    X, _ = labelled(n, d, 2, seed, mean=mean)
    rng = np.random.default_rng(seed)
    Y = (X - mean) @ rng.standard_normal((d, q)) + 0.5 * rng.standard_normal((n, q)) + mean
    return X, Y


def clusters(n=4000, d=500, k=5):
    """Return rows around k centres, and labels."""
    rng = np.random.default_rng(3)
    y = rng.integers(k, size=n)
    return rng.standard_normal((n, d)) + 2 * np.eye(k, d)[y], y


def with_gaps(n, d, seed=1, mean=0.0):
    """Return rows of which about a fifth of the values of some columns are missing, and labels."""
    X, y = labelled(n, d, 3, seed=seed)
    y[:6] = [0, 1, 2, 0, 1, 2]
    X = X + mean
    bad = np.random.default_rng(seed).random(X.shape) < 0.2
    bad[:, ::3], bad[:6] = False, False
    return np.where(bad, np.nan, X), y


def filled(X):
    return SimpleImputer().fit_transform(X)


def write_zarr(path, X, y=None, chunk=25, *, columns=None, labels_in=None, names=None, v2=False, everywhere=False,
               beside=(), **options):  # fmt: skip
    """Write a group: X in chunks of rows with options, y and columns beside it in chunks of ``labels_in`` rows."""
    group = zarr.open_group(str(path), mode="w", zarr_format=2 if v2 else 3)
    for name, values in {"X": X, "y": y, **dict(beside)}.items():
        if values is not None:
            values, size = np.asarray(values), chunk if name == "X" else labels_in or chunk
            chunks = (size, *(columns or max(width, 1) for width in values.shape[1:]))
            more = options if name == "X" or everywhere else {}
            group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype, **more)[...] = values
    if names is not None:
        group.attrs["feature_names"] = list(names)
    return str(path)


def write_csr(path, parts, shape, *, v2=False, chunks=50, name="X", form="csr_matrix", labels=None, **options):
    """Write a CSR matrix by hand as AnnData lays it out, and labels ``y`` where there are any."""
    group = zarr.open_group(str(path), mode="w", zarr_format=2 if v2 else 3)
    matrix = group.create_group(name)
    matrix.attrs.update({"encoding-type": form, "encoding-version": "0.1.0", "shape": [int(size) for size in shape]})
    for part, values in zip(("data", "indices", "indptr"), parts, strict=True):
        values = np.asarray(values)
        whole = {"config": {"write_empty_chunks": True}, **options}
        matrix.create_array(part, data=values, chunks=(min(chunks, max(len(values), 1)),), **whole)
    if labels is not None:
        group.create_array("y", data=np.asarray(labels), chunks=(30,))
    return str(path)


def write_parquet(path, X, labels=None, names=None, *, size=25, **beside):
    """Write columns beside the features, these, and a column ``label``; no numbers are nulls."""
    names = [f"f{j}" for j in range(X.shape[1])] if names is None else names
    columns = {**beside, **dict(zip(names, X.T, strict=True)), **({} if labels is None else {"label": labels})}
    for name, values in columns.items():
        columns[name] = values if isinstance(values, pa.Array) else pa.array(values, from_pandas=True)
    pq.write_table(pa.table(columns), path, row_group_size=size)
    return str(path)


def write_npz(path, X, y=None, *, sparse=False, **beside):
    """Write rows, dense or as the parts of CSR ones, and labels."""
    rows = {"X": X}
    if sparse:
        X = csr_array(X)
        rows = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "format": "csr"}
    np.savez(path, **rows, **({} if y is None else {"y": y}), **beside)
    return str(path)


def npy(shape, n_bytes=64, descr="<f8"):
    file = io.BytesIO()
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    file.write(b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n" + bytes(n_bytes))
    return file.getvalue()


def write(kind, path, X, y, names=None, **beside):
    """Write a table with columns beside the rows; its ending is its kind."""
    if kind == "zarr":
        return write_zarr(f"{path}.zarr", X, y, 13, labels_in=29, names=names, beside=beside)
    if kind == "parquet":
        return write_parquet(f"{path}.parquet", X, None, names, size=17, y=y, **beside)
    if kind == "csv":
        pd.DataFrame(X, columns=names).assign(**beside, label=y).to_csv(f"{path}.csv", index=False)
        return f"{path}.csv"
    if kind == "csr":
        parts = X.ravel(), np.tile(np.arange(X.shape[1]), len(X)), np.arange(0, X.size + 1, X.shape[1])
        return write_csr(f"{path}.zarr", parts, X.shape, labels=y)
    return write_npz(f"{path}.npz", X, y, **beside)


ROWS, COLUMNS = 20, 3
X, Y = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)), np.arange(ROWS) % 2


def write_small(path, version=3, rows=X, labels=Y, **options):
    """Write these rows in two chunks, and labels in one, with the same options."""
    return Path(write_zarr(path, rows, labels, 10, labels_in=ROWS, v2=version == 2, everywhere=True, **options))


def change(folder, array, **changes):
    path = Path(folder) / array / "zarr.json"
    found = json.loads(path.read_text())
    for key, value in changes.items():
        if key == "chunk":
            found["chunk_grid"]["configuration"]["chunk_shape"] = value
        else:
            found[key] = value
    path.write_text(json.dumps(found))


def read_back(uri):
    dataset = open_dataset(uri)
    return dataset.read_rows(0, dataset.n_rows), dataset.read_labels(0, dataset.n_rows)


def in_form(form, X, y, path):
    """Return the same rows and their labels as an array, a list, a frame, CSR rows, Dask arrays, or a data set."""
    if form == "data set":
        return open_dataset(write_zarr(path / "rows.zarr", X, y, 5, labels_in=30)), None
    make = {
        "array": np.asarray, "list": np.ndarray.tolist, "csr": csr_array,
        "frame": lambda rows: pd.DataFrame(rows).add_prefix("c"),
        "dask": lambda rows: da.from_array(rows, (7, 3)), "dask rows": lambda rows: da.from_array(rows, (7, -1)),
    }  # fmt: skip
    return make[form](X), da.from_array(y, 5) if form == "dask" else y.tolist() if form == "list" else y


def content_of(output, uri="bundled:iris", **changes):
    """Return the settings of a run. Sections are mappings, ``dataset`` adds to the address, and None is the default."""
    content = {"methods": ["pca"], "n_components": [2], "output": str(output), **changes}
    content["dataset"] = {"uri": str(uri), **content.get("dataset", {})}
    return {name: value for name, value in content.items() if value is not None}


def write_config(path, output, uri="bundled:iris", **changes):
    path.write_text(yaml.safe_dump(content_of(output, uri, **changes)), encoding="utf-8")
    return str(path)


def config_of(output, uri="bundled:digits", **changes):
    """Return a configuration of such settings, of double precision."""
    return parse_config(content_of(output, uri, **{"precision": "double", **changes}), "the test")


def auto(output, uri="bundled:iris", **changes):
    """Return a configuration that leaves the number of components to the run."""
    return config_of(output, uri, **{"n_components": "auto", **changes})


def make_config(output, uri="bundled:digits", **changes):
    """Return a configuration of every method."""
    return config_of(output, uri, **{"methods": list(METHODS), "n_components": [2, 5], **changes})
