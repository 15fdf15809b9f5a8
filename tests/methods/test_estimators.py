"""The estimators keep scikit-learn's contract, take Dask collections, learn row by row; their scalars are scalars."""

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask_ml.preprocessing import StandardScaler as DaskScaler
from helpers.estimators import CONTINUOUS, DASK_FORMS, dask_forms, make
from helpers.estimators import VARIED as ALL
from helpers.tables import labelled
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import mmpca_dist
from mmpca_dist import (
    BayesianMarginPCA,
    KernelProjectionPenaltyClassifier,
    MarginPCA,
    MaximumMarginCriterion,
    ProjectionPenaltyClassifier,
    ScatterContrast,
    class_moments,
    load_model,
    open_dataset,
    run,
)
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.registry import METHODS

ESTIMATORS = [name for name in mmpca_dist.__all__ if hasattr(getattr(mmpca_dist, name), "get_params")]
SKIPPED = {
    "check_array_api_input": "runs with SCIPY_ARRAY_API set only, for estimators that take arrays of other kinds"
}
"""The checks of scikit-learn that do not run, with the reasons."""

OWN_OPTIONS = {
    "NystroemFeatures": {"n_components": 1},  # the checks have too few rows for its default
    "BayesianMarginPCA": {"max_iter": 10},  # no check asks for convergence, which takes most of the time
    "BayesianMarginRegressor": {"max_iter": 10},
}
KINDS = [name for name in ESTIMATORS if name != "NearestOpposite"]  # which is no transformer
CHECKED = {
    **{name: getattr(mmpca_dist, name)(**OWN_OPTIONS.get(name, {})) for name in KINDS},
    **CONTINUOUS,
    "medians": MarginPCA(variant="m-pca1b", standardize=True, center=True),
    "pairs": MarginPCA(variant="m-pca2", pairing="one-vs-one"),
    "whitening": ScatterContrast(A=None, B="total", square=True),
    "hinge": ProjectionPenaltyClassifier(n_components=1, loss="hinge", penalty="l1"),
    "exact kernel": KernelProjectionPenaltyClassifier(KernelPCA(1, kernel="rbf"), epsilon=0, alpha=0.1),
}
"""Every public class once, and again where it takes other rows, labels or a solver of another kind."""
BEYOND = ("hinge", "exact kernel")
"""Those with other losses and solvers, which take the longest."""


WITHOUT_WEIGHTS = {
    "AllColumns": "fewer rows than columns are given in a basis of their span, which is that of no more rows",
}
"""The estimators that fail checks of ``sample_weight``, with the reasons."""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.e2e if name in BEYOND else ()) for name in CHECKED]
)
def test_every_check_of_scikit_learn_passes(name, monkeypatch):
    """Most do run, and those that are skipped, or fail, are known."""
    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    results = check_estimator(clone(CHECKED[name]), on_skip=None, on_fail=None)
    assert sum(result["status"] == "passed" for result in results) > 40
    failed = {result["check_name"] for result in results if result["status"] not in ("passed", "skipped")}
    assert all("sample_weight" in check for check in failed) and bool(failed) == (name in WITHOUT_WEIGHTS), failed
    assert {result["check_name"] for result in results if result["status"] == "skipped"} == set(SKIPPED)


def test_pipeline_grid_search_and_names_of_features():
    X, y = labelled(90, 5, 3, seed=1)
    frame = pd.DataFrame(X, columns=list("abcde"))
    search = GridSearchCV(
        make_pipeline(MarginPCA(2), LogisticRegression()),
        {"marginpca__variant": ["pca", "m-pca0"], "marginpca__n_components": [1, 3]},
        cv=2,
        error_score="raise",
    )
    assert search.fit(frame, y).score(frame, y) > 0.5
    reducer = MarginPCA(2).set_output(transform="pandas").fit(frame, y)
    Z = reducer.transform(frame)
    assert isinstance(Z, pd.DataFrame)
    assert Z.columns.tolist() == reducer.get_feature_names_out().tolist() == ["marginpca0", "marginpca1"]
    assert reducer.feature_names_in_.tolist() == list("abcde")


def test_labels_may_be_strings():
    X, y = labelled(60, 4, 3, seed=2)
    names = np.asarray(["ant", "bee", "cat"], dtype=object)[y]
    found = MarginPCA(2).fit(X, names)
    assert found.classes_.tolist() == ["ant", "bee", "cat"]
    np.testing.assert_array_equal(found.components_, MarginPCA(2).fit(X, y).components_)


@pytest.mark.parametrize("form", DASK_FORMS)
@pytest.mark.parametrize("name", ["m-pca0", "m-pca1b", "m-pca2", "fisher"])
def test_dask_collections_give_the_components_of_the_rows_in_memory(name, form, several_units):
    X, y = labelled(90, 5, 3, seed=3)
    rows, labels = dask_forms(X, y)[form]
    found = make(name, n_components=2, precision="double").fit(rows, labels)
    expected = make(name, n_components=2, precision="double").fit(X, y)
    # 90 eps over gaps above 1e-2 of the trace; Fisher's shrinkage of 1e-3 amplifies once more
    tolerance = 1e-9 if name == "fisher" else 1e-11
    np.testing.assert_allclose(found.components_, expected.components_, atol=tolerance)
    Z = found.transform(rows)
    assert dask.is_dask_collection(Z), "transform must stay lazy"
    assert Z.dtype == np.float64
    np.testing.assert_allclose(Z.compute(), expected.transform(X), atol=1e-8)


def test_wide_dask_arrays():
    X, y = labelled(12, 40, 2, seed=4)
    found = MarginPCA(3, precision="double").fit(da.from_array(X, (5, 7)), da.from_array(y, 12))
    np.testing.assert_allclose(found.components_, MarginPCA(3, precision="double").fit(X, y).components_, atol=1e-10)


def test_nothing_is_computed_by_transform_until_asked():
    X, y = labelled(40, 5, 2, seed=5)
    reducer, touched = MarginPCA(2).fit(X, y), []

    def touch(block):
        touched.append(len(block))
        return block

    Z = reducer.transform(da.from_array(X, (10, 5)).map_blocks(touch, dtype=X.dtype, meta=np.empty((0, 5))))
    assert Z.shape == (40, 2)
    assert not touched
    Z.compute()
    assert touched == [10] * 4


def test_after_the_standard_scaler_of_dask_ml():
    X, y = labelled(90, 5, 3, seed=6)
    rows, labels = da.from_array(X, (20, 5)), da.from_array(y, 20)
    chain = make_pipeline(DaskScaler(), MarginPCA(2, center=True, precision="double")).fit(rows, labels)
    direct = MarginPCA(2, standardize=True, precision="double").fit(X, y)
    np.testing.assert_allclose(chain.transform(rows).compute(), direct.transform(X), atol=1e-10)


@pytest.mark.parametrize("kind", ["array", "data set"])
def test_a_lazy_transform_takes_no_moments_along(kind):
    """They are C d^2 doubles, which would go to the workers with each of the tasks."""
    X, y = (da.random.random((400, 64), chunks=(50, 64)), np.arange(400) % 10)
    rows, labels = (X, y) if kind == "array" else (open_dataset("bundled:digits"), None)
    reducer = MarginPCA(2).fit(rows, labels)
    assert len(cloudpickle.dumps(reducer)) > 10 * 64**2 * 8, "what partial_fit extends"
    assert len(cloudpickle.dumps(reducer.transform(rows).__dask_graph__())) < 2 * 64**2 * 8


def test_inverse_transform_of_a_dask_array_stays_lazy():
    X, y = labelled(40, 5, 2, seed=7)
    reducer = MarginPCA(2, center=True).fit(X, y)
    back = reducer.inverse_transform(reducer.transform(da.from_array(X, (10, 5))))
    assert dask.is_dask_collection(back)
    np.testing.assert_allclose(back.compute(), reducer.inverse_transform(reducer.transform(X)), atol=1e-12)


@pytest.mark.parametrize(
    ("d", "chunks", "row", "first", "last"),
    [(5, (15, 15, 15, 15), 43, 30, 44), (5, (15, 15, 15, 15), 45, 45, 59), (5, (5, 5, 0, 5, 45), 12, 10, 14),
     (90, (20, 20, 20), 55, 40, 59)],
)  # fmt: skip
@pytest.mark.parametrize("joined", [False, True])
def test_a_value_that_is_not_finite_in_dask_rows_is_named_by_row_and_block(d, chunks, row, first, last, joined, limits):
    """Whether or not several blocks are read as one unit."""
    limits.unit_bytes = (60 if joined else 20) * d * 8
    X, y = labelled(60, d, 2, seed=8)
    X[row, 3] = np.nan
    with pytest.raises(InputError, match=f"Found nan in row {row}, column 3, in rows {first} to {last} of the Dask"):
        MarginPCA(2).fit(da.from_array(X, (chunks, d)), y)


def test_dask_rows_that_cannot_be_used_are_refused(several_units):
    X, y = labelled(60, 5, 2, seed=8)
    with pytest.raises(InputError, match="60 rows and y 59 labels"):
        MarginPCA(2).fit(da.from_array(X, (15, 5)), y[:59])
    with pytest.raises(InputError, match="only 1 class"):
        MarginPCA(2).fit(da.from_array(X, (15, 5)), np.zeros(60, int))
    with pytest.raises(InputError, match="y are None"):
        MarginPCA(2).fit(da.from_array(X, (15, 5)), None)
    with pytest.raises(InputError, match="type <U3"):
        MarginPCA(2).fit(da.from_array(X.astype("U3"), (15, 5)), y)
    fitted = MarginPCA(2).fit(X, y)
    with pytest.raises(InputError, match="X has 4 features, but MarginPCA is expecting 5"):
        fitted.transform(da.from_array(X[:, :4], (15, 4)))


def test_partitions_of_rows_and_labels_that_differ_in_length_are_not_paired_wrongly(several_units):
    """Both hold 60 rows in two pieces, of 25 + 35 rows and 30 + 30 labels: right, or refused."""
    X, y = labelled(60, 5, 2, seed=9)
    frame = pd.DataFrame(X, columns=list("abcde"))
    cuts = (slice(0, 25), slice(25, 60))
    rows = dd.from_map(lambda i: frame.iloc[cuts[i]], [0, 1], meta=frame.iloc[:0])
    try:
        found = MarginPCA(2, precision="double").fit(rows, da.from_array(y, 30))
    except InputError:
        return
    expected = MarginPCA(2, precision="double").fit(X, y)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-11)


PARTIAL = [name for name, reducer in ALL.items() if hasattr(reducer, "partial_fit")]


@pytest.mark.parametrize("name", PARTIAL)
def test_partial_fit_is_exact(name):
    """After any number of pieces, with classes that come late, as if all rows had come at once."""
    X, y = labelled(90, 5, 3, seed=10)
    order = np.argsort(y, kind="stable")  # the first pieces hold one class only
    X, y = X[order], y[order]
    pieces = make(name, n_components=2, precision="double")
    for start in range(0, 90, 15):
        pieces.partial_fit(X[start : start + 15], y[start : start + 15])
    whole = make(name, n_components=2, precision="double").fit(X, y)
    assert_same(pieces, whole, name)
    assert pieces.classes_.tolist() == [0, 1, 2]


def test_medians_do_not_merge_so_there_is_no_partial_fit():
    assert not hasattr(make("m-pca1b"), "partial_fit")
    assert hasattr(make("m-pca0"), "partial_fit")
    with pytest.raises(AttributeError, match="no partial_fit: the median of two sets of rows does not follow"):
        make("m-pca1b").partial_fit(None, None)
    assert "m-pca1b" in MarginPCA.partial_fit.__doc__


def assert_same(found, expected, name):
    """Two fits of the same rows in another order of summation."""
    tolerance = 1e-9 if name.startswith("fisher") else 1e-11
    np.testing.assert_allclose(found.components_, expected.components_, atol=tolerance)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=tolerance)


@pytest.mark.parametrize("name", PARTIAL)
def test_partial_fit_extends_a_fit_which_forgets_what_was_before(name):
    X, y = labelled(120, 5, 3, seed=11)
    reducer = make(name, n_components=2, precision="double").partial_fit(X[:30] + 100, y[:30])
    reducer.fit(X[30:80], y[30:80])
    assert reducer.moments_.n_rows == 50
    reducer.partial_fit(X[80:], y[80:])
    assert reducer.moments_.n_rows == 90
    assert_same(reducer, make(name, n_components=2, precision="double").fit(X[30:], y[30:]), name)


@pytest.mark.parametrize("name", PARTIAL)
def test_partial_fit_extends_stored_moments_and_dask_fits_and_single_rows(name):
    X, y = labelled(90, 5, 3, seed=12)
    expected = make(name, n_components=2, precision="double").fit(X, y)
    stored, options = class_moments(X[:60], y[:60], precision="double"), expected.get_params()
    for reducer in (
        type(expected).from_moments(stored, **options),
        make(name, n_components=2, precision="double").fit(da.from_array(X[:60], (20, 5)), y[:60]),
    ):
        reducer.partial_fit(X[60:89], y[60:89]).partial_fit(X[89:], y[89:])
        assert_same(reducer, expected, name)


def test_the_kept_moments_are_those_of_the_rows_themselves():
    """Not of standardised rows: the scale changes with every row that comes."""
    X, y = labelled(60, 5, 3, seed=13)
    kept = MarginPCA(standardize=True, precision="double").fit(X, y).moments_
    expected = class_moments(X, y, precision="double")
    np.testing.assert_array_equal(kept.means, expected.means)
    np.testing.assert_array_equal(kept.scatters, expected.scatters)


def test_a_fit_that_kept_no_moments_refuses_to_be_extended(limits):
    X, y = labelled(60, 5, 3, seed=14)
    wide = MarginPCA(2).fit(np.tile(X[:9], 2), y[:9])
    limits.pooled_bytes = 3 * 5 * 5 * 8 - 1
    for reducer, rows, reason in (
        (wide, np.tile(X, 2), "fewer rows than columns"),
        (MarginPCA(2).fit(X, y), X, "many classes were pooled"),
        (MarginPCA(2, "m-pca1b").fit(X, y).set_params(variant="m-pca0"), X, "the median of two sets"),
    ):
        before = reducer.components_.copy()
        with pytest.raises(InputError, match=f"{reason}.* Start with partial_fit, or with from_moments"):
            reducer.partial_fit(rows, y)
        np.testing.assert_array_equal(reducer.components_, before)
        assert not hasattr(reducer, "moments_")
        assert reducer.fit(X[:, :4], y).n_features_in_ == 4  # a new fit is always possible
    assert not hasattr(MarginPCA(), "moments_")


def test_labels_of_another_kind_are_refused_of_another_width_accepted():
    X, y = labelled(60, 5, 3, seed=15)
    reducer = MarginPCA(2, precision="double").fit(X[:30], y[:30].astype(np.uint8))
    assert_same(reducer.partial_fit(X[30:], y[30:]), MarginPCA(2, precision="double").fit(X, y), "m-pca0")
    with pytest.raises(InputError, match="Labels were int64 and are now <U21"):
        reducer.partial_fit(X, y.astype(str))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_constructors_store_every_parameter_as_it_is(name):
    """Parameters of base classes are handed on one by one."""
    kind = getattr(mmpca_dist, name)
    given = {parameter: object() for parameter in kind().get_params(deep=False)}
    assert given
    stored = kind(**given).get_params(deep=False)
    assert all(stored[parameter] is value for parameter, value in given.items())


SCALARS = {
    "alpha_": float, "C_": float, "converged_": bool, "proved_": bool, "fitted_by_fold_": bool, "n_iter_": int,
    "n_unlabelled_": int, "n_negative_": int, "negative_sum_": float, "n_components_": int, "gamma_": float,
    "n_samples_": float,
}  # fmt: skip
FITTED = [
    name for name in mmpca_dist.__all__ if hasattr(getattr(mmpca_dist, name), "fit") and name != "NearestOpposite"
]
STORED = {
    "bm2pca": (BayesianMarginPCA(2, C="auto", max_iter=2, precision="double"), {"C": "auto", "max_iter": 2}),
    "projection-penalty": (
        ProjectionPenaltyClassifier("pca", n_components=2, alpha="auto", alphas=(0.1, 10.0), precision="double"),
        {"reduction": "pca", "alpha": "auto", "alphas": [0.1, 10.0]},
    ),
    "mmc": (MaximumMarginCriterion(2, precision="double"), {}),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITTED)
def test_nothing_fitted_is_an_array_of_one_number(name):
    """A fit of three classes or targets, two components and five columns."""
    X, y = labelled(60, 5, 3, seed=1)
    model = getattr(mmpca_dist, name)()
    if "n_components" in model.get_params():
        model.set_params(n_components=2)
    model.fit(X, np.eye(3)[y] if name.endswith("Regressor") else y)
    fitted = {key: getattr(model, key) for key in dir(model) if key.endswith("_") and not key.startswith("_")}
    fitted |= {key: getattr(model, key) for key in SCALARS if hasattr(model, key)}
    fitted.pop("moments_", None)
    assert not [key for key, value in fitted.items() if isinstance(value, np.ndarray) and value.size == 1]
    assert all(type(value) is SCALARS[key] for key, value in fitted.items() if key in SCALARS)


@pytest.mark.parametrize("method", STORED)
def test_models_that_are_loaded_have_the_same_scalars(method, tmp_path):
    expected, options = STORED[method]
    X, y = labelled(60, 5, 3, seed=2)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    settings = {
        "dataset": {"uri": str(tmp_path / "rows.npz")}, "methods": [{"name": method, **options}],
        "n_components": 2, "precision": "double", "output": str(tmp_path / "out"),
    }  # fmt: skip
    run(settings)
    found, expected = load_model(str(tmp_path / "out"), method), expected.fit(X, y)
    scalars = [name for name in METHODS[method].estimator.traits.stored if name in SCALARS]
    assert len(scalars) > 1
    for name in (*scalars, "n_samples_"):
        assert type(getattr(found, name)) is SCALARS[name] is type(getattr(expected, name))
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9)
