"""Evaluations against single fits and peers: ``python benchmarks/evaluation.py [folds|classes|paper ...] [--rows N]``.

``folds``: five moment methods (pca, m-pca0, m-pca1a, fisher, hsic) x 10 numbers of components x 5 folds, classifier
``fisher``, margins measured, on N x 256 float32 (Zarr, two Gaussian classes, made once), against one fit of these
methods, both with their report, and against scikit-learn: ``GridSearchCV`` over PCA + LinearDiscriminantAnalysis, of
the rows in memory. That is one method of the five, on the first ``PART`` rows, times N / PART: all it does grows with
the rows. ``classes``: ``pca`` with 20, 37 and 100 components of 2,414 x 1,024 rows of 38 classes by five folds,
classifiers ``lda``, ``fisher`` and ``naive-bayes``, and the share of margins in its threads' time. ``paper``: all of
``conf/paper/ionosphere.yaml`` (found through ``MMPCA_DATA``). Each case runs in a process of its own, with the file in
the page cache; seconds and CPU seconds begin after the imports. Ratios within one run are what counts.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from moments import make_store

from mmpca_dist.jobs.events import Callback

D, PART, FOLDS = 256, 50_000, 5
METHODS = ["pca", "m-pca0", "m-pca1a", "fisher", "hsic"]
SIZES = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64]
THREADS = psutil.cpu_count(logical=True) or 2
CASES = {"folds": ["one fit", "cross-validation", "scikit-learn"], "classes": ["many classes"], "paper": ["ionosphere"]}


def settings(path: Path, name: str) -> dict[str, Any]:
    output = path.parent / f"evaluation-{name.replace(' ', '-')}"
    shutil.rmtree(output, ignore_errors=True)
    return {
        "dataset": {"uri": str(path)}, "methods": METHODS, "n_components": SIZES, "output": str(output),
        "compute": {"workers": THREADS},
    }  # fmt: skip


def one_fit(path: Path) -> dict[str, float]:
    from mmpca_dist import run

    watch = Stages()
    run({**settings(path, "one fit"), "project": {"methods": []}}, [watch])
    return watch.found


def cross_validation(path: Path) -> dict[str, float]:
    from mmpca_dist.runs.evaluate import evaluate

    wanted = {"splits": "folds", "folds": FOLDS, "classifiers": ["fisher"]}
    watch = Stages()
    evaluate({**settings(path, "folds"), "evaluation": wanted}, [watch])
    return watch.found


def many_classes(path: Path) -> dict[str, float]:
    from mmpca_dist.runs.evaluate import evaluate

    rows = path.parent / "evaluation-classes.npz"
    rng, y = np.random.default_rng(0), np.arange(2414) % 38
    X = rng.standard_normal((2414, 1024)) + 0.6 * rng.standard_normal((38, 1024))[y]
    np.savez(rows, X=X.astype(np.float32), y=y)
    wanted = {"splits": "folds", "folds": FOLDS, "classifiers": ["lda", "fisher", "naive-bayes"]}
    content = {**settings(rows, "classes"), "methods": ["pca"], "n_components": [20, 37, 100], "evaluation": wanted}
    watch = Stages()
    evaluate(content, [watch])
    records = [json.loads(file.read_text()) for file in Path(content["output"]).rglob("splits/*.json")]
    spent = [record["seconds"] for record in records]
    share = sum(one["margins"] for one in spent) / sum(sum(one.values()) for one in spent)
    return {**watch.found, "margins' percent of scoring": 100 * share}


def ionosphere(path: Path) -> dict[str, float]:
    from mmpca_dist.configuration.schema import load_config
    from mmpca_dist.runs.evaluate import evaluate

    output = path.parent / "evaluation-ionosphere"
    shutil.rmtree(output, ignore_errors=True)
    config = load_config(Path(__file__).parent.parent / "conf" / "paper" / "ionosphere.yaml")
    watch = Stages()
    evaluate(config.model_copy(update={"output": str(output)}), [watch])
    return watch.found


def scikit_learn(path: Path) -> dict[str, float]:
    import zarr
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline

    group = zarr.open_group(str(path), mode="r")
    X, y = group["X"][:PART], group["y"][:PART]
    pipeline = Pipeline([("pca", PCA()), ("lda", LinearDiscriminantAnalysis())])
    GridSearchCV(pipeline, {"pca__n_components": SIZES}, cv=FOLDS, refit=False).fit(X, y)
    return {}


class Stages(Callback):
    """CPU seconds of every stage."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    def on_stage_start(self, stage: str) -> None:
        self.found[stage] = -time.process_time()

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        self.found[stage] += time.process_time()


FUNCTIONS = {
    "one fit": one_fit,
    "cross-validation": cross_validation,
    "scikit-learn": scikit_learn,
    "many classes": many_classes,
    "ionosphere": ionosphere,
}


def measure(case: str, path: Path, profile: bool = False) -> dict[str, Any]:
    """Run a case in this process and return its seconds, CPU seconds, peak memory, and CPU seconds by stage."""
    import mmpca_dist.neighbors.pair_statistics
    import mmpca_dist.report.evaluation_page
    import mmpca_dist.report.run_page
    import mmpca_dist.runs.evaluate  # noqa: F401

    profiler = cProfile.Profile()
    begin, spent = time.perf_counter(), time.process_time()
    if profile:
        profiler.enable()
    found = FUNCTIONS[case](path)
    profiler.disable()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - spent
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)
    times = resource.getrusage(resource.RUSAGE_SELF)
    return {"seconds": seconds, "cpu": cpu, "bytes": times.ru_maxrss * 1024, "stages": found}


def report(kind: str, path: Path, rows: int) -> None:
    if kind == "folds":
        make_store(path, rows)
        warm(path)
        print(f"\n{rows:,} x {D} float32, {len(METHODS)} methods, {len(SIZES)} sizes, {FOLDS} folds\n")
    print("| case | seconds | CPU seconds | peak MiB | CPU seconds by stage |\n| --- | --- | --- | --- | --- |")
    for case in CASES[kind]:
        command = [sys.executable, __file__, "--case", case, "--folder", str(path)]
        found = json.loads(subprocess.check_output(command).splitlines()[-1])
        times, name = 1.0, case
        if case == "scikit-learn":
            times, name = rows / PART, f"{case}, pca alone, from {PART:,} rows"
        parts = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in found["stages"].items())
        print(
            f"| {name} | {times * found['seconds']:.1f} | {times * found['cpu']:.1f} | {found['bytes'] / 2**20:.0f} "
            f"| {parts} |",
            flush=True,
        )  # fmt: skip


def warm(path: Path) -> None:
    """Read the store into the page cache."""
    for file in sorted(path.rglob("*")):
        if file.is_file():
            with file.open("rb") as stream:
                while stream.read(1 << 24):
                    pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(CASES))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--case")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.folder, options.profile)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{platform.processor() or platform.machine()}, {THREADS} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )
    for kind in options.kinds:
        report(kind, options.folder / f"rows-{options.rows}.zarr", options.rows)


if __name__ == "__main__":
    main()
