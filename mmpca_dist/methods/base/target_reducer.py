"""The bases of methods that take continuous targets, or either these or classes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.parameters import check_choice
from mmpca_dist.methods.base.reducer import Mergeable, MomentReducer
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.target_scatter import CrossMoments, cross_moments
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import check_rows
from mmpca_dist.tables.given_labels import GivenLabels, as_targets
from mmpca_dist.tables.readers.memory import rows_in_memory

TARGETS = ("classes", "continuous")
NOTHING_SHARED = "The targets vary with none of the columns: what they share is zero up to rounding."


class TakesTargets(MomentReducer):
    """Base of the reducers of rows with continuous targets; `_continuous` may say that they are labels of classes."""

    _continuous: bool = True

    def _cross(self, dataset: Dataset, scheduler: Scheduler) -> CrossMoments:
        """Return the moments of rows and targets that a fit needs."""
        return cross_moments(dataset, scheduler, with_rows=True)

    def _fit_cross(self, cross: CrossMoments, at_most: bool = False) -> Self:
        """Fit to moments; ``at_most`` accepts fewer components than asked for where there are no more."""
        raise NotImplementedError  # only where moments suffice

    def _solvable(self, cross: CrossMoments) -> bool:
        """Tell whether the targets so far determine a fit."""
        return bool(cross.target_squares.any())

    @Mergeable
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None, covariates: Any = None
    ) -> Self:
        """Fit to these rows together with all earlier ones; exact."""
        if not self._continuous:
            return super().partial_fit(X, y, classes, sample_weight, covariates)
        self._check_parameters()
        if classes is not None:
            raise InputError("There are no classes where the target is continuous.")
        stored = self._extendable()
        rows = self._rows(X, y, reset=stored is None, least=1, sample_weight=sample_weight)
        arrived = self._cross(*self._widened(*rows, covariates))
        self._kept = arrived if stored is None else stored.merge(arrived)
        return self._fit_cross(self._kept, at_most=True) if self._solvable(self._kept) else self

    def _rows(
        self, X: Any, y: Any, reset: bool, least: int = 2, sample_weight: Any = None
    ) -> tuple[Dataset, Scheduler]:
        if self._continuous and sample_weight is not None:
            raise InputError("Weights of rows with continuous targets are not taken yet.")
        if self._continuous and (self.class_weight is not None or self.missing != "refuse"):
            name = "missing" if self.class_weight is None else "class_weight"
            raise InputError(f"{name} is for rows of classes: leave it out where the target is continuous.")
        if self._continuous and y is None and isinstance(X, Dataset):
            raise InputError("The labels of a Dataset are classes: give continuous targets as y.")
        return super()._rows(X, y, reset, least, sample_weight)

    def _widened(self, dataset: Any, scheduler: Scheduler, covariates: Any = None, *others: Any) -> Any:
        if self._continuous and covariates is not None:
            raise InputError("Covariates of rows with continuous targets are not taken yet.")
        return super()._widened(dataset, scheduler, covariates, *others)

    def _check_rows(self, X: Any, y: Any, reset: bool, least: int = 2) -> Dataset:
        if not self._continuous:
            return super()._check_rows(X, y, reset, least)
        X, y = check_rows(self, X, y, reset=reset, ensure_min_samples=least, multi_output=True, y_numeric=True)
        return GivenLabels(rows_in_memory(self._prepared(X, y), None, "X"), as_targets(y, "y"))

    def fit_statistics(self, statistics: Statistics, at_most: bool = False) -> Self:
        if self._continuous and not statistics.fits:
            raise InputError("Class moments know nothing of continuous targets: fit the rows themselves.")
        return super().fit_statistics(statistics, at_most)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._continuous
        return tags


class TargetReducer(TakesTargets):
    """Base of the reducers with a parameter ``target``: class moments determine them, or the cross scatter of targets.

    A subclass solves both, and says in ``_needs_rows`` whether it wants the scatter of the rows in addition to that.
    """

    _needs_rows: ClassVar[bool] = False

    def __init__(
        self, n_components: int | None = None, *, target: str = "classes",
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.target = target

    @abstractmethod
    def _solve_targets(self, cross: CrossMoments) -> Solution:
        """Return the components that follow from the cross scatter of rows and targets."""

    def _fit_rows(self, dataset: Dataset, scheduler: Scheduler) -> Self:
        if not self._continuous:
            return super()._fit_rows(dataset, scheduler)
        return self._fit_cross(self._cross(dataset, scheduler))

    def _cross(self, dataset: Dataset, scheduler: Scheduler) -> CrossMoments:
        return cross_moments(dataset, scheduler, with_rows=self._needs_rows)

    def _fit_cross(self, cross: CrossMoments, at_most: bool = False) -> Self:
        with single_blas_thread():
            solution = self._solve_targets(cross)
        if not at_most:
            self._refuse_too_few(solution, cross.n_rows, len(cross.mean), "double")
        self._adopt(solution, cross.mean, cross.scale if self.standardize else None)
        if hasattr(self, "classes_"):
            del self.classes_
        self._kept = cross
        return self

    def _extendable(self) -> Any:
        stored = super()._extendable()
        if stored is not None and isinstance(stored, CrossMoments) != self._continuous:
            raise InputError("The rows before came with another kind of target: call fit, which starts anew.")
        return stored

    @property
    def _continuous(self) -> bool:  # type: ignore[override]
        return self.target == "continuous"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("target", self.target, TARGETS)
