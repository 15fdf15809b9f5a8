"""Sliced average variance estimation against its twin, and what it finds where class means say nothing."""

from __future__ import annotations

import dask.array as da
import naive
import numpy as np
import pytest
import scipy.sparse
from helpers.samples import labelled, largest_angle

from mmpca_dist import SAVE, FisherDiscriminant, class_moments, load_model, run
from mmpca_dist.errors import InputError

EPS = float(np.finfo(np.float64).eps)


def of_unequal_spread(n, d, n_classes, seed, mean=0.0):
    """Return rows whose classes have other means, and other covariances."""
    X, y = labelled(n, d, n_classes, seed=seed)
    rng = np.random.default_rng(seed)
    scales = np.exp(0.7 * rng.standard_normal((n_classes, d)))
    return X * scales[y] + mean, y


def compared(found, X, y, shrinkage):
    """Hold components and eigenvalues against the twin's; return how many there are."""
    M, root = naive.save(X, y, shrinkage)
    values, vectors = naive.eigenpairs(M)
    S = np.linalg.inv(root @ root)
    # Errors in the covariances, and those of large means, grow with the condition of what whitens them.
    offset = np.abs(X.mean(axis=0)).max() / X.std(axis=0).max()
    room = 1e3 * EPS * (1 + offset) * np.linalg.cond(root) ** 2 * len(S)
    assert room < 1e-3, "the rows are too ill-conditioned for this test to say anything"
    K = len(found.eigenvalues_)
    assert np.all(values[K:] <= room), "a direction is missing"
    np.testing.assert_allclose(found.eigenvalues_, values[:K], atol=room)
    assert found.total_ == pytest.approx(np.trace(M), abs=len(S) * room)
    for k in range(1, K):
        if values[k - 1] - values[k] > 100 * room:
            angle = largest_angle(found.components_[:k] @ np.linalg.inv(root), vectors[:, :k])
            assert angle <= 10 * room / (values[k - 1] - values[k])
    np.testing.assert_allclose(found.components_ @ S @ found.components_.T, np.eye(K), atol=room)
    return K


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "n_classes", "mean", "shrinkage", "expected"),
    [
        (90, 6, 3, 0.0, 1e-3, 6), (60, 5, 2, 0.0, 0.0, 5), (80, 5, 2, 1e5, 0.1, 5), (12, 30, 3, 0.0, 0.05, 11),
        (60, 9, 5, 50.0, 0.5, 9),
    ],
)  # fmt: skip
def test_it_is_its_twin(n, d, n_classes, mean, shrinkage, expected, standardize):
    X, y = of_unequal_spread(n, d, n_classes, seed=d, mean=mean)
    found = SAVE(shrinkage=shrinkage, precision="double", standardize=standardize).fit(X, y)
    rows = (X - X.mean(axis=0)) / X.std(axis=0) if standardize else X
    assert compared(found, rows, y, shrinkage) == expected


def test_tied_and_constant_columns_a_class_of_one_row_and_one_of_equal_rows():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (40, 4)).astype(float), np.arange(40) % 2
    X[1], y[1], y[2:6], X[2:6] = 9.0, 2, 3, X[2]
    X = np.column_stack([X, X[:, 0], np.full(40, 7.0)])
    found = SAVE(shrinkage=0.01, precision="double").fit(X, y)
    assert compared(found, X, y, 0.01) == 4
    with pytest.raises(InputError, match="singular up to rounding"):
        SAVE(shrinkage=0).fit(X, y)


def test_weighted_rows_are_repeated_rows_and_class_weights_multiply_them():
    X, y = of_unequal_spread(50, 4, 3, seed=4)
    w = np.random.default_rng(4).integers(0, 4, 50)
    found = SAVE(precision="double").fit(X, y, sample_weight=w)
    compared(found, np.repeat(X, w, axis=0), np.repeat(y, w), 1e-3)
    twice = np.where(y == 1, 2, 1)
    found = SAVE(precision="double", class_weight={0: 1, 1: 2, 2: 1}).fit(X, y)
    compared(found, np.repeat(X, twice, axis=0), np.repeat(y, twice), 1e-3)


def test_it_finds_classes_that_differ_in_spread_alone():
    rng = np.random.default_rng(5)
    y, turn = np.arange(3000) % 2, np.linalg.qr(rng.standard_normal((5, 5)))[0]
    X = rng.standard_normal((3000, 5)) * [4, 2, 1, 1, 1]
    X[:, 4] *= np.where(y == 1, 3, 1 / 3)
    for label in (0, 1):
        X[y == label] -= X[y == label].mean(axis=0)
    rows = X @ turn
    found = SAVE(1).fit(rows, y).transform(rows)[:, 0]
    assert abs(np.corrcoef(found, X[:, 4])[0, 1]) > 0.999  # chance turns it by about 1 / sqrt(3000)
    assert FisherDiscriminant(precision="double").fit(rows, y).eigenvalues_[0] < 1e-20


def test_single_precision_is_near_double_and_says_what_is_imprecise():
    X, y = of_unequal_spread(500, 6, 3, seed=6, mean=2.0)
    double, single = (SAVE(precision=precision).fit(X, y) for precision in ("double", "single"))
    K = len(single.eigenvalues_)
    off = np.abs(single.eigenvalues_ - double.eigenvalues_[:K]) / double.eigenvalues_[:K]
    assert K == 6 and np.all(off <= 100 * single.relative_errors_) and off.max() > 0


def test_parts_merge_and_sparse_rows_and_dask_arrays_give_what_dense_rows_give():
    X, y = of_unequal_spread(80, 5, 3, seed=2)
    X[np.abs(X) < 1] = 0
    whole = SAVE(precision="double").fit(X, y)
    moments = class_moments(X[:30], y[:30], precision="double")
    others = [SAVE.from_moments(moments, precision="double").partial_fit(X[30:], y[30:])]
    others += [SAVE(precision="double").fit(rows, y) for rows in (scipy.sparse.csr_array(X), da.from_array(X, (17, 5)))]
    for found in others:
        np.testing.assert_allclose(found.eigenvalues_, whole.eigenvalues_, rtol=1e-9)
        np.testing.assert_allclose(found.components_, whole.components_, atol=1e-8)


def test_pooled_scatters_are_refused(limits):
    X, y = of_unequal_spread(80, 5, 3, seed=2)
    limits.pooled_bytes = 100
    with pytest.raises(InputError, match="save needs the scatter of every class, and those of 3 classes"):
        SAVE().fit(X, y)


def test_a_run_reports_it(tmp_path):
    output = str(tmp_path / "out")
    run({"dataset": {"uri": "bundled:wine"}, "methods": ["pca", "save"], "n_components": 3, "output": output})
    assert load_model(output, "save").components_.shape == (3, 13)
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert "SAVE" in page and "squared differences between covariances" in page
