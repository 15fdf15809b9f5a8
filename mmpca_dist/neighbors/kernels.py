"""The inner loops of the search, compiled: distances to cells, matrix products with a sweep behind them, refinement.

What may be discarded is decided in single precision, by lower bounds that stay below the true distance whatever was
rounded on the way. With u = 2^-24, for a query q and a row x of a cell with centre c and radius r (all in coordinates
of the frame, stored relative to the centre of their own cell):

* storing coordinates and bringing q to the centre c leaves the difference w - z wrong by at most
  ``e = u (2 |w| + 2 r_q + r) + (error of the frame)`` in length;
* the product form ``|w|^2 + |z|^2 - 2 w z`` of its square is wrong by at most ``(m + 8) u (|w| + r)^2``, in any
  order of summation, with or without fused operations;
* the sum of squared differences is wrong by at most its ``(m + 8) u``-fold.

Survivors are compared by the defined distance (`squared_distance`) alone.
"""

# mypy: disable-error-code="assignment"
# (compiled code gives its integers other types than mypy does)

from __future__ import annotations

from typing import Any

import numba
import numpy as np

U = 2.0**-24
TINY = 1e-36
"""Added to squared bounds: products of coordinates below 1e-18 may vanish in single precision."""
LOST = 1e-300
"""Added to squared distances before roots are taken: small squares lose digits, or vanish."""
SWEEP = 32
"""Entries of a product that are compared at once; a constant trip count is what makes the loop vectorise."""
LEVEL = 32
"""Coordinates that the second bound takes at once."""
STEP = 64
"""Columns between two looks whether a distance is too large already."""

N = np.uint64
"""Of indices in inner loops: signed ones could be negative, and slices are counted references; both cost more than
the arithmetic."""

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
reordered = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
"""Sums in any order: for bounds, never for distances."""


@compiled
def squared_distance(a: Any, i: int, b: Any, x: int, limit: float, buffer: Any) -> float:
    """Return the float64 sum of squared differences of row i of ``a`` and row x of ``b``; infinity beyond ``limit``.

    The order is fixed: eight running sums, column j to sum j mod 8; then ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)),
    and last the columns beyond the last multiple of eight, a sum of their own. Partial sums never exceed the whole
    one, for rounding is monotone: giving up early changes nothing. ``buffer`` has room for `STEP` numbers.
    """
    i, x, d = N(i), N(x), N(a.shape[1])
    whole = d - d % N(8)
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    j = N(0)
    while j < whole:
        stop = min(whole, j + N(STEP))
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
    for k in range(whole, d):
        difference = np.float64(a[i, k]) - np.float64(b[x, k])
        rest += difference * difference
    return (((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))) + rest


@reordered
def _square_of_sum(w: Any, i: int, shift: Any) -> Any:
    total = np.float32(0)
    for k in range(N(w.shape[1])):
        value = w[N(i), k] + shift[k]
        total += value * value
    return total


@reordered
def _squared_difference(q: Any, i: int, shift: Any, z: Any, x: int, start: int, stop: int) -> Any:
    total = np.float32(0)
    for k in range(N(start), N(stop)):
        difference = (q[N(i), k] + shift[k]) - z[N(x), k]
        total += difference * difference
    return total


@compiled
def _cell_bound(distance: float, radius: float, own_radius: float, m: int, frame_error: float, shrink: float) -> float:
    """Return a lower bound on the distance to any row of a cell; only proved with ``shrink`` = 1."""
    error = U * (2 * distance + 2 * own_radius + radius) + frame_error
    return distance * (1 - (m + 4) * U) - shrink * radius * (1 + 1e-6) - error


@compiled
def near_cells(
    between: Any, radii: Any, own_radii: Any, starts: Any, reach: Any, m: int, frame_error: float, shrink: float
) -> Any:
    """Tell which cells some query of a group may want, from the distances of centres alone: bool, shape (g, cells).

    Parameters
    ----------
    between : array of shape (g, cells)
        Distances of the centres of the groups' cells to those of the cells.
    radii, own_radii : arrays of shape (cells,) and (g,)
    starts : int array of shape (g + 1,)
        Where the queries of each group begin.
    reach : float array of shape (n,)
        Largest distance of interest of every query, in units of the frame.
    """
    near = np.zeros(between.shape, np.bool_)
    for g in range(between.shape[0]):
        farthest = 0.0
        for i in range(starts[g], starts[g + 1]):
            farthest = max(farthest, reach[i])
        for c in range(between.shape[1]):
            nearest = max(between[g, c] * (1 - 2 * U) - own_radii[g] * (1 + 1e-6), 0.0)
            near[g, c] = _cell_bound(nearest, radii[c], own_radii[g], m, frame_error, shrink) <= farthest
    return near


@compiled
def centre_distances(z: Any, starts: Any, own_centres: Any, centres: Any, near: Any) -> Any:
    """Return distances of queries to the centres of cells, shape (n, cells), single precision; infinite where not near.

    Parameters
    ----------
    z : float32 array of shape (n, m)
        Relative to the centres of the queries' own cells.
    starts : int array of shape (g + 1,)
        Where the queries of each of g cells begin.
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
def wanted_cells(distances: Any, near: Any, radii: Any, others: Any, starts: Any, own_radii: Any, codes: Any,
                 reach: Any, m: int, frame_error: float, shrink: float) -> Any:  # fmt: skip
    """Tell which cells some query still wants to visit, bool array of shape (cells,).

    Parameters
    ----------
    distances : array of shape (n, cells)
    others : bool array of shape (cells, C)
        Whether a cell holds rows of other classes than each.
    reach : float array of shape (n,)
        Largest distance of interest, in units of the frame.
    """
    wanted = np.zeros(distances.shape[1], np.bool_)
    for g in range(len(starts) - 1):
        for c in range(distances.shape[1]):
            if wanted[c] or not near[g, c]:
                continue
            for i in range(starts[g], starts[g + 1]):
                bound = _cell_bound(distances[i, c], radii[c], own_radii[g], m, frame_error, shrink)
                if bound <= reach[i] and others[c, codes[i]]:
                    wanted[c] = True
                    break
    return wanted


@compiled
def leave_open(distances: Any, near: Any, radii: Any, others: Any, starts: Any, own_radii: Any, codes: Any,
               between: Any, left: Any, open_bounds: Any, m: int, frame_error: float) -> None:  # fmt: skip
    """Note the lowest bound of each query on what is left out: cells of ``left`` (bool), and those not near."""
    for g in range(len(starts) - 1):
        lowest = np.inf
        for c in range(distances.shape[1]):
            if not near[g, c]:
                nearest = max(between[g, c] * (1 - 2 * U) - own_radii[g] * (1 + 1e-6), 0.0)
                lowest = min(lowest, _cell_bound(nearest, radii[c], own_radii[g], m, frame_error, 1.0))
        lowest = max(lowest, 0.0)
        for i in range(starts[g], starts[g + 1]):
            open_bounds[i] = min(open_bounds[i], lowest)
            for c in range(distances.shape[1]):
                if left[c] and near[g, c] and others[c, codes[i]]:
                    bound = _cell_bound(distances[i, c], radii[c], own_radii[g], m, frame_error, 1.0)
                    open_bounds[i] = min(open_bounds[i], max(bound, 0.0))


@compiled
def search_cells(
    q_z: Any, q_tail: Any, q_x: Any, q_codes: Any, q_starts: Any, q_blocks: Any,
    q_centres: Any, q_centres_tail: Any, q_radii: Any, q_radii_tail: Any,
    c_z: Any, c_halves: Any, c_tail: Any, c_x: Any, c_rows: Any, c_starts: Any, c_classes: Any,
    c_centres: Any, c_centres_tail: Any, c_radii: Any, c_radii_tail: Any,
    distances: Any, order: Any, first_position: int,
    best: Any, best_rows: Any, best_positions: Any, open_bounds: Any, counters: Any,
    one_vs_one: bool, shrink: float, scale: float, relative: float, frame_error: float,
) -> None:  # fmt: skip
    """Search the cells of one segment for a block of queries; what is found nearer replaces what was known.

    Queries (``q_``) and candidates (``c_``) come with coordinates ``z`` (m), those of the second level ``tail`` (may
    be none), rows ``x``, and for each of their cells where it starts, centre and radius. ``q_blocks`` (b, 4) are
    stretches of queries: cell, start, stop, and their class, or -1 for several. ``c_classes`` (cells, C + 1) says
    where each class begins. ``best``, ``best_rows``, ``best_positions`` have shape (n, slots): squared distances, row
    numbers, positions.
    """
    m, m_tail = q_z.shape[1], q_tail.shape[1]
    n_classes = c_classes.shape[1] - 1
    largest_cell, largest_block = 0, 0
    for c in range(len(c_starts) - 1):
        largest_cell = max(largest_cell, c_starts[c + 1] - c_starts[c])
    for b in range(len(q_blocks)):
        largest_block = max(largest_block, q_blocks[b, 2] - q_blocks[b, 1])
    space = np.empty(largest_block * largest_cell, np.float32)
    moved = np.empty((largest_block, m), np.float32)
    active, hits = np.empty(largest_block, np.int64), np.empty(largest_cell + 1, np.int64)
    buffer = np.empty(STEP)
    shift, shift_tail = np.empty(m, np.float32), np.empty(m_tail, np.float32)
    for b in range(len(q_blocks)):
        g, q_start, q_stop, block_class = q_blocks[b, 0], q_blocks[b, 1], q_blocks[b, 2], q_blocks[b, 3]
        for turn in range(order.shape[1]):
            c = order[g, turn]
            start, stop = c_starts[c], c_starts[c + 1]
            lo, hi = start, start  # the rows of the block's own class are no candidates
            if block_class >= 0:
                lo, hi = c_classes[c, block_class], c_classes[c, block_class + 1]
            if lo == start and hi == stop:
                continue
            for k in range(m):
                shift[k] = q_centres[g, k] - c_centres[c, k]
            for k in range(m_tail):
                shift_tail[k] = q_centres_tail[g, k] - c_centres_tail[c, k]
            n_active = 0
            for i in range(q_start, q_stop):
                own = c_classes[c, q_codes[i] + 1] - c_classes[c, q_codes[i]]
                if own == stop - start:
                    continue
                worst = 0.0
                for s in range(best.shape[1]):
                    if not one_vs_one or s != q_codes[i]:
                        worst = max(worst, best[i, s])
                reach = np.sqrt(worst + LOST) * scale * (1 + relative)
                distance = np.float64(distances[i, c])
                if distance == np.inf:
                    continue  # not near: see `near_cells`
                if _cell_bound(distance, c_radii[c], q_radii[g], m, frame_error, shrink) > reach:
                    if shrink < 1:
                        bound = _cell_bound(distance, c_radii[c], q_radii[g], m, frame_error, 1.0)
                        open_bounds[i] = min(open_bounds[i], max(bound, 0.0))
                    continue
                for k in range(N(m)):
                    moved[N(n_active), k] = q_z[N(i), k] + shift[k]
                active[n_active] = i
                n_active += 1
            if n_active == 0:
                continue
            counters[0] += n_active
            for side in range(2):
                # A block of one class faces what lies before and behind that class in the cell; others all of it.
                if block_class >= 0:
                    x_start, x_stop = (start, lo) if side == 0 else (hi, stop)
                else:
                    x_start, x_stop = (start, stop) if side == 0 else (stop, stop)
                width = x_stop - x_start
                if width == 0:
                    continue
                product = space[: n_active * width].reshape(n_active, width)
                np.dot(moved[:n_active], c_z[x_start:x_stop].T, product)
                counters[1] += n_active * width
                for a in range(n_active):
                    i = active[a]
                    length = np.float64(distances[i, c]) * (1 + (m + 4) * U)
                    nearer = np.float64(distances[i, c]) * (1 - (m + 4) * U)
                    squared = nearer * nearer  # it is taken off a threshold: never more than the true one
                    error = U * (2 * length + 2 * q_radii[g] + c_radii[c]) + frame_error
                    slack = (m + 8) * U * (length + c_radii[c]) * (length + c_radii[c]) + TINY
                    offset = a * width - x_start
                    # Stretches of candidates by the slot they compete for: each class, or what lies on either side of
                    # one's own.
                    for part in range(n_classes if one_vs_one else 2):
                        own, slot = q_codes[i], 0
                        if one_vs_one:
                            if part == own:
                                continue
                            slot, first, last = part, c_classes[c, part], c_classes[c, part + 1]
                        elif part == 0:
                            first, last = start, c_classes[c, own]
                        else:
                            first, last = c_classes[c, own + 1], stop
                        first, last = max(first, x_start), min(last, x_stop)
                        if first >= last:
                            continue
                        if best[i, slot] == 0 and best_rows[i, slot] < _lowest_row(c_rows, c_classes, c, first, last):
                            continue  # nothing is nearer, and ties go to lower rows
                        if best[i, slot] == np.inf:
                            # Begin with the candidate that seems nearest, lest all of the cell pass for near.
                            nearest, lowest = first, np.float32(np.inf)
                            for k in range(N(first), N(last)):
                                value = c_halves[k] - space[N(offset) + k]
                                if value < lowest:
                                    nearest, lowest = np.int64(k), value
                            hits[0] = nearest
                            _refine(
                                hits, 1, i, slot, q_tail, shift_tail, q_x, c_tail, c_x, c_rows, np.inf, first_position,
                                best, best_rows, best_positions, counters, buffer, scale, relative,
                            )  # fmt: skip
                        threshold = _threshold(best[i, slot], scale, relative, error, slack, squared)
                        n_hits = 0
                        j = first
                        while j < last:
                            end = min(j + SWEEP, last)
                            if end - j == SWEEP:
                                below = np.int32(0)
                                for k in range(N(SWEEP)):
                                    below += np.int32(c_halves[N(j) + k] - space[N(offset + j) + k] <= threshold)
                                if below == 0:
                                    j = end
                                    continue
                            for k in range(N(j), N(end)):
                                hits[N(n_hits)] = k
                                n_hits += np.int64(c_halves[k] - space[N(offset) + k] <= threshold)
                            j = end
                        if n_hits > 0:
                            counters[2] += n_hits
                            _refine(
                                hits, n_hits, i, slot, q_tail, shift_tail, q_x, c_tail, c_x, c_rows,
                                U * (3 * c_radii_tail[c] + 2 * q_radii_tail[g]) * 1.01 + frame_error, first_position,
                                best, best_rows, best_positions, counters, buffer, scale, relative,
                            )  # fmt: skip


@compiled
def _lowest_row(rows: Any, classes: Any, c: int, first: int, last: int) -> int:
    """Return the lowest row number of a stretch: rows are sorted within each class."""
    lowest = rows[first]
    for k in range(classes.shape[1]):
        if first <= classes[c, k] < last:
            lowest = min(lowest, rows[classes[c, k]])
    return lowest


@compiled
def _refine(
    hits: Any, n_hits: int, i: int, slot: int, q_tail: Any, shift_tail: Any, q_x: Any,
    c_tail: Any, c_x: Any, c_rows: Any, error_tail: float, first_position: int,
    best: Any, best_rows: Any, best_positions: Any, counters: Any, buffer: Any, scale: float, relative: float,
) -> None:  # fmt: skip
    """Take candidates that the product did not discard through the second bound and the distance itself."""
    m_tail = q_tail.shape[1]
    nearest, row, position = best[i, slot], best_rows[i, slot], best_positions[i, slot]
    limit = _limit(nearest, scale, relative, error_tail, m_tail)
    for h in range(n_hits):
        x = hits[h]
        if nearest == 0 and c_rows[x] >= row:
            continue
        if m_tail > 0:
            partial = np.float32(0)
            k = 0
            while k < m_tail and partial <= limit:
                end = min(m_tail, k + LEVEL)
                partial += _squared_difference(q_tail, i, shift_tail, c_tail, x, k, end)
                k = end
            if partial > limit:
                continue
        counters[3] += 1
        found = squared_distance(q_x, i, c_x, x, nearest, buffer)
        if found < nearest or (found == nearest and c_rows[x] < row):
            nearest, row, position = found, c_rows[x], first_position + x
            limit = _limit(found, scale, relative, error_tail, m_tail)
    best[i, slot], best_rows[i, slot], best_positions[i, slot] = nearest, row, position


@compiled
def _threshold(best: float, scale: float, relative: float, error: float, slack: float, squared: float) -> Any:
    """Return what half the squared norm of a candidate less its product may not exceed."""
    reach = np.sqrt(best + LOST) * scale * (1 + relative) + error
    half = 0.5 * (reach * reach + slack - squared)
    return np.float32(half + abs(half) * 4 * U)


@compiled
def _limit(best: float, scale: float, relative: float, error: float, m: int) -> Any:
    """Return what the partial sums of the second bound may not exceed."""
    reach = (np.sqrt(best + LOST) * scale * (1 + relative) + error) * (1 + (m + 8) * U)
    return np.float32(reach * reach * (1 + 4 * U) + TINY)
