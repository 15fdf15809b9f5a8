"""The sections of a configuration, with the meaning of every setting."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import dask.utils
from pydantic import AfterValidator, BeforeValidator, field_validator, model_validator
from pydantic_core import PydanticCustomError

from mmpca_dist.belonging.score import SCORES
from mmpca_dist.eigen.options import SolverOptions, check_solver, solver_names
from mmpca_dist.errors import did_you_mean
from mmpca_dist.evaluation.published import published_cells
from mmpca_dist.evaluation.splits import as_fraction
from mmpca_dist.predictors.classifiers import ClassifierSection, ClassifierSetting, is_from_moments
from mmpca_dist.settings import Section, as_list, setting
from mmpca_dist.tables.memory_limits import MAX_BYTES

SECRETS = re.compile(r"passw|passphrase|secret|token|api_?key|access_?key|private_?key|credential|(^|_)auth($|_)", re.I)
MAX_SECONDS = 7 * 24 * 3600
MAX_PARTS = 100_000
"""Parts that an evaluation may hold out: each takes memory and a fit."""
ASSIGNED = re.compile(r"(\w+)\s*=")


def _names_within(value: Any) -> Iterator[str]:
    """Yield the names in nested options, and those that strings within assign to, as in ``export NAME=value``."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from _names_within(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _names_within(inner)
    elif isinstance(value, str):
        yield from ASSIGNED.findall(value)


class SolverConfig(Section):
    """How leading eigenvectors are found."""

    kind: Annotated[str, AfterValidator(check_solver)] = setting(
        "auto",
        values=" or ".join(solver_names()),
        example="krylov",
        description="From d x d scatters (dense), in the span of fewer rows than columns (dual), or from passes that "
        "apply scatters to a block of vectors (krylov), for sparse rows in memory after ARPACK (arpack); auto chooses "
        "by the shape",
    )
    oversampling: int = setting(
        10, ge=0, le=10_000, example=20, description="In passes: vectors of a block beyond the components asked for"
    )
    passes: int = setting(4, ge=2, le=1_000, example=8, description="Passes over the rows, at most")
    tolerance: float = setting(
        1e-4,
        ge=0,
        lt=1,
        values="a number from 0 to 1",
        example=1e-6,
        description="Residual over eigenvalue of every component at which passes end before that",
    )

    def options(self) -> SolverOptions:
        """Return these settings as the solvers take them."""
        return SolverOptions(self.kind, self.oversampling, self.passes, self.tolerance)


class ProjectConfig(Section):
    """Which methods' projected rows are written, and how."""

    methods: Literal["all"] | Annotated[list[str], BeforeValidator(as_list)] = setting(
        "all",
        values="all, or the labels of some of the methods, or [] for none",
        example=["m-pca0"],
        description="Methods whose projected rows are written",
    )
    format: Annotated[list[Literal["zarr", "parquet", "csv", "arrow"]], BeforeValidator(as_list)] = setting(
        ["zarr"], example=["zarr", "parquet"], description="Formats of the projected rows; pictures need zarr"
    )
    keep: Literal["all"] | Annotated[list[str], BeforeValidator(as_list)] = setting(
        "all",
        values="all, or names of columns, or [] for none",
        example=["id", "patient"],
        description="Columns that go with the projected rows, such as identifiers, groups and dates; all are those of "
        "the table that are neither features nor labels, or none if these are more than 50",
    )
    quote_formulas: bool = setting(
        False,
        example=True,
        description="Write an apostrophe before text in CSV that a spreadsheet takes for a formula, such as =1+1",
    )


BY_COLUMN = ("groups", "time", "given", "listed")
"""The kinds of splits that a column tells."""
SPLITS_OF = {
    "count": ("shares", "folds", "groups"),
    "train": ("shares", "groups"),
    "folds": ("folds", "blocks", "groups"),
    "intervals": ("folds",),
    "column": BY_COLUMN,
    "held_out": ("given",),
    "windows": ("time",),
    "boundary": ("time",),
}
"""The kinds of splits that settings of an evaluation are for, where these are not all."""


class EvaluationConfig(Section):
    """How `mmpca evaluate` compares methods: rows held out, and classifiers."""

    splits: Literal["shares", "folds", "blocks", "groups", "time", "given", "listed"] = setting(
        "folds",
        example="groups",
        description="Rows held out: a share of each class, again and again; folds, each in turn; blocks of rows that "
        "follow each other, as many as folds; groups that a column names, in folds or shares; rows after others in "
        "time; parts that a column names; or splits that it lists, by a character each: t for rows that train, h for "
        "rows held out, - for neither",
    )
    count: int = setting(1, ge=1, example=50, description="Number of repetitions, each with other shares or folds")
    train: str | float | None = setting(
        None,
        values="a number between 0 and 1, or a fraction",
        example="4/5",
        description="For shares: how much of each class trains, 4/5 by default; for groups: which share of the groups "
        "trains, by default all but one of the folds",
    )
    folds: int = setting(5, ge=2, example=10, description="Number of folds, also of groups, and for n_components: auto")
    column: str | None = setting(
        None,
        example="patient",
        description="The array, column or .npy file that names each row's group or given part, or is its time; "
        "a column of Parquet is then no feature of evaluations (of runs, name it in dataset.drop)",
    )
    windows: int | None = setting(
        None,
        ge=1,
        example=5,
        description="For time: how many windows of later and later rows are held out in turn, while all rows before "
        "them train",
    )
    boundary: str | int | float | None = setting(
        None,
        values="a number, date or time",
        example="2024-01-31",
        description="For time: rows before it train; those at it and after it are held out",
    )
    held_out: bool | str | int | None = setting(
        None,
        values="a name or number",
        example="test",
        description="For given parts: the one that is held out while the others train; by default each in turn",
    )
    seed: int = setting(0, ge=0, example=1, description="For shares, folds and groups: another number gives other ones")
    classifiers: Annotated[list[ClassifierSetting], BeforeValidator(as_list)] = setting(
        ["lda"],
        min_length=1,
        validate_default=True,
        values="names of classifiers, or mappings like {name: svm, C: 1}",
        example=["lda", "svm", "logistic", "naive-bayes"],
        description="Classifiers of the reduced rows (see `mmpca classifiers`); n_components: auto uses the first "
        "that is made from moments, or fisher",
    )
    reference: str | None = setting(
        None,
        values="the label of one of the methods",
        example="pca",
        description="The method that others are tested against; by default pca, or the first one where that is not "
        "among them",
    )
    margins: bool = setting(
        True, example=False, description="Measure distances to a linear classifier's hyperplane before and after"
    )
    intervals: bool = setting(
        False, example=True, description="For folds: 90% intervals of errors by nested folds, where moments suffice"
    )
    published: str | None = setting(
        None, example="ionosphere", description="Data set of Luo & Durrant 2017 whose errors are shown next to these"
    )

    @field_validator("train")
    @classmethod
    def _is_a_share(cls, value: str | float | None) -> str | float | None:
        if value is not None:
            as_fraction(value)
        return value

    @field_validator("published")
    @classmethod
    def _is_published(cls, name: str | None) -> str | None:
        if name is not None:
            published_cells(name)
        return name

    @property
    def judge(self) -> ClassifierSection:
        """The classifier by which numbers of components are chosen: it needs no rows to be fitted."""
        from_moments = next(filter(is_from_moments, self.classifiers), None)
        return from_moments or ClassifierSection.model_validate("fisher")

    @property
    def in_folds(self) -> bool:
        """Whether every row, or group of rows, is held out once each time that rows are split."""
        return self.splits in ("folds", "blocks") or (self.splits == "groups" and self.train is None)

    @property
    def idle(self) -> list[str]:
        """The settings that are for other kinds of splits, and not at their defaults; stored settings are all set."""
        fields = type(self).model_fields
        others = [name for name, kinds in SPLITS_OF.items() if self.splits not in kinds]
        return [name for name in others if getattr(self, name) != fields[name].default]

    def choosing(self) -> dict[str, Any]:
        """Return the settings that the choice of numbers of components depends on."""
        choosing = {"folds": self.folds, "seed": self.seed, "classifier": self.judge.model_dump(mode="json")}
        if self.splits == "blocks":
            return choosing | {"splits": self.splits}
        return choosing | ({"groups": self.column} if self.splits == "groups" else {})

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.column is None) == (self.splits in BY_COLUMN):
            raise ValueError(
                "splits: groups, time, given and listed take a column, and a column takes one of these kinds of splits."
            )
        if self.splits == "time" and (self.windows is None) == (self.boundary is None):
            raise ValueError("splits: time takes either windows, how many there are, or a boundary between two.")
        labels = Counter(section.label for section in self.classifiers)
        label, count = labels.most_common(1)[0]
        if count > 1:
            raise ValueError(f"two classifiers are called {label!r}; give one of them another label.")
        fitted = [section.label for section in self.classifiers if not is_from_moments(section)]
        if self.intervals and self.splits == "folds" and (fitted or self.folds < 3):
            unmet = f"{fitted[0]} is fitted to rows" if fitted else f"there are {self.folds}"
            raise ValueError(f"intervals take three folds or more, and classifiers from moments alone; {unmet}.")
        n_parts = self.count * (self.folds if self.in_folds else 1) * (self.windows or 1)
        if n_parts > MAX_PARTS:
            raise ValueError(
                f"{n_parts:,} parts are held out, and may be {MAX_PARTS:,}. Lower count, folds or windows."
            )
        return self


class BelongingConfig(Section):
    """Whether rows belong to those that trained: scores, with limits from the folds of `evaluation`."""

    scores: Annotated[list[str], BeforeValidator(as_list)] = setting(
        ["t2", "q", "class-distance"],
        min_length=1,
        values="some of t2, q, class-distance",
        example=["t2", "q"],
        description="Scores of rows: Hotelling's T2, the residual Q (SPE), and the distance to the nearest class",
    )
    alpha: float = setting(
        0.01,
        gt=0,
        lt=1,
        values="a number between 0 and 1",
        example=0.05,
        description="Share of rows like those that trained which are said not to belong",
    )
    groups: str | None = setting(
        None,
        example="patient",
        description="The column whose groups of rows are held out together: the same as splits: groups and column of "
        "`evaluation`",
    )
    shrinkage: float = setting(
        1e-3, ge=0, le=1, example=0.01, description="For class-distance: share of the identity in the scatter within"
    )

    @field_validator("scores")
    @classmethod
    def _known_scores(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in SCORES:
                raise ValueError(
                    f"there is no score {name!r}; there are {', '.join(SCORES)}.{did_you_mean(name, SCORES)}"
                )
        return list(dict.fromkeys(names))


class AdaptConfig(Section):
    """Between how many workers a cluster has, as there is work."""

    minimum: int = setting(1, ge=1, le=10_000, example=1, description="Workers that stay, and that a run waits for")
    maximum: int = setting(ge=1, le=10_000, example=16, description="Workers at most, which the plan counts on")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum is {self.minimum}, and maximum is {self.maximum}, which is less.")
        return self


class ComputeConfig(Section):
    """Where the work runs; results do not depend on it."""

    cluster: str = setting(
        "threads",
        values="threads, local, the address of a Dask scheduler, or a class of Dask clusters",
        example="tcp://host:8786",
        description="threads of this process, local worker processes, workers of a Dask scheduler, or a cluster that "
        "is started for the run, such as dask_jobqueue.SLURMCluster (see docs/operations.md for which)",
    )
    options: dict[str, Any] = setting(
        {},
        values="keys and values",
        example={"queue": "long", "cores": 4, "memory": "16GB"},
        description="For a class of clusters: what it is called with. No secrets: these come from the environment. No "
        "code: images, commands and the like belong into Dask's own configuration",
    )
    wait: float = setting(
        60,
        gt=0,
        le=MAX_SECONDS,
        values="a number of seconds, a week at most",
        example=600,
        description="How long to wait for workers",
    )
    tls_ca_file: str | None = setting(
        None,
        example="/etc/dask/ca.pem",
        description="For a scheduler at tls://: the file of the authority that signed its certificate; by default what "
        "Dask's own configuration says",
    )
    tls_cert: str | None = setting(None, example="/etc/dask/client.pem", description="The file of our certificate")
    tls_key: str | None = setting(None, example="/etc/dask/client.key", description="The file of our private key")
    workers: int = setting(
        2, ge=1, le=10_000, example=4, description="Workers to start; with a scheduler, how many the plan may count on"
    )
    adapt: AdaptConfig | None = setting(
        None,
        values="the numbers minimum and maximum",
        example={"minimum": 1, "maximum": 16},
        description="For local and a class of clusters: start and end workers as there is work, in place of workers",
    )
    performance_report: bool = setting(
        False,
        example=True,
        description="Keep Dask's performance report of a cluster in report/dask-performance.html of the run",
    )
    threads_per_worker: int = setting(1, ge=1, le=1_000, example=2, description="Tasks that a worker runs at a time")
    memory_limit: str | int = setting(
        "2GiB",
        values="a size, or a number of bytes",
        example="4GiB",
        description="Memory of a worker, which the plan must fit into; threads share that of all workers",
    )

    @field_validator("cluster")
    @classmethod
    def _known_cluster(cls, value: str) -> str:
        if value in ("threads", "local") or "://" in value:
            return value
        if "." in value and all(part.isidentifier() for part in value.split(".")):
            return value
        hint = did_you_mean(value, ["threads", "local"])
        raise ValueError(
            f"{value!r} is neither 'threads' nor 'local', nor an address like 'tcp://host:8786', nor a class like "
            f"'dask_jobqueue.SLURMCluster'.{hint}"
        )

    @field_validator("options")
    @classmethod
    def _no_secrets(cls, value: dict[str, Any]) -> dict[str, Any]:
        name = next(filter(SECRETS.search, _names_within(value)), None)
        if name is not None:
            raise ValueError(
                f"{name!r} may be a secret, and settings are stored and shown. Give it in the environment, or in "
                "Dask's configuration"
            )
        return value

    @field_validator("memory_limit", mode="before")
    @classmethod
    def _readable_size(cls, value: Any) -> Any:
        try:
            size = 0 if isinstance(value, bool) else dask.utils.parse_bytes(value)
        except (ValueError, TypeError, AttributeError, OverflowError):
            size = 0
        if size <= 0:
            raise PydanticCustomError("size", "not a size")
        if size > MAX_BYTES:
            raise ValueError(f"{str(value)[:60]} is more than 1 PiB. Give what a worker may use.")
        return value

    @property
    def memory_bytes(self) -> int:
        """Memory a worker may use."""
        return int(dask.utils.parse_bytes(self.memory_limit))

    @property
    def most_workers(self) -> int:
        """How many workers there may be at a time."""
        return self.workers if self.adapt is None else self.adapt.maximum

    @property
    def first_workers(self) -> int:
        """How many workers are there from the beginning."""
        return self.workers if self.adapt is None else self.adapt.minimum

    @property
    def n_threads(self) -> int:
        return self.most_workers * self.threads_per_worker
