"""``dataset.missing: mean``: runs, evaluations and refreshes are those of rows filled by what trains."""

from pathlib import Path

import numpy as np
import pytest
from helpers import tables
from helpers.evaluating import scored
from helpers.runs import Recorder, refreshed, through
from helpers.samples import batch_of
from helpers.tables import filled, with_gaps, write, write_parquet
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer

from mmpca_dist import AllColumns, MarginPCA, load_model, load_moments, open_dataset, run
from mmpca_dist.errors import InputError
from mmpca_dist.jobs.finished_runs import finished, open_run
from mmpca_dist.jobs.records import COUNT
from mmpca_dist.runs.evaluate import preview_evaluation
from mmpca_dist.runs.fit import preview

NO_REPORT = pytest.mark.usefixtures("no_report")
METHODS = ["pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2"]


def config_of(output, uri, missing="mean", **changes):
    return tables.config_of(output, uri, **{"dataset": {"missing": missing}, "methods": METHODS, **changes})


@NO_REPORT
@pytest.mark.parametrize(
    ("kind", "standardize", "n", "d"),
    [
        ("parquet", True, 120, 7), ("zarr", False, 120, 7), ("zarr", True, 30, 45),
        *(pytest.param(*case, marks=pytest.mark.e2e) for case in [
            ("parquet", False, 120, 7), ("zarr", True, 120, 7), ("zarr", False, 30, 45), ("parquet", False, 30, 45),
            ("parquet", True, 30, 45),
        ]),
    ],
)  # fmt: skip
def test_a_run_has_the_models_of_filled_rows(kind, standardize, n, d, tmp_path):
    X, y = with_gaps(n, d)
    recorder = Recorder()
    uri = write(kind, tmp_path / "rows", X, y)
    results = run(config_of(tmp_path / "out", uri, standardize=standardize), [recorder])
    for method in METHODS:
        expected = MarginPCA(2, variant=method, precision="double", standardize=standardize).fit(filled(X), y)
        found = load_model(str(tmp_path / "out"), method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9, err_msg=method)
        projected = open_dataset(str(tmp_path / "out" / "projected" / f"{method}.zarr")).read_rows(0, n)
        np.testing.assert_allclose(projected, expected.transform(filled(X)), atol=1e-8, err_msg=method)
        np.testing.assert_allclose(found.transform(X), projected, atol=1e-8)
    missing = np.isnan(X).sum(axis=0)
    assert results["count"]["missing"] == missing.tolist() and results["count"]["n_features"] == d
    assert f"Missing: {missing.sum()} values of {np.count_nonzero(missing)} columns (" in recorder.notes[0]
    assert results["count"]["notes"] == recorder.notes[:1]
    Z = X[:9].copy()
    Z[:, 0] = np.nan  # a new gap
    new = write(kind, tmp_path / "new", Z, y[:9])
    through(tmp_path / "out", new, tmp_path / "projected", methods=["m-pca0"])
    written = open_dataset(str(tmp_path / "projected" / "projected" / "m-pca0.zarr")).read_rows(0, 9)
    np.testing.assert_allclose(written, load_model(str(tmp_path / "out"), "m-pca0").transform(Z), atol=1e-8)


@NO_REPORT
@pytest.mark.parametrize(
    ("direct", "standardize"),
    [
        pytest.param(True, False, id="in memory"), pytest.param(False, True, id="merged"),
        pytest.param(True, True, id="in memory, standardised", marks=pytest.mark.e2e),
        pytest.param(False, False, id="merged, as they are", marks=pytest.mark.e2e),
    ],
)  # fmt: skip
def test_an_evaluation_fills_by_the_rows_that_train(direct, standardize, tmp_path, limits):
    X, y = with_gaps(160, 7)
    if not direct:
        limits.direct_bytes = 0
    methods = METHODS if direct else [method for method in METHODS if method != "m-pca1b"]
    evaluation = {"classifiers": ["lda", {"name": "svm", "bias": True}], "margins": True}
    settings = {"methods": methods, "standardize": standardize, "evaluation": evaluation}
    records, splits, _ = scored(config_of(tmp_path / "out", write("zarr", tmp_path / "rows", X, y), **settings))
    parts = splits.codes(batch_of(y))[0]
    for part, record in enumerate(records):
        train = parts != part
        imputer = SimpleImputer().fit(X[train])
        A, B = imputer.transform(X[train]), imputer.transform(X[~train])
        for line in record["errors"]:
            if line["classifier"] == "lda":
                shared = {"precision": "double", "standardize": standardize}
                is_whole, variant = line["method"] == "all-columns", line["method"]
                reducer = AllColumns(**shared) if is_whole else MarginPCA(2, variant=variant, **shared)
                model = LinearDiscriminantAnalysis().fit(reducer.fit(A, y[train]).transform(A), y[train])
                assert line["errors"] == np.count_nonzero(model.predict(reducer.transform(B)) != y[~train])
    imputer = SimpleImputer().fit(X[parts != 0])
    uri = write("zarr", tmp_path / "filled", imputer.transform(X), y)
    plain, _, _ = scored(config_of(tmp_path / "twin", uri, **settings))
    assert records[0]["errors"] == plain[0]["errors"]
    assert len(records[0]["margins"]) == len(plain[0]["margins"]) > len(methods)
    for line, other in zip(records[0]["margins"], plain[0]["margins"], strict=True):
        assert line["quantiles"] == pytest.approx(other["quantiles"], abs=1e-6)


@NO_REPORT
def test_a_refresh_moves_the_means_and_refuses_new_gaps(tmp_path):
    X, y = with_gaps(160, 7)
    uris = [write("parquet", tmp_path / str(i), X[s], y[s]) for i, s in enumerate((slice(90), slice(90, None)))]
    methods = ["pca", "m-pca0", "m-pca1a"]
    run(config_of(tmp_path / "first", uris[0], methods=methods))
    folder = refreshed(tmp_path / "first", uris[1], tmp_path / "live")["folder"]
    for method in methods:
        expected = MarginPCA(2, variant=method, precision="double").fit(filled(X), y)
        np.testing.assert_allclose(load_model(folder, method).components_, expected.components_, atol=1e-9)
    assert finished(open_run(folder), COUNT)["missing"] == np.isnan(X).sum(axis=0).tolist()
    assert load_moments(folder).n_features == 7 + np.count_nonzero(np.isnan(X).any(axis=0))
    X[100, 3] = np.nan
    bad = write("parquet", tmp_path / "bad", X[90:], y[90:])
    with pytest.raises(InputError, match=r"'f3'.* had no gaps in the rows before"):
        refreshed(tmp_path / "first", bad, tmp_path / "other")


@NO_REPORT
def test_number_of_components_is_chosen_and_plans_know_of_indicators(tmp_path):
    X, y = with_gaps(160, 7)
    uri = write("zarr", tmp_path / "rows", X, y)
    config = config_of(tmp_path / "out", uri, methods=["m-pca0", "m-pca2"], n_components="auto")
    assert run(config)["choose"]["methods"]["m-pca0"]["chosen"] >= 1
    plain = preview(config_of(tmp_path / "new", write("zarr", tmp_path / "filled", filled(X), y), methods=["pca"]))
    gaps = preview(config_of(tmp_path / "new", uri, methods=["pca"]))
    assert gaps.output > plain.output
    assert gaps.solver == plain.solver, "indicators of gaps are no columns of the problem"
    preview_evaluation(config_of(tmp_path / "new", uri, methods=["pca"]))
    assert not (tmp_path / "new").exists()


@NO_REPORT
def test_refused(tmp_path):
    X, y = with_gaps(60, 5)
    uri = write("parquet", tmp_path / "rows", X, y)
    with pytest.raises(InputError, match="cannot be used as they are"):
        run(config_of(tmp_path / "out", uri, missing="refuse"))
    with pytest.raises(InputError, match=r"dataset\.maps take whole rows: fill them before"):
        run(config_of(tmp_path / "out", uri, dataset={"missing": "mean", "maps": ["unit-length"]}))


@pytest.mark.e2e
def test_the_report_tells_what_is_missing(tmp_path):
    X, y = with_gaps(60, 7)
    config = config_of(tmp_path / "out", write("parquet", tmp_path / "rows", X, y), methods=["pca"])
    page = Path(run(config)["report"]["html"]).read_text()
    worst = int(np.argmax(np.isnan(X).sum(axis=0)))
    assert "Missing values" in page and f"f{worst}" in page and f"{np.isnan(X)[:, worst].mean():.1%}" in page
    assert "4 columns with missing values" in page


@NO_REPORT
def test_c_auto_is_chosen_on_filled_rows_without_indicators_and_covariates(tmp_path):
    X, y = with_gaps(120, 7)
    age = np.random.default_rng(4).standard_normal(120) * 1e3 * (1 + y)  # would tell the classes apart
    uri = write_parquet(tmp_path / "rows.parquet", X, y, age=age)
    reducer = MarginPCA(2, missing="mean", precision="double").fit(X, y, covariates=age)
    adjusted = reducer.adjustment_.without(SimpleImputer().fit_transform(X), (age[:, None] - age.mean()) / age.std())
    evaluation = {"classifiers": [{"name": "svm", "C": "auto"}], "count": 2}
    dataset = {"missing": "mean", "covariates": ["age"]}
    _, _, results = scored(config_of(tmp_path / "out", uri, dataset=dataset, methods=["pca"], evaluation=evaluation))
    plain = write_parquet(tmp_path / "plain.parquet", adjusted, y)
    _, _, expected = scored(config_of(tmp_path / "plain", plain, methods=["pca"], evaluation=evaluation))
    assert results["tune"]["penalties"] == expected["tune"]["penalties"]
