"""Covariates: what they explain within classes is removed, as limma's ``removeBatchEffect`` does by design."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from helpers.evaluating import scored
from helpers.moment_reducers import REDUCERS
from helpers.runs import refreshed, through
from helpers.samples import batch_of, largest_angle
from helpers.tables import config_of, in_form, labelled, write_parquet
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mmpca_dist import (
    PLS,
    AllColumns,
    BayesianMarginPCA,
    LogisticDiscriminant,
    MarginPCA,
    ProjectionPenaltyClassifier,
    load_maps,
    load_model,
    open_dataset,
    run,
)
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.jobs.finished_runs import open_run
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.report.sections.reconstructions import _rebuilt
from mmpca_dist.statistics.widened_rows import filled_rows

RUN = ["pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2"]
BESIDE = {"dataset": {"covariates": ["batch", "age"], "missing": "mean"}, "methods": RUN, "precision": None}


def rows(n, d, seed=1):
    """Return rows with effects of a batch and an age, which go with the class, their labels and the covariates."""
    X, y = labelled(n, d, 3, seed=seed)
    y[:9] = [0, 1, 2] * 3
    rng = np.random.default_rng(seed)
    batch = np.asarray(["a", "b", "c"])[np.where(rng.random(n) < 0.7, y, rng.integers(0, 3, n))]
    batch[:9] = ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    age = 40 + 5 * y + 10 * rng.random(n)
    X = X + (batch == "b")[:, None] * rng.normal(0, 3, d) + age[:, None] * rng.normal(0, 0.3, d)
    return X, y, pd.DataFrame({"batch": batch, "age": age})


def removed(X, y, frame, w=None):
    """Regress the rows on classes and covariates by least squares, and subtract what the covariates explain."""
    w = np.ones(len(y)) if w is None else w
    Z = np.column_stack([frame["batch"] == "b", frame["batch"] == "c", frame["age"]]).astype(float)
    design = np.column_stack([(y == label) for label in np.unique(y)] + [Z]).astype(float)
    roots = np.sqrt(w)[:, None]
    coef = np.linalg.lstsq(roots * design, roots * X, rcond=None)[0][-3:]
    return X - (Z - np.average(Z, axis=0, weights=w)) @ coef


@pytest.mark.parametrize("method", list(REDUCERS))
@pytest.mark.parametrize(("n", "d"), [(90, 7), (40, 60)])
def test_fits_are_those_of_residuals(n, d, method, tmp_path):
    X, y, covariates = rows(n, d)
    V, forms = (
        removed(X, y, covariates),
        [in_form(form, X, y, tmp_path) for form in ("array", "dask", "data set", "csr")],
    )
    for standardize in (False, True):
        expected = REDUCERS[method]().set_params(precision="double", standardize=standardize).fit(V, y)
        for given, labels in forms:
            found = REDUCERS[method]().set_params(standardize=standardize).fit(given, labels, covariates=covariates)
            assert largest_angle(found.components_, expected.components_.T) < 1e-5
            np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-7)
        Z = found.transform(X, covariates)
        np.testing.assert_allclose(np.abs(Z), np.abs(expected.transform(V)), atol=1e-5 * np.abs(Z).max())


@pytest.mark.parametrize(("shift", "factor"), [(1e8, 1.0), (0.0, 1e-9), (1e8, 1e9), (0.0, 1e9)])
def test_the_unit_and_the_mean_of_a_covariate_change_nothing(shift, factor):
    X, y, covariates = rows(200, 6)
    expected = MarginPCA(2, precision="double").fit(removed(X, y, covariates), y)
    covariates["age"] = (covariates["age"] + shift) * factor
    found = MarginPCA(2).fit(X, y, covariates=covariates)
    # Of ages about 1e8 that differ by 10, 2e-9 is lost to rounding.
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-7)
    assert largest_angle(found.components_, expected.components_.T) < 1e-5


def test_weights_gaps_and_later_rows():
    X, y, covariates = rows(120, 7)
    w = np.random.default_rng(0).integers(0, 4, 120)
    X[20::5, 2] = np.nan
    filled = X.copy()
    filled[:, 2] = np.where(
        np.isnan(X[:, 2]), np.average(X[~np.isnan(X[:, 2]), 2], weights=w[~np.isnan(X[:, 2])]), X[:, 2]
    )
    expected = MarginPCA(2, precision="double").fit(removed(filled, y, covariates, w), y, sample_weight=w)
    whole = MarginPCA(2, missing="mean").fit(X, y, sample_weight=w, covariates=covariates)
    np.testing.assert_allclose(whole.components_, expected.components_, atol=1e-8)
    lazy = da.from_array(X, (7, 3)), da.from_array(y, 5)
    found = MarginPCA(2, missing="mean").fit(*lazy, sample_weight=w, covariates=covariates)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-8)
    parts = MarginPCA(2, missing="mean")
    for some in (slice(0, 70), slice(70, None)):
        parts.partial_fit(X[some], y[some], sample_weight=w[some], covariates=covariates[some])
    np.testing.assert_allclose(parts.components_, expected.components_, atol=1e-8)
    np.testing.assert_allclose(
        parts.transform(X, covariates), expected.transform(removed(filled, y, covariates, w)), atol=1e-6
    )


@pytest.mark.parametrize("solver", [{}, {"solver": "krylov", "passes": 12, "tolerance": 0}])
def test_solvers_in_passes(solver):
    X, y, covariates = rows(300, 30)
    for variant in ("pca", "m-pca0", "m-pca2"):
        expected = MarginPCA(2, variant=variant, precision="double").fit(removed(X, y, covariates), y)
        for given in (X, scipy.sparse.csr_array(X), da.from_array(X, (50, -1))):
            found = MarginPCA(2, variant=variant, **solver).fit(given, y, covariates=covariates)
            assert largest_angle(found.components_, expected.components_.T) < 1e-4, (variant, type(given))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sweeps_read_adjusted_rows():
    X, y, covariates = rows(120, 7)
    V = removed(X, y, covariates)
    for make in (
        lambda: BayesianMarginPCA(2, max_iter=5),
        lambda: ProjectionPenaltyClassifier("m-pca0", n_components=2),
        lambda: ProjectionPenaltyClassifier("m-pca0", n_components=2, loss="squared"),
    ):
        found = make().set_params(precision="double").fit(X, y, covariates=covariates)
        twin = make().set_params(precision="double").fit(V, y).transform(V)
        np.testing.assert_allclose(found.transform(X, covariates), twin, atol=1e-5 * np.abs(twin).max())


@pytest.mark.parametrize("settings", [{"variant": "m-pca1b"}, {"variant": "m-pca2"}, {"solver": "krylov", "passes": 9}])
def test_rows_in_single_precision_are_adjusted_in_double(settings):
    X, y, covariates = rows(300, 30)
    X = (X + 1e5).astype(np.float32)
    V = removed(X.astype(float), y, covariates)
    expected = MarginPCA(2, precision="double", **settings).fit(V, y)
    found = MarginPCA(2, **settings).fit(X, y, covariates=covariates)
    assert largest_angle(found.components_, expected.components_.T) < 1e-3


def test_predictions_are_those_of_adjusted_rows():
    X, y, covariates = rows(120, 7)
    V = removed(X, y, covariates)
    for make in (
        lambda: LogisticDiscriminant(), lambda: ProjectionPenaltyClassifier("m-pca0", n_components=2),
        lambda: BayesianMarginPCA(2, tol=1e-2),
    ):  # fmt: skip
        found = make().set_params(precision="double").fit(X, y, covariates=covariates)
        twin = make().set_params(precision="double").fit(V, y)
        scores = twin.decision_function(V)
        np.testing.assert_allclose(found.decision_function(X, covariates), scores, atol=1e-4 * np.abs(scores).max())
        assert np.mean(found.predict(X, covariates) == twin.predict(V)) > 0.99
    assert np.abs(found.decision_function(X, covariates) - found.decision_function(X, None)).max() > 0.1


def test_dependent_covariates_and_what_is_refused():
    X, y, covariates = rows(120, 7)
    twice = covariates.assign(years=2 * covariates["age"] + 1)
    one = MarginPCA(2).fit(X, y, covariates=covariates)
    np.testing.assert_allclose(MarginPCA(2).fit(X, y, covariates=twice).components_, one.components_, atol=1e-8)
    determined = covariates.assign(site=np.asarray(["x", "y", "z"])[y])
    with pytest.raises(InputError, match="covariate 'site' is the same in all rows of each class"):
        MarginPCA(2).fit(X, y, covariates=determined)
    with pytest.raises(InputError, match="covariate 'dose' is the same in all rows of each class"):
        MarginPCA(2).fit(X, y, covariates=covariates.assign(dose=1e3 * y))
    for constant in ("a", 5.0):
        with pytest.raises(InputError, match="covariate 'plate' is the same in all rows of each class"):
            MarginPCA(2).fit(X, y, covariates=covariates.assign(plate=constant))
    pairs = [f"p{i * 61 // 120}" for i in range(120)]  # two of them are alone
    assert MarginPCA(2).fit(X, y, covariates=covariates.assign(patient=pairs)).components_.shape == (2, 7)
    with pytest.raises(InputError, match="when holds dates; a covariate holds numbers or names"):
        MarginPCA(2).fit(X, y, covariates=covariates.assign(when=pd.date_range("2024-01-31", periods=120)))
    patients = [f"p{max(i, 58)}" for i in range(120)]
    with pytest.raises(InputError, match="'patient' is an identifier: 61 of 120 rows have a category of their own"):
        MarginPCA(2).fit(X, y, covariates=covariates.assign(patient=patients))
    with pytest.raises(InputError, match="Row 3 has the covariate nan in age"):
        MarginPCA(2).fit(X, y, covariates=covariates.assign(age=covariates["age"].mask(np.arange(120) == 3)))
    with pytest.raises(InputError, match="has 119 values; there must be one for each of 120 rows"):
        MarginPCA(2).fit(X, y, covariates=covariates[1:])
    np.testing.assert_allclose(one.transform(X, covariates=None), X @ one.components_.T)
    with pytest.raises(InputError, match="has batch z in batch, which no row had"):
        one.transform(X, covariates.assign(batch="z"))
    with pytest.raises(InputError, match="those of the fit were 'batch', 'age'"):
        one.transform(X, covariates[["age"]])
    with pytest.raises(InputError, match="Earlier rows had the covariates"):
        MarginPCA(2).partial_fit(X, y, covariates=covariates).partial_fit(X, y)
    with pytest.raises(InputError, match="was fitted without covariates"):
        MarginPCA(2).fit(X, y).transform(X, covariates)
    with pytest.raises(InputError, match=r"covariates have shape \(120, 0\)"):
        MarginPCA(2).fit(X, y, covariates=covariates[[]])
    numbers = covariates["age"].to_numpy()
    with pytest.raises(InputError, match=r"covariate 'age' follows from the targets"):
        PLS(1, target="continuous").fit(X, numbers, covariates=covariates)
    with pytest.raises(InputError, match="class_weight is for rows of classes"):
        PLS(1, target="continuous", class_weight="balanced").fit(X, numbers)


@pytest.mark.usefixtures("no_report")
def test_row_maps_that_are_fitted_come_before(tmp_path):
    X, y, covariates = rows(120, 7)
    uri = write_parquet(tmp_path / "rows.parquet", X, y, **covariates)
    dataset = {"covariates": ["batch", "age"], "maps": [{"name": "nystroem", "n_components": 5}]}
    run(config_of(tmp_path / "out", uri, dataset=dataset, methods=["m-pca0"], precision=None))
    V = removed(load_maps(str(tmp_path / "out")).transform(X), y, covariates)
    expected = MarginPCA(2, precision="double").fit(V, y)
    found = load_model(str(tmp_path / "out"), "m-pca0")
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-6)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(("n", "d"), [(120, 7), (40, 60)])
def test_runs_refreshes_and_new_files(n, d, tmp_path):
    X, y, covariates = rows(n, d)
    config = config_of(tmp_path / "out", write_parquet(tmp_path / "rows.parquet", X, y, **covariates), **BESIDE)
    assert config.precision == "double"
    results = run(config)
    looks = [look for role, _, _, look in results["count"]["played"] if role == "covariates"]
    assert results["count"]["n_features"] == d and looks[0]["levels"][1] == ["a", "b", "c"]
    V = removed(X, y, covariates)
    for method in RUN:
        expected = MarginPCA(2, variant=method, precision="double").fit(V, y)
        found = load_model(str(tmp_path / "out"), method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-8, err_msg=method)
        Z = open_dataset(str(tmp_path / "out" / "projected" / f"{method}.zarr")).read_rows(0, n)
        np.testing.assert_allclose(Z, expected.transform(V), atol=1e-6 * np.abs(Z).max())
        np.testing.assert_allclose(found.transform(X, covariates), Z, atol=1e-6 * np.abs(Z).max())
    new = write_parquet(tmp_path / "new.parquet", X[:20], y[:20], **covariates[:20])
    through(tmp_path / "out", new, tmp_path / "projected", methods=["m-pca0"])
    Z = open_dataset(str(tmp_path / "projected" / "projected" / "m-pca0.zarr")).read_rows(0, 20)
    np.testing.assert_allclose(Z, load_model(str(tmp_path / "out"), "m-pca0").transform(X[:20], covariates[:20]))
    lacking = write_parquet(tmp_path / "lacking.parquet", X[:20], y[:20], age=covariates["age"][:20])
    with pytest.raises(InputError, match=r"no column 'batch' \(dataset.covariates\)"):
        through(tmp_path / "out", lacking, tmp_path / "other", methods=["m-pca0"])
    if n < d:
        return
    parts = [slice(70), slice(70, None)]
    first, second = (write_parquet(tmp_path / f"{i}.parquet", X[s], y[s], **covariates[s]) for i, s in enumerate(parts))
    run(config_of(tmp_path / "first", first, **{**BESIDE, "methods": RUN[:3]}))
    folder = refreshed(tmp_path / "first", second, tmp_path / "live")["folder"]
    for method in RUN[:3]:
        expected = MarginPCA(2, variant=method, precision="double").fit(V, y)
        np.testing.assert_allclose(load_model(folder, method).components_, expected.components_, atol=1e-8)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("direct", [True, False], ids=["in memory", "merged"])
def test_evaluations_remove_by_the_rows_that_train(direct, tmp_path, limits):
    X, y, covariates = rows(200, 7)
    if not direct:
        limits.direct_bytes = 0
    methods = RUN if direct else [method for method in RUN if method != "m-pca1b"]
    settings = {**BESIDE, "methods": methods, "evaluation": {"classifiers": ["lda", {"name": "svm", "bias": True}]}}
    uri = write_parquet(tmp_path / "rows.parquet", X, y, **covariates)
    records, splits, _ = scored(config_of(tmp_path / "out", uri, **settings))
    parts = splits.codes(batch_of(y))[0]
    for part, record in enumerate(records):
        train = parts != part
        Z = np.column_stack([covariates["batch"] == "b", covariates["batch"] == "c", covariates["age"]]).astype(float)
        design = np.column_stack([(y == label) for label in range(3)] + [Z]).astype(float)
        slopes = np.linalg.lstsq(design[train], X[train], rcond=None)[0][-3:]
        V = X - (Z - Z[train].mean(axis=0)) @ slopes
        for line in record["errors"]:
            if line["classifier"] == "lda":
                is_whole, variant = line["method"] == "all-columns", line["method"]
                reducer = AllColumns() if is_whole else MarginPCA(2, variant=variant, precision="double")
                reducer.fit(V[train], y[train])
                model = LinearDiscriminantAnalysis().fit(reducer.transform(V[train]), y[train])
                assert line["errors"] == np.count_nonzero(model.predict(reducer.transform(V[~train])) != y[~train])


@pytest.mark.usefixtures("no_report")
def test_what_a_held_out_category_adds_does_not_depend_on_names(tmp_path):
    X, y, covariates = rows(160, 7)

    def errors(names):
        batch = covariates["batch"].map(dict(zip("abc", names, strict=True)))
        fold = batch if len(set(names)) < 3 else covariates["batch"]
        path = write_parquet(tmp_path / f"{names}.parquet", X, y, batch=batch, fold=fold)
        evaluation = {"splits": "groups", "column": "fold", "folds": len(set(names))}
        settings = {"dataset": {"covariates": ["batch"], "drop": ["fold"]}, "methods": ["pca", "fisher"]}
        records, _, _ = scored(config_of(tmp_path / f"out-{names}", path, evaluation=evaluation, **settings))
        return [line["errors"] for record in records for line in record["errors"]]

    assert errors("abc") == errors("cab")
    with pytest.raises(InputError, match="In split 0: The covariate 'batch' is the same in all rows of each class"):
        errors("aab")


def test_settings_that_do_not_go_together(tmp_path):
    with pytest.raises(ConfigError, match=r"dataset\.covariates implies double precision"):
        config_of(tmp_path, "bundled:iris", **{**BESIDE, "precision": "single"})


def test_reconstructions_are_of_adjusted_rows(tmp_path, recwarn):
    X, y, covariates = rows(90, 4)
    uri = write_parquet(tmp_path / "rows.parquet", X, y, **covariates)
    dataset = {"covariates": ["batch", "age"], "image_shape": [2, 2]}
    results = run(config_of(tmp_path / "out", uri, dataset=dataset, n_components=4))
    assert "report/reconstructions.svg" in results["report"]["outputs"]
    assert not [each for each in recwarn if "projected as they are" in str(each.message)]
    model, table = load_model(str(tmp_path / "out"), "pca"), Inputs.of(open_run(str(tmp_path / "out")).config).dataset
    shown = _rebuilt(model, filled_rows(table, model.mean_, model.adjustment_).read_rows(0, 5), [4])[4]
    np.testing.assert_allclose(shown, removed(X, y, covariates)[:5], atol=1e-8)
