"""Formats of data sets: their registry, and how a data set is opened by its address."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mmpca_dist.errors import InputError, MmpcaError, did_you_mean, some_names
from mmpca_dist.registry import Registry
from mmpca_dist.settings import as_named, setting_name, settings_named
from mmpca_dist.stores import storage
from mmpca_dist.tables.chosen_columns import Columns, listed, with_columns
from mmpca_dist.tables.dataset import Dataset, value_units
from mmpca_dist.tables.levels import Levels
from mmpca_dist.tables.selected_rows import LabelsWithout, SelectedRows


@dataclass(frozen=True)
class Request:
    """What a reader is asked to open, as for ``open_dataset``."""

    uri: str
    typed: str
    """The address as the user typed it."""
    features: str | None = None
    label: str | None = None
    label_required: bool = True
    """Whether labels must be there; rows to be transformed need none."""
    names: list[str] | None = None
    """Columns to take by name, in this order, of formats whose columns have names."""
    drop: Sequence[str] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    missing_chunks: str | None = None
    missing: str = "refuse"
    encode: bool = False
    levels: Sequence[Levels] | None = None
    """Those of the columns of text that a model was fitted to; None where rows tell them."""
    unlabelled: str = "refuse"
    columns: Sequence[str | int] | None = None


@dataclass(frozen=True)
class Format:
    """A format of data sets."""

    name: str
    title: str
    """In messages: ``"a Zarr group"``."""
    open: Callable[[Request], Dataset]
    """Opens a request; reads only metadata."""
    scheme: str = ""
    """How addresses of this format begin, such as ``"synthetic:"``; empty where suffixes tell."""
    suffixes: tuple[str, ...] = ()
    """How addresses of this format end."""
    holds: Callable[[str, Sequence[str]], bool] | None = None
    """Tells whether a folder whose address has no known suffix is in this format, also by the names in it."""
    columns: bool = False
    """Whether its columns have names, so that some can be left out."""
    alone: bool = True
    """Whether an address alone names labelled rows; a folder of new data sets may then hold such files."""

    def is_named_by(self, uri: str) -> bool:
        """Tell whether the beginning or the end of an address names this format."""
        return (bool(self.scheme) and uri.startswith(self.scheme)) or uri.endswith(self.suffixes)


FORMATS = Registry(Format, "mmpca_dist.tables.readers", group="mmpca_dist.formats")


def format_of(uri: str) -> Format:
    """Return the format of a data set, by its address or the content of its folder; Zarr where neither tells."""
    for format in FORMATS.values():
        if format.is_named_by(uri):
            return format
    storage.require(uri)
    return _by_content(uri) or FORMATS["zarr"]


def _by_content(uri: str) -> Format | None:
    with storage.reached(uri) as (fs, path):
        names = storage.names_in(uri) if fs.isdir(path) else []
    holding = (format for format in FORMATS.values() if format.holds is not None and format.holds(uri, names))
    return next(holding, None) if names else None


def is_table(uri: str) -> bool:
    """Tell whether an address names a table, by its beginning or end, or by what is in the folder."""
    if TEXT.is_named_by(uri.lower()) or any(format.is_named_by(uri) for format in FORMATS.values()):
        return True
    return Path(uri).is_dir() and _by_content(uri) is not None


def open_dataset(
    uri: str | os.PathLike,
    *,
    features: str | None = None,
    label: str | None = None,
    drop: Sequence[str] = (),
    beside: Mapping[str, str] | None = None,
    missing_chunks: str | None = None,
    missing: str = "refuse",
    encode: bool = False,
    unlabelled: str = "refuse",
    columns: Columns | None = None,
    unlabelled_value: str | int | None = None,
) -> Dataset:
    """Open a labelled data set; reads only metadata.

    Parameters
    ----------
    uri : str or path
        A path, or a URL of an object store, of a Zarr group (of dense rows, or of CSR rows as AnnData stores them), a
        Parquet file or folder, an Arrow file, an ``.h5ad`` file, or several (a folder, or a pattern such as
        ``atlas/s*.h5ad``), a ``.npz`` file (of arrays, or of a CSR matrix), a ``.npy`` file (give the labels' file as
        ``label``), or a folder of these with labels in Parquet; ``bundled:digits|breast_cancer|wine|iris``
        (``?classes=0,1&noise=4&seed=0`` chooses classes and adds Gaussian noise of that standard deviation);
        ``synthetic:gaussian?n=...&d=...`` or ``synthetic:clusters?...``.
    features : str, optional
        The array, or group of a CSR matrix, that holds the rows (default ``"X"``); for Parquet and Arrow a column of
        lists (default: all columns but the label); of a folder of ``.npy`` files the folder in it.
    label : str, optional
        The array of labels (default ``"y"``), or a column of AnnData's table, such as ``"obs/cell_type"``; for
        Parquet, Arrow and ``.h5ad`` a column (default ``"label"`` or ``"y"``).
    drop : sequence of str
        Columns of Parquet or Arrow that are no features, such as an identifier.
    beside : dict, optional
        More such columns, and the settings that name them, for errors. Other formats ignore them.
    missing_chunks : {"refuse", "fill"}, optional
        Whether Zarr chunks that are not stored are an error or fill values. By default those of rows are an error, and
        those of labels are read as the fill value where that is also the label of other rows.
    missing : {"refuse", "mean"}
        Whether missing values (null) of features are an error, or NaN, which estimators with ``missing="mean"`` take.
    encode : bool
        Whether columns of text in Parquet and Arrow become indicators of their levels, such as ``colour=red``: of two
        levels one column, and one for all that fewer than a thousandth of the rows have. They are read once for it.
    unlabelled : {"refuse", "skip"}
        Whether rows without a label are an error, or left out.
    columns : sequence of str or int, or str, optional
        The features to take, in this order: names or numbers from 0, or the address of a file with one of them a line.
    unlabelled_value : str or int, optional
        A label that says that a row has none.

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
    if missing_chunks not in ("refuse", "fill", None):
        raise InputError(f"missing_chunks is {missing_chunks!r}; it must be 'refuse' or 'fill'.")
    request = Request(
        storage.normalize(uri), os.fspath(uri), features, label, drop=drop, beside=beside or {},
        missing_chunks=missing_chunks, missing=missing, encode=encode, unlabelled=unlabelled,
        columns=None if columns is None else listed(columns),
    )  # fmt: skip
    format = format_of(request.uri)
    dataset = with_columns(format.open(request), request.columns)
    if drop and not format.columns:
        raise InputError(
            f"{setting_name('drop')} is {list(drop)}, but {dataset.uri} is {format.title}: its columns have no names "
            "to leave them out by."
        )
    return labelled_rows(dataset, unlabelled, unlabelled_value)


def labelled_rows(dataset: Dataset, unlabelled: str, value: str | int | None) -> Dataset:
    """Return the rows that have a label, after a look at the labels if some are to be left out (``skip``)."""
    if value is not None and dataset.has_labels:
        dataset = LabelsWithout(dataset, value, refuses=unlabelled == "refuse")
    if unlabelled == "refuse" or all_labelled(dataset):
        return dataset
    return SelectedRows(dataset, dataset.is_labelled, "none has a label")


def all_labelled(dataset: Dataset) -> bool:
    """Tell whether all rows have a label, from a look at the labels."""
    return all(dataset.is_labelled(start, stop).all() for start, stop in value_units(dataset))


def open_rows(
    uri: str | os.PathLike,
    *,
    features: str | None = None,
    label: str | None = None,
    missing_chunks: str | None = None,
    missing: str = "refuse",
    names: list[str] | None = None,
    levels: Sequence[Levels] = (),
    labelled: bool = False,
    unlabelled: str = "refuse",
    columns: Columns | None = None,
    unlabelled_value: str | int | None = None,
) -> Dataset:
    """Open rows that may have no labels, such as those that a fitted model is to transform.

    Parameters are as for ``open_dataset``, and a ``label`` that is named must be there. ``names``, ``levels`` and
    ``columns`` are what a model was fitted to: columns of Parquet and Arrow are taken by these names, in any order and
    among other columns; features of other formats must be in this order, if they have names at all. Text that is new
    has indicators of 0. With ``labelled``, labels must be there even if ``label`` is None. Raises InputError as
    ``open_dataset``, and for features that are not those in ``names``.
    """
    request = Request(
        storage.normalize(uri), os.fspath(uri), features, label, labelled or label is not None, names,
        missing_chunks=missing_chunks, missing=missing, encode=bool(levels), levels=levels or None,
        unlabelled=unlabelled,
    )  # fmt: skip
    dataset = format_of(request.uri).open(request)
    if columns is not None and not dataset.named_columns:
        dataset = _with_columns_of_model(dataset, columns, names)
    stored = None if levels else dataset.feature_names
    if names is not None and stored is not None and len(stored) == len(names) and stored != names:
        refuse_missing_names(dataset.uri, stored, names)
        i = next(i for i, name in enumerate(names) if stored[i] != name)
        raise InputError(
            f"{dataset.uri} has the features in another order than the model was fitted to: feature {i} is "
            f"{stored[i]!r} in place of {names[i]!r}. Reorder its columns."
        )
    return labelled_rows(dataset, unlabelled, unlabelled_value)


def _with_columns_of_model(dataset: Dataset, columns: Columns, names: list[str] | None) -> Dataset:
    """Choose the columns that a model did: by the ``names`` of its features, where both tables have names."""
    if names is None:
        return with_columns(dataset, columns)
    if dataset.feature_names is None:
        return dataset
    refuse_missing_names(dataset.uri, dataset.feature_names, names)
    return with_columns(dataset, names)


def refuse_missing_names(uri: str, stored: Collection[str], names: list[str]) -> None:
    """Refuse features that lack some of the ``names`` that a model was fitted to."""
    stored = set(stored)
    missing = [name for name in names if name not in stored]
    if missing:
        raise InputError(
            f"{uri} lacks {len(missing)} of the {len(names)} features that the model was fitted to: "
            f"{some_names(missing)}.{did_you_mean(missing[0], stored.difference(names))}"
        )


def open_column(dataset: Dataset, name: str, *, setting: str = "name") -> Dataset:
    """Open a column or array of names of the rows of a data set, as if it were their labels.

    ``setting`` says in errors what names the column.
    """
    if dataset.uri.startswith(storage.NAMED):
        raise InputError(f"{dataset.uri} has no columns but its features, and so none called {name!r} ({setting}).")
    stored = dataset.stored
    if (column := stored.with_label(name, setting)) is not None:
        return column
    names = stored.feature_names if stored.named_columns else None
    with settings_named(as_named(setting)):
        return open_rows(
            stored.uri, features=stored.features, label=name, names=names, missing_chunks=stored.missing_chunks
        )


@contextmanager
def reading_with(extra: str, what: str, failure: str, remedy: str) -> Iterator[None]:
    """Turn what a library of an optional dependency raises, which has many types, into one sentence.

    ``what`` says what the data are, ``failure`` what cannot be done, and ``remedy`` what to do then.
    """
    try:
        yield
    except ImportError as error:
        raise InputError(f"{what}. Install 'mmpca-dist[{extra}]' to read it ({error}).") from error
    except (MmpcaError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")[:200]
        raise InputError(f"{failure}: {reason}. {remedy}") from error


COMPRESSED = (".gz", ".bz2", ".xz")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".libsvm", ".svm", ".svmlight")


def stem_of(uri: str) -> str:
    """Return an address in lower case without the suffix of a compression."""
    stem = uri.lower()
    for suffix in COMPRESSED:
        stem = stem.removesuffix(suffix)
    return stem


def _refuse_text(request: Request) -> Dataset:
    unlabelled = "" if request.label_required else " (with --unlabelled, if it is CSV without labels)"
    raise InputError(
        f"{request.uri} is text: turn it into Zarr first, with: mmpca ingest {request.typed} DEST.zarr{unlabelled}"
    )


TEXT = Format(
    "text", "text", _refuse_text, alone=False,
    suffixes=tuple(name + packed for name in TEXT_SUFFIXES for packed in ("", *COMPRESSED)),
)  # fmt: skip
"""Text is ingested before it is read."""
