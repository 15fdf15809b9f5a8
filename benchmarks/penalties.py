"""How far errors depend on where the penalty C is chosen: ``python benchmarks/penalties.py [NAME ...]``.

Evaluates bundled data sets in ten times five folds, columns standardised, and prints mean errors in percent with

- ``auto``: C chosen once, by cross-validation of all rows in their original columns;
- ``original``: C chosen in the original columns of the rows that train, in every split;
- ``nested``: C chosen in the reduced columns of the rows that train, for every method, size and split;

and the differences of ``auto`` from the others, with their corrected standard errors.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mmpca_dist import open_dataset
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.evaluation.comparisons import corrected_t_test
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import open_job, run_stage
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import GRID, choose_C
from mmpca_dist.runs.evaluate import evaluation_stages
from mmpca_dist.runs.evaluation_scores import SplitRecords, rows_released

SIZES = {"breast_cancer": [2, 8], "wine": [1, 3]}
METHODS = ["pca", "m-pca1a"]
KINDS = ["svm", "logistic"]


def scored(name: str, output: Path) -> tuple[list[dict[str, Any]], list[np.ndarray]]:
    """Return the records of all splits, and which rows train in each."""
    penalties = {"auto": "auto", "nested": "nested", **{f"{C:g}": C for C in GRID}}
    classifiers = [
        {"name": kind, "C": C, "bias": True, "label": f"{kind} {label}"}
        for kind in KINDS
        for label, C in penalties.items()
    ]
    settings = {
        "dataset": {"uri": f"bundled:{name}"}, "methods": METHODS, "n_components": SIZES[name], "standardize": True,
        "precision": "double", "output": str(output),
        "evaluation": {"folds": 5, "count": 10, "classifiers": classifiers, "margins": False},
    }  # fmt: skip
    with open_job(parse_config(settings, "the benchmark"), Callback(), "evaluation") as job, rows_released(job):
        for stage in evaluation_stages(job.config)[:-1]:
            run_stage(job, stage)
        splits = job.splits
        rows = job.dataset.batch(0, job.dataset.n_rows, X=False)
        train = [codes != part for codes in splits.codes(rows) for part in splits.held_out]
        return SplitRecords(job.run.path("splits"), job.key).read(len(train)), train


def compare(name: str, output: Path) -> None:
    """Print a line for each classifier, method and number of components."""
    records, train = scored(name, output)
    dataset = open_dataset(f"bundled:{name}")
    X, y = np.asarray(dataset.read_rows(0, dataset.n_rows), float), dataset.read_labels(0, dataset.n_rows)
    held_out = np.array([record["rows"] for record in records])
    errors = {
        (line["classifier"], line["method"], line["n_components"], record["split"]): line["errors"]
        for record in records
        for line in record["errors"]
    }
    for kind in KINDS:
        spec = ClassifierSection.model_validate({"name": kind, "C": "nested", "bias": True})
        chosen = [f"{choose_C([spec], X[rows], y[rows], standardize=True)[kind]:g}" for rows in train]
        labels = {
            "auto": ["auto"] * len(train),
            "original": chosen,
            "nested": ["nested"] * len(train),
        }
        for method in METHODS:
            for size in SIZES[name]:
                counts = {
                    what: np.array([errors[f"{kind} {label}", method, size, j] for j, label in enumerate(by_split)])
                    for what, by_split in labels.items()
                }
                means = [f"{100 * np.mean(wrong / held_out):.2f}" for wrong in counts.values()]
                tests = [
                    corrected_t_test(counts["auto"], counts[what], held_out, len(y) - held_out)
                    for what in ("original", "nested")
                ]
                differences = [f"{test.difference:+.2f} ({test.standard_error:.2f})" for test in tests]
                print(f"| {name} | {kind} | {method} | {size} | {' | '.join(means + differences)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SIZES), choices=list(SIZES))
    options = parser.parse_args()
    print("| data | classifier | method | K | auto | original | nested | auto - original | auto - nested |")
    print(f"|{' --- |' * 9}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            compare(name, Path(folder) / name)


if __name__ == "__main__":
    main()
