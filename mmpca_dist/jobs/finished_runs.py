"""Finished runs: their records, statistics, and models, as arrays in Zarr and the rest in JSON, no pickle."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from mmpca_dist.errors import DamageError, InputError, NoComponentsError, did_you_mean
from mmpca_dist.finite import or_none
from mmpca_dist.jobs import records
from mmpca_dist.jobs.counted import Counted
from mmpca_dist.jobs.directory import CONTENT_OF, RunDirectory, refuse_other_version
from mmpca_dist.jobs.object_records import AGAIN, check_outputs
from mmpca_dist.jobs.stored_arrays import CELLS, load_arrays, load_fits, load_statistics, load_value, save_arrays
from mmpca_dist.jobs.stored_belonging import load_belonging
from mmpca_dist.methods.base.reducer import BY_COMPONENT, MomentReducer
from mmpca_dist.methods.base.row_features import RowMapTransformer
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.cells import CellMoments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own
from mmpca_dist.tables.compose import open_rows
from mmpca_dist.tables.row_maps.specification import Arrays
from mmpca_dist.tables.source import Source


def open_run(output: str) -> RunDirectory:
    """Return the folder of a run; of a refreshed run the newest that is complete, which is a run in itself."""
    run = RunDirectory(storage.normalize(output))
    published = run.record(records.PUBLISH)
    return run if published is None else RunDirectory(run.path(published["folder"]))


def finished(run: RunDirectory, stage: records.StageName[records.R]) -> records.R:
    """Return the record of a stage that is done.

    Raises InputError where there is no run, or the stage is not done; DamageError where the record is damaged, or was
    copied from another run.
    """
    record, header = run.record(stage), run.header()
    if record is not None:
        if record.get("key") != header["key"]:
            raise DamageError(f"{run.record_path(stage)} is of another run than {run.path('run.json')}. {AGAIN}")
        return record
    if header["purpose"] != "run" and stage != records.COMPARE:
        raise InputError(f"{run.uri} holds {CONTENT_OF[header['purpose']]}, and no models: fit them with 'mmpca run'.")
    raise InputError(f"The run in {run.uri} is not finished; run it to the end first.")


def is_whole(run: RunDirectory, stages: Iterable[records.StageName[Any]]) -> bool:
    """Tell whether all outputs of some stages are there, as they were written."""
    try:
        for stage in stages:
            record = run.record(stage)
            if record is None:
                return False
            check_outputs(run.uri, record)
    except DamageError:
        return False
    return True


def require_method(run: RunDirectory, method: str, labels: list[str]) -> None:
    """Raise InputError for a method that a run does not have."""
    if method not in labels:
        hint = did_you_mean(method, labels)
        raise InputError(f"The run in {run.uri} has no method {method!r}; it has {', '.join(labels)}.{hint}")


def counted(run: RunDirectory) -> Counted:
    """Return the table that a run was fitted to."""
    record = finished(run, records.COUNT)
    refuse_other_version(run.record_path(records.COUNT), record, "played")
    return Counted(record)


def statistics_of(run: RunDirectory, as_asked: bool = False) -> Statistics:
    """Return the statistics that a run keeps of its rows, in their own units or, ``as_asked``, standardised."""
    record, table = finished(run, records.REDUCE), counted(run)
    config = run.config.model_copy(update={"standardize": table.record["standardize"]})
    return load_statistics(run, record, config, as_asked)


def open_projected(folder: str, method: str, suffix: str) -> Source:
    """Open the projected rows of a method, and their labels, in Zarr or Parquet, without the columns kept with them."""
    uri = storage.join(folder, f"{method}.{suffix}")
    if suffix == "zarr":
        return open_rows(uri)
    names: list[str] = open_rows(uri, names=[]).schema.names  # type: ignore[attr-defined]
    return open_rows(uri, names=[name for name in names if re.fullmatch(rf"{re.escape(method)}_\d+", name)])


def fits_of(run: RunDirectory) -> list[Arrays] | None:
    """Return the fits of a run's row maps; None where it has no maps to fit."""
    maps = run.config.dataset.maps
    return load_fits(run, finished(run, records.MAPS), len(maps)) if any(one.own_columns for one in maps) else None


def load_maps(output: str) -> RowMapTransformer:
    """Return the row maps of a finished run as a transformer, which comes before its models.

    Models of ``load_model`` take rows after the maps.

    Parameters
    ----------
    output : str
        The run's folder: a path or fsspec URL.

    Returns
    -------
    RowMapTransformer
        Its ``transform`` takes what that of a model takes. For a run without row maps it returns rows as they are.

    Raises
    ------
    InputError
        Where there is no finished run.
    DamageError
        Where the maps are damaged.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from mmpca_dist import load_maps, load_model, run
    >>> X, _ = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as output:
    ...     data = {"uri": "bundled:iris", "maps": [{"name": "nystroem", "n_components": 50}]}
    ...     _ = run({"dataset": data, "methods": "m-pca0", "n_components": 2, "output": output})
    ...     make_pipeline(load_maps(output), load_model(output, "m-pca0")).transform(X).shape
    (150, 2)
    """
    run = open_run(output)
    finished(run, records.SOLVE)
    maps, table = run.config.dataset.maps, counted(run)
    columns = table.stored_columns
    transformer = RowMapTransformer()
    transformer.maps_, transformer.fits_ = maps, fits_of(run) or [{} for _ in maps]
    transformer.n_features_in_ = columns["n_features"]
    if columns["named_columns"]:
        transformer.feature_names_in_ = np.asarray(columns["feature_names"], dtype=object)
        transformer.encoding_ = table.record.get("columns", columns["feature_names"]), table.levels
    return transformer


LEADING = 3
"""Number of eigenvalues in records."""


def save_model(run: RunDirectory, method: str, reducer: MomentReducer) -> records.ModelRecord:
    """Store a fitted reducer and return what describes it."""
    names = (*BY_COMPONENT, *reducer.traits.stored, "mean_", "scale_", "n_samples_")
    fitted = {name: getattr(reducer, name) for name in names}
    scalars = {name: value for name, value in fitted.items() if isinstance(value, bool | int | float)}
    arrays = {name: value for name, value in fitted.items() if name not in scalars}
    if reducer.adjustment_ is not None and len(reducer.adjustment_.slopes):
        arrays |= {"slopes": reducer.adjustment_.slopes, "centre": reducer.adjustment_.centre}
    save_arrays(run, f"model/{method}.zarr", arrays)
    return {
        "scalars": scalars,
        "n_components": reducer.fitted().used,
        "leading": [or_none(value) for value in reducer.eigenvalues_[:LEADING]],
        "total": or_none(reducer.total_),
        "limit": reducer.limit_reason_,
        "certificate": getattr(reducer, "certificate_", None),
    }


def without_components(reason: str) -> records.ModelRecord:
    """Return what describes a method that has no components."""
    return {"scalars": {}, "n_components": 0, "leading": [], "total": None, "limit": reason, "certificate": None}


def solved_methods(run: RunDirectory, labels: Iterable[str]) -> list[str]:
    """Return those of some methods that have components."""
    models = finished(run, records.SOLVE)["models"]
    return [label for label in labels if models[label]["n_components"]]


def load_model(output: str, method: str, n_components: int | None = None) -> MomentReducer:
    """Return a fitted estimator from the folder of a finished run.

    Where the run has row maps, the estimator takes rows after them: see ``load_maps``. Of data frames it takes the
    run's columns by their names, and leaves others out.

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
    solved = finished(run, records.SOLVE)
    models = solved["models"]
    require_method(run, method, list(models))
    record = models[method]
    stored, limit = record["n_components"], record["limit"]
    if not stored:
        raise NoComponentsError(f"{method} in {run.uri} has no components: {limit}")
    if n_components is not None and not 1 <= n_components <= stored:
        chosen = run.record(records.CHOOSE)
        asked = run.config.sizes[-1] if chosen is None else chosen["methods"][method]["chosen"]
        why = limit if stored < asked else "as many as its run asked for"
        raise InputError(f"n_components={n_components}: {method} in {run.uri} has {stored} components ({why}).")
    size = n_components or stored
    group = f"model/{method}.zarr"
    arrays = load_arrays(run, solved, group)
    table = counted(run)
    count = table.record
    reducer = run.config.reducer(method, size).set_params(standardize=count["standardize"])
    if size < stored and not reducer.traits.nested:
        raise InputError(
            f"n_components={size}: {method} in {run.uri} is fitted for {stored} components, and a fit for "
            "fewer has other ones. Run it with fewer."
        )
    total = np.nan if record["total"] is None else record["total"]
    fit: dict[str, Any] = {"scale_": arrays.get("scale_"), "total_": total, "limit_reason_": limit}
    with reading_own(run.path(group), AGAIN):
        values = arrays | record["scalars"]
        fit |= record["scalars"] | {name: values[name] for name in (*BY_COMPONENT, *reducer.traits.stored, "mean_")}
    fit |= {"n_features_in_": len(fit["mean_"]), "_belonging": partial(load_belonging, run, method)}
    if "slopes" in arrays:
        fit["covariates_"] = table.covariates
        fit["adjustment_"] = Adjustment.of_slopes(arrays["slopes"], arrays["centre"])
    if record["certificate"] is not None:
        fit["certificate_"] = record["certificate"]
    if count["named_columns"]:
        fit["feature_names_in_"] = np.asarray(count["feature_names"], dtype=object)
        fit["encoding_"] = table.columns, table.levels
    reducer.restore(fit, table.classes, count.get("targets"), partial(class_moments_of, run.uri))
    if size < stored:
        reducer.shorten(size)
    return reducer


def load_moments(output: str) -> ClassMoments | CellMoments:
    """Return the moments that a run keeps of its rows, in their own units: of classes, or cells by ``dataset.groups``.

    Parameters
    ----------
    output : str
        The run's folder: a path or fsspec URL.

    Returns
    -------
    ClassMoments or CellMoments
        ``from_moments`` of the estimators solves any method from them. ``merge`` class moments with those of other
        rows; ask those of cells further questions.

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
    >>> moments.sizes.tolist()
    [50, 50, 50]
    >>> MarginPCA.from_moments(moments, "m-pca0", 2).components_.shape
    (2, 4)
    """
    run = open_run(output)
    if CELLS in (record := finished(run, records.REDUCE))["outputs"]:
        return load_value(run, record, CELLS)
    return class_moments_of(run.uri)


def class_moments_of(output: str) -> ClassMoments:
    """Return the class moments that a run keeps; raises as `load_moments` does."""
    run = open_run(output)
    statistics = statistics_of(run)
    if not isinstance(statistics, ColumnStatistics) or statistics.unmergeable_reason is not None:
        raise InputError(
            f"The run in {run.uri} keeps no class moments that more rows could extend: "
            f"{statistics.unmergeable_reason}. Take class_moments of its data set."
        )
    return statistics.unadjusted
