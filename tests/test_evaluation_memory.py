"""Evaluations stay within the memory that their plan tells, and the plan is not far above it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

MEASURE = """
import json, sys
import psutil
import mmpca_dist.runs.stages  # what a process of any kind imports is no part of the data
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.runs.evaluation_stages import evaluation_stages
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.run_stage import measured
from mmpca_dist.jobs.open_job import open_job
from mmpca_dist.jobs.run_stage import run_stage
from mmpca_dist.runs.score_stage import forgetting

if __name__ == "__main__":
    start = psutil.Process().memory_info().rss
    with open_job(parse_config(json.loads(sys.argv[1]), "the test"), Callback(), "evaluation") as job, forgetting(job):
        for stage in evaluation_stages(job.config)[:-2]:
            run_stage(job, stage)
        with measured(job, 0.002) as peak:
            run_stage(job, evaluation_stages(job.config)[-2])
            found = peak()
        plan = job.results["plan"]
        print(json.dumps({"peak": found, "start": start, "planned": plan["memory"], "base": plan["base"]}))
"""

FOLDS, SHARES = {"splits": "folds", "folds": 3}, {"splits": "shares", "count": 2}
MOMENTS = ["lda", "fisher", "naive-bayes"]
CASES = {
    "many classes and columns": ((1200, 700, 38), {"n_components": [20, 37, 100]}, FOLDS, MOMENTS),
    "no margins": ((1200, 700, 38), {}, {**FOLDS, "margins": False}, MOMENTS),
    "fewer rows than columns, many classes": ((700, 800, 60), {}, SHARES, ["fisher"]),
    "merged, curved classifiers": ((6000, 200, 12), {"n_components": [20, 80]}, FOLDS, ["qda", "lda"]),
    "liblinear, rows in memory": ((3000, 100, 3), {"n_components": [10, 40]}, SHARES, ["svm", "logistic"]),
    "liblinear, gathered rows": ((6000, 60, 3), {"n_components": [10, 40]}, FOLDS, ["svm"]),
    "standardised": ((1200, 700, 38), {"standardize": True}, SHARES, ["fisher"]),
    "a solver in passes": ((2400, 1500, 3), {"solver": {"kind": "krylov"}}, SHARES, ["fisher"]),
    "medians by fold": ((32000, 200, 8), {"methods": ["m-pca1b"]}, FOLDS, ["fisher"]),
}
"""Shape and classes of the rows, settings, splits, classifiers."""

FEW = ["many classes and columns"]


def measured(tmp_path, case, **compute):
    """Evaluate in a process of its own and return peak and plan, in bytes."""
    (n, d, n_classes), changes, splits, classifiers = CASES[case]
    rng, y = np.random.default_rng(0), np.arange(n) % n_classes
    X = rng.standard_normal((n, d)).astype(np.float32)
    X[np.arange(n), y] += 2
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    content = {
        "dataset": {"uri": str(tmp_path / "rows.npz")}, "methods": ["pca"], "n_components": [20],
        "output": str(tmp_path / "out"), "compute": {"workers": 2, "memory_limit": "4GiB", **compute},
        **changes, "evaluation": {**splits, "classifiers": classifiers},
    }  # fmt: skip
    (tmp_path / "measure.py").write_text(MEASURE)
    command = [sys.executable, str(tmp_path / "measure.py"), json.dumps(content)]
    return json.loads(subprocess.check_output(command).splitlines()[-1])


@pytest.mark.parametrize("case", [pytest.param(case, marks=() if case in FEW else pytest.mark.slow) for case in CASES])
def test_threads_hold_no_more_data_than_planned(case, tmp_path):
    """What the process had before does not count, nor what the plan allows for it.

    Medians have a fixed budget, which few rows do not fill.
    """
    found = measured(tmp_path, case)
    used, planned = found["peak"] - found["start"], found["planned"] - found["base"]
    assert used <= planned
    assert planned < 3.5 * used + (160 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["many classes and columns", "merged, curved classifiers"])
def test_workers_hold_no_more_than_planned(case, tmp_path):
    found = measured(tmp_path, case, cluster="local")
    assert found["peak"] <= found["planned"] < 2.5 * found["peak"]
