"""Constant columns of any size, and weights of any size, take nothing from the components."""

import dask.array as da
import numpy as np
import pytest
from helpers.tables import config_of, write_parquet

from mmpca_dist import (
    LOL,
    PLS,
    FisherDiscriminant,
    FisherScore,
    MarginPCA,
    MaximumMarginCriterion,
    RidgeDirections,
    SupervisedPCA,
    run,
)

RNG = np.random.default_rng(4)
Y = np.arange(120) % 3
X = RNG.normal(size=(120, 5)) + np.outer(Y, [1, 0, 2, 0, -1])
KINDS = [
    MarginPCA(2, "pca"), MarginPCA(2), MarginPCA(2, "m-pca1a"), MarginPCA(2, "m-pca1b"), FisherDiscriminant(2), LOL(2),
    PLS(2), SupervisedPCA(2), RidgeDirections(2), MaximumMarginCriterion(1),
]  # fmt: skip


def named(method):
    return type(method).__name__ + getattr(method, "variant", "")


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


WEIGHED = [method for method in KINDS if getattr(method, "variant", "") != "m-pca1b"]
WEIGHED = [method for method in WEIGHED if not isinstance(method, SupervisedPCA | RidgeDirections)]  # go by the sum


@pytest.mark.parametrize("weight", [1e300, 1e-300, 1e200, 1e-30])
@pytest.mark.parametrize("method", [*WEIGHED, FisherScore(2)], ids=named)
@pytest.mark.parametrize("columns", [5, 200])
def test_weights_of_any_size_give_the_same(weight, method, columns):
    method.set_params(standardize=False, precision="double", class_weight=None)
    rows = X if columns == 5 else np.hstack([X, RNG.normal(size=(120, columns - 5))])
    expected = method.fit(rows, Y).components_.copy()
    atol = 1e-8 * np.abs(expected).max()
    np.testing.assert_allclose(method.fit(rows, Y, sample_weight=np.full(120, weight)).components_, expected, atol=atol)
    method.set_params(class_weight=dict.fromkeys(range(3), weight))
    np.testing.assert_allclose(method.fit(rows, Y).components_, expected, atol=atol)
    method.set_params(class_weight=None)


@pytest.mark.parametrize("weight", [1e300, 1e-300, 1e18])
def test_one_heavy_class_leaves_the_others_their_part(weight):
    """Pairs of rows of two classes: each class counts alike, whatever its weight."""
    rows, y = X[Y < 2], Y[Y < 2]
    model = MarginPCA(2, precision="double", class_weight={0: weight, 1: 1})
    apart = (rows[y == 0][:, None] - rows[y == 1]).reshape(-1, 5)
    _, vectors = np.linalg.eigh(apart.T @ apart)
    found = model.fit(rows, y).components_
    np.testing.assert_allclose(np.abs(np.einsum("kd,dk->k", found, vectors[:, :-3:-1])), 1, atol=1e-9)
