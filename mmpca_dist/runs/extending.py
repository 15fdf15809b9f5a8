"""Which runs and methods new rows extend exactly, and how a data set is merged with the statistics of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets import Dataset, Span, storage
from mmpca_dist.errors import InputError
from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.runs.arrays import load_arrays, save_statistics
from mmpca_dist.runs.arriving import Arrival
from mmpca_dist.runs.config import RunConfig
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.finished import STATISTICS, classes_of, finished, statistics_of
from mmpca_dist.runs.integrity import Objects, objects_in, open_arrays
from mmpca_dist.runs.job import Job, measured
from mmpca_dist.statistics.census import Census
from mmpca_dist.statistics.moments import ClassMoments, merge_classes
from mmpca_dist.statistics.summary import take_moments
from mmpca_dist.statistics.working import tall_statistics


@dataclass(frozen=True)
class Part:
    """A data set that is to be taken up."""

    dataset: Dataset
    spans: list[Span]
    census: Census


def reduce_part(
    before: RunDirectory, arrival: Arrival, part: Part, taken: list[dict[str, Any]], job: Job
) -> dict[str, Any]:
    """Reduce the rows of a data set in one pass, and merge them with the statistics before."""
    precision = job.config.precision
    job.callback.on_pass("reduce", arrival.name)
    weights = np.ones((1, len(part.census.classes))) if is_pooled(before) else None
    with measured(job.scheduler) as peak:
        fresh, _ = take_moments(
            part.dataset,
            part.census,
            part.spans,
            scheduler=job.scheduler,
            precision=precision,
            weights=weights,
            progress=job.progress("reduce"),
        )
    stored = _moments(before)
    with single_blas_thread():
        moments = merge_classes(stored, fresh, arrival.uri)
    save_statistics(job.run.path("statistics.zarr"), tall_statistics(moments, None, precision=precision))
    return {
        "taken": taken,
        "passes": ["moments"],
        "bytes": part.dataset.n_bytes,
        "memory": peak(),
        "outputs": ["statistics.zarr/zarr.json"],
    }


def _moments(run: RunDirectory) -> ClassMoments:
    raw = statistics_of(run).raw
    assert raw is not None  # noqa: S101  (``extendable`` has refused other runs)
    return raw


def is_pooled(run: RunDirectory) -> bool:
    """Tell whether a run keeps the scatters of its classes pooled; its scatters are not read."""
    weights = load_arrays(*_stored(run), ["weights"])["weights"]
    return not np.array_equal(weights, np.eye(weights.shape[1]))


def _stored(run: RunDirectory) -> tuple[str, Objects | None]:
    """Return where the statistics of a run are, and what was recorded of them."""
    return run.path(STATISTICS), objects_in(finished(run, "reduce"), STATISTICS)


def extendable(run: RunDirectory, output: str) -> tuple[RunConfig, dict[str, str]]:
    """Return the configuration of what is refreshed, and the methods it has to leave out with the reasons.

    Raises
    ------
    InputError
        Where the run keeps no class moments, or none of its methods follows from them.
    """
    config = run.config
    if "basis" in open_arrays(*_stored(run)):
        raise InputError(
            f"The statistics of the run in {run.uri} cannot be extended: {statistics_of(run).fixed}. Run it anew over "
            "all rows."
        )
    pooled = is_pooled(run)
    left_out = {method: reason for method in config.methods if (reason := _reason(method, pooled)) is not None}
    methods = [method for method in config.methods if method not in left_out]
    if not methods:
        reasons = "; ".join(f"{method}: {reason}" for method, reason in left_out.items())
        raise InputError(f"No method of the run in {run.uri} can be refreshed. {reasons}. Run it anew over all rows.")
    changes = {"methods": methods, "project": config.project.model_copy(update={"methods": []}), "output": output}
    return config.model_copy(update=changes), left_out


def _reason(method: str, pooled: bool) -> str | None:
    """Return why new rows cannot extend a method exactly; None where they can."""
    if METHODS[method].needs_medians:
        return "the median of two sets of rows does not follow from their medians"
    if METHODS[method].needs_pairs:
        return "new rows may be nearer than those that were found"
    if pooled and "weighted" in METHODS[method].scatters:
        return "the scatters of the run's many classes are pooled for the class counts of just its own rows"
    return None


def content_of(taken: list[dict[str, Any]]) -> str:
    """Return what identifies the rows and labels of all these data sets."""
    names = ("name", "fingerprint", "rows", "features", "label")
    return storage.digest([[entry.get(name) for name in names] for entry in taken])


def kept_choice(before: RunDirectory, methods: list[str]) -> dict[str, Any]:
    """Return the record of the numbers of components that were chosen, which new rows do not change.

    To choose anew takes folds of all rows, and those before are not read again.
    """
    record = finished(before, "choose")
    choices = {method: record["methods"][method] for method in methods}
    return {
        **{name: record[name] for name in ("rule", "classifier", "folds", "how")},
        "methods": choices,
        "found": [choice["words"] for choice in choices.values()],
    }


def count_with(count: dict[str, Any], census: Census, taken: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of the count, with the rows of another data set."""
    before = classes_of(count)
    classes = np.union1d(before, census.classes)
    counts = np.zeros(len(classes), np.int64)
    counts[np.searchsorted(classes, before)] = count["counts"]
    counts[np.searchsorted(classes, census.classes)] += census.counts
    kept = {name: value for name, value in count.items() if name not in ("key", "seconds")}
    others = len(taken) - 1
    return {
        **kept,
        "n_rows": int(counts.sum()),
        "classes": classes.tolist(),
        "class_type": classes.dtype.str,
        "counts": counts.tolist(),
        "uri": f"{taken[0]['uri']} and {others} more data set{'' if others == 1 else 's'}",
    }
