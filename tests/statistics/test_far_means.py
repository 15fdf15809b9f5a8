"""What is said of rounding where means are far larger than the spread about them, in double precision."""

import numpy as np
import pytest

from mmpca_dist import FisherDiscriminant, MarginPCA, SupervisedPCA
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.statistics.working_statistics import tall_statistics

N, D = 4000, 6
FAR = [2.0**0, 2.0**10, 2.0**20, 2.0**27]
"""Sizes of the mean, where the spread is about 1. Rows are multiples of 2^-20, so that all of these are exact."""


def far_rows(far):
    """Return rows far from zero, the same about zero in extended precision, and labels."""
    rng = np.random.default_rng(0)
    near = np.round(rng.uniform(-1, 1, (N, D)) * np.asarray([1, 0.7, 0.5, 0.3, 0.2, 0.1]) * 2**20) / 2**20
    y = np.arange(N) % 3
    near += 0.25 * (y[:, None] == np.arange(3)) @ np.eye(3, D)
    return near + far * np.asarray([1, -1, 0, 1, 0.5, 2]), (near - near.mean(axis=0)).astype(np.longdouble), y


def exact_scatter(rows, y, variant):
    """Return the scatter of rows about zero, in extended precision (classes of nearly one size)."""
    counts = np.bincount(y).astype(np.longdouble)
    n, means = counts.sum(), np.stack([rows[y == c].mean(axis=0) for c in range(3)])
    means -= counts @ means / n
    weights, divisor = np.ones(3), n
    between = {"pca": counts, "m-pca0": n * counts, "m-pca1a": counts * (n / (n - counts)) ** 2, "hsic": counts**2}
    if variant == "m-pca0":
        weights, divisor = n - counts, (n**2 - np.sum(counts**2)) / 2
    if variant == "hsic":
        weights, divisor = np.zeros(3), 1
    S = (means.T * between[variant]) @ means
    for c in range(3):
        own = rows[y == c] - rows[y == c].mean(axis=0)
        S = S + weights[c] * (own.T @ own)
    return (S / divisor).astype(np.float64)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("solver", ["dense", "krylov"])
@pytest.mark.parametrize("variant", ["pca", "m-pca0", "m-pca1a"])
def test_eigenvalues_are_off_by_a_few_floors_at_most(variant, solver, far):
    """The floor knows how far the means are from zero; and it is no empty claim, but within a few hundred errors."""
    X, near, y = far_rows(far)
    model = MarginPCA(5, variant, precision="double", solver=solver).fit(X, y)
    values = np.linalg.eigvalsh(exact_scatter(near, y, variant))[::-1][:5]
    errors, floors = np.abs(model.eigenvalues_ - values), model.relative_errors_ * model.eigenvalues_
    assert (errors <= 8 * floors).all()
    assert floors.max() <= 500 * max(errors.max(), np.finfo(float).eps * values.sum())


@pytest.mark.parametrize("far", FAR)
def test_components_of_class_means_know_it_too(far):
    X, near, y = far_rows(far)
    model = SupervisedPCA(2, precision="double").fit(X, y)
    values = np.linalg.eigvalsh(exact_scatter(near, y, "hsic"))[::-1][:2]
    assert (np.abs(model.eigenvalues_ / values - 1) <= 8 * model.relative_errors_).all()
    fisher = FisherDiscriminant(2, precision="double").fit(X, y)
    centred = FisherDiscriminant(2, precision="double").fit(near.astype(float), y)
    assert (np.abs(fisher.eigenvalues_ / centred.eigenvalues_ - 1) <= 8 * fisher.relative_errors_).all()
    assert (np.abs(model.relative_errors_) < 1e-4).all() and (fisher.relative_errors_ < 1e-4).all()


def test_differences_of_rows_and_rows_less_their_mean_do_not_suffer():
    X, _, y = far_rows(FAR[-1])
    pairs = MarginPCA(4, "m-pca2", precision="double", solver="dense").fit(X[:300], y[:300])
    eps = np.finfo(float).eps
    np.testing.assert_allclose(pairs.relative_errors_ * pairs.eigenvalues_, eps * pairs.total_)
    wide = np.tile(X[:5], (1, 4)), y[:5]
    dual = MarginPCA(3, "pca", precision="double", solver="dual").fit(*wide)
    np.testing.assert_allclose(dual.relative_errors_ * dual.eigenvalues_, eps * dual.total_)


def test_single_precision_and_means_near_zero_keep_their_floor():
    X, near, y = far_rows(FAR[1])
    for rows, precision, unit in ((X, "single", 2.0**-23), (near.astype(float), "double", 2.0**-52)):
        model = MarginPCA(3, "pca", precision=precision).fit(rows, y)
        np.testing.assert_allclose(model.relative_errors_ * model.eigenvalues_, unit * model.total_)


def test_targets_that_vary_with_nothing_but_rounding_are_refused():
    """What merges of two means far from zero may leave of eps |mean|, beside rows and targets of unit variance."""
    eps, far = np.finfo(float).eps, 1e8
    scatter = N * np.eye(D + 1)
    scatter[:D, D] = scatter[D, :D] = eps * far * N / 2
    widening = Widening(D, np.zeros(0, np.intp), np.zeros(0), targets=("t",))
    near, away = (
        ClassMoments(np.zeros(1, int), np.full(1, 1.0 * N), np.full(1, N), means, scatter[None], widening=widening)
        for means in (np.zeros((1, D + 1)), np.append(np.full(D, far), 0.0)[None])
    )
    reducer = SupervisedPCA(1, target="continuous")
    assert (reducer._solve(tall_statistics(near, precision="double")).relative_errors < 1e-4).all()
    with pytest.raises(InputError, match="zero up to rounding"):
        reducer._solve(tall_statistics(away, precision="double"))
