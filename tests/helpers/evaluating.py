"""Evaluations without their reports, which take longer than all else."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import open_job, run_stage
from mmpca_dist.neighbors import nearest, pair_folds
from mmpca_dist.runs.evaluation_stages import evaluation_stages
from mmpca_dist.runs.score_stage import SplitRecords, forgetting

KNN = {"name": "sklearn.neighbors.KNeighborsClassifier", "options": {"n_neighbors": 3}, "label": "knn"}
TIMES = ("seconds", "passes", "bytes", "read")
"""What differs between two evaluations of the same: which split reads rows for all of a process is as it falls."""


def config_of(output, uri, **changes):
    """Return a configuration; sections are mappings."""
    content = {
        "dataset": {"uri": str(uri)},
        "methods": ["pca"],
        "n_components": [2],
        "precision": "double",
        "output": str(output),
    }
    return parse_config({**content, **changes}, "the test")


def auto(output, uri="bundled:iris", **changes):
    """Return a configuration that leaves the number of components to the run."""
    return config_of(output, uri, **{"n_components": "auto", **changes})


def store(path, X, y, *, sparse=False):
    """Write rows and labels as .npz, dense or CSR, and return the path."""
    if sparse:
        rows = csr_array(X)
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
        np.savez(path, **parts, format="csr", y=y)
    else:
        np.savez(path, X=X, y=y)
    return path


def searched(monkeypatch):
    """Return a list that the work of every search is added to."""
    works = []

    def noted(*arguments, search=nearest.run_search, **options):
        found = search(*arguments, **options)
        works.append(found.work)
        return found

    for module in (nearest, pair_folds):
        monkeypatch.setattr(module, "run_search", noted)
    return works


def clusters(n=4000, d=500, k=5):
    """Return rows around k centres, and labels."""
    rng = np.random.default_rng(3)
    y = rng.integers(k, size=n)
    return rng.standard_normal((n, d)) + 2 * np.eye(k, d)[y], y


def scored(config, callback=None):
    """Evaluate up to the tables, and return (records of the splits, splits, what the stages left)."""
    with open_job(config, callback or Callback(), "evaluation") as job, forgetting(job):
        for stage in evaluation_stages(config)[:-1]:
            run_stage(job, stage)
        records = SplitRecords(job.run.path("splits"), job.key).read(job.results["score"]["n_splits"])
        return records, job.drawn_splits(), dict(job.results)


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
