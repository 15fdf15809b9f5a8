"""Erased rows: LEACE's, of zero covariance with the classes, whatever reads them; what that does not promise."""

import dask.array as da
import naive_scatters
import numpy as np
import pandas as pd
import pytest
from helpers.tables import labelled
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from mmpca_dist import ConceptEraser, class_moments
from mmpca_dist.errors import InputError, NoComponentsError

SHAPES = {"tall": (300, 8), "wide": (20, 50), "nearly square": (31, 30)}


def rows(n, d, n_classes=3, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    mixed = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    return mixed + 3 * rng.standard_normal((n_classes, d))[y] + offset, y


def left(Z, X, y, w=None):
    """Return the norm of the covariance with the classes after erasing, by that before."""
    after, before = (np.linalg.norm(naive_scatters.concept_covariance(each, y, w)) for each in (Z, X))
    return after / before


@pytest.mark.parametrize("shape", SHAPES)
def test_without_shrinkage_it_is_leace(shape):
    """Twice the rounding of a pseudo-inverse of condition 1e4 and less."""
    X, y = rows(*SHAPES[shape])
    eraser = ConceptEraser(shrinkage=0, precision="double").fit(X, y)
    np.testing.assert_allclose(eraser.transform(X), naive_scatters.erased(X, y), atol=1e-9 * np.abs(X).max())
    assert eraser.components_.shape == eraser.taken_.shape == (2, X.shape[1])


def test_it_is_concept_erasure_of_eleuther():
    peer = pytest.importorskip("concept_erasure")
    torch = pytest.importorskip("torch")
    X, y = rows(300, 8)
    fitter = peer.LeaceFitter(8, 3, dtype=torch.float64, shrinkage=False, constrain_cov_trace=False, svd_tol=1e-9)
    fitter.update(torch.from_numpy(X), torch.nn.functional.one_hot(torch.from_numpy(y), 3))
    expected = fitter.eraser(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(ConceptEraser(shrinkage=0, precision="double").fit_transform(X, y), expected, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"shrinkage": 0.0}, {"shrinkage": 0.5}, {"standardize": True}], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_covariance_is_left(shape, options):
    """Both are products of rounding 1e-16, and a map whose norm is about 10."""
    X, y = rows(*SHAPES[shape])
    eraser = ConceptEraser(precision="double", **options).fit(X, y)
    assert left(eraser.transform(X), X, y) < 1e-14
    told = eraser.certificate_["covariance"]
    np.testing.assert_allclose(told["before"], np.linalg.norm(naive_scatters.concept_covariance(X, y)), rtol=1e-9)
    assert told["after"] < 1e-14 * told["before"]
    np.testing.assert_allclose(eraser.transform(X).mean(axis=0), X.mean(axis=0), atol=1e-12)


def test_means_far_larger_than_the_spread():
    """A mean of 1e6 is stored to 1e-10; a covariance of spread 1 is told to no more."""
    X, y = rows(300, 8, offset=1e6)
    eraser = ConceptEraser(shrinkage=0, precision="double").fit(X, y)
    assert left(eraser.transform(X), X, y) < 1e-9
    np.testing.assert_allclose(eraser.transform(X), naive_scatters.erased(X, y), atol=1e-6)


@pytest.mark.parametrize("shrinkage", [0.0, 1e-3])
def test_constant_columns_stay_as_they_are(shrinkage):
    X, y = rows(300, 8)
    X[:, [2, 5]] = 0.1, -7e5
    Z = ConceptEraser(shrinkage=shrinkage, precision="double").fit_transform(X, y)
    np.testing.assert_array_equal(Z[:, [2, 5]], X[:, [2, 5]])
    assert left(Z, X, y) < 1e-14


@pytest.mark.parametrize("shrinkage", [0.0, 1e-3])
def test_columns_of_very_different_scale(shrinkage):
    X, y = rows(300, 8)
    X *= np.logspace(-6, 6, 8)
    Z = ConceptEraser(shrinkage=shrinkage, precision="double", standardize=True).fit_transform(X, y)
    before, after = (naive_scatters.concept_covariance(each, y) / X.std(axis=0)[:, None] for each in (X, Z))
    assert np.linalg.norm(after) < 1e-12 * np.linalg.norm(before)


def test_weights_are_repeated_rows():
    X, y = rows(120, 6)
    w = np.random.default_rng(1).integers(0, 4, 120)
    eraser = ConceptEraser(shrinkage=0, precision="double").fit(X, y, sample_weight=w)
    kept = w > 0
    np.testing.assert_allclose(eraser.transform(X[kept]), naive_scatters.erased(X[kept], y[kept], w[kept]), atol=1e-9)
    assert left(eraser.transform(X), X, y, w) < 1e-14


def test_a_class_without_weight_is_not_erased():
    X, y = rows(300, 8)
    eraser = ConceptEraser(precision="double", class_weight={2: 0}).fit(X, y)
    Z, two = eraser.transform(X), y < 2
    assert len(eraser.components_) == 1
    assert left(Z[two], X[two], y[two]) < 1e-14
    assert left(Z, X, y) > 1e-3


def test_standardising_changes_the_shrunk_map_alone():
    X, y = rows(300, 8)
    X *= np.logspace(-2, 2, 8)
    plain, scaled = (ConceptEraser(shrinkage=0, precision="double", standardize=one) for one in (False, True))
    np.testing.assert_allclose(plain.fit_transform(X, y), scaled.fit_transform(X, y), atol=1e-8)


def test_moments_parts_and_rows_give_one_map():
    X, y = rows(300, 8)
    whole = ConceptEraser(precision="double").fit(X, y)
    merged = class_moments(X[:99], y[:99], precision="double").merge(class_moments(X[99:], y[99:], precision="double"))
    parts = ConceptEraser(precision="double").partial_fit(X[:99], y[:99]).partial_fit(X[99:], y[99:])
    for other in (ConceptEraser.from_moments(merged, precision="double"), parts):
        np.testing.assert_allclose(other.whole_map()[0], whole.whole_map()[0], atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lazy_rows_stay_lazy(dtype):
    X, y = rows(300, 8)
    X = X.astype(dtype)
    eager = ConceptEraser(precision="double").fit(X, y)
    lazy = ConceptEraser(precision="double").fit(da.from_array(X, (70, 8)), da.from_array(y, 70))
    Z = lazy.transform(da.from_array(X, (40, 3)))
    assert isinstance(Z, da.Array) and Z.shape == X.shape and Z.dtype == dtype
    np.testing.assert_allclose(Z.compute(), eager.transform(X), atol=20 * np.finfo(dtype).eps * np.abs(X).max())


@pytest.mark.parametrize("shape", SHAPES)
def test_sparse_rows_and_their_operator(shape):
    X, y = labelled(*SHAPES[shape], 3, seed=1)
    X[np.abs(X) < 0.8] = 0
    S = sparse.csr_array(X)
    eraser = ConceptEraser(precision="double").fit(S, y)
    Z = eraser.transform(S)
    assert isinstance(Z, np.ndarray) and left(Z, X, y) < 1e-13
    np.testing.assert_allclose(Z, eraser.transform(X), atol=1e-12)
    A, B = np.random.default_rng(0).standard_normal((X.shape[1], 2)), np.random.default_rng(0).standard_normal(len(X))
    operator = eraser.operator(S)
    np.testing.assert_allclose(operator @ A, Z @ A, atol=1e-11)
    np.testing.assert_allclose(operator @ A[:, 0], Z @ A[:, 0], atol=1e-11)
    np.testing.assert_allclose(operator.T @ B, Z.T @ B, atol=1e-11)


def test_solvers_in_passes_erase_all():
    """Class means are exact there; only the least change of the rows is approximate."""
    X, y = rows(400, 60)
    eraser = ConceptEraser(precision="double", solver="krylov").fit(X, y)
    assert left(eraser.transform(X), X, y) < 1e-13
    assert eraser.certificate_["solver"]["solver"] == "krylov"


def test_covariates_and_gaps():
    X, y = rows(300, 8)
    age = np.random.default_rng(2).standard_normal((300, 1))
    confounded = X + age @ np.ones((1, 8))
    eraser = ConceptEraser(precision="double").fit(confounded, y, covariates=age)
    assert left(eraser.transform(confounded, age), X, y) < 1e-12
    X[3, 2] = np.nan
    Z = ConceptEraser(precision="double", missing="mean").fit(X, y).transform(X)
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    assert np.isfinite(Z).all() and left(Z, filled, y) < 1e-12


def test_names_and_frames():
    X, y = rows(90, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    Z = ConceptEraser().set_output(transform="pandas").fit(frame, y).transform(frame)
    assert list(Z.columns) == ["a", "b", "c"]


def test_centred_rows_come_back():
    X, y = rows(90, 3)
    eraser = ConceptEraser(center=True, precision="double").fit(X, y)
    Z = eraser.transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    A, mean, _ = eraser.whole_map()
    np.testing.assert_allclose((X - mean) @ A, Z, atol=1e-12)
    plain = ConceptEraser(precision="double").fit(X, y)
    np.testing.assert_allclose(eraser.inverse_transform(Z), plain.transform(X), atol=1e-12)


def test_equal_means_and_opposite_skew_are_told_apart_by_a_threshold():
    """Zero covariance is about linear models with convex losses; it does not hold for the errors of a threshold."""
    skewed, y = np.concatenate([[-9.0] * 500, [1.0] * 4500, [9.0] * 500, [-1.0] * 4500]), np.repeat([0, 1], 5000)
    X = np.stack([skewed, y + np.random.default_rng(0).standard_normal(10_000)], axis=1)
    eraser = ConceptEraser(precision="double").fit(X, y)
    Z = eraser.transform(X)
    assert eraser.certificate_["covariance"]["after"] < 1e-14
    logistic = LogisticRegression(C=np.inf, tol=1e-10).fit(Z, y)
    assert log_loss(y, logistic.predict_proba(Z)) > np.log(2) - 1e-9, "no better than a constant"
    assert np.mean((Z[:, 0] < 0) == y) > 0.85, "and yet a threshold is right nine times in ten"


def test_nothing_to_erase_and_a_class_alone():
    X, y = rows(300, 4, 2)
    X[y == 1] = X[y == 0]
    with pytest.raises(NoComponentsError, match="class means are equal"):
        ConceptEraser(precision="double").fit(X, y)
    with pytest.raises(InputError, match="only 1 class"):
        ConceptEraser().fit(X, np.zeros(300, int))
