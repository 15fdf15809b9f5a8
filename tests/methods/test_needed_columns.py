"""A model gets what it needs of the rows: covariates by name, row maps, and text; or it says what is not there."""

import re

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers.runs import through
from helpers.tables import config_of, write_parquet

from mmpca_dist import (
    BayesianMarginPCA,
    FisherDiscriminant,
    LogisticDiscriminant,
    MarginPCA,
    ProjectionPenaltyClassifier,
    load_model,
    open_dataset,
    run,
)
from mmpca_dist.errors import InputError

RNG = np.random.default_rng(3)
N = 200
Y = np.arange(N) % 3
BATCH = np.asarray(["u", "v"])[RNG.integers(0, 2, N)]
AGE = RNG.normal(50.0, 9.0, N)
X = np.abs(RNG.normal(3.0, 1.0, (N, 5)) + Y[:, None] + 2.0 * (BATCH == "v")[:, None] + 0.1 * AGE[:, None]) + 0.1
NAMES = [f"x{j}" for j in range(5)]
FRAME = pd.DataFrame(X, columns=NAMES).assign(age=AGE, batch=BATCH)
BESIDE = FRAME[["batch", "age"]]


def residuals():
    """Return rows less what covariates explain, by least squares with the classes as design."""
    Z = np.column_stack([BATCH == "v", AGE]).astype(float)
    design = np.column_stack([label == Y for label in range(3)] + [Z]).astype(float)
    return X - (Z - Z.mean(axis=0)) @ np.linalg.lstsq(design, X, rcond=None)[0][-2:]


@pytest.fixture(scope="module")
def fitted():
    return MarginPCA(2, precision="double").fit(FRAME[NAMES], Y, covariates=BESIDE)


FORMS = {
    "frame": lambda: FRAME,
    "shuffled": lambda: FRAME[["batch", *NAMES[::1], "age"]].assign(other=0).drop(columns="other"),
    "polars": lambda: pl.from_pandas(FRAME),
    "dask": lambda: dd.from_pandas(FRAME, npartitions=3),
    "anndata": lambda: pytest.importorskip("anndata").AnnData(
        X, obs=BESIDE.set_axis(map(str, range(N))), var=pd.DataFrame(index=NAMES)
    ),
    "categories": lambda: FRAME.astype({"batch": "category"}),
}


@pytest.mark.parametrize("form", list(FORMS))
def test_covariates_come_by_name_with_rows_of_any_kind(form, fitted):
    expected = residuals() @ fitted.components_.T
    np.testing.assert_allclose(np.asarray(fitted.transform(FORMS[form]())), expected, atol=1e-9)


def test_a_stored_table_is_refused_in_words(fitted, tmp_path):
    uri = write_parquet(tmp_path / "t.parquet", X, Y, NAMES, age=AGE, batch=BATCH)
    rows = open_dataset(uri, drop=["batch", "age"])
    with pytest.raises(InputError, match="no column 'batch'"):
        fitted.transform(rows)
    np.testing.assert_allclose(np.asarray(fitted.transform(rows, covariates=None)), X @ fitted.components_.T)


def test_given_covariates_go_with_lazy_rows_too(fitted):
    lazy = da.from_array(X, (60, 5))
    found = MarginPCA(2, precision="double").fit(lazy, Y, covariates=dict(BESIDE))
    np.testing.assert_allclose(np.asarray(found.transform(lazy, BESIDE)), residuals() @ found.components_.T, atol=1e-9)


LACKING = [X, da.from_array(X, (60, 5)), FRAME[NAMES], FRAME.drop(columns="batch")]


@pytest.mark.parametrize("rows", LACKING, ids=range(4))
def test_rows_without_their_covariates_are_refused_unless_that_is_said(rows, fitted):
    with pytest.raises(InputError, match=r"covariates 'batch', 'age', and X has no column.*covariates=None"):
        fitted.transform(rows)
    if not isinstance(rows, pd.DataFrame) or len(rows.columns) == 5:
        np.testing.assert_allclose(np.asarray(fitted.transform(rows, None)), X @ fitted.components_.T)
        np.testing.assert_allclose(np.asarray(fitted.transform(rows, covariates=None)), X @ fitted.components_.T)


@pytest.mark.parametrize("kind", [LogisticDiscriminant, ProjectionPenaltyClassifier, BayesianMarginPCA])
def test_predictions_need_them_as_well(kind):
    model = kind(n_components=2).fit(FRAME[NAMES], Y, covariates=BESIDE)
    np.testing.assert_allclose(model.decision_function(FRAME), model.decision_function(FRAME[NAMES], BESIDE))
    np.testing.assert_array_equal(model.predict(FRAME), model.predict(FRAME[NAMES], BESIDE))
    with pytest.raises(InputError, match="no column 'batch'"):
        model.predict(FRAME[NAMES])


def test_a_covariate_may_be_a_feature_as_well():
    both = [*NAMES, "age"]
    model = FisherDiscriminant(2).fit(FRAME[NAMES], Y, covariates=FRAME[["age"]])
    assert model.transform(FRAME[both]).shape == (N, 2)
    kept = MarginPCA(2).fit(FRAME[both], Y, covariates=FRAME[["batch"]])
    np.testing.assert_array_equal(kept.transform(FRAME), kept.transform(FRAME[both], FRAME[["batch"]]))


RUNS = {
    "covariates": {"covariates": ["batch", "age"]},
    "a text column": {"covariates": ["age"]},
    "a map that keeps the width": {"drop": ["batch", "age"], "maps": [{"name": "unit-length"}]},
    "a map and a covariate": {"covariates": ["batch", "age"], "maps": [{"name": "unit-length"}]},
    "features of a kernel": {"drop": ["batch", "age"], "maps": [{"name": "nystroem", "n_components": 20}]},
    "chosen columns": {"covariates": ["batch"], "columns": ["x3", "x0", "x4"]},
}


@pytest.mark.parametrize("dataset", list(RUNS))
def test_the_snippet_of_a_report_gives_what_transform_gives(dataset, tmp_path):
    uri = write_parquet(tmp_path / "rows.parquet", X, Y, NAMES, age=AGE, batch=BATCH)
    output = str(tmp_path / "out")
    run(config_of(output, uri, dataset=RUNS[dataset], methods=["m-pca0"], n_components=2, precision="double"))
    page = (tmp_path / "out/report/index.html").read_text()
    snippet = re.search(r"from mmpca_dist import load_ma?o?[^<]*", page).group()
    names = {"X": FRAME.assign(label=Y)}
    exec(snippet.replace("&#39;", "'").replace("&#34;", '"').replace("&quot;", '"').replace("&#x27;", "'"), names)  # noqa: S102
    through(output, uri, tmp_path / "p.csv", methods=["m-pca0"])
    expected = pd.read_csv(tmp_path / "p.csv")[["m-pca0_0", "m-pca0_1"]]
    np.testing.assert_allclose(np.asarray(names["Z"]), expected, atol=1e-6)
    if "covariates" in RUNS[dataset] and "maps" not in RUNS[dataset]:
        with pytest.raises(InputError, match="covariates=None"):
            load_model(output, "m-pca0").transform(X if "columns" not in RUNS[dataset] else X[:, :3])
