"""Columns of which adjusting leaves nothing are constant: rounding errors are no variance that methods could find."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from helpers.evaluating import scored
from helpers.moment_reducers import REDUCERS
from helpers.samples import batch_of, largest_angle
from helpers.tables import config_of, labelled, write_parquet
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.utils.class_weight import compute_sample_weight

from mmpca_dist import FisherScore, MarginPCA
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.from_rows import moments_of
from mmpca_dist.statistics.widened_rows import widened
from mmpca_dist.tables.readers.memory import rows_in_memory

LOST = [2, 4]
MAKERS = {**REDUCERS, "fisher-score": lambda: FisherScore(3)}

pytestmark = pytest.mark.usefixtures("no_report")


def rows(n, d, seed):
    """Return rows of which two columns follow from the covariates, and labels."""
    X, y = labelled(n, d, 3, seed=seed)
    y[:9] = [0, 1, 2] * 3
    rng = np.random.default_rng(seed)
    age, site = rng.normal(40, 9, n), rng.choice(["a", "b"], n)
    X[:, 2], X[:, 4] = rng.normal(0, 3) * (age - age.mean()), rng.normal(0, 3) * (site == "b")
    X[:, 0] += 0.1 * age
    return X, y, pd.DataFrame({"age": age, "site": site})


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(("kind", "n", "d", "method"), [
    *((*shape, method) for shape in (("dense", 90, 7), ("dense", 30, 45)) for method in MAKERS),
    *(  # these need scatters
        (kind, 90, 7, method)
        for kind in ("passes", "dense passes")
        for method in MAKERS
        if method not in ("pls", "ridge")
    ),
])  # fmt: skip
def test_columns_that_covariates_determine_are_as_constant_ones(kind, n, d, standardize, method):
    for seed in range(5):
        X, y, covariates = rows(n, d, seed)
        constant = X.copy()
        constant[:, LOST] = 1
        settings = {"standardize": standardize}
        if "passes" in kind:
            settings |= {"solver": "krylov"} | ({"passes": 8} if "passes" in MAKERS[method]().get_params() else {})
        found, expected = (
            MAKERS[method]()
            .set_params(**settings)
            .fit(scipy.sparse.csr_array(each) if kind == "passes" else each, y, covariates=covariates)
            for each in (X, constant)
        )
        assert len(found.components_) == len(expected.components_)
        assert np.abs(found.components_[:, LOST]).max() < 1e-9
        assert largest_angle(found.components_, expected.components_.T) < 1e-5
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-7)
        if standardize:
            assert found.scale_[LOST].tolist() == [1, 1]


@pytest.mark.parametrize(("n", "d", "solver"), [(90, 7, "dense"), (30, 45, "dual"), (90, 7, "krylov")])
@pytest.mark.parametrize(("kind", "dtype"), [("dense", "float32"), ("csr", "float32"), ("dense", "float16")])
def test_what_rounding_of_stored_rows_leaves_is_no_variance(kind, dtype, n, d, solver):
    for seed in range(5):
        X, y, covariates = rows(n, d, seed)
        covariates["other"] = X[:, 2] = np.log1p(2e3 * covariates["age"] ** 2)
        X = X.astype(dtype)
        found = MarginPCA(2, "pca", standardize=True, solver=solver).fit(
            scipy.sparse.csr_array(X) if kind == "csr" else X, y, covariates=covariates
        )
        assert found.scale_[LOST].tolist() == [1, 1]
        assert np.abs(found.components_[:, LOST]).max() < (1e-5 if dtype == "float32" else 1e-3)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("value", [0.0, 0.1, 5.3])
@pytest.mark.parametrize("n", [60, 3000])
def test_columns_that_are_constant_but_for_gaps(n, value, precision):
    """Other rows, such as those of another fold, told what gaps are filled with."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = labelled(n, 6, 3, seed=seed)
        X[:, LOST] = value
        X[rng.random((n, 6)) < rng.choice([0.02, 0.1, 0.5])] = np.nan
        dataset = widened(rows_in_memory(X, y, "X"), np.ones(6), rng.normal(value, 1, 6))
        model = MarginPCA.from_moments(moments_of(dataset, precision=precision), "pca", 4, standardize=True)
        filled = SimpleImputer().fit_transform(X)
        filled[:, LOST] = value  # its means of many equal values have rounding errors
        expected = MarginPCA(4, "pca", standardize=True).fit(filled, y)
        assert model.scale_[LOST].tolist() == [1, 1]
        assert largest_angle(model.components_, expected.components_.T) < (1e-5 if precision == "double" else 1e-2)


@pytest.mark.parametrize("value", [0.3, 1e5 + 0.1])
@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_constant_columns_with_gaps_stay_constant(solver, value):
    """The mean of many equal values has rounding errors, and gaps filled with it would vary by these."""
    rng = np.random.default_rng(0)
    X, y = labelled(20_000, 6, 3, seed=0)
    X[:, LOST] = value
    X[rng.random(X.shape) < 0.1] = np.nan
    model = MarginPCA(2, "pca", standardize=True, missing="mean", solver=solver).fit(X, y)
    assert model.scale_[LOST].tolist() == [1, 1]
    assert np.abs(model.components_[:, LOST]).max() < 1e-6  # a basis of single precision


@pytest.mark.parametrize("kind", ["dense", "passes"])
def test_components_of_rounding_errors_are_none(kind):
    """Two directions are left of what is 1e12 times as large: its products are off by more than a third would have."""
    rng = np.random.default_rng(0)
    _, y, covariates = rows(300, 7, 1)
    Z = covariates[["age"]].to_numpy() - 40
    X = 1e4 * Z @ rng.normal(0, 1, (1, 7)) + rng.normal(0, 1e-1, (300, 2)) @ rng.normal(0, 1, (2, 7))
    given = X if kind == "dense" else scipy.sparse.csr_array(X)
    with pytest.raises(InputError, match="n_components=5 is more than the 2 components"):
        MarginPCA(5, "pca").fit(given, y, covariates=covariates[["age"]])


def test_a_rest_that_nearly_collinear_covariates_leave_is_no_rounding_error():
    rng = np.random.default_rng(0)
    z, e = rng.normal(0, 1, (2, 500))
    X, y = labelled(500, 4, 3, seed=0)
    rest = rng.normal(0, 2e-3, 500)
    X[:, 0] = e + rest
    found = MarginPCA(2, "pca", standardize=True).fit(X, y, covariates=np.column_stack([z, z + 1e-4 * e]))
    assert found.scale_[0] == pytest.approx(rest.std(), rel=0.1)


@pytest.mark.parametrize("value", [7.3, 0.1, 1000 / 7])
@pytest.mark.parametrize("pooled", [False, True])
def test_constant_columns_stay_so_whatever_the_number_of_classes(pooled, value, limits):
    limits.pooled_bytes = 100 if pooled else 1 << 40
    rng = np.random.default_rng(0)
    n = 2 * 1000 + 100
    y, z = np.arange(n) % 1000, rng.normal(0, 1, n)
    X = rng.normal(0, 1, (n, 5))
    X[:, 2], X[:, 3] = value, 2 * z
    found = MarginPCA(2, "pca", standardize=True).fit(X, y, covariates=z)
    assert found.scale_[[2, 3]].tolist() == [1, 1]
    assert np.abs(found.components_[:, [2, 3]]).max() < 1e-9
    assert MarginPCA(2, "pca", standardize=True).fit(X, y).scale_[2] == 1


@pytest.mark.parametrize("beside", [{"missing": "mean"}, {"covariates": ["age", "site"]}])
def test_pooled_scatters_of_weighted_classes_are_adjusted(beside, limits, tmp_path):
    X, y, covariates = rows(160, 7, 1)
    if "missing" in beside:
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    uri, errors = write_parquet(tmp_path / "t.parquet", X, y, **covariates), []
    for pooled in (1 << 40, 100):
        limits.pooled_bytes = pooled
        settings = {"dataset": {"drop": ["age", "site"], **beside}, "class_weight": "balanced", "evaluation": {}}
        records, _, _ = scored(config_of(tmp_path / str(pooled), uri, **settings, precision=None))
        errors.append([line["errors"] for record in records for line in record["errors"]])
    assert errors[0] == errors[1]


@pytest.mark.parametrize("pooled_bytes", [100, 1 << 40])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_all_columns_are_classified_without_those_that_are_lost(class_weight, pooled_bytes, limits, tmp_path):
    limits.pooled_bytes = pooled_bytes
    X, y, covariates = rows(160, 7, 1)
    settings = {"dataset": {"covariates": ["age", "site"]}, "class_weight": class_weight, "evaluation": {}}
    uri = write_parquet(tmp_path / "t.parquet", X, y, **covariates)
    records, splits, _ = scored(config_of(tmp_path / "out", uri, **settings))
    parts = splits.codes(batch_of(y))[0]
    Z = np.column_stack([covariates["age"] - 40, covariates["site"] == "b"]).astype(float)
    design, left = np.column_stack([*(y == label for label in range(3)), Z]).astype(float), [0, 1, 3, 5, 6]
    for part, record in enumerate(records):
        train = parts != part
        roots = np.sqrt(compute_sample_weight(class_weight, y[train]))[:, None]
        slopes = np.linalg.lstsq(roots * design[train], roots * X[train], rcond=None)[0][-2:]
        V = (X - Z @ slopes)[:, left]
        model = LinearDiscriminantAnalysis().fit(V[train], y[train])
        (line,) = (line for line in record["errors"] if line["method"] == "all-columns")
        assert line["errors"] == np.count_nonzero(model.predict(V[~train]) != y[~train])


@pytest.mark.parametrize("pooled_bytes", [100, 1 << 40])
def test_columns_that_vary_in_classes_without_weight_alone_count_for_classifiers(pooled_bytes, limits, tmp_path):
    limits.pooled_bytes = pooled_bytes
    X, y, covariates = rows(160, 7, 1)
    X[:, 3] = np.where(y == 2, 9 + X[:, 3], 0)
    uri, errors = write_parquet(tmp_path / "t.parquet", X[:, [1, 3]], y, age=covariates["age"]), []
    for class_weight in (None, {2: 0}):
        settings = {"dataset": {"covariates": ["age"]}, "n_components": 1, "class_weight": class_weight}
        records, _, _ = scored(config_of(tmp_path / f"{class_weight}", uri, evaluation={}, **settings))
        lines = [line for record in records for line in record["errors"] if line["method"] == "all-columns"]
        errors.append(sum(line["errors"] for line in lines))
    assert abs(errors[0] - errors[1]) < 10, "the effect of the age, which is removed, is that in other classes"


@pytest.mark.parametrize("kind", ["rare", "constant"])
@pytest.mark.parametrize("standardize", [False, True])
def test_numbers_are_predicted_as_without_a_column_that_is_constant_where_it_trains(standardize, kind, tmp_path):
    """Such as a rare level: one row has it, and in the fold of this row nothing is known of it."""
    rng = np.random.default_rng(1)
    n = 200
    X = rng.normal(0, 1, (n, 4))
    t = X @ [1.0, 2.0, 0.0, 0.0] + rng.normal(0, 1, n)
    column = np.full(n, 5.3) if kind == "constant" else (np.arange(n) == 17).astype(float)
    column[rng.random(n) < 0.1] = np.nan
    uri = write_parquet(tmp_path / "t.parquet", np.column_stack([X, column]), t=t)
    settings = {"dataset": {"target": "t", "missing": "mean"}, "standardize": standardize, "evaluation": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        records, splits, _ = scored(config_of(tmp_path / "out", uri, **settings, precision=None))
    parts = splits.codes(batch_of(np.zeros(n, int)))[0]
    features = X if kind == "constant" else np.column_stack([X, column])
    for part, record in enumerate(records):
        train = parts != part
        imputer = SimpleImputer().fit(features[train])
        model = LinearRegression().fit(imputer.transform(features[train]), t[train])
        expected = r2_score(t[~train], model.predict(imputer.transform(features[~train])))
        (line,) = (line for line in record["errors"] if line["method"] == "all-columns")
        assert line["r2"] == pytest.approx(expected, abs=1e-9)
