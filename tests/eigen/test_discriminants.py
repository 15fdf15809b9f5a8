"""What is proved of Fisher's discriminants and LOL from passes, against dense scatters in double precision."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import naive
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from helpers.samples import largest_angle, random_start
from helpers.tables import labelled
from scipy.stats import spearmanr

from mmpca_dist import LOL, FisherDiscriminant, MarginPCA, SupervisedPCA
from mmpca_dist.eigen import block_passes
from mmpca_dist.eigen.block_passes import statistics_in_passes
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of

UNITS = {"single": float(np.finfo(np.float32).eps), "double": float(np.finfo(np.float64).eps)}
CASES = 120
SHAPES = [(150, 40, 3), (90, 25, 2), (120, 60, 5), (40, 70, 3)]


@dataclass
class Case:
    """Rows, whose Fisher's matrices are B and W, and what is said of components from passes."""

    B: np.ndarray
    W: np.ndarray
    plain: np.ndarray
    shrinkage: float
    precision: str
    statistics: Statistics
    found: Solution

    @property
    def known(self) -> dict[str, Any]:
        assert self.found.certificate is not None
        return self.found.certificate

    @cached_property
    def exact(self) -> tuple[np.ndarray, np.ndarray]:
        """All values of the criterion, and directions with v^T W v = 1."""
        values, vectors = scipy.linalg.eigh(self.B, self.W)
        return values[::-1], vectors[:, ::-1]

    @cached_property
    def rounding(self) -> float:
        """What products off by an epsilon of the trace move in units of W_g, whose smallest eigenvalue divides them."""
        return 20 * UNITS[self.precision] * np.trace(self.W) / np.linalg.eigvalsh(self.W)[0]

    @cached_property
    def reached(self) -> float:
        """The sum of the criterion over the span of the components."""
        V = self.found.components.T
        return float(np.trace(np.linalg.solve(V.T @ self.W @ V, V.T @ self.B @ V)))

    @property
    def share(self) -> float:
        """What part of the largest sum they reach."""
        return self.reached / self.exact[0][: self.known["count"]].sum()


def rows_of(rng, n, d, n_classes, decay, sparse):
    """Return rows whose spectrum falls by a power, or sparse ones, and labels."""
    y = np.arange(n) % n_classes
    if sparse:
        X = rng.poisson(0.3, (n, d)) * np.arange(1, d + 1.0) ** -decay
        X[y == 0, :3] += rng.poisson(1, (np.sum(y == 0), 3))
        return X, y
    means = rng.choice([0.3, 1.0, 3.0]) * rng.standard_normal((n_classes, d))
    X = (rng.standard_normal((n, d)) + means[y]) * np.arange(1, d + 1.0) ** -decay
    return X @ np.linalg.qr(rng.standard_normal((d, d)))[0] + rng.choice([0.0, 10.0]), y


def in_passes(X, y, made, k, precision):
    """Return statistics from passes that begin with random vectors: a sample of all rows would know the answer."""
    rows = Rows.of(rows_in_memory(X, y, "X"), Threads(1), spans=spans_of(np.asarray([0, X.shape[0]])))
    solver = SolverOptions("krylov", 2, made, 0.0)
    return statistics_in_passes(rows, Needs(n_components=k), solver, precision=precision)


def from_random(patch, seed):
    patch.setattr(
        block_passes,
        "leading_start",
        lambda rows, scale, size, dtype: random_start(rows.shape[1], size, seed).astype(dtype),
    )


def make_case(seed, patch, precision=None, decay=None, shrinkage=None):
    rng = np.random.default_rng(seed)
    from_random(patch, seed)
    n, d, n_classes = SHAPES[seed % len(SHAPES)]
    sparse = bool(seed // len(SHAPES) % 2)
    X, y = rows_of(rng, n, d, n_classes, rng.choice([0.0, 0.5, 1.5]) if decay is None else decay, sparse)
    shrinkage = float(rng.choice([1e-3, 1e-2, 0.3])) if shrinkage is None else shrinkage
    precision = precision or str(rng.choice(["single", "double"]))
    k, made = int(rng.integers(1, n_classes)), int(rng.integers(2, 8))
    statistics = in_passes(scipy.sparse.csr_array(X) if sparse else X, y, made, k, precision)
    B, plain = naive.fisher_matrices(X, y, 0.0)
    W = (1 - shrinkage) * plain + shrinkage * np.trace(plain) / d * np.eye(d)
    found = FisherDiscriminant(k, shrinkage=shrinkage)._solve(statistics)
    return Case(B, W, plain, shrinkage, precision, statistics, found)


@pytest.fixture(scope="module")
def cases():
    """Cases of all shapes, sparse and dense rows."""
    with pytest.MonkeyPatch.context() as patch:
        return [make_case(seed, patch) for seed in range(CASES)]


def test_cases_are_not_trivial(cases):
    assert np.mean([case.share < 0.9 for case in cases]) > 0.1
    assert np.mean([case.known["criterion"] > 0.5 for case in cases]) > 0.1
    assert sum(case.known["angle"] is not None for case in cases) > 10


def test_the_share_of_the_criterion_is_reached(cases):
    for case in cases:
        assert case.known["criterion"] <= case.share * (1 + case.rounding) <= (1 + case.rounding) * (1 + 1e-9)


def test_the_eigenvalues_are_what_components_reach(cases):
    for case in cases:
        np.testing.assert_allclose(case.found.eigenvalues.sum(), case.reached, rtol=case.rounding)


def test_the_angle_bounds_the_angle(cases):
    """In units of the spread within classes."""
    proved = [case for case in cases if case.known["angle"] is not None]
    for case in proved:
        k, root = case.known["count"], np.linalg.cholesky(case.W)
        values, vectors = case.exact
        own = 2 * case.rounding * values[0] / (values[k - 1] - values[k])
        angle = largest_angle(case.found.components @ root, root.T @ vectors[:, :k])
        assert np.degrees(angle - own) <= case.known["angle"]
    assert sum(1 < case.known["angle"] < 60 for case in proved) > 20


def test_residuals_bound_those_of_the_whole_problem(cases):
    """And each eigenvalue has one of the problem within its residual."""
    for case in cases:
        V, values, size = case.found.components.T, case.found.eigenvalues, case.exact[0][0]
        missed = case.B @ V - case.W @ V * values
        actual = np.linalg.norm(scipy.linalg.solve_triangular(np.linalg.cholesky(case.W), missed, lower=True), axis=0)
        slack = case.rounding * size
        assert (actual <= case.found.residuals + slack).all()
        distance = np.abs(values[:, None] - case.exact[0]).min(axis=1)
        assert (distance <= case.found.residuals + slack).all()


def test_the_estimate_tracks_what_is_reached(cases):
    """Cases with more rows than columns."""
    known = [case for case in cases if case.known["estimate"] is not None]
    assert known == [case for case in cases if case.statistics.moments.n_rows > 70]
    estimates, shares = (np.asarray(v) for v in zip(*((c.known["estimate"], c.share) for c in known), strict=True))
    assert (estimates <= 1).all()
    assert spearmanr(estimates, shares).statistic > 0.9
    assert np.median(np.abs(estimates - shares)) < 0.05
    assert np.quantile(np.abs(estimates - shares), 0.9) < 0.2
    assert (estimates >= [case.known["criterion"] * (1 - 1e-6) for case in known]).all()


def test_bounds_are_those_of_the_least_scatter(monkeypatch):
    """The least of all scatters with these images of the basis: formed here in d x d, in double precision."""
    for seed in range(24):
        case = make_case(seed, monkeypatch, "double", decay=0.5)
        d, k, basis = len(case.W), case.known["count"], case.statistics.basis
        ridge = case.shrinkage * np.trace(case.plain) / d
        least = (1 - case.shrinkage) * naive.nystroem(case.plain, basis) + ridge * np.eye(d)
        most = scipy.linalg.eigh(case.B, (least + least.T) / 2, eigvals_only=True)[::-1]
        np.testing.assert_allclose(case.known["criterion"], case.reached / most[:k].sum(), rtol=1e-6)
        lost, gap = most[:k].sum() - case.reached, case.found.eigenvalues[-1] - most[k]
        if 1e-6 * gap < lost < 0.99 * gap:
            assert case.known["angle"] == pytest.approx(np.degrees(np.arcsin(np.sqrt(lost / gap))), rel=1e-3)
        elif lost > 1.01 * gap:
            assert case.known["angle"] is None


def test_more_passes_prove_more(monkeypatch):
    from_random(monkeypatch, 1)
    X, y = rows_of(np.random.default_rng(2), 200, 80, 3, 0.5, False)
    statistics = [in_passes(X, y, made, 2, "double") for made in (2, 4, 8, 16)]
    told = [FisherDiscriminant(2)._solve(each).certificate for each in statistics]
    shares = [known["criterion"] for known in told]
    assert shares == sorted(shares)
    assert shares[0] < 0.1 and shares[-1] > 0.9999
    assert told[0]["angle"] is None and told[-1]["angle"] < 1


def test_nothing_is_proved_without_shrinkage(monkeypatch):
    """Then the criterion may be as large as it likes outside the basis."""
    case = make_case(0, monkeypatch, "double", shrinkage=0.0)
    assert case.known["criterion"] is case.known["estimate"] is case.known["angle"] is None
    assert np.isnan(case.found.residuals).all()
    X, y = labelled(60, 8, 3, seed=1)
    assert not hasattr(FisherDiscriminant(2, solver="dense").fit(X, y), "certificate_")


# ------------------------------------------------------------------------------------------------------- LOL and HSIC


@pytest.mark.parametrize("sparse", [False, True])
def test_the_certificate_of_lol_is_that_of_its_eigenvectors(sparse, monkeypatch):
    """Means are exact; behind them, residuals, leading eigenvectors and angles are as proved, of the dense scatter."""
    angles = 0
    for seed in range(24):
        from_random(monkeypatch, seed)
        rng = np.random.default_rng(seed)
        n, d, n_classes = SHAPES[seed % len(SHAPES)]
        X, y = rows_of(rng, n, d, n_classes, rng.choice([0.5, 1.5]), sparse)
        k = n_classes + 2
        statistics = in_passes(scipy.sparse.csr_array(X) if sparse else X, y, 2 + seed % 6, k, "double")
        solution = LOL(k)._solve(statistics)
        known, within = solution.certificate, naive.fisher_matrices(X, y, 0.0)[1]
        assert known is not None
        exact = naive.lol(X, y, k)
        assert largest_angle(solution.components[: n_classes - 1], exact[:, : n_classes - 1]) < 1e-8
        assert (known["means"], known["count"]) == (n_classes - 1, 3)
        values, vectors = (a[..., ::-1] for a in np.linalg.eigh(within))
        # What follows the means is made of the eigenvectors of the scatter in the basis.
        inside, turn = (a[..., ::-1] for a in np.linalg.eigh(statistics.basis.T @ within @ statistics.basis))
        V = statistics.basis @ turn[:, :3]
        whole = np.concatenate([exact[:, : n_classes - 1], V], axis=1)
        assert largest_angle(solution.components, whole) < 1e-6
        relative = np.linalg.norm(within @ V - V * inside[:3], axis=0) / inside[:3]
        np.testing.assert_allclose(known["relative"], relative, atol=1e-9)
        np.testing.assert_allclose(known["residual"], (relative * inside[:3]).max(), atol=1e-9 * values[0])
        assert np.append(values, 0.0)[known["within"]] <= known["beyond"]
        for number in range(known["leading"]):
            assert abs(inside[number] - values[number]) <= np.linalg.norm(relative * inside[:3]) + 1e-9 * values[0]
        if known["angle"] is not None:
            angles += 1
            assert np.degrees(largest_angle(V.T, vectors[:, :3])) <= known["angle"] + 1e-5
    assert angles > 2


def test_a_direction_that_the_means_hold_is_no_component_of_its_own():
    """An eigenvector along the mean difference adds nothing; the one after takes its place and is certified too."""
    X = np.concatenate([np.eye(6), -np.eye(6)]) * [6, 5, 4, 3, 2, 1]
    X, y = np.concatenate([X, X]), np.repeat([0, 1], 12)
    X[y == 1, 0] += 1
    found = LOL(2, solver="krylov", precision="double").fit(X, y)
    np.testing.assert_allclose(np.abs(found.components_), np.eye(6)[:2], atol=1e-12)
    assert (found.certificate_["means"], found.certificate_["count"]) == (1, 2)
    only = LOL(1, solver="krylov").fit(X, y).certificate_
    assert only["exact"] and only["means"] == 1


def test_class_means_are_said_to_suffice():
    X, y = labelled(60, 12, 3, seed=2)
    assert SupervisedPCA(solver="krylov").fit(X, y).certificate_ == {"solver": "krylov", "passes": 1, "exact": True}
    assert not hasattr(SupervisedPCA().fit(X, y), "certificate_")


def test_a_later_fit_forgets_the_certificate():
    X, y = labelled(60, 12, 3, seed=2)
    reducer = LOL(4, solver="krylov").fit(X, y)
    assert reducer.certificate_["solver"] == "krylov"
    assert not hasattr(reducer.set_params(solver="dense").fit(X, y), "certificate_")


# -------------------------------------------------------------------------------------------------- limits by classes


def test_solvers_look_for_classes_less_one(monkeypatch):
    """All components there are: no number need be given, and none larger costs more."""
    X, y = labelled(90, 30, 4, seed=4)
    asked = []
    monkeypatch.setattr(
        "mmpca_dist.methods.base.statistics_for.statistics_in_passes",
        lambda rows, needs, *a, **k: asked.append(needs.n_components) or statistics_in_passes(rows, needs, *a, **k),
    )
    every = FisherDiscriminant(solver="krylov").fit(X, y)
    assert every.components_.shape == (3, 30)
    np.testing.assert_array_equal(every.components_, FisherDiscriminant(3, solver="krylov").fit(X, y).components_)
    assert FisherDiscriminant(2, solver="krylov").fit(X, y).components_.shape == (2, 30)
    assert SupervisedPCA(solver="krylov").fit(X, y).components_.shape == (3, 30)
    with pytest.raises(InputError, match=r"n_components=9 is more than the 3 components .* less one, 3\.$"):
        FisherDiscriminant(9, solver="krylov").fit(X, y)
    assert asked == [3, 3, 2, 3, 3]
    for other in (LOL(solver="krylov"), MarginPCA(solver="krylov")):
        with pytest.raises(InputError, match="needs n_components"):
            other.fit(X, y)


def test_auto_takes_passes_where_classes_are_few(limits):
    limits.dense_columns = 20
    X, y = labelled(300, 80, 3, seed=5)
    assert FisherDiscriminant().fit(X, y).certificate_["solver"] == "krylov"  # 4 x (2 + 10) <= 80
    assert not hasattr(FisherDiscriminant(solver="dense").fit(X, y), "certificate_")
    assert not hasattr(LOL().fit(X, y), "certificate_")
