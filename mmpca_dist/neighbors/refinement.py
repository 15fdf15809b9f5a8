"""The last steps of a comparison, compiled: the second bound, and the exact distance."""

# mypy: disable-error-code="assignment"
# (compiled code gives its integers other types than mypy does)

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmpca_dist.neighbors.bounds import U
from mmpca_dist.neighbors.jit import N, compiled, reordered

TINY = 1e-36
"""Added to squared bounds: products of coordinates below 1e-18 may vanish in single precision."""
LOST = 1e-300
"""Added to squared distances before roots are taken: small squares lose digits, or vanish."""
SMALLEST_NORMAL = float(np.finfo(np.float64).smallest_normal)
"""A squared distance of at least d times this is as exact as if nothing had vanished: each of d squares that is
subnormal or zero loses at most 2^-1075, all together 2^-53 of the whole. Of rows nearer than that, only equal ones are
accepted."""
LEVEL = 32
"""Coordinates that the second bound takes at once."""
STEP = 64
"""Columns between two looks whether a distance is too large already."""


class Metric(NamedTuple):
    """From squared distances to reach: ``scale`` brings lengths to the frame's, ``relative`` is their rounding.

    ``apart`` is zero, or the number of slots that queries have, twice: slot s + apart is then for the nearest row that
    is in another part than the row of slot s.
    """

    scale: float
    relative: float
    one_vs_one: bool
    apart: int


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
        found = squared_distance(q_x, i, c_x, x, nearest, buffer)
        if found < nearest or (found == nearest and c_rows[x] < row):
            if found < SMALLEST_NORMAL * q_x.shape[1] and not _are_equal(q_x, i, c_x, x):
                counters[4], counters[5] = i, c_rows[x]
            if metric.apart == 0:
                nearest, row, position = found, c_rows[x], first_position + x
            else:
                _place_apart(
                    found, c_rows[x], first_position + x, c_parts[x], i, slot, last,
                    best, best_rows, best_positions, best_parts,
                )  # fmt: skip
                nearest, row, position = best[i, last], best_rows[i, last], best_positions[i, last]
            limit = _limit(nearest, tail_error, m_tail, metric)
    best[i, last], best_rows[i, last], best_positions[i, last] = nearest, row, position


@compiled
def _place_apart(
    found: float, row: int, position: int, part: int, i: int, slot: int, last: int,
    best: Any, best_rows: Any, best_positions: Any, best_parts: Any,
) -> None:  # fmt: skip
    """Keep a row that is nearer than what ``last`` holds: the nearest in ``slot``, that of another part in ``last``."""
    nearer = found < best[i, slot] or (found == best[i, slot] and row < best_rows[i, slot])
    same = part == best_parts[i, slot]
    if nearer and not same:
        best[i, last], best_rows[i, last] = best[i, slot], best_rows[i, slot]
        best_positions[i, last] = best_positions[i, slot]
    if nearer:
        best[i, slot], best_rows[i, slot], best_positions[i, slot], best_parts[i, slot] = found, row, position, part
    elif not same:
        best[i, last], best_rows[i, last], best_positions[i, last] = found, row, position


@compiled
def _limit(best: float, error: float, m: int, metric: Metric) -> Any:
    """Return what the partial sums of the second bound may not exceed."""
    reach = (np.sqrt(best + LOST) * metric.scale * (1 + metric.relative) + error) * (1 + (m + 8) * U)
    return np.float32(reach * reach * (1 + 4 * U) + TINY)
