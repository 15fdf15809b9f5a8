"""The results of an evaluation, and the comparison of its methods."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.evaluation.comparisons import CorrectedTest, SignTest
from mmpca_dist.evaluation.component_rule import alike, lowest
from mmpca_dist.evaluation.published import Compared, published_cells, side_by_side
from mmpca_dist.evaluation.tables import LEFT_OUT, RECONSTRUCTION, Cell, ErrorTable, Key, holm_by_models, p_values


@dataclass(frozen=True)
class Evaluation:
    """An evaluation: what was compared, on which rows, and the errors."""

    dataset: dict[str, Any]
    """``uri``, ``n_rows``, ``n_features``, ``classes`` (names) and ``counts`` (rows per class)."""
    splits: str
    """In words: ``"50 stratified splits, four fifths of the rows train"``."""
    config: RunConfig
    classifiers: dict[str, str]
    """For each name in the table, what to call it in words, with its constant: ``"linear SVM, C = 0.1"``."""
    table: ErrorTable
    baselines: list[float]
    """For each split, percent of errors of always naming the largest class of the training rows, or of their mean."""
    margins: list[dict[str, Any]] = field(default_factory=list)
    """For each split, method, number of components and classifier ``split``, ``method`` (``""`` for the original
    columns), ``n_components``, ``classifier``, ``minimum``, ``quantiles`` (1, 5, 25, 50, 75, 95 and 99%), ``histogram``
    (counts), ``edges`` (``[low, high]``) and ``wasserstein``."""
    seconds: dict[str, float] = field(default_factory=dict)
    """For each method, in all splits together; costs that methods share have names of their own."""
    bytes_read: dict[str, int] = field(default_factory=dict)
    """Likewise."""
    notes: list[str] = field(default_factory=list)
    margin_rows: str = "the rows held out"
    """Which rows margins are measured on, in words."""
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds of each stage."""
    config_yaml: str = ""
    folder: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @cached_property
    def cells(self) -> dict[Key, Cell]:
        """The cells of the table by method, number of components and classifier.

        All columns are not tested against another reference, so that no correction is for tests that nobody asked for.
        """
        untested = self.config.unreduced - {self.config.reference}
        return {cell.key: cell for cell in self.table.cells(self.config.reference, untested)}

    @property
    def reducing(self) -> list[str]:
        """The methods that reduce."""
        return [method for method in self.config.labels if method not in self.config.unreduced]

    @property
    def own_units(self) -> set[str]:
        """Methods whose components are not orthonormal: distances after them do not compare with those before."""
        return {section.label for section in self.config.methods if not section.method.orthonormal}

    @property
    def all_columns(self) -> str | None:
        """The method that reduces nothing, that of the columns as they are before others; None without one."""
        found = [method for method in self.config.labels if method in self.config.unreduced]
        return min(found, key="all-columns".__ne__, default=None)

    @cached_property
    def against_all_columns(self) -> dict[Key, Cell]:
        """The cells with tests against all columns under the same classifier, and Holm's correction for these."""
        return {cell.key: cell for cell in self.table.cells(self.all_columns or "", self.config.unreduced)}

    @property
    def predicts(self) -> bool:
        """Whether there are numbers to predict in the place of classes."""
        return "targets" in self.dataset

    @property
    def reconstructs(self) -> bool:
        """Whether rows have no labels, and errors are the variance that reconstruction leaves."""
        return RECONSTRUCTION in self.classifiers

    @property
    def n_splits(self) -> int:
        """How many splits every cell is a mean over."""
        return next(iter(self.cells.values())).summary.count

    @property
    def n_tests(self) -> int:
        """How many tests against the reference Holm's correction is for."""
        return max((cell.t_test.tests for cell in self.cells.values() if cell.t_test is not None), default=0)

    @property
    def baseline(self) -> float:
        """Percent of errors of always naming the largest class, a mean over the splits."""
        return sum(self.baselines) / len(self.baselines)

    @cached_property
    def distinct(self) -> list[Cell]:
        """The cells without those that repeat another: a method may give as many components for several numbers."""
        distinct: dict[tuple[Any, ...], Cell] = {}
        for cell in self.cells.values():
            if not self.reconstructs or cell.classifier == LEFT_OUT:  # what is reconstructed chooses nothing
                distinct.setdefault(cell.models, cell)
        return list(distinct.values())

    @cached_property
    def compared(self) -> list[Compared]:
        """Own cells with the published ones; none where nothing is published."""
        published = self.config.evaluation.published
        return [] if published is None else side_by_side(self.cells.values(), published_cells(published))


class Verdict(NamedTuple):
    """The cell with the lowest mean error, others with the same, its rival, and tests of the best less the rival.

    Among equal means the best has the fewest components, then comes first. Its rival is the lowest mean of the
    reference's cells or, where the reference is best, of all others'.
    """

    best: Cell
    tied: list[Cell]
    rival: Cell | None
    test: SignTest | None
    t_test: CorrectedTest | None


def verdict(evaluation: Evaluation) -> Verdict:
    """Return which cell is best and how it compares with the reference."""
    cells = evaluation.distinct
    best = lowest(cells)
    of_reference = best.method != evaluation.config.reference
    rivals = [cell for cell in cells if (cell.method == evaluation.config.reference) == of_reference]
    rival = lowest(rivals) if rivals else None
    tied = [cell for cell in cells if cell is not best and alike(cell, best)]
    if rival is None:
        return Verdict(best, tied, None, None, None)
    return Verdict(
        best, tied, rival, evaluation.table.sign_test(best.key, rival.key), difference_of(evaluation, best, rival)
    )


def difference_of(evaluation: Evaluation, best: Cell, rival: Cell, reference: str | None = None) -> CorrectedTest:
    """Return the test of two cells, one of them the reference's, corrected for all tests against the reference.

    ``reference`` is that of the evaluation by default, or all columns.
    """
    test = evaluation.table.t_test(best.key, rival.key)
    if test.p_value is None:
        return test
    cells = evaluation.against_all_columns if reference else evaluation.cells
    reference = reference or evaluation.config.reference
    models = (rival.models, best.models) if best.method == reference else (best.models, rival.models)
    adjusted = holm_by_models({**p_values(cells, reference), models: test.p_value})  # may be a test of the table
    return replace(test, adjusted=adjusted[models], tests=len(adjusted))
