"""What is proved of components from passes, on spectra made to break it; the start and the probes vary by case."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from helpers.samples import largest_angle
from scipy.stats import binom

from mmpca_dist import MarginPCA
from mmpca_dist.eigen import block_passes
from mmpca_dist.eigen import certificate as ritz
from mmpca_dist.eigen.block_passes import statistics_in_passes
from mmpca_dist.eigen.certificate import _subspace_sizes, norm_bound
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.margin_pca import margin_scatter
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics import approximation
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of

D, K = 36, 4
CASES = 500
SPECTRA = {
    "flat": lambda rng: np.ones(D),
    "nearly flat": lambda rng: 1 + 0.01 * rng.random(D),
    "clustered": lambda rng: np.repeat([1.0, 0.5, 0.1], D // 3) * (1 + 1e-6 * rng.random(D)),
    "tight gap": lambda rng: np.append(np.linspace(2, 1, K), [1 - 0.1 ** rng.integers(1, 9), *np.full(D - K - 1, 0.3)]),
    "low rank and noise": lambda rng: np.append(1 + rng.random(K), np.full(D - K, 10.0 ** -rng.integers(1, 7))),
    "geometric": lambda rng: rng.choice([0.3, 0.6, 0.9]) ** np.arange(D),
    "one huge": lambda rng: np.append(10.0 ** rng.integers(4, 10), rng.random(D - 1)),
    "zero tail": lambda rng: np.append(rng.random(2 * K) + 0.1, np.zeros(D - 2 * K)),
    "a late one": lambda rng: np.append(np.ones(K - 1), [0.5, *np.full(D - K, 0.5 - 10.0 ** -rng.integers(2, 8))]),
}  # fmt: skip


@dataclass
class Case:
    """Rows with the scatter S of a method, and what a solver in passes says of it."""

    name: str
    S: np.ndarray
    statistics: Statistics
    variant: str
    found: Solution

    @property
    def known(self) -> dict[str, Any]:
        return self.found.certificate

    @property
    def rounding(self) -> float:
        """A few times what ``relative_errors`` tell of rounding, and what differences of means far from zero are off.

        Products of 72 rows are summed up to 8 at a time, then pairwise: fewer than 16 roundings follow one another.
        """
        total, mean = self.found.total, float(np.linalg.norm(self.statistics.mean))
        return 16 * (self.statistics.epsilon * total + np.finfo(np.float64).eps * mean * np.sqrt(total))


def rows_of(values, rng):
    """Return rows of two unequal classes, and their scatter.

    Every direction has its rows twice, with either sign, so that class means are what they are set to: the scatter
    about them has these eigenvalues.
    """
    n, vectors = 2 * D, np.linalg.qr(rng.standard_normal((D, D)))[0]
    half = np.sqrt(n / 2 * values)[:, None] * vectors.T
    first = rng.permutation(D)[: rng.integers(4, D - 4)]
    y = np.isin(np.arange(D), first).astype(int)
    between = rng.choice([0.0, 0.3, 3.0]) * np.sqrt(values.mean()) * rng.standard_normal((2, D))
    X, y = np.concatenate([half, -half]) + np.tile(between[y], (2, 1)), np.tile(y, 2)
    order = rng.permutation(n)
    return X[order] + rng.choice([0.0, 10.0]), y[order]


def scatter_of(X, y, variant):
    """Return the mean outer product of difference rows; M-PCA0's as the papers' formula for two classes."""
    centred = X - X.mean(axis=0)
    if variant == "pca":
        return centred.T @ centred / len(X)
    a, b = X[y == 0], X[y == 1]
    S = sum((rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0)) / len(rows) for rows in (a, b))
    gap = a.mean(axis=0) - b.mean(axis=0)
    return S + np.outer(gap, gap)


def make_case(seed, patch):
    """Return a random case, with a start of its own; its rows bring probes of their own."""
    rng = np.random.default_rng(seed)
    patch.setattr(block_passes, "SEED", seed)
    name = list(SPECTRA)[seed % len(SPECTRA)]
    values = np.sort(SPECTRA[name](rng))[::-1]
    X, y = rows_of(values, rng)
    variant = str(rng.choice(["pca", "m-pca0"]))
    solver = SolverOptions("krylov", int(rng.integers(0, 4)), int(rng.integers(2, 5)), 0.0)
    # A sample of all rows would hold the eigenvectors: take a few, so that the start is as poor as on large data.
    patch.setattr(LIMITS, "start_rows", 0)
    patch.setattr(LIMITS, "start_class_rows", 2)
    patch.setattr(block_passes, "draw_sample", lambda dataset, *_: (X[: K + 4], y[: K + 4]))
    dataset, spans, here = rows_in_memory(X, y), spans_of(np.asarray([0, len(X)])), Threads(1)
    statistics = statistics_in_passes(
        Rows.of(dataset, here, spans=spans),
        Needs(frozenset({ClassWeighting.OTHERS if variant == "m-pca0" else ClassWeighting.EQUAL}), n_components=K),
        solver,
        precision=str(rng.choice(["single", "double"])),
    )
    found = MarginPCA(K, variant=variant)._solve(statistics)
    return Case(name, scatter_of(X, y, variant), statistics, variant, found)


@pytest.fixture(scope="module")
def cases():
    """Cases of block Krylov."""
    with pytest.MonkeyPatch.context() as patch:
        return [make_case(seed, patch) for seed in range(CASES)]


def allowed(failures):
    """Return how many of independent events with these probabilities (the largest counts) there may be."""
    return int(binom.ppf(0.99, len(failures), max(failures)))


def test_there_are_all_spectra_and_nothing_is_trivial(cases):
    assert {case.name for case in cases} == set(SPECTRA)
    leading = np.asarray([case.known["leading"] for case in cases])
    assert np.mean(leading == K) > 0.1
    assert np.mean(leading < K) > 0.1
    angles = [case.known["angle"] for case in cases if case.known["angle"] is not None]
    assert len(angles) > CASES / 10
    assert sum(1e-3 < angle < 45 for angle in angles) > CASES / 50
    assert max(case.known["failure"] for case in cases) < 1e-5


def test_every_ritz_value_has_an_eigenvalue_within_its_residual(cases):
    """Statement (a), never broken, up to rounding."""
    for case in cases:
        values = scipy.linalg.eigvalsh(case.S)
        distance = np.abs(case.found.eigenvalues[:, None] - values).min(axis=1)
        assert (distance <= case.found.residuals + case.rounding).all(), case.name


def test_residuals_are_those_of_the_whole_scatter(cases):
    for case in cases:
        V = case.found.components.T
        actual = np.linalg.norm(case.S @ V - V * case.found.eigenvalues, axis=0)
        assert (np.abs(actual - case.found.residuals) <= case.rounding).all(), case.name


def ritz_space(case):
    """Return all Ritz values, and Ritz vectors that are orthonormal in double precision."""
    S = margin_scatter(case.variant, case.statistics.moments).dense(case.statistics.moments)
    values, turn = (a[..., ::-1] for a in np.linalg.eigh(S))
    return values, np.linalg.qr(case.statistics.basis.astype(np.float64) @ turn)[0]


def beyond(S, V):
    """Return the norm of S outside the span of orthonormal columns."""
    rest = np.eye(len(S)) - V @ V.T
    return np.linalg.norm(rest @ S @ rest, 2)


def test_nothing_beyond_is_larger_than_said(cases):
    """Statement (b), broken no oftener than its probability allows, up to rounding."""
    broken = []
    for case in cases:
        _, V = ritz_space(case)
        m = case.known["within"]
        following = scipy.linalg.eigvalsh(case.S)[::-1][m] if m < D else 0.0
        assert following <= beyond(case.S, V[:, :m]) + case.rounding  # the twin says what it means
        broken += [case.name] * bool(beyond(case.S, V[:, :m]) > case.known["beyond"] + case.rounding)
    assert len(broken) <= allowed([case.known["failure"] for case in cases]), broken


def test_components_said_to_lead_are_the_leading_ones(cases):
    """For some m Ritz vectors they lie above all that is beyond these, so that only residuals part them from S."""
    broken = []
    for case in cases:
        count, proved = case.known["leading"], False
        theta, V = ritz_space(case)
        values = scipy.linalg.eigvalsh(case.S)[::-1]
        for m in _subspace_sizes(len(case.found.eigenvalues), len(theta)):
            moved = np.linalg.norm(case.S @ V[:, :m] - V[:, :m] @ (V[:, :m].T @ case.S @ V[:, :m]), 2)
            above = int(np.sum(theta[: min(m, K)] > beyond(case.S, V[:, :m])))
            near = np.abs(values[:count] - theta[:count]) <= moved + case.rounding
            proved |= count <= above and bool(near.all())
        broken += [case.name] * bool(count > 0 and not proved)
    assert len(broken) <= allowed([case.known["failure"] for case in cases]), broken


def test_the_angle_bounds_the_angle(cases):
    broken = []
    for case in cases:
        if case.known["angle"] is None:
            continue
        values, vectors = (a[..., ::-1] for a in np.linalg.eigh(case.S))
        k = len(case.found.eigenvalues)
        # What the true vectors, and sums in the precision of the case, are off by.
        own = (D * np.finfo(np.float64).eps * values[0] + case.rounding) / (values[k - 1] - values[k])
        angle = largest_angle(case.found.components, vectors[:, :k])
        broken += [case.name] * bool(np.degrees(angle - own) > case.known["angle"])
    assert len(broken) <= allowed([case.known["failure"] for case in cases]), broken


def test_the_bounds_are_what_the_statements_say(monkeypatch):
    """Probes see S outside the span of m Ritz vectors, no less and no more, and the angle is that of Davis & Kahan.

    Bounds that are merely too large would break no statement, nor would those that are somewhat too small.
    """
    for seed in range(0, 90):
        told: list[np.ndarray] = []
        with monkeypatch.context() as patch:
            patch.setattr(ritz, "norm_bound", lambda lengths, told=told: told.append(lengths) or norm_bound(lengths))
            case = make_case(seed, patch)
            probing = approximation.probes(D, case.statistics.approximation.seed)
        theta, V = ritz_space(case)
        tried, k = _subspace_sizes(len(case.found.eigenvalues), len(theta)), len(case.found.eigenvalues)
        assert len(told) == len(tried)
        angles, slack = [], case.rounding
        for m, lengths in zip(tried, told, strict=True):
            rest = np.eye(D) - V[:, :m] @ V[:, :m].T
            expected = np.linalg.norm(rest @ case.S @ probing, axis=0)
            expected += np.linalg.norm(rest @ case.S @ V[:, :m] @ V[:, :m].T @ probing, axis=0)
            np.testing.assert_allclose(lengths, expected, rtol=1e-6, atol=10 * slack * np.sqrt(D))
            bound = min(norm_bound(lengths), max(case.found.total - theta[:m].sum(), 0.0))  # no probes fail here
            if m >= k:
                moved, turned = (np.linalg.norm(case.S @ V[:, :j] - V[:, :j] * theta[:j], 2) for j in (m, k))
                gap = theta[k - 1] - max(bound, theta[m - 1 if m == k else k] if m > k else 0.0) - moved
                angles.append(((turned - slack) / (gap + 3 * slack), (turned + slack) / (gap - 3 * slack)))
        proved = [sines for sines in angles if 0 < sines[1] < 1]
        if case.known["angle"] is None:
            assert all(not 0 < low < high < 0.99 for low, high in angles)
        elif proved:
            sine = np.sin(np.radians(case.known["angle"]))
            assert min(low for low, _ in angles) <= sine <= min(high for _, high in proved)


def test_no_angle_is_given_where_there_is_no_gap(cases):
    for case in cases:
        if case.name == "flat" and np.ptp(scipy.linalg.eigvalsh(case.S)[-K - 1 :]) < 1e-6:
            assert case.known["angle"] is None


@pytest.mark.parametrize("count", [2, 4, 6])
def test_probes_bound_a_norm_as_often_as_they_say(count):
    """For a matrix of rank one nearly at its probability: a bound that is any smaller would fail too often."""
    rng = np.random.default_rng(count)
    lengths = np.abs(rng.standard_normal((20_000, count)))  # of B w, for |B| = 1 of rank one
    failures = sum(norm_bound(row) < 1 for row in lengths)
    told = approximation.PROBE_BASE**-count
    assert failures <= binom.ppf(1 - 1e-6, 20_000, told)
    assert failures >= 20_000 * told / 2


def test_probes_are_always_the_same_and_no_start_knows_them():
    found = approximation.probes(50, 3)
    np.testing.assert_array_equal(found, approximation.probes(50, 3))
    assert np.abs(found - approximation.probes(50, 4)).min() > 0
    assert found.shape == (50, approximation.PROBES)
    start = block_passes.leading_start(np.zeros((3, 50)), None, 10, np.dtype(float))
    # cosines between independent directions in 50 dimensions are of standard deviation 0.14
    assert np.abs(start.T @ found / np.linalg.norm(found, axis=0)).max() < 0.75


def test_certificates_of_exact_solvers_there_are_none():
    X, y = rows_of(np.ones(D), np.random.default_rng(0))
    assert not hasattr(MarginPCA(2, "pca", solver="dense").fit(X, y), "certificate_")
