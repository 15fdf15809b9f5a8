"""Statistics from passes that apply scatters to blocks of vectors: no d x d matrix is ever formed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.panels import combinations, products
from mmpca_dist.scatters import margin_scatter
from mmpca_dist.solvers.iteration import BlockIteration
from mmpca_dist.solvers.krylov import orthonormal, unit_columns
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.solvers.ritz import ritz_pairs
from mmpca_dist.statistics.approximation import Approximation, probe_seed, probes
from mmpca_dist.statistics.census import Census
from mmpca_dist.statistics.columns import ColumnSums
from mmpca_dist.statistics.moments import SAFE_EXPONENT, ClassMoments, provisional_centre, safe_scale
from mmpca_dist.statistics.operator import Block, ScatterOperator, centre_type
from mmpca_dist.statistics.reduction import Progress, Scheduler
from mmpca_dist.statistics.sample import OnPass, draw_sample
from mmpca_dist.statistics.summary import take_medians
from mmpca_dist.statistics.working import Statistics, standard_deviations

SEED = 2015
CLASS_ROWS = 4
"""Rows of every class in the sample that the passes begin with: their mean is subtracted from the class's rows."""
LEAST_SAMPLE = 128


def statistics_in_passes(
    dataset: Dataset,
    census: Census,
    spans: list[Span],
    *,
    scheduler: Scheduler,
    precision: str,
    solver: SolverOptions,
    n_components: int,
    needed: frozenset[str] = frozenset({"plain"}),
    medians_of: NDArray[np.bool_] | None = None,
    standardize: bool = False,
    progress: Progress | None = None,
    on_pass: OnPass | None = None,
) -> Statistics:
    """Return what methods need, in bases that hold the leading part of their scatters.

    Parameters
    ----------
    solver : SolverOptions
        Of kind ``krylov``, ``subspace`` or ``nystroem``.
    n_components : int
        The largest number that any method wants.
    needed : set of {"plain", "weighted", "pairs", "columns"}
        Whether a method needs the scatter within the classes, whether M-PCA0 needs the one it weights, and whether
        means and variances of single columns are; the scatter of pairs is not made here.
    medians_of : bool array of shape (T, C), optional
        Sets of classes whose medians are wanted: a pass more, or several.

    Notes
    -----
    One basis serves all methods but M-PCA0: their scatters differ by what the differences of class means (and
    medians) span, and these are in it. M-PCA0 shares the passes.
    """
    size = min(n_components + solver.oversampling, dataset.n_features)
    sample, codes = draw_sample(dataset, census, max(2 * size, LEAST_SAMPLE), scheduler, on_pass, CLASS_ROWS)
    work = np.dtype(np.float32 if precision == "single" and not dataset.sparse else np.float64)
    centres = _centres(sample, codes, census, centre_type(dataset.dtype, work))
    operator = ScatterOperator(
        dataset, census, spans, scheduler, centres, work, progress, on_pass,
        powers=safe_scale(sample, work), sums=_sums_type(dataset, sample, precision, standardize),
    )  # fmt: skip
    counts, mean = census.counts, None
    medians = None
    if medians_of is not None:
        medians = take_medians(
            dataset, census, spans, medians_of, scheduler=scheduler, progress=progress, on_pass=on_pass
        )
    if standardize:
        operator.apply([])
        means, mean = operator.means, counts @ operator.means / counts.sum()
        squares = operator.squares.sum(axis=0) + counts @ (means - mean) ** 2  # type: ignore[union-attr]
        operator.scale = standard_deviations(squares / counts.sum(), mean)
    start = leading_start(sample, operator.scale, size, kept_type(precision))
    seed = probe_seed(dataset, counts, sample)
    del sample, codes  # dense rows of many columns
    groups = []
    same = len(set(counts.tolist())) == 1
    if "plain" in needed or ("weighted" in needed and same):
        groups.append(_Group("pca", np.ones(len(counts)), solver, seed))
    if "weighted" in needed and not same:
        groups.append(_Group("m-pca0", (counts.sum() - counts) / counts.sum(), solver, seed))
    with single_blas_thread():
        passes = _Passes(operator, groups, medians, precision, solver, n_components, start, seed)
        del start
        found = passes.run()
    if "columns" not in needed:
        return found
    assert operator.squares is not None  # noqa: S101  (the first pass leaves them)
    return replace(found, columns=ColumnSums(operator.means, operator.squares))


def _centres(sample: NDArray, codes: NDArray[np.intp], census: Census, dtype: np.dtype) -> NDArray:
    """Return what is subtracted from the rows of each class, shape (C, d)."""
    centres = np.empty((len(census.classes), sample.shape[1]), dtype)
    for label in range(len(centres)):
        rows = np.flatnonzero(codes == label)
        with np.errstate(over="ignore"):
            centres[label] = provisional_centre(sample, rows if len(rows) else None)
    return np.nan_to_num(centres, posinf=0, neginf=0)  # rows that are not finite are refused where they are read


def _sums_type(dataset: Dataset, sample: NDArray, precision: str, standardize: bool) -> np.dtype:
    """Return the type of sums of products: single for sparse rows, unless sums of squares might overflow or vanish."""
    if dataset.sparse and precision == "single" and not standardize:
        with np.errstate(over="ignore"):
            spread = float(np.ptp(sample, axis=0).max())
        if 2.0**-SAFE_EXPONENT <= spread <= 2.0**SAFE_EXPONENT:
            return np.dtype(np.float32)
    return np.dtype(np.float64)


def kept_type(precision: str) -> np.dtype:
    """Return the type of the bases that are kept."""
    return np.dtype(np.float32 if precision == "single" else np.float64)


def leading_start(
    sample: NDArray, scale: NDArray[np.float64] | None, size: int, dtype: np.dtype, centre: bool = True
) -> NDArray:
    """Return the leading directions of sampled rows, and random ones beside them, orthonormal: shape (d, size).

    ``dtype`` is that of the basis they begin.
    """
    rows = _of_unit_size(sample, dtype)
    if centre:
        rows -= rows.mean(axis=0, dtype=np.float64).astype(dtype)
    if scale is not None:
        rows = _of_unit_size(rows / scale, dtype)
    with single_blas_thread():
        values, turn = scipy.linalg.eigh(products(rows.T, rows.T), check_finite=False)
        known = values > len(values) * np.finfo(dtype).eps * values.max(initial=0.0)
        known[: max(0, len(known) - (size - size // 8))] = False  # an eighth is random
    leading = combinations(rows.T, (turn[:, known] / np.sqrt(values[known])).astype(dtype))
    random = np.random.default_rng(SEED).standard_normal((len(leading), size - leading.shape[1]))
    return orthonormal(np.concatenate([leading, random], axis=1), np.empty((len(leading), 0), dtype)).astype(dtype)


def _of_unit_size(rows: NDArray, dtype: np.dtype) -> NDArray:
    """Return rows divided by their largest value, lest their squares overflow or vanish; zero where not finite."""
    with np.errstate(invalid="ignore"):
        values = rows.view(np.uint8) if rows.dtype == bool else rows
        largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
        usable = largest if 0 < largest < np.inf else 1.0
        found = np.divide(values, usable, out=np.empty(rows.shape, dtype), casting="same_kind")
    return found if np.isfinite(largest) else np.nan_to_num(found, nan=0, posinf=0, neginf=0, copy=False)


class _Group(BlockIteration):
    """A weighted class scatter on its way to a basis; ``watched`` is the method whose components tell when it is."""

    def __init__(self, watched: str, weights: NDArray[np.float64], solver: SolverOptions, seed: int) -> None:
        super().__init__(solver, seed)
        self.watched, self.weights = watched, weights


class _Passes:
    """The passes, over all groups at once."""

    def __init__(
        self, operator: ScatterOperator, groups: list[_Group], medians: NDArray[np.float64] | None, precision: str,
        solver: SolverOptions, n_components: int, start: NDArray, seed: int,
    ) -> None:  # fmt: skip
        self._operator, self._groups, self._medians = operator, groups, medians
        self._precision, self._solver, self._wanted = precision, solver, n_components
        self._start, self._seed = start, seed

    def run(self) -> Statistics:
        if not self._groups:
            if self._operator.offsets is None:
                self._operator.apply([])
            return self._between_only()
        others = self._begin()
        for number in range(2, self._solver.passes + 1):
            # What is between the classes joins once, or anew where the block before is given up.
            joining = others if number == 2 or self._solver.kind == "subspace" else None
            going = [group for group in self._groups if not group.done and self._grow(group, joining)]
            if not going:
                break
            found = self._operator.apply([Block(group.weights, group.growing.block) for group in going])
            for group in going:
                group.growing.absorb(found.pop(0))  # which lets go of it
                self._follow(group)
        first, *more = [self._of(group) for group in self._groups]
        return replace(first, weighted=more[0]) if more else first

    def _begin(self) -> NDArray[np.float64]:
        """Make the first pass, and return what lies between the classes, shape (d, m)."""
        start, self._start = self._start, self._start[:0]  # it lives on in the bases
        both = np.concatenate([start, probes(len(start), self._seed).astype(start.dtype)], axis=1)
        images = self._operator.apply([Block(group.weights, both) for group in self._groups])
        del both
        others, size = self._others(), start.shape[1]
        for group in self._groups:
            epsilon = max(float(np.finfo(kind).eps) for kind in (self._operator.work, self._operator.sums))
            image = images.pop(0)
            probed = np.ascontiguousarray(image[:, size:])
            group.begin(start, image[:, :size], probed, others, epsilon)
            del image
        return others

    def _others(self) -> NDArray[np.float64]:
        """Return differences of class means, and medians, from the mean: shape (d, m), in scaled columns."""
        counts, means = self._operator.census.counts, self._operator.means
        mean = counts @ means / counts.sum()
        rows = means - mean
        if self._medians is not None:
            rows = np.concatenate([rows, self._medians - mean])
        return (rows if self._operator.scale is None else rows / self._operator.scale).T

    def _grow(self, group: _Group, joining: NDArray[np.float64] | None) -> bool:
        """Add a block to a group's basis.

        Subspace iteration gives up vectors: not those that lead where differences of means count, as for components.
        """
        if self._solver.kind != "subspace":
            return group.growing.grow(joining)
        moments = self._of(group).moments
        return group.growing.grow(joining, margin_scatter(group.watched, moments).dense(moments))

    def _follow(self, group: _Group) -> None:
        """Let a group see how far its components are."""
        statistics = self._of(group)
        group.follow(ritz_pairs(statistics, margin_scatter(group.watched, statistics.moments), self._wanted))

    def _of(self, group: _Group) -> Statistics:
        """Return the statistics in a group's basis."""
        projected, known = group.found(self._operator.passes, self._operator.trace(group.weights))
        return self._in_basis(projected.basis, projected.inside[None], group.weights[None], known)

    def _between_only(self) -> Statistics:
        """Return statistics for methods that need class means alone."""
        others = self._others()
        basis = orthonormal(unit_columns(others), others[:, :0])
        r, n_classes = basis.shape[1], len(self._operator.census.counts)
        approximation = Approximation(
            self._solver.kind, self._operator.passes, 0.0, None, np.empty((len(basis), 0)), seed=self._seed
        )
        return self._in_basis(basis, np.empty((0, r, r)), np.empty((0, n_classes)), approximation)

    def _in_basis(
        self, basis: NDArray, scatters: NDArray[np.float64], weights: NDArray[np.float64], approximation: Approximation
    ) -> Statistics:
        census, means, scale = self._operator.census, self._operator.means, self._operator.scale
        mean = census.counts @ means / census.counts.sum()

        def along(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            return products(basis, ((rows - mean) if scale is None else (rows - mean) / scale).T).T

        moments = ClassMoments(census.classes, census.counts, along(means), scatters, weights)
        medians = None if self._medians is None else along(self._medians)
        return Statistics(moments, medians, mean, scale, basis, self._precision, approximation=approximation)
