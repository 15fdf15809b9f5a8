"""Rows with continuous targets: the scatter between columns and targets, from one pass, merged exactly.

Products are double precision throughout: d x q of them a row cost no more than reading the row.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.utils import format_bytes
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.passes.units import blocks, locator, read_units
from mmpca_dist.statistics.column_units import standard_deviations
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.precision import BLOCK_ROWS, explain_not_finite, provisional_centre
from mmpca_dist.tables.dataset import Dataset, Span, make_spans


@storable
@dataclass(frozen=True)
class CrossMoments:
    """Means and scatters of n rows x with targets y, in d columns and q targets.

    Attributes
    ----------
    n_rows : int
    mean : array of shape (d,)
    target_mean : array of shape (q,)
    scatter : array of shape (d, q)
        X^T H Y: the sum of (x - mean) (y - target_mean)^T.
    squares : array of shape (d,)
        Sums of (x - mean)^2.
    target_squares : array of shape (q,)
        Sums of (y - target_mean)^2.
    rows : array of shape (d, d) or None
        X^T H X: the sum of (x - mean) (x - mean)^T, where it was asked for.
    """

    n_rows: int
    mean: NDArray[np.float64]
    target_mean: NDArray[np.float64]
    scatter: NDArray[np.float64]
    squares: NDArray[np.float64]
    target_squares: NDArray[np.float64]
    rows: NDArray[np.float64] | None = None

    @property
    def scale(self) -> NDArray[np.float64]:
        """Standard deviations of the columns, 1 for constant ones, shape (d,)."""
        return standard_deviations(self.squares / self.n_rows, self.mean)

    def merge(self, other: CrossMoments) -> CrossMoments:
        """Return the moments of both sets of rows together; exact.

        Raises
        ------
        InputError
            Where they differ in columns or targets.
        """
        if self.scatter.shape != other.scatter.shape:
            raise InputError(
                f"Moments of {self.scatter.shape[0]} columns and {self.scatter.shape[1]} targets do not merge with "
                f"those of {other.scatter.shape[0]} columns and {other.scatter.shape[1]} targets."
            )
        n_rows = self.n_rows + other.n_rows
        share = other.n_rows / n_rows
        between = self.n_rows * share
        apart, target_apart = other.mean - self.mean, other.target_mean - self.target_mean
        return CrossMoments(
            n_rows,
            self.mean + share * apart,
            self.target_mean + share * target_apart,
            self.scatter + other.scatter + between * np.outer(apart, target_apart),
            self.squares + other.squares + between * apart**2,
            self.target_squares + other.target_squares + between * target_apart**2,
            None
            if self.rows is None or other.rows is None
            else self.rows + other.rows + between * np.outer(apart, apart),
        )

    def as_one_class(self) -> ClassMoments:
        """Return the moments of the rows without their targets, as those of a single class."""
        assert self.rows is not None  # noqa: S101  (asked for)
        classes, sizes = np.zeros(1, np.int64), np.asarray([self.n_rows])
        return ClassMoments(classes, sizes.astype(np.float64), sizes, self.mean[None], self.rows[None])

    def squared_error(self, coef: NDArray[np.float64], at_mean: NDArray[np.float64]) -> float:
        """Return the squared errors of q linear models, shape (q, d), given their outputs for the mean row."""
        assert self.rows is not None  # noqa: S101  (asked for)
        explained = 2 * np.einsum("qd,dq->q", coef, self.scatter) - np.einsum("qd,de,qe->q", coef, self.rows, coef)
        return float(np.sum(self.target_squares - explained + self.n_rows * (self.target_mean - at_mean) ** 2))


def target_units(dataset: Any, spans: Sequence[Span], tasks: Tasks) -> tuple[tuple[float, float], ...]:
    """Return the mean and the standard deviation, 1 where it is 0, of each target of a data set with ``read_targets``.

    Targets that are NaN are left out.

    Raises
    ------
    InputError
        For targets that are infinite, and where none is known.
    """
    counts, means, squares = tasks.run(_MeasureTargets(dataset), spans, _merged_targets, "targets")
    if not counts.all():
        raise InputError("All values of a target are NaN, so that none is known: there is nothing to learn.")
    deviations = standard_deviations(squares / counts, means)
    return tuple(zip(means.tolist(), deviations.tolist(), strict=True))


@dataclass(frozen=True)
class _MeasureTargets:
    dataset: Any
    labels_only = True

    def __call__(self, span: Span) -> tuple[NDArray, NDArray, NDArray]:
        targets = self.dataset.read_targets(span.start, span.stop)
        if np.isinf(targets).any():
            row = int(np.argwhere(np.isinf(targets))[0, 0])
            raise InputError(f"The target of row {span.start + row} is infinite; targets must be finite, or NaN.")
        is_known = ~np.isnan(targets)
        counts = is_known.sum(axis=0)
        means = np.where(is_known, targets, 0.0).sum(axis=0) / np.maximum(counts, 1)
        return counts, means, np.where(is_known, (targets - means) ** 2, 0.0).sum(axis=0)


def _merged_targets(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, NDArray, NDArray]:
    total = left[0] + right[0]
    share, apart = right[0] / np.maximum(total, 1), right[1] - left[1]
    return total, left[1] + share * apart, left[2] + right[2] + left[0] * share * apart**2


def cross_moments(dataset: Dataset, scheduler: Scheduler, *, with_rows: bool = False) -> CrossMoments:
    """Return the moments of a data set that has ``read_targets``, from one pass; the bits are those of its chunks.

    ``with_rows`` asks for the d x d scatter of the rows too.

    Raises
    ------
    InputError
        For rows or targets that are not finite, or a scatter beyond 1 GiB.
    """
    if with_rows:
        _refuse_wide(dataset.n_features, 1)
    (moments,) = _cross_folds(dataset, scheduler, with_rows, 1)
    return moments


def cross_moments_by_fold(dataset: Dataset, scheduler: Scheduler, n_folds: int) -> list[CrossMoments]:
    """Return the moments of each fold, with the scatters of its rows, from one pass: row i is of fold i modulo F.

    Raises as `cross_moments` does, for all F scatters together.
    """
    _refuse_wide(dataset.n_features, n_folds)
    return list(_cross_folds(dataset, scheduler, True, n_folds))


def training_folds(folds: Sequence[CrossMoments]) -> Iterator[tuple[CrossMoments, CrossMoments]]:
    """Yield the moments of each fold, and those of all others."""
    for number, held_out in enumerate(folds):
        yield held_out, functools.reduce(CrossMoments.merge, [*folds[:number], *folds[number + 1 :]])


def _refuse_wide(d: int, n_scatters: int) -> None:
    size = 8 * n_scatters * d**2
    if size > LIMITS.target_scatter_bytes:
        what = "a scatter" if n_scatters == 1 else f"{n_scatters} scatters"
        raise InputError(
            f"Continuous targets of {d:,} columns take {what} of {format_bytes(size)} here, and "
            f"{format_bytes(LIMITS.target_scatter_bytes)} is the most. Choose fewer columns."
        )


Parts = tuple[CrossMoments | None, ...]
"""The moments of each fold; None for one without rows."""


def _cross_folds(dataset: Dataset, scheduler: Scheduler, with_rows: bool, n_folds: int) -> tuple[CrossMoments, ...]:
    task = _ReadCross(dataset, with_rows, n_folds)
    parts = Tasks(scheduler=scheduler).run(task, make_spans(dataset), _merged_parts, "cross")
    return tuple(part for part in parts if part is not None)


def _merged_parts(left: Parts, right: Parts) -> Parts:
    pairs = zip(left, right, strict=True)
    return tuple(a.merge(b) if a is not None and b is not None else a or b for a, b in pairs)


@dataclass(frozen=True)
class _ReadCross:
    """The task: the moments of each fold."""

    dataset: Any
    with_rows: bool
    n_folds: int

    def __call__(self, span: Span) -> Parts:
        return functools.reduce(_merged_parts, (self._unit(start, X) for start, X in read_units(self.dataset, span)))

    def _unit(self, first: int, X: NDArray) -> Parts:
        Y = self.dataset.read_targets(first, first + len(X))
        offsets = [(fold - first) % self.n_folds for fold in range(self.n_folds)]
        return tuple(
            self._moments(first + at, X[at :: self.n_folds], Y[at :: self.n_folds]) if at < len(X) else None
            for at in offsets
        )

    def _moments(self, first: int, X: NDArray, Y: NDArray[np.float64]) -> CrossMoments:
        """Return the moments of every F-th row from ``first`` about their exact means, from products about a
        provisional centre.
        """
        (n, d), q = X.shape, Y.shape[1]
        centre, target_centre = provisional_centre(X), provisional_centre(Y)
        total, target_total = np.zeros(d), np.zeros(q)
        scatter, squares, target_squares = np.zeros((d, q)), np.zeros(d), np.zeros(q)
        panel, products = np.empty((min(n, BLOCK_ROWS), d)), np.zeros((d, d)) if self.with_rows else None
        with np.errstate(invalid="ignore", over="ignore"):
            for block in blocks(n, BLOCK_ROWS):
                x = np.subtract(X[block], centre, out=panel[: block.stop - block.start])
                y = Y[block] - target_centre
                total += x.sum(axis=0)
                target_total += y.sum(axis=0)
                scatter += x.T @ y
                if products is not None:
                    products += x.T @ x
                squares += np.einsum("ij,ij->j", x, x)
                target_squares += np.einsum("ij,ij->j", y, y)
            _refuse_bad_targets(Y, target_squares, first + np.arange(n) * self.n_folds)
            if not (np.isfinite(squares).all() and np.isfinite(scatter).all()):
                locate = locator(self.dataset, first)
                raise InputError(
                    explain_not_finite(
                        X, np.arange(n), panel.dtype, lambda row, *where: locate(row * self.n_folds, *where)
                    )
                )
        return CrossMoments(
            n,
            centre + total / n,
            target_centre + target_total / n,
            scatter - np.outer(total, target_total / n),
            np.maximum(squares - total**2 / n, 0),
            np.maximum(target_squares - target_total**2 / n, 0),
            None if products is None else products - np.outer(total, total / n),
        )


def _refuse_bad_targets(Y: NDArray[np.float64], squares: NDArray[np.float64], numbers: NDArray) -> None:
    if np.isfinite(squares).all():
        return
    bad = np.argwhere(~np.isfinite(Y))
    if not len(bad):
        raise InputError("The targets hold values whose squares are too large even for double precision; scale them.")
    row, column = bad[0]
    raise InputError(
        f"Found {Y[row, column]} in row {numbers[row]} of the targets, column {column}. Targets must be finite: fill "
        "or drop such rows."
    )
