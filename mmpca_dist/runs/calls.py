"""``evaluate``, ``transform`` and ``refresh`` as Python calls them."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Mapping
from typing import Any

from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.configuration.parsing import parse_model
from mmpca_dist.configuration.schema import RunConfig, as_config, parse_config
from mmpca_dist.configuration.sections import EvaluationConfig
from mmpca_dist.errors import InputError
from mmpca_dist.jobs.conversion import errors_name
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs import evaluation_stages, transform_rows
from mmpca_dist.runs import refresh as refreshing
from mmpca_dist.runs.outcomes import FinishedEvaluation, FinishedRun, TransformedRows
from mmpca_dist.runs.stored_rows import stored_rows
from mmpca_dist.stores import storage

USUAL = {"methods": ["pca", "m-pca0", "m-pca1a"], "n_components": "auto"}
SECTIONS = {"evaluation": EvaluationConfig.model_fields, "dataset": DatasetConfig.model_fields}


def evaluate(
    data: Any, y: Any = None, *,
    folder: str | os.PathLike | None = None, callbacks: list[Callback] | None = None, client: Any = None,
    **settings: Any,
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
    callbacks, client : list of Callback, and Dask client that does the work, optional
    **settings
        For rows: ``methods`` (by default pca, m-pca0 and m-pca1a), ``n_components`` (by default those that are usually
        tried), other keys of the configuration, and those of its sections ``evaluation`` and ``dataset``.

    Returns
    -------
    FinishedEvaluation
        ``summary`` says what to use and how sure that is, ``verdict`` has the tests in words. ``errors`` is a data
        frame: for each ``method``, number of components (``n_components`` asked for, ``used``) and ``classifier`` the
        ``mean`` error over the splits in percent, its ``deviation``, and how it differs from the reference. ``best`` is
        its first row, ``report`` the address of the page.

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
        return evaluation_stages.evaluate(config, callbacks, client)
    temporary = tempfile.TemporaryDirectory(prefix="mmpca-") if folder is None else None
    output = storage.normalize(str(folder) if temporary is None else temporary.name)
    content: dict[str, Any] = {**USUAL, "output": output, "evaluation": {}}
    content["dataset"] = stored_rows(data, y, storage.join(output, "rows"))
    for name, value in settings.items():
        next((content[key] for key, fields in SECTIONS.items() if name in fields), content)[name] = value
    if y is None and not content["dataset"].keys() & {"label", "target"}:
        raise InputError("evaluate(X, y) needs the labels of the rows, or the name of their column.")
    with errors_name("X", content["dataset"]["uri"]):
        outcome = evaluation_stages.evaluate(parse_config(content, "evaluate"), callbacks, client)
    if temporary is not None:
        weakref.finalize(outcome, temporary.cleanup)
    return outcome


def transform(
    run: str | os.PathLike | FinishedRun, dataset: str | os.PathLike, destination: str | os.PathLike, *,
    callbacks: list[Callback] | None = None, client: Any = None, **options: Any,
) -> TransformedRows:  # fmt: skip
    """Project the rows of a data set with the methods of a finished run, or of its folder, into a new folder.

    Options are ``methods``, ``features`` and ``label``, as in ``TransformConfig``; a Dask ``client`` does the work.
    The result has ``dataset``, ``rows``, ``methods``, ``destination``, ``outputs`` (addresses of what was written),
    ``written`` (bytes), ``labels`` (whether there are any) and ``seconds``. Rows in memory need no files:
    ``run.model("m-pca0").transform(X)``. Raises MmpcaError for what can be corrected.
    """
    content = {"output": _folder(run), "dataset": _path(dataset), "destination": str(destination), **options}
    config = parse_model(transform_rows.TransformConfig, content, "transform")
    return TransformedRows(transform_rows.transform(config, callbacks, client), config.destination)


def refresh(
    run: str | os.PathLike | FinishedRun, new: str | os.PathLike, output: str | os.PathLike, *,
    callbacks: list[Callback] | None = None, client: Any = None, **options: Any,
) -> FinishedRun:  # fmt: skip
    """Extend a finished run, or that in a folder, by new labelled rows, without reading the old ones again.

    ``new`` is a data set, or a folder of them. Options are ``features``, ``label`` and ``weight``, as in
    ``RefreshConfig``; a Dask ``client`` does the work. The result has the models, ``taken`` (new data sets: name, uri,
    fingerprint, rows), ``solved`` (whether there was anything to do), ``data_sets`` and ``rows`` (in all),
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


def _path(rows: Any) -> str:
    if not isinstance(rows, str | os.PathLike):
        raise InputError(
            f"The rows must be in files, named by their path, and these are {type(rows).__name__}. For rows in memory "
            "there are run.model(method).transform(X) and partial_fit."
        )
    return str(rows)


def _folder(run: str | os.PathLike | FinishedRun) -> str:
    return run.folder if isinstance(run, FinishedRun) else str(run)
