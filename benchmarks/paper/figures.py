"""The test errors of Luo & Durrant 2017, tables 4 to 13, and why own ones differ.

``data/luo_durrant_2017.csv`` has the figures by the names of this project: means and deviations in percent over 50
splits, rounded to a tenth. The best cells of every column are missing from the copy they come from; ``certain`` is 0
where that leaves the column of a figure in doubt. ``data/reasons.yaml`` has the reasons.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib.resources import files

import yaml

from mmpca_dist.evaluation.comparisons import Summary
from mmpca_dist.evaluation.published import PublishedCell, PublishedFigures, Reason

SOURCE = "Luo & Durrant 2017"
SPLITS = 50


@lru_cache(maxsize=1)
def cells() -> tuple[PublishedCell, ...]:
    """Return the published cells, in the order of the paper."""
    lines = csv.DictReader(_data("luo_durrant_2017.csv").splitlines())
    return tuple(
        PublishedCell(
            int(line["table"]),
            line["dataset"],
            line["method"],
            int(line["n_components"]),
            line["classifier"],
            Summary(float(line["mean"]), float(line["deviation"]), SPLITS),
            line["certain"] == "1",
            SOURCE,
        )
        for line in lines
    )


@lru_cache(maxsize=1)
def reasons() -> tuple[Reason, ...]:
    """Return the reasons for differences."""
    return tuple(Reason.of(entry) for entry in yaml.safe_load(_data("reasons.yaml")))


def _data(name: str) -> str:
    return files(__package__).joinpath("data", name).read_text("utf-8")


FIGURES = PublishedFigures("luo-durrant-2017", cells, reasons)
