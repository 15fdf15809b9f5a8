"""Solvers in passes: estimators against dense scatters, and the passes that are told against those that are made."""

from itertools import pairwise

import naive
import numpy as np
import pytest
import scipy.linalg
from helpers.samples import even_edges, largest_angle, random_start, watched
from helpers.tables import labelled
from sklearn.base import clone

from mmpca_dist import LOL, FisherDiscriminant, MarginPCA, SupervisedPCA
from mmpca_dist.eigen import block_passes, pair_passes
from mmpca_dist.eigen.block_passes import statistics_in_passes
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.methods.margin_pca import VARIANTS
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of

EPS = float(np.finfo(np.float64).eps)
UNITS = {"single": float(np.finfo(np.float32).eps), "double": EPS}
D = 30


def fit(name, X, y, **parameters):
    """Return the fitted estimator of a method."""
    made = {"fisher": FisherDiscriminant(), "hsic": SupervisedPCA(), "lol": LOL()}
    return clone(made.get(name) or MarginPCA(variant=name)).set_params(**parameters).fit(X, y)


def turned(found, k, gap, rounding):
    """Return how far the residuals let the span of the first k components turn (Davis & Kahan 1970), in radians."""
    sine = (np.linalg.norm(found.residuals_[:k]) + rounding) / gap
    return np.arcsin(sine) if 0 < sine < 1 else None


def assert_as_dense(found, dense, n_rows, precision):
    """Values and prefixes of components are within their residuals, and those within the gaps, of the dense ones."""
    rounding = n_rows * UNITS[precision] * dense.total_
    np.testing.assert_allclose(found.total_, dense.total_, atol=rounding)
    np.testing.assert_allclose(
        found.components_ @ found.components_.T, np.eye(3), atol=1e-5 if precision == "single" else 1e-12
    )
    proved = 0
    for k in range(1, 4):
        gap = found.eigenvalues_[k - 1] - dense.eigenvalues_[k]
        bound = turned(found, k, gap, rounding)
        if bound is not None:
            proved += 1
            assert largest_angle(found.components_[:k], dense.components_[:k].T) <= bound
    assert proved >= 2, "the sample is too hard for this test to say anything"
    nearest = np.abs(found.eigenvalues_[:, None] - dense.eigenvalues_).min(axis=1)
    assert (nearest <= found.residuals_ + rounding).all()
    assert (found.eigenvalues_ <= dense.eigenvalues_[:3] + rounding).all(), "Ritz values lie below eigenvalues"


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("pairing", ["one-vs-rest", "one-vs-one"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_margin_components_are_those_of_the_dense_scatter(variant, pairing, standardize, precision):
    X, y = labelled(90, D, 3, seed=1)
    options = {"pairing": pairing, "standardize": standardize}
    dense = fit(variant, X, y, solver="dense", precision="double", **options)
    more = {"solver": "krylov", "oversampling": 3, "tolerance": 0.0}
    found = fit(variant, X, y, n_components=3, precision=precision, **options, **more)
    assert_as_dense(found, dense, len(X), precision)


@pytest.mark.parametrize("variant", VARIANTS)
def test_fewer_rows_than_columns(variant):
    X, y = labelled(25, 60, 2, seed=2)
    dual = fit(variant, X, y, solver="dual")
    found = fit(variant, X, y, n_components=3, solver="krylov", precision="double", oversampling=3)
    assert_as_dense(found, dual, len(X), "double")


@pytest.mark.parametrize("equal", [False, True])
def test_mpca0_follows_the_weights_of_its_classes(equal):
    """Equal classes share the basis of the others; classes of 2, 30 and 58 rows do not."""
    X, _ = labelled(90, D, 3, seed=3)
    y = np.repeat([0, 1, 2], [30, 30, 30] if equal else [2, 30, 58])
    X = X + y[:, None] * (np.arange(D) == 3) * np.arange(90)[:, None] * 0.1  # scatters that differ by class
    S = naive.mean_outer_product(naive.mpca0_rows(X, y))
    found = fit("m-pca0", X, y, n_components=3, solver="krylov", precision="double")
    values, _ = naive.eigenpairs(S)
    rounding = len(X) * EPS * np.trace(S)
    residuals = np.linalg.norm(S @ found.components_.T - found.components_.T * found.eigenvalues_, axis=0)
    np.testing.assert_allclose(residuals, found.residuals_, atol=rounding)
    np.testing.assert_allclose(found.eigenvalues_, values[:3], atol=found.residuals_.max() + rounding)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("solver", ["krylov"])
@pytest.mark.parametrize("shrinkage", [1e-2, 0.3])
def test_fisher_directions_are_within_their_residuals(shrinkage, solver, precision):
    """With W = L L^T the problem is that of L^-1 B L^-T, whose residuals are those of ours times L^-1."""
    X, y = labelled(150, D, 3, seed=4)
    found = fit("fisher", X, y, shrinkage=shrinkage, solver=solver, precision=precision, n_components=2)
    values, vectors = naive.fisher(X, y, shrinkage, 2)
    B, W = naive.fisher_matrices(X, y, shrinkage)
    factor = np.linalg.cholesky(W)
    rounding = len(X) * UNITS[precision] * (np.trace(W) * values[0] + np.trace(B))
    missed = B @ found.components_.T - W @ found.components_.T * found.eigenvalues_
    actual = np.linalg.norm(scipy.linalg.solve_triangular(factor, missed, lower=True), axis=0)
    slack = rounding * np.linalg.norm(found.components_, axis=1) / np.linalg.svd(factor)[1][-1]
    assert (actual <= found.residuals_ + slack).all()
    white = np.linalg.norm(found.residuals_ + slack)
    assert (np.abs(found.eigenvalues_ - values) <= white).all()
    third = scipy.linalg.eigh(B, W, eigvals_only=True)[-3]
    sine = white / (found.eigenvalues_[1] - third)
    assert sine < 0.2, "the sample is too hard for this test to say anything"
    assert largest_angle(found.components_ @ factor, factor.T @ vectors) <= np.arcsin(sine)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("standardize", [False, True])
def test_class_means_alone_make_hsic(standardize, precision):
    """One pass (two where columns are standardised), no basis but what the means span, and nothing approximate."""
    X, y = labelled(90, D, 4, seed=5)
    dense = fit("hsic", X, y, solver="dense", precision="double", standardize=standardize)
    found = fit("hsic", X, y, solver="krylov", precision=precision, standardize=standardize)
    error = len(X) * UNITS[precision]
    np.testing.assert_allclose(found.eigenvalues_, dense.eigenvalues_, rtol=0, atol=error * dense.total_)
    for k in range(1, 4):
        gap = dense.eigenvalues_[k - 1] - (dense.eigenvalues_[k] if k < 3 else 0)
        assert largest_angle(found.components_[:k], dense.components_[:k].T) <= 2 * error * dense.total_ / gap


@pytest.mark.parametrize("name", ["lol", "fisher"])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_scatter_of_low_rank_is_found_whole(precision, name):
    """Then nothing is approximate."""
    rng = np.random.default_rng(6)
    y = np.arange(120) % 3
    X = rng.standard_normal((120, 6)) * [6, 5, 4, 3, 2, 1] @ random_start(D, 6).T + rng.standard_normal((3, D))[y]
    k = {"lol": 6, "fisher": 2}[name]
    dense = fit(name, X, y, n_components=k, solver="dense", precision="double")
    found = fit(name, X, y, n_components=k, solver="krylov", precision=precision)
    rounding = 20 * len(X) * UNITS[precision]
    np.testing.assert_allclose(found.eigenvalues_, dense.eigenvalues_, rtol=rounding)
    condition = np.linalg.cond(naive.fisher_matrices(X, y, 1e-3)[1]) if name == "fisher" else 1.0
    assert largest_angle(found.components_, dense.components_.T) <= rounding * condition


# ------------------------------------------------------------------------------------------------- passes that are made


@pytest.mark.parametrize("medians", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("needed", [set(), {ClassWeighting.EQUAL}, {ClassWeighting.OTHERS}, set(ClassWeighting)])
def test_the_passes_told_are_the_passes_made(needed, standardize, medians):
    X, y = labelled(200, D, 3, seed=7)
    told, read, spans = [], [], spans_of(even_edges(200, 17))
    dataset = watched(rows_in_memory(X, y), lambda start, stop: read.append(stop - start))
    found = statistics_in_passes(
        Rows.of(dataset, Threads(1), spans=spans, on_pass=lambda *pass_: told.append(pass_)),
        Needs(frozenset(needed), medians=("one-vs-rest",) if medians else (), n_components=3),
        SolverOptions("krylov", 2, 3, 0.0),
        precision="double",
        standardize=standardize,
    )
    made = sum(name in ("apply", "moments") for name, _ in told)
    most = 3 if needed else 1 - standardize
    assert found.approximation.passes == made == most + standardize
    assert sum(n_bytes for _, n_bytes in told) == sum(read) * dataset.row_bytes
    assert (found.weighted is not None) == (needed == set(ClassWeighting))
    if needed:
        assert [len(h["values"]) for h in found.approximation.history] == [3, 3]


@pytest.fixture
def from_anywhere(monkeypatch):
    """Begin with random vectors: those of a sample that holds all rows are the eigenvectors already."""

    def random_ones(rows, scale, size, dtype, centre=True):
        return random_start(rows.shape[1], size).astype(dtype)

    for module in (block_passes, pair_passes):
        monkeypatch.setattr(module, "leading_start", random_ones)


@pytest.fixture
def pair_calls(monkeypatch):
    """The names of the passes over pairs, as they are made."""
    calls = []
    for name in ("sum_pairs", "apply_pairs"):
        made = getattr(pair_passes, name)

        def call(*args, _made=made, _name=name, **keywords):
            calls.append(_name)
            return _made(*args, **keywords)

        monkeypatch.setattr(pair_passes, name, call)
    return calls


def test_the_passes_over_pairs_are_counted(pair_calls, from_anywhere):
    """The first alone draws a sample."""
    X, y = labelled(80, D, 2, seed=9)
    found = fit("m-pca2", X, y, n_components=2, solver="krylov", passes=3, oversampling=2, tolerance=0.0)
    assert pair_calls == ["sum_pairs"] + ["apply_pairs"] * 3
    known = found.certificate_["solver"]
    assert (known["passes"], len(known["history"])) == (4, 3)


@pytest.mark.parametrize(("variant", "most"), [("pca", 6), ("m-pca0", 6), ("m-pca2", 5)])
def test_passes_end_where_the_tolerance_is_met(variant, most, pair_calls, from_anywhere):
    """And residuals of pairs fall until then; the last are those of the components."""
    X, y = labelled(200, 100, 3, seed=8)
    taken, of_pairs = [], variant == "m-pca2"
    for tolerance in (0.5, 1e-2, 1e-4, 0.0):
        pair_calls.clear()
        found = fit(
            variant, X, y, n_components=3, solver="krylov", precision="double", oversampling=5,
            passes=most - of_pairs, tolerance=tolerance,
        )  # fmt: skip
        known = found.certificate_["solver"] if of_pairs else found.certificate_
        made, history = known["passes"], known["history"]
        taken.append(made)
        worst = [max(r / v for v, r in zip(h["values"], h["residuals"], strict=True)) for h in history]
        assert len(worst) == made - 1
        assert all(w > tolerance for w in worst[:-1]), "it might have ended before"
        assert worst[-1] <= tolerance or made == most
        if of_pairs:
            assert len(pair_calls) == made
            assert all(after < before for before, after in pairwise(worst))
            np.testing.assert_allclose(history[-1]["values"], found.eigenvalues_, rtol=1e-12)
            rounding = 10 * EPS * found.total_
            np.testing.assert_allclose(history[-1]["residuals"], found.residuals_, rtol=1e-6, atol=rounding)
    assert taken == sorted(taken)
    assert taken[0] < taken[2] < taken[3] == most
    assert of_pairs or taken[0] == 2
