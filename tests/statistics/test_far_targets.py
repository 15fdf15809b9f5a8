"""Numbers to predict that are far from zero: sums of products lose no digits for it."""

import numpy as np
import pytest
from helpers.tables import in_form

from mmpca_dist import PLS, RidgeDirections, SupervisedPCA
from mmpca_dist.statistics.adjustment import Adjustment, CrossSums
from mmpca_dist.statistics.widened_rows import widened
from mmpca_dist.tables.covariates import given_covariates
from mmpca_dist.tables.readers.memory import rows_in_memory, with_covariates, with_targets

RNG = np.random.default_rng(2)
METHODS = [PLS(3, target="continuous"), SupervisedPCA(target="continuous"), RidgeDirections(target="continuous")]


def case(n, d, targets=1):
    X = RNG.normal(size=(n, d))
    Z = np.column_stack([RNG.normal(size=n), RNG.integers(0, 2, n)])
    Y = X[:, :targets] + 0.3 * RNG.normal(size=(n, targets)) + Z[:, :1]
    return X + Z @ RNG.normal(size=(2, d)), Y.squeeze(), Z


@pytest.mark.parametrize("far", [1e7, -1e8])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize(("n", "d"), [(60, 200), (300, 12)])
@pytest.mark.parametrize("form", ["array", "dask", "csr"])
@pytest.mark.parametrize("beside", [True, False])
def test_a_shift_of_the_targets_changes_nothing(far, method, n, d, form, beside, tmp_path):
    X, y, Z = case(n, d)
    step = 2.0**-20  # so that the shift itself rounds nothing
    y = np.round(y / step) * step
    given = {"covariates": Z} if beside else {}
    expected = method.fit(*in_form(form, X, y, tmp_path), **given).components_.copy()
    found = method.fit(*in_form(form, X, y + far, tmp_path), **given).components_
    cosines = np.einsum("kd,kd->k", expected, found)
    cosines /= np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
    np.testing.assert_allclose(1 - cosines, 0, atol=1e-9)


def test_gaps_weights_and_several_targets_at_once():
    X, Y, Z = case(50, 120, 2)
    Y = np.round(Y * 2**20) / 2**20
    X[RNG.random(X.shape) < 0.05] = np.nan
    weights = RNG.integers(0, 3, 50)
    model = PLS(2, target="continuous", missing="mean")
    expected = model.fit(X, Y, sample_weight=weights, covariates=Z).components_.copy()
    found = model.fit(X, Y + np.asarray([1e8, -1e7]), sample_weight=weights, covariates=Z).components_
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("columns", [8, 90])
@pytest.mark.parametrize("gaps", [False, True])
def test_sums_of_batches_are_those_of_all_rows(columns, gaps):
    X, y, Z = case(60, columns)
    if gaps:
        X[RNG.random(X.shape) < 0.1] = np.nan
    rows = with_targets(with_covariates(rows_in_memory(X), given_covariates(Z, 60)), y + 1e8)
    missing = np.isnan(X).sum(axis=0)
    rows = widened(rows, missing, np.nanmean(X, axis=0))
    whole = CrossSums.of(rows.batch(0, 60), np.asarray([0]))
    parts = [
        CrossSums.of(rows.batch(start, stop), np.asarray([0])) for start, stop in ((0, 7), (7, 8), (8, 41), (41, 60))
    ]
    sums = parts[0] + (parts[1] + parts[2]) + parts[3]
    for found in (sums, whole):
        adjustment = Adjustment.of_sums(rows.widening, found)
        filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
        design = np.column_stack([np.ones(60), y, Z])
        expected = np.linalg.lstsq(design, filled, rcond=None)[0][2:]
        scales = np.asarray([each.scale for each in rows.covariates])
        np.testing.assert_allclose(adjustment.slopes / scales[:, None], expected, atol=1e-7)
