"""The compiled inner loops of the search: matrix products, then a sweep over the results.

What may be discarded is decided in single precision, by lower bounds that stay below the true distance whatever was
rounded on the way. With u = 2^-24, for a query q and a row x of a cell with centre c and radius r (all in coordinates
of the frame, stored relative to the centre of their own cell):

* storing coordinates and bringing q to the centre c leaves the difference w - z wrong by at most
  ``e = u (2 |w| + 2 r_q + r) + (error of the frame)`` in length;
* the product form ``|w|^2 + |z|^2 - 2 w z`` of its square is wrong by at most ``(m + 8) u (|w| + r)^2``, in any
  order of summation, with or without fused operations;
* the sum of squared differences is wrong by at most its ``(m + 8) u``-fold.

Survivors are compared by the defined distance (`bounds.squared_distance`) alone.
"""

# mypy: disable-error-code="assignment"
# (compiled code gives its integers other types than mypy does)

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.jit import N, compiled
from mmpca_dist.neighbors.bounds import LOST, STEP, TINY, Metric, QueryBatch, Rules, U, cell_bound, is_near, refine
from mmpca_dist.neighbors.cells import relative_rounding

NO_ROW = np.iinfo(np.int64).max
"""Row number where there is no candidate yet: higher than any."""
SWEEP = 64
"""Entries of a product that are looked through at once where one of its row is small enough."""
MAX_ACTIVE, PRODUCT = 1024, 1 << 18
"""Queries that face a cell in one matrix product, and the numbers it should not exceed, to stay near the processor."""


class Candidates(NamedTuple):
    """Rows of consecutive cells, with halves of the squared norms of their coordinates and their row numbers."""

    z: NDArray[np.float32]
    halves: NDArray[np.float32]
    tail: NDArray[np.float32]
    x: NDArray
    rows: NDArray[np.int64]
    parts: NDArray[np.int32]  # (n,): of the rows; empty where `Metric.apart` is zero
    first_position: int  # of the first row, in the layout
    starts: NDArray[np.int64]  # (cells + 1,)
    classes: NDArray[np.int64]  # (cells, C + 1): where each class begins
    centres: NDArray[np.float32]  # of the cells
    tail_centres: NDArray[np.float32]
    radii: NDArray[np.float64]
    tail_radii: NDArray[np.float64]
    distances: NDArray[np.float32]  # (n, cells): from the queries to the centres; infinite where the cell is not near


class Best(NamedTuple):
    """The nearest candidates so far, by query and slot: one slot, or one for each class with ``one-vs-one``.

    With ``apart`` there are as many slots again, for the nearest rows that are in other parts than those of the first.
    """

    # (n, slots): squared distances; infinite where there is no candidate, as in the slot of the query's own class
    squared: NDArray[np.float64]
    rows: NDArray[np.int64]  # (n, slots): row numbers
    positions: NDArray[np.int64]  # (n, slots): in the layout
    # (n,): proved lower bound, in units of the frame, on the distance to all that was left out without proof
    open_bounds: NDArray[np.float64]
    parts: NDArray[np.int32]  # (n, slots / 2) or (n, 0): of the rows in the first half of the slots, with ``apart``

    @classmethod
    def none(cls, n_queries: int, n_slots: int, apart: bool = False) -> Best:
        """Return what there is before a search."""
        shape = (n_queries, n_slots * (1 + apart))
        return cls(
            np.full(shape, np.inf), np.full(shape, NO_ROW), np.full(shape, -1), np.full(n_queries, np.inf),
            np.full((n_queries, n_slots * apart), -1, np.int32),
        )  # fmt: skip

    @property
    def n_slots(self) -> int:
        """One, or one for each class."""
        return self.parts.shape[1] or self.squared.shape[1]

    def reach(self, codes: NDArray[np.int64], scale: float, n_features: int) -> NDArray[np.float64]:
        """Return the largest distance of interest of every query, in units of the frame, rounding included."""
        squared, n_slots = self.squared, self.n_slots
        if n_slots > 1:
            squared = squared.copy()
            for own in range(0, squared.shape[1], n_slots):
                squared[np.arange(len(codes)), own + codes] = 0
        return np.sqrt(squared.max(axis=1) + LOST) * scale * (1 + relative_rounding(n_features))


class _Workspace(NamedTuple):
    """Buffers of a thread.

    ``counters``: cells met by queries, pairs compared, not discarded, refined; and a query and a row, or -1, that
    differ by less than squares can show (`bounds.SMALLEST_NORMAL`).
    """

    product: NDArray[np.float32]
    moved: NDArray[np.float32]
    active: NDArray[np.int64]
    groups: NDArray[np.int64]
    hits: NDArray[np.int64]
    shift: NDArray[np.float32]
    tail_shift: NDArray[np.float32]
    squares: NDArray[np.float64]
    counters: NDArray[np.int64]


@compiled
def search_in_turn(
    queried: QueryBatch, offered: Candidates, best: Best, order: Any, metric: Metric, rules: Rules, counters: Any
) -> None:
    """Take every block of queries through the cells in an order of its own, (groups, cells): the nearest first.

    Nearer candidates replace those of ``best``.
    """
    space = _make_workspace(queried, offered, counters)
    for b in range(len(queried.blocks)):
        for turn in range(order.shape[1]):
            c = order[queried.blocks[b, 0], turn]
            n_active = _gather(b, c, 0, queried, offered, best, metric, rules, space)
            _compare(c, queried.blocks[b, 3], n_active, queried, offered, best, metric, rules, space)


@compiled
def search_together(
    queried: QueryBatch, offered: Candidates, best: Best, order: Any, metric: Metric, rules: Rules, counters: Any
) -> None:
    """Let all queries of a class (blocks are sorted by class) face a cell together, the cells in one ``order``.

    Nearer candidates replace those of ``best``.
    """
    space = _make_workspace(queried, offered, counters)
    capacity = len(space.active)
    for c in order:
        limit = PRODUCT // max(offered.starts[c + 1] - offered.starts[c], 1)
        n_active = 0
        for b in range(len(queried.blocks)):
            block_class = queried.blocks[b, 3]
            n_active = _gather(b, c, n_active, queried, offered, best, metric, rules, space)
            ends = b + 1 == len(queried.blocks) or queried.blocks[b + 1, 3] != block_class
            if ends or n_active >= limit or n_active + queried.blocks[b + 1, 2] - queried.blocks[b + 1, 1] > capacity:
                _compare(c, block_class, n_active, queried, offered, best, metric, rules, space)
                n_active = 0


@compiled
def _make_workspace(queried: QueryBatch, offered: Candidates, counters: Any) -> _Workspace:
    m, m_tail = queried.z.shape[1], queried.tail.shape[1]
    largest_cell = largest_block = 0
    for c in range(len(offered.starts) - 1):
        largest_cell = max(largest_cell, offered.starts[c + 1] - offered.starts[c])
    for b in range(len(queried.blocks)):
        largest_block = max(largest_block, queried.blocks[b, 2] - queried.blocks[b, 1])
    capacity = max(largest_block, MAX_ACTIVE)
    return _Workspace(
        np.empty(min(largest_cell * capacity, largest_cell * largest_block + PRODUCT), np.float32),
        np.empty((capacity, m), np.float32), np.empty(capacity, np.int64), np.empty(capacity, np.int64),
        np.empty(largest_cell + 1, np.int64), np.empty(m, np.float32), np.empty(m_tail, np.float32), np.empty(STEP),
        counters,
    )  # fmt: skip


@compiled
def _gather(
    b: int, c: int, n_active: int, queried: QueryBatch, offered: Candidates, best: Best, metric: Metric, rules: Rules,
    space: _Workspace,
) -> int:  # fmt: skip
    """Add the queries of a block that must visit a cell to those active, brought to its centre; return how many are."""
    codes, allowances, z, distances = queried.codes, queried.allowances, queried.z, offered.distances
    classes, squared, open_bounds = offered.classes, best.squared, best.open_bounds
    shift, moved, active, groups = space.shift, space.moved, space.active, space.groups
    g, block_class = queried.blocks[b, 0], queried.blocks[b, 3]
    size = offered.starts[c + 1] - offered.starts[c]
    if block_class >= 0 and classes[c, block_class + 1] - classes[c, block_class] == size:
        return n_active
    radius, own_radius = offered.radii[c], queried.radii[g]
    for k in range(rules.width):
        shift[k] = queried.centres[g, k] - offered.centres[c, k]
    for i in range(queried.blocks[b, 1], queried.blocks[b, 2]):
        distance, own = np.float64(distances[i, c]), codes[i]
        if distance == np.inf or classes[c, own + 1] - classes[c, own] == size:
            continue  # not near (see `bounds.near_cells`), or all of the query's own class
        worst = 0.0
        for s in range(squared.shape[1]):
            if not metric.one_vs_one or (s != own and s != own + metric.apart):
                worst = max(worst, squared[i, s])
        reach = np.sqrt(worst + LOST) * metric.scale * (1 + metric.relative)
        bound = cell_bound(distance, radius, own_radius, rules)
        if bound > reach:
            continue
        if not is_near(distance, allowances[i], reach, rules):
            open_bounds[i] = min(open_bounds[i], max(bound, 0.0))
            continue
        for k in range(N(rules.width)):
            moved[N(n_active), k] = z[N(i), k] + shift[k]
        active[n_active], groups[n_active] = i, g
        n_active += 1
    return n_active


@compiled
def _compare(
    c: int, block_class: int, n_active: int, queried: QueryBatch, offered: Candidates, best: Best,
    metric: Metric, rules: Rules, space: _Workspace,
) -> None:  # fmt: skip
    """Compare the active queries, all of one class or of several (-1), with the rows of a cell."""
    if n_active == 0:
        return
    space.counters[0] += n_active
    start, stop = offered.starts[c], offered.starts[c + 1]
    for side in range(2):
        # Queries of one class face what lies before and behind that class in the cell; others all of it.
        if block_class >= 0:
            lo, hi = offered.classes[c, block_class], offered.classes[c, block_class + 1]
            first, last = (start, lo) if side == 0 else (hi, stop)
        else:
            first, last = (start, stop) if side == 0 else (stop, stop)
        if first < last:
            product = space.product[: n_active * (last - first)].reshape(n_active, last - first)
            np.dot(space.moved[:n_active], offered.z[first:last].T, product)
            space.counters[1] += product.size
            _sweep(c, first, last, n_active, queried, offered, best, metric, rules, space)


@compiled
def _sweep(
    c: int, x_start: int, x_stop: int, n_active: int, queried: QueryBatch, offered: Candidates, best: Best,
    metric: Metric, rules: Rules, space: _Workspace,
) -> None:  # fmt: skip
    """Look through a product for what may be nearer than the best candidates, and refine it."""
    codes, distances, classes, rows = queried.codes, offered.distances, offered.classes, offered.rows
    best_squared, best_rows, best_positions, best_parts = best.squared, best.rows, best.positions, best.parts
    halves, product, hits, counters = offered.halves, space.product, space.hits, space.counters
    q_tail, q_x, c_tail, c_x, c_parts, tail_shift, buffer = (
        queried.tail, queried.x, offered.tail, offered.x, offered.parts, space.tail_shift, space.squares,
    )  # fmt: skip
    tail_centres, tail_centre, first_position = queried.tail_centres, offered.tail_centres[c], offered.first_position
    radii, tail_radii, active, groups = queried.radii, queried.tail_radii, space.active, space.groups
    radius, tail_radius = offered.radii[c], offered.tail_radii[c]
    for a in range(n_active):
        i, g = active[a], groups[a]
        distance, own = np.float64(distances[i, c]), codes[i]
        length, nearer = distance * (1 + (rules.width + 4) * U), distance * (1 - (rules.width + 4) * U)
        squared = nearer * nearer  # it is taken off a threshold: never more than the true one
        error = U * (2 * length + 2 * radii[g] + radius) + rules.frame_error
        slack = (rules.width + 8) * U * (length + radius) * (length + radius) + TINY
        offset = a * (x_stop - x_start) - x_start
        # Stretches of candidates by the slot they compete for: each class, or what lies on either side of one's own.
        for part in range(classes.shape[1] - 1 if metric.one_vs_one else 2):
            slot = 0
            if metric.one_vs_one:
                if part == own:
                    continue
                slot, first, last = part, classes[c, part], classes[c, part + 1]
            elif part == 0:
                first, last = x_start, classes[c, own]
            else:
                first, last = classes[c, own + 1], x_stop
            first, last = max(first, x_start), min(last, x_stop)
            if first >= last:
                continue
            beaten = slot + metric.apart
            if best_squared[i, beaten] == 0 and best_rows[i, beaten] < _lowest_row(rows, classes, c, first, last):
                continue  # nothing is nearer, and ties go to lower rows
            if best_squared[i, beaten] < np.inf:
                threshold = _threshold(best_squared[i, beaten], error, slack, squared, metric)
                n_hits = _collect(halves, product, offset, first, last, threshold, hits)
                if n_hits == 0:
                    continue
                counters[2] += n_hits
            for k in range(N(q_tail.shape[1])):
                tail_shift[k] = tail_centres[g, k] - tail_centre[k]
            if best_squared[i, beaten] == np.inf:
                # Begin with the candidate that seems nearest; else all rows of the cell would count as near.
                hits[0] = _lowest(halves, product, offset, first, last)
                refine(
                    hits, 1, i, slot, q_tail, tail_shift, q_x, c_tail, c_x, rows, c_parts, np.inf, first_position,
                    best_squared, best_rows, best_positions, best_parts, counters, buffer, metric,
                )  # fmt: skip
                threshold = _threshold(best_squared[i, beaten], error, slack, squared, metric)
                n_hits = _collect(halves, product, offset, first, last, threshold, hits)
                counters[2] += n_hits
            tail_error = U * (3 * tail_radius + 2 * tail_radii[g]) * 1.01 + rules.frame_error
            refine(
                hits, n_hits, i, slot, q_tail, tail_shift, q_x, c_tail, c_x, rows, c_parts, tail_error, first_position,
                best_squared, best_rows, best_positions, best_parts, counters, buffer, metric,
            )  # fmt: skip


@compiled
def _collect(halves: Any, products: Any, offset: int, first: int, last: int, threshold: Any, hits: Any) -> Any:
    """Put the candidates of a stretch that a product does not discard into ``hits``; return how many they are."""
    below = np.int32(0)
    for k in range(N(first), N(last)):
        below += np.int32(halves[k] - products[N(offset) + k] <= threshold)
    if below == 0:
        return 0
    n_hits, begin, count = N(0), N(first), N(last) - N(first)
    while count > N(0):
        length = min(count, N(SWEEP))
        below = np.int32(0)
        for k in range(begin, begin + length):
            below += np.int32(halves[k] - products[N(offset) + k] <= threshold)
        if below > 0:
            for k in range(begin, begin + length):
                hits[n_hits] = k
                n_hits += N(halves[k] - products[N(offset) + k] <= threshold)
        begin, count = begin + length, count - length
    return np.int64(n_hits)


@compiled
def _lowest(halves: Any, products: Any, offset: int, first: int, last: int) -> Any:
    """Return the candidate that seems nearest."""
    nearest, lowest = first, np.float32(np.inf)
    for k in range(N(first), N(last)):
        value = halves[k] - products[N(offset) + k]
        if value < lowest:
            nearest, lowest = np.int64(k), value
    return nearest


@compiled
def _lowest_row(rows: NDArray[np.int64], classes: Any, c: int, first: int, last: int) -> int:
    """Return the lowest row number of a stretch: rows are sorted within each class."""
    lowest = rows[first]
    for k in range(classes.shape[1]):
        if first <= classes[c, k] < last:
            lowest = min(lowest, rows[classes[c, k]])
    return lowest


@compiled
def _threshold(best: float, error: float, slack: float, squared: float, metric: Metric) -> Any:
    """Return what half the squared norm of a candidate less its product may not exceed."""
    reach = np.sqrt(best + LOST) * metric.scale * (1 + metric.relative) + error
    half = 0.5 * (reach * reach + slack - squared)
    return np.float32(half + abs(half) * 4 * U)
