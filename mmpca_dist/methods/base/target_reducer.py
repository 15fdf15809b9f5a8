"""The bases of methods that take numbers to predict, or either these or classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.traits import Traits, check_choice
from mmpca_dist.methods.base.transform import gaps_allowed
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.scatters import least_shared
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import check_rows
from mmpca_dist.tables.readers.memory import check_target_shape, rows_in_memory, with_targets

TARGETS = ("classes", "continuous")


class TakesTargets(MomentReducer):
    """Base of the reducers of rows with continuous targets; `_continuous` may say that they are labels of classes."""

    traits = Traits(takes_targets=True)
    _continuous = True

    def _solvable(self, moments: ClassMoments) -> bool:
        if not self._continuous:
            return super()._solvable(moments)
        assert moments.widening is not None  # noqa: S101  (targets stand behind the columns)
        return bool(np.diagonal(moments.scatters[0])[moments.widening.y].any())

    def _extendable(self) -> Any:
        stored = super()._extendable()
        if isinstance(stored, ClassMoments):
            has_targets = stored.widening is not None and bool(stored.widening.targets)
            if has_targets != self._continuous:
                raise InputError("The rows before came with another kind of target: call fit, which starts anew.")
        return stored

    def _rows(
        self, X: Any, y: Any, reset: bool, least: int = 2, sample_weight: Any = None
    ) -> tuple[Dataset, Scheduler]:
        if not self._continuous:
            return super()._rows(X, y, reset, least, sample_weight)
        if self.class_weight is not None:
            raise InputError("class_weight is for rows of classes: leave it out where the target is continuous.")
        if y is None and isinstance(X, Dataset) and not X.targets:
            raise InputError("The labels of a Dataset are classes: give continuous targets as y.")
        dataset, scheduler = super()._rows(X, y, reset, least, sample_weight)
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
        if y is not None:
            check_target_shape(shape)
        names = dataset.targets or tuple(f"target {j}" for j in range(shape[1] if len(shape) > 1 else 1))
        kept = self._kept if isinstance(self._kept, ClassMoments) else None
        if kept is not None and kept.widening is not None and len(kept.widening.targets) != len(names):
            raise InputError(f"The earlier rows had {len(kept.widening.targets)} targets, and these have {len(names)}.")
        return dataset.predicting(names), scheduler

    def _check_rows(self, X: Any, y: Any, reset: bool, least: int = 2) -> Dataset:
        if not self._continuous:
            return super()._check_rows(X, y, reset, least)
        options = {"multi_output": True, "y_numeric": True, **gaps_allowed(self)}
        X, y = check_rows(self, X, y, reset=reset, ensure_min_samples=least, **options)
        return with_targets(rows_in_memory(self._prepared(X, y), None, "X"), y)

    def fit_statistics(self, statistics: Statistics, at_most: bool = False) -> Self:
        if self._continuous and statistics.moments.targets is None and not statistics.fits:
            raise InputError("Class moments know nothing of continuous targets: fit the rows themselves.")
        return super().fit_statistics(statistics, at_most)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._continuous
        return tags


class TargetReducer(TakesTargets):
    """Base of the reducers with a parameter ``target``: what ``y`` of ``fit`` holds, classes or numbers to predict."""

    def __init__(
        self, n_components: float | None = None, *, target: str = "classes",
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.target = target

    def fit_statistics(self, statistics: Statistics, at_most: bool = False) -> Self:
        if statistics.moments.targets is not None:
            least_shared(statistics.moments)
        return super().fit_statistics(statistics, at_most)

    def for_numbers(self) -> Self:
        return clone(self).set_params(target="continuous")

    @property
    def _continuous(self) -> bool:  # type: ignore[override]
        return self.target == "continuous"

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice("target", self.target, TARGETS)
