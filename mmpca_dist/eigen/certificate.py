"""Ritz pairs of margin scatters, and what is proved of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import Eigenpairs, leading_eigenpairs
from mmpca_dist.statistics.approximation import PROBE_BASE, Approximation, probes
from mmpca_dist.statistics.scatters import WeightedScatter
from mmpca_dist.statistics.working_statistics import EPS, Statistics, SubspaceStatistics


def ritz_pairs(statistics: Statistics, scatter: WeightedScatter, n_components: int) -> Eigenpairs:
    """Return the leading eigenpairs of a margin scatter: exact, or those of its part in a basis with their residuals.

    Residuals are those of the whole scatter.
    """
    S = scatter.dense(statistics.moments)
    if not isinstance(statistics, SubspaceStatistics):
        return leading_eigenpairs(S, n_components, statistics.epsilon)
    approximation, share = statistics.approximation, _share(statistics, scatter)
    between = float(scatter.offset_weights @ np.einsum("ij,ij->i", scatter.offsets, scatter.offsets) / scatter.n_rows)
    total = share * approximation.trace + between
    return approximate_eigenpairs(S, approximation, share, total, n_components, statistics.epsilon)


def approximate_eigenpairs(
    S: NDArray[np.float64], approximation: Approximation, share: float, total: float, n_components: int, epsilon: float
) -> Eigenpairs:
    """Return the leading eigenpairs of the part ``S`` of a scatter in a basis, with residuals of the whole one.

    ``share`` is the factor of what was approximated in the scatter, ``total`` and ``epsilon`` are as for
    `dense.leading_eigenpairs`.
    """
    pairs = leading_eigenpairs(S, n_components, epsilon, total)
    outside = share * np.linalg.norm(approximation.outside @ pairs.vectors, axis=0)
    return replace(pairs, residuals=np.hypot(pairs.residuals, outside))


def _share(statistics: SubspaceStatistics, scatter: WeightedScatter) -> float:
    """Return the factor of the weighted class scatter that was approximated in the margin scatter."""
    return float(scatter.class_weights[0] / statistics.class_weights[0, 0] / scatter.n_rows)


def norm_bound(lengths: NDArray[np.float64]) -> float:
    """Return a bound on the norm of B from the lengths of B w for Gaussian probes w; see ``approximation.PROBES``."""
    return float(PROBE_BASE * np.sqrt(2 / np.pi) * lengths.max())


TRACE_FLOORS = 64
"""Rounding floors that a trace may be off: up to 26 were seen, in single precision."""


def is_contradicted(bound: float, trace: float, directions: int, floor: float) -> bool:
    """Tell whether the trace of a positive semidefinite E, of rank ``directions`` or less, exceeds what a bound allows.

    No eigenvalue of E is larger than its norm, so trace(E) / directions is not either: a bound from probes that is
    smaller has failed. ``floor`` is the scale of rounding.
    """
    return trace - TRACE_FLOORS * floor > max(directions, 1) * (bound + floor)


def certify(statistics: Statistics, scatter: WeightedScatter, pairs: Eigenpairs) -> dict[str, Any] | None:
    """Return what is proved of Ritz pairs from passes, as JSON-like values; None for exact ones.

    Two statements. (a) Every Ritz value has an eigenvalue of S within its residual. (b) With V the first m Ritz
    vectors, the norm of E = (I - V V^T) S (I - V V^T) is at most the trace of E, which is known; and, unless that
    trace contradicts it for some m (`is_contradicted`), at most `norm_bound` of Gaussian probes. The (m + 1)-th
    eigenvalue of S is no larger; Ritz values above it are the leading eigenvalues up to the norm of the residuals of V;
    and so the gap behind the last component, and with it the angle to the subspace of leading eigenvectors, is bounded.

    Returns
    -------
    dict
        ``solver``, ``passes``, ``history``, ``count`` of components; ``beyond``: bound on the first eigenvalue that was
        not found, for m = ``within`` vectors; ``leading``: how many of the components are proved to be the leading
        ones; ``angle``: bound, in degrees, on the largest angle between their subspace and that of the leading
        eigenvectors, or None where none is proved; ``failure``: probability that (b) fails; ``residual``: the largest;
        ``relative``: all residuals, each divided by its eigenvalue.

    Source: Halko, Martinsson & Tropp 2011, lemma 4.1; Davis & Kahan 1970.
    """
    if not isinstance(statistics, SubspaceStatistics):
        return None
    approximation, count = statistics.approximation, len(pairs.values)
    method = {"solver": approximation.solver, "passes": approximation.passes, "history": approximation.history}
    # Rounding of the passes, and of sums and differences of means in double precision.
    floor = (statistics.epsilon + 8 * EPS) * pairs.total
    proved: dict[str, Any] = {"leading": 0, "beyond": pairs.total + floor, "within": 0, "angle": None}
    proved |= {"failure": 0.0, "residual": 0.0, "relative": []}
    if count:
        proved = _proved(statistics, scatter, pairs, floor)
    return {**method, "count": count, **proved}


def _proved(
    statistics: SubspaceStatistics, scatter: WeightedScatter, pairs: Eigenpairs, floor: float
) -> dict[str, Any]:
    share, count = _share(statistics, scatter), len(pairs.values)
    values, turn = (a[..., ::-1] for a in np.linalg.eigh(scatter.dense(statistics.moments)))
    moved = share * (statistics.approximation.outside @ turn)
    sizes = _subspace_sizes(count, len(values))
    traces = [max(float(pairs.total - values[:m].sum()), 0.0) for m in sizes]
    bounds = _probe_bounds(statistics, scatter, turn, moved, sizes)
    rank = min(statistics.n_features, statistics.moments.n_rows + len(scatter.offsets))
    if any(is_contradicted(b, t, rank - m, floor) for b, t, m in zip(bounds, traces, sizes, strict=True)):
        bounds = traces
    best: dict[str, Any] = {"leading": 0, "beyond": float("inf"), "within": count}
    angles: list[float] = []
    for m, bound, trace in zip(sizes, bounds, traces, strict=True):
        beyond = min(bound, trace) + floor
        if beyond < best["beyond"]:
            best.update(beyond=beyond, within=m)
        best["leading"] = max(best["leading"], int(np.sum(values[: min(m, count)] > beyond)))
        if m >= count:
            following = max(beyond, values[count] if m > count else 0.0) + float(np.linalg.norm(moved[:, :m], 2))
            turned, gap = float(np.linalg.norm(moved[:, :count], 2)) + floor, values[count - 1] - following
            if gap > turned:
                angles.append(float(np.degrees(np.arcsin(turned / gap))))
    best["angle"] = min(angles, default=None)
    failure = len(sizes) * PROBE_BASE ** -statistics.approximation.probed.shape[1]
    residuals = {"residual": float(pairs.residuals.max()), "relative": (pairs.residuals / pairs.values).tolist()}
    return {**best, "failure": failure, **residuals}


def _probe_bounds(
    statistics: SubspaceStatistics, scatter: WeightedScatter, turn: NDArray[np.float64], moved: NDArray[np.float64],
    sizes: list[int],
) -> list[float]:  # fmt: skip
    """Return bounds on the norm of S outside the first m Ritz vectors, which are ``turn`` (r, r), for every size m.

    ``moved`` (s, r) is what S moves them out of the basis.
    """
    approximation, share = statistics.approximation, _share(statistics, scatter)
    probing = probes(statistics.n_features, approximation.seed, approximation.probed.shape[1])
    inside = turn.T @ statistics.coordinates(probing)  # of the probes along the Ritz vectors
    offsets = statistics.loadings(scatter.offsets.T)
    weighted = scatter.offset_weights[:, None] * (offsets @ probing) / scatter.n_rows
    applied = share * approximation.probed + offsets.T @ weighted  # S times the probes
    along = statistics.coordinates(applied)
    outside = np.sum((applied - statistics.loadings(along).T) ** 2, axis=0)
    along = turn.T @ along
    bounds = []
    for m in sizes:
        rest = np.sqrt(outside + np.sum(along[m:] ** 2, axis=0))
        rest += np.linalg.norm(moved[:, :m] @ inside[:m], axis=0)
        bounds.append(norm_bound(rest))
    return bounds


def _subspace_sizes(count: int, largest: int) -> list[int]:
    """Return sizes of subspaces to try: some of the components, all of them, more than them."""
    sizes = {int(k) for k in np.geomspace(1, count, 5)} | {int(k) for k in np.geomspace(count, largest, 5)}
    return sorted(sizes | {count, largest})
