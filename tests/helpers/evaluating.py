"""Evaluations without their reports, which take longer than all else."""

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import open_job, run_stage
from mmpca_dist.runs.evaluate import evaluation_stages
from mmpca_dist.runs.evaluation_scores import SplitRecords

KNN = {"name": "sklearn.neighbors.KNeighborsClassifier", "options": {"n_neighbors": 3}, "label": "knn"}
TIMES = ("seconds", "passes", "bytes", "read")
"""What differs between two evaluations of the same: which split reads rows for all of a process is as it falls."""


def scored(config, callback=None):
    """Evaluate up to the tables, and return (records of the splits, splits, what the stages left)."""
    with open_job(config, callback or Callback(), "evaluation") as job:
        for stage in evaluation_stages(config)[:-1]:
            run_stage(job, stage)
        records = SplitRecords(job.run.path("splits"), job.key).read(job.results["score"]["n_splits"])
        return records, job.splits, dict(job.results)


def with_all_columns(config):
    """Return a configuration with the method that evaluations add of themselves."""
    return config.model_copy(update={"methods": [*config.methods, MethodSection.model_validate("all-columns")]})


def timeless(records):
    """Return records without what differs from one time to the next."""
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]


def by_cell(records):
    """Return (components used, errors) by split, method, size and classifier."""
    return {
        (record["split"], line["method"], line["n_components"], line["classifier"]): (line["used"], line["errors"])
        for record in records
        for line in record["errors"]
    }
