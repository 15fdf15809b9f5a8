"""``MomentReducer``: the scikit-learn estimator behind all methods; ``BlockReducer``: those with solvers in passes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.belongs import TellsBelonging
from mmpca_dist.methods.base.fit_progress import TellsProgress
from mmpca_dist.methods.base.given_rows import TakesRows
from mmpca_dist.methods.base.shares import TellsShares
from mmpca_dist.methods.base.shrinkage import Moments, statistics_of_parts
from mmpca_dist.methods.base.solution import IMPRECISE, Solution
from mmpca_dist.methods.base.statistics_for import statistics_for
from mmpca_dist.methods.base.traits import Fitted, Option, Traits, check_choice, check_options
from mmpca_dist.methods.base.transform import ProjectsInMemory
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.from_rows import moments_of
from mmpca_dist.statistics.moments import ClassMoments, merge_classes
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import asked_by

BY_COMPONENT = ("components_", "eigenvalues_", "residuals_", "relative_errors_")
"""Attributes with a row, or a number, a component."""


class Mergeable:
    """A method that an estimator has where statistics merge; elsewhere looking it up says why it is not there."""

    def __init__(self, method: Callable) -> None:
        self._method = method

    def __get__(self, reducer: Any, owner: type | None = None) -> Any:
        if reducer is not None and reducer.unmergeable_reason is not None:
            raise AttributeError(f"There is no {self._method.__name__}: {reducer.unmergeable_reason}.")
        return self._method.__get__(reducer, owner)


class MomentReducer(TakesRows, ProjectsInMemory, TellsBelonging, TellsProgress, TellsShares, ABC):
    """Base of the reducers that class moments (and medians) determine.

    A subclass lists its parameters in ``__init__``, says in ``needs`` what it needs to know of the rows, and solves.
    """

    traits: ClassVar[Traits] = Traits()
    _cautions: Sequence[str] = ()
    """The reasons why the components are poor, with remedies, as sentences."""
    _declared: Any = None
    """All classes that ``partial_fit`` was told to expect."""
    _continuous: bool = False
    """Whether it is fitted to numbers to predict."""

    def __init__(
        self, n_components: float | None = None, *,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        self.n_components, self.standardize, self.center = n_components, standardize, center
        self.precision, self.solver, self.class_weight, self.missing = precision, solver, class_weight, missing

    def needs(self) -> Needs:
        """Return what the method needs to know of the rows; by default the scatter within the classes."""
        return Needs()

    def fitted(self) -> Fitted:
        """Return what the fit tells."""
        directions = self.components_.reshape(-1, self.components_.shape[-1])
        return Fitted(directions, len(self.components_), np.ones(len(directions), bool), cautions=self._cautions)

    @abstractmethod
    def _solve(self, statistics: Statistics) -> Solution:
        """Return the components that follow from the statistics of the rows."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, covariates: Any = None) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array, scipy.sparse matrix, data frame, or Dask array or data frame, of shape (n_samples, n_features)
            Blocks of a Dask array may be CSR matrices. Or an xarray ``DataArray`` of two dimensions (rows first), an
            xarray ``Dataset`` of columns along one dimension, an ``AnnData`` object, whose ``X`` is taken, or a
            ``Dataset`` of ``open_dataset``. What Dask holds, in any of these, is read piece by piece. Text in frames
            in memory becomes indicators, which ``n_features_in_`` and ``feature_names_in_`` count.
        y : array-like or Dask array of shape (n_samples,)
            Labels of at least two classes: integers or strings. For an ``AnnData`` object also the name of a column of
            ``obs``. Left out, those of a ``Dataset``; methods that ignore labels, such as ``pca``, need none.
        sample_weight : array-like or Dask array of shape (n_samples,), optional
            How often each row counts: a row of weight 2 is that row twice, one of weight 0 is left out first. By
            default every row counts once.
        covariates : array or data frame of shape (n_samples,) or (n_samples, q), optional
            Numbers or names, such as ages and batches: what they explain of the rows within classes is removed, in
            double precision. Give ``transform`` those of its rows.

        Returns
        -------
        self

        Raises
        ------
        InputError
            (a ValueError) For rows that are not finite, fewer than two classes, or more components than there are.

        Notes
        -----
        ``moments_`` is kept for ``partial_fit``, but for fewer rows than columns, scatters beyond 256 MiB, ``m-pca1b``.
        """
        return self._fit_anew(X, y, sample_weight, covariates)

    def _fit_anew(self, X: Any, y: Any, sample_weight: Any, covariates: Any = None) -> Self:
        """Do what ``fit`` does; warnings are of the line that calls ``fit``."""
        with asked_by(self):
            self.check_parameters()
            self._kept = self._declared = None
            rows = self._rows(X, y, reset=True, sample_weight=sample_weight)
            self._told(lambda: self._fit_rows(*self._widened(*rows, covariates, sample_weight)), X, y)
        fitted = self.fitted()
        cautions = [*fitted.edges, *fitted.cautions]
        for category, remarks in ((ConvergenceWarning, fitted.unconverged), (UserWarning, cautions)):
            for remark in remarks:
                warnings.warn(f"{type(self).__name__}: {remark}", category, stacklevel=3)
        return self

    def _fit_rows(self, dataset: Dataset, scheduler: Scheduler) -> Self:
        return self.fit_statistics(self._statistics(dataset, scheduler))

    @Mergeable
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None, covariates: Any = None
    ) -> Self:
        """Fit to these rows together with all earlier ones; exact, at the price of keeping d x d class scatters.

        Earlier rows are those of ``partial_fit``, of ``fit``, of ``from_moments``, or of the run that ``load_model``
        took the model from. ``m-pca1b`` has no ``partial_fit``: medians of two sets of rows do not tell that of both.

        Parameters
        ----------
        X, y, sample_weight, covariates : as in ``fit``
        classes : array-like, optional
            All classes that will ever come; otherwise they grow as they come.

        Raises
        ------
        InputError
            Where the fit before kept no moments; the message says why.
        """
        with asked_by(self):
            self.check_parameters()
            if self._continuous and classes is not None:
                raise InputError("There are no classes where the target is continuous.")
            stored = self._extendable()
            if stored is None or classes is not None:
                self._declared = classes
            dataset, scheduler = self._rows(X, y, reset=stored is None, least=1, sample_weight=sample_weight)
            dataset, scheduler = self._widened(dataset, scheduler, covariates, sample_weight, stored)
            weightings = self.needs().scatters
            arrived = moments_of(
                dataset, precision=self.precision, classes=self._declared, scheduler=scheduler, weightings=weightings
            )
            moments = self._kept = arrived if stored is None else merge_classes(stored, arrived)
            if self._solvable(moments):
                return self.fit_moments(moments, at_most=True)
            if moments.widening is None or not moments.widening.targets:
                self.classes_ = moments.classes
            return self

    def _solvable(self, moments: ClassMoments) -> bool:
        """Tell whether the rows so far determine a fit."""
        return int(np.count_nonzero(moments.counts)) >= 2

    @property
    def moments_(self) -> Any:
        """``ClassMoments`` of all rows so far, in their own units; those of a stored run are loaded when asked for."""
        try:
            moments = self._extendable()
        except InputError as error:
            raise AttributeError(str(error)) from error
        if moments is None:
            raise AttributeError(f"This {type(self).__name__} has seen no rows yet.")
        return moments

    def _extendable(self) -> Any:
        """Return the moments that more rows are merged with, or None where there are no rows yet."""
        if isinstance(self._kept, str):
            raise InputError(
                f"This fit kept no class moments that more rows could extend: {self._kept}. Start with partial_fit, "
                "or with from_moments(class_moments(X, y)), which keep them."
            )
        if callable(self._kept):
            self._kept = self._kept()
        return self._kept

    @property
    def unmergeable_reason(self) -> str | None:
        """Why there is no ``partial_fit``, in words."""
        needs = self.needs()
        if needs.medians:
            return "the median of two sets of rows does not follow from their medians, so they must be fitted at once"
        if needs.searches:
            return "rows that come may be nearer than those found, so all rows must be fitted at once"
        shrunk = "rows that are held out choose the shrinkage, so all rows must be fitted at once"
        swept = "the fit passes over its rows several times, so all rows must be fitted at once"
        return swept if needs.swept else shrunk if needs.shrinkages else None

    @property
    def serves_targets(self) -> bool:
        """Whether it is of use where there are numbers to predict."""
        return self.traits.takes_targets or self.traits.ignores_labels

    @property
    def unevaluable_reason(self) -> str | None:
        """Why an evaluation cannot score the method with its options, in words."""
        return None

    @classmethod
    def from_moments(cls, moments: Moments, n_components: float | None = None, **parameters: Any) -> Self:
        """Return the reducer that follows from class moments, of all rows or of folds, with no look at the rows."""
        return cls(n_components=n_components, **parameters).fit_moments(moments)

    def fit_moments(
        self, moments: Moments, medians: Mapping[str, NDArray] | None = None, at_most: bool = False
    ) -> Self:
        """Solve from class moments, of all rows or of folds, and medians by pairing; ``at_most`` as for statistics."""
        self.check_parameters()
        options = {"precision": self.precision, "standardize": self.standardize, "class_weight": self.class_weight}
        statistics = statistics_of_parts(moments, self.needs().shrinkages, medians, **options)
        self.n_features_in_ = getattr(self, "n_features_in_", statistics.n_features)
        return self.fit_statistics(statistics, at_most)

    def fit_statistics(self, statistics: Statistics, at_most: bool = False) -> Self:
        """Solve; ``at_most`` accepts fewer components than asked for where there are no more."""
        if statistics.moments.targets is not None and not self.serves_targets:
            raise InputError(
                f"{type(self).__name__} takes classes, and there are numbers to predict: slice these, or choose PLS, "
                "SupervisedPCA, RidgeDirections, LassoSelection, or PCA."
            )
        if statistics.approximation is not None:
            for name in self.needs().full_scatter:
                raise InputError(
                    f"{name} needs the whole scatter, and these statistics know the leading part of it only."
                )
        with single_blas_thread():
            solution = self._solve(statistics).telling(statistics.shrinkages, self.needs().shrinkages)
        if not at_most or not len(solution.eigenvalues):
            self._refuse_too_few(solution, statistics)
        if self.share is not None and not self.keeps_all:
            solution.refuse_share(self.share, type(self).__name__, at_most)
        targets = statistics.moments.targets
        self._name_outcomes(statistics.moments.classes, None if targets is None else targets.names)
        self.adjustment_, self.n_samples_ = statistics.adjustment, statistics.moments.total
        self._adopt(solution, statistics.mean, statistics.scale)
        if self.share is not None:
            self.shorten(self.count_of(self.share))
        self._kept = self.unmergeable_reason or statistics.unmergeable_reason
        if self._kept is None and isinstance(statistics, ColumnStatistics):
            self._kept = statistics.unadjusted
        return self

    def for_numbers(self) -> MomentReducer:
        """Return the estimator with these parameters whose ``fit`` takes numbers to predict; others as they are."""
        return self

    def restore(
        self, attributes: Mapping[str, Any], labels: NDArray, targets: Sequence[str] | None, moments: Any
    ) -> None:
        """Take the attributes of a fit that was stored, and a function that loads the moments of its rows."""
        self.__dict__.update(attributes)
        self._name_outcomes(labels, targets)
        self._kept = moments
        if targets is not None and not self.traits.takes_targets:
            self._kept = "its rows have numbers to predict, which the method does not take"

    def _name_outcomes(self, labels: NDArray, targets: Sequence[str] | None) -> None:
        """Set ``classes_``, or ``target_names_`` of numbers to predict."""
        for name in ("classes_", "target_names_"):
            self.__dict__.pop(name, None)
        if targets is not None:
            self.target_names_ = list(targets)
        elif not self._continuous:
            self.classes_ = self._classes_among(labels)

    def _classes_among(self, labels: NDArray) -> NDArray:
        """Return the labels that are classes."""
        return labels

    def _refuse_too_few(self, solution: Solution, statistics: Statistics) -> None:
        solution.refuse_too_few(None if self.keeps_all else self.asked, type(self).__name__, statistics)

    def _adopt(self, solution: Solution, mean: NDArray[np.float64], scale: NDArray[np.float64] | None) -> None:
        if not np.isfinite(solution.components).all():
            raise InputError(
                f"The components of {type(self).__name__} are not finite: numbers overflow. Standardise the columns "
                "(standardize)."
            )
        self.components_, self.eigenvalues_ = solution.components, solution.eigenvalues
        self.residuals_, self.relative_errors_ = solution.residuals, solution.relative_errors
        self.total_, self.limit_reason_ = solution.total, solution.limit
        for name in ("certificate_", "_belonging"):  # those of an earlier fit
            self.__dict__.pop(name, None)
        if solution.certificate is not None:
            self.certificate_ = solution.certificate
        self.mean_, self.scale_ = mean, scale

    def shorten(self, n_components: int) -> None:
        """Keep the first components; raise InputError where those of a smaller fit are others."""
        if self.keeps_all:
            return
        if not self.traits.nested:
            raise InputError("It is fitted for a number of components: fit it anew for fewer.")
        self._belonging = None
        for name in BY_COMPONENT:
            setattr(self, name, getattr(self, name)[:n_components])

    @property
    def n_components_(self) -> int:
        """The number of components, K."""
        check_is_fitted(self, "components_")
        return self.fitted().used

    @property
    def imprecise_(self) -> NDArray[np.bool_]:
        """Which components are within a hundredfold of the rounding floor, shape (K,)."""
        return self.relative_errors_ > IMPRECISE

    def _statistics(self, dataset: Dataset, scheduler: Scheduler) -> Statistics:
        rows = Rows.of(dataset, scheduler, scratch=getattr(self, "scratch", None), on_pass=self._pass_begins)
        needs, solver = replace(self.needs(), n_components=self._count(rows)), self._solver_options()
        return statistics_for(
            rows, needs, solver, precision=self.precision, standardize=self.standardize, class_weight=self.class_weight
        )

    def _count(self, rows: Rows) -> int | None:
        """Return how many components to look for; None for all."""
        if self.traits.by_classes:
            limit = len(rows.dataset.targets) or int(np.count_nonzero(rows.census.counts)) - 1
            return self._at_most(max(limit, 1))
        return self.asked

    def _at_most(self, limit: int) -> int:
        """Return how many components to look for where there are at most so many."""
        return limit if self.asked is None else min(self.asked, limit)

    def _solver_options(self) -> SolverOptions:
        return SolverOptions(self.solver)

    def check_parameters(self) -> None:
        """Raise InputError for parameters that are out of bounds, or do not go together."""
        self._solver_options()
        self.needs()
        k = self.n_components
        words = self.traits.options.get("n_components", Option()).words
        if k is not None and not (isinstance(k, str) and k in words):
            self._check_size(k, words)
        check_choice("precision", self.precision, ("single", "double"))
        check_choice("missing", self.missing, ("refuse", "mean"))
        check_options(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "mean"
        tags.target_tags.required = not self.needs_no_labels
        return tags


class BlockReducer(MomentReducer):
    """Base of the reducers that solvers in passes serve, with the options of such solvers."""

    def __init__(
        self, n_components: float | None = None, *,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
        oversampling: int = 10, passes: int = 4, tolerance: float = 1e-4,
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.oversampling, self.passes, self.tolerance = oversampling, passes, tolerance

    def _solver_options(self) -> SolverOptions:
        return SolverOptions(self.solver, self.oversampling, self.passes, self.tolerance)
