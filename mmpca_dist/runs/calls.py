"""``evaluate``, ``transform`` and ``refresh`` as Python calls: on files, or on rows in memory without a folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.configuration.schema import RunConfig, as_config, parse_config
from mmpca_dist.configuration.sections import EvaluationConfig
from mmpca_dist.errors import InputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs import evaluation_stages, transform_rows
from mmpca_dist.runs import refresh as refreshing
from mmpca_dist.runs.outcomes import FinishedEvaluation, FinishedRun, Outcome, RefreshedRun, TransformedRows
from mmpca_dist.runs.tables_in_memory import stored_rows
from mmpca_dist.stores import storage

USUAL = ["pca", "m-pca0", "m-pca1a"]
"""Methods that share one pass."""
SECTIONS = {"evaluation": EvaluationConfig.model_fields, "dataset": DatasetConfig.model_fields}
Kind = TypeVar("Kind", bound=Outcome)


def evaluate(
    data: Any,
    y: Any = None,
    *,
    methods: Sequence[Any] | str | None = None,
    n_components: Sequence[int] | int | str | None = None,
    folder: str | os.PathLike | None = None,
    callbacks: list[Callback] | None = None,
    client: Any = None,
    **settings: Any,
) -> FinishedEvaluation:
    """Compare methods, and numbers of components, on rows that are held out.

    Parameters
    ----------
    data : RunConfig, dict, path of a YAML file; or rows
        A configuration; or an array, data frame, sparse matrix, Dask array or frame, or AnnData, of shape (n, d).
        Rows are written to files first. Data frames may hold text, gaps (``missing="mean"``), groups and weights.
    y : array-like of shape (n,), or str
        Labels of rows; or the name of their column.
    methods, n_components : list or one, or "auto" for the latter
        By default pca, m-pca0 and m-pca1a, and the numbers that are usually tried; for a configuration, its own.
    folder : str or path, optional
        By default a temporary folder, which lasts as long as the result; for a configuration, its ``output``.
    callbacks : list of Callback, optional
    client : Dask client, optional
        Does the work.
    **settings
        Keys of the sections ``evaluation`` (``splits``, ``folds``, ``column``, ``classifiers``, ...) and ``dataset``
        (``drop``, ``missing``, ``weight``, ...), and others of the configuration (``standardize``, ...).

    Returns
    -------
    FinishedEvaluation
        Notebooks show its table; ``errors`` is a data frame, ``best`` its first row, ``summary`` says it in words.

    Raises
    ------
    MmpcaError
        For a mistake that the user can correct.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> found = evaluate(X, y, methods=["pca", "m-pca0"], n_components=[1, 2], splits="folds", folds=5)
    >>> found.errors.shape[0] == 2 * 2 * 2  # methods, numbers of components, classifiers
    True
    """
    asked = {"methods": methods, "n_components": n_components, **settings}
    asked = {name: value for name, value in asked.items() if value is not None}
    if isinstance(data, RunConfig | Mapping | str | os.PathLike):
        if y is not None or asked:
            raise InputError(f"{min(asked, default='y')} goes with rows in memory: set it in the configuration itself.")
        config = as_config(dict(data) if isinstance(data, Mapping) else data)
        if folder is not None:
            config = config.model_copy(update={"output": storage.normalize(os.fspath(folder))})
        return evaluation_stages.evaluate(config, callbacks, client)
    with _folder(folder) as output:
        rows = stored_rows(data, y, storage.join(output, "rows"))
        content: dict[str, Any] = {"methods": USUAL, "n_components": "auto", "output": output}
        content |= {"dataset": rows, "evaluation": {}}
        for name, value in asked.items():
            section = next((content[key] for key, fields in SECTIONS.items() if name in fields), content)
            section[name] = value
        return _kept(evaluation_stages.evaluate(parse_config(content, "evaluate"), callbacks, client), output, folder)


def transform(
    run: str | os.PathLike | FinishedRun,
    rows: Any,
    folder: str | os.PathLike | None = None,
    *,
    methods: Sequence[str] | str = (),
    features: str | None = None,
    label: str | None = None,
    callbacks: list[Callback] | None = None,
    client: Any = None,
) -> TransformedRows:
    """Project rows with the methods of a finished run, and write the result to files.

    Parameters
    ----------
    run : str, path or FinishedRun
        The run, or its folder.
    rows : address of a data set; or rows in memory, as for ``evaluate``
    folder : str or path, optional
        By default a temporary folder, which lasts as long as the result.
    methods : sequence of str
        By default all.
    features, label : str, optional
        Arrays or columns of the rows; by default those of the run.
    callbacks : list of Callback, optional
    client : Dask client, optional
        Does the work.

    Returns
    -------
    TransformedRows
        Its ``rows`` returns those of a method as a data frame.

    Raises
    ------
    MmpcaError
        For a mistake that the user can correct.
    """
    with _folder(folder) as output:
        if not isinstance(rows, str | os.PathLike):
            rows = stored_rows(rows, None, storage.join(output, "rows"))["uri"]
        config = transform_rows.TransformConfig(
            output=_address(run), dataset=os.fspath(rows), destination=storage.join(output, "transformed"),
            methods=methods, features=features, label=label,
        )  # fmt: skip
        manifest = transform_rows.transform(config, callbacks, client)
        return _kept(TransformedRows(manifest, manifest["destination"]), output, folder)


def refresh(
    run: str | os.PathLike | FinishedRun,
    new: str | os.PathLike,
    folder: str | os.PathLike,
    *,
    features: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    callbacks: list[Callback] | None = None,
    client: Any = None,
) -> RefreshedRun:
    """Extend a finished run by new labelled rows, without reading the old ones again.

    Parameters
    ----------
    run : str, path or FinishedRun
        The run, or its folder; it does not change.
    new : str or path
        A data set, or a folder of data sets, of which new ones are added.
    folder : str or path
        Of the refreshed run, which the same call continues from.
    features, label, weight : str, optional
        Arrays or columns of the new rows; by default those of the run.
    callbacks : list of Callback, optional
    client : Dask client, optional
        Does the work.

    Returns
    -------
    RefreshedRun
        What was done (``taken``, ``solved``, ``data_sets``, ``rows``, ``left_out``), and the models, as of ``run``.

    Raises
    ------
    MmpcaError
        For a mistake that the user can correct.
    """
    config = refreshing.RefreshConfig(
        run=_address(run), new=os.fspath(new), output=os.fspath(folder), features=features, label=label, weight=weight
    )
    manifest = refreshing.refresh(config, callbacks, client)
    return RefreshedRun(manifest, config.run if manifest["folder"] is None else storage.normalize(config.output))


def _address(run: str | os.PathLike | FinishedRun) -> str:
    return run.folder if isinstance(run, FinishedRun) else os.fspath(run)


@contextmanager
def _folder(named: str | os.PathLike | None) -> Iterator[str]:
    """Yield a folder, a temporary one where none is named, which is removed where the call fails."""
    if named is not None:
        yield storage.normalize(os.fspath(named))
        return
    made = tempfile.mkdtemp(prefix="mmpca-")
    try:
        yield made
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _kept(outcome: Kind, output: str, named: str | os.PathLike | None) -> Kind:
    """Return an outcome that takes its temporary folder with it."""
    if named is None:
        weakref.finalize(outcome, shutil.rmtree, output, ignore_errors=True)
    return outcome
