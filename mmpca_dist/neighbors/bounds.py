"""Lower bounds on distances to the rows of a cell: the proof behind every pruned cell."""

# mypy: disable-error-code="assignment"
# (compiled code gives its integers other types than mypy does)

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.neighbors.jit import N, compiled, reordered

U = 2.0**-24
OWN_SHARE = 0.7
"""An approximate search visits a cell whose centre's squared distance from the query, less this share of that of the
query's own centre, is at most `Rules.effort` times the smallest squared distance known. Of the rules that were tried
on clusters that overlap and on MNIST, this one compares fewest pairs for the same recall."""


class Rules(NamedTuple):
    """What decides whether a cell is visited.

    Attributes
    ----------
    width : int
        Coordinates of the products.
    frame_error : float
        What double precision may add to distances of coordinates.
    effort : float
        How far to look, see `OWN_SHARE`; infinite: nothing is left out without proof.
    """

    width: int
    frame_error: float
    effort: float


class Groups(NamedTuple):
    """Queries by cell.

    Attributes
    ----------
    starts : int array of shape (g + 1,)
        Where the queries of each cell begin.
    radii : array of shape (g,)
        Largest distance of a query from the centre of its cell.
    codes : int array of shape (n,)
    allowances : array of shape (n,)
        `OWN_SHARE` of the squared distance of every query from the centre of its cell.
    """

    starts: NDArray[np.int64]
    radii: NDArray[np.float64]
    codes: NDArray[np.int64]
    allowances: NDArray[np.float64]


class Targets(NamedTuple):
    """Cells that may be visited.

    Attributes
    ----------
    between : array of shape (g, cells)
        Distances of the centres of the queries' cells to theirs.
    radii : array of shape (cells,)
    others : bool array of shape (cells, C)
        Whether a cell holds rows of other classes than each.
    """

    between: NDArray[np.float32]
    radii: NDArray[np.float64]
    others: NDArray[np.bool_]


@compiled
def cell_bound(distance: float, radius: float, own_radius: float, rules: Rules) -> float:
    """Return a lower bound on the distance of a query to any row of a cell, from that to its centre."""
    error = U * (2 * distance + 2 * own_radius + radius) + rules.frame_error
    return distance * (1 - (rules.width + 4) * U) - radius * (1 + 1e-6) - error


@compiled
def is_near(distance: float, allowance: float, reach: float, rules: Rules) -> bool:
    """Tell whether a cell is near enough to be visited with the effort made."""
    if rules.effort == np.inf or reach == np.inf:  # as long as nothing is known, everything is near
        return True
    return distance * distance - allowance <= rules.effort * reach * reach


@compiled
def _nearest_of_group(groups: Groups, targets: Targets, g: int, c: int) -> float:
    return max(targets.between[g, c] * (1 - 2 * U) - groups.radii[g] * (1 + 1e-6), 0.0)


@compiled
def near_cells(groups: Groups, targets: Targets, reach: Any, rules: Rules) -> Any:
    """Tell which cells some query of a group may want, from the distances of centres alone: bool, shape (g, cells).

    ``reach`` (n,) is the largest distance of interest of every query, in units of the frame.
    """
    n_groups, n_cells = targets.between.shape
    near = np.zeros((n_groups, n_cells), np.bool_)
    for g in range(n_groups):
        farthest = allowance = 0.0
        for i in range(groups.starts[g], groups.starts[g + 1]):
            farthest, allowance = max(farthest, reach[i]), max(allowance, groups.allowances[i])
        for c in range(n_cells):
            nearest = _nearest_of_group(groups, targets, g, c)
            bound = cell_bound(nearest, targets.radii[c], groups.radii[g], rules)
            near[g, c] = bound <= farthest and is_near(nearest, allowance, farthest, rules)
    return near


@reordered
def _square_of_sum(w: Any, i: int, shift: Any) -> Any:
    total = np.float32(0)
    for k in range(N(w.shape[1])):
        value = w[N(i), k] + shift[k]
        total += value * value
    return total


@compiled
def centre_distances(z: Any, starts: Any, own_centres: Any, centres: Any, near: Any) -> Any:
    """Return distances of queries to the centres of cells, shape (n, cells), single precision; infinite where not near.

    Parameters
    ----------
    z : float32 array of shape (n, m)
        Relative to the centres of the queries' own cells.
    starts : int array of shape (g + 1,)
    own_centres : array of shape (g, m)
    centres : array of shape (cells, m)
    near : bool array of shape (g, cells)
    """
    found = np.full((z.shape[0], centres.shape[0]), np.float32(np.inf))
    shift = np.empty(z.shape[1], np.float32)
    for g in range(len(starts) - 1):
        for c in range(centres.shape[0]):
            if near[g, c]:
                for k in range(z.shape[1]):
                    shift[k] = own_centres[g, k] - centres[c, k]
                for i in range(starts[g], starts[g + 1]):
                    found[i, c] = np.sqrt(_square_of_sum(z, i, shift))
    return found


@compiled
def wanted_cells(distances: Any, near: Any, groups: Groups, targets: Targets, reach: Any, rules: Rules) -> Any:
    """Tell which cells some query still wants to visit, bool array of shape (cells,)."""
    wanted = np.zeros(distances.shape[1], np.bool_)
    for g in range(near.shape[0]):
        for c in range(near.shape[1]):
            if wanted[c] or not near[g, c]:
                continue
            for i in range(groups.starts[g], groups.starts[g + 1]):
                if (
                    targets.others[c, groups.codes[i]]
                    and cell_bound(distances[i, c], targets.radii[c], groups.radii[g], rules) <= reach[i]
                    and is_near(distances[i, c], groups.allowances[i], reach[i], rules)
                ):
                    wanted[c] = True
                    break
    return wanted


@compiled
def leave_open(
    distances: Any, near: Any, groups: Groups, targets: Targets, left: Any, open_bounds: Any, rules: Rules
) -> None:
    """Note the lowest bound of each query on what is left out: cells of ``left`` (bool), and those not near."""
    for g in range(near.shape[0]):
        lowest = np.inf
        for c in range(near.shape[1]):
            if not near[g, c]:
                nearest = _nearest_of_group(groups, targets, g, c)
                lowest = min(lowest, cell_bound(nearest, targets.radii[c], groups.radii[g], rules))
        lowest = max(lowest, 0.0)
        for i in range(groups.starts[g], groups.starts[g + 1]):
            open_bounds[i] = min(open_bounds[i], lowest)
            for c in range(near.shape[1]):
                if left[c] and near[g, c] and targets.others[c, groups.codes[i]]:
                    bound = cell_bound(distances[i, c], targets.radii[c], groups.radii[g], rules)
                    open_bounds[i] = min(open_bounds[i], max(bound, 0.0))
