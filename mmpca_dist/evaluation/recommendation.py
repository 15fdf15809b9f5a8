"""What an evaluation recommends: a method and a number of components, next to all columns and to the reference."""

from __future__ import annotations

from dataclasses import dataclass

from mmpca_dist.evaluation.comparisons import CorrectedTest
from mmpca_dist.evaluation.component_rule import lowest, near_lowest
from mmpca_dist.evaluation.results import Evaluation, difference_of
from mmpca_dist.evaluation.tables import Cell


@dataclass(frozen=True)
class Recommendation:
    """The cell to use, and what stands beside it."""

    use: Cell
    """Of the cells near the lowest mean (`near_lowest`) the one with the fewest components; all columns only where no
    reduction is near."""
    whole: Cell | None
    """The lowest mean of all columns; where ``use`` is that, the lowest mean of a reduction. None without either."""
    test: CorrectedTest | None
    """Whether these two differ, with Holm's correction for all tests against all columns and for this one."""
    reference: Cell | None
    """The reference with the fewest components that come near the lowest mean; if none do, at its best. None where the
    reference is recommended or reduces nothing."""
    comes_near: bool
    """Whether the reference does."""
    beyond: list[int]
    """Numbers of components to try, where the lowest mean is at the largest number that was tried; else empty."""


def recommend(evaluation: Evaluation) -> Recommendation:
    """Return what to use: the fewest components whose mean is at most one corrected standard error above the lowest."""
    cells, unreduced = evaluation.distinct, evaluation.unreduced
    near = near_lowest(cells)
    reducing = [cell for cell in near if cell.method not in unreduced]
    use = min(reducing, key=lambda cell: (cell.used, cell.summary.mean)) if reducing else lowest(near)
    others = [cell for cell in cells if (cell.method in unreduced) == bool(reducing)]
    whole = lowest(others) if others and unreduced else None
    reference = None
    comes_near = any(cell.method == evaluation.reference for cell in near)
    if evaluation.reference not in {use.method, *unreduced}:
        own = [cell for cell in near if cell.method == evaluation.reference]
        own = own or [lowest([cell for cell in cells if cell.method == evaluation.reference])]
        reference = min(own, key=lambda cell: (cell.used, cell.summary.mean))
    return Recommendation(
        use=use,
        whole=whole,
        test=None if whole is None else difference_of(evaluation, use, whole, {use.method, whole.method} & unreduced),
        reference=reference,
        comes_near=comes_near,
        beyond=_beyond(evaluation, lowest([cell for cell in cells if cell.method not in unreduced] or cells)),
    )


def _beyond(evaluation: Evaluation, best: Cell) -> list[int]:
    """Return the largest number of components that was tried and two larger ones, where that is the best one."""
    largest, most = evaluation.n_components[-1], evaluation.dataset["n_features"]
    if best.method in evaluation.unreduced or not best.used == largest < most:
        return []
    return sorted({largest, min(-(-3 * largest // 2), most), min(2 * largest, most)})
