"""Fitted reducers on disk: arrays in a Zarr group, the rest in JSON. Nothing is ever unpickled."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmpca_dist.datasets import storage
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.reducers.base import MomentReducer
from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.runs.arrays import load_arrays, save_arrays
from mmpca_dist.runs.directory import RunDirectory

ARRAYS = ("components_", "eigenvalues_", "residuals_", "relative_errors_")


def save_model(run: RunDirectory, method: str, reducer: MomentReducer) -> dict[str, Any]:
    """Store a fitted reducer and return what describes it."""
    save_arrays(
        run.path("model", f"{method}.zarr"),
        {name: getattr(reducer, name) for name in (*ARRAYS, "mean_", "scale_")},
    )
    return {
        "n_components": len(reducer.components_),
        "total": reducer.total_,
        "limit": reducer.limit_,
        "imprecise": np.flatnonzero(reducer.imprecise_).tolist(),
    }


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
    """
    run = RunDirectory(storage.normalize(output))
    solved = run.record("solve")
    if solved is None:
        raise InputError(f"The run in {run.uri} has no model yet; run it to the end first.") if run.exists else \
            InputError(f"There is no run in {run.uri}: it holds no run.json.")  # fmt: skip
    models = solved["models"]
    if method not in models:
        raise InputError(
            f"The run in {run.uri} has no method {method!r}; it has {', '.join(models)}.{did_you_mean(method, models)}"
        )
    stored = models[method]["n_components"]
    if n_components is not None and not 1 <= n_components <= stored:
        raise InputError(
            f"n_components={n_components}: {method} in {run.uri} has {stored} components ({models[method]['limit']})."
        )
    arrays = load_arrays(run.path("model", f"{method}.zarr"))
    count = run.record("count") or {}
    reducer = METHODS[method].reducer(n_components or stored, run.config)
    for name in ARRAYS:
        setattr(reducer, name, arrays[name][: reducer.n_components])
    reducer.mean_ = arrays["mean_"]
    reducer.scale_ = arrays.get("scale_")
    reducer.classes_ = np.asarray(count["classes"], dtype=count["class_type"])
    reducer.total_, reducer.limit_ = models[method]["total"], models[method]["limit"]
    reducer.n_features_in_ = len(reducer.mean_)
    names = count.get("feature_names")
    if names:
        reducer.feature_names_in_ = np.asarray(names, dtype=object)
    return reducer
