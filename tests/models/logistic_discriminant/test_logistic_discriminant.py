"""Logistic discriminant analysis: scikit-learn's logistic regression, its directions, its certificate, runs."""

import dask.array as da
import numpy as np
import pytest
from helpers.evaluating import by_cell, scored
from helpers.samples import batch_of
from helpers.tables import config_of, labelled, write_npz
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from mmpca_dist import LogisticDiscriminant, load_model, run

EXACT = {"tol": 1e-14, "precision": "double"}
METHOD = {"name": "logistic-discriminant", "alpha": 3, "tol": 1e-14}


def logistic_regression(alpha, n_classes):
    """Return scikit-learn's estimator; of two classes it has one vector of coefficients, their difference."""
    return LogisticRegression(C=(1 if n_classes > 2 else 2) / alpha, tol=1e-12, max_iter=100, solver="newton-cholesky")


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(("n", "d", "n_classes"), [(90, 6, 4), (90, 6, 2), (14, 30, 3)])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_it_is_the_logistic_regression_of_scikit_learn(n, d, n_classes, standardize, in_blocks):
    """Also of fewer rows than columns, in their span, and of rows that are read block by block."""
    X, y = labelled(n, d, n_classes, seed=1)
    rows = StandardScaler().fit_transform(X) if standardize else X
    expected = logistic_regression(3, n_classes).fit(rows, y)
    model = LogisticDiscriminant(alpha=3, standardize=standardize, **EXACT)
    model.fit(da.from_array(X, (20, d)) if in_blocks else X, y)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(rows), atol=1e-7)
    np.testing.assert_allclose(model.weights_ @ model.components_, expected.coef_, atol=1e-6)
    assert model.predict(X).tolist() == expected.predict(rows).tolist()
    assert len(model.components_) == n_classes - 1
    coef, intercept = model.fitted().classifier
    np.testing.assert_allclose(model.transform(X) @ coef.T + intercept, model._outputs(X), atol=1e-10)


def test_components_are_orthonormal_and_those_of_fewer_are_the_first():
    X, y = labelled(120, 8, 5, seed=2)
    model, few = (LogisticDiscriminant(k, **EXACT).fit(X, y) for k in (None, 2))
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(4), atol=1e-12)
    assert (np.diff(model.eigenvalues_) < 0).all()
    np.testing.assert_allclose(model.total_, np.sum((model.weights_ @ model.components_) ** 2))
    np.testing.assert_array_equal(few.components_, model.components_[:2])
    np.testing.assert_allclose(few.weights_, model.weights_[:, :2], rtol=1e-12)


def test_the_gap_tells_how_far_the_minimum_is():
    """Near the minimum it is what a Newton step would gain, whose errors are of third order. Early ends warn."""
    X, y = labelled(200, 6, 3, seed=3)
    least = LogisticDiscriminant(alpha=0.1, **EXACT).fit(X, y)
    for passes in range(least.n_iter_ - 3, least.n_iter_):
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            model = LogisticDiscriminant(alpha=0.1, max_iter=passes, tol=0, precision="double").fit(X, y)
        loss = -np.log(model.predict_proba(X)[np.arange(200), y]).sum()
        assert model.objective_ == pytest.approx(loss + 0.1 * model.total_ / 2, rel=1e-12)
        missed = model.objective_ / least.objective_ - 1
        assert model.n_iter_ == passes
        assert model.gap_ < 0.1 and abs(missed - model.gap_) <= model.gap_ / 2 + 1e-14


@pytest.mark.usefixtures("no_report")
def test_a_run_keeps_it(tmp_path):
    X, y = labelled(150, 6, 4, seed=4)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    run(config_of(tmp_path / "out", uri, methods=["pca", METHOD], n_components=[1, 2, 3], precision="double"))
    own = LogisticDiscriminant(alpha=3, **EXACT).fit(X, y)
    model = load_model(str(tmp_path / "out"), "logistic-discriminant")
    np.testing.assert_allclose(model.components_, own.components_, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), own.predict_proba(X), atol=1e-9)
    one = load_model(str(tmp_path / "out"), "logistic-discriminant", 1)
    assert one.transform(X).shape == (150, 1) and one.predict(X).shape == (150,)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("n_classes", [2, 4])
def test_its_own_classifier_in_an_evaluation_is_the_logistic_regression(n_classes, tmp_path):
    X, y = labelled(90, 6, n_classes, seed=5, separation=0.6, mean=50.0)
    records, splits, _ = scored(
        config_of(
            tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), methods=["pca", METHOD], n_components=[1, 3],
            evaluation={"folds": 3, "classifiers": ["own"], "margins": False},
        )
    )  # fmt: skip
    cells = by_cell(records)
    for number, part in enumerate(splits.held_out):
        train = splits.only(0).training(batch_of(y), part)[0]
        theirs = logistic_regression(3, n_classes).fit(X[train], y[train])
        wrong = np.count_nonzero(theirs.predict(X[~train]) != y[~train])
        assert cells[number, "logistic-discriminant", 3, "own"] == (min(n_classes - 1, 3), wrong)
