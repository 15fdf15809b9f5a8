"""Every update of BM2PCA, and its evidence bound, against the twin that goes row by row."""

from dataclasses import replace

import numpy as np
import pytest
from naive_bayesian import BayesianMargin, labelled_terms, target_terms
from scipy.sparse import csr_array

from mmpca_dist.models.bayesian_margin.posterior import (
    ORDER,
    Constants,
    Posterior,
    TableSums,
    UpdateSums,
    evidence_bound,
    update,
)
from mmpca_dist.models.bayesian_margin.sweep import RowUpdate
from mmpca_dist.passes.centred_rows import RowUnits
from mmpca_dist.passes.label_terms import Terms

KINDS = ("labels", "some labels", "targets")


def problem(seed, kind, n=None, d=None, k=None, mean=10.0):
    """Return rows, the terms of the twin, those of the fast form, C and loadings to start from."""
    rng = np.random.default_rng(seed)
    n, d, k = n or int(rng.integers(3, 25)), d or int(rng.integers(1, 9)), k or int(rng.integers(1, 5))
    y = rng.choice([-1, 1], n)
    X = rng.normal(size=(n, d)) * rng.exponential(size=d) * 3 + np.outer(y, rng.normal(size=d)) + mean * rng.normal()
    if seed % 4 == 1:
        X[:, 0] = 7.0  # a constant column
    if seed % 4 == 2:
        X[n // 2 :] = X[: n - n // 2]  # duplicates
    if kind == "targets":
        targets = X @ rng.normal(size=d) / (1 + mean)
        targets[rng.random(n) < 0.2] = np.nan
        terms = target_terms(targets, 0.1)
        levels = np.nan_to_num(np.stack([targets - 0.1, -targets - 0.1], axis=1))
        signs = np.where(np.isnan(targets)[:, None], 0.0, [1.0, -1.0])
    else:
        labels = [int(v) if kind == "labels" or rng.random() < 0.5 else None for v in y]
        terms = labelled_terms(labels, 1)
        signs = np.array([[0.0 if v is None else float(v)] for v in labels])
        levels = np.abs(signs)
    return (
        X,
        terms,
        Terms(levels[:, None], signs[:, None]),
        float(rng.choice([0.1, 1, 10, 100])),
        rng.normal(size=(d, k)),
    )


class Fast:
    """The fast form of m variants, loadings (m, d, k) or those of one, step by step."""

    def __init__(self, X, terms, C, W, noise, centre):
        W, C = W.reshape(-1, *W.shape[-2:]), np.ravel(C)
        self.rows, self.terms = RowUnits(centre, None)(X), terms
        start = Posterior.start(W, np.full(len(W), noise), X.shape[1])
        self.q = replace(start, location=np.tile(X.mean(axis=0) - centre, (len(W), 1)))
        self.constants = Constants(C, centre, X.shape[1])
        self.table = TableSums.of(self.rows, np.ones((len(X), len(W))))
        self.inverse = (terms.signs != 0) / C[:, None]

    def pass_over_rows(self):
        rows, self.inverse = RowUpdate.of(self.q, self.constants)(self.rows, self.terms, self.inverse)
        self.sums = UpdateSums(rows, self.table, self.constants)

    def update(self, name):
        self.q = update(self.q, self.sums, (name,))

    def bounds(self):
        return evidence_bound(self.q, self.sums)

    def bound(self):
        return float(self.bounds()[0])


def same(found, expected, size=None):
    """Check that arrays agree, relative to the largest value, or to the ``size`` of what was added up."""
    size = np.abs(expected).max() if size is None else size
    np.testing.assert_allclose(found, expected, atol=1e-8 * max(size, 1e-300), rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n", "d", "k", "mean"), [(20, 4, 2, 0.0), (6, 11, 3, 5.0), (15, 3, 3, 1e4), (9, 1, 1, 1.0), (4, 5, 4, 1.0)]
)
def test_every_update_is_its_twin(kind, n, d, k, mean):
    X, twin_terms, terms, C, W = problem(n + d, kind, n, d, k, mean)
    twin = BayesianMargin(X, twin_terms, C, W, 0.7)
    centre = X[:5].mean(axis=0)  # any other than the mean: the prior of the location is about zero
    fast = Fast(X, terms, C, W, 0.7, centre)
    for _ in range(6):
        twin.update_z()
        twin.update_lambda()
        fast.pass_over_rows()
        inverse = np.zeros_like(fast.inverse)
        for i, row in enumerate(twin.inverse):
            inverse[i, 0, : len(row)] = row
        same(fast.inverse, inverse)
        same(fast.sums.rows.latent[0], twin.z.sum(axis=0), size=np.abs(twin.z).sum())
        same(fast.sums.rows.cross[0], (X - centre).T @ twin.z)
        same(fast.sums.rows.latent_squares[0], sum(twin.latent(i)[1][:k, :k] for i in range(n)))
        for name in ORDER:
            getattr(twin, f"update_{name}")()
            fast.update(name)
        q = fast.q
        same(q.weights[0], twin.eta)
        same(q.weight_covariance[0], twin.eta_covariance)
        same(q.weight_precision[0], twin.nu)
        same(q.loadings[0], twin.M)
        same(q.loading_covariance[0], twin.S_W)
        same(q.location[0] + centre, twin.t)
        same(q.location_variance[0], twin.t_variance)
        same(q.relevance[0], twin.r)
        same(q.noise[0], twin.tau)
        assert fast.bound() == pytest.approx(twin.bound(), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_of_new_rows_are_those_of_the_twin(kind):
    X, twin_terms, terms, C, W = problem(5, kind, 18, 4, 2)
    twin, fast = BayesianMargin(X, twin_terms, C, W, 0.5), Fast(X, terms, C, W, 0.5, X.mean(axis=0))
    for _ in range(3):
        twin.sweep()
        fast.pass_over_rows()
        fast.q = update(fast.q, fast.sums)
    new = X[:5] + 0.3
    coef, intercept = fast.q.decisions(4)
    same((new - X.mean(axis=0)) @ coef[0] + intercept[0], np.array([twin.output(x) for x in new]))
    A = fast.q.projection(4)[0]
    same((new - X.mean(axis=0) - fast.q.location[0]) @ A, np.stack([twin.latent_of(x) for x in new]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_the_twin_never_falls(kind):
    """At every update, z and lambda among them: the updates are those of the model."""
    for seed in range(20):
        X, terms, _, C, W = problem(seed, kind)
        twin = BayesianMargin(X, terms, C, W, 1.0)
        twin.sweep()
        bounds = [twin.bound()]
        for _ in range(6):
            twin.sweep(lambda name, twin=twin, bounds=bounds: bounds.append(twin.bound()))
        assert np.min(np.diff(bounds)) >= -1e-11 * np.abs(bounds).max(), (seed, kind)


def test_the_bound_never_falls_in_a_thousand_problems():
    """After every pass, and at every update that follows it, of 200 tables with five problems each."""
    for seed in range(200):
        kind = KINDS[seed % 3]
        X, _, *first = problem(seed, kind)
        shape = (*X.shape, first[2].shape[1])
        others = [problem(1000 * seed + number, kind, *shape)[2:] for number in range(1, 5)]
        terms, C, W = zip(first, *others, strict=True)
        stacked = Terms(*(np.concatenate([getattr(each, name) for each in terms], 1) for name in ("levels", "signs")))
        fast = Fast(X, stacked, C, np.stack(W), 1.0, X.mean(axis=0))
        fast.pass_over_rows()
        fast.q = update(fast.q, fast.sums)
        bounds = [fast.bounds()]
        for _ in range(5):
            fast.pass_over_rows()
            bounds.append(fast.bounds())
            for name in ORDER:
                fast.update(name)
                bounds.append(fast.bounds())
        assert (np.diff(bounds, axis=0) >= -1e-10 * np.abs(bounds).max(axis=0)).all(), (seed, kind)


def alone_of(q, number):
    """Return the factors of a single variant."""
    return Posterior(**{name: value[[number]] for name, value in vars(q).items()})


def test_variants_side_by_side_are_fitted_as_if_alone_and_blocks_add_up():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(150, 5)), rng.integers(0, 3, 150)
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)[:, :, None]
    W, C, centre = rng.normal(size=(3, 5, 2)), np.array([1.0, 10.0, 100.0]), X.mean(axis=0)
    together = Posterior.start(W, np.full(3, 2.0), 5)
    rows = RowUnits(centre, None)
    constants = Constants(C, centre, 5)
    step = RowUpdate.of(together, constants)
    sums, inverse = step(rows(X), Terms(np.abs(signs), signs), np.ones((150, 3, 1)))
    parts = [
        step(rows(X[part]), Terms(np.abs(signs[part]), signs[part]), np.ones((len(signs[part]), 3, 1)))[0]
        for part in (slice(0, 64), slice(64, 150))
    ]
    for name, value in vars(parts[0] + parts[1]).items():
        np.testing.assert_allclose(value, getattr(sums, name), rtol=1e-10, atol=1e-10)
    for i in range(3):
        alone, state = RowUpdate.of(alone_of(together, i), Constants(C[[i]], centre, 5))(
            rows(X), Terms(np.abs(signs[:, [i]]), signs[:, [i]]), np.ones((150, 1, 1))
        )
        np.testing.assert_allclose(state[:, 0], inverse[:, i], rtol=1e-12)
        for name, value in vars(alone).items():
            np.testing.assert_allclose(value[0], getattr(sums, name)[i], rtol=1e-10, atol=1e-10)


def test_rows_that_do_not_train_leave_nothing():
    rng = np.random.default_rng(3)
    X, signs = rng.normal(size=(40, 4)), rng.choice([-1.0, 1.0], (40, 1, 1))
    trains = (rng.random((40, 1)) < 0.6).astype(float)
    kept, centre = trains[:, 0] > 0, X.mean(axis=0)
    rows, constants = RowUnits(centre, None), Constants(np.array([5.0]), centre, 4)
    step = RowUpdate.of(Posterior.start(rng.normal(size=(1, 4, 2)), np.ones(1), 4), constants)
    masked, state = step(rows(X), Terms(np.abs(signs), signs, trains), np.full((40, 1, 1), 0.2))
    alone, _ = step(rows(X[kept]), Terms(np.abs(signs[kept]), signs[kept]), np.full((int(kept.sum()), 1, 1), 0.2))
    for name, value in vars(masked).items():
        np.testing.assert_allclose(value, getattr(alone, name), rtol=1e-10, atol=1e-10)
    assert not state[~kept].any()


@pytest.mark.parametrize("scaled", [False, True])
def test_sparse_rows_are_centred_without_being_dense(scaled):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 6)) * (rng.random((30, 6)) < 0.4)
    centre, scale = X.mean(axis=0), rng.uniform(0.5, 2, 6) if scaled else None
    dense, sparse = (RowUnits(centre, scale)(rows) for rows in (X, csr_array(X)))
    vectors, weights = rng.normal(size=(6, 3)), rng.normal(size=(30, 2))
    np.testing.assert_allclose(sparse.images(vectors.T), dense.images(vectors.T), atol=1e-12)
    np.testing.assert_allclose(sparse.cross(weights.T), dense.cross(weights.T), atol=1e-12)
    np.testing.assert_allclose(sparse.squares(), dense.squares(), atol=1e-11)
    of_rows = weights[:, 0] ** 2
    np.testing.assert_allclose(sparse.scatter(of_rows), dense.scatter(of_rows), atol=1e-11)
    loop = sum(w * np.outer(x, x) for w, x in zip(of_rows, dense.X, strict=True))
    np.testing.assert_allclose(dense.scatter(of_rows), loop, atol=1e-11)
