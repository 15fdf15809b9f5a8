"""``sample_weight``: whole weights are repeated rows, in every form that rows come in."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.moment_reducers import REDUCERS
from helpers.samples import largest_angle
from helpers.tables import in_form, labelled, write_zarr

from mmpca_dist import (
    AllColumns,
    BayesianMarginPCA,
    FisherScore,
    LassoSelection,
    MarginPCA,
    MaximumMarginCriterion,
    ProjectionPenaltyClassifier,
    ScatterContrast,
    class_moments,
    open_dataset,
)
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS

METHODS = {
    **REDUCERS,
    "one-vs-one": lambda: MarginPCA(2, variant="m-pca1a", pairing="one-vs-one"),
    "mmc": lambda: MaximumMarginCriterion(1),
    "contrast": lambda: ScatterContrast(2, A="total", B={"within": 1, "class": {1: 0.5}}),
    "lasso": lambda: LassoSelection(2),
    "fisher score": lambda: FisherScore(3),
    "all columns": lambda: AllColumns(),
}


def rows(n, d, seed=1):
    """Return rows, labels, and weights from 0 to 4, of which two in each class are 1."""
    X, y = labelled(n, d, 3, seed=seed)
    y[:6] = [0, 1, 2, 0, 1, 2]
    w = np.random.default_rng(seed).integers(0, 5, n)
    w[:6] = 1
    return X, y, w


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize(("n", "d"), [(90, 6), (20, 40)])
def test_whole_weights_are_repeated_rows(n, d, method, tmp_path):
    if method == "all columns" and n < d:
        pytest.skip("as many components as rows, and repeated rows are more")
    X, y, w = rows(n, d)
    for precision, degrees in (("double", 1e-7), ("single", 1e-3)):
        for standardize in (False, True):
            settings = {"precision": precision, "standardize": standardize}
            expected = METHODS[method]().set_params(**settings).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
            plain = precision == "double" and not standardize
            for form in ("array", "list", "csr", "dask", "dask rows", "data set") if plain else ("array",):
                weights = {"list": w.tolist(), "dask": da.from_array(w, 9)}.get(form, w)
                found = METHODS[method]().set_params(**settings).fit(*in_form(form, X, y, tmp_path), weights)
                assert found.components_.shape == expected.components_.shape, form
                angle = largest_angle(found.components_, expected.components_.T)
                assert np.degrees(angle) < degrees, (form, settings)
                np.testing.assert_allclose(found.mean_, expected.mean_, rtol=1e-6, err_msg=form)
                values = found.eigenvalues_, expected.eigenvalues_
                np.testing.assert_allclose(*values, rtol=1e-9 if precision == "double" else 1e-5, err_msg=form)


@pytest.mark.parametrize("variant", ["pca", "m-pca0", "m-pca2"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_solvers_in_passes(variant, is_sparse):
    X, y, w = rows(60, 90)
    given = scipy.sparse.csr_array(np.where(X > 3, X, 0)) if is_sparse else X
    dense = given.toarray() if is_sparse else X
    settings = {"solver": "krylov", "precision": "double", "passes": 8, "tolerance": 1e-9}
    found = MarginPCA(2, variant=variant, **settings).fit(given, y, sample_weight=w)
    expected = MarginPCA(2, variant=variant, precision="double").fit(np.repeat(dense, w, axis=0), np.repeat(y, w))
    assert np.degrees(largest_angle(found.components_, expected.components_.T)) < 1e-5
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)


def test_parts_are_the_whole():
    X, y, w = rows(90, 6)
    whole = MarginPCA(2, variant="m-pca0", precision="double").fit(X, y, sample_weight=w)
    parts = MarginPCA(2, variant="m-pca0", precision="double")
    for some in np.array_split(np.arange(len(X)), 4):
        parts.partial_fit(X[some], y[some], classes=[0, 1, 2], sample_weight=w[some])
    assert np.degrees(largest_angle(parts.components_, whole.components_.T)) < 1e-7
    moments = class_moments(X, y, precision="double", sample_weight=w)
    np.testing.assert_allclose(parts.moments_.scatters, moments.scatters, rtol=1e-10)
    np.testing.assert_array_equal(moments.sizes, np.bincount(y[w > 0]))
    np.testing.assert_array_equal(moments.counts, np.bincount(y, w))


def test_squared_losses_take_weights_and_sweeps_refuse_them():
    X, y, w = rows(90, 6)
    settings = {"loss": "squared", "precision": "double", "alpha": 0.1}
    found = ProjectionPenaltyClassifier(MarginPCA(2), **settings).fit(X, y, sample_weight=w)
    repeated = ProjectionPenaltyClassifier(MarginPCA(2), **settings).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(found.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)
    for estimator in (BayesianMarginPCA(2), ProjectionPenaltyClassifier(MarginPCA(2), loss="logistic")):
        with pytest.raises(InputError, match="take no weights: repeat the rows"):
            estimator.fit(X, y, sample_weight=w)
        with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
            estimator.fit(X, y, weights=w)


@pytest.mark.parametrize(("settings", "message"), [
    ({"variant": "m-pca2", "mutual": "once"}, "mutual='once' takes no weights"),
])  # fmt: skip
def test_where_weights_do_not_apply(settings, message):
    X, y, w = rows(90, 6)
    with pytest.raises(InputError, match=message):
        MarginPCA(2, **settings).fit(X, y, sample_weight=w)


def test_weights_of_another_unit_are_the_same():
    """Also where they add up to less than one; half of them is met exactly where they are whole numbers of a unit."""
    X, y, w = rows(90, 6)
    for variant, unit in (("m-pca0", 1024 * w.sum()), ("m-pca1b", 4096), ("m-pca2", 1024 * w.sum())):
        expected = MarginPCA(3, variant=variant, precision="double").fit(X, y, sample_weight=w)
        found = MarginPCA(3, variant=variant, precision="double").fit(X, y, sample_weight=w / unit)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10)


@pytest.mark.parametrize(("change", "message"), [
    (lambda w: np.where(np.arange(len(w)) == 11, -1, w), "Row 11 has the weight -1.0 in sample_weight. A weight"),
    (lambda w: np.where(np.arange(len(w)) == 12, np.nan, w), "Row 12 has the weight nan in sample_weight. A w"),
    (lambda w: np.where(np.arange(len(w)) == 13, np.inf, w), "Row 13 has the weight inf in sample_weight. A w"),
    (lambda w: w[:-1], r"have shape \(89,\); there must be one for each of 90 rows"),
    (lambda w: np.full(len(w), "a"), "have type <U1; they must be numbers"),
    (lambda w: 0 * w, "No row of .* is left: all have weight zero"),
])  # fmt: skip
def test_bad_weights_are_refused(change, message):
    X, y, w = rows(90, 6)
    bad = change(w.astype(float))
    for given in (X, da.from_array(X, (7, -1))):
        with pytest.raises(InputError, match=message):
            MarginPCA(2).fit(given, y, sample_weight=bad)
    if len(bad) == len(X):
        with pytest.raises(InputError, match=message):
            MarginPCA(2).fit(da.from_array(X, (7, -1)), y, sample_weight=da.from_array(bad, 7))


def test_tasks_on_blocks_name_the_row_of_a_bad_weight(monkeypatch):
    monkeypatch.setattr(LIMITS, "unit_bytes", 7 * 6 * 8)
    X, y, _ = rows(90, 6)
    bad = da.from_array(np.where(np.arange(90) == 75, -2.0, 1.0), 7)
    with pytest.raises(InputError, match=r"Row 75 has the weight -2\.0 in sample_weight\. A weight says"):
        MarginPCA(2).fit(da.from_array(X, (7, -1)), y, sample_weight=bad)


def test_a_class_without_rows_between_others_weighs_nothing():
    X, y, w = rows(90, 6)
    found = class_moments(X, 2 * y, classes=range(6), sample_weight=w, precision="double")
    assert found.counts.tolist() == np.bincount(2 * y, w, 6).tolist() and (found.counts[1::2] == 0).all()


def test_errors_name_the_row_that_was_given(tmp_path):
    """Rows of weight zero before it are left out, and counted all the same; a bad row of weight zero is not read."""
    X, y, w = rows(90, 6)
    w[[20, 30, 31]] = 0
    X[30], X[40, 2] = np.nan, np.nan
    w[40] = 1
    dataset = open_dataset(write_zarr(tmp_path / "rows.zarr", X, y, 5, labels_in=30))
    with pytest.raises(InputError, match=r"Found nan in row 40, column 2, in chunk 8 \(rows 40 to 44\)"):
        MarginPCA(2).fit(dataset, sample_weight=w)
    w[40] = 0
    assert MarginPCA(2).fit(dataset, sample_weight=w).components_.shape == (2, 6)
