"""Projection penalties at their corners: more rows of P than samples, columns that depend on others, far alphas."""

import warnings

import numpy as np
import pytest
from helpers.penalties import EXACT, LOSSES, regression, signs
from helpers.tables import config_of, labelled, write_npz
from naive_penalties import least_squares_exactly, penalized_model
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge

from mmpca_dist import MarginPCA, ProjectionPenaltyClassifier, ProjectionPenaltyRegressor, load_model, run
from mmpca_dist.errors import InputError
from mmpca_dist.finite import or_infinite
from mmpca_dist.methods.base.choice_by_folds import Choice, FoldGrid
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.optimise.model_sweeps import relative_gaps
from mmpca_dist.optimise.penalties import SubspacePenalty
from mmpca_dist.optimise.squares import Squares

SHAPES = [(6, 15), (40, 5)]
"""Shapes of labelled rows: with eight rows of P, more than rows less one, and more than columns."""


def few_labelled(n, d, seed=0):
    """Return labelled rows, and many more that a reduction can be fitted to."""
    X, y = labelled(60 + n, d, 2, seed=seed, separation=0.5)
    return X[:n], y[:n], X, y


def given(kind, n, d):
    """Return rows, labels, a reduction of eight components, and its P in the coordinates of what the model sees."""
    X, y, more, labels = few_labelled(n, d)
    if kind in ("array", "five rows"):
        P = np.random.default_rng(1).normal(size=(8, d))
        return X, y, P, P[: 5 if kind == "five rows" else 8], X
    if kind == "appended":
        features = FrozenEstimator(Nystroem(n_components=8, gamma=0.1, random_state=0).fit(more))
        return X, y, features, np.eye(d + 8)[d:], np.hstack([X, features.transform(X)])
    if kind == "transformer":
        fitted = PCA(min(8, d)).fit(more)
        return X, y, FrozenEstimator(fitted) if d > 8 else fitted, fitted.components_, X
    fitted = MarginPCA(min(8, d), "pca", precision="double").fit(more, labels)
    return X, y, fitted, fitted.components_, X


@pytest.mark.parametrize("kind", ["array", "five rows", "transformer", "fitted", "appended"])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_every_row_of_a_given_reduction_counts(n, d, loss, penalty, kind):
    X, y, reduction, P, seen = given(kind, n, d)
    settings = {"alpha": 3.0, "epsilon": 0.05, "loss": loss, "penalty": penalty, **EXACT}
    asked = {"n_components": 5} if kind == "five rows" else {}
    model = ProjectionPenaltyClassifier(reduction, **asked, **settings).fit(X, y)
    appended = 8 if kind == "appended" else 0
    least = penalized_model(seen, signs(y), P, 3.0, 0.05, loss, penalty, appended=appended)[2]
    assert model.n_components_ == len(P) and model.proved_ and model.gaps_[0] <= 1e-7
    assert model.objective_[0] == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("loss", LOSSES)
def test_more_rows_than_a_given_reduction_has_are_refused(loss, penalty):
    X, y, P, _, _ = given("array", 4, 15)
    with pytest.raises(InputError, match="n_components=9 is more than the 8 that the reduction has"):
        ProjectionPenaltyClassifier(P, n_components=9, loss=loss, penalty=penalty).fit(X, y)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_every_row_of_the_reduction_of_a_regressor_counts(n, d, fit_intercept, penalty):
    X, Y, _ = regression(n, d, seed=3)
    P = np.random.default_rng(3).normal(size=(8, d))
    settings = {"alpha": 3.0, "epsilon": 0.05, "penalty": penalty, "fit_intercept": fit_intercept, "tol": 1e-9}
    model = ProjectionPenaltyRegressor(P, **settings).fit(X, Y[:, 0])
    least = penalized_model(X, Y[:, 0], P, 3.0, 0.05, "squared", penalty, fit_intercept)[2]
    assert model.n_components_ == 8 and model.objective_[0] == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_all_numbers_of_components_of_a_given_reduction_are_tried(loss):
    X, y, _, _ = few_labelled(6, 15)
    P = np.random.default_rng(4).normal(size=(8, 15))
    settings = {"n_components": "auto", "sizes": (2, 4, 8, 16), "alpha": 1.0}
    model = ProjectionPenaltyClassifier(P, loss=loss, **settings).fit(X, y)
    assert model.candidate_sizes_.tolist() == [2, 4, 8]
    targets = ProjectionPenaltyRegressor(P, **settings).fit(X, X[:, 0])
    assert targets.candidate_sizes_.tolist() == [2, 4, 8]


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("reduction", ["random-projection", "fisher-score"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_run_keeps_reductions_that_do_not_end_with_the_rows(loss, reduction, tmp_path):
    """Random directions and single columns, more than there are rows."""
    X, y, _, _ = few_labelled(6, 15)
    method = {"name": "projection-penalty", "reduction": reduction, "loss": loss, "alpha": 3.0}
    uri = write_npz(tmp_path / "rows.npz", X, np.array(["ash", "oak"])[y])
    run(config_of(tmp_path / "out", uri, methods=[method], n_components=[8]))
    model = load_model(str(tmp_path / "out"), "projection-penalty")
    own = ProjectionPenaltyClassifier(reduction, n_components=8, loss=loss, alpha=3.0, precision="double").fit(X, y)
    P = own._fit().reduction.reducer(8).fit(X, y).components_
    least = penalized_model(X, signs(y), P, 3.0, 1e-3, loss)[2]
    assert model.n_components_ == own.n_components_ == 8
    for each in (model, own):
        assert each.objective_[0] == pytest.approx(least, rel=2e-5)


def dependent(name, n=60, seed=5):
    """Return rows with columns that depend on others, and labels."""
    rng = np.random.default_rng(seed)
    plain, hot = rng.normal(size=(n, 3)) + 1, np.eye(4)[rng.integers(0, 4, n)]
    X = {
        "one-hot": np.hstack([plain, hot]),
        "duplicates": np.hstack([plain, plain[:, :2]]),
        "constant": np.hstack([plain, np.full((n, 1), 3.0), np.zeros((n, 1))]),
        "units": np.hstack([plain * [1e5, 1.0, 1e-3], hot]),
    }[name]
    y = (plain @ [1.0, -1.0, 0.5] + hot @ [0, 1, -1, 2] + rng.normal(size=n) > 1).astype(int)
    return X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("alpha", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("name", ["one-hot", "duplicates", "constant", "units"])
def test_squared_losses_of_dependent_columns_reach_their_minimum_or_say_so(name, alpha):
    X, y = dependent(name)
    P = np.random.default_rng(6).normal(size=(2, X.shape[1]))
    least = least_squares_exactly(X, signs(y), P, alpha, 0.05)
    for fit in (
        ProjectionPenaltyClassifier(P, alpha=alpha, epsilon=0.05, loss="squared", precision="double").fit(X, y),
        ProjectionPenaltyRegressor(P, alpha=alpha, epsilon=0.05).fit(X, signs(y)),
    ):
        scale = max(least, 1e-3 * len(y))
        assert np.isfinite(fit.coef_).all() and fit.proved_
        assert -1e-11 <= (fit.objective_[0] - least) / scale <= fit.gaps_[0] + 1e-11
        assert fit.gaps_[0] < 1e-5, "all of these are well within reach of double precision"


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_alpha_is_chosen_among_models_of_numbers(unit):
    """Income in dollars, area, and a full one-hot of four regions: errors at small alphas are those of none."""
    rng = np.random.default_rng(7)
    income, area, hot = rng.lognormal(10.8, 0.6, 1000), rng.normal(120, 40, 1000), np.eye(4)[rng.integers(0, 4, 1000)]
    y = (income / 5e4 + area / 100 + hot @ [0, 0.5, 1, -1] + rng.normal(size=1000) > 2.3).astype(int)
    X = unit * np.column_stack([income, area, hot])
    model = ProjectionPenaltyClassifier("pca", n_components=2, alpha="auto", loss="squared", precision="double")
    model.fit(X, y)
    plain = np.mean(Ridge(1e-6).fit(X / X.std(axis=0), signs(y)).predict(X / X.std(axis=0)) * signs(y) <= 0)
    assert np.isfinite(model.candidate_errors_).all()
    assert model.candidate_errors_[0] / 1000 == pytest.approx(plain, abs=0.02)
    assert model.candidate_errors_.min() == model.candidate_errors_[model.candidates_ == model.alpha_]
    default = ProjectionPenaltyClassifier("pca", n_components=2, loss="squared", precision="double").fit(X, y)
    assert default.gaps_[0] < 1e-9 and default.score(X, y) > 1 - plain - 0.02
    targets = ProjectionPenaltyRegressor("pca", n_components=2, alpha="auto").fit(X, income + unit)
    assert np.isfinite(targets.candidate_errors_).all() and np.isfinite(targets.coef_).all()


def test_a_classifier_in_single_precision_predicts_both_classes_and_says_what_rounding_leaves():
    X, y = dependent("one-hot", n=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ProjectionPenaltyClassifier("pca", n_components=2, loss="squared").fit(1e3 * X, y)
    exact = ProjectionPenaltyClassifier("pca", n_components=2, loss="squared", precision="double").fit(1e3 * X, y)
    assert (model.predict(1e3 * X) == exact.predict(1e3 * X)).mean() > 0.99
    assert model.gaps_[0] >= model.objective_[0] / exact.objective_[0] - 1
    advice = " ".join(model.fitted().unconverged)
    assert model.gaps_[0] <= 1e-5 or "set precision to double" in advice
    exact.gaps_ = np.array([np.inf])
    assert "precision" not in " ".join(exact.fitted().unconverged) and exact.fitted().unconverged


def test_what_is_not_determined_is_not_proved():
    """A free direction along which rows do not vary is refused; a duplicate outside of it is not in the way."""
    X, y = dependent("duplicates")
    X -= X.mean(axis=0)
    squares = Squares(float(len(y)), X.T @ X, X.sum(axis=0), (X.T @ signs(y))[None], np.zeros(1), np.full(1, 60.0))
    free = SubspacePenalty.of(np.eye(5)[:1], 0.0)
    (minimum,) = squares.minimum(free, np.array([1e-14]), has_intercept=True)
    assert np.isfinite(minimum.parameters).all() and 0 <= minimum.gaps[0] < 1e-5
    with pytest.raises(InputError, match="not determined: set epsilon above 0"):
        squares.minimum(SubspacePenalty.of(np.array([[1.0, 0, 0, -1, 0]]), 0.0), np.array([1.0]), has_intercept=True)


@pytest.mark.parametrize("seed", range(5))
def test_a_mean_within_the_span_of_few_rows_is_no_direction_of_its_own(seed):
    """Duplicates: six columns span the rows, and their mean with them. There is no intercept, then, but zero."""
    rng = np.random.default_rng(seed)
    X = np.tile(rng.normal(size=(10, 6)) + 3, 2)
    y, P = np.arange(10) % 2, 0.03 * rng.normal(size=(8, 12))
    settings = {"alpha": 1e-12, "epsilon": 1.0, "fit_intercept": False}
    model = ProjectionPenaltyClassifier(P, loss="squared", **settings).fit(X, y)
    least = penalized_model(X, signs(y), P, 1e-12, 1.0, "squared", fit_intercept=False)[2]
    assert abs(model.intercept_[0]) < 1e-10
    assert model.objective_[0] == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_free_directions_without_rows_are_refused_whatever_the_loss(loss, fit_intercept):
    """Coefficients along them would be any number, and so would be predictions of other rows."""
    X, y, _, _ = few_labelled(6, 15)
    P = np.random.default_rng(8).normal(size=(15, 15))
    settings = {"alpha": 1e-5, "epsilon": 0, "loss": loss, "fit_intercept": fit_intercept}
    with pytest.raises(InputError, match="not determined: set epsilon above 0, or reduce to fewer components"):
        ProjectionPenaltyClassifier(P[:8], **settings).fit(X, y)
    with pytest.raises(InputError, match="not determined: set epsilon above 0, or reduce to fewer components"):
        ProjectionPenaltyClassifier(P[:, :5], **settings).fit(np.hstack([X[:, :4], X[:, :1]]), y)


def test_no_choice_takes_what_is_not_finite():
    assert or_infinite([1.0, np.nan, -np.inf, np.inf]).tolist() == [1, np.inf, np.inf, np.inf]
    errors = np.array([[np.nan, 3.0, -np.inf, 4.0]])
    choice = Choice.of_least((2,), (1e-2, 1.0, 1e2, 1e4), errors, largest_first=True)
    assert choice.value == 1.0
    assert relative_gaps(np.array([1.0, np.nan, 1, 1, 1]), np.array([1.0, 1, np.nan, np.inf, 1]),
                         np.array([1.0, 1, 1, 1, np.inf])).tolist() == [0, np.inf, np.inf, np.inf, np.inf]  # fmt: skip


@pytest.mark.parametrize("of_targets", [True, False])
def test_models_whose_outputs_are_not_finite_have_infinite_errors(of_targets, monkeypatch):
    X, y = dependent("one-hot")
    errors_of = FoldGrid.errors

    def first_broken(grid, working, coef, intercept):
        coef[: len(coef) // 3] = np.nan
        return errors_of(grid, working, coef, intercept)

    monkeypatch.setattr(FoldGrid, "errors", first_broken)
    kind = ProjectionPenaltyRegressor if of_targets else ProjectionPenaltyClassifier
    settings = {"penalty": "l1"} if of_targets else {"loss": "squared"}
    model = kind(np.eye(7)[:2], alpha="auto", alphas=(1e3, 1.0, 0.1), **settings).fit(X, y)
    assert model.candidate_errors_[0] == np.inf and np.isfinite(model.candidate_errors_[1:]).all()
    assert model.alpha_ != 1e3


def test_components_that_are_not_finite_are_refused():
    X, y = dependent("one-hot")
    broken = Solution.of_directions(np.full((1, 7), np.nan), np.ones(1), np.zeros(1), 1.0, "7")
    with pytest.raises(InputError, match="MarginPCA are not finite: numbers overflow"):
        MarginPCA(1).fit(X, y)._adopt(broken, X.mean(axis=0), None)
