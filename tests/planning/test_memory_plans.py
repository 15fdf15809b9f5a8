"""Plans of memory hold over tables, methods, losses and row maps that people have: each row is a process of its own.

Plans are bounds, so a row may use less; none is planned far too high, beside what the process held before.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.tables import write_npz, write_zarr
from scipy.sparse import random_array

from mmpca_dist.planning.plan import PROCESS_BASE

MOST, FREE = 2, 64 << 20
"""Plans are at most so many times what is used, and so much more."""
FEW = (1000, 50, 4)
"""Rows, columns and classes of the run that goes before."""

MEASURE = """
import ctypes, gc, json, sys
import psutil
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.runs.evaluate import evaluation_stages
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import measured, open_job, run_stage
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs.fit import stages_of

def peaks_of(content, purpose):
    config, peaks = parse_config(content, "the test"), {}
    stages = evaluation_stages(config) if purpose == "evaluation" else stages_of(config)
    with open_job(config, Callback(), purpose) as job:
        for stage in stages[:-1]:  # without the report
            with measured(job, 0.002) as peak:
                run_stage(job, stage)
                peaks[stage.name] = peak() + job.held
        planned = max(job.results["plan"]["memory"], job.results.get("score", {}).get("planned", 0))
        return peaks, planned, job.results["plan"]["base"]

if __name__ == "__main__":
    few, rows, purpose, limits = json.loads(sys.argv[1])
    vars(LIMITS).update(limits)
    peaks_of(few, purpose)
    gc.collect()
    getattr(ctypes.CDLL(None), 'malloc_trim', int)(0)  # what was freed is no part of what was held before
    before = psutil.Process().memory_info()
    peaks, planned, base = peaks_of(rows, purpose)
    used = {name: peak - before.rss for name, peak in peaks.items()}
    # Of libraries more or fewer pages are mapped, by how their files lie in the page cache.
    print(json.dumps({"used": used, "start": before.rss - before.shared, "planned": planned - base}))
"""

EVALUATION = {"classifiers": ["fisher"], "splits": "folds", "folds": 3}
SHARES = {"classifiers": ["fisher"], "splits": "shares", "count": 2}
MERGED = {"limits": {"direct_bytes": 0}}
"""Moments are merged, as they are of rows that do not fit in memory."""


def scored(**changes):
    return {"evaluation": {**EVALUATION, **changes}}


def penalty(loss, **options):
    return {"methods": [{"name": "projection-penalty", "loss": loss, "max_iter": 5, **options}]}


def mapped(name, **options):
    return {"dataset": {"maps": [{"name": name, **options}]}}


GRID = {
    # columns, in one pass of class moments
    "10 columns": ((3_000_000, 10, 2), {}, "blocks of many short rows"),
    "1,000 columns": ((20_000, 1_000, 2), {}, "scatters are as large as rows"),
    "2,500 columns": ((4_000, 2_500, 2), {"n_components": [50]}, "the largest scatter that is formed"),
    "10,000 columns in passes": ((3_000, 10_000, 2), {"solver": {"kind": "krylov"}},
        "blocks of vectors in place of scatters"),
    "10,000 columns of few rows": ((400, 10_000, 2), {}, "solved in the span of the rows"),
    # classes
    "500 classes": ((200_000, 100, 500), {"methods": ["pca", "m-pca0", "fisher"]}, "a scatter for each class"),
    "500 classes, medians": ((40_000, 60, 500), {"methods": ["m-pca1b"]}, "medians of every class and of its rest"),
    "20,000 classes": ((60_000, 256, 20_000), {"methods": ["pca", "fisher"]}, "class means are a fifth of the rows"),
    "20,000 classes of few columns": ((400_000, 16, 20_000), {"methods": ["pca", "m-pca0"]}, "labels weigh most"),
    # methods
    "m-pca1a": ((100_000, 300, 3), {"methods": ["m-pca1a"]}, "rows against means of other classes"),
    "m-pca1b": ((300_000, 100, 3), {"methods": ["m-pca1b"]}, "the budget of values that medians keep"),
    "m-pca2": ((40_000, 60, 3), {"methods": ["m-pca2"]}, "cells and tables of the search"),
    "other methods": ((20_000, 500, 5), {"methods": ["lol", "mmc", "pls", "hsic", "ridge", "lasso", "fisher-score",
        "random-projection"]},
                      "what is fitted beside scatters"),
    "projections": ((300_000, 100, 3), {"n_components": [50], "project": {}}, "coordinates by all methods of a unit"),
    "bm2pca": ((40_000, 200, 2), {"methods": ["bm2pca"]}, "states of rows between sweeps"),
    "bm2pca, ten classes, C by folds": ((6_000, 100, 10), {"methods": [{"name": "bm2pca", "C": "auto",
        "candidates": [1, 10]}]},
                                        "all candidates, folds and classes at once"),
    # sparse rows
    "sparse": ((40_000, 2_000, 3), {"sparse": 0.01}, "units are made dense for moments"),
    "sparse, 10,000 columns in passes": ((60_000, 10_000, 20), {"sparse": 0.005}, "products with CSR rows"),
    "sparse, ARPACK": ((60_000, 10_000, 20), {"sparse": 0.005, "methods": ["pca", "m-pca0"]}, "its vectors and rows"),
    "sparse, few rows": ((1_000, 10_000, 20), {"sparse": 0.005}, "few rows are made dense"),
    # evaluations
    "margins": ((40_000, 500, 3), scored(), "samples of the rows held out, and scatters of all columns"),
    "margins of 500 classes": ((60_000, 60, 500), scored(), "scores of every class for each sampled row"),
    "20,000 classes, no margins": (
        (80_000, 60, 20_000), {"methods": ["pca", "fisher"], **scored(folds=2, margins=False)},
        "scores of every class for blocks of the rows held out"),
    "20,000 classes, merged": (
        (80_000, 60, 20_000), {"methods": ["pca", "m-pca0", "fisher"], **MERGED, **scored(folds=2, margins=False)},
        "class means of every fold"),
    "20,000 classes, a share of many columns": (
        (60_000, 512, 20_000), {"methods": ["fisher"], **MERGED, "evaluation": {**SHARES, "margins": False}},
        "class means of two parts are more than the rows"),
    "5,000 classes, margins": ((20_000, 60, 5000), {**MERGED, **scored(folds=2)},
        "classifiers of every class in the original columns"),
    "no margins": ((40_000, 400, 6), scored(margins=False), "moments of the folds"),
    "margins of 1,000 columns": ((3_000, 1_000, 3), scored(), "scatters of all columns and folds"),
    "margins of many classes and columns": (
        (1_200, 700, 38), scored(classifiers=["lda", "fisher", "naive-bayes"]), "three classifiers of all columns"),
    "fewer rows than columns, many classes": ((700, 800, 60), {"evaluation": SHARES},
        "a scatter of each class in the span"),
    "curved classifiers": ((6_000, 200, 12), {"n_components": [20, 50], **scored(classifiers=["qda", "lda"])},
        "a scatter of each class, fold and size"),
    "standardised": ((1_200, 700, 38), {"standardize": True, "evaluation": SHARES}, "scatters in other units"),
    "shares by a solver in passes": ((2_400, 1_500, 3), {"solver": {"kind": "krylov"}, "evaluation": SHARES},
        "classifiers of reduced rows in place of moments"),
    "margins of few rows": ((500, 3_000, 3), {"evaluation": SHARES}, "rows are rotated to their span"),
    "margins of svm in memory": ((15_000, 300, 4), {"evaluation": {**SHARES, "classifiers": ["svm"]}},
                                 "LIBLINEAR copies rows in their original columns"),
    "C nested": ((20_000, 60, 3), scored(classifiers=[{"name": "svm", "C": "nested"}], margins=False),
                 "folds of gathered rows"),
    "medians by fold": ((200_000, 100, 3), {"methods": ["m-pca1b"], **scored()}, "medians of every fold at once"),
    "neighbours by fold": ((20_000, 60, 3), {"methods": ["m-pca2"], **scored()}, "tables of the nearest two"),
    "windows": ((60_000, 400, 3), {"split": "time", **scored()}, "moments of the windows before"),
    "groups": ((60_000, 400, 3), {"split": "groups", **scored()}, "folds of unequal sizes"),
    "sparse, wide, few train": (
        (20_000, 8_000, 4), {"sparse": 0.005, "evaluation": {**SHARES, "train": "1/60", "margins": False}},
        "few hundred rows that train, where all would make a scatter of 8,000 x 8,000"),
    "sparse, wide, all columns": (
        (3_000, 20_000, 4), {"sparse": 0.005, "methods": ["pca", "all-columns"],
                             "evaluation": {**SHARES, "train": "1/30", "margins": False}},
        "the span of few rows in place of all columns"),
    "sparse, wide, margins": ((1_500, 6_000, 4), {"sparse": 0.01, "evaluation": {**SHARES, "classifiers": ["svm"]}},
                              "classifiers of sparse rows in their original columns"),
    "bm2pca evaluated": ((6_000, 200, 5), {"methods": ["bm2pca"], "evaluation": SHARES}, "fits by sweeps in memory"),
    # penalties: each loss, and the choice of alpha and of components
    "squared": ((60_000, 600, 3), penalty("squared"), "solved from moments"),
    "squared, auto": ((40_000, 200, 3), penalty("squared", alpha="auto"), "moments of five folds"),
    "logistic": ((60_000, 400, 3), penalty("logistic"), "second derivatives of every class"),
    "logistic, auto": ((20_000, 100, 3), penalty("logistic", alpha="auto", alphas=[0.1, 1]),
        "all alphas and folds at once"),
    "hinge": ((60_000, 200, 2), penalty("hinge"), "states of rows"),
    "hinge, auto": ((10_000, 60, 3), penalty("hinge", alpha="auto", alphas=[0.1, 1]), "states of rows of every fit"),
    "squared hinge, auto": ((20_000, 100, 3), penalty("squared hinge", alpha="auto", alphas=[0.1, 1]),
        "all alphas and folds at once"),
    "squared hinge, few rows": ((600, 8_000, 2), penalty("squared hinge"), "in the span of the rows"),
    # kernels by row maps
    "nystroem": ((20_000, 200, 3), mapped("nystroem", n_components=1000), "landmarks and their kernel"),
    "fourier": ((20_000, 50, 3), mapped("fourier", n_components=1000), "mapped columns of a unit"),
    "nystroem evaluated": ((10_000, 50, 3), {**mapped("nystroem", n_components=600), **scored()},
        "mapped rows in folds"),
}  # fmt: skip
"""Rows, columns and classes; settings, and how sparse the rows are; why it is here."""

QUICK = ["margins of many classes and columns"]


def write_rows(path, n, d, n_classes, sparse):
    """Write rows whose classes differ in some columns, and labels that every class has: Zarr, or CSR parts in .npz."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % n_classes)
    if sparse:
        X = random_array((n, d), density=sparse, format="csr", dtype=np.float32, rng=rng)
        return write_npz(path / "rows.npz", X, y, sparse=True)
    X = rng.standard_normal((n, d), np.float32)
    X[np.arange(n), y % d] += 2
    return write_zarr(path / "rows.zarr", X, y, min(n, max(1, (4 << 20) // X[:1].nbytes)), labels_in=n)


def settings_of(folder, shape, sparse=0, split=None, dataset=(), **settings):
    """Write rows into a folder, and return the settings of a run over them."""
    folder.mkdir()
    content = {
        "dataset": {"uri": write_rows(folder, *shape, sparse), **dict(dataset)}, "methods": ["pca", "fisher"],
        "n_components": [min(10, shape[1])], "output": str(folder / "out"), "project": {"methods": []},
        "compute": {"workers": 2, "memory_limit": "16GiB"}, **settings,
    }  # fmt: skip
    if split is not None:
        np.save(folder / "column.npy", np.random.default_rng(1).geometric(0.05, shape[0]))
        kind = {"windows": 3} if split == "time" else {"folds": 3}
        others = {name: value for name, value in settings["evaluation"].items() if name != "folds"}
        content["evaluation"] = {**others, "splits": split, "column": str(folder / "column.npy"), **kind}
    return content


def measured(tmp_path, shape, limits=(), **settings):
    """Return what data a run in a process of its own holds, by stage, and what was planned, in bytes.

    The process runs over few rows before: what it imports, compiles and starts is no part of the data.
    """
    few = settings_of(tmp_path / "few", np.minimum(shape, FEW).tolist(), **settings)
    rows = settings_of(tmp_path / "rows", shape, **settings)
    (tmp_path / "measure.py").write_text(MEASURE)
    purpose = "evaluation" if "evaluation" in settings else "run"
    command = [sys.executable, str(tmp_path / "measure.py"), json.dumps([few, rows, purpose, dict(limits)])]
    return json.loads(subprocess.check_output(command).splitlines()[-1])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The first search compiles its code, which takes memory once."""
    measured(tmp_path_factory.mktemp("compiled"), FEW, methods=["m-pca2"])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.e2e if name in QUICK else pytest.mark.slow) for name in GRID]
)
def test_no_run_holds_more_data_than_its_plan(name, request, tmp_path):
    shape, settings, reason = GRID[name]
    if "m-pca2" in settings.get("methods", []):
        request.getfixturevalue("compiled")
    found = measured(tmp_path, shape, **settings)
    used = max(found["used"].values())
    print(f"{used >> 20} of {found['planned'] >> 20} MiB, {found['start'] >> 20} MiB before")
    assert found["start"] <= PROCESS_BASE
    assert used <= 1.05 * found["planned"], f"{reason}: {found}"
    assert found["planned"] <= MOST * used + FREE, f"{reason}: {found}"


@pytest.mark.slow
def test_no_worker_holds_more_than_its_plan(tmp_path):
    """Processes of their own, with all that they import."""
    compute = {"workers": 2, "memory_limit": "4GiB", "cluster": "local"}
    found = measured(tmp_path, (6_000, 200, 12), compute=compute, **scored(classifiers=["qda", "lda"]))
    peak, planned = found["used"]["score"] + found["start"], found["planned"] + PROCESS_BASE
    assert peak <= planned < 2.5 * peak
