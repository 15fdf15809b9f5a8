"""The sections of rows that are held out: evaluations, and whether rows belong."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, field_validator, model_validator

from mmpca_dist.belonging.score import SCORES
from mmpca_dist.errors import did_you_mean
from mmpca_dist.evaluation.published import published_cells
from mmpca_dist.evaluation.splits import as_fraction
from mmpca_dist.predictors.classifiers import ClassifierSection, ClassifierSetting, is_from_moments
from mmpca_dist.settings import Section, as_list, setting

MAX_PARTS = 100_000
"""Parts that an evaluation may hold out: each takes memory and a fit."""
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
