"""How many published means agree, seed by seed: ``python benchmarks/paper.py [NAME ...] [--seeds 0 1 2 3 4]``.

Evaluates ``conf/paper/NAME.yaml`` (data found through ``MMPCA_DATA``) with every seed of the splits and prints, for the
PCA and M-PCA cells of Luo & Durrant 2017, how many own means are within two combined standard errors.
See docs/paper.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow.parquet as pq

from mmpca_dist.evaluation.published import WITHIN
from mmpca_dist.runs.config import load_config
from mmpca_dist.runs.evaluating import evaluate

FOLDER = Path(__file__).parent
NAMES = ["ionosphere", "sonar", "colon", "prostate", "leukemia"]


def agreement(name: str, seed: int, results: Path) -> tuple[int, int]:
    """Return how many of the PCA and M-PCA cells agree, and how many there are."""
    output = results / f"paper-{name}-{seed}"
    changes = {"evaluation.seed": seed, "output": str(output)}
    evaluate(load_config(FOLDER.parent / "conf" / "paper" / f"{name}.yaml", changes))
    rows = pq.read_table(output / "tables" / "published.parquet").to_pylist()
    apart = [abs(row["standard_errors_apart"]) for row in rows if "pca" in row["method"]]
    return sum(value <= WITHIN for value in apart), len(apart)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(5))
    parser.add_argument("--results", type=Path, default=FOLDER / "results")
    options = parser.parse_args()
    print(f"| seed | {' | '.join(options.names)} | all |\n|{' --- |' * (len(options.names) + 2)}")
    for seed in options.seeds:
        found = [agreement(name, seed, options.results) for name in options.names]
        within, compared = (sum(column) for column in zip(*found, strict=True))
        cells = " | ".join(f"{own} of {number}" for own, number in found)
        print(f"| {seed} | {cells} | {within} of {compared}, {within / compared:.1%} |", flush=True)


if __name__ == "__main__":
    main()
