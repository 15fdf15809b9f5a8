"""Labelled rows in: Zarr, Parquet, NumPy files, bundled and synthetic data, arrays in memory."""

from __future__ import annotations

import os

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.arrays import ArrayDataset, LoadedDataset, NpyDataset
from mmpca_dist.datasets.base import Dataset, Finding, Span, make_spans
from mmpca_dist.datasets.parquet_rows import ParquetDataset
from mmpca_dist.datasets.synthetic import open_synthetic
from mmpca_dist.datasets.zarr_rows import ZarrDataset
from mmpca_dist.errors import InputError

__all__ = ["ArrayDataset", "Dataset", "Finding", "Span", "make_spans", "open_dataset"]

TEXT = tuple(
    name + packed
    for name in (".csv", ".tsv", ".txt", ".libsvm", ".svm", ".svmlight")
    for packed in ("", ".gz", ".bz2", ".xz")
)


def open_dataset(
    uri: str | os.PathLike,
    *,
    features: str | None = None,
    label: str | None = None,
    missing_chunks: str = "refuse",
) -> Dataset:
    """Open a labelled data set; only metadata is read.

    Parameters
    ----------
    uri : str or path
        A Zarr group, a Parquet file or folder, a ``.npz`` file, a ``.npy`` file (give the labels' file as
        ``label``), as a path or any fsspec URL; ``bundled:digits|breast_cancer|wine|iris``;
        ``synthetic:gaussian?n=...&d=...`` or ``synthetic:clusters?...``.
    features : str, optional
        The array that holds the rows (default ``"X"``); for Parquet a fixed-size-list column (default: all
        columns beside the label).
    label : str, optional
        The array of labels (default ``"y"``); for Parquet a column (default ``"label"`` or ``"y"``).
    missing_chunks : {"refuse", "fill"}
        Whether Zarr chunks of rows that are not stored are an error or rows of fill values.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        Where the address, the arrays or the columns do not make a labelled table; the message says what to do.

    Examples
    --------
    >>> from mmpca_dist import open_dataset
    >>> dataset = open_dataset("bundled:iris")
    >>> dataset.n_rows, dataset.n_features
    (150, 4)
    """
    if missing_chunks not in ("refuse", "fill"):
        raise InputError(f"missing_chunks is {missing_chunks!r}; it must be 'refuse' or 'fill'.")
    text = os.fspath(uri)
    if text.startswith("bundled:"):
        return LoadedDataset(text)
    if text.startswith("synthetic:"):
        return open_synthetic(text)
    text = storage.normalize(text)
    if text.endswith(".npz"):
        return LoadedDataset(text, features or "X", label or "y")
    if text.endswith(".npy"):
        if label is None:
            raise InputError(f"{text} holds rows only: give the .npy file of the labels as dataset.label.")
        return NpyDataset(text, storage.normalize(label))
    if text.endswith(TEXT):
        raise InputError(f"{text} is text: turn it into Zarr first, with: mmpca ingest {os.fspath(uri)} DEST.zarr")
    if text.endswith((".parquet", ".pq")) or _holds_parquet(text):
        return ParquetDataset(text, features, label)
    return ZarrDataset(text, features or "X", label or "y", missing_chunks)


def _holds_parquet(uri: str) -> bool:
    """Tell whether ``uri`` is a folder of Parquet files rather than a Zarr group."""
    if uri.endswith(".zarr"):
        return False
    storage.require(uri)
    fs, path = storage.filesystem(uri)
    with storage.explained(uri):
        names = [name.rsplit("/", 1)[-1] for name in fs.ls(path, detail=False)] if fs.isdir(path) else []
    return any(name.endswith((".parquet", ".pq")) for name in names)
