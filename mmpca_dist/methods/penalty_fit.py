"""The fit of linear models with a projection penalty: from moments where these suffice, else in passes over rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.methods.fold_grid import MOST_FOLDS, FoldGrid, folds_of_classes
from mmpca_dist.methods.penalty_results import Choice, PenalizedModels
from mmpca_dist.methods.reduction_of import ReductionOf
from mmpca_dist.methods.working_rows import WorkingRows
from mmpca_dist.solvers.interior_penalties import InteriorPenalty, SparseInterior, SubspaceInterior
from mmpca_dist.solvers.interior_point import HingeFit, HingeSweep
from mmpca_dist.solvers.linear_models import LinearFit, LinearSweep, LossPass
from mmpca_dist.solvers.penalized_squares import Squares, SquaresFit, SquaresMinimum, SquaresPass
from mmpca_dist.solvers.penalties import Penalty, SparsePenalty, SubspacePenalty
from mmpca_dist.solvers.sparse_models import SparseSweep
from mmpca_dist.statistics.centred_rows import Array
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.hinge_sums import INTERIORS
from mmpca_dist.statistics.label_terms import ClassTerms, FoldTerms, KnownTargets
from mmpca_dist.statistics.loss_sums import block_rows
from mmpca_dist.statistics.losses import LOSSES
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.scatters import total_scatter
from mmpca_dist.statistics.sweeps import Sweep, Sweeper, SweepRound, SweptNeed
from mmpca_dist.statistics.sweeps_together import FitsTogether, SweepsTogether

BENDS_BYTES = 256 << 20
"""Second derivatives of the models that are fitted together, at most, unless they are of a single one."""
MOST_HINGES, MOST_SMOOTH = 64, 1024
"""Models that are fitted together, at most: of hinge losses each keeps up to four numbers a row."""
ARRAYS = 20
"""Arrays of outputs that coexist while a block of rows is worked on."""
LARGEST_BENDS = 64 << 20
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


@dataclass(frozen=True)
class _Minimum:
    """Parameters (m, n) and b (m,) of models, what they reach, (m,), and passes."""

    parameters: Array
    intercept: Array
    objective: Array
    gaps: Array
    n_passes: int

    @classmethod
    def joined(cls, parts: Sequence[_Minimum]) -> _Minimum:
        """Return the models of several fits, one after the other."""
        names = ("parameters", "intercept", "objective", "gaps")
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(**arrays, n_passes=sum(part.n_passes for part in parts))


@dataclass(frozen=True)
class PenaltyFit(SweptNeed):
    """A projection penalty as a need: all that determines the fit beside the rows and the number of components.

    Attributes
    ----------
    alpha : float or None
        None to choose among ``candidates``.
    targets : tuple of float
        Means of continuous targets; empty for classes.
    sizes : tuple of int
        Numbers of components to choose among; empty where it is given.
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
    sizes: tuple[int, ...] = ()

    def fit(self, statistics: Statistics, sweeper: Sweeper, n_components: int) -> PenalizedModels:
        working = WorkingRows.of(statistics, sweeper, targets=bool(self.targets), by_column=self.penalty == "l1")
        if not self.fit_intercept:
            working = working.uncentred()
        choice = self._choice(statistics, sweeper.rows, working, self.sizes or (n_components,))
        P = self.reduction.components(statistics, choice.n_components)
        penalty = self._penalty(working, P)
        terms, n_models = self._terms(working)
        models = _Models(penalty, terms, np.full(n_models, choice.alpha))
        (minimum,) = self._minima("sweep", statistics, working, [models], terms, n_models)
        weights = penalty.weights(minimum.parameters)
        outside = penalty.coefficients(minimum.parameters) - weights @ working.coordinates(P)
        return PenalizedModels(
            inside=weights @ P,
            outside=working.in_columns(outside),
            weights=weights,
            intercept=self._centred_intercept(minimum, penalty, working),
            choice=choice,
            objective=minimum.objective,
            gaps=minimum.gaps,
            n_passes=minimum.n_passes,
            proved=self._is_closed or not penalty.is_free,
        )

    def _choice(self, statistics: Statistics, rows: Rows, working: WorkingRows, sizes: tuple[int, ...]) -> Choice:
        """Return the number of components and alpha with the least errors in rows held out, unless both are given."""
        if self.alpha is not None and not self.sizes:
            return Choice.given(sizes[0], self.alpha)
        alphas = self.candidates if self.alpha is None else (self.alpha,)
        n_folds = self._n_folds(rows)
        reductions, is_nested = self.reduction.by_fold(statistics, rows, n_folds, sizes)
        grid = self._grid(working, n_folds, np.tile(alphas, len(reductions)))
        models = [
            _Models(self._penalty(working, P), grid.terms.only(place), grid.values[place], place)
            for folds, numbers in zip(reductions.values(), grid.numbers(len(reductions)), strict=True)
            for P, place in _by_fold(folds, numbers)
        ]
        rough = replace(self, tolerance=max(self.tolerance, ROUGH))
        once = grid.terms.only(slice(0, grid.shape[1] * grid.shape[2]))
        minima = rough._minima("choose", statistics, working, models, once, grid.shape[2])
        coef, intercept = np.empty((len(grid.values), working.width)), np.empty(len(grid.values))
        for some, minimum in zip(models, minima, strict=True):
            coef[some.place] = some.penalty.coefficients(minimum.parameters)
            intercept[some.place] = minimum.intercept
        errors = grid.errors(working, coef, intercept).reshape(-1, len(alphas))
        return Choice.of_least(tuple(reductions), alphas, errors, is_nested=is_nested)

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
            return KnownTargets(self._target_means(), np.arange(q), np.full(q, -1), 1), q
        positive = positive_classes(working.sweeper.rows.census.classes)
        classes, none = working.sweeper.rows.census.classes, np.full(len(positive), -1)
        return ClassTerms(classes, positive, -1, none), len(positive)

    def _target_means(self) -> Array:
        """Return what is subtracted from targets; nothing where there is no intercept to take it up."""
        return np.asarray(self.targets) if self.fit_intercept else np.zeros(len(self.targets))

    def _penalty(self, working: WorkingRows, P: Array) -> Penalty:
        return penalty_of(self.penalty, working.coordinates(P), self.epsilon, appended=self.reduction.appended)

    def _n_folds(self, rows: Rows) -> int:
        if self.targets:
            return min(MOST_FOLDS, rows.dataset.n_rows)
        return folds_of_classes("alpha" if self.alpha is None else "n_components", rows.census.counts)

    def _grid(self, working: WorkingRows, n_folds: int, alphas: Array) -> FoldGrid:
        """Return fits for every value of alpha, as many as there are, and every fold that is held out."""
        if self.targets:
            return FoldGrid.of_targets(alphas, n_folds, self._target_means())
        return FoldGrid.of_classes(working, n_folds, alphas, positive_classes(working.sweeper.rows.census.classes))

    def _minima(
        self,
        name: str,
        statistics: Statistics,
        working: WorkingRows,
        models: Sequence[_Models],
        once: FoldTerms,
        n_models: int,
    ) -> list[_Minimum]:
        """Fit models, as many together as second derivatives of which fit in memory.

        ``once`` are the label terms of ``n_models`` models for each fold.
        """
        width = working.width + 1
        hinge = self.loss in INTERIORS
        if (hinge or self.penalty == "l1") and width > WIDEST:
            what = f"loss={self.loss!r}" if hinge else "penalty='l1'"
            raise InputError(
                f"{what} takes a matrix of {width - 1:,} x {width - 1:,} a model; {WIDEST:,} columns are the most. "
                "Use the logistic loss with penalty='l2', or choose columns first."
            )
        if self._is_closed:
            sweep = SquaresPass(name, once, n_models, working.units(), working.keeps_sparse)
            squares = working.sweeper.run(sweep, SquaresFit()).squares
            folds = dict(zip(once.held_out[::n_models].tolist(), squares, strict=True))
            return [self._least_squares(folds, some, n_models) for some in models]
        size = self._together(width)
        pieces = [
            (number, some.only(slice(start, start + size)))
            for number, some in enumerate(models)
            for start in range(0, len(some.alphas), size)
        ]
        turns, minima = _turns(pieces, size), [list[_Minimum]() for _ in models]
        for turn, pieces in enumerate(turns, 1):
            job = f"{name}-{turn}" if len(turns) > 1 else name
            found = self._minimum_together(job, statistics, working, [some for _, some in pieces])
            for (number, _), minimum in zip(pieces, found, strict=True):
                minima[number].append(minimum)
        return [_Minimum.joined(parts) for parts in minima]

    def _least_squares(self, folds: dict[int, Squares], models: _Models, n_models: int) -> _Minimum:
        """Return the minima from sums over the rows that train, whatever the number of alphas.

        Models come by alpha, then by fold.
        """
        assert isinstance(models.penalty, SubspacePenalty)  # noqa: S101  (of l2)
        values = models.alphas[np.sort(np.unique(models.alphas, return_index=True)[1])]
        held_out = models.terms.held_out[: len(models.alphas) // len(values) : n_models].tolist()
        by_fold = [folds[fold].minimum(models.penalty, values, has_intercept=self.fit_intercept) for fold in held_out]
        coef, intercept, objective, gaps = (
            np.concatenate([np.asarray(getattr(minima[i], part)) for i in range(len(values)) for minima in by_fold])
            for part in SquaresMinimum._fields
        )
        return _Minimum(coef, intercept, objective, gaps, 1)

    def _together(self, width: int) -> int:
        """Return how many models are fitted together, of ``width`` parameters each."""
        return min(max(1, BENDS_BYTES // (8 * width**2)), MOST_HINGES if self.loss in INTERIORS else MOST_SMOOTH)

    def _minimum_together(
        self, name: str, statistics: Statistics, working: WorkingRows, models: Sequence[_Models]
    ) -> list[_Minimum]:
        """Fit models in passes that they share."""
        sweeps, starts = zip(*(self._sweep(name, statistics, working, some) for some in models), strict=True)
        run = working.sweeper.run
        if len(models) == 1:
            fits: tuple[Any, ...] = (run(sweeps[0], starts[0]),)
        else:
            fits = run(SweepsTogether(name, sweeps), FitsTogether(starts)).fits
        minima = []
        for number, (some, sweep, fitted) in enumerate(zip(models, sweeps, fits, strict=True), 1):
            if isinstance(sweep, HingeSweep) and isinstance(sweep.interior, SparseInterior):
                fitted = self._with_zeros(f"{name}-zeros-{number}", working, some, sweep.interior, fitted)
            minima.append(
                _Minimum(fitted.best[:, :-1], fitted.best[:, -1], fitted.objective, fitted.gaps, fitted.n_passes)
            )
        return minima

    def _sweep(
        self, name: str, statistics: Statistics, working: WorkingRows, models: _Models
    ) -> tuple[Sweep[Any, Any], Any]:
        """Return the passes that fit models, and where these start."""
        shared: dict[str, Any] = {
            "name": name, "terms": models.terms, "units": working.units(), "has_intercept": self.fit_intercept,
            "tolerance": self.tolerance, "max_sweeps": self.max_sweeps, "keeps_sparse": working.keeps_sparse,
        }  # fmt: skip
        penalty, alphas = models.penalty, models.alphas
        if self.loss in INTERIORS:
            interior: InteriorPenalty
            if isinstance(penalty, SparsePenalty):
                interior = SparseInterior(penalty, alphas)
                shared["tolerance"] /= 10  # setting to zero what tends to it costs some
            else:
                assert isinstance(penalty, SubspacePenalty)  # noqa: S101  (there are two kinds)
                interior = SubspaceInterior(penalty, alphas)
            return HingeSweep(kind=INTERIORS[self.loss], interior=interior, **shared), HingeFit.start_at(interior)
        start = np.zeros((len(alphas), penalty.n_parameters + 1))
        if isinstance(penalty, SparsePenalty):
            sparse = SparseSweep(loss=LOSSES[self.loss], penalty=penalty, alphas=alphas, **shared)
            return sparse, LinearFit.start_at(start)
        assert isinstance(penalty, SubspacePenalty)  # noqa: S101  (there are two kinds)
        with_bends = 8 * start.shape[1] ** 2 <= LARGEST_BENDS
        if penalty.is_free and not with_bends:
            raise InputError(
                f"epsilon=0 with {start.shape[1] - 1:,} columns: nothing would tell how near the minimum is. "
                "Set epsilon above 0."
            )
        metric = self._metric(working, statistics, penalty, alphas) if with_bends else None
        smooth = LinearSweep(loss=LOSSES[self.loss], penalty=penalty, alphas=alphas, with_bends=with_bends, **shared)
        return smooth, LinearFit.start_at(start, metric)

    def _with_zeros(
        self, name: str, working: WorkingRows, models: _Models, interior: SparseInterior, fitted: HingeFit
    ) -> HingeFit:
        """Return models whose parameters that tend to zero are zero, with their objectives, which take a pass."""
        m, sparse = len(fitted.best), interior.penalty.n_sparse
        size = np.maximum(np.abs(fitted.best[:, :sparse]).max(axis=1, keepdims=True), TINY)
        small = np.abs(fitted.best[:, :sparse]) < SMALL * size
        tried = np.concatenate([fitted.best, fitted.best])
        tried[:, :sparse][np.concatenate([interior.tends_to_zero(fitted.parts, size), small])] = 0
        sweep = LossPass(
            name, LOSSES[self.loss], interior.penalty.coefficients(tried[:, :-1]), tried[:, -1],
            models.terms, np.tile(np.arange(m), 2), working.units(), working.keeps_sparse,
        )  # fmt: skip
        losses = working.sweeper.run(sweep, np.empty(0))
        objectives = losses + np.tile(interior.alphas, 2) * interior.penalty.values(tried[:, :-1])
        with_zeros = replace(fitted, n_passes=fitted.n_passes + 1)
        for kind in (slice(m, 2 * m), slice(0, m)):  # the one with more zeros last
            is_good = objectives[kind] - fitted.objective <= self.tolerance * np.maximum(fitted.objective, TINY) / 2
            with_zeros = replace(
                with_zeros,
                best=np.where(is_good[:, None], tried[kind], with_zeros.best),
                objective=np.where(is_good, objectives[kind], with_zeros.objective),
            )
        return with_zeros

    def _metric(
        self, working: WorkingRows, statistics: Statistics, penalty: SubspacePenalty, alphas: Array
    ) -> Array | None:
        """Return second derivatives at zero, where rows that train are as all rows, from the moments."""
        if statistics.approximation is not None or working.is_uncentred:
            return None
        n, r = statistics.moments.n_rows, penalty.n_parameters
        scatter = total_scatter(statistics.moments).dense(statistics.moments)
        bend = float(LOSSES[self.loss](np.ones(1)).bend[0]) * n
        metric = np.zeros((len(alphas), r + 1, r + 1))
        metric[:, : len(scatter), : len(scatter)] = bend * scatter
        metric[:, :r, :r] += 2 * alphas[:, None, None] * penalty.matrix()
        metric[:, r, r] = bend
        return metric

    def rounds(self, n_classes: int, n_components: int, n_features: int) -> list[SweepRound]:
        models = len(self.targets) or (1 if n_classes == 2 else n_classes)
        alphas = len(self.candidates) if self.alpha is None else 1
        if self.alpha is not None and not self.sizes:
            return [self._round(models, n_features)]
        tried = models * alphas * max(len(self.sizes), 1) * MOST_FOLDS
        return [*self.reduction.rounds(n_classes, n_features), *(self._round(m, n_features) for m in (tried, models))]

    @property
    def takes_rows(self) -> bool:
        return (self.alpha is None or bool(self.sizes)) and self.reduction.takes_rows

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
class _Models:
    """Models to be fitted: one penalty with its weights, label terms, and which fits of a grid they are."""

    penalty: Penalty
    terms: FoldTerms
    alphas: Array
    place: NDArray[np.intp] | None = None

    def only(self, models: slice) -> _Models:
        return _Models(self.penalty, self.terms.only(models), self.alphas[models])


def _by_fold(reductions: Sequence[Array], numbers: NDArray[np.intp]) -> Iterator[tuple[Array, NDArray[np.intp]]]:
    """Yield each reduction, of all folds or of one after the other, with the numbers (A, F, m) of its fits in a row."""
    folds = np.moveaxis(numbers, 1, 0) if len(reductions) > 1 else [numbers]
    yield from zip(reductions, (fold.ravel() for fold in folds), strict=True)


def _turns(pieces: Sequence[tuple[int, _Models]], size: int) -> list[list[tuple[int, _Models]]]:
    """Return pieces in a row, as many together as have at most ``size`` models."""
    turns: list[list[tuple[int, _Models]]] = [[]]
    for piece in pieces:
        if turns[-1] and sum(len(some.alphas) for _, some in [*turns[-1], piece]) > size:
            turns.append([])
        turns[-1].append(piece)
    return turns


def positive_classes(classes: NDArray) -> NDArray[np.intp]:
    """Return the positions of the classes that models tell from the rest: of two the second."""
    return np.arange(1, 2) if len(classes) == 2 else np.arange(len(classes))


def penalty_of(kind: str, P: Array, epsilon: float, *, appended: bool) -> Penalty:
    """Return the penalty for a reduction P (K, r), which may pick ``appended`` columns, the last of the r."""
    if kind == "l1":
        return SparsePenalty(P, epsilon, len(P) if appended else 0)
    return SubspacePenalty.of(P, epsilon)
