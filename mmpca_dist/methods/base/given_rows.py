"""``TakesRows``: from what ``fit`` is given to a data set, with weights, covariates and indicators of gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.methods.base.transform import LazyTransform, gaps_allowed
from mmpca_dist.passes.dask_rows import lazy_rows
from mmpca_dist.passes.schedulers import Scheduler, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.widened_rows import look_at_gaps, widened, widened_as
from mmpca_dist.tables.covariates import Covariate, given_covariates
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import ForeignTable, check_header, check_rows, labels_of, naming
from mmpca_dist.tables.labels import label_array, normalize_labels
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted, with_covariates
from mmpca_dist.tables.spans import make_spans


class TakesRows(LazyTransform):
    """Steps of reducers with the rows of a fit before statistics are taken."""

    missing: str
    covariates_: tuple[Covariate, ...] = ()
    """The covariates of the rows."""

    def check_classes(self, classes: Any, counts: Any, pooled: bool) -> None:
        """Raise InputError for classes that parameters name without rows, or without scatters, which are ``pooled``."""

    @property
    def needs_no_labels(self) -> bool:
        """Whether it is of use where rows have no labels."""
        return self.traits.ignores_labels  # type: ignore[attr-defined]

    def _rows(
        self, X: Any, y: Any, reset: bool, least: int = 2, sample_weight: Any = None
    ) -> tuple[Dataset, Scheduler]:
        """Return labelled rows as a data set, with their columns checked, and who reads them."""
        y, weights = labels_of(y, X), labels_of(sample_weight, name="sample_weight")
        X = self._table(X, reset, weights)
        classless = y is None and self.needs_no_labels and not (isinstance(X, ForeignTable) and X.lazy)
        if classless:
            rows: Any = X.rows if isinstance(X, ForeignTable) else X
            y = np.zeros((getattr(rows, "shape", None) or np.shape(rows))[0], np.int64)
        if isinstance(X, ForeignTable) and X.lazy:
            check_header(self, X, reset=reset)
            return lazy_rows(self._prepared(X.rows, y), y, weights)
        dataset = self._check_rows(X, y, reset, least)
        dataset = dataset.of_one_class() if classless else dataset
        return dataset if weights is None else weighted(dataset, weights), Threads()

    def _widened(
        self,
        dataset: Dataset,
        scheduler: Scheduler,
        covariates: Any = None,
        sample_weight: Any = None,
        stored: ClassMoments | None = None,
    ) -> tuple[Dataset, Scheduler]:
        """Return rows with covariates and indicators of gaps, those of stored moments where there are such.

        Rows of weight 0 are left out already, and so are their covariates.
        """
        if stored is None:
            self.covariates_ = ()
        if covariates is not None:
            counting = None if np.ndim(sample_weight) != 1 else np.asarray(sample_weight) > 0
            given = given_covariates(covariates, dataset.n_rows, counting)
            dataset = with_covariates(dataset, given, () if stored is None else self.covariates_)
            self.covariates_ = dataset.covariates
        elif self.covariates_:
            raise InputError(f"Earlier rows had the covariates {some_names([c.name for c in self.covariates_])}.")
        if stored is not None:
            return widened_as(dataset, stored.widening), scheduler
        if self.missing == "refuse":
            return widened(dataset), scheduler
        return widened(dataset, *look_at_gaps(dataset, make_spans(dataset), Tasks(scheduler=scheduler))), scheduler

    def _prepared(self, X: Any, y: Any) -> Any:
        """Return rows, in memory or not, as the fit is to see them."""
        return X

    def _check_rows(self, X: Any, y: Any, reset: bool, least: int = 2) -> Dataset:
        y = y if y is None else label_array(y, "y")
        X, y = check_rows(self, X, y, reset=reset, ensure_min_samples=least, **gaps_allowed(self))
        with naming(self, X):
            if hasattr(self, "target") and type_of_target(y).startswith("continuous"):
                raise InputError("y holds numbers, not classes: target='continuous' predicts them.")
            check_classification_targets(y)
        return rows_in_memory(self._prepared(X, y), normalize_labels(y, "y"), "X")
