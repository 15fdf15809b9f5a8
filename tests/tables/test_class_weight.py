"""``class_weight``: classes count as often as repeated rows would, from stored moments where these suffice."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.evaluating import scored
from helpers.moment_reducers import REDUCERS
from helpers.runs import Recorder, refreshed
from helpers.samples import batch_of, largest_angle
from helpers.tables import config_of, in_form, labelled, write_npz
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.utils import compute_sample_weight

from mmpca_dist import MarginPCA, load_model, run
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.statistics.class_weights import class_factors

NAMES = np.asarray(["a", "b", "c"])
TIMES = {"a": 1, "b": 3, "c": 2}
METHODS = {"methods": ["pca", "m-pca0", "m-pca2"], "n_components": 2}

pytestmark = pytest.mark.usefixtures("no_report")


def rows(n, d, seed=1):
    """Return rows of three classes, of 6 : 3 : 2 rows where n is a multiple of 11, and their labels."""
    X, _ = labelled(n, d, 3, seed=seed)
    y = np.repeat([0, 1, 2], [6 * n // 11, 3 * n // 11, 2 * n // 11])
    X[y == 2] += 2
    order = np.random.default_rng(seed).permutation(n)
    return X[order], NAMES[y[order]]


@pytest.mark.parametrize("method", [method for method in REDUCERS if method != "m-pca1b"])
@pytest.mark.parametrize(("n", "d"), [(88, 6), (22, 40)])
def test_weights_are_repeated_rows(n, d, method, tmp_path):
    """Of classes that count alike, rounding decides which mean lol takes first."""
    X, y = rows(n, d)
    forms = [in_form(form, X, y, tmp_path) for form in ("array", "csr", "dask", "data set")]
    for standardize in (False, True):
        for class_weight in (TIMES, {"a": 0}, "balanced"):
            settings = {"precision": "double", "standardize": standardize}
            twin = REDUCERS[method]().set_params(**settings)
            if class_weight == "balanced":
                twin.fit(X, y, sample_weight=compute_sample_weight("balanced", y))
            else:
                w = np.asarray([class_weight.get(label, 1) for label in y])
                twin.fit(np.repeat(X, w, axis=0), np.repeat(y, w))
            # Columns are standardised once the form of the rows is gone.
            for number, (given, labels) in enumerate(forms[:1] if standardize else forms):
                reducer = REDUCERS[method]().set_params(**settings, class_weight=class_weight)
                if class_weight == {"a": 0} and number == 2 and (n < d or method == "m-pca2"):
                    with pytest.raises(InputError, match="leave the rows of these classes out"):
                        reducer.fit(given, labels)
                    continue
                found = reducer.fit(given, labels)
                assert found.components_.shape == twin.components_.shape
                assert largest_angle(found.components_, twin.components_.T) < 1e-7
                ordered = slice(2, None) if (method, class_weight) == ("lol", "balanced") else slice(None)
                np.testing.assert_allclose(found.eigenvalues_[ordered], twin.eigenvalues_[ordered], rtol=1e-9)


def test_moments_are_kept_without_weights_and_weighed_anew():
    X, y = rows(88, 5)
    once = MarginPCA(2, class_weight="balanced", precision="double").fit(X, y)
    twice = MarginPCA(2, class_weight="balanced", precision="double").fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert once.moments_.counts.tolist() == [48, 24, 16]
    np.testing.assert_allclose(twice.components_, once.components_, atol=1e-12)
    again = MarginPCA.from_moments(once.moments_, "m-pca0", 2, class_weight={"b": 2}, precision="double")
    w = np.where(y == "b", 2, 1)
    np.testing.assert_allclose(
        again.components_, MarginPCA(2, precision="double").fit(X, y, sample_weight=w).components_, atol=1e-12
    )


@pytest.mark.parametrize("kind", ["krylov", "pooled"])
def test_solvers_in_passes_and_pooled_scatters(kind, monkeypatch):
    X, y = rows(220, 30)
    w = np.asarray([TIMES[label] for label in y])
    settings = {"solver": "krylov", "passes": 12, "tolerance": 0} if kind == "krylov" else {}
    if kind == "pooled":
        monkeypatch.setattr(LIMITS, "pooled_bytes", 1)
    for variant in ("pca", "m-pca0", "m-pca1a"):
        reducer = MarginPCA(2, variant=variant, precision="double", **settings)
        expected = MarginPCA(2, variant=variant, precision="double").fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        for given in (X, da.from_array(X, (50, -1)), scipy.sparse.csr_array(X)):
            found = reducer.set_params(class_weight=TIMES).fit(given, y)
            assert largest_angle(found.components_, expected.components_.T) < 1e-6, variant


@pytest.mark.parametrize("shape", [(88, 5), (22, 30)])
def test_runs_and_refreshes(shape, tmp_path):
    X, y = rows(*shape)
    results = run(
        config_of(tmp_path / "out", write_npz(tmp_path / "all.npz", X, y), class_weight="balanced", **METHODS)
    )
    assert results["count"]["counts"] == np.unique(y, return_counts=True)[1].tolist()
    for method in ("pca", "m-pca0", "m-pca2"):
        expected = MarginPCA(2, variant=method, precision="double", class_weight="balanced").fit(X, y)
        np.testing.assert_allclose(
            load_model(str(tmp_path / "out"), method).components_, expected.components_, atol=1e-9
        )
    if len(X) < X.shape[1]:
        return
    one, two = write_npz(tmp_path / "one.npz", X[:50], y[:50]), write_npz(tmp_path / "two.npz", X[50:], y[50:])
    run(config_of(tmp_path / "first", one, class_weight="balanced", **METHODS))
    found = load_model(refreshed(tmp_path / "first", two, tmp_path / "live")["folder"], "m-pca0")
    np.testing.assert_allclose(found.components_, load_model(str(tmp_path / "out"), "m-pca0").components_, atol=1e-9)


@pytest.mark.parametrize("class_weight", ["balanced", TIMES, {"a": 0, "b": 2}])
def test_runs_that_pool_their_scatters_are_right_and_not_refreshed(class_weight, tmp_path, limits):
    X, y = rows(88, 5)
    y = np.where(np.arange(88) % 11 == 0, "d", y)
    uri, methods = write_npz(tmp_path / "all.npz", X, y), ["pca", "m-pca0", "fisher", "lol", "m-pca2"]
    limits.pooled_bytes = 1
    w = compute_sample_weight({"c": 1, "d": 1, **class_weight} if class_weight != "balanced" else "balanced", y)
    settings = {"class_weight": class_weight, "standardize": True, "methods": methods}
    recorder = Recorder()
    run(config_of(tmp_path / "out", uri, **settings), [recorder])
    assert not any("standard errors" in note for note in recorder.notes), "all rows of classes that count are searched"
    for method in methods:
        found = load_model(str(tmp_path / "out"), method)
        reducer = config_of("x", "x", methods=method, standardize=True).reducer(method, len(found.components_))
        expected = reducer.fit(X, y, sample_weight=w)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9, err_msg=method)
    with pytest.raises(InputError, match="pooled for the class counts or weights of just its own rows"):
        refreshed(tmp_path / "out", uri, tmp_path / "live")


@pytest.mark.parametrize("direct", [True, False], ids=["in memory", "merged"])
@pytest.mark.parametrize("standardize", [False, True])
def test_evaluations_weigh_reductions_and_no_errors(direct, standardize, tmp_path, limits):
    X, y = rows(220, 5)
    uri = write_npz(tmp_path / "all.npz", X, y)
    if not direct:
        limits.direct_bytes = 0
    evaluation = {"classifiers": ["lda", "qda"], "margins": False}
    settings = {"methods": ["m-pca0"], "evaluation": evaluation, "standardize": standardize}
    records, splits, _ = scored(config_of(tmp_path / "out", uri, class_weight=TIMES, **settings))
    parts = splits.codes(batch_of(y))[0]
    for part, record in enumerate(records):
        train, w = parts != part, np.asarray([TIMES[label] for label in y])
        reducer = MarginPCA(2, precision="double", standardize=standardize).fit(X[train], y[train], w[train])
        models = LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis()
        for line, model in zip(record["errors"], models, strict=True):
            model.fit(reducer.transform(X[train]), y[train])
            assert line["errors"] == np.count_nonzero(model.predict(reducer.transform(X[~train])) != y[~train])
        assert record["rows"] == np.count_nonzero(~train)


@pytest.mark.parametrize(("class_weight", "message"), [
    ("even", "must be 'balanced', or weights by label"),
    ({"d": 1}, "class_weight names the class 'd'; there are"),
    ({"a": -1}, "its weights must be 0 or positive numbers"),
    ({"a": 0, "b": 0}, "leaves fewer than two classes"),
])  # fmt: skip
def test_refused(class_weight, message):
    X, y = rows(88, 5)
    with pytest.raises(InputError, match=message):
        MarginPCA(2, class_weight=class_weight).fit(X, y)
    with pytest.raises(InputError, match="Medians take no class_weight"):
        MarginPCA(2, variant="m-pca1b", class_weight="balanced").fit(X, y)


def test_balanced_classes_without_rows_take_no_part():
    """As where a split holds all rows of a class out: the sum of the weights stays that of the rows that are left."""
    names = np.repeat(NAMES[[0, 2]], [3, 5])
    by_class = dict(zip(names, compute_sample_weight("balanced", names), strict=True))
    factors = class_factors("balanced", NAMES, np.asarray([3.0, 0, 5]))
    np.testing.assert_allclose(factors, [by_class["a"], 0, by_class["c"]], rtol=1e-15)
