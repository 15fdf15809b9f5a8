"""Published test errors compared with own ones: how far apart they are, and why.

The figures come from installed packages, by entry points of the group ``mmpca_dist.published``; those of Luo & Durrant
2017 are in ``benchmarks/paper``, installed as ``mmpca_paper``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.evaluation.comparisons import Summary, combined_standard_error, standard_errors_apart
from mmpca_dist.evaluation.tables import Cell, Key
from mmpca_dist.registry import Registry

PATTERNS = ("method", "n_components", "classifier")
WITHIN = 2.0
"""Combined standard errors up to which two means agree."""
ROUNDING = 0.05
"""Percentage points by which a mean that is published to a tenth may differ from what it was before."""
ROUNDED = "Rounding: the published mean is given to a tenth, and before that it may have been within."


@dataclass(frozen=True)
class PublishedCell:
    """A published test error."""

    table: int
    """Its number in the paper."""
    dataset: str
    method: str
    """As it is called here, like the classifier."""
    n_components: int
    classifier: str
    summary: Summary
    """In percent, rounded to a tenth."""
    certain: bool
    """Whether the column of the figure is known for certain."""
    source: str = ""

    @property
    def key(self) -> Key:
        """Method, number of components, classifier."""
        return self.method, self.n_components, self.classifier


@dataclass(frozen=True)
class Reason:
    """Why cells of a data set differ; patterns of their methods, numbers of components and classifiers.

    Only of a reason that was ``measured`` on this data set do cells count as explained.
    """

    text: str
    dataset: str
    measured: bool
    method: tuple[str, ...] = ("*",)
    n_components: tuple[str, ...] = ("*",)
    classifier: tuple[str, ...] = ("*",)

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Reason:
        """Return the reason that an entry of a list of reasons is."""
        values = {name: entry[name] for name in PATTERNS if name in entry}
        patterns = {name: tuple(map(str, v if isinstance(v, list) else [v])) for name, v in values.items()}
        return cls(entry["reason"], entry["dataset"], entry["measured"], **patterns)

    def applies_to(self, cell: PublishedCell) -> bool:
        """Return whether the data set is the same and all three patterns fit."""
        patterns = (self.method, self.n_components, self.classifier)
        return cell.dataset == self.dataset and all(
            any(fnmatchcase(str(name), pattern) for pattern in allowed)
            for name, allowed in zip(cell.key, patterns, strict=True)
        )


@dataclass(frozen=True)
class Compared:
    """An own cell and the published one."""

    own: Cell
    published: PublishedCell
    reason: str = ""
    """The known reason why they differ, if they do by more than two combined standard errors; else empty."""
    explained: bool = False
    """Whether a reason was measured on this data set, or published figures are rounded by as much."""

    @property
    def apart(self) -> float:
        """Own mean less published mean in combined standard errors; NaN where own deviation is unknown."""
        return standard_errors_apart(self.own.summary, self.published.summary)

    @property
    def within(self) -> bool | None:
        """Whether they are at most two combined standard errors apart; None where that is not known."""
        return None if math.isnan(self.apart) else abs(self.apart) <= WITHIN

    @property
    def is_open(self) -> bool:
        """Whether they miss by no more than the published mean was rounded by, so that nobody can tell."""
        own, published = self.own.summary, self.published.summary
        allowed = WITHIN * combined_standard_error(own, published) + ROUNDING
        return self.within is False and abs(own.mean - published.mean) <= allowed


class Agreement(NamedTuple):
    """How many own means are within two combined standard errors of the published ones, of how many compared.

    ``open`` are those beyond by no more than published means were rounded by.
    """

    within: int
    compared: int
    open: int = 0


@dataclass(frozen=True)
class PublishedFigures:
    """The figures of a publication: functions that return all its cells, in order, and reasons for differences."""

    name: str
    cells: Callable[[], Sequence[PublishedCell]]
    reasons: Callable[[], Sequence[Reason]]


FIGURES = Registry(PublishedFigures, group="mmpca_dist.published")


def published_datasets() -> list[str]:
    """Return the names of the data sets with published figures."""
    return list(dict.fromkeys(cell.dataset for cell in _all_cells()))


def published_cells(dataset: str) -> list[PublishedCell]:
    """Return the published cells of a data set, in the order of the paper.

    Raises InputError for a data set without published figures.
    """
    cells = [cell for cell in _all_cells() if cell.dataset == dataset]
    if not cells:
        names = published_datasets()
        raise InputError(
            f"There are no published figures for {dataset!r}; there are for {some_names(names)}."
            f"{did_you_mean(dataset, names)}"
        )
    return cells


def sources_of(dataset: str | None) -> str:
    """Return where the figures of a data set were published."""
    return ", ".join(dict.fromkeys(cell.source for cell in _all_cells() if cell.dataset == dataset))


def side_by_side(cells: Iterable[Cell], published: Sequence[PublishedCell]) -> list[Compared]:
    """Return own and published cells of the same method, number of components and classifier, in published order.

    Several reasons of the publications that apply are shown one after the other.
    """
    reasons = [reason for figures in FIGURES.values() for reason in figures.reasons()]
    by_key = {cell.key: cell for cell in cells}
    rows = [Compared(by_key[cell.key], cell) for cell in published if cell.key in by_key]
    return [row if row.within is not False else _with_reasons(row, reasons) for row in rows]


def has_margin_pca(rows: Iterable[Compared]) -> bool:
    """Tell whether M-PCA is among published methods: then it, and PCA, are what a comparison is about."""
    return any(row.published.method.startswith("m-pca") for row in rows)


def agreement(rows: Iterable[Compared]) -> Agreement:
    """Return how many of the PCA and M-PCA cells, or of all where there is no M-PCA, are within two combined errors."""
    rows = list(rows)
    every = not has_margin_pca(rows)
    counted = [
        row
        for row in rows
        if row.within is not None
        and (every or row.published.method == "pca" or row.published.method.startswith("m-pca"))
    ]
    return Agreement(sum(row.within is True for row in counted), len(counted), sum(row.is_open for row in counted))


def _with_reasons(row: Compared, reasons: Sequence[Reason]) -> Compared:
    if row.is_open:
        return replace(row, reason=ROUNDED, explained=True)
    matches = [reason for reason in reasons if reason.applies_to(row.published)]
    text, explained = " ".join(reason.text for reason in matches), any(reason.measured for reason in matches)
    return replace(row, reason=text, explained=explained)


def _all_cells() -> list[PublishedCell]:
    return [cell for figures in FIGURES.values() for cell in figures.cells()]
