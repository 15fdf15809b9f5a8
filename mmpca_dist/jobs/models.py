"""Store and load fitted reducers: arrays in Zarr, the rest in JSON, no pickle."""

from __future__ import annotations

from functools import partial

import numpy as np

from mmpca_dist.datasets.stores.zarr_stores import reading_own
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import classes_of, finished, open_run, statistics_of
from mmpca_dist.jobs.object_records import AGAIN, objects_in
from mmpca_dist.jobs.records import COUNT, SOLVE, ModelRecord
from mmpca_dist.jobs.stored_arrays import load_arrays, save_arrays
from mmpca_dist.methods.base import BY_COMPONENT, MomentReducer
from mmpca_dist.statistics.coordinates import ColumnStatistics
from mmpca_dist.statistics.moments import ClassMoments

LEADING = 3
"""Number of eigenvalues in records."""


def save_model(run: RunDirectory, method: str, reducer: MomentReducer) -> ModelRecord:
    """Store a fitted reducer and return what describes it."""
    save_arrays(
        run.path("model", f"{method}.zarr"),
        {name: getattr(reducer, name) for name in (*BY_COMPONENT, *reducer._stored, "mean_", "scale_")},
    )
    return {
        "n_components": len(reducer.components_),
        "leading": [_finite(value) for value in reducer.eigenvalues_[:LEADING]],
        "total": _finite(reducer.total_),
        "limit": reducer.limit_,
        "imprecise": np.flatnonzero(reducer.imprecise_).tolist(),
        "certificate": getattr(reducer, "certificate_", None),
    }


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold: None for one that is not finite."""
    return float(value) if np.isfinite(value) else None


def load_model(output: str, method: str, n_components: int | None = None) -> MomentReducer:
    """Return a fitted estimator from the folder of a finished run.

    Parameters
    ----------
    output : str
        The run's folder: a path or fsspec URL.
    method : str
        One of the run's methods.
    n_components : int, optional
        The first so many components; by default all that are stored.

    Raises
    ------
    InputError
        Where the run, the method or so many components are not there.
    DamageError
        Where the model is damaged.
    """
    run = open_run(output)
    solved = finished(run, SOLVE)
    models = solved["models"]
    if method not in models:
        raise InputError(
            f"The run in {run.uri} has no method {method!r}; it has {', '.join(models)}.{did_you_mean(method, models)}"
        )
    record = models[method]
    stored, limit = record["n_components"], record["limit"]
    if n_components is not None and not 1 <= n_components <= stored:
        raise InputError(f"n_components={n_components}: {method} in {run.uri} has {stored} components ({limit}).")
    group = f"model/{method}.zarr"
    arrays = load_arrays(run.path(group), objects_in(solved, group))
    count = finished(run, COUNT)
    reducer = run.config.reducer(method, n_components or stored)
    with reading_own(run.path(group), AGAIN):
        for name in (*BY_COMPONENT, *reducer._stored, "mean_"):
            setattr(reducer, name, arrays[name])
    reducer.scale_ = arrays.get("scale_")
    if n_components is not None and n_components < stored:
        reducer._shorten(n_components)
    reducer.classes_ = classes_of(count)
    reducer.total_, reducer.limit_ = np.nan if record["total"] is None else record["total"], limit
    if record["certificate"] is not None:
        reducer.certificate_ = record["certificate"]
    reducer.n_features_in_ = len(reducer.mean_)
    if count.get("named_columns"):
        reducer.feature_names_in_ = np.asarray(count["feature_names"], dtype=object)
    reducer._kept = partial(load_moments, run.uri)
    return reducer


def load_moments(output: str) -> ClassMoments:
    """Return the class moments that a run keeps of its rows, in their own units.

    Parameters
    ----------
    output : str
        The run's folder: a path or fsspec URL.

    Returns
    -------
    ClassMoments
        ``merge`` them with those of other rows; ``from_moments`` of the estimators solves any method from them.

    Raises
    ------
    InputError
        Where there is no run, or it keeps none: for fewer rows than columns, or class scatters beyond 256 MiB.
    DamageError
        Where they are damaged.

    Examples
    --------
    >>> import tempfile
    >>> from mmpca_dist import MarginPCA, load_moments, run
    >>> with tempfile.TemporaryDirectory() as output:
    ...     settings = {"dataset": {"uri": "bundled:iris"}, "methods": "pca", "n_components": 2, "output": output}
    ...     _ = run(settings)
    ...     moments = load_moments(output)
    >>> moments.counts.tolist()
    [50, 50, 50]
    >>> MarginPCA.from_moments(moments, "m-pca0", 2).components_.shape
    (2, 4)
    """
    run = open_run(output)
    statistics = statistics_of(run)
    if not isinstance(statistics, ColumnStatistics) or statistics.fixed is not None:
        raise InputError(
            f"The run in {run.uri} keeps no class moments that more rows could extend: {statistics.fixed}. "
            "Take class_moments of its data set."
        )
    return statistics.raw
