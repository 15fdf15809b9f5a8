"""Errors about rows, metadata routing, callbacks and explained variance, as scikit-learn's users know them."""

import datetime

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mmpca_dist import (
    PLS,
    FisherDiscriminant,
    GeneralizedDiscriminantAnalysis,
    LogisticDiscriminant,
    MarginPCA,
    NearestOpposite,
    NystroemFeatures,
    RandomProjection,
)
from mmpca_dist.errors import InputError

X, Y = load_iris(return_X_y=True, as_frame=True)
X.columns = list("abcd")
TAKERS = [MarginPCA(2), LogisticDiscriminant(1), GeneralizedDiscriminantAnalysis(1), NystroemFeatures(9)]
TAKERS += [NearestOpposite()]
DAYS, GAP = pd.date_range("2024", periods=150), np.where(np.arange(150) == 7, np.nan, 1.0)
BAD = {  # rows, and what errors say of them
    "text": (lambda: X.assign(b="x").to_numpy(object), r"column 1 of X has x in row 0"),
    "gap": (lambda: X.assign(c=GAP), r"column 'c' of X has NaN in row 7"),
    "gap in an array": (lambda: X.assign(c=GAP).to_numpy(), r"column 2 of X has NaN in row 7"),
    "none": (lambda: X.assign(c=GAP).to_numpy(object), r"column 2 of X has NaN in row 7"),
    "null": (lambda: pl.from_pandas(X.assign(c=GAP)), r"column 'c' of X has NaN in row 7"),
    "infinite": (lambda: X.assign(c=1 / GAP * np.inf).iloc[10:], r"column 'c' of X has inf in row 0"),
    "dates": (lambda: X.assign(day=DAYS), r"day|has 2024-01-01 .* in row 0"),
    "days": (lambda: X.assign(b=datetime.date(2024, 1, 1)).to_numpy(object), r"column 1 of X has 2024-01-01 in row 0"),
    "dates alone": (lambda: np.full((150, 4), "2024-01-01", "M8[D]"), r"X has type datetime64\[D\]"),
    "objects": (lambda: X.assign(b=[{}] * 150).to_numpy(object), r"column 1 of X has \{\} in row 0"),
    "two of a name": (lambda: X.set_axis(list("aabc"), axis=1), r"'a' 2 times"),
}


@pytest.mark.parametrize("estimator", TAKERS, ids=lambda taker: type(taker).__name__)
@pytest.mark.parametrize("bad", BAD)
def test_errors_name_the_class_and_the_column_at_fault(bad, estimator):
    rows, words = BAD[bad]
    labels = np.asarray(Y)[-len(rows()) :]
    with pytest.raises(InputError, match=f"^{type(estimator).__name__}: .*({words})"):
        sklearn.clone(estimator).fit(rows(), labels)
    if estimator is TAKERS[0]:
        for call in (MarginPCA(2).fit(X, Y).transform, lambda X: MarginPCA(2).partial_fit(X, labels)):
            with pytest.raises(InputError, match=f"^MarginPCA: .*({words}|feature names should match)"):
                call(rows())


def test_what_scikit_learn_says_ends_with_a_sentence():
    for rows, words in (
        (X.set_axis(["a", 1, "c", "d"], axis=1), r"string names, .*by using X\.columns = .* for example\.$"),
        (X.to_numpy() + 1j, r"Complex data not supported\.$"), (X["a"].to_numpy(), r"instead:\nReshape your data"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"^MarginPCA: .*{words}") as caught:
            MarginPCA(2).fit(rows, Y)
        assert caught.value.__suppress_context__, "scikit-learn's own refusal says no more"


def test_all_errors_of_a_fit_name_the_class():
    for call, words in (
        (lambda: MarginPCA(2).fit(X, np.zeros(150)), "There is only 1 class"),
        (lambda: MarginPCA(2).partial_fit(X, [None, *Y[1:]]), "Label None at position 0 of y"),
        (lambda: MarginPCA(2).fit(X, Y, np.full(150, -1)), "Row 0 has the weight -1.0 in sample_weight"),
        (lambda: MarginPCA(0).fit(X, Y), "n_components=0"),
        (lambda: NearestOpposite().fit(X, np.zeros(150)), "There is only 1 class"),
    ):
        with pytest.raises(InputError, match=f"^(MarginPCA|NearestOpposite): {words}"):
            call()


def test_advice_is_given_only_where_rounding_may_limit_the_components():
    for estimator, rows, words in (
        (FisherDiscriminant(5), X, r"classes less one, 2\.$"),
        (MarginPCA(2), np.ones((150, 4)), r"less 4 constant columns\.$"),
        (MarginPCA(4), X * [1, 1, 1, 1e-9], "standardise them, or set precision to double"),
    ):
        with pytest.raises(InputError, match=words):
            estimator.fit(rows, Y)


def test_other_columns_than_those_of_the_fit():
    model = MarginPCA(2).fit(X, Y)
    for rows, words in {
        "text": (X.assign(b="x"), "Column 'b' of X holds text, and held numbers in the fit"),
        "renamed": (X.rename(columns={"b": "q"}), "unseen at fit time:\n- q"),
        "fewer": (X[["a", "b"]], "now missing:\n- c"),
        "array": (X.to_numpy()[:, :3], "X has 3 features, but MarginPCA is expecting 4"),
        "lazy text": (da.from_array(X.to_numpy().astype(str), (50, -1)), "X has type <U32"),
    }.values():
        with pytest.raises(InputError, match=f"(?s)^MarginPCA: .*{words}"):
            model.transform(rows)
    with pytest.raises(TypeError, match=r"^MarginPCA: .*string names"):
        MarginPCA(2).fit(X.set_axis(["a", 1, "b", 2], axis=1), Y)
    with pytest.raises(InputError, match=r"^MarginPCA: Unknown label type: continuous"):
        MarginPCA(2).fit(X, X["a"])
    with pytest.raises(InputError, match=r"^PLS: y holds numbers, not classes: target='continuous' predicts them."):
        PLS(2).fit(X, X["a"])


VARIANCES = ("explained_variance_", "explained_variance_ratio_", "singular_values_", "n_components_")


def test_variances_are_those_of_pca_and_of_pca_alone():
    x, times = X.to_numpy(), np.arange(len(X)) % 3
    for parameters, rows, fitted, weights in (
        ({}, X, X, None),
        ({"standardize": True}, StandardScaler().fit_transform(X), X, None),
        ({}, np.repeat(x, times, axis=0), x, times),
        ({}, x[:3], x[:3], None),  # fewer rows than columns
    ):
        for k in (2, min(rows.shape) - 1):
            ours = MarginPCA(k, "pca", precision="double", **parameters).fit(fitted, sample_weight=weights)
            theirs = PCA(k).fit(rows)
            for name in (*VARIANCES, "n_samples_"):
                np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-14)
    for model in (MarginPCA(2), MarginPCA(2, "m-pca1a"), FisherDiscriminant(2), RandomProjection(2)):
        with pytest.raises(AttributeError, match=r"do not diagonalise the total scatter.*eigenvalues_ / total_"):
            _ = model.fit(X, Y).explained_variance_ratio_
    for name in VARIANCES:
        assert not hasattr(MarginPCA(2, "pca"), name)


@pytest.mark.parametrize("kind", [MarginPCA, LogisticDiscriminant])
def test_weights_and_covariates_are_routed(kind):
    rng = np.random.default_rng(0)
    batch, weights = rng.choice(["a", "b"], 150), rng.integers(1, 4, 150)
    moved = X + 3.0 * (batch == "b")[:, None]
    given = {"covariates": batch} | ({"sample_weight": weights} if kind is MarginPCA else {})
    with sklearn.config_context(enable_metadata_routing=True):
        reducer = kind(2).set_fit_request(**dict.fromkeys(given, True)).set_transform_request(covariates=True)
        judge = LogisticRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipe = make_pipeline(reducer, judge).fit(moved, Y, **given)
        alone = kind(2).fit(moved, Y, **given)
        np.testing.assert_array_equal(pipe[0].components_, alone.components_)
        Z = alone.transform(moved, covariates=batch)
        np.testing.assert_array_equal(pipe[:-1].transform(moved, covariates=batch), Z)
        scores = cross_validate(pipe, moved, Y, params=given, error_score="raise")["test_score"]
    assert not np.allclose(alone.components_, kind(2).fit(moved, Y).components_)
    assert scores.min() > 0.85, "batches are removed from rows held out, too"


class Log:
    """A callback of scikit-learn that keeps what it is told."""

    def __init__(self):
        self.told = []

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"{context.task_name} begins")

    def on_fit_task_end(self, estimator, context):
        self.told.append(f"{context.task_name} ends")


def test_callbacks_hear_of_every_pass():
    pytest.importorskip("sklearn.callback", reason="of scikit-learn 1.9")
    log, model = Log(), MarginPCA(2).fit(X, Y)
    heard = MarginPCA(2).set_callbacks(log).fit(X, Y)
    expected = ["setup", "fit begins", "moments begins", "moments ends", "fit ends", "teardown"]
    assert log.told == expected
    np.testing.assert_array_equal(heard.components_, model.components_)
    sweeps = LogisticDiscriminant(2).set_callbacks(log := Log()).fit(X, Y)
    assert sum(words.startswith("sweep") for words in log.told) > 2
    with pytest.raises(InputError):
        sweeps.set_params(n_components=9).fit(X, Y)
    assert log.told[-1] == "teardown"
