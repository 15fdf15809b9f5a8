"""Constant columns of any size, and weights of any size, take nothing from the components.

All that counts of weights is their ratio, of which one class may have nearly all.
"""

from fractions import Fraction

import dask.array as da
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
    MaximumMarginCriterion,
    RandomProjection,
    RidgeDirections,
    ScatterContrast,
    SupervisedPCA,
    class_moments,
    load_model,
    run,
)

RNG = np.random.default_rng(4)
Y = np.arange(120) % 3
X = RNG.normal(size=(120, 5)) * [3, 2, 1, 0.5, 1] + np.outer(Y, [1, 0, 2, 0, -1]) + np.outer(Y == 2, [0, 0, 0, 3, 0])
W = RNG.uniform(0.5, 2, 120)
WIDE = np.hstack([X, RNG.normal(size=(120, 195))])
WEIGHED = [
    MarginPCA(2, "pca"), MarginPCA(2), MarginPCA(2, "m-pca1a"), FisherDiscriminant(2), LOL(2), PLS(2),
    SupervisedPCA(2), MaximumMarginCriterion(1), ScatterContrast(2),
]  # fmt: skip
KINDS = [*WEIGHED, MarginPCA(2, "m-pca1b"), RidgeDirections(2)]
WEIGHED += [SupervisedPCA(1, kernel="linear"), FisherScore(2), LassoSelection(2), RandomProjection(2)]


def named(method):
    return "".join(str(vars(method).get(name) or "") for name in ("variant", "kernel")) + type(method).__name__


def apart(A, B):
    """Return the largest difference of directions, whose signs are those of each row."""
    A, B = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (A, B))
    return np.abs(A - B).max()


@pytest.mark.parametrize("value", [1.7e18, -1e15, 3e8, 1e-300])
@pytest.mark.parametrize("method", KINDS, ids=named)
@pytest.mark.parametrize("standardize", [False, True])
def test_a_constant_column_of_any_size_changes_nothing(value, method, standardize):
    fit = method.set_params(standardize=standardize).fit
    expected, wide = fit(X, Y).components_.copy(), np.insert(X, 2, value, axis=1)
    for rows in (wide, da.from_array(wide, (50, 6))):
        found = fit(rows, Y).components_
        if not isinstance(method, FisherDiscriminant):  # its shrinkage counts the columns
            np.testing.assert_allclose(np.delete(found, 2, axis=1), expected, atol=1e-5 * np.abs(expected).max())
        assert not found[:, 2].any()
    np.testing.assert_array_equal(fit(X.astype(np.float32), Y).components_.shape, expected.shape)


@pytest.mark.parametrize("columns", [300, 2500])
def test_many_columns_and_solvers_in_passes_as_well(columns):
    wide = np.hstack([X, RNG.normal(0, 0.1, (120, columns))])
    both = np.insert(wide, 7, 1.7e18, axis=1)
    for solver in ("auto", "krylov"):
        model = MarginPCA(2, "pca", solver=solver, precision="double")
        expected = model.fit(wide, Y).components_.copy()
        found = model.fit(both, Y).components_
        np.testing.assert_allclose(np.delete(found, 7, axis=1), expected, atol=1e-6)
        assert not found[:, 7].any()


def test_numbers_to_predict_beside_a_constant():
    y = X[:, 0] + 0.1 * RNG.normal(size=120)
    model = PLS(2, target="continuous")
    expected = model.fit(X, y).components_.copy()
    found = model.fit(np.insert(X, 0, 1.7e18, axis=1), y).components_
    np.testing.assert_allclose(found[:, 1:], expected, atol=1e-9)


@pytest.mark.usefixtures("no_report")
def test_a_run_of_nanoseconds_that_stand_still(tmp_path):
    results = run(config_of(tmp_path / "out", write_parquet(tmp_path / "t.parquet", X, Y, clock=np.full(120, 1.7e18)),
                            methods=["pca", "fisher", "m-pca1a"], n_components=2, standardize=False))  # fmt: skip
    assert [model["n_components"] for model in results["solve"]["models"].values()] == [2, 2, 2]


@pytest.mark.parametrize("size", [1e300, 1e-300, 1e160, 1e-160, 1e40])
@pytest.mark.parametrize("method", WEIGHED, ids=named)
@pytest.mark.parametrize("rows", [X, WIDE], ids=["tall", "wide"])
def test_a_unit_of_weights_changes_no_component(method, size, rows):
    """Of weights that vary, also in single precision, and of those of classes."""
    for precision, room in (("single", 1e-5), ("double", 1e-8)):
        fit = method.set_params(standardize=False, precision=precision, class_weight=None).fit
        expected = fit(rows, Y, sample_weight=W).components_
        assert apart(fit(rows, Y, sample_weight=W * size).components_, expected) < room
    expected = fit(rows, Y).components_
    method.set_params(class_weight=dict.fromkeys(range(3), size))
    assert apart(fit(rows, Y).components_, expected) < 1e-8


@pytest.mark.parametrize("size", [1e300, 1e-300, 1e40])
@pytest.mark.parametrize("kind", [PLS, SupervisedPCA])
def test_nor_of_numbers_to_predict(kind, size):
    fit, numbers = kind(1, target="continuous").fit, Y + W
    expected = fit(X, numbers, sample_weight=W).components_
    assert apart(fit(X, numbers, sample_weight=W * size).components_, expected) < 1e-5


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
        [sum(Fraction(w) * row[j] for w, row, y in zip(weights, rows, Y, strict=True) if y in some) for j in range(5)]
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


@pytest.mark.parametrize("weight", [1e300, 1e-300, 1e18])
def test_one_heavy_class_leaves_the_others_their_part(weight):
    """Pairs of rows of two classes: each class counts alike, whatever its weight."""
    rows, y = X[Y < 2], Y[Y < 2]
    model = MarginPCA(2, precision="double", class_weight={0: weight, 1: 1})
    apart = (rows[y == 0][:, None] - rows[y == 1]).reshape(-1, 5)
    _, vectors = np.linalg.eigh(apart.T @ apart)
    found = model.fit(rows, y).components_
    np.testing.assert_allclose(np.abs(np.einsum("kd,dk->k", found, vectors[:, :-3:-1])), 1, atol=1e-9)
