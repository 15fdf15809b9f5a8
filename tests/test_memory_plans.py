"""Plans of memory hold over tables, methods, losses and row maps that people have: each row is a process of its own.

Plans are bounds, so a row may use less; none is planned far too high, beside what the process held before.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import zarr
from scipy.sparse import random_array

MOST, FREE = 6, 256 << 20
"""Plans are at most so many times what is used, beside what short runs do not fill: budgets, and what is imported."""

MEASURE = """
import json, sys
import psutil
import mmpca_dist.neighbors.nearest, mmpca_dist.predictors.fits  # what is imported is no part of the data
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.evaluation_runs.score_stage import forgetting
from mmpca_dist.evaluation_runs.stages import evaluation_stages
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.open_job import open_job
from mmpca_dist.jobs.run_stage import measured, run_stage
from mmpca_dist.planning.plan import PROCESS_BASE
from mmpca_dist.runs.stages import stages_of

if __name__ == "__main__":
    start, purpose, peaks = psutil.Process().memory_info().rss, sys.argv[2], {}
    config = parse_config(json.loads(sys.argv[1]), "the test")
    stages = evaluation_stages(config) if purpose == "evaluation" else stages_of(config)
    with open_job(config, Callback(), purpose) as job, forgetting(job):
        for stage in stages[:-1]:  # without the report
            with measured(job, 0.002) as peak:
                run_stage(job, stage)
                peaks[stage.name] = peak()
        plan = job.results["plan"]
    planned = plan["memory"]
    print(json.dumps({"peaks": peaks, "start": start, "planned": planned, "data": planned - PROCESS_BASE}))
"""

EVALUATION = {"classifiers": ["fisher"], "splits": "folds", "folds": 3}
SHARES = {"classifiers": ["fisher"], "splits": "shares", "count": 2}


def scored(**changes):
    return {"evaluation": {**EVALUATION, **changes}}


def penalty(loss, **options):
    return {"methods": [{"name": "projection-penalty", "loss": loss, "max_sweeps": 5, **options}]}


def mapped(name, **options):
    return {"dataset": {"maps": [{"name": name, **options}]}}


GRID = {
    # columns, in one pass of class moments
    "10 columns": ((200_000, 10, 2), {}, "blocks of many short rows"),
    "1,000 columns": ((4_000, 1_000, 2), {}, "scatters are as large as rows"),
    "2,500 columns": ((4_000, 2_500, 2), {"n_components": [50]}, "the largest scatter that is formed"),
    "10,000 columns in passes": ((3_000, 10_000, 2), {"solver": {"kind": "krylov"}},
        "blocks of vectors in place of scatters"),
    "10,000 columns of few rows": ((400, 10_000, 2), {}, "solved in the span of the rows"),
    # classes
    "500 classes": ((40_000, 60, 500), {"methods": ["pca", "m-pca0", "fisher"]}, "a scatter for each class"),
    "500 classes, medians": ((40_000, 60, 500), {"methods": ["m-pca1b"]}, "medians of every class and of its rest"),
    "20,000 classes": ((60_000, 256, 20_000), {"methods": ["pca", "fisher"]}, "class means are a fifth of the rows"),
    "20,000 classes of few columns": ((60_000, 16, 20_000), {"methods": ["pca", "m-pca0"]}, "labels weigh most"),
    # methods
    "m-pca1a": ((20_000, 200, 3), {"methods": ["m-pca1a"]}, "rows against means of other classes"),
    "m-pca1b": ((60_000, 100, 3), {"methods": ["m-pca1b"]}, "the budget of values that medians keep"),
    "m-pca2": ((10_000, 60, 3), {"methods": ["m-pca2"]}, "cells and tables of the search"),
    "orthonormal methods": ((4_000, 400, 5), {"methods": ["lol", "mmc", "pls", "hsic", "ridge", "lasso"]},
                            "what is fitted beside scatters"),
    "bm2pca": ((10_000, 200, 2), {"methods": ["bm2pca"]}, "states of rows between sweeps"),
    "bm2pca, ten classes, C by folds": ((2_000, 60, 10), {"methods": [{"name": "bm2pca", "C": "auto",
        "candidates": [1, 10]}]},
                                        "all candidates, folds and classes at once"),
    # sparse rows
    "sparse": ((40_000, 2_000, 3), {"sparse": 0.01}, "units are made dense for moments"),
    "sparse, 10,000 columns in passes": ((20_000, 10_000, 20), {"sparse": 0.005}, "products with CSR rows"),
    "sparse, few rows": ((1_000, 10_000, 20), {"sparse": 0.005}, "few rows are made dense"),
    # evaluations
    "margins": ((9_000, 300, 3), scored(), "samples of the rows held out, and scatters of all columns"),
    "margins of 500 classes": ((20_000, 60, 500), scored(), "scores of every class for each sampled row"),
    "no margins": ((9_000, 300, 3), scored(margins=False), "moments of the folds"),
    "margins of 1,000 columns": ((3_000, 1_000, 3), scored(), "scatters of all columns and folds"),
    "margins of few rows": ((500, 3_000, 3), {"evaluation": SHARES}, "rows are rotated to their span"),
    "margins of svm in memory": ((6_000, 200, 4), {"evaluation": {**SHARES, "classifiers": ["svm"]}},
                                 "LIBLINEAR copies rows in their original columns"),
    "C nested": ((5_000, 40, 3), scored(classifiers=[{"name": "svm", "C": "nested"}], margins=False),
                 "folds of gathered rows"),
    "medians by fold": ((40_000, 100, 3), {"methods": ["m-pca1b"], **scored()}, "medians of every fold at once"),
    "neighbours by fold": ((6_000, 40, 3), {"methods": ["m-pca2"], **scored()}, "tables of the nearest two"),
    "windows": ((20_000, 200, 3), {"split": "time", **scored()}, "moments of the windows before"),
    "groups": ((20_000, 200, 3), {"split": "groups", **scored()}, "folds of unequal sizes"),
    "sparse, wide, few train": (
        (6_000, 8_000, 4), {"sparse": 0.005, "evaluation": {**SHARES, "train": "1/60", "margins": False}},
        "a hundred rows that train, where all would make a scatter of 6,000 x 6,000"),
    "sparse, wide, margins": ((1_500, 6_000, 4), {"sparse": 0.01, "evaluation": {**SHARES, "classifiers": ["svm"]}},
                              "classifiers of sparse rows in their original columns"),
    "bm2pca evaluated": ((2_000, 100, 5), {"methods": ["bm2pca"], "evaluation": SHARES}, "fits by sweeps in memory"),
    # penalties: each loss, and the choice of alpha and of components
    "squared": ((10_000, 300, 3), penalty("squared"), "solved from moments"),
    "squared, auto": ((10_000, 200, 3), penalty("squared", alpha="auto"), "moments of five folds"),
    "logistic": ((5_000, 200, 3), penalty("logistic"), "second derivatives of every class"),
    "logistic, auto": ((3_000, 40, 3), penalty("logistic", alpha="auto", alphas=[0.1, 1]),
        "all alphas and folds at once"),
    "hinge": ((4_000, 100, 2), penalty("hinge"), "states of rows"),
    "hinge, auto": ((2_000, 30, 3), penalty("hinge", alpha="auto", alphas=[0.1, 1]), "states of rows of every fit"),
    "squared hinge, auto": ((3_000, 40, 3), penalty("squared hinge", alpha="auto", alphas=[0.1, 1]),
        "all alphas and folds at once"),
    "squared hinge, few rows": ((300, 3_000, 2), penalty("squared hinge"), "in the span of the rows"),
    # kernels by row maps
    "nystroem": ((20_000, 50, 3), mapped("nystroem", n_components=500), "landmarks and their kernel"),
    "fourier": ((20_000, 50, 3), mapped("fourier", n_components=1000), "mapped columns of a unit"),
    "nystroem evaluated": ((6_000, 50, 3), {**mapped("nystroem", n_components=300), **scored()},
        "mapped rows in folds"),
}  # fmt: skip
"""Rows, columns and classes; settings, and how sparse the rows are; why it is here."""


def write_rows(path, n, d, n_classes, sparse):
    """Write rows whose classes differ in some columns, and labels that every class has: Zarr, or CSR parts in .npz."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % n_classes)
    if sparse:
        X = random_array((n, d), density=sparse, format="csr", dtype=np.float32, rng=rng)
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        np.savez(path / "rows.npz", **parts, format="csr", y=y)
        return str(path / "rows.npz")
    X = rng.standard_normal((n, d), np.float32)
    X[np.arange(n), y % d] += 2
    group = zarr.open_group(str(path / "rows.zarr"), mode="w")
    rows = max(1, (4 << 20) // X[:1].nbytes)
    group.create_array("X", shape=X.shape, chunks=(min(rows, n), d), dtype=X.dtype)[...] = X
    group.create_array("y", shape=y.shape, chunks=y.shape, dtype=y.dtype)[...] = y
    return str(path / "rows.zarr")


def measured(tmp_path, shape, sparse=0, split=None, dataset=(), **settings):
    """Run in a process of its own, and return the peaks of its stages, and what was planned, in bytes."""
    content = {
        "dataset": {"uri": write_rows(tmp_path, *shape, sparse), **dict(dataset)}, "methods": ["pca", "fisher"],
        "n_components": [min(10, shape[1])], "output": str(tmp_path / "out"), "project": {"methods": []},
        "compute": {"workers": 2, "memory_limit": "16GiB"}, **settings,
    }  # fmt: skip
    if split is not None:
        np.save(tmp_path / "column.npy", np.random.default_rng(1).geometric(0.05, shape[0]))
        kind = {"windows": 3} if split == "time" else {"folds": 3}
        others = {name: value for name, value in settings["evaluation"].items() if name != "folds"}
        content["evaluation"] = {**others, "splits": split, "column": str(tmp_path / "column.npy"), **kind}
    (tmp_path / "measure.py").write_text(MEASURE)
    purpose = "evaluation" if "evaluation" in settings else "run"
    command = [sys.executable, str(tmp_path / "measure.py"), json.dumps(content), purpose]
    return json.loads(subprocess.check_output(command).splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "settings", "reason"), GRID.values(), ids=GRID)
def test_no_run_holds_more_than_its_plan(shape, settings, reason, tmp_path):
    found = measured(tmp_path, shape, **settings)
    peak = max(found["peaks"].values())
    assert peak <= 1.1 * found["planned"], f"{reason}: {found}"
    assert found["data"] <= MOST * (peak - found["start"]) + FREE, f"{reason}: {found}"
