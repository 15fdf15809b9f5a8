"""From a source and the columns that play roles to a data set: the one way to a table."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.chosen_columns import Columns, with_columns
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.formats import Request, format_of, open_source, refuse_missing_names
from mmpca_dist.tables.readers.npy import npy_column
from mmpca_dist.tables.roles import KNOWN, LABEL, ROLES, Role, says_none
from mmpca_dist.tables.source import Source

FILE = ".npy"
"""How the name of a column ends that is a file of its own."""


class Play(NamedTuple):
    """A role, the name of its column, the column (None: of the labels), and what a look asks for, or has left."""

    role: Role
    name: str = ""
    column: str | None = None
    option: Any = None
    knows: bool = False


def plays_of(section: Any) -> list[Play]:
    """Return the columns that play roles by the section ``dataset`` of a configuration."""
    return [Play(role, *asked) for role in ROLES for asked in role.columns(section)]


def label_plays(unlabelled: str = "refuse", value: str | int | None = None) -> list[Play]:
    """Return the plays of the label of a source, by the settings ``unlabelled`` and ``unlabelled_value``."""
    known = [Play(KNOWN, option=(unlabelled, value))] if unlabelled == "skip" or value is not None else []
    return [*known, Play(LABEL)]


def compose(source: Source, plays: Iterable[Play], idle: Collection[Any] = ()) -> Dataset:
    """Return the rows that are left once columns play their roles; text of classes that are ``idle`` has no levels."""
    rows, columns, plays = Dataset.of(source), dict[str | None, Column](), list(plays)
    settings = {play.column: Setting(play.role.setting) for play in plays}
    last = max((number for number, play in enumerate(plays) if play.role.keeps), default=-1)
    for number, play in enumerate(plays):
        if play.column not in columns:
            columns[play.column] = column_of(source, play.column, settings[play.column])
        column = columns[play.column]
        if play.role is KNOWN and column.missing is not None and says_none(column.missing.fill, play.option[1]):
            columns[play.column] = replace(column, missing=None)
        look = play.option if play.knows else play.role.look(rows, column, play.name, play.option)
        rows = rows.with_look(play.role, column, look, play.name)
        if number == last and (rows.kept is not None or rows.columns_into("weight")) and not idle:
            rows = _with_levels_of(rows, source, rows.value_batches("weight"))
    return _with_levels_of(rows, source, _counting(rows, {str(label) for label in idle})) if idle else rows


def _with_levels_of(rows: Dataset, source: Source, batches: Iterable[Batch]) -> Dataset:
    source = source.with_levels_of(batches)
    base = replace(rows.base, n_features=source.n_features, feature_names=source.feature_names)
    return replace(rows, source=source, base=base)


def _counting(rows: Dataset, idle: set[str]) -> Iterator[Batch]:
    """Yield the rows with their weights, but those whose label is among ``idle`` ones."""
    for batch in rows.value_batches("weight", "label"):
        yield batch.take(np.flatnonzero([str(label) not in idle for label in batch.label.tolist()]))


def side_settings(plays: Iterable[Play]) -> dict[str, Setting]:
    """Return the columns of a table that are no features since they play a role, and the settings that name them."""
    named = {play.column: Setting(play.role.setting) for play in plays if play.column is not None}
    return {name: setting for name, setting in named.items() if not name.endswith(FILE)}


def column_of(source: Source, name: str | None, setting: Setting | str) -> Column:
    """Return a column of a source (None is the label), or a ``.npy`` file with a value for each of its rows.

    Raises InputError where there is none, or it has another number of rows.
    """
    if name is not None and name.endswith(FILE):
        column = npy_column(storage.normalize(name))
    else:
        column = source.column(name, setting)
    if column.n_rows == source.n_rows:
        return column
    if name is None:
        raise InputError(
            f"{source.uri} has {source.n_rows} rows and {column.n_rows} labels; there must be one label a row."
        )
    text = f"{{setting}} has values of {column.n_rows} rows, and {source.uri} has {source.n_rows} rows."
    raise InputError(text, setting=setting)


def open_dataset(
    uri: str | os.PathLike, *, features: str | None = None, label: str | None = None, drop: Sequence[str] = (),
    beside: Mapping[str, Setting | str] | None = None, missing_chunks: str | None = None, missing: str = "refuse",
    encode: bool = False, unlabelled: str = "refuse", columns: Columns | None = None,
    unlabelled_value: str | int | None = None, missing_values: Sequence[str] = (), decimal: str | None = None,
) -> Dataset:  # fmt: skip
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
    missing_values : sequence of str
        Words for missing values, of Zarr and AnnData in text alone, besides empty text and those that pandas knows. In
        Parquet and Arrow, a column of text whose other cells are numbers is one of numbers with these or ``decimal``.
    decimal : {".", ","}, optional
        The decimal mark of such numbers.

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
    source = open_source(
        Request(
            storage.normalize(uri), os.fspath(uri), features, label, drop=drop, beside=beside or {},
            missing_chunks=missing_chunks, missing=missing, encode=encode, unlabelled=unlabelled, columns=columns,
            missing_values=tuple(map(str, missing_values)), decimal=decimal,
        )
    )  # fmt: skip
    return compose(source, label_plays(unlabelled, unlabelled_value))


def open_rows(
    uri: str | os.PathLike,
    *, features: str | None = None, label: str | None = None, missing: str = "refuse", names: list[str] | None = None,
    labelled: bool = False, unlabelled: str = "refuse", missing_values: Sequence[str] = (),
) -> Source:  # fmt: skip
    """Open rows that may have no labels, such as those that a model has projected.

    Parameters are as for ``open_dataset``, and a ``label`` that is named must be there. ``names`` are the columns of
    Parquet and Arrow to take. With ``labelled``, labels must be there even if ``label`` is None. Raises InputError as
    ``open_dataset``.
    """
    return open_source(
        Request(
            storage.normalize(uri), os.fspath(uri), features, label, labelled or label is not None, names,
            missing=missing, unlabelled=unlabelled, missing_values=tuple(map(str, missing_values)),
        )
    )  # fmt: skip


def request_of(section: Any, uri: str, **others: Any) -> Request:
    """Return what the section ``dataset`` of a configuration asks of a table; ``others`` replace some of it."""
    request = Request(
        storage.normalize(uri), uri, section.features, section.outcome, drop=section.drop, encode=True,
        missing_chunks=section.missing_chunks, missing=section.missing, unlabelled=section.unlabelled,
        columns=section.columns, missing_values=section.missing_values, decimal=section.decimal,
    )  # fmt: skip
    return replace(request, **others)


def open_fitted(request: Request) -> Source:
    """Open rows for a model: ``names``, ``levels`` and ``columns`` of the request are what it was fitted to.

    Columns of Parquet and Arrow are taken by these names, in any order and among other columns; features of other
    formats must be in this order, if they have names at all. Text that is new has indicators of 0. Raises InputError as
    ``open_dataset``, and for features that are not those in ``names``.
    """
    source, names = format_of(request.uri).open(replace(request, columns=None)), request.names
    if names is None:
        source = with_columns(source, request.columns)
    elif request.columns is not None and source.feature_names is not None and not source.named_columns:
        refuse_missing_names(source.uri, source.feature_names, names)
        source = with_columns(source, names)
    stored = None if request.levels else source.feature_names
    if names is not None and stored is not None and len(stored) == len(names) and stored != names:
        refuse_missing_names(source.uri, stored, names)
        i = next(i for i, name in enumerate(names) if stored[i] != name)
        raise InputError(
            f"{source.uri} has the features in another order than the model was fitted to: feature {i} is "
            f"{stored[i]!r} in place of {names[i]!r}. Reorder its columns."
        )
    return source
