"""Classifiers from moments and a projection alone are those of the reduced rows themselves."""

import pickle

import numpy as np
import pytest
from helpers.classifying import assert_scores, relative, sklearn_scores
from helpers.tables import labelled
from naive_judging import fisher_linear_scores, gaussian_scores
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from mmpca_dist import MarginPCA, class_moments
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.statistics_for import class_statistics
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.predictors.classifiers import ClassifierSection, fit_from_moments
from mmpca_dist.predictors.fits import linear_parts
from mmpca_dist.predictors.gaussian import naive_bayes, quadratic_discriminant
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.tables.readers.memory import rows_in_memory

UNEQUAL = np.array([[-1.0], [1.0], [9.0], [11.0], [9.0], [11.0], [9.0], [11.0]])
UNEQUAL_LABELS = [0, 0, 1, 1, 1, 1, 1, 1]
ALL = (fisher_linear, linear_discriminant, quadratic_discriminant, naive_bayes)


def sample(n_classes, *, n=240, d=7, k=4, mean=3.0, seed=1, precision="double"):
    """Return (moments reduced by a random projection, training rows and labels, reduced training and test rows)."""
    X, y = labelled(n + 60, d, n_classes, seed=seed, mean=mean)
    V = np.random.default_rng(seed).standard_normal((d, k))
    moments = class_moments(X[:n], y[:n], precision=precision)
    return ReducedMoments.of(moments, V, precision=precision), y[:n], X[:n] @ V, X[n:] @ V


def sklearn_ddof():
    """Return what this version of scikit-learn subtracts from the count of a class in its covariance."""
    Z, y = np.array([[0.0], [3.0], [5.0], [9.0]]), [0, 0, 1, 1]
    model = QuadraticDiscriminantAnalysis(store_covariance=True).fit(Z, y)
    return 2 - round(4.5 / float(model.covariance_[0][0, 0]))


@pytest.mark.parametrize("mean", [0.0, 3.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_every_classifier_is_its_twin(n_classes, mean):
    reduced, y, Z, rows = sample(n_classes, mean=mean)
    rtol = 1e-8 if mean < 1e4 else 1e-6  # rows 1e4 from zero keep twelve digits of what they differ by
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, rows), rows, rtol)
    if n_classes == 2:
        moved = fisher_linear_scores(Z, y, rows, threshold="log-odds")
        assert_scores(fisher_linear(reduced, "log-odds"), moved, rows, rtol)
    assert_scores(linear_discriminant(reduced), gaussian_scores(Z, y, rows, "lda"), rows, rtol)
    for options in ({}, {"reg_param": 0.3}, {"ddof": 1}):
        assert_scores(
            quadratic_discriminant(reduced, **options), gaussian_scores(Z, y, rows, "qda", **options), rows, rtol
        )
    for options in ({}, {"var_smoothing": 0.1}, {"ddof": 1}):
        assert_scores(
            naive_bayes(reduced, **options), gaussian_scores(Z, y, rows, "naive-bayes", **options), rows, rtol
        )


@pytest.mark.parametrize("mean", [3.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_classifier_is_scikit_learns(n_classes, mean):
    reduced, y, Z, rows = sample(n_classes, seed=2, mean=mean)
    rtol = 1e-8 if mean < 1e4 else 1e-6
    pairs = [
        (linear_discriminant(reduced), LinearDiscriminantAnalysis()),
        (linear_discriminant(reduced), LinearDiscriminantAnalysis(solver="lsqr")),
        (quadratic_discriminant(reduced, ddof=sklearn_ddof()), QuadraticDiscriminantAnalysis()),
        (quadratic_discriminant(reduced, 0.2, sklearn_ddof()), QuadraticDiscriminantAnalysis(reg_param=0.2)),
        (naive_bayes(reduced), GaussianNB()),
        (naive_bayes(reduced, 1e-2), GaussianNB(var_smoothing=1e-2)),
    ]
    for rule, model in pairs:
        model.fit(Z, y)
        assert_scores(rule, sklearn_scores(model, rows), rows, rtol)
        np.testing.assert_array_equal(rule.classes, model.classes_)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_single_precision_decides_alike(make, mean):
    """Moments of float32 rows in single-precision products: decisions within a thousandth of their spread."""
    X, y = labelled(3000, 6, 2, seed=5, mean=mean)
    X = X.astype(np.float32)
    V = np.linalg.qr(np.random.default_rng(5).standard_normal((6, 4)))[0]
    found = make(ReducedMoments.of(class_moments(X, y), V))
    exact = make(ReducedMoments.of(class_moments(X, y, precision="double"), V, precision="double"))
    Z = X.astype(np.float64) @ V
    decisions = exact.decision_function(Z)
    np.testing.assert_allclose(found.decision_function(Z), decisions, atol=1e-3 * decisions.std(), rtol=0)


def with_dependent_columns(precision, seed=6, n_classes=2):
    """Return rows whose last column is the sum of the others, exactly, and one that is constant; and their moments."""
    X, y = labelled(400, 6, n_classes, seed=seed)
    X = np.rint(X * 256) / 256
    X[:, 4] = 7.25
    X[:, 5] = X[:, :4].sum(axis=1)
    return X, y, class_moments(X, y, precision=precision)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_singular_scatters_by_the_pseudo_inverse(n_classes, precision):
    """Fisher's rule is that of W^+; the discriminant analysis predicts as scikit-learn's, which leaves out the same."""
    X, y, moments = with_dependent_columns(precision, n_classes=n_classes)
    V = np.linalg.qr(np.random.default_rng(7).standard_normal((6, 6)))[0]
    reduced, Z = ReducedMoments.of(moments, V, precision=precision), X @ V
    rtol = 1e-7 if precision == "double" else 1e-3
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, Z), Z, rtol)
    raw = ReducedMoments.of(moments, np.eye(6), precision=precision)
    model = LinearDiscriminantAnalysis().fit(X, y)
    expected = sklearn_scores(model, X)
    found = relative(linear_discriminant(raw).decision_function(X)).reshape(len(X), -1)
    np.testing.assert_allclose(found, expected[:, -found.shape[1] :], atol=rtol * np.abs(expected).max())
    with pytest.raises(InputError, match=r"rows of class 0\s+vary, and its \d+ rows vary in 4"):
        quadratic_discriminant(reduced)
    assert_scores(quadratic_discriminant(reduced, 0.1), gaussian_scores(Z, y, Z, "qda", 0.1), Z, rtol)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("precision", ["single", "double"])
def test_what_rounding_leaves_of_a_singular_scatter_is_not_divided_by(precision, seed):
    """One column depends on the others, exactly; products of their large numbers leave a little of either sign."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=900)
    X = np.rint((rng.standard_normal((900, 5)) * 10.0 ** rng.uniform(-1, 1, 5) + y[:, None]) * 1024) / 1024
    X = np.column_stack([X, X.sum(axis=1)])
    V = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    reduced = ReducedMoments.of(class_moments(X, y, precision=precision), V, precision=precision)
    Z, rtol = X @ V, 1e-3 if precision == "single" else 1e-7
    rule, null = fisher_linear(reduced), V.T @ [1, 1, 1, 1, 1, -1]
    assert_scores(rule, fisher_linear_scores(Z, y, Z[:50]), Z[:50], rtol)
    assert (np.abs(rule.coef @ null) <= rtol * np.linalg.norm(rule.coef, axis=1)).all()
    with pytest.raises(InputError, match=r"needs 6 directions .* rows of class 0 vary, and its \d+ rows vary in 5"):
        quadratic_discriminant(reduced)


@pytest.mark.parametrize("noise", [1e-3, 1e-5])
def test_the_discriminant_analysis_leaves_out_what_scikit_learn_does(noise):
    """A direction with a thousandth of the spread is used, one with a hundred thousandth, below tol, is not."""
    X, y = labelled(300, 4, 2, seed=16)
    X = np.column_stack([X, X.sum(axis=1) + noise * (np.random.default_rng(16).standard_normal(300) + y)])
    rule = linear_discriminant(
        ReducedMoments.of(class_moments(X, y, precision="double"), np.eye(5), precision="double")
    )
    assert_scores(rule, sklearn_scores(LinearDiscriminantAnalysis().fit(X, y), X), X, 1e-5)


@pytest.mark.parametrize("make", ALL)
def test_far_from_zero(make):
    """Rows ten million spreads from zero keep nine digits of what they differ by, and so do the decisions."""
    X, y = labelled(300, 4, 3, seed=17, mean=0.0)
    near = make(ReducedMoments.of(class_moments(X, y, precision="double"), np.eye(4), precision="double"))
    far = make(ReducedMoments.of(class_moments(X + 1e7, y, precision="double"), np.eye(4), precision="double"))
    expected = near.decision_function(X)
    np.testing.assert_allclose(far.decision_function(X + 1e7), expected, atol=1e-6 * np.abs(expected).max(), rtol=0)


@pytest.mark.parametrize("make", ALL)
def test_columns_in_other_units_are_not_rounding(make):
    """A column 1e5 times smaller than the others decides alone, in single precision too."""
    rng = np.random.default_rng(8)
    y = rng.integers(2, size=500)
    X = rng.standard_normal((500, 3)) * [1e3, 1e3, 1e-2]
    X[:, 2] += y * 0.1
    rule = make(ReducedMoments.of(class_moments(X, y), np.eye(3)))
    assert (rule.predict(X) == y).mean() > 0.99
    exact = make(ReducedMoments.of(class_moments(X, y, precision="double"), np.eye(3), precision="double"))
    expected = exact.decision_function(X)
    np.testing.assert_allclose(rule.decision_function(X), expected, atol=1e-3 * expected.std(), rtol=0)
    if make is naive_bayes:
        unsmoothed = naive_bayes(ReducedMoments.of(class_moments(X, y), np.eye(3)), 0.0)
        assert_scores(unsmoothed, sklearn_scores(GaussianNB(var_smoothing=0).fit(X, y), X), X, 1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_with_one_row(n_classes):
    X, y = labelled(80, 5, n_classes, seed=9)
    y = np.where(np.arange(80) == 17, n_classes, y)
    V = np.random.default_rng(9).standard_normal((5, 3))
    reduced, Z = ReducedMoments.of(class_moments(X, y, precision="double"), V, precision="double"), X @ V
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, Z), Z)
    assert_scores(linear_discriminant(reduced), sklearn_scores(LinearDiscriminantAnalysis().fit(Z, y), Z), Z)
    assert_scores(naive_bayes(reduced), sklearn_scores(GaussianNB().fit(Z, y), Z), Z, rtol=1e-7)
    # A single row has no n_c - 1 to be divided by: its class has the variance of smoothing, as without ddof.
    alone, plain = naive_bayes(reduced, ddof=1).variances[-1], naive_bayes(reduced).variances[-1]
    np.testing.assert_array_equal(alone, plain)
    assert_scores(quadratic_discriminant(reduced, 0.5), gaussian_scores(Z, y, Z, "qda", 0.5), Z)
    with pytest.raises(InputError, match=f"class {n_classes} vary, and its 1 rows vary in 0: .* reg_param above 0"):
        quadratic_discriminant(reduced)


def test_constant_columns():
    """Naive Bayes smooths them as scikit-learn does; where nothing varies at all, each says so."""
    X, y = labelled(60, 3, 2, seed=10)
    X[:, 1] = 1e6
    reduced = ReducedMoments.of(class_moments(X, y, precision="double"), np.eye(3), precision="double")
    model = GaussianNB().fit(X, y)
    assert_scores(naive_bayes(reduced), sklearn_scores(model, X), X)
    assert (fisher_linear(reduced).coef[:, 1] == 0).all()
    with pytest.raises(InputError, match="column 1 of the reduced rows is constant in class 0: give var_smoothing"):
        naive_bayes(reduced, 0.0)
    flat = ReducedMoments.of(class_moments(np.full((60, 3), 0.1), y), np.eye(3))
    for make in (fisher_linear, linear_discriminant):
        with pytest.raises(InputError, match="all equal, so there is no scatter"):
            make(flat)
    with pytest.raises(InputError, match="constant in class 0"):
        naive_bayes(flat)


def test_classes_without_rows_are_no_classes():
    X, y = labelled(90, 4, 2, seed=11)
    some = class_moments(X, y * 2 + 1, precision="double", classes=[0, 1, 2, 3, 4])
    reduced = ReducedMoments.of(some, np.eye(4), precision="double")
    for make in ALL:
        rule = make(reduced)
        np.testing.assert_array_equal(rule.classes, [1, 3])
        assert set(rule.predict(X)) == {1, 3}
    with pytest.raises(InputError, match="at least two classes; 1 has any"):
        fit_from_moments(
            ClassifierSection.model_validate("lda"), ReducedMoments.of(class_moments(X, np.zeros(90, int)), np.eye(4))
        )


def test_the_threshold_lies_midway_however_many_rows_a_class_has():
    """There are no priors: the row midway is on the edge, and falls to the first class."""
    rule = fisher_linear(ReducedMoments.of(class_moments(UNEQUAL, UNEQUAL_LABELS), np.eye(1)))
    rows = np.array([[4.9], [5.0], [5.1]])
    np.testing.assert_allclose(rule.decision_function(rows), [-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(rule.predict(rows), [0, 0, 1])


def test_log_odds_move_the_threshold_by_a_length():
    """Six rows to two: log 3 nearer the smaller class, in the units of the columns, so that doubling these matters."""
    rows = np.array([[4.0], [5.0], [5 - np.log(3) + 1e-9]])
    for scale, edge in ((1, np.log(3)), (2, np.log(3) / 2)):
        moments = class_moments(scale * UNEQUAL, UNEQUAL_LABELS, precision="double")
        rule = fisher_linear(ReducedMoments.of(moments, np.eye(1), precision="double"), "log-odds")
        expected = scale * (rows[:, 0] - 5 + edge)
        np.testing.assert_allclose(rule.decision_function(scale * rows), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(rule.predict(2 * rows), [0, 1, 0])
    coef, intercept = linear_parts(rule)
    np.testing.assert_allclose([coef[0, 0], intercept[0]], [1, np.log(3) - 10])


def test_log_odds_of_equal_means_name_the_larger_class():
    X = np.array([[-1.0], [1.0], [-1.0], [1.0], [-2.0], [2.0]])
    rule = fisher_linear(ReducedMoments.of(class_moments(X, list("abbaaa")), np.eye(1)), "log-odds")
    np.testing.assert_array_equal(rule.predict(X), ["a"] * 6)


@pytest.mark.parametrize("make", ALL)
def test_rules_travel(make):
    reduced, _, _, rows = sample(3)
    rule = make(reduced)
    again = pickle.loads(pickle.dumps(rule))  # noqa: S301
    np.testing.assert_array_equal(rule.decision_function(rows), again.decision_function(rows))
    np.testing.assert_array_equal(rule.predict(rows.astype(np.float32)), rule.predict(rows))


def test_what_is_refused():
    reduced, _, _, rows = sample(2)
    rows[3, 1] = np.nan
    with pytest.raises(InputError, match="Found nan in row 3, column 1"):
        naive_bayes(reduced).predict(rows)
    with pytest.raises(InputError, match="log-odds of fisher is between two classes, and there are 3"):
        fisher_linear(sample(3)[0], "log-odds")


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_definite_scatter_of_many_columns_needs_no_eigenvectors(n_classes, limits, monkeypatch):
    reduced, y, Z, rows = sample(n_classes)
    limits.cholesky_columns = 2
    monkeypatch.setattr("scipy.linalg.eigh", pytest.fail)
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, rows), rows, 1e-8)
    assert_scores(linear_discriminant(reduced), gaussian_scores(Z, y, rows, "lda"), rows, 1e-8)


@pytest.mark.parametrize("make", [fisher_linear, linear_discriminant])
@pytest.mark.parametrize("spread", [0.0, 1e-7])
def test_directions_of_no_spread_are_left_out_of_many_columns_too(make, spread, limits):
    """A column that is the sum of two others, exactly or but for rounding."""
    X, y = labelled(120, 4, 3, seed=2)
    X = np.column_stack([X, X[:, 0] + X[:, 1] + spread * np.random.default_rng(0).standard_normal(120)])
    reduced = ReducedMoments.of(class_moments(X, y), np.eye(5))
    expected = make(reduced)
    limits.cholesky_columns = 2
    found = make(reduced)
    np.testing.assert_array_equal(found.coef, expected.coef)
    np.testing.assert_array_equal(found.intercept, expected.intercept)


@pytest.mark.parametrize("centre", [False, True])
def test_moments_of_the_columns_are_those_under_the_identity(centre):
    """They keep the sum of the scatters alone, which does for linear classifiers."""
    X, y = labelled(90, 6, 4, seed=3)
    moments = class_moments(X, y, classes=[0, 1, 2, 3, 9], precision="double")
    mean = moments.mean if centre else None
    expected = ReducedMoments.of(moments, np.eye(6), mean, precision="double")
    found = ReducedMoments.of_columns(moments, mean, precision="double")
    for name in ("classes", "counts", "means"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("within", "covariance_floors"):  # the scatters are added in another order
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(found.scatters, found.within[None])
    for make in (fisher_linear, linear_discriminant):
        np.testing.assert_allclose(make(found).coef, make(expected).coef, rtol=1e-9, atol=1e-12)


def statistics_of(X, y, *, standardize=False):
    """Return what methods are solved from, of rows in memory."""
    rows = Rows.of(rows_in_memory(X, y), Threads(1))
    return class_statistics(rows, Needs(), SolverOptions(), precision="double", standardize=standardize)


@pytest.mark.parametrize(("n", "d"), [(150, 6), (24, 60)])
@pytest.mark.parametrize("options", [{}, {"center": True}, {"standardize": True}])
@pytest.mark.parametrize("variant", ["pca", "m-pca1a", "random"])
def test_statistics_of_tall_and_of_wide_data(n, d, variant, options):
    """Fewer rows than columns live in the space they span; components, theirs or not, reduce them all the same."""
    X, y = labelled(n, d, 2, seed=13)
    reducer = MarginPCA(4, "pca" if variant == "random" else variant, precision="double", **options).fit(X, y)
    if variant == "random":
        reducer.components_ = np.random.default_rng(13).standard_normal((4, d))
    statistics = statistics_of(X, y, standardize=options.get("standardize", False))
    reduced = ReducedMoments.of_statistics(statistics, reducer.components_, center=options.get("center", False))
    Z = reducer.transform(X)
    assert_scores(linear_discriminant(reduced), sklearn_scores(LinearDiscriminantAnalysis().fit(Z, y), Z), Z, 1e-7)
    assert_scores(naive_bayes(reduced), sklearn_scores(GaussianNB().fit(Z, y), Z), Z, 1e-7)
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, Z), Z, 1e-7)


def test_wide_data_with_more_components_than_the_scatter_within_classes_has():
    """From 12 rows in two classes it has rank 10; with 11 components, Fisher's rule takes the pseudo-inverse."""
    X, y = labelled(12, 40, 2, seed=14)
    reducer = MarginPCA(11, precision="double").fit(X, y)
    reduced = ReducedMoments.of_statistics(statistics_of(X, y), reducer.components_)
    Z = reducer.transform(X)
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, Z), Z, 1e-6)


def test_pooled_scatters_make_the_classifiers_that_need_their_sum(limits):
    X, y = labelled(90, 4, 6, seed=15)
    limits.pooled_bytes = 6 * 4 * 4 * 8 - 1
    moments = class_moments(X, y, precision="double")
    assert moments.pooled
    reduced = ReducedMoments.of(moments, np.eye(4), precision="double")
    assert_scores(linear_discriminant(reduced), sklearn_scores(LinearDiscriminantAnalysis().fit(X, y), X), X, 1e-7)
    assert_scores(fisher_linear(reduced), fisher_linear_scores(X, y, X), X, 1e-7)
    for name, rule in (("qda", quadratic_discriminant), ("naive-bayes", naive_bayes)):
        with pytest.raises(InputError, match=f"{name} needs the scatter of each class, and those of 6 classes in 4"):
            rule(reduced)
