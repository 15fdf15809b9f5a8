"""All methods at all sizes, fitted to training rows, as columns of one matrix."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.errors import NoComponentsError
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.traits import Fitted
from mmpca_dist.methods.base.transform import projected
from mmpca_dist.predictors.linear import LinearRule, rule_of_scores, rule_of_shares
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.column_units import in_units
from mmpca_dist.statistics.working_statistics import Statistics


@dataclass(frozen=True)
class Reduction:
    """A method at a size."""

    method: str
    n_components: float
    """Asked for, or the share asked for."""
    columns: NDArray[np.intp]
    """Shape (K,): where its components are among the reduced rows of all; fewer than asked for where the method has no
    more."""
    moments: Callable[[], ReducedMoments] | None
    """Returns the moments of the rows that train, reduced by it; None where only the rows tell them."""
    used: int
    """Components that there are."""
    own: LinearRule | None = None
    """Its own classifier of its reduced rows, where it has one; without components that of the largest class."""
    converged: bool = True
    """Whether its passes ended within the tolerance of the method."""
    at_edge: bool = False
    """Whether a choice among values ended on an edge of what was tried."""
    cautions: Sequence[str] = ()
    """The reasons why its components are poor."""
    sizes: tuple[float, ...] = ()
    """All numbers asked for, of a method that reduces nothing: it is scored once for all of them."""


@dataclass(frozen=True)
class Reductions:
    """All methods at all sizes: rows x become A^T x, or A^T (x - mean), less an offset."""

    matrix: NDArray[np.float64]
    """A, of shape (d, M); what methods and sizes share is in it once."""
    mean: NDArray[np.float64] | None
    """Shape (d,)."""
    items: list[Reduction]
    scale: NDArray[np.float64] | None = None
    """Shape (d,): standard deviations of the rows that train, where reductions are of standardised columns; A is
    divided by them."""
    offset: NDArray[np.float64] | None = None
    """Shape (M,); None for zeros."""
    adjustment: Adjustment | None = None
    """How widened rows come to the columns."""
    unreduced: Reductions | None = None
    """The reductions that reduce nothing, whose columns come behind the M. Products are apart: BLAS rounds other shapes
    differently, and the bits of other methods must not depend on it."""

    def directions(self, item: Reduction) -> NDArray[np.float64]:
        """Return the columns of A that are an item's, shape (d, K)."""
        if item.sizes and self.unreduced is not None:
            return self.unreduced.matrix[:, item.columns - self.matrix.shape[1]]
        return self.matrix[:, item.columns]

    def in_columns(self, X: Any) -> Any:
        """Return rows, widened or not, in the columns, shape (n, d)."""
        return X if self.adjustment is None else self.adjustment.rows(X)

    def reduced(self, X: Any) -> NDArray[np.float64]:
        """Return rows, dense or CSR, reduced by all methods, shape (n, M)."""
        if self.unreduced is not None:
            return np.hstack([replace(self, unreduced=None).reduced(X), self.unreduced.reduced(X)])
        if self.adjustment is None or not issparse(X):
            return projected(self.in_columns(X), self.matrix, self.mean, np.dtype(np.float64), self.offset)
        d = len(self.matrix)  # sparse rows stay so
        Z = projected(X[:, :d], self.matrix, self.mean, np.dtype(np.float64), self.offset)
        covariates = X[:, d : d + len(self.adjustment.slopes)].toarray()
        return Z - self.adjustment.explained(covariates, self.matrix)

    def only(self, columns: NDArray[np.intp]) -> Reductions:
        """Return the reduction to some of the columns alone, whatever methods they are of."""
        width = self.matrix.shape[1]
        own, behind = columns[columns < width], columns[columns >= width] - width
        offset = None if self.offset is None else self.offset[own]
        unreduced = self.unreduced.only(behind) if self.unreduced is not None and len(behind) else None
        return replace(self, matrix=self.matrix[:, own], items=[], offset=offset, unreduced=unreduced)

    def standardized(self, X: Any) -> Any:
        """Return rows in the columns that reductions are of."""
        X = self.in_columns(X)
        return X if self.scale is None or self.mean is None else in_units(X, self.mean, self.scale)

    def without_moments(self) -> Reductions:
        """Return a copy without class moments, to free memory."""
        return replace(self, items=[replace(item, moments=None) for item in self.items])


@dataclass
class _Stack:
    """Columns side by side; columns that are stored already are reused."""

    blocks: list[NDArray[np.float64]] = field(default_factory=list)
    width: int = 0

    def add(self, block: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return where the columns are: among the first of the block that came last, or behind it."""
        k = block.shape[1]
        if self.blocks and k <= self.blocks[-1].shape[1] and np.array_equal(self.blocks[-1][:, :k], block):
            start = self.width - self.blocks[-1].shape[1]
        else:
            start = self.width
            self.blocks.append(block)
            self.width += k
        return np.arange(start, start + k)


def fit_reductions(statistics: Statistics, request: EvaluationRequest, meter: Meter) -> Reductions:
    """Fit all methods of an evaluation at all its sizes.

    ``statistics`` are of the rows that train. Each method is charged with its solution. A method that finds no
    component has none of any size, and its reason is a caution.
    """
    labels = list(request.methods)
    unreduced = [label for label in labels if label in request.unreduced]
    reducing = [label for label in labels if label not in request.unreduced]
    first = _fitted(reducing or unreduced, statistics, request, meter)
    if not reducing or not unreduced:
        return first
    behind = _fitted(unreduced, statistics, request, meter)
    width = first.matrix.shape[1]
    items = first.items + [replace(item, columns=item.columns + width) for item in behind.items]
    items.sort(key=lambda item: labels.index(item.method))
    return replace(first, items=items, unreduced=replace(behind, items=[]))


def _fitted(labels: Sequence[str], statistics: Statistics, request: EvaluationRequest, meter: Meter) -> Reductions:
    """Return methods that share their products; one that reduces nothing is fitted for the largest size alone."""
    stack, items = _Stack(), []
    means: list[tuple[NDArray[np.intp], NDArray[np.float64] | None, Any]] = []
    exact = tell_reduced(statistics, request.class_weight is not None, request.classifiers.each_scatter)
    for label in labels:
        kept = label in request.unreduced
        wanted, sizes = (request.sizes[-1:], tuple(request.sizes)) if kept else (request.sizes, ())
        with meter.charging(label):
            try:
                fits = list(_sizes(partial(request.reducer, label), statistics, wanted))
            except NoComponentsError as error:
                items += [_without_components(label, size, sizes, statistics, error) for size in wanted]
                continue
            for size, reducer in fits:
                fitted, (matrix, mean, offset) = reducer.fitted(), reducer.projection()
                columns = stack.add(matrix)
                moments = partial(moments_by, statistics.unweighted, reducer) if exact and offset is None else None
                items.append(
                    Reduction(
                        label, size, columns, moments, fitted.used, _own_rule(reducer, fitted),
                        not fitted.unconverged, bool(fitted.edges), list(fitted.cautions), sizes,
                    )
                )  # fmt: skip
                means.append((columns, mean, offset))
    matrix = np.concatenate(stack.blocks or [np.zeros((statistics.n_features, 0))], axis=1)
    # The mean that all methods subtract, or offsets of those that do.
    shared = None if not means or any(mean is None for _, mean, _ in means) else means[0][1]
    offsets = np.zeros(matrix.shape[1])
    for columns, mean, offset in means:
        offsets[columns] = 0 if offset is None else offset
        if shared is None and mean is not None:
            offsets[columns] += mean @ matrix[:, columns]
    some = offsets if offsets.any() else None
    return Reductions(matrix, shared, items, statistics.scale, some, statistics.adjustment)


def tell_reduced(statistics: Statistics, weighted: bool, each_scatter: bool = False) -> bool:
    """Tell whether statistics tell the moments of reduced rows."""
    # Weights of classes cannot be undone in a basis. In few columns the scatter of each class may fit.
    exact = statistics.approximation is None and (statistics.basis is None or not weighted)
    return exact and not (statistics.moments.pooled and (each_scatter or weighted))


def _sizes(
    make: Callable[[float], MomentReducer], statistics: Statistics, sizes: Sequence[float]
) -> Iterator[tuple[float, MomentReducer]]:
    """Yield sizes asked for with the fitted reducer of each, the largest first."""
    largest: MomentReducer | None = None
    for size in sorted(sizes, reverse=True):
        if largest is None or not largest.traits.nested:
            largest = make(size).fit_statistics(statistics, at_most=True)
            yield size, largest
            continue
        reducer = copy.copy(largest)
        reducer.shorten(largest.count_of(size))
        yield size, reducer


def _without_components(
    label: str, size: float, sizes: tuple[float, ...], statistics: Statistics, error: NoComponentsError
) -> Reduction:
    own = None if statistics.moments.targets is not None else rule_of_shares(statistics.unweighted.moments)
    return Reduction(label, size, np.arange(0), None, 0, own, cautions=[str(error)], sizes=sizes)


def _own_rule(reducer: MomentReducer, fitted: Fitted) -> LinearRule | None:
    if fitted.classifier is None or hasattr(reducer, "target_names_"):
        return None
    return replace(rule_of_scores(*fitted.classifier), classes=reducer.classes_)


def moments_by(statistics: Statistics, reducer: MomentReducer) -> ReducedMoments:
    """Return the moments of rows that a reducer reduces."""
    return ReducedMoments.of_statistics(statistics, reducer.gain_ * reducer.components_, center=reducer.center)
