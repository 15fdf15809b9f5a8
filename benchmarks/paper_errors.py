"""How many published means agree, seed by seed: ``python benchmarks/paper_errors.py [NAME ...] [--seeds 0 1 2 ...]``.

Evaluates ``conf/paper/NAME.yaml`` (data found through ``MMPCA_DATA``) with every seed of the splits and prints, for
the PCA and M-PCA cells of Luo & Durrant 2017, how many own means are within two combined standard errors: with each
seed, and with the splits of all seeds together, whose own means have hardly any error left. Configurations like
``ionosphere_libsvm`` have some columns of a table once more, of the data that the published ones are evidently of:
``all`` counts the whole tables, ``all, as published`` these columns instead of theirs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from mmpca_paper.figures import SPLITS

from mmpca_dist.configuration.schema import load_config
from mmpca_dist.evaluation.comparisons import Summary, standard_errors_apart
from mmpca_dist.evaluation.published import WITHIN
from mmpca_dist.runs.evaluate import evaluate

FOLDER = Path(__file__).parent
NAMES = ["ionosphere", "ionosphere_libsvm", "ionosphere_varying", "sonar", "colon", "prostate", "leukemia"]
COLUMNS = ("_libsvm", "_varying")
"""The ending of the names of configurations of some columns."""

Key = tuple[str, int, str]
"""Method, number of components, classifier."""
Pair = tuple[Summary, Summary]
"""Own and published."""
Tables = dict[str, dict[Key, Pair]]


def compared(name: str, seed: int, results: Path) -> dict[Key, Pair]:
    """Return the PCA and M-PCA cells of a configuration with the published ones, in published order."""
    output = results / f"paper-{name}-{seed}"
    config = load_config(
        FOLDER.parent / "conf" / "paper" / f"{name}.yaml", {"evaluation.seed": seed, "output": str(output)}
    )
    evaluate(config)
    rows = pq.read_table(output / "tables" / "published.parquet").to_pylist()
    return {
        (row["method"], row["n_components"], row["classifier"]): (
            Summary(row["mean"], row["deviation"], config.evaluation.count),
            Summary(row["published_mean"], row["published_deviation"], SPLITS),
        )
        for row in rows
        if "pca" in row["method"]
    }


def together(summaries: Sequence[Summary]) -> Summary:
    """Return the summary of all splits of several."""
    count = sum(one.count for one in summaries)
    mean = sum(one.count * one.mean for one in summaries) / count
    squares = sum((one.count - 1) * one.deviation**2 + one.count * (one.mean - mean) ** 2 for one in summaries)
    return Summary(mean, math.sqrt(squares / (count - 1)), count)


def within(pairs: Iterable[Pair]) -> str:
    """Return in words how many agree."""
    agree = [abs(standard_errors_apart(*pair)) <= WITHIN for pair in pairs]
    return f"{sum(agree)} of {len(agree)}, {sum(agree) / max(len(agree), 1):.1%}"


def line(title: str, tables: Tables) -> str:
    """Return a row of the table: agreement for each configuration and in all."""
    whole, columns = {}, {}
    for name, pairs in tables.items():
        table = next((name.removesuffix(end) for end in COLUMNS if name.endswith(end)), name)
        (whole if table == name else columns).update({(table, key): pair for key, pair in pairs.items()})
    cells = [within(pairs.values()).partition(",")[0] for pairs in tables.values()]
    cells += [within(pairs.values()) for pairs in (whole, whole | columns)]
    return f"| {title} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(10))
    parser.add_argument("--results", type=Path, default=FOLDER / "results")
    options = parser.parse_args()
    print(f"| seed | {' | '.join(options.names)} | all | all, as published |\n|{' --- |' * (len(options.names) + 3)}")
    by_seed: list[Tables] = []
    for seed in options.seeds:
        by_seed.append({name: compared(name, seed, options.results) for name in options.names})
        print(line(str(seed), by_seed[-1]), flush=True)
    pooled = {
        name: {
            key: (together([tables[name][key][0] for tables in by_seed]), published)
            for key, (_, published) in pairs.items()
        }
        for name, pairs in by_seed[0].items()
    }
    print(line("together", pooled))


if __name__ == "__main__":
    main()
