"""The one-standard-error rule for the number of components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmpca_dist.finite import or_infinite
from mmpca_dist.limits import COMPONENT_COUNTS

if TYPE_CHECKING:  # the configuration takes the candidates from here, and is to be imported quickly
    from mmpca_dist.evaluation.tables import Cell

RULE = (
    "the fewest components whose mean error over the folds is at most one standard error above the lowest mean, the "
    "standard error being that of the lowest, corrected for folds that share the rows that train (Nadeau & Bengio "
    "2003): its standard deviation over the folds (ddof 1), times the root of 1 / folds + rows held out / rows that "
    "train"
)


def candidates(limit: int) -> list[int]:
    """Return the numbers of components to try where there are at most so many: at least one."""
    return [size for size in COMPONENT_COUNTS if size <= max(limit, 1)]


def fewest_training(n_rows: int, folds: int) -> int:
    """Return how many rows train while the largest of stratified folds is held out."""
    return n_rows - math.ceil(n_rows / folds)


def lowest(cells: Sequence[Cell]) -> Cell:
    """Return the cell of the lowest mean; of equal means the one with the fewest components, then the first."""
    least = min(cells, key=lambda cell: float(or_infinite(cell.summary.mean)))
    return min((cell for cell in cells if alike(cell, least)), key=lambda cell: cell.used)


def alike(first: Cell, second: Cell) -> bool:
    """Return whether two means are equal up to rounding: those of the same counts in another order may differ by it."""
    return _at_most(first.summary.mean, second.summary.mean) and _at_most(second.summary.mean, first.summary.mean)


def near_lowest(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells whose mean is within one corrected standard error of the lowest; of one split, the lowest."""
    best = lowest(cells)
    limit = best.summary.mean + best.summary.corrected_standard_error
    return [cell for cell in cells if _at_most(cell.summary.mean, limit)] or [best]


def one_standard_error(cells: Sequence[Cell]) -> Cell:
    """Return the cell that the one-standard-error rule takes, of those of one method under one classifier.

    It has the fewest components of those whose mean is at most one corrected standard error of the lowest mean above
    it; where several numbers that were asked for come to the same, it is the smallest.

    Source: Breiman, Friedman, Olshen & Stone 1984, section 3.4.3; the standard error of Nadeau & Bengio 2003.
    """
    return min(near_lowest(cells), key=lambda cell: (cell.used, cell.n_components))


def _at_most(value: float, limit: float) -> bool:
    return value <= limit or math.isclose(value, limit, rel_tol=1e-12, abs_tol=1e-12)
