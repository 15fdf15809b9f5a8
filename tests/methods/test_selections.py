"""Columns chosen one by one: the lasso's path and Fisher scores, against their definitions and scikit-learn."""

import itertools

import dask.array as da
import naive
import numpy as np
import pytest
import scipy.sparse
from helpers.tables import counts_like_text, labelled, mixed
from naive_regressions import lasso, targets
from sklearn.linear_model import Lasso, lars_path

from mmpca_dist import PLS, FisherScore, LassoSelection, RidgeDirections
from mmpca_dist.errors import InputError
from mmpca_dist.optimise.lasso_path import Change, Regression, changes_until, columns_with, lasso_path

SHAPES = [(60, 8), (15, 25)]


def changes_of(reducer):
    return [Change(p, int(c), bool(e), int(k)) for p, c, e, k in reducer.path_]


def active_at(changes, penalty):
    """Return the columns that are in any class's model just above a penalty."""
    inside = set()
    for change in changes:
        if change.penalty <= penalty:
            break
        (inside.add if change.enters else inside.discard)((change.column, change.path))
    return {column for column, _ in inside}


def signed(y):
    """Labels -1 and +1 of each class against the others; one column of two classes."""
    Y = targets(y)
    return Y if Y.shape[1] == 1 else 2 * Y - 1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_path_has_the_columns_of_the_lasso_at_every_penalty(shape, n_classes):
    X, y = mixed(*shape, n_classes, seed=1)
    reducer = LassoSelection(6, precision="double").fit(X, y)
    changes, rows = changes_of(reducer), naive.standardised(X)
    kinks = reducer.path_[:, 0]
    between = [(a + b) / 2 for a, b in itertools.pairwise(kinks) if a - b > 1e-6]
    assert len(between) > 4
    starts = [None] * signed(y).shape[1]
    for penalty in between:
        starts = [lasso(rows, t, penalty, start) for t, start in zip(signed(y).T, starts, strict=True)]
        expected = {int(j) for b in starts for j in np.flatnonzero(np.abs(b) > 1e-9)}
        assert active_at(changes, penalty) == expected
        theirs = np.atleast_2d(Lasso(alpha=penalty, tol=1e-12, max_iter=1_000_000).fit(rows, signed(y)).coef_)
        assert {int(j) for j in np.flatnonzero(np.abs(theirs).max(axis=0) > 1e-9)} == expected
    above = kinks[0] * (1 + 1e-6)
    assert not any(np.abs(lasso(rows, t, above)).any() for t in signed(y).T)


def supports(X, y):
    """Return what is not zero between the points of scikit-learn's path, in order."""
    _, _, coefficients = lars_path(X, y - y.mean(), method="lasso")
    known = np.abs(coefficients) > 1e-12 * np.abs(coefficients).max()  # one that leaves is zero up to rounding
    return [frozenset(np.flatnonzero(known[:, j] | known[:, j + 1]).tolist()) for j in range(known.shape[1] - 1)]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shape", SHAPES)
def test_columns_are_those_of_the_first_point_with_so_many(shape, seed):
    """The columns of scikit-learn's path from the rows; some of these paths let columns leave."""
    X, y = mixed(*shape, 2, seed=seed)
    along = supports(naive.standardised(X), 2.0 * y - 1)
    for k in range(1, 7):
        first = next(found for found in along if len(found) == k)
        reducer = LassoSelection(k, precision="double").fit(X, y)
        assert frozenset(reducer.columns_.tolist()) == first
        np.testing.assert_array_equal(reducer.components_, np.eye(X.shape[1])[reducer.columns_])
        assert (np.diff(reducer.eigenvalues_) <= 0).all()


def test_some_columns_leave_and_a_smaller_number_follows_the_path_anew():
    leaving = 0
    for seed in range(12):
        X, y = mixed(15, 25, 2, seed)
        largest = LassoSelection(8, precision="double").fit(X, y)
        leaving += int(np.sum(largest.path_[:, 2] == 0))
        for k in range(1, 8):
            columns, penalties = columns_with(changes_of(largest), k)
            expected = LassoSelection(k, precision="double").fit(X, y)
            assert columns.tolist() == expected.columns_.tolist()
            np.testing.assert_array_equal(penalties, expected.eigenvalues_)
    assert leaving > 5


def test_rows_and_gram_matrix_give_the_same_path():
    """Fewer rows than columns, with and without columns of zeros that make them fewer columns."""
    X, y = mixed(15, 12, 3, seed=3)
    tall = LassoSelection(7, precision="double").fit(X, y)
    wide = LassoSelection(7, precision="double").fit(np.column_stack([X, np.full((15, 9), 3.3)]), y)
    assert tall.columns_.tolist() == wide.columns_.tolist()
    np.testing.assert_allclose(tall.path_, wide.path_, atol=1e-12)


@pytest.mark.parametrize("rest", [0.0, 2e-17, -2e-17])
def test_a_coefficient_that_leaves_may_be_zero_up_to_rounding(rest, monkeypatch):
    """Which it is depends on the processor."""
    penalties, coefficients = np.array([3.0, 2.0, 1.0, 0.5]), np.array([[0, 0.1, rest, 0], [0, 0, 0.2, 0.3]])
    monkeypatch.setattr(Regression, "path", lambda *_: (penalties, coefficients))
    changes = list(lasso_path(Regression(np.array([3.0, 2.0]), np.eye(2)), 1e-16))
    assert changes == [Change(3.0, 0, True), Change(2.0, 1, True), Change(1.0, 0, False)]


@pytest.mark.parametrize("precision", ["single", "double"])
def test_columns_that_repeat_others_or_are_constant_never_come_in(precision):
    X, y = mixed(60, 4, 2, seed=4)
    X = np.column_stack([np.full(60, 1e8), X, X[:, 0], X @ [1.0, 2.0, -1.0, 0.5], np.zeros(60)])
    reducer = LassoSelection(precision=precision).fit(X, y)
    assert len(reducer.columns_) <= 4
    assert not {0, 7} & set(reducer.columns_.tolist())
    assert not {1, 5} <= set(reducer.columns_.tolist())
    with pytest.raises(InputError, match=r"n_components=8 is more than the \d components that LassoSelection finds"):
        LassoSelection(8, precision=precision).fit(X, y)


def test_standardising_and_units_change_nothing():
    X, y = mixed(60, 8, 3, seed=5)
    plain = LassoSelection(5, precision="double").fit(X, y)
    for reducer, rows in (
        (LassoSelection(5, precision="double", standardize=True), X),
        (LassoSelection(5, precision="double"), X * np.logspace(-6, 6, 8)),
    ):
        assert reducer.fit(rows, y).columns_.tolist() == plain.columns_.tolist()
        np.testing.assert_allclose(reducer.eigenvalues_, plain.eigenvalues_, rtol=1e-8)


def test_a_path_may_be_followed_in_pieces_and_ends():
    """Two equal columns and one that is orthogonal to the target: a path of a single column."""
    gram = np.asarray([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    cross, factor = np.asarray([0.5, 0.5, 0.0]), np.asarray([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for problem in (Regression(cross, gram=gram), Regression(cross, factor=factor, target=np.asarray([0.5, 0.0]))):
        (change,) = changes_until([lasso_path(problem, 1e-16)], 3)
        assert (change.column, change.enters, change.path) == (0, True, 0) and change.penalty == pytest.approx(0.5)
    assert changes_until([lasso_path(Regression(np.zeros(3), gram=gram), 1e-16)], 1) == []
    assert [len(each) for each in columns_with([], 2)] == [0, 0]


@pytest.mark.parametrize("make", [LassoSelection, FisherScore, PLS, RidgeDirections])
def test_chunks_and_the_pooling_of_many_classes_change_nothing(make, limits):
    (X, y), many = mixed(90, 5, 3, seed=7), labelled(150, 6, 7, seed=6)
    few, expected = (make(2, precision="double").fit(*rows) for rows in ((X, y), many))
    limits.pooled_bytes = 7 * 6 * 6 * 8 - 1
    assert_alike(make(2, precision="double").fit(*many), expected)
    for rows in (1, 7, 40):
        limits.unit_bytes = rows * 5 * 8
        for form in ((X, y), (da.from_array(X, (13, 2)), da.from_array(y, 30))):
            assert_alike(make(2, precision="double").fit(*form), few)


def assert_alike(found, expected):
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    size = np.abs(expected.components_).max()
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10 * size)


@pytest.mark.parametrize("make", [LassoSelection, PLS, RidgeDirections])
def test_solvers_in_passes_are_refused(make):
    X, y = mixed(60, 5, 3, seed=14)
    with pytest.raises(InputError, match=r"solver='krylov' never forms a scatter, and '(pls|ridge|lasso)' needs it"):
        make(2, solver="krylov").fit(X, y)


def scores_of(X, y):
    return np.asarray([naive.fisher_score(column, y.tolist()) for column in np.asarray(X).T])


@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("shape", [*SHAPES, (120, 5)])
def test_fisher_scores_are_those_of_exact_arithmetic(shape, n_classes, precision, mean):
    X, y = mixed(*shape, n_classes, seed=8)
    X += mean * np.abs(X).max(axis=0)
    expected = scores_of(X, y)
    reducer = FisherScore(precision=precision).fit(X, y)
    np.testing.assert_array_equal(reducer.columns_, np.argsort(-expected, kind="stable"))
    unit = np.finfo(np.float32 if precision == "single" and shape[0] >= shape[1] else np.float64).eps
    bound = shape[0] * (unit + np.finfo(float).eps * max(mean, 1)) * 8
    np.testing.assert_allclose(reducer.eigenvalues_, np.sort(expected)[::-1], rtol=bound / np.sqrt(expected.min()))
    np.testing.assert_allclose(reducer.total_, expected.sum(), rtol=bound / np.sqrt(expected.min()))


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "bool"])
def test_fisher_scores_of_every_type(dtype):
    X, y = mixed(80, 5, 2, seed=9)
    X = (X.mean(axis=0) < X if dtype == "bool" else X * 5 + 100).astype(dtype)
    expected = scores_of(X, y)
    np.testing.assert_allclose(
        FisherScore(precision="double").fit(X, y).eigenvalues_, np.sort(expected[expected > 0])[::-1], rtol=1e-9
    )


def test_two_classes_are_not_weighted_by_their_size():
    """Column 1 varies in the large class: weighted by rows it would come second."""
    y = np.repeat([0, 1], [90, 10])
    unit = np.where(np.arange(100) % 2, 1.0, -1.0)[:, None]
    X = unit * np.where(y[:, None] == 1, [10.0, 1.0], [1.0, 10.0]) + y[:, None] * [2.0, 3.0]
    found = FisherScore(precision="double").fit(X, y)
    unweighted = scores_of(X, y)
    np.testing.assert_allclose(found.eigenvalues_, np.sort(unweighted)[::-1], rtol=1e-10)
    means = np.stack([X[y == c].mean(axis=0) for c in (0, 1)]) - X.mean(axis=0)
    spread = np.stack([X[y == c].var(axis=0) for c in (0, 1)])
    weighted = (np.asarray([90, 10]) @ means**2) / (np.asarray([90, 10]) @ spread)
    assert np.argmax(weighted) != np.argmax(unweighted) == found.columns_[0] == 1


@pytest.mark.parametrize("solver", ["auto", "krylov"])
@pytest.mark.parametrize("n_columns", [0, 300])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_constant_columns_perfect_ones_and_ties(n_classes, n_columns, solver):
    """A constant never counts, what is constant in every class comes first, and equals go by their order."""
    y = np.arange(60) % n_classes
    rng = np.random.default_rng(11)
    noise = rng.standard_normal(60) + 1e4
    X = np.column_stack([noise + y, np.full(60, 0.1), y * 0.1 + 1e6, noise + y, -3.0 * y, np.full(60, 1e9)])
    X = np.column_stack([X, np.full((60, n_columns), 0.3)])
    for precision in ("single", "double"):
        reducer = FisherScore(precision=precision, solver=solver).fit(X, y)
        assert reducer.columns_.tolist() == [2, 4, 0, 3]
        assert np.isinf(reducer.eigenvalues_[:2]).all() and np.isnan(reducer.total_)
        np.testing.assert_allclose(reducer.eigenvalues_[2:], scores_of(X[:, [0, 3]], y), rtol=1e-3)
    with pytest.raises(InputError, match="limit is the number of columns that differ between the class means, 4"):
        FisherScore(5).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fisher_scores_from_one_pass_dense_and_sparse(n_classes):
    parts, X, y = counts_like_text(90, 40, n_classes, seed=12, dtype="float64")
    expected = FisherScore(5, precision="double").fit(X, y)
    for rows in (X, scipy.sparse.csr_array(parts, shape=X.shape), X * np.logspace(-9, 9, 40)):
        found = FisherScore(5, precision="double", solver="krylov").fit(rows, y)
        assert found.columns_.tolist() == expected.columns_.tolist()
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)


def test_one_row_a_class_has_no_spread():
    X, y = np.asarray([[1.0, 2.0], [1.0, 5.0]]), np.asarray([0, 1])
    found = FisherScore().fit(X, y)
    assert found.columns_.tolist() == [1] and np.isinf(found.eigenvalues_).all()
    assert found.transform(X).tolist() == [[2.0], [5.0]]
