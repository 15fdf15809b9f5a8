"""``missing="mean"``: every fit is that of rows whose gaps were filled with the mean of their column first."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from helpers.moment_reducers import REDUCERS
from helpers.samples import largest_angle
from helpers.tables import filled, in_form, with_gaps

from mmpca_dist import (
    AllColumns,
    BayesianMarginPCA,
    FisherScore,
    LogisticDiscriminant,
    MarginPCA,
    ProjectionPenaltyClassifier,
    RandomProjection,
)
from mmpca_dist.errors import InputError

METHODS = {
    **REDUCERS,
    "fisher score": lambda: FisherScore(3),
    "all columns": lambda: AllColumns(),
    "random": lambda: RandomProjection(2),
}


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize(("n", "d"), [(90, 7), (20, 40)])
def test_every_fit_is_that_of_filled_rows(n, d, method, tmp_path):
    if method == "all columns" and n < d:
        pytest.skip("its coordinates are those of a basis of the rows, of which there are several")
    X, y = with_gaps(n, d)
    for standardize in (False, True):
        settings = {"precision": "double", "standardize": standardize}
        expected = METHODS[method]().set_params(**settings).fit(filled(X), y)
        for form in ("array",) if standardize else ("array", "frame", "dask", "data set"):
            rows, labels = in_form(form, X, y, tmp_path)
            found = METHODS[method]().set_params(**settings, missing="mean").fit(rows, labels)
            assert largest_angle(found.components_, expected.components_.T) < 1e-7, form
            np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9, err_msg=form)
            np.testing.assert_allclose(found.mean_, expected.mean_, atol=1e-12)
            Z = np.asarray(found.transform(rows))
            np.testing.assert_allclose(np.abs(Z), np.abs(expected.transform(filled(X))), atol=1e-6, err_msg=form)


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_single_precision_keeps_its_digits(mean):
    X, y = with_gaps(400, 8, mean=mean)
    X = X.astype(np.float32)
    expected = MarginPCA(2, precision="double").fit(filled(X.astype(float)), y)
    found = MarginPCA(2, missing="mean").fit(X, y)
    assert largest_angle(found.components_, expected.components_.T) < 1e-4


def test_weights_of_rows_and_classes():
    X, y = with_gaps(90, 7)
    w = np.random.default_rng(0).integers(0, 4, 90)
    w[:6] = 1
    settings = {"precision": "double", "missing": "mean"}
    for variant in ("pca", "m-pca0", "m-pca1a", "m-pca2"):
        found = MarginPCA(2, variant=variant, **settings).fit(X, y, sample_weight=w)
        twin = MarginPCA(2, variant=variant, precision="double").fit(filled(np.repeat(X, w, axis=0)), np.repeat(y, w))
        np.testing.assert_allclose(found.components_, twin.components_, atol=1e-9, err_msg=variant)
        found = MarginPCA(2, variant=variant, class_weight={1: 3}, **settings).fit(X, y)
        w3 = np.where(y == 1, 3, 1)
        twin.fit(filled(np.repeat(X, w3, axis=0)), np.repeat(y, w3))
        np.testing.assert_allclose(found.components_, twin.components_, atol=1e-9, err_msg=variant)


def test_rows_that_come_later_move_the_means():
    X, y = with_gaps(90, 7)
    whole = MarginPCA(2, precision="double", missing="mean").fit(X, y)
    parts = MarginPCA(2, precision="double", missing="mean").partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    np.testing.assert_allclose(parts.components_, whole.components_, atol=1e-12)
    X[70, 3] = np.nan
    with pytest.raises(InputError, match=r"row 20, column 3.* had no gaps in the rows before"):
        MarginPCA(2, missing="mean").partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])


def test_solvers_in_passes():
    X, y = with_gaps(300, 30)
    for variant in ("pca", "m-pca0", "m-pca1a", "m-pca2"):
        expected = MarginPCA(2, variant=variant, precision="double").fit(filled(X), y)
        for given in (X, da.from_array(X, (50, -1))):
            settings = {"precision": "double", "missing": "mean", "solver": "krylov", "passes": 12, "tolerance": 0}
            found = MarginPCA(2, variant=variant, **settings).fit(given, da.from_array(y, 50) if given is not X else y)
            assert largest_angle(found.components_, expected.components_.T) < 1e-6, variant


def test_refused():
    X, y = with_gaps(60, 5)
    with pytest.raises(InputError, match="Found nan in row"):
        MarginPCA(2).fit(da.from_array(X, (20, -1)), y)
    with pytest.raises(InputError, match=r"^MarginPCA: column 1 of X has NaN in row 6\. Fill .* or set missing='mean'"):
        MarginPCA(2).fit(X, y)
    with pytest.raises(ValueError, match="missing='median'"):
        MarginPCA(2, missing="median").fit(X, y)
    X[:, 1] = np.nan
    with pytest.raises(InputError, match=r"^MarginPCA: Column 'b' has no value in any row"):
        MarginPCA(2, missing="mean").fit(pd.DataFrame(X, columns=list("abcde")), y)
    with pytest.raises(InputError, match="Found nan in row"):
        MarginPCA(2, missing="mean").fit(scipy.sparse.csr_array(X), y)


SWEPT = {
    "bm2pca": lambda: BayesianMarginPCA(2, max_iter=5),
    "logistic discriminant": lambda: LogisticDiscriminant(),
    **{
        loss: lambda loss=loss: ProjectionPenaltyClassifier("m-pca0", n_components=2, loss=loss)
        for loss in ("squared", "logistic", "squared hinge")
    },
    "chosen alpha": lambda: ProjectionPenaltyClassifier("pca", n_components=2, loss="squared", alpha="auto"),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*edge", "ignore:.*smallest")
@pytest.mark.parametrize("method", list(SWEPT))
@pytest.mark.parametrize(("n", "d"), [(90, 7), (20, 30)])
def test_sweeps_read_filled_rows(n, d, method):
    X, y = with_gaps(n, d)
    found = SWEPT[method]().set_params(missing="mean", precision="double").fit(X, y)
    expected = SWEPT[method]().set_params(precision="double").fit(filled(X), y)
    Z, twin = found.transform(X), expected.transform(filled(X))
    np.testing.assert_allclose(Z, twin, atol=1e-5 * np.abs(twin).max())
    if hasattr(found, "predict"):
        assert (found.predict(X) == expected.predict(filled(X))).all()
