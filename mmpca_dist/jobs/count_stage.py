"""The first stage of every job: count the rows of each class."""

from __future__ import annotations

from mmpca_dist.errors import InputError
from mmpca_dist.jobs import records
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.records import CountRecord
from mmpca_dist.statistics.census import take_census


def _count(job: Job) -> CountRecord:
    census = job.census = take_census(job.dataset, job.spans, job.tasks("count"))
    dataset = job.dataset
    shape = job.config.dataset.image_shape or dataset.image_shape
    if shape is not None and shape[0] * shape[1] != dataset.n_features:
        raise InputError(
            f"dataset.image_shape is {shape[0]} x {shape[1]}, but the rows have {dataset.n_features} features."
        )
    return {
        "n_rows": dataset.n_rows,
        "n_features": dataset.n_features,
        "dtype": str(dataset.dtype),
        "classes": census.classes.tolist(),
        "class_type": census.classes.dtype.str,
        "counts": census.counts.tolist(),
        "feature_names": dataset.feature_names,
        "named_columns": dataset.named_columns,
        "image_shape": shape,
    }


COUNT = Stage(records.COUNT, "Count classes", _count)
