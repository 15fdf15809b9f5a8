"""Fitted scalars are scalars, also of models that were stored and loaded."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.samples import labelled

import mmpca_dist
from mmpca_dist import BayesianMarginPCA, MaximumMarginCriterion, ProjectionPenaltyClassifier, load_model, run
from mmpca_dist.methods.base.registry import METHODS

SCALARS = {
    "alpha_": float, "C_": float, "converged_": bool, "proved_": bool, "fitted_by_fold_": bool, "n_iter_": int,
    "n_unlabelled_": int, "n_negative_": int, "negative_sum_": float, "n_components_": int, "gamma_": float,
}  # fmt: skip
ESTIMATORS = [
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
@pytest.mark.parametrize("name", ESTIMATORS)
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
    scalars = [name for name in METHODS[method].estimator._stored if name in SCALARS]
    assert len(scalars) > 1
    for name in scalars:
        assert type(getattr(found, name)) is SCALARS[name] is type(getattr(expected, name))
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9)
