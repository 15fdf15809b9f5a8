"""``evaluate``, ``transform`` and ``refresh`` as Python calls them; rows in memory, or lazy, become files."""

from __future__ import annotations

import io
import os
import tempfile
import textwrap
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array, issparse

from mmpca_dist import dask_arrays as da
from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.configuration.held_out_sections import EvaluationConfig
from mmpca_dist.configuration.parsing import parse_model
from mmpca_dist.configuration.schema import RunConfig, as_config, parse_config
from mmpca_dist.errors import InputError, OutputError, instead_of
from mmpca_dist.faults import Asker, asking
from mmpca_dist.jobs.events import Callback
from mmpca_dist.passes.dask_rows import whole_rows
from mmpca_dist.runs import evaluate as evaluating
from mmpca_dist.runs import refresh as refreshing
from mmpca_dist.runs import transform as transforming
from mmpca_dist.runs.evaluate_settings import EvaluateSettings
from mmpca_dist.runs.outcomes import FinishedEvaluation, FinishedRun, TransformedRows
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import CHECKED
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import ForeignTable, as_table, labels_of
from mmpca_dist.tables.labels import normalize_labels
from mmpca_dist.tables.number_texts import MISSING
from mmpca_dist.tables.plain_arrays import is_from, plain, with_known_chunks
from mmpca_dist.tables.readers.frames import arrow_of
from mmpca_dist.tables.readers.memory import CSR_PARTS
from mmpca_dist.tables.spans import default_chunk_rows

USUAL = {"methods": ["pca", "m-pca0", "m-pca1a"], "n_components": "auto"}
LABEL = "label of rows"
"""The name of labels that are given beside rows."""
OWN_SPLITS = (
    "Say folds=5; splits='shares', count=10, train=0.8; splits='groups', column='patient'; splits='time', "
    "column='day'; or splits='given', column='part'."
)
SECTIONS = {"evaluation": EvaluationConfig.model_fields, "dataset": DatasetConfig.model_fields}


def evaluate(
    data: Any, y: Any = None, *,
    folder: str | os.PathLike | None = None, callbacks: list[Callback] | None = None, client: Any = None,
    **settings: Unpack[EvaluateSettings],
) -> FinishedEvaluation:  # fmt: skip
    """Compare methods, and numbers of components, on rows that are held out.

    Parameters
    ----------
    data : RunConfig, dict or path of a YAML file; or rows
        A configuration; or an array, data frame, sparse matrix, Dask array or frame, or AnnData, of shape (n, d), which
        is written to files first. Data frames may hold text, gaps, groups and weights.
    y : array-like of shape (n,), or str
        Labels of rows, or the name of their column.
    folder : str or path, optional
        By default the ``output`` of a configuration; for rows a temporary one, which lasts as long as the result.
    callbacks : list of Callback, optional
    client : Dask client that does the work, optional
    **settings
        For rows: ``methods`` (by default pca, m-pca0 and m-pca1a), ``n_components`` (by default those that are usually
        tried), other keys of the configuration, and those of its sections ``evaluation`` and ``dataset``, as messages
        write them, too: ``**{"evaluation.count": 4}``. By default columns are standardised where data frames hold text
        and numbers. ``cv`` is a number of folds, or a splitter of scikit-learn, which may take ``groups`` (n,);
        ``classifiers`` may be its objects.

    Returns
    -------
    FinishedEvaluation
        ``summary`` says what to use and how sure that is, ``verdict`` has the tests in words. ``errors`` is a data
        frame: for each ``method``, number of components (``n_components`` asked for, ``used``) and ``classifier`` the
        ``mean`` error over the splits in percent, its ``deviation``, and how it differs from the reference. ``best`` is
        its first row, that of the lowest mean, ``recommended`` the row that ``summary`` names, ``report`` the address
        of the page.

    Raises
    ------
    MmpcaError
        For a mistake that the user can correct.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> len(evaluate(X, y, methods="m-pca0", n_components=[1, 2], splits="folds").errors)  # all columns, too
    3
    """
    if isinstance(data, RunConfig | Mapping | str | os.PathLike):
        if y is not None or settings:
            raise InputError(f"{min(settings, default='y')} is for rows: set it in the configuration itself.")
        config = as_config(dict(data) if isinstance(data, Mapping) else data)
        config = config if folder is None else config.model_copy(update={"output": storage.normalize(str(folder))})
        return evaluating.evaluate(config, callbacks, client)
    if "sample_weight" in settings:
        raise InputError("Weights of rows are a column of X: evaluate(X.assign(w=weights), y, weight='w').")
    given: dict[str, Any] = dict(settings)
    with ExitStack() as stack:
        here = stack.enter_context(tempfile.TemporaryDirectory(prefix="mmpca-")) if folder is None else folder
        output = storage.normalize(str(here))
        content: dict[str, Any] = {**USUAL, "output": output, "evaluation": {}}
        content["dataset"] = _stored_rows(data, y, storage.join(output, "rows"))
        for name in ("cv", "splits"):
            if name in given and not isinstance(given[name], str):
                own = given.pop(name), given.pop("groups", None)
                given |= _split_by(*own, X=data, y=y, folder=storage.join(output, "rows"))
        for name, value in given.items():
            section, _, key = name.rpartition(".")
            section = section or next((each for each, fields in SECTIONS.items() if name in fields), "")
            (content.setdefault(section, {}) if section else content)[key] = value
        if y is None and not content["dataset"].keys() & {"label", "target"}:
            raise InputError("evaluate(X, y) needs the labels of the rows, or the name of their column.")
        with asking(Asker("keywords", addresses={content["dataset"]["uri"]: "X"})):
            outcome = evaluating.evaluate(parse_config(content, "evaluate"), callbacks, client)
        weakref.finalize(outcome, stack.pop_all().close)  # a temporary folder lasts as long as the result
    return outcome


def transform(
    run: str | os.PathLike | FinishedRun, dataset: str | os.PathLike,
    destination: str | os.PathLike | None = None, *,
    callbacks: list[Callback] | None = None, client: Any = None, **options: Any,
) -> TransformedRows:  # fmt: skip
    """Project the rows of a data set with the methods of a finished run, or of its folder, into a new folder.

    Options are ``methods``, ``features``, ``label``, ``inverse`` and, in place of a destination, ``into``, as in
    ``TransformConfig``; a Dask ``client`` does the work.
    The result has ``dataset``, ``rows``, ``methods``, ``destination``, ``outputs`` (addresses of what was written),
    ``written`` (bytes), ``labels`` (whether there are any) and ``seconds``. Rows in memory need no files:
    ``run.model("m-pca0").transform(X)``. Raises MmpcaError for what can be corrected.
    """
    place = None if destination is None else str(destination)
    content = {"output": _folder(run), "dataset": _path(dataset), "destination": place, **options}
    config = parse_model(transforming.TransformConfig, content, "transform")
    manifest = transforming.transform(config, callbacks, client)
    return TransformedRows(manifest, config.destination or manifest["destination"])


def refresh(
    run: str | os.PathLike | FinishedRun, new: str | os.PathLike, output: str | os.PathLike, *,
    callbacks: list[Callback] | None = None, client: Any = None, **options: Any,
) -> FinishedRun:  # fmt: skip
    """Extend a finished run, or that in a folder, by new labelled rows, without reading the old ones again.

    ``new`` is a data set, or a folder of them. Options are ``features``, ``label``, ``weight`` and ``drift``, as in
    ``RefreshConfig``; a Dask ``client`` does the work. The result has the models, ``taken`` (new data sets: name, uri,
    fingerprint, rows, drift), ``solved`` (whether there was anything to do), ``data_sets`` and ``rows`` (in all),
    ``methods``, ``left_out`` (reasons by method), ``folder`` and ``report`` (addresses; None if no data set was ever
    added), ``seconds``. Raises MmpcaError for what can be corrected.

    Examples
    --------
    >>> import tempfile
    >>> from mmpca_dist import refresh, run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = {"methods": "pca", "n_components": 2, "output": f"{folder}/first"}
    ...     first = run({"dataset": {"uri": "synthetic:gaussian?n=1000&d=4&seed=1"}, **settings})
    ...     refresh(first, "synthetic:gaussian?n=500&d=4&seed=2", f"{folder}/both")["rows"]
    1500
    """
    content = {"run": _folder(run), "new": _path(new), "output": str(output), **options}
    config = parse_model(refreshing.RefreshConfig, content, "refresh")
    manifest = refreshing.refresh(config, callbacks, client)
    return FinishedRun(manifest, config.run if manifest["folder"] is None else config.output)


def _path(rows: object) -> str:
    if not isinstance(rows, str | os.PathLike):
        raise InputError(
            f"The rows must be in files, named by their path, and these are {type(rows).__name__}. For rows in memory "
            "there are run.model(method).transform(X) and partial_fit."
        )
    return str(rows)


def _folder(run: str | os.PathLike | FinishedRun) -> str:
    return run.folder if isinstance(run, FinishedRun) else str(run)


def _stored_rows(X: Any, y: Any, folder: str) -> dict[str, Any]:
    """Write rows and labels into a folder, and return the section ``dataset`` of a configuration that reads them.

    A folder that holds the same rows already is left as it is.

    Data frames in memory become Parquet, as they may hold text and gaps; ``y`` may name a column. Dask arrays become
    Zarr, piece by piece; other rows a ``.npz`` file. Raises InputError for what is no table, or is in files already.
    """
    X, uri = plain(X, "X"), storage.join(folder, "rows")
    own = {} if y is None else {"label": y if isinstance(y, str) else LABEL}
    if is_from(X, "anndata") and not dask.is_dask_collection(X.X):
        return {"uri": _write_anndata(f"{uri}.h5ad", X, labels_of(y, X), own), **own}
    if hasattr(X, "to_delayed") and hasattr(X, "columns") and (y is None or own["label"] in X.columns):
        _refuse_written(uri)
        dask.compute([_write_part(part, f"{uri}/{i:06}.parquet") for i, part in enumerate(X.to_delayed())])
        return {"uri": uri, **own}
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
    if labels is not None and (words := sorted(MISSING.intersection(map(str, set(labels.tolist()))))):
        raise InputError(f"y holds the label {words[0]!r}, for which tables have no label: name it otherwise.")
    n_rows = getattr(table, "shape", (None,))[0]
    if labels is not None and isinstance(n_rows, int) and len(labels) != n_rows:
        raise InputError(f"X has {n_rows:,} rows, and y {len(labels):,} labels.")
    buffer = io.BytesIO()
    if hasattr(table, "columns"):
        frame = arrow_of(table)
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


@dask.delayed
def _write_part(part: Any, uri: str) -> None:
    buffer = io.BytesIO()
    pq.write_table(arrow_of(part), buffer)
    storage.write_bytes(uri, buffer.getvalue())


def _write_anndata(uri: str, X: Any, y: Any, own: Mapping[str, str]) -> str:
    """Write an AnnData object with its observations, and labels beside them, and return the address."""
    as_table(X)  # refuses one without rows in memory
    labels = {} if LABEL not in own.values() else {LABEL: normalize_labels(dask.compute(y)[0], "y")}
    matrix = X.X.tocsr() if issparse(X.X) else X.X
    with tempfile.TemporaryDirectory() as here:
        type(X)(matrix, obs=X.obs.assign(**labels), var=X.var[[]]).write_h5ad(f"{here}/rows.h5ad")
        _keep(uri, Path(here, "rows.h5ad").read_bytes())
    return uri


def _split_by(cv: Any, groups: Any, X: Any, y: Any, folder: str) -> dict[str, Any]:
    """Return the settings for a number of folds, or for the rows that a splitter, or pairs of row numbers, hold out.

    Where each row is held out once while all others train, parts are given; others are listed. Raises InputError where
    a row trains and is held out at once.
    """
    if isinstance(cv, int | np.integer):
        return {"splits": "folds", "folds": int(cv)}
    labels = X[y] if isinstance(y, str) and y in getattr(X, "columns", ()) else labels_of(y, X)
    labels = np.asarray(dask.compute(labels)[0])
    name = textwrap.shorten(repr(cv), 80)
    with instead_of(
        (TypeError, ValueError, IndexError), InputError, f"{name} splits no rows ({{reason}}). {OWN_SPLITS}"
    ):
        pairs = list(cv.split(np.zeros((len(labels), 1)), labels, groups) if hasattr(cv, "split") else cv)
        pairs = [[np.arange(len(labels))[rows] for rows in pair] for pair in pairs]  # of masks, too
    marks, rows = np.full((len(labels), len(pairs)), "-"), np.concatenate([test for _, test in pairs])
    for split, (train, test) in enumerate(pairs):
        if len(np.intersect1d(train, test)):
            raise InputError(f"{name} holds out rows that train. {OWN_SPLITS}")
        marks[train, split], marks[test, split] = "t", "h"
    parts, kind = np.asarray(["".join(row) for row in marks]), "listed"
    if len(rows) == len(labels) and (marks != "-").all() and (marks == "h").any(axis=1).all():
        parts, kind = np.argmax(marks == "h", axis=1), "given"
    buffer, uri = io.BytesIO(), storage.join(folder, "parts.npy")
    np.save(buffer, parts)
    _keep(uri, buffer.getvalue())
    return {"splits": kind, "column": uri}


def _keep(uri: str, content: bytes) -> None:
    """Write a file, or leave it where it holds the same."""
    if not storage.exists(uri):
        storage.write_bytes(uri, content)
    elif storage.read_bytes(uri) != content:
        raise OutputError(f"{uri} holds other rows, of an earlier call. Name another folder.")


def _refuse_written(uri: str) -> None:
    if storage.exists(uri):
        raise OutputError(f"{uri} holds the rows of an earlier call. Name another folder.")


def _write_zarr(uri: str, X: da.Array, y: dict[str, Any], names: Any) -> None:
    _refuse_written(uri)
    X = whole_rows(with_known_chunks(X, "X"))
    X = X.rechunk((default_chunk_rows(X.shape[1] * X.dtype.itemsize), -1))
    group = zarr_stores.open_group(uri, "a")
    for name, values in {"X": X, **{name: da.from_array(labels, -1) for name, labels in y.items()}}.items():
        form: dict[str, Any] = {"dtype": str} if values.dtype.kind == "U" else {"dtype": values.dtype, **CHECKED}
        stored: Any = group.create_array(name, shape=values.shape, chunks=values.chunksize, **form)
        da.store(values, stored, lock=False)
    group.attrs.update({} if names is None else {"feature_names": list(names)})
