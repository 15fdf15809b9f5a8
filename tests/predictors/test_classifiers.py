"""Classifiers by name: LIBLINEAR's are minima, others are scikit-learn's, and what strangers name is not run."""

import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pytest
from helpers.classifying import moments_of
from helpers.tables import labelled
from naive_judging import penalised_loss
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from mmpca_dist.errors import InputError
from mmpca_dist.predictors.classifiers import ClassifierSection, fit_from_moments, is_from_moments
from mmpca_dist.predictors.fits import GRID, choose_C, convergence_notes, fit_rows, linear_parts
from mmpca_dist.predictors.gaussian import naive_bayes, quadratic_discriminant
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.predictors.specification import CLASSIFIERS

NAMES = {2: np.array(["no", "yes"]), 3: np.array(["a", "b", "c"])}


def spec(name, **settings):
    return ClassifierSection(name=name, **settings)


def plain_liblinear(kind, Z, y, C, bias):
    """LIBLINEAR as the paper calls it: -s 1 (dual) and -s 0 (primal), -B -1 or 1, but to a smaller tolerance."""
    settings = {"C": C, "fit_intercept": bias, "tol": 1e-7, "max_iter": 100_000, "random_state": 1}
    if kind == "svm":
        return LinearSVC(dual=True, **settings).fit(Z, y)
    model = LogisticRegression(solver="liblinear", **settings)
    return (OneVsRestClassifier(model) if len(set(y)) > 2 else model).fit(Z, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(150, 5), (40, 90)])
@pytest.mark.parametrize("kind", ["svm", "logistic"])
def test_liblinear_as_the_paper_calls_it(kind, shape, bias, n_classes):
    """The same coefficients and predictions, whatever form and coordinates were solved in; labels as text."""
    Z, codes = labelled(shape[0] + 50, shape[1], n_classes, seed=1, mean=0.5)
    y, (rows, new) = NAMES[n_classes][codes][: shape[0]], np.split(Z, [shape[0]])
    for C in (0.01, 1.0):
        fitted = fit_rows(spec(kind, C=C, bias=bias), rows, y)
        plain = plain_liblinear(kind, rows, y, C, bias)
        parts = plain.estimators_ if isinstance(plain, OneVsRestClassifier) else [plain]
        expected = np.concatenate([part.coef_ for part in parts])
        intercept = np.concatenate([np.atleast_1d(part.intercept_) for part in parts])
        coef, found = linear_parts(fitted)
        np.testing.assert_allclose(coef, expected, atol=1e-4 * np.abs(expected).max())
        np.testing.assert_allclose(found, np.broadcast_to(intercept, found.shape), atol=1e-4 * np.abs(expected).max())
        scores = np.sort(np.abs(plain.decision_function(new).reshape(len(new), -1)), axis=1)
        clear = scores[:, 0] > 1e-3 if n_classes == 2 else np.ones(len(new), bool)
        np.testing.assert_array_equal(fitted.predict(new)[clear], plain.predict(new)[clear])
        assert fitted.unconverged == 0


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("spread", ["falling", "even"])
@pytest.mark.parametrize("shape", [(120, 6), (25, 40)])
@pytest.mark.parametrize("kind", ["svm", "logistic"])
def test_coefficients_are_the_minimum(kind, shape, spread, C):
    """Another solver that starts there finds nothing lower: rows nearly dependent, and separable ones, C large."""
    Z, y = labelled(*shape, 2, seed=2)
    if spread == "even":
        Z = np.random.default_rng(2).standard_normal(shape) + y[:, None] / 2
    signs = 2 * y - 1
    coef, intercept = linear_parts(fit_rows(spec(kind, C=C, bias=False), Z, y))
    start = penalised_loss(kind, coef[0], Z, signs, C)[0]
    lower = minimize(
        lambda w: penalised_loss(kind, w, Z, signs, C), coef[0], jac=True, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 300},
    )  # fmt: skip
    assert start <= lower.fun * (1 + 1e-6)
    assert intercept == [0]


def test_the_bias_is_a_penalised_column_of_ones():
    Z, y = labelled(90, 4, 2, seed=3)
    for kind in ("svm", "logistic", "dask-logistic"):
        coef, intercept = linear_parts(fit_rows(spec(kind), Z, y))
        longer, none = linear_parts(fit_rows(spec(kind, bias=False), np.column_stack([Z, np.ones(90)]), y))
        np.testing.assert_allclose(np.append(coef, intercept), longer[0], rtol=1e-3, atol=1e-4)
        assert none == [0]


def test_rows_may_be_sparse_and_labels_any_integers():
    Z, y = labelled(80, 6, 2, seed=4)
    dense, sparse = (fit_rows(spec("svm"), rows, 7 - 10 * y) for rows in (Z, csr_array(Z)))
    np.testing.assert_allclose(linear_parts(sparse)[0], linear_parts(dense)[0], rtol=1e-6)
    np.testing.assert_array_equal(dense.classes, [-3, 7])
    assert set(dense.predict(Z)) == {-3, 7}
    np.testing.assert_array_equal(sparse.predict(csr_array(Z)), dense.predict(Z))
    auto = [spec("svm", C="auto"), spec("logistic", C="auto", bias=True)]
    assert choose_C(auto, csr_array(Z), y) == choose_C(auto, Z, y)


def test_from_moments_by_name():
    Z, codes = labelled(200, 4, 3, seed=5)
    y = NAMES[3][codes]
    reduced = moments_of(Z, y)
    pairs = [
        ("fisher", {}, fisher_linear(reduced)),
        ("lda", {"tol": 1e-3}, linear_discriminant(reduced, 1e-3)),
        ("qda", {"reg_param": 0.2}, quadratic_discriminant(reduced, 0.2)),
        ("naive-bayes", {"var_smoothing": 0.1}, naive_bayes(reduced, 0.1)),
    ]
    for name, options, expected in pairs:
        one = spec(name, options=options)
        assert is_from_moments(one)
        np.testing.assert_array_equal(
            fit_from_moments(one, reduced).decision_function(Z), expected.decision_function(Z)
        )
    assert [name for name in CLASSIFIERS if is_from_moments(spec(name))] == [name for name, _, _ in pairs]


def test_any_classifier_of_scikit_learn():
    Z, codes = labelled(150, 5, 3, seed=6)
    y = NAMES[3][codes]
    pairs = [
        (spec("sklearn.neighbors.KNeighborsClassifier", options={"n_neighbors": 3}), KNeighborsClassifier(3)),
        (spec("sklearn.svm.SVC", C=5), SVC(C=5.0)),
        (
            spec("sklearn.ensemble.RandomForestClassifier", options={"n_estimators": 7}),
            RandomForestClassifier(7, random_state=0),
        ),
        (spec("sklearn.linear_model.RidgeClassifier"), RidgeClassifier(random_state=0)),
    ]
    for one, model in pairs:
        np.testing.assert_array_equal(
            fit_rows(one, Z[:100], y[:100]).predict(Z), model.fit(Z[:100], y[:100]).predict(Z)
        )
    assert spec("sklearn.svm.SVC").label == "SVC"


def test_what_is_linear():
    """Coefficients of rules, of estimators and none of others; scores of pairs of classes are not those of classes."""
    Z, y = labelled(120, 4, 3, seed=7)
    two = y > 0
    for labels in (y, two):
        for rule in (fisher_linear(moments_of(Z, labels)), linear_discriminant(moments_of(Z, labels))):
            coef, intercept = linear_parts(rule)
            found = (Z @ coef.T + intercept).squeeze()
            np.testing.assert_allclose(found, rule.decision_function(Z), rtol=1e-9, atol=1e-9)
        for model in (RidgeClassifier(), LogisticRegression()):
            coef, intercept = linear_parts(model.fit(Z, labels))
            np.testing.assert_allclose((Z @ coef.T + intercept).squeeze(), model.decision_function(Z), atol=1e-9)
    assert linear_parts(naive_bayes(moments_of(Z, y))) is None
    assert linear_parts(KNeighborsClassifier().fit(Z, y)) is None
    assert linear_parts(SVC(kernel="rbf").fit(Z, two)) is None
    assert linear_parts(SVC(kernel="linear").fit(Z, two))[0].shape == (1, 4)
    assert linear_parts(SVC(kernel="linear").fit(Z, y)) is None
    assert linear_parts(fit_rows(spec("sklearn.linear_model.RidgeClassifier"), Z, y))[0].shape == (3, 4)


@pytest.mark.parametrize(("n_classes", "C", "bias"), [(2, 10.0, True), (3, 0.1, False), (3, 1.0, True)])
def test_logistic_regression_out_of_memory_is_the_minimum(n_classes, C, bias):
    """The gradient of a function with second derivatives of at least 1 bounds the distance from its minimum.

    Blocks are added up in their order: the bits do not depend on the threads.
    """
    Z, y = labelled(160, 4, n_classes, seed=13, mean=0.5)
    longer = np.column_stack([Z, np.ones(160)]) if bias else Z
    one = spec("dask-logistic", C=C, bias=bias, options={"tol": 1e-7})
    found = []
    for settings in ({"scheduler": "synchronous"}, {"scheduler": "threads", "num_workers": 4}):
        with dask.config.set(settings):
            found.append(linear_parts(fit_rows(one, da.from_array(Z, chunks=(30, 4)), y)))
    (coef, intercept), (other, _) = found
    np.testing.assert_array_equal(coef, other)
    for code, w in enumerate(np.column_stack([coef, intercept]) if bias else coef, n_classes == 2):
        signs = np.where(y == code, 1, -1)
        expected = minimize(
            lambda w, signs=signs: penalised_loss("logistic", w, longer, signs, C), np.zeros(len(w)), jac=True,
            method="BFGS", options={"gtol": 1e-8},
        )  # fmt: skip
        value, gradient = penalised_loss("logistic", w, longer, signs, C)
        distance = np.linalg.norm(gradient)
        assert value <= expected.fun * (1 + 1e-7)
        assert np.linalg.norm(w - expected.x) <= distance + 1e-6 and distance <= 5e-3 * np.linalg.norm(w)
    assert bias or not intercept.any()


def test_rows_out_of_memory_stay_there():
    """Some blocks are held at a time, whatever the number of them."""
    held = {"now": 0, "most": 0}

    def let_go():
        held["now"] -= 1

    def block(block_info=None):
        start = block_info[None]["array-location"][0][0]
        made = np.random.default_rng(start).standard_normal((50, 3))
        held["now"] += 1
        held["most"] = max(held["most"], held["now"])
        weakref.finalize(made, let_go)
        return made

    rows = da.map_blocks(block, chunks=((50,) * 40, (3,)), dtype=float, meta=np.zeros((0, 0)))
    y = np.concatenate([np.random.default_rng(50 * i).standard_normal((50, 3))[:, 0] > 0 for i in range(40)])
    for one in (spec("incremental"), spec("dask-logistic", C=0.01, options={"max_iter": 3})):
        with dask.config.set(scheduler="synchronous"):
            assert (fit_rows(one, rows, y.astype(int)).predict(rows[:100].compute()) == y[:100]).mean() > 0.9
    assert 1 <= held["most"] <= 4


def test_incremental_learning_is_partial_fit_block_by_block():
    Z, codes = labelled(500, 4, 3, seed=9)
    y = NAMES[3][codes]
    expected = SGDClassifier(random_state=0)
    for start in range(0, 500, 120):
        expected.partial_fit(Z[start : start + 120], codes[start : start + 120], classes=[0, 1, 2])
    fitted = fit_rows(spec("incremental"), da.from_array(Z, chunks=(120, 4)), y)
    np.testing.assert_array_equal(fitted.predict(Z), NAMES[3][expected.predict(Z)])
    np.testing.assert_array_equal(linear_parts(fitted)[0], expected.coef_)
    bayes = {"estimator": "sklearn.naive_bayes.GaussianNB", "var_smoothing": 1e-6}
    found = fit_rows(spec("incremental", options=bayes), da.from_array(Z, chunks=(120, 4)), y).predict(Z)
    # GaussianNB smooths by the first block's variances.
    rule = naive_bayes(moments_of(Z, y), 1e-6)
    assert (found == rule.predict(Z)).mean() > 0.99


def test_the_same_bits_from_any_threads():
    """LIBLINEAR has one generator for all threads: fits side by side must not disturb each other."""
    y = np.random.default_rng(10).integers(2, size=60)
    Z = np.random.default_rng(11).standard_normal((60, 300))
    specs = [spec("svm", C=10), spec("logistic", C=10), spec("sklearn.svm.LinearSVC", C=10, options={"dual": True})]

    def bits(one):
        return linear_parts(fit_rows(one, Z, y))[0].tobytes()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(bits, specs * 8))
    assert found == [bits(one) for one in specs] * 8


def test_fits_that_do_not_converge_are_counted_and_not_printed():
    Z, y = labelled(100, 4, 3, seed=11)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopped = fit_rows(spec("logistic", C=100, options={"max_iter": 1}), Z, y)
        imported = fit_rows(spec("sklearn.linear_model.LogisticRegression", options={"max_iter": 1}), Z, y)
        in_blocks = fit_rows(spec("dask-logistic", C=100, options={"max_iter": 1}), Z, y)
        done = fit_rows(spec("logistic"), Z, y)
    assert [fit.unconverged for fit in (stopped, imported, in_blocks, done)] == [3, 1, 3, 0]
    assert convergence_notes([done]) == []
    assert convergence_notes([stopped, done, imported]) == [
        "In a split, 2 of 3 fits (logistic, LogisticRegression) stopped at their largest number of iterations; raise "
        "max_iter in the options, or lower C where there is one."
    ]


def chosen_in_plain(make, X, y, grid):
    """The smallest C with the fewest errors over five stratified folds, fitted in the original columns."""
    errors = []
    for C in grid:
        wrong = 0
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            wrong += int((make(C).fit(X[train], y[train]).predict(X[test]) != y[test]).sum())
        errors.append(wrong)
    return grid[errors.index(min(errors))]


@pytest.mark.parametrize("shape", [(150, 6), (30, 60)])
def test_the_choice_of_c(shape):
    """As by hand in the original columns, for each classifier that asks; the smallest of those as good."""
    X, codes = labelled(*shape, 2, seed=12, separation=0.7)
    y, grid = NAMES[2][codes], [10.0**power for power in range(-3, 3)]
    specs = [
        spec("svm", C="auto"),
        spec("logistic", C="auto", label="LR"),
        spec("sklearn.svm.SVC", C="auto"),
        spec("svm", C=3, label="fixed"),
        spec("fisher"),
    ]
    settings = {"fit_intercept": False, "tol": 1e-8, "max_iter": 20_000, "random_state": 1}
    assert choose_C(specs, X, y) == {
        "svm": chosen_in_plain(lambda C: LinearSVC(C=C, dual=False, **settings), X, y, grid),
        "LR": chosen_in_plain(lambda C: LogisticRegression(C=C, solver="liblinear", **settings), X, y, grid),
        "SVC": chosen_in_plain(lambda C: SVC(C=C), X, y, grid),
    }
    assert choose_C(specs[3:], X, y) == {}
    units = 10.0 ** (np.arange(shape[1]) % 5 - 2)  # which count for nothing where columns are standardised
    scaled = StandardScaler().fit_transform(X)
    for rows in (X * units + 3, X):
        assert choose_C(specs, rows, y, standardize=True) == choose_C(specs, scaled, y)
    divided = csr_array(X / X.std(axis=0))
    assert choose_C(specs, csr_array(X * units), y, standardize=True) == choose_C(specs, divided, y)
    apart = X + 50 * codes[:, None]
    assert choose_C(specs[:1], apart - apart.mean(), y) == {"svm": GRID[0]}


def test_what_cannot_be_chosen_or_fitted():
    Z, y = labelled(40, 3, 2, seed=13)
    auto = spec("svm", C="auto")
    with pytest.raises(InputError, match="C of svm is to be chosen: give the value that choose_C returns"):
        fit_rows(auto, Z, y)
    np.testing.assert_array_equal(
        linear_parts(fit_rows(auto, Z, y, C=0.5))[0], linear_parts(fit_rows(spec("svm", C=0.5), Z, y))[0]
    )
    with pytest.raises(InputError, match="class 5 has one row"):
        choose_C([auto], Z, np.where(np.arange(40) == 3, 5, y))
    with pytest.raises(InputError, match="at least two classes; there is 1"):
        fit_rows(spec("svm"), Z, np.zeros(40, int))
    with pytest.raises(InputError, match="hold values that are not finite"):
        fit_rows(spec("svm"), np.where(np.arange(40)[:, None] == 3, np.nan, Z), y)
    near = fit_rows(spec("sklearn.neighbors.KNeighborsClassifier", options={"n_neighbors": 50}), Z, y)
    with pytest.raises(InputError, match=r"KNeighborsClassifier cannot be fitted .* n_neighbors <= n_samples_fit"):
        near.predict(Z)
    with pytest.raises(InputError, match="SVC cannot be fitted"):
        fit_rows(spec("sklearn.svm.SVC", options={"gamma": -1}), Z, y)
