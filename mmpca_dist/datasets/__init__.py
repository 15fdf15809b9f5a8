"""Labelled rows in: Zarr, Parquet, NumPy files, bundled and synthetic data, arrays in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.arrays import ArrayDataset, LoadedDataset
from mmpca_dist.datasets.base import Dataset, Finding, Span, make_spans
from mmpca_dist.datasets.npy import NpyDataset
from mmpca_dist.datasets.parquet_folders import holds_parquet
from mmpca_dist.datasets.parquet_rows import ParquetDataset, refuse_missing_names
from mmpca_dist.datasets.sparse_rows import open_zarr
from mmpca_dist.datasets.synthetic import open_synthetic
from mmpca_dist.datasets.zarr_groups import ZarrGroupRows
from mmpca_dist.errors import InputError

__all__ = ["ArrayDataset", "Dataset", "Finding", "Span", "make_spans", "open_column", "open_dataset", "open_rows"]

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
    drop: Sequence[str] = (),
    beside: Mapping[str, str] | None = None,
    missing_chunks: str = "refuse",
) -> Dataset:
    """Open a labelled data set; only metadata is read.

    Parameters
    ----------
    uri : str or path
        A Zarr group (of dense rows, or of CSR rows as AnnData lays them out), a Parquet file or folder, a ``.npz``
        file (of arrays, or of a CSR matrix), a ``.npy`` file (give the labels' file as ``label``), as a path or any
        fsspec URL; ``bundled:digits|breast_cancer|wine|iris`` (``?classes=0,1&noise=4&seed=0`` chooses classes and
        adds Gaussian noise of that standard deviation); ``synthetic:gaussian?n=...&d=...`` or
        ``synthetic:clusters?...``.
    features : str, optional
        The array, or group of a CSR matrix, that holds the rows (default ``"X"``); for Parquet a fixed-size-list
        column (default: all columns beside the label).
    label : str, optional
        The array of labels (default ``"y"``), or a column of AnnData's table, such as ``"obs/cell_type"``; for
        Parquet a column (default ``"label"`` or ``"y"``).
    drop : sequence of str
        Columns of Parquet that are no features, such as an identifier.
    beside : dict, optional
        More such columns, and what has named them, for errors. Where the data set is not Parquet, they are no columns.
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
    dataset = _open(os.fspath(uri), features, label, missing_chunks, drop=drop, beside=beside)
    if drop and not isinstance(dataset, ParquetDataset):
        raise InputError(
            f"dataset.drop is {list(drop)}, but {dataset.uri} is not Parquet: its columns cannot be left out."
        )
    return dataset


def open_rows(
    uri: str | os.PathLike,
    *,
    features: str | None = None,
    label: str | None = None,
    missing_chunks: str = "refuse",
    names: list[str] | None = None,
    labelled: bool = False,
) -> Dataset:
    """Open rows that may do without labels, such as those a fitted model is to transform.

    Parameters
    ----------
    uri, features, label, missing_chunks
        As for ``open_dataset``; a ``label`` that is named must be there.
    names : list of str, optional
        The features that are wanted. Columns of Parquet are taken by these names, whatever their order and whatever
        other columns there are; features of other formats must have them in this order, if they have names at all.
    labelled : bool
        Whether labels must be there, be they named or not.

    Returns
    -------
    Dataset
        Its ``has_labels`` tells whether labels were found.

    Raises
    ------
    InputError
        As for ``open_dataset``, and for features that are not those wanted.
    """
    dataset = _open(os.fspath(uri), features, label, missing_chunks, labelled or label is not None, names)
    found = dataset.feature_names
    if names is not None and found is not None and len(found) == len(names) and found != names:
        refuse_missing_names(dataset.uri, found, names)
        place = next(i for i, (one, other) in enumerate(zip(found, names, strict=True)) if one != other)
        raise InputError(
            f"{dataset.uri} has the features in another order than the model was fitted to: feature {place} is "
            f"{found[place]!r} in place of {names[place]!r}. Reorder its columns."
        )
    return dataset


def open_column(dataset: Dataset, name: str, *, setting: str = "name") -> Dataset:
    """Open a column or array of names beside the rows of a data set, as if it were their labels.

    Parameters
    ----------
    dataset : Dataset
    name : str
    setting : str
        What has named the column, for errors.

    Raises
    ------
    InputError
        Where the data set has no such column.
    """
    if dataset.uri.startswith(storage.NAMED):
        raise InputError(f"{dataset.uri} has no columns but its features, and so none called {name!r} ({setting}).")
    names = dataset.feature_names if dataset.named_columns else None
    features, missing_chunks = None, "refuse"
    if isinstance(dataset, ParquetDataset):
        features = dataset.list_column
    elif isinstance(dataset, LoadedDataset):
        features = dataset.features
    elif isinstance(dataset, ZarrGroupRows):
        features, missing_chunks = dataset.features, dataset.missing_chunks
    try:
        return open_rows(dataset.uri, features=features, label=name, names=names, missing_chunks=missing_chunks)
    except InputError as error:
        found = str(error).replace("(dataset.label)", f"({setting})").replace("no label column", "no column")
        raise type(error)(found) from error


def _open(
    given: str,
    features: str | None,
    label: str | None,
    missing_chunks: str,
    label_required: bool = True,
    names: list[str] | None = None,
    drop: Sequence[str] = (),
    beside: Mapping[str, str] | None = None,
) -> Dataset:
    uri = storage.normalize(given)
    if uri.startswith("bundled:"):
        return LoadedDataset(uri)
    if uri.startswith("synthetic:"):
        return open_synthetic(uri)
    if uri.endswith(".npz"):
        return LoadedDataset(uri, features or "X", label or "y", label_required)
    if uri.endswith(".npy"):
        if label is None and label_required:
            raise InputError(f"{uri} holds rows only: give the .npy file of the labels as dataset.label.")
        return NpyDataset(uri, None if label is None else storage.normalize(label))
    if uri.endswith(TEXT):
        without = "" if label_required else " (with --unlabelled, if it is CSV without labels)"
        raise InputError(f"{uri} is text: turn it into Zarr first, with: mmpca ingest {given} DEST.zarr{without}")
    if uri.endswith((".parquet", ".pq")) or _holds_parquet(uri):
        return ParquetDataset(uri, features, label, label_required, names, drop, beside)
    return open_zarr(uri, features or "X", label or "y", missing_chunks, label_required)


def _holds_parquet(uri: str) -> bool:
    """Tell whether ``uri`` is a folder of Parquet files rather than a Zarr group."""
    if uri.endswith(".zarr"):
        return False
    storage.require(uri)
    fs, path = storage.filesystem(uri)
    with storage.explained(uri):
        is_folder = fs.isdir(path)
    return is_folder and holds_parquet(uri, storage.names_in(uri))
