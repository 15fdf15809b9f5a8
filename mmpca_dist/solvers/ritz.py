"""Ritz pairs of margin scatters, and what is proved of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.solvers.dense import Eigenpairs, leading_eigenpairs
from mmpca_dist.statistics.coordinates import Statistics, SubspaceStatistics
from mmpca_dist.statistics.krylov_statistics import PROBE_BASE, Approximation, probes
from mmpca_dist.statistics.scatters import WeightedScatter


def ritz_pairs(statistics: Statistics, scatter: WeightedScatter, n_components: int) -> Eigenpairs:
    """Return the leading eigenpairs of a margin scatter: exact, or those of its part in a basis with their residuals.

    Residuals are those of the whole scatter; NaN where they are not known (``nystroem``).
    """
    S = scatter.dense(statistics.moments)
    if not isinstance(statistics, SubspaceStatistics):
        return leading_eigenpairs(S, n_components, statistics.epsilon)
    known, share = statistics.approximation, _share(statistics, scatter)
    total = share * known.trace + _between(scatter)
    return approximate_eigenpairs(S, known, share, total, n_components, statistics.epsilon)


def approximate_eigenpairs(
    S: NDArray[np.float64], known: Approximation, share: float, total: float, n_components: int, epsilon: float
) -> Eigenpairs:
    """Return the leading eigenpairs of the part ``S`` of a scatter in a basis, with residuals of the whole one.

    Parameters
    ----------
    share : float
        The factor of what is ``known`` in the scatter.
    total, epsilon
        As for `dense.leading_eigenpairs`.
    """
    pairs = leading_eigenpairs(S, n_components, epsilon, total)
    if known.outside is None:
        return replace(pairs, residuals=np.full(len(pairs.values), np.nan))
    outside = share * np.linalg.norm(known.outside @ pairs.vectors, axis=0)
    return replace(pairs, residuals=np.hypot(pairs.residuals, outside))


@dataclass(frozen=True)
class Within:
    """The mean scatter within the classes, as far as it is known.

    Attributes
    ----------
    inside : array of shape (r, r)
        In working coordinates.
    trace : float
        Of the whole.
    outside : array of shape (s, r) or None
        What it moves out of the basis, as in ``Approximation``; None where nothing is outside, or it is not known.
    error : float
        Where that is not known: bound on the norm of what is lacking inside.
    """

    inside: NDArray[np.float64]
    trace: float
    outside: NDArray[np.float64] | None = None
    error: float = 0.0


def within_classes(statistics: Statistics) -> Within:
    """Return the mean scatter within the classes."""
    moments, known = statistics.moments, statistics.approximation
    inside = moments.scatter(np.ones(len(moments.counts))) / moments.n_rows
    if known is None:
        return Within(inside, float(np.trace(inside)))
    share = 1 / moments.weights[0, 0] / moments.n_rows
    outside = None if known.outside is None else share * known.outside
    return Within(inside, share * known.trace, outside, share * (known.error or 0.0))


def _share(statistics: SubspaceStatistics, scatter: WeightedScatter) -> float:
    """Return the factor of the weighted class scatter that was approximated in the margin scatter."""
    return float(scatter.class_weights[0] / statistics.moments.weights[0, 0] / scatter.n_rows)


def _between(scatter: WeightedScatter) -> float:
    """Return the trace of the part that differences of means make."""
    return float(scatter.offset_weights @ np.einsum("ij,ij->i", scatter.offsets, scatter.offsets) / scatter.n_rows)


def norm_bound(lengths: NDArray[np.float64]) -> float:
    """Return a bound on the norm of B from the lengths of B w for Gaussian probes w; see ``working.PROBES``."""
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
        ``relative``: all residuals, each divided by its eigenvalue. For ``nystroem`` only ``error``: what the
        eigenvalues may be off, from the probes.

    Source: Halko, Martinsson & Tropp 2011, lemma 4.1; Davis & Kahan 1970.
    """
    if not isinstance(statistics, SubspaceStatistics):
        return None
    known = statistics.approximation
    share, wanted = _share(statistics, scatter), len(pairs.values)
    found: dict[str, Any] = {
        "solver": known.solver, "passes": known.passes, "history": known.history, "count": wanted,
    }  # fmt: skip
    outside = known.outside
    if outside is None:
        return {**found, "error": None if known.error is None else share * known.error}
    # Rounding of the passes, and of sums and differences of means in double precision.
    floor = (statistics.epsilon + 8 * float(np.finfo(np.float64).eps)) * pairs.total
    if not wanted:
        nothing = {"leading": 0, "beyond": pairs.total + floor, "within": 0, "angle": None}
        return {**found, **nothing, "failure": 0.0, "residual": 0.0, "relative": []}
    with single_blas_thread():
        return {**found, **_proved(statistics, outside, scatter, pairs, floor)}


def _proved(
    statistics: SubspaceStatistics,
    outside: NDArray[np.float64],
    scatter: WeightedScatter,
    pairs: Eigenpairs,
    floor: float,
) -> dict[str, Any]:
    share, wanted = _share(statistics, scatter), len(pairs.values)
    values, turn = (a[..., ::-1] for a in np.linalg.eigh(scatter.dense(statistics.moments)))
    moved = share * (outside @ turn)
    tried = _to_try(wanted, len(values))
    traces = [max(float(pairs.total - values[:m].sum()), 0.0) for m in tried]
    bounds = _probe_bounds(statistics, scatter, turn, moved, tried)
    rank = min(statistics.n_features, statistics.moments.n_rows + len(scatter.offsets))
    if any(is_contradicted(b, t, rank - m, floor) for b, t, m in zip(bounds, traces, tried, strict=True)):
        bounds = traces
    best: dict[str, Any] = {"leading": 0, "beyond": float("inf"), "within": wanted}
    angles: list[float] = []
    for m, bound, trace in zip(tried, bounds, traces, strict=True):
        beyond = min(bound, trace) + floor
        if beyond < best["beyond"]:
            best.update(beyond=beyond, within=m)
        best["leading"] = max(best["leading"], int(np.sum(values[: min(m, wanted)] > beyond)))
        if m >= wanted:
            following = max(beyond, values[wanted] if m > wanted else 0.0) + float(np.linalg.norm(moved[:, :m], 2))
            turned, gap = float(np.linalg.norm(moved[:, :wanted], 2)) + floor, values[wanted - 1] - following
            if gap > turned:
                angles.append(float(np.degrees(np.arcsin(turned / gap))))
    best["angle"] = min(angles, default=None)
    failure = len(tried) * PROBE_BASE ** -statistics.approximation.probed.shape[1]
    residuals = {"residual": float(pairs.residuals.max()), "relative": (pairs.residuals / pairs.values).tolist()}
    return {**best, "failure": failure, **residuals}


def _probe_bounds(
    statistics: SubspaceStatistics, scatter: WeightedScatter, turn: NDArray[np.float64], moved: NDArray[np.float64],
    tried: list[int],
) -> list[float]:  # fmt: skip
    """Return bounds on the norm of S outside the first m Ritz vectors, which are ``turn`` (r, r), for every m tried.

    ``moved`` (s, r) is what S moves them out of the basis.
    """
    known, share = statistics.approximation, _share(statistics, scatter)
    probing = probes(statistics.n_features, known.seed, known.probed.shape[1])
    inside = turn.T @ statistics.coordinates(probing)  # of the probes along the Ritz vectors
    applied = _applied(statistics, scatter, share, probing)
    along = statistics.coordinates(applied)
    outside = np.sum((applied - statistics.loadings(along).T) ** 2, axis=0)
    along = turn.T @ along
    found = []
    for m in tried:
        rest = np.sqrt(outside + np.sum(along[m:] ** 2, axis=0))
        rest += np.linalg.norm(moved[:, :m] @ inside[:m], axis=0)
        found.append(norm_bound(rest))
    return found


def _to_try(wanted: int, most: int) -> list[int]:
    """Return sizes of subspaces: some of the components, all of them, more than them."""
    sizes = {int(k) for k in np.geomspace(1, wanted, 5)} | {int(k) for k in np.geomspace(wanted, most, 5)}
    return sorted(sizes | {wanted, most})


def _applied(
    statistics: SubspaceStatistics, scatter: WeightedScatter, share: float, probing: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return S applied to the probes, shape (d, p)."""
    offsets = statistics.loadings(scatter.offsets.T)
    weighted = scatter.offset_weights[:, None] * (offsets @ probing) / scatter.n_rows
    return share * statistics.approximation.probed + offsets.T @ weighted
