"""The fit of linear models with a projection penalty: from moments where these suffice, else in passes over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.methods.fold_grid import MOST_FOLDS, FoldGrid
from mmpca_dist.methods.reduction_of import ReductionOf
from mmpca_dist.methods.working_rows import WorkingRows
from mmpca_dist.solvers.interior_penalties import SparseInterior, SubspaceInterior
from mmpca_dist.solvers.interior_point import HingeFit, HingeSweep
from mmpca_dist.solvers.linear_models import LinearFit, LinearSweep, LossPass
from mmpca_dist.solvers.penalized_squares import SquaresFit, SquaresMinimum, SquaresPass
from mmpca_dist.solvers.penalties import Penalty, SparsePenalty, SubspacePenalty
from mmpca_dist.solvers.sparse_models import SparseSweep
from mmpca_dist.statistics.centred_rows import Array
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.hinge_sums import INTERIORS
from mmpca_dist.statistics.label_terms import ClassTerms, FoldTerms, ResidualTerms
from mmpca_dist.statistics.loss_sums import block_rows
from mmpca_dist.statistics.losses import LOSSES
from mmpca_dist.statistics.scatters import total_scatter
from mmpca_dist.statistics.serialization import storable
from mmpca_dist.statistics.sweeps import Sweeper, SweepRound, SweptNeed

HESSIAN_BYTES = 256 << 20
"""Second derivatives of the models that are fitted together, at most, unless they are of a single one."""
MOST_HINGES, MOST_SMOOTH = 64, 1024
"""Models that are fitted together, at most: of hinge losses each keeps up to four numbers a row."""
ARRAYS = 20
"""Arrays of outputs that coexist while a block of rows is worked on."""
LARGEST_HESSIAN = 64 << 20
"""Models whose second derivatives take more do without them, where they can."""
WIDEST = 8192
"""Columns of models that cannot: hinge losses, and absolute values."""
SMALL = 1e-6
"""Of the largest coefficient: those that an interior point leaves of zeros, at most."""
TINY = float(np.finfo(np.float64).tiny)
ROUGH = 1e-3
"""The tolerance of fits that alpha is chosen by."""
EXPECTED = {"squared": 3, "logistic": 15, "hinge": 45, "squared hinge": 35}
"""Passes that a fit usually takes."""


@storable
@dataclass(frozen=True)
class PenalizedModels:
    """m linear models f = (inside + outside)^T (x - mean) + intercept, in d (standardised) columns.

    Attributes
    ----------
    inside, outside : arrays of shape (m, d)
        The parts of the coefficients inside of the subspace of the reduction, P^T v, and outside, w - P^T v.
    weights : array of shape (m, K)
        v.
    intercept : array of shape (m,)
    alpha : float
    candidates, errors : arrays of shape (candidates,)
        Values of alpha that were tried, and their errors in rows held out; empty for a given alpha.
    objective, gaps : arrays of shape (m,)
        The minimum, and by how much it may be missed, relative to it.
    n_passes : int
        Over the rows, for these models.
    proved : bool
        Whether the gaps are proved; else they are estimated.
    """

    inside: Array
    outside: Array
    weights: Array
    intercept: Array
    alpha: float
    candidates: Array
    errors: Array
    objective: Array
    gaps: Array
    n_passes: int
    proved: bool


@dataclass(frozen=True)
class _Minimum:
    """Parameters (m, n) and b (m,) of models, what they reach, (m,), and passes."""

    parameters: Array
    intercept: Array
    objective: Array
    gaps: Array
    n_passes: int


@dataclass(frozen=True)
class PenaltyFit(SweptNeed):
    """A projection penalty as a need: all that determines the fit beside the rows and the number of components.

    Attributes
    ----------
    alpha : float or None
        None to choose among ``candidates``.
    targets : tuple of float
        Means of continuous targets; empty for classes.
    """

    reduction: ReductionOf
    alpha: float | None
    candidates: tuple[float, ...]
    epsilon: float
    loss: str
    penalty: str
    fit_intercept: bool
    tolerance: float
    max_sweeps: int
    targets: tuple[float, ...] = ()

    def fit(self, statistics: Statistics, sweeper: Sweeper, n_components: int) -> PenalizedModels:
        sparse = self.penalty == "l1"
        P = self.reduction.components(statistics, n_components)
        working = WorkingRows.of(statistics, sweeper, targets=bool(self.targets), by_column=sparse)
        if not self.fit_intercept:
            working = working.uncentred()
        penalty = penalty_of(self.penalty, working.coordinates(P), self.epsilon, appended=self.reduction.appended)
        terms, n_models = self._terms(working)
        alpha, errors = self.alpha, np.empty(0)
        if alpha is None:
            errors = self._held_out_errors(statistics, working, penalty, terms)
            alpha = max(zip(-errors, self.candidates, strict=True))[1]  # of equal errors the largest
        minimum = self._minimum("sweep", statistics, working, penalty, terms, np.full(n_models, alpha))
        weights = penalty.weights(minimum.parameters)
        outside = penalty.coefficients(minimum.parameters) - weights @ working.coordinates(P)
        return PenalizedModels(
            inside=weights @ P,
            outside=working.in_columns(outside),
            weights=weights,
            intercept=self._centred_intercept(minimum, penalty, working),
            alpha=float(alpha),
            candidates=np.asarray(self.candidates if len(errors) else (), np.float64),
            errors=errors,
            objective=minimum.objective,
            gaps=minimum.gaps,
            n_passes=minimum.n_passes,
            proved=self._is_closed or not penalty.is_free,
        )

    @property
    def _is_closed(self) -> bool:
        """Whether the minimum follows from sums of products of rows."""
        return self.loss == "squared" and self.penalty == "l2"

    def _centred_intercept(self, minimum: _Minimum, penalty: Penalty, working: WorkingRows) -> Array:
        """Return the outputs for the mean of the rows."""
        if not working.is_uncentred:
            return minimum.intercept
        return minimum.intercept + penalty.coefficients(minimum.parameters) @ working.centre

    def _terms(self, working: WorkingRows) -> tuple[FoldTerms, int]:
        """Return the label terms of the models, without folds, and their number."""
        if self.targets:
            q = len(self.targets)
            return ResidualTerms(self._target_means(), np.arange(q), np.full(q, -1), 1), q
        positive = positive_classes(working.sweeper.rows.census.classes)
        classes, none = working.sweeper.rows.census.classes, np.full(len(positive), -1)
        return ClassTerms(classes, positive, -1, none, 1, {}), len(positive)

    def _target_means(self) -> Array:
        """Return what is subtracted from targets; nothing where there is no intercept to take it up."""
        return np.asarray(self.targets) if self.fit_intercept else np.zeros(len(self.targets))

    def _held_out_errors(
        self, statistics: Statistics, working: WorkingRows, penalty: Penalty, terms: FoldTerms
    ) -> Array:
        if isinstance(terms, ClassTerms):
            grid = FoldGrid.of_classes(working, "alpha", self.candidates, terms.positive)
        else:
            grid = FoldGrid.of_targets(self.candidates, self._target_means(), working.sweeper.rows.dataset.n_rows)
        rough = replace(self, tolerance=max(self.tolerance, ROUGH))
        minimum = rough._minimum("choose", statistics, working, penalty, grid.terms, grid.values)
        return grid.errors(working, penalty.coefficients(minimum.parameters), minimum.intercept)

    def _minimum(
        self, name: str, statistics: Statistics, working: WorkingRows, penalty: Penalty, terms: FoldTerms, alphas: Array
    ) -> _Minimum:
        """Fit models, as many together as second derivatives of which fit in memory."""
        width = len(working.centre) + 1
        hinge = self.loss in INTERIORS
        if (hinge or isinstance(penalty, SparsePenalty)) and width > WIDEST:
            what = f"loss={self.loss!r}" if hinge else "penalty='l1'"
            raise InputError(
                f"{what} takes a matrix of {width - 1:,} x {width - 1:,} a model; {WIDEST:,} columns are the most. "
                "Use the logistic loss with penalty='l2', or choose columns first."
            )
        if self._is_closed:
            assert isinstance(penalty, SubspacePenalty)  # noqa: S101  (of l2)
            return self._least_squares(name, working, penalty, terms, alphas)
        groups, size = [], self._together(width)
        for number, start in enumerate(range(0, len(alphas), size)):
            chosen = slice(start, start + size)
            job = _Job(f"{name}-{number + 1}" if len(alphas) > size else name, working, penalty, terms.only(chosen))
            groups.append(self._minimum_together(job, statistics, alphas[chosen]))
        parts = ("parameters", "intercept", "objective", "gaps")
        joined = {part: np.concatenate([getattr(group, part) for group in groups]) for part in parts}
        return _Minimum(**joined, n_passes=sum(group.n_passes for group in groups))

    def _least_squares(
        self, name: str, working: WorkingRows, penalty: SubspacePenalty, terms: FoldTerms, alphas: Array
    ) -> _Minimum:
        """Return the minima from the sums of one pass, whatever the number of alphas.

        Models come by alpha, then by fold.
        """
        candidates = np.unique(alphas, return_index=True)[1]
        values = alphas[np.sort(candidates)]
        rest = len(alphas) // len(values)
        folds = terms.held_out[:rest]
        n_models = int(np.count_nonzero(folds == folds[0]))
        sweep = SquaresPass(name, terms.only(slice(0, rest)), n_models, working.units(), working.keeps_sparse)
        fitted = working.sweeper.run(sweep, SquaresFit())
        by_fold = [each.minimum(penalty, values, has_intercept=self.fit_intercept) for each in fitted.squares]
        coef, intercept, objective, gaps = (
            np.concatenate([np.asarray(getattr(minima[i], part)) for i in range(len(values)) for minima in by_fold])
            for part in SquaresMinimum._fields
        )
        return _Minimum(coef, intercept, objective, gaps, 1)

    def _together(self, width: int) -> int:
        """Return how many models are fitted together, of ``width`` parameters each."""
        return min(max(1, HESSIAN_BYTES // (8 * width**2)), MOST_HINGES if self.loss in INTERIORS else MOST_SMOOTH)

    def _minimum_together(self, job: _Job, statistics: Statistics, alphas: Array) -> _Minimum:
        shared: dict[str, Any] = {
            "name": job.name, "terms": job.terms, "units": job.working.units(), "has_intercept": self.fit_intercept,
            "tolerance": self.tolerance, "max_sweeps": self.max_sweeps, "keeps_sparse": job.working.keeps_sparse,
        }  # fmt: skip
        fitted: HingeFit | LinearFit
        if self.loss in INTERIORS:
            fitted = self._hinge_fit(job, alphas, shared)
        else:
            shared |= {"loss": LOSSES[self.loss], "penalty": job.penalty, "alphas": alphas}
            start = np.zeros((len(alphas), job.penalty.n_parameters + 1))
            if self.penalty == "l1":
                fitted = job.working.sweeper.run(SparseSweep(**shared), LinearFit.start_at(start))
            else:
                fitted = self._smooth_fit(job, statistics, start, shared)
        return _Minimum(fitted.best[:, :-1], fitted.best[:, -1], fitted.objective, fitted.gaps, fitted.n_passes)

    def _hinge_fit(self, job: _Job, alphas: Array, shared: dict[str, Any]) -> HingeFit:
        is_sparse = self.penalty == "l1"
        interior = (SparseInterior if is_sparse else SubspaceInterior)(job.penalty, alphas)
        if is_sparse:
            shared["tolerance"] /= 10  # setting to zero what tends to it costs some
        sweep = HingeSweep(kind=INTERIORS[self.loss], interior=interior, **shared)
        fitted = job.working.sweeper.run(sweep, HingeFit.start_at(interior))
        return self._with_zeros(job, interior, fitted) if isinstance(interior, SparseInterior) else fitted

    def _smooth_fit(self, job: _Job, statistics: Statistics, start: Array, shared: dict[str, Any]) -> LinearFit:
        width = start.shape[1]
        with_hessian = 8 * width**2 <= LARGEST_HESSIAN
        if job.penalty.is_free and not with_hessian:
            raise InputError(
                f"epsilon=0 with {width - 1:,} columns: nothing would tell how near the minimum is. "
                "Set epsilon above 0."
            )
        metric = self._metric(job, statistics, shared["alphas"]) if with_hessian else None
        sweep = LinearSweep(with_hessian=with_hessian, **shared)
        return job.working.sweeper.run(sweep, LinearFit.start_at(start, metric))

    def _with_zeros(self, job: _Job, interior: SparseInterior, fitted: HingeFit) -> HingeFit:
        """Return the models with zeros for parameters that tend to zero; their objectives take a pass."""
        m, sparse = len(fitted.best), interior.penalty.n_sparse
        size = np.maximum(np.abs(fitted.best[:, :sparse]).max(axis=1, keepdims=True), TINY)
        small = np.abs(fitted.best[:, :sparse]) < SMALL * size
        tried = np.concatenate([fitted.best, fitted.best])
        tried[:, :sparse][np.concatenate([interior.tends_to_zero(fitted.parts, size), small])] = 0
        sweep = LossPass(
            f"{job.name}-zeros", LOSSES[self.loss], interior.penalty.coefficients(tried[:, :-1]), tried[:, -1],
            job.terms, np.tile(np.arange(m), 2), job.working.units(), job.working.keeps_sparse,
        )  # fmt: skip
        losses = job.working.sweeper.run(sweep, np.empty(0))
        objectives = losses + np.tile(interior.alphas, 2) * interior.penalty.values(tried[:, :-1])
        best, objective = fitted.best, fitted.objective
        for kind in (slice(m, 2 * m), slice(0, m)):  # the one with more zeros last
            is_good = objectives[kind] - fitted.objective <= self.tolerance * np.maximum(fitted.objective, TINY) / 2
            best = np.where(is_good[:, None], tried[kind], best)
            objective = np.where(is_good, objectives[kind], objective)
        return replace(fitted, best=best, objective=objective, n_passes=fitted.n_passes + 1)

    def _metric(self, job: _Job, statistics: Statistics, alphas: Array) -> Array | None:
        """Return second derivatives at zero from the moments of all rows, those of held-out folds included."""
        if statistics.approximation is not None or job.working.is_uncentred:
            return None
        n, r = statistics.moments.n_rows, job.penalty.n_parameters
        scatter = total_scatter(statistics.moments).dense(statistics.moments)
        curvature = float(LOSSES[self.loss](np.ones(1)).curvature[0]) * n
        metric = np.zeros((len(alphas), r + 1, r + 1))
        metric[:, : len(scatter), : len(scatter)] = curvature * scatter
        metric[:, :r, :r] += 2 * alphas[:, None, None] * job.penalty.matrix()
        metric[:, r, r] = curvature
        return metric

    def rounds(self, n_classes: int, n_components: int, n_features: int) -> list[SweepRound]:
        models = len(self.targets) or (1 if n_classes == 2 else n_classes)
        tried = [models * len(self.candidates) * MOST_FOLDS] if self.alpha is None else []
        return [self._round(count, n_features) for count in [*tried, models]]

    def _round(self, models: int, d: int) -> SweepRound:
        hinge = self.loss in INTERIORS
        together = min(models, self._together(d + 1))
        turns = -(-models // together)
        squares = d / 2 if hinge or self.penalty == "l1" else d / 10
        return SweepRound(
            most=turns * self.max_sweeps,
            expected=turns * min(self.max_sweeps, EXPECTED[self.loss]),
            columns=int(together * (3 + squares)) + 1,
            state_bytes=8 * 4 * together if hinge else 0,
            sum_bytes=8 * together * (d + 1) ** 2,
            block_bytes=8 * ARRAYS * block_rows(together) * together,
            row_operations=500.0 * together,
        )


@dataclass(frozen=True)
class _Job:
    """The models of a group of passes; ``penalty`` is a `SparsePenalty` for l1, a `SubspacePenalty` for l2."""

    name: str
    working: WorkingRows
    penalty: Any
    terms: FoldTerms


def positive_classes(classes: NDArray) -> NDArray[np.intp]:
    """Return the positions of the classes that models tell from the rest: of two the second."""
    return np.arange(1, 2) if len(classes) == 2 else np.arange(len(classes))


def penalty_of(kind: str, P: Array, epsilon: float, *, appended: bool) -> Penalty:
    """Return the penalty for a reduction P (K, r), which may pick ``appended`` columns, the last of the r."""
    if kind == "l1":
        return SparsePenalty(P, epsilon, len(P) if appended else 0)
    return SubspacePenalty.of(P, epsilon)
