"""Bounds that discard rows, compiled: of distances to cells and candidates; and the distance that decides.

``docs/proofs.md`` derives the bounds; `kernels` lists the rounding that they allow for.
"""

# mypy: disable-error-code="assignment"
# (compiled code gives its integers other types than mypy does)

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.jit import N, compiled, reordered

U = 2.0**-24
OWN_SHARE = 0.7
"""An approximate search visits a cell whose centre's squared distance from the query, less this share of that of the
query's own centre, is at most `Rules.effort` times the squared distance of its best candidate. Among rules that were
tried on clusters that overlap and on MNIST, this one compares fewest pairs for the same recall."""


class Rules(NamedTuple):
    """Rules that decide whether a cell is visited."""

    width: int  # coordinates of the products
    frame_error: float  # what double precision may add to distances of coordinates
    effort: float  # how far to look, see `OWN_SHARE`; infinite: nothing is left out without proof


class QueryBatch(NamedTuple):
    """Queries by cell."""

    z: NDArray[np.float32]  # (n, m): coordinates, relative to the centres of their cells
    tail: NDArray[np.float32]  # (n, m'): those of the second bound; may have no columns
    x: NDArray  # (n, d)
    codes: NDArray[np.int64]  # (n,): their classes
    allowances: NDArray[np.float64]  # (n,): `OWN_SHARE` of their squared distances from the centres
    starts: NDArray[np.int64]  # (g + 1,): where the queries of each cell begin
    blocks: NDArray[np.int64]  # (b, 4): stretches of queries: cell, start, stop, and their class, or -1 for several
    centres: NDArray[np.float32]  # of their cells; a radius is the largest distance of a query from the centre
    tail_centres: NDArray[np.float32]
    radii: NDArray[np.float64]
    tail_radii: NDArray[np.float64]


class CandidateCells(NamedTuple):
    """Cells that may be visited."""

    between: NDArray[np.float32]  # (g, cells): distances of the centres of the queries' cells to theirs
    radii: NDArray[np.float64]  # (cells,)
    others: NDArray[np.bool_]  # (cells, C): whether a cell holds rows of other classes than each


@compiled
def cell_bound(distance: float, radius: float, own_radius: float, rules: Rules) -> float:
    """Return a lower bound on the distance of a query to any row of a cell, from that to its centre."""
    error = U * (2 * distance + 2 * own_radius + radius) + rules.frame_error
    return distance * (1 - (rules.width + 4) * U) - radius * (1 + 1e-6) - error


@compiled
def is_near(distance: float, allowance: float, reach: float, rules: Rules) -> bool:
    """Tell whether a cell is near enough to be visited with the effort made."""
    if rules.effort == np.inf or reach == np.inf:  # as long as there is no candidate, everything is near
        return True
    return distance * distance - allowance <= rules.effort * reach * reach


@compiled
def _nearest_of_group(queried: QueryBatch, targets: CandidateCells, g: int, c: int) -> float:
    return max(targets.between[g, c] * (1 - 2 * U) - queried.radii[g] * (1 + 1e-6), 0.0)


@compiled
def near_cells(queried: QueryBatch, targets: CandidateCells, reach: Any, rules: Rules) -> Any:
    """Tell which cells some query of a group may visit, from the distances of centres alone: bool, shape (g, cells).

    ``reach`` (n,) is the largest distance of interest of every query, in units of the frame.
    """
    n_groups, n_cells = targets.between.shape
    near = np.zeros((n_groups, n_cells), np.bool_)
    for g in range(n_groups):
        farthest = allowance = 0.0
        for i in range(queried.starts[g], queried.starts[g + 1]):
            farthest, allowance = max(farthest, reach[i]), max(allowance, queried.allowances[i])
        for c in range(n_cells):
            nearest = _nearest_of_group(queried, targets, g, c)
            bound = cell_bound(nearest, targets.radii[c], queried.radii[g], rules)
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
def centre_distances(queried: QueryBatch, centres: Any, near: Any) -> Any:
    """Return distances of queries to the centres of cells, shape (n, cells), single precision; infinite where not near.

    ``near`` (g, cells) is that of `near_cells`, ``centres`` have shape (cells, m).
    """
    z, starts = queried.z, queried.starts
    distances = np.full((z.shape[0], centres.shape[0]), np.float32(np.inf))
    shift = np.empty(z.shape[1], np.float32)
    for g in range(len(starts) - 1):
        for c in range(centres.shape[0]):
            if near[g, c]:
                for k in range(z.shape[1]):
                    shift[k] = queried.centres[g, k] - centres[c, k]
                for i in range(starts[g], starts[g + 1]):
                    distances[i, c] = np.sqrt(_square_of_sum(z, i, shift))
    return distances


@compiled
def cells_to_visit(
    distances: Any, near: Any, queried: QueryBatch, targets: CandidateCells, reach: Any, rules: Rules
) -> Any:
    """Tell which cells some query must still visit, bool array of shape (cells,)."""
    visited = np.zeros(distances.shape[1], np.bool_)
    for g in range(near.shape[0]):
        for c in range(near.shape[1]):
            if visited[c] or not near[g, c]:
                continue
            for i in range(queried.starts[g], queried.starts[g + 1]):
                if (
                    targets.others[c, queried.codes[i]]
                    and cell_bound(distances[i, c], targets.radii[c], queried.radii[g], rules) <= reach[i]
                    and is_near(distances[i, c], queried.allowances[i], reach[i], rules)
                ):
                    visited[c] = True
                    break
    return visited


@compiled
def leave_open(
    distances: Any, near: Any, queried: QueryBatch, targets: CandidateCells, left: Any, open_bounds: Any, rules: Rules
) -> None:
    """Note the lowest bound of each query on what is left out: cells of ``left`` (bool), and those not near."""
    for g in range(near.shape[0]):
        lowest = np.inf
        for c in range(near.shape[1]):
            if not near[g, c]:
                nearest = _nearest_of_group(queried, targets, g, c)
                lowest = min(lowest, cell_bound(nearest, targets.radii[c], queried.radii[g], rules))
        lowest = max(lowest, 0.0)
        for i in range(queried.starts[g], queried.starts[g + 1]):
            open_bounds[i] = min(open_bounds[i], lowest)
            for c in range(near.shape[1]):
                if left[c] and near[g, c] and targets.others[c, queried.codes[i]]:
                    bound = cell_bound(distances[i, c], targets.radii[c], queried.radii[g], rules)
                    open_bounds[i] = min(open_bounds[i], max(bound, 0.0))


# ------------------------------------------------------------------------------------------------- candidates

TINY = 1e-36
"""Added to squared bounds: products of coordinates below 1e-18 may vanish in single precision."""
LOST = 1e-300
"""Added to squared distances before roots are taken: small squares lose digits, or vanish."""
SMALLEST_NORMAL = float(np.finfo(np.float64).smallest_normal)
"""A squared distance of at least d times this is as exact as if nothing had vanished: each of d squares that is
subnormal or zero loses at most 2^-1075, all together 2^-53 of the sum. Among rows nearer than that, only equal ones are
accepted."""
LEVEL = 32
"""Coordinates that the second bound takes at once."""
STEP = 64
"""Columns between two looks whether a distance is too large already."""


class Metric(NamedTuple):
    """How a squared distance becomes an upper bound in units of the frame.

    ``scale`` brings lengths to the frame's, ``relative`` is their rounding. ``apart`` is zero, or the number of slots
    that queries have, twice: slot s + apart is then for the nearest row that is in another part than the row of slot s.
    """

    scale: float
    relative: float
    one_vs_one: bool
    apart: int


@compiled
def squared_distance(a: Any, i: int, b: Any, x: int, limit: float, buffer: Any) -> float:
    """Return the float64 sum of squared differences of row i of ``a`` and row x of ``b``; infinity beyond ``limit``.

    The order is fixed: eight running sums, column j to sum j mod 8; then ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)),
    and last the columns beyond the last multiple of eight, a sum of their own. Partial sums never exceed the
    total, for rounding is monotone: giving up early changes nothing. ``buffer`` has room for `STEP` numbers.
    """
    i, x, d = N(i), N(x), N(a.shape[1])
    n_even = d - d % N(8)
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    j = N(0)
    while j < n_even:
        stop = min(n_even, j + N(STEP))
        for k in range(j, stop):
            difference = np.float64(a[i, k]) - np.float64(b[x, k])
            buffer[k - j] = difference * difference
        k, length = N(0), stop - j
        while k < length:
            s0 += buffer[k]
            s1 += buffer[k + N(1)]
            s2 += buffer[k + N(2)]
            s3 += buffer[k + N(3)]
            s4 += buffer[k + N(4)]
            s5 += buffer[k + N(5)]
            s6 += buffer[k + N(6)]
            s7 += buffer[k + N(7)]
            k += N(8)
        if ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)) > limit:
            return np.inf
        j = stop
    rest = 0.0
    for k in range(n_even, d):
        difference = np.float64(a[i, k]) - np.float64(b[x, k])
        rest += difference * difference
    return (((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))) + rest


@compiled
def _are_equal(a: Any, i: int, b: Any, x: int) -> bool:
    """Tell whether row i of ``a`` and row x of ``b`` are equal in all columns."""
    i, x = N(i), N(x)
    for k in range(N(a.shape[1])):  # noqa: SIM110  (compiled)
        if np.float64(a[i, k]) != np.float64(b[x, k]):
            return False
    return True


@reordered
def _squared_difference(q: Any, i: int, shift: Any, z: Any, x: int, start: int, stop: int) -> Any:
    total = np.float32(0)
    for k in range(N(start), N(stop)):
        difference = (q[N(i), k] + shift[k]) - z[N(x), k]
        total += difference * difference
    return total


@compiled
def refine(
    hits: Any, n_hits: int, i: int, slot: int, q_tail: Any, tail_shift: Any, q_x: Any,
    c_tail: Any, c_x: Any, c_rows: Any, c_parts: Any, tail_error: float, first_position: int,
    best: Any, best_rows: Any, best_positions: Any, best_parts: Any, counters: Any, buffer: Any, metric: Metric,
) -> None:  # fmt: skip
    """Take candidates that the product did not discard through the second bound and the distance itself."""
    m_tail, last = q_tail.shape[1], slot + metric.apart
    nearest, row, position = best[i, last], best_rows[i, last], best_positions[i, last]
    limit = _limit(nearest, tail_error, m_tail, metric)
    for h in range(n_hits):
        x = hits[h]
        if nearest == 0 and c_rows[x] >= row:
            continue
        if m_tail > 0:
            partial = np.float32(0)
            k = 0
            while k < m_tail and partial <= limit:
                end = min(m_tail, k + LEVEL)
                partial += _squared_difference(q_tail, i, tail_shift, c_tail, x, k, end)
                k = end
            if partial > limit:
                continue
        counters[3] += 1
        squared = squared_distance(q_x, i, c_x, x, nearest, buffer)
        if squared < nearest or (squared == nearest and c_rows[x] < row):
            if squared < SMALLEST_NORMAL * q_x.shape[1] and not _are_equal(q_x, i, c_x, x):
                counters[4], counters[5] = i, c_rows[x]
            if metric.apart == 0:
                nearest, row, position = squared, c_rows[x], first_position + x
            else:
                _place_apart(
                    squared, c_rows[x], first_position + x, c_parts[x], i, slot, last,
                    best, best_rows, best_positions, best_parts,
                )  # fmt: skip
                nearest, row, position = best[i, last], best_rows[i, last], best_positions[i, last]
            limit = _limit(nearest, tail_error, m_tail, metric)
    best[i, last], best_rows[i, last], best_positions[i, last] = nearest, row, position


@compiled
def _place_apart(
    squared: float, row: int, position: int, part: int, i: int, slot: int, last: int,
    best: Any, best_rows: Any, best_positions: Any, best_parts: Any,
) -> None:  # fmt: skip
    """Keep a row that is nearer than what ``last`` holds: the nearest in ``slot``, that of another part in ``last``."""
    nearer = squared < best[i, slot] or (squared == best[i, slot] and row < best_rows[i, slot])
    same = part == best_parts[i, slot]
    if nearer and not same:
        best[i, last], best_rows[i, last] = best[i, slot], best_rows[i, slot]
        best_positions[i, last] = best_positions[i, slot]
    if nearer:
        best[i, slot], best_rows[i, slot], best_positions[i, slot], best_parts[i, slot] = squared, row, position, part
    elif not same:
        best[i, last], best_rows[i, last], best_positions[i, last] = squared, row, position


@compiled
def _limit(best: float, error: float, m: int, metric: Metric) -> Any:
    """Return what the partial sums of the second bound may not exceed."""
    reach = (np.sqrt(best + LOST) * metric.scale * (1 + metric.relative) + error) * (1 + (m + 8) * U)
    return np.float32(reach * reach * (1 + 4 * U) + TINY)
