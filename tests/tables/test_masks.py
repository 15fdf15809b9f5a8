"""What is masked is a gap of rows, and no label, weight, target or covariate."""

import dask.array as da
import numpy as np
import pytest

from mmpca_dist import PLS, MarginPCA, NearestOpposite, class_moments, evaluate
from mmpca_dist.errors import InputError

RNG = np.random.default_rng(7)
Y = np.repeat([0, 1, 2], 20)
X = RNG.normal(size=(60, 4)) + 3 * (Y[:, None] == np.arange(4))
MASK = RNG.random(X.shape) < 0.05
WITH_NAN = np.where(MASK, np.nan, X)
MASKED = np.ma.array(np.where(MASK, 1e6, X), mask=MASK)
OF_ROW_3 = np.arange(60) == 3
ROWS = {
    "numpy.ma": MASKED,
    "dask.array.ma": da.from_array(MASKED, (13, 4)),
    "a mask made by Dask": da.ma.masked_greater(da.from_array(MASKED.data, (13, 4)), 1e5),
    "declared without a mask": da.from_array(MASKED.data, (13, 4)).map_blocks(
        lambda b: np.ma.masked_greater(b, 1e5), meta=np.empty((0, 0))
    ),
    "a list of masked rows": list(MASKED),
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_masked_values_of_rows_are_gaps(rows):
    whole = MarginPCA(2, "pca", missing="mean").fit(WITH_NAN, Y)
    fitted = MarginPCA(2, "pca", missing="mean").fit(rows, Y)
    np.testing.assert_allclose(fitted.eigenvalues_, whole.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(whole.transform(rows)), whole.transform(WITH_NAN), atol=1e-12)
    with pytest.raises(InputError, match=r"(?i)NaN"):
        MarginPCA(2, "pca").fit(rows, Y)


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: da.from_array(a, 13)], ids=["numpy.ma", "dask.array.ma"])
def test_masked_whole_numbers_become_gaps(wrap):
    whole = np.where(MASK, 10**6, (10 * X).astype(int))
    wanted = MarginPCA(2, "pca", missing="mean").fit(np.where(MASK, np.nan, whole), Y)
    fitted = MarginPCA(2, "pca", missing="mean").fit(wrap(np.ma.array(whole, mask=MASK)), Y)
    np.testing.assert_allclose(fitted.eigenvalues_, wanted.eigenvalues_, rtol=1e-12)


def masked(values):
    return np.ma.array(values, mask=OF_ROW_3)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("fit", "name"),
    [
        (lambda X, m: MarginPCA(2).fit(X, m(Y)), "y"),
        (lambda X, m: MarginPCA(2).fit(X, m(np.array(["a", "b", "c"])[Y])), "y"),
        (lambda X, m: MarginPCA(2).partial_fit(X, m(Y)), "y"),
        (lambda X, m: PLS(1, target="continuous").fit(X, m(Y + 0.5)), "y"),
        (lambda X, m: class_moments(X, m(Y)), "y"),
        (lambda X, m: NearestOpposite().fit(X, m(Y)), "y"),
        (lambda X, m: evaluate(X, m(Y), methods="pca"), "y"),
        (lambda X, m: MarginPCA(2).fit(X, Y, sample_weight=m(np.ones(60))), "sample_weight"),
        (lambda X, m: class_moments(X, Y, sample_weight=m(np.ones(60))), "sample_weight"),
        (lambda X, m: MarginPCA(2).fit(X, Y, covariates=m(np.arange(60.0))), "covariates"),
    ],
)
def test_a_mask_beside_rows_is_refused(fit, name, lazy):
    rows, wrap = (da.from_array(X, (13, 4)), lambda a: da.from_array(masked(a), 13)) if lazy else (X, masked)
    with pytest.raises(InputError, match=f"{name} is masked in row 3"):
        fit(rows, wrap)


def test_an_empty_mask_is_none():
    plain, fitted = (MarginPCA(2).fit(rows, y) for rows, y in [(X, Y), (np.ma.array(X), np.ma.array(Y))])
    assert np.array_equal(plain.components_, fitted.components_)
    assert np.array_equal(MarginPCA(2).fit(np.asmatrix(X), Y).components_, plain.components_)


def test_masked_dates_are_no_features():
    with pytest.raises(InputError, match="X"):
        MarginPCA(2, "pca").fit(np.ma.array(X.astype("M8[s]"), mask=MASK), Y)
