"""Open a data set by its address."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.datasets.readers.formats import Request, format_of
from mmpca_dist.datasets.readers.named_columns import refuse_missing_names
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError
from mmpca_dist.settings import as_named, setting_name, settings_named


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
    request = Request(
        storage.normalize(uri), os.fspath(uri), features, label, drop=drop, beside=beside or {},
        missing_chunks=missing_chunks,
    )  # fmt: skip
    reader = format_of(request.uri)
    dataset = reader.open(request)
    if drop and not reader.columns:
        raise InputError(
            f"{setting_name('drop')} is {list(drop)}, but {dataset.uri} is {reader.title}: its columns have no names "
            "to leave them out by."
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
    request = Request(
        storage.normalize(uri), os.fspath(uri), features, label, labelled or label is not None, names,
        missing_chunks=missing_chunks,
    )  # fmt: skip
    dataset = format_of(request.uri).open(request)
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
    with settings_named(as_named(setting)):
        return open_rows(
            dataset.uri, features=dataset.features, label=name, names=names, missing_chunks=dataset.missing_chunks
        )
