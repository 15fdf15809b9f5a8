"""Published cells and reasons from the data files of this package."""

from __future__ import annotations

import csv
from importlib.resources import files

import yaml

from mmpca_dist.evaluation.comparisons import Summary
from mmpca_dist.evaluation.published import PublishedCell, Reason


def read_cells(name: str, source: str, splits: int) -> tuple[PublishedCell, ...]:
    """Return the cells of a CSV file, in its order: errors in percent over so many splits."""
    return tuple(
        PublishedCell(
            int(line["table"]),
            line["dataset"],
            line["method"],
            int(line["n_components"]),
            line["classifier"],
            Summary(float(line["mean"]), float(line["deviation"]), splits),
            line["certain"] == "1",
            source,
        )
        for line in csv.DictReader(read_text(name).splitlines())
    )


def read_reasons(name: str) -> tuple[Reason, ...]:
    """Return the reasons of a YAML file."""
    return tuple(Reason.of(entry) for entry in yaml.safe_load(read_text(name)))


def read_text(name: str) -> str:
    """Return the text of a data file."""
    return files(__package__).joinpath("data", name).read_text("utf-8")
