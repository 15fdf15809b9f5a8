"""What the experiments of Zhang & Schneider 2010, "Projection Penalties", share: published figures, data, printing.

``data/zhang_schneider_2010.csv`` has tables 1 to 7: means and standard errors in percent by the amount of training
rows, that is rows (table 1), percent of the documents (2 to 4), or images a subject (5 to 7).
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
ALPHAS: Array = np.asarray([10.0**exponent for exponent in range(-8, 11, 2)])
"""The paper's grid of lambda."""


class Figure(NamedTuple):
    """A mean in percent, and its standard error."""

    mean: float
    error: float


def published(tables: Sequence[int]) -> dict[tuple[int, str], Figure]:
    """Return the figures of these tables by the amount of training rows and the model."""
    lines = files(__package__).joinpath("data", "zhang_schneider_2010.csv").read_text("utf-8").splitlines()
    return {
        (int(line["training"]), line["model"]): Figure(float(line["mean"]), float(line["error"]))
        for line in csv.DictReader(lines)
        if int(line["table"]) in tables
    }


def data_path(name: str, or_option: str | None = None) -> Path:
    """Return the path of a file in the folder MMPCA_DATA.

    Raises
    ------
    SystemExit
        Where there is no such file: with a message that names its path, and an option that may give another.
    """
    path = Path(os.environ.get("MMPCA_DATA", "../shared/data")) / name
    if not path.exists():
        other = f", or give its path by {or_option}" if or_option else ""
        raise SystemExit(f"There is no {path}: set MMPCA_DATA to the folder of {name}{other}.")
    return path


def argument_parser(doc: str | None, runs: int, repeated: str) -> argparse.ArgumentParser:
    """Return a parser with the first line of a docstring and ``--runs``, of what is ``repeated``."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("--runs", type=int, default=runs, help=f"{repeated}; by default {runs}")
    return parser


class Comparison:
    """Prints own figures beside the published ones, line by line.

    Parameters
    ----------
    figures : mapping of (training rows, model) to Figure
    training : str
        Heading of the first column.
    """

    def __init__(self, figures: Mapping[tuple[int, str], Figure], training: str) -> None:
        self._figures, self._width = figures, len(training)
        self._differences: list[float] = []
        print(f"{training}  {'model':11}   own (s.e.)     published (s.e.)")

    def add(self, training: int, model: str, values: ArrayLike) -> None:
        """Print the mean of own values, shape (n,), and the standard error of it that their spread implies."""
        own, figure = np.asarray(values, np.float64), self._figures[training, model]
        error = own.std(ddof=1) / np.sqrt(own.size) if own.size > 1 else float("nan")
        self._differences.append(own.mean() - figure.mean)
        print(
            f"{training:{self._width}}  {model:11} {own.mean():6.2f} ({error:.2f})  "
            f"{figure.mean:6.2f} ({figure.error:.2f})",
            flush=True,
        )

    def difference(self) -> float:
        """Return the root mean squared difference of the figures so far."""
        return float(np.sqrt(np.mean(np.square(self._differences))))
