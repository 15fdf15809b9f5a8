"""Statistics from passes that apply scatters to blocks of vectors; no d x d matrix is formed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import combinations, products, single_blas_thread
from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.solvers.block_iteration import BlockIteration
from mmpca_dist.solvers.needs import Needs
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.solvers.orthonormal import orthonormal, unit_columns
from mmpca_dist.solvers.ritz import ritz_pairs
from mmpca_dist.statistics.census import Census
from mmpca_dist.statistics.column_moments import ColumnSums
from mmpca_dist.statistics.coordinates import SubspaceStatistics, standard_deviations
from mmpca_dist.statistics.krylov_statistics import Approximation, probe_seed, probes
from mmpca_dist.statistics.moments import SAFE_EXPONENT, ClassMoments, provisional_centre, safe_scale
from mmpca_dist.statistics.pairings import by_pairing, median_sets
from mmpca_dist.statistics.row_sample import draw_sample
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.scatter_operator import Block, ScatterOperator, centre_type
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.summary import take_medians

SEED = 2015
CLASS_ROWS = 4
"""Rows of every class in the sample that the passes begin with: their mean is subtracted from the class's rows."""
LEAST_SAMPLE = 128


def statistics_in_passes(
    rows: Rows, needs: Needs, solver: SolverOptions, *, precision: str, standardize: bool = False
) -> SubspaceStatistics:
    """Return what methods need, in bases that hold the leading part of their scatters.

    Parameters
    ----------
    needs : Needs
        The scatter of pairs is not made here.
    solver : SolverOptions
        Of a kind that is one of `BLOCK_SOLVERS`.

    Notes
    -----
    One basis serves all methods of equal class weights: their scatters differ by what the differences of class means
    (and medians) span, and these are in it. The basis of another weighting comes from the same passes.
    """
    dataset, census = rows.dataset, rows.census
    size = block_size(needs, solver, dataset.n_features)
    sample, codes = draw_sample(rows, max(2 * size, LEAST_SAMPLE), CLASS_ROWS)
    work = np.dtype(np.float32 if precision == "single" and not dataset.sparse else np.float64)
    centres = _centres(sample, codes, census, centre_type(dataset.dtype, work))
    operator = ScatterOperator(
        rows,
        centres,
        work,
        powers=safe_scale(sample, work),
        sums=_sums_type(dataset, sample, precision, standardize),
    )
    counts, mean = census.counts, None
    sets = median_sets(len(counts), *needs.medians)
    medians = None if sets is None else take_medians(rows, sets)
    if standardize:
        operator.apply([])
        means, mean = operator.means, counts @ operator.means / counts.sum()
        squares = operator.squares.sum(axis=0) + counts @ (means - mean) ** 2  # type: ignore[union-attr]
        operator.scale = standard_deviations(squares / counts.sum(), mean)
    start = leading_start(sample, operator.scale, size, kept_type(precision))
    seed = probe_seed(dataset, counts, sample)
    del sample, codes  # dense rows of many columns
    # Classes of equal size count the same by either weighting.
    alike = len(set(counts.tolist())) == 1
    weightings = {ClassWeighting.EQUAL if alike else one for one in needs.scatters}
    groups = [_Group(one, one.weights(counts), solver, seed) for one in ClassWeighting if one in weightings]
    with single_blas_thread():
        by_class = by_pairing(medians, needs.medians)
        passes = _Passes(operator, groups, by_class, precision, solver, needs.n_components or 1, start, seed)
        del start
        found = passes.run()
    if not needs.columns:
        return found
    assert operator.squares is not None  # noqa: S101  (the first pass leaves them)
    return replace(found, columns=ColumnSums(operator.means, operator.squares))


def block_size(needs: Needs, solver: SolverOptions, n_features: int) -> int:
    """Return how many vectors a block has."""
    return min((needs.n_components or 1) + solver.oversampling, n_features)


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
    """A weighted class scatter on its way to a basis, and the whole scatter whose components tell when it is there."""

    def __init__(
        self, weighting: ClassWeighting, weights: NDArray[np.float64], solver: SolverOptions, seed: int
    ) -> None:
        super().__init__(solver, seed)
        self.scatter, self.weights = weighting.scatter, weights


class _Passes:
    """The passes, over all groups at once."""

    def __init__(
        self, operator: ScatterOperator, groups: list[_Group], medians: dict[str, NDArray[np.float64]], precision: str,
        solver: SolverOptions, n_components: int, start: NDArray, seed: int,
    ) -> None:  # fmt: skip
        self._operator, self._groups, self._medians = operator, groups, medians
        self._precision, self._solver, self._wanted = precision, solver, n_components
        self._start, self._seed = start, seed

    def run(self) -> SubspaceStatistics:
        if not self._groups:
            if self._operator.offsets is None:
                self._operator.apply([])
            return self._between_only()
        others = self._begin()
        for number in range(2, self._solver.passes + 1):
            joining = others if number == 2 else None
            going = [group for group in self._groups if not group.done and group.basis.grow(joining)]
            if not going:
                break
            found = self._operator.apply([Block(group.weights, group.basis.block) for group in going])
            for group in going:
                group.basis.absorb(found.pop(0))  # which lets go of it
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
        counts, means = self._operator.rows.census.counts, self._operator.means
        mean = counts @ means / counts.sum()
        rows = np.concatenate([means - mean, *(rows - mean for rows in self._medians.values())])
        return (rows if self._operator.scale is None else rows / self._operator.scale).T

    def _follow(self, group: _Group) -> None:
        """Let a group see how far its components are."""
        statistics = self._of(group)
        group.follow(ritz_pairs(statistics, group.scatter(statistics.moments), self._wanted))

    def _of(self, group: _Group) -> SubspaceStatistics:
        """Return the statistics in a group's basis."""
        projected, known = group.found(self._operator.passes, self._operator.trace(group.weights))
        return self._in_basis(projected.basis, projected.inside[None], group.weights[None], known)

    def _between_only(self) -> SubspaceStatistics:
        """Return statistics for methods that need class means alone."""
        others = self._others()
        basis = orthonormal(unit_columns(others), others[:, :0])
        r, n_classes = basis.shape[1], len(self._operator.rows.census.counts)
        approximation = Approximation(
            self._solver.kind, self._operator.passes, 0.0, None, np.empty((len(basis), 0)), seed=self._seed
        )
        return self._in_basis(basis, np.empty((0, r, r)), np.empty((0, n_classes)), approximation)

    def _in_basis(
        self, basis: NDArray, scatters: NDArray[np.float64], weights: NDArray[np.float64], approximation: Approximation
    ) -> SubspaceStatistics:
        census, means, scale = self._operator.rows.census, self._operator.means, self._operator.scale
        mean = census.counts @ means / census.counts.sum()

        def along(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            return products(basis, ((rows - mean) if scale is None else (rows - mean) / scale).T).T

        return SubspaceStatistics(
            moments=ClassMoments(census.classes, census.counts, along(means), scatters, weights),
            medians={pairing: along(rows) for pairing, rows in self._medians.items()},
            mean=mean,
            scale=scale,
            precision=self._precision,
            basis=basis,
            approximation=approximation,
        )
