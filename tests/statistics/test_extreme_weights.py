"""Weights far from 1 change no component: all that counts is their ratio, which one class may have nearly all of."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.tables import config_of, write_parquet

from mmpca_dist import (
    LOL,
    PLS,
    FisherDiscriminant,
    FisherScore,
    LassoSelection,
    MarginPCA,
    RandomProjection,
    SupervisedPCA,
    class_moments,
    load_model,
    run,
)

RNG = np.random.default_rng(4)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 4)) * [3, 2, 1, 0.5] + np.asarray([[0, 0, 0, 0], [1, 0, 2, 0], [0, 1, 0, 3.0]])[Y]
W = RNG.uniform(0.5, 2, 60)
NUMBERS = Y + W
KINDS = {
    **{variant: (lambda variant=variant: MarginPCA(2, variant), Y) for variant in ("pca", "m-pca0", "m-pca1a")},
    "fisher": (lambda: FisherDiscriminant(2), Y),
    "lol": (lambda: LOL(2), Y),
    "hsic": (lambda: SupervisedPCA(2), Y),
    "hsic, linear": (lambda: SupervisedPCA(1, kernel="linear"), Y),
    "hsic of numbers": (lambda: SupervisedPCA(1, target="continuous"), NUMBERS),
    "pls": (lambda: PLS(2), Y),
    "pls of numbers": (lambda: PLS(1, target="continuous"), NUMBERS),
    "fisher-score": (lambda: FisherScore(2), Y),
    "lasso": (lambda: LassoSelection(2), Y),
    "random-projection": (lambda: RandomProjection(2), Y),
}


def apart(A, B):
    """Return the largest difference of directions, whose signs are those of each row."""
    A, B = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (A, B))
    return np.abs(A - B).max()


@pytest.mark.parametrize("size", [1e300, 1e-300, 1e160, 1e-160, 1e40])
@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_of_weights_changes_no_component(kind, size):
    make, y = KINDS[kind]
    wanted = make().fit(X, y, sample_weight=W).components_
    assert apart(make().fit(X, y, sample_weight=W * size).components_, wanted) < 1e-5


@pytest.mark.parametrize("size", [1e300, 1e-300, 1e40, 1e-40])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_moments_of_extreme_weights(precision, size):
    wanted = class_moments(X, Y, sample_weight=W, precision="double")
    found = class_moments(X, Y, sample_weight=W * size, precision=precision)
    np.testing.assert_allclose(found.means, wanted.means, atol=1e-6)
    np.testing.assert_allclose(found.scatters / size, wanted.scatters, atol=1e-6 * wanted.scatters.max())


def exact_means(weights):
    """Return the weight of each class, its mean and that of the other rows, in fractions."""
    rows = [[Fraction(value) for value in row] for row in X.tolist()]
    total = [
        [sum(Fraction(w) * row[j] for w, row, y in zip(weights, rows, Y, strict=True) if y in some) for j in range(4)]
        for some in ([0], [1], [2], [1, 2], [0, 2], [0, 1])
    ]
    counts = [sum(Fraction(w) for w, y in zip(weights, Y, strict=True) if y == c) for c in range(3)]
    rest = [sum(counts) - count for count in counts]
    own = [[value / counts[c] for value in total[c]] for c in range(3)]
    others = [[value / rest[c] for value in total[3 + c]] for c in range(3)]
    return counts, rest, own, others


@pytest.mark.parametrize("weights", [{1: 1e18}, {1: 1e-18}, {0: 1e18, 2: 1e-18}, {2: 1e15}, {0: 1e12, 2: 1e-9}])
def test_a_class_that_has_nearly_all_the_weight(weights):
    w = [weights.get(label, 1.0) for label in Y.tolist()]
    counts, rest, own, others = exact_means(w)
    gaps = np.asarray([[float(a - b) for a, b in zip(own[c], others[c], strict=True)] for c in range(3)])
    scatter = sum(
        float(counts[c] / sum(counts)) * (np.cov(X[c == Y].T, bias=True) + np.outer(gaps[c], gaps[c])) for c in range(3)
    )
    values, vectors = np.linalg.eigh(scatter)
    products = gaps * [[float(counts[c] * rest[c] / sum(counts))] for c in range(3)]
    for keywords, given in (({"class_weight": weights}, {}), ({}, {"sample_weight": w})):
        fitted = MarginPCA(2, "m-pca1a", precision="double", **keywords).fit(X, Y, **given)
        np.testing.assert_allclose(fitted.eigenvalues_, values[:-3:-1], rtol=1e-9)
        assert min(apart(fitted.components_[:1], s * vectors.T[-1:]) for s in (1, -1)) < 1e-9
        found = SupervisedPCA(1, precision="double", **keywords).fit(X, Y, **given).components_
        assert min(apart(found, s * np.linalg.svd(products)[2][:1]) for s in (1, -1)) < 1e-9


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_a_run_of_extreme_weights(size, tmp_path):
    uri = write_parquet(tmp_path / "t.parquet", X, Y, w=W * size)
    methods = ["pca", "m-pca0", "m-pca1a", "fisher", "hsic", "pls"]
    run(config_of(tmp_path / "out", uri, methods=methods, n_components=2, dataset={"weight": "w"}))
    for method in methods:
        found = load_model(str(tmp_path / "out"), method)
        wanted = type(found)(**{**found.get_params(), "n_components": 2}).fit(X, Y, sample_weight=W)
        assert apart(found.components_, wanted.components_) < 1e-5
