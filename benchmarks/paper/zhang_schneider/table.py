"""The tables of Zhang & Schneider 2010: their settings, published figures, and the comparison with them.

``data/zhang_schneider_2010.csv`` has tables 1 to 7: means and standard errors in percent by the amount of training
rows, that is rows (table 1), percent of the documents (2 to 4), or images a subject (5 to 7).
"""

from __future__ import annotations

import csv
import os
import zipfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mmpca_dist.configuration.schema import Size
from mmpca_dist.errors import InputError
from mmpca_dist.settings import Section, setting

from ..data_files import read_text

Array = NDArray[np.float64]
Positive = Annotated[float, Field(gt=0)]
FOLDER = "MMPCA_DATA"
"""The environment variable of the folder of data sets."""


class Figure(NamedTuple):
    """A mean in percent, and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Array) -> Figure:
        """Return the mean of values of shape (n,), and the standard error that their spread implies (NaN for one)."""
        return cls(float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else np.nan)

    def __str__(self) -> str:
        return f"{self.mean:6.2f} ({self.error:.2f})"


def published(tables: Sequence[int]) -> dict[tuple[int, str], Figure]:
    """Return the figures of these tables by the amount of training rows and the model."""
    return {
        (int(line["training"]), line["model"]): Figure(float(line["mean"]), float(line["error"]))
        for line in csv.DictReader(read_text("zhang_schneider_2010.csv").splitlines())
        if int(line["table"]) in tables
    }


def stored_arrays(path: Path, *names: str) -> list[NDArray]:
    """Return arrays of an .npz file by name; raise InputError where it cannot have them."""
    try:
        with np.load(path) as arrays:
            return [arrays[name] for name in names]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not an .npz file with the arrays {', '.join(names)}: {error}") from error


class Table(Section):
    """Settings of the tables of one data set. A configuration has all of them: there are no defaults."""

    NUMBERS: ClassVar[tuple[int, ...]]
    """Numbers of the tables in the paper."""
    TRAINING: ClassVar[str]
    """The unit of training rows: the heading of a column."""
    FULL: ClassVar[int]
    """Number of runs in the paper."""
    RIVALS: ClassVar[Mapping[str, Sequence[str]]]
    """Models by the name of each model with a projection penalty, whose gain on them is printed."""

    table: str
    data: str = setting(example="rows.npz", description="A path, or the name of a file in the folder MMPCA_DATA")
    runs: Size = setting(example=20, description="Random choices of training rows")
    seed: int = setting(ge=0, example=0, description="Of the first run; each run has the next one")
    alphas: list[Positive] = setting(
        min_length=1, values="positive numbers", example=[0.01, 1.0, 100.0], description="The grid of lambda"
    )
    epsilon: Positive = setting(values="a positive number", example=0.1, description="Weight of |v|^2")

    @property
    @abstractmethod
    def amounts(self) -> Sequence[int]:
        """Amounts of training rows, in the units of the heading."""

    @abstractmethod
    def load(self) -> Any:
        """Return the data, from the file at ``path``, and print what they are."""

    @abstractmethod
    def run(self, data: Any, amount: int, seed: int) -> dict[str, float]:
        """Return the figure in percent of every model, for a random choice of so many training rows."""

    @property
    def path(self) -> Path:
        """The path of the data; raises InputError where there is no such file."""
        path = Path(self.data)
        if len(path.parts) == 1 and FOLDER in os.environ and not path.exists():
            path = Path(os.environ[FOLDER]) / path
        if not path.is_file():
            raise InputError(
                f"data: there is no {path}. Set the environment variable {FOLDER} to the folder of {path.name}, or "
                "write its path into the configuration."
            )
        return path

    def values(self, data: Any, amount: int) -> dict[str, Array]:
        """Return the figures of every model, shape (runs,), with so many training rows."""
        runs = [self.run(data, amount, self.seed + number) for number in range(self.runs)]
        return {model: np.asarray([run[model] for run in runs]) for model in runs[0]}

    def compare(self) -> None:
        """Print means over the runs next to the published ones, and what projection penalties gain on other models."""
        data, figures, differences = self.load(), published(self.NUMBERS), []
        print(f"{self.runs} of the paper's {self.FULL} runs; standard errors (s.e.) are over {self.runs} runs")
        width = len(self.TRAINING)
        print(f"{self.TRAINING}  {'model':11}    own (s.e.)     published (s.e.)")
        for amount in self.amounts:
            values = self.values(data, amount)
            for model, own in values.items():
                differences.append(own.mean() - figures[amount, model].mean)
                print(f"{amount:{width}}  {model:11}  {Figure.of(own)}  {figures[amount, model]}", flush=True)
            for model, rival in ((model, rival) for model, rivals in self.RIVALS.items() for rival in rivals):
                gain = Figure.of(values[model] - values[rival])
                stated = figures[amount, model].mean - figures[amount, rival].mean
                print(f"{'':{width}}  {model} less {rival}: {gain}, published {stated:.2f}", flush=True)
        print(f"root mean squared difference {np.sqrt(np.mean(np.square(differences))):.2f}")
