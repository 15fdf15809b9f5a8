"""How many published means agree, seed by seed: ``python benchmarks/paper.py [NAME ...] [--seeds 0 1 2 ...]``.

Evaluates ``conf/paper/NAME.yaml`` (data found through ``MMPCA_DATA``) with every seed of the splits and prints, for
the PCA and M-PCA cells of Luo & Durrant 2017, how many own means are within two combined standard errors: with each
seed, and with the splits of all seeds together, whose own means have hardly any error left.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from mmpca_dist.evaluation.comparing import Summary, standard_errors_apart
from mmpca_dist.evaluation.published import SPLITS, WITHIN
from mmpca_dist.runs.config import load_config
from mmpca_dist.runs.evaluating import evaluate

FOLDER = Path(__file__).parent
NAMES = ["ionosphere", "sonar", "colon", "prostate", "leukemia"]

Pair = tuple[Summary, Summary]
"""Own and published."""


def compared(name: str, seed: int, results: Path) -> list[Pair]:
    """Return the PCA and M-PCA cells of a data set beside the published ones, in published order."""
    output = results / f"paper-{name}-{seed}"
    config = load_config(
        FOLDER.parent / "conf" / "paper" / f"{name}.yaml", {"evaluation.seed": seed, "output": str(output)}
    )
    evaluate(config)
    rows = pq.read_table(output / "tables" / "published.parquet").to_pylist()
    return [
        (
            Summary(row["mean"], row["deviation"], config.evaluation.count),
            Summary(row["published_mean"], row["published_deviation"], SPLITS),
        )
        for row in rows
        if "pca" in row["method"]
    ]


def together(summaries: Sequence[Summary]) -> Summary:
    """Return the summary of all splits of several."""
    count = sum(one.count for one in summaries)
    mean = sum(one.count * one.mean for one in summaries) / count
    squares = sum((one.count - 1) * one.deviation**2 + one.count * (one.mean - mean) ** 2 for one in summaries)
    return Summary(mean, math.sqrt(squares / (count - 1)), count)


def line(title: str, found: Sequence[Sequence[Pair]]) -> str:
    """Return a row of the table: agreement for each data set and in all."""
    within = [sum(abs(standard_errors_apart(*pair)) <= WITHIN for pair in pairs) for pairs in found]
    cells = " | ".join(f"{own} of {len(pairs)}" for own, pairs in zip(within, found, strict=True))
    number = sum(map(len, found))
    return f"| {title} | {cells} | {sum(within)} of {number}, {sum(within) / number:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(10))
    parser.add_argument("--results", type=Path, default=FOLDER / "results")
    options = parser.parse_args()
    print(f"| seed | {' | '.join(options.names)} | all |\n|{' --- |' * (len(options.names) + 2)}")
    by_seed = []
    for seed in options.seeds:
        by_seed.append([compared(name, seed, options.results) for name in options.names])
        print(line(str(seed), by_seed[-1]), flush=True)
    pooled = [
        [(together([own for own, _ in cells]), cells[0][1]) for cells in zip(*of_one, strict=True)]
        for of_one in zip(*by_seed, strict=True)
    ]
    print(line("together", pooled))


if __name__ == "__main__":
    main()
