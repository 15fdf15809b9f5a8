"""Whether rows belong: projections with scores beside those without, and drift of many classes by moments alone."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases.common import made, nothing, read_files
from benchmarks.cases.moments import store
from benchmarks.harness import Case, Data, sized
from mmpca_dist import run, transform
from mmpca_dist.statistics.moments import ClassMoments

RUNS: dict[str, Data] = {"scored": {"belonging": {}}, "plain": {}}


def store_and_fit(folder: Path, rows: int, columns: int) -> Data:
    """Make rows of ten classes, and fit principal components to them, with and without scores."""
    data = store(folder, rows, columns, classes=10)
    with made(folder / f"runs-{rows}-{columns}") as missing:
        for name, settings in RUNS.items() if missing else ():
            run({
                "dataset": {"uri": data["group"]}, "methods": ["pca"], "n_components": min(16, columns // 2),
                "project": {"methods": []}, "output": f"{folder}/runs-{rows}-{columns}/{name}", **settings,
            })  # fmt: skip
    return {**data, "runs": f"{folder}/runs-{rows}-{columns}"}


def projected(data: Data, name: str) -> Data:
    target = f"{data['runs']}/{name}-rows.zarr"
    for folder in Path(data["runs"]).glob(f"{name}-rows.zarr*"):
        shutil.rmtree(folder)
    transform(f"{data['runs']}/{name}", data["group"], target)
    return {"passes": 1}


SIZES = sized("rows columns", (800, 24), (5_000_000, 256), (5_000_000, 256))
SCORED = Case("belonging: transform with T2, Q and the nearest of ten classes", store_and_fit, SIZES)
SCORED.add("with scores", partial(projected, name="scored"), "ours")
SCORED.add("without", partial(projected, name="plain"), "own")
SCORED.add("reading alone", read_files, "floor")


def pooled(seed: int, classes: int, columns: int, rows: int) -> ClassMoments:
    """Return moments of so many rows a class about means that are the same for all seeds, whose scatters are pooled."""
    rng, counts = np.random.default_rng(seed), np.full(classes, float(rows))
    means = np.random.default_rng(0).standard_normal((classes, columns))
    means += rng.standard_normal(means.shape) / np.sqrt(rows)
    scatter = np.eye(columns)[None] * counts.sum()
    return ClassMoments(np.arange(classes), counts, counts.astype(int), means, scatter, np.ones((1, classes)))


def two_nights(shape: Data) -> Data:
    stored, arriving = (pooled(i, rows=rows, **shape) for i, rows in enumerate((600, 20)))
    return {"stored": stored, "arriving": arriving, "components": np.eye(shape["columns"])[:32]}


def drift(data: Data) -> Data:
    return {"value": data["stored"].drift(data["arriving"], data["components"]), "passes": 0}


def alarms(_data: Any, found: Any) -> dict[str, float]:
    return {"error": 100 * len(found.moved(0.05)) / len(found.classes)}


SIZES = sized("classes columns", (20, 40), (21_000, 768), (21_000, 768))
DRIFT = Case("belonging: drift of all classes between two nights", nothing, SIZES, alarms, two_nights)
DRIFT.add("drift", drift, "ours")
CASES = [SCORED, DRIFT]
