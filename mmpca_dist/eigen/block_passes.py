"""Statistics from passes that apply scatters to blocks of vectors; no d x d matrix is formed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import combinations, products, single_blas_thread
from mmpca_dist.eigen.block_solver import BLOCK_SOLVERS, Projected
from mmpca_dist.eigen.blocks.arpack import ARPACK, arpack_vectors
from mmpca_dist.eigen.certificate import ritz_pairs
from mmpca_dist.eigen.dense import Eigenpairs
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.eigen.orthonormal import orthonormal, unit_columns
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.census import Census
from mmpca_dist.passes.rows import Rows, draw_sample
from mmpca_dist.passes.units import read_batch
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.approximation import Approximation, probe_seed, probes
from mmpca_dist.statistics.column_units import standard_deviations
from mmpca_dist.statistics.medians import column_medians
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.precision import SAFE_EXPONENT, provisional_centre, refuse_vanished, safe_scale, work_type
from mmpca_dist.statistics.scatter_operator import Block, ScatterOperator, centre_type
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.working_statistics import ColumnSums, SubspaceStatistics
from mmpca_dist.tables.dataset import Dataset

SEED = 2015


@single_blas_thread()  # threads of small products wait for one another
def statistics_in_passes(
    rows: Rows,
    needs: Needs,
    solver: SolverOptions,
    *,
    precision: str,
    standardize: bool = False,
    adjustment: Adjustment | None = None,
) -> SubspaceStatistics:
    """Return the statistics that methods need, in bases of the leading part of their scatters.

    Parameters
    ----------
    needs : Needs
        The scatter of pairs is not made here.
    solver : SolverOptions
        Its kind is one of `BLOCK_SOLVERS`.
    adjustment : Adjustment, optional
        The map of widened rows: it is applied to vectors where they are sparse; dense ones are read with it.

    Notes
    -----
    One basis serves all methods of equal class weights: their scatters differ by what the differences of class means
    (and medians) span, and these are in it. The basis of another weighting comes from the same passes.
    """
    dataset, counts = rows.dataset, rows.census.counts
    size = block_size(needs, solver, dataset.n_columns)
    sample, codes = draw_sample(rows, max(2 * size, LIMITS.start_rows), LIMITS.start_class_rows)
    work = np.dtype(np.float32 if precision == "single" and not dataset.sparse else np.float64)
    centres = _centres(sample, codes, rows.census, centre_type(dataset.dtype, work))
    sums = _sums_type(dataset, sample, precision, standardize or rows.census.totals is not None)
    read_with = adjustment
    if not dataset.sparse:
        adjustment = None  # rows are adjusted as they are read
    operator = ScatterOperator(
        rows, centres, work, powers=safe_scale(sample, work), sums=sums, adjustment=adjustment, read_with=read_with
    )
    sample = sample if adjustment is None else adjustment.rows(sample)
    medians = column_medians(rows, adjustment, needs.medians)
    if standardize:
        operator.apply([])
        squares = operator.squares.sum(axis=0) + counts @ (operator.means - operator.mean) ** 2
        operator.scale = standard_deviations(squares / counts.sum(), operator.mean)
    passes = _Passes(operator, medians, precision, solver, probe_seed(dataset, rows.census.sizes, sample))
    if solver.kind == ARPACK.name:
        start = passes.arpack_start(needs)
    else:
        start = leading_start(sample, operator.scale, size, work_type(precision))
    del sample, codes  # dense rows of many columns
    # Classes of equal size count the same by either weighting, but ARPACK's start is of the very scatters.
    alike = len(set(counts.tolist())) == 1 and solver.kind != ARPACK.name
    weightings = {ClassWeighting.EQUAL if alike else weighting for weighting in needs.scatters}
    if not weightings:
        statistics = passes.of_means()
    else:
        groups = passes.begin([each for each in ClassWeighting if each in weightings], start)
        del start  # it lives on in the bases
        statistics = passes.go_on(groups, needs.n_components or 1)
    refuse_vanished(operator.means - operator.mean, statistics.within_trace() / counts.sum(), precision)
    if not needs.columns:
        return statistics
    return replace(statistics, columns=ColumnSums(operator.means, operator.squares))


def block_size(needs: Needs, solver: SolverOptions, n_features: int) -> int:
    """Return how many vectors a block has."""
    return min((needs.n_components or 1) + solver.oversampling, n_features)


def _centres(sample: NDArray, codes: NDArray[np.intp], census: Census, dtype: np.dtype) -> NDArray:
    """Return the provisional centre of each class, shape (C, d)."""
    centres = np.empty((len(census.classes), sample.shape[1]), dtype)
    for label in range(len(centres)):
        rows = np.flatnonzero(codes == label)
        with np.errstate(over="ignore"):
            centres[label] = provisional_centre(sample, rows if len(rows) else None)
    return np.nan_to_num(centres, posinf=0, neginf=0)  # rows that are not finite are refused where they are read


def _sums_type(dataset: Dataset, sample: NDArray, precision: str, scaled: bool) -> np.dtype:
    """Return the type of sums of products: single for sparse rows, unless sums of squares might overflow or vanish."""
    if dataset.sparse and precision == "single" and not scaled:
        with np.errstate(over="ignore"):
            spread = float(np.ptp(sample, axis=0).max())
        if 2.0**-SAFE_EXPONENT <= spread <= 2.0**SAFE_EXPONENT:
            return np.dtype(np.float32)
    return np.dtype(np.float64)


def leading_start(
    sample: NDArray, scale: NDArray[np.float64] | None, size: int, dtype: np.dtype, centre: bool = True
) -> NDArray:
    """Return the leading directions of sampled rows, together with random ones, orthonormal: shape (d, size).

    ``dtype`` is that of the basis they begin.
    """
    rows = _of_unit_size(sample, dtype)
    if centre:
        rows -= rows.mean(axis=0, dtype=np.float64).astype(dtype)
    if scale is not None:
        rows = _of_unit_size(rows / scale, dtype)
    with single_blas_thread():
        values, turn = scipy.linalg.eigh(products(rows.T, rows.T), check_finite=False)
        usable = values > len(values) * np.finfo(dtype).eps * values.max(initial=0.0)
        usable[: max(0, len(usable) - (size - size // 8))] = False  # an eighth is random
    leading = combinations(rows.T, (turn[:, usable] / np.sqrt(values[usable])).astype(dtype))
    random = np.random.default_rng(SEED).standard_normal((len(leading), size - leading.shape[1]))
    return orthonormal(np.concatenate([leading, random], axis=1), np.empty((len(leading), 0), dtype)).astype(dtype)


def _of_unit_size(rows: NDArray, dtype: np.dtype) -> NDArray:
    """Return rows divided by their largest value, so that squares do not overflow; zero where not finite."""
    with np.errstate(invalid="ignore"):
        values = rows.view(np.uint8) if rows.dtype == bool else rows
        largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
        usable = largest if 0 < largest < np.inf else 1.0
        scaled = np.divide(values, usable, out=np.empty(rows.shape, dtype), casting="same_kind")
    return scaled if np.isfinite(largest) else np.nan_to_num(scaled, nan=0, posinf=0, neginf=0, copy=False)


class BlockIteration:
    """A scatter on its way to a basis that holds its leading part.

    Parameters
    ----------
    solver : SolverOptions
        Its kind is one of `BLOCK_SOLVERS`.
    seed : int
        Seed of the probes.
    start, image, probed : arrays of shape (d, b), (d, b) and (d, p)
        The first block, and what the first pass makes of it and of the probes.
    others : array of shape (d, m)
        What is to join the basis.

    Attributes
    ----------
    basis : Basis
    done : bool
        Whether no more passes are needed.
    """

    def __init__(
        self, solver: SolverOptions, seed: int, start: NDArray, image: NDArray[np.float64],
        probed: NDArray[np.float64], others: NDArray[np.float64],
    ) -> None:  # fmt: skip
        self._solver, self._seed, self._probed = solver, seed, probed
        self._history: list[dict[str, list[float]]] = []
        self.basis, self.done = BLOCK_SOLVERS[solver.kind].begin(start, image, others, solver.passes), False

    def follow(self, pairs: Eigenpairs) -> None:
        """Record the components after a pass: the iteration is done once all meet the tolerance."""
        self._history.append({"values": pairs.values.tolist(), "residuals": pairs.residuals.tolist()})
        self.done = bool((pairs.residuals <= self._solver.tolerance * pairs.values).all())

    def approximation(self, passes: int, trace: float) -> tuple[Projected, Approximation]:
        """Return the scatter in the basis, and what is known of the rest after so many passes."""
        with single_blas_thread():
            projected = self.basis.projected()
        return projected, Approximation(
            self._solver.kind, passes, trace, projected.outside, self._probed, self._history, seed=self._seed
        )


Groups = dict[ClassWeighting, BlockIteration]
"""The class scatter of each weighting; components of the whole scatter tell when its basis is complete."""


@dataclass(frozen=True)
class _Passes:
    """The passes, over all groups at once."""

    operator: ScatterOperator
    medians: dict[str, NDArray[np.float64]]
    precision: str
    solver: SolverOptions
    seed: int

    def arpack_start(self, needs: Needs) -> NDArray:
        """Return what ARPACK finds, and what differences of class means add to it, orthonormal: shape (d, b)."""
        operator, rows = self.operator, self.operator.rows
        if not operator.passes:
            operator.apply([])
        batch = read_batch(rows.dataset, 0, rows.dataset.n_rows, ("label", "weight"), sparse=True)
        others = self._others()
        moments = ClassMoments.empty(rows.census.classes, 0, np.empty((0, len(rows.census.classes))))
        means = others.T[: len(moments.classes)]
        moments = replace(moments, counts=rows.census.counts, sizes=rows.census.sizes, means=means)
        given = operator.mean, operator.scale, block_size(needs, self.solver, len(others)), self.solver.tolerance
        scatters = (each.scatter(moments) for each in ClassWeighting if each in needs.scatters)  # sets have no order
        found = [arpack_vectors(batch, moments, scatter, *given) for scatter in scatters]
        found = [unit_columns(each).astype(work_type(self.precision)) for each in (others, *found)]
        return orthonormal(np.concatenate(found, axis=1), found[0][:, :0])

    def begin(self, weightings: list[ClassWeighting], start: NDArray) -> Groups:
        """Make the first pass, over the start block and the probes."""
        size = start.shape[1]
        both = np.concatenate([start, probes(len(start), self.seed).astype(start.dtype)], axis=1)
        images = self.operator.apply([Block(self._weights(each), both) for each in weightings])
        del both
        others, groups = self._others(), Groups()
        for weighting in weightings:
            image = images.pop(0)
            probed = np.ascontiguousarray(image[:, size:])
            groups[weighting] = BlockIteration(self.solver, self.seed, start, image[:, :size], probed, others)
            del image
        return groups

    def go_on(self, groups: Groups, n_components: int) -> SubspaceStatistics:
        """Make further passes until so many components of all groups meet the tolerance."""
        latest = self._follow(groups, n_components) if self.solver.kind == ARPACK.name else {}
        for number in range(2, self.solver.passes + 1):
            joining = self._others() if number == 2 and not latest else None
            going = {each: group for each, group in groups.items() if not group.done and group.basis.grow(joining)}
            if not going:
                break
            images = self.operator.apply(
                [Block(self._weights(each), group.basis.block) for each, group in going.items()]
            )
            for group in going.values():
                group.basis.absorb(images.pop(0))  # which lets go of it
            latest = self._follow(going, n_components)
        first, *more = [latest[each] if each in latest else self._of(each, group) for each, group in groups.items()]
        return replace(first, weighted=more[0]) if more else first

    def _follow(self, groups: Groups, n_components: int) -> dict[ClassWeighting, SubspaceStatistics]:
        """Record the components of groups after a pass, and return the statistics that they follow from."""
        found = {weighting: self._of(weighting, group) for weighting, group in groups.items()}
        for weighting, statistics in found.items():
            groups[weighting].follow(ritz_pairs(statistics, weighting.scatter(statistics.moments), n_components))
        return found

    def of_means(self) -> SubspaceStatistics:
        """Return statistics for methods that need class means alone."""
        if not self.operator.passes:
            self.operator.apply([])
        others = self._others()
        basis = orthonormal(unit_columns(others), others[:, :0])
        r, n_classes = basis.shape[1], len(self.operator.rows.census.sizes)
        nothing = np.empty((len(basis), 0))
        outside = np.empty((0, r))
        approximation = Approximation(self.solver.kind, self.operator.passes, 0.0, outside, nothing, [], self.seed)
        return self._in_basis(basis, np.empty((0, r, r)), np.empty((0, n_classes)), approximation)

    def _others(self) -> NDArray[np.float64]:
        """Return differences of class means, and medians, from the mean: shape (d, m), in scaled columns."""
        mean, scale = self.operator.mean, self.operator.scale
        rows = np.concatenate([self.operator.means - mean, *(rows - mean for rows in self.medians.values())])
        return (rows if scale is None else rows / scale).T

    def _weights(self, weighting: ClassWeighting) -> NDArray[np.float64]:
        return weighting.weights(self.operator.rows.census.counts)

    def _of(self, weighting: ClassWeighting, group: BlockIteration) -> SubspaceStatistics:
        """Return the statistics in a group's basis."""
        weights = self._weights(weighting)
        projected, approximation = group.approximation(self.operator.passes, self.operator.trace(weights))
        return self._in_basis(projected.basis, projected.inside[None], weights[None], approximation)

    def _in_basis(
        self, basis: NDArray, scatters: NDArray[np.float64], weights: NDArray[np.float64], approximation: Approximation
    ) -> SubspaceStatistics:
        census, mean, scale = self.operator.rows.census, self.operator.mean, self.operator.scale
        varies = self.operator.squares.any(axis=0) | (self.operator.means != mean).any(axis=0)
        basis[~varies] = 0  # else rounding errors

        def along(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            return products(basis, ((rows - mean) if scale is None else (rows - mean) / scale).T).T

        return SubspaceStatistics(
            moments=ClassMoments(
                census.classes, census.counts, census.sizes, along(self.operator.means), scatters, weights
            ),
            medians={pairing: along(rows) for pairing, rows in self.medians.items()},
            mean=mean,
            scale=scale,
            precision=self.precision,
            basis=basis,
            approximation=approximation,
            subtracted=self.operator.subtracted,
        )
