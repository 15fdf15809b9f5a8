"""A method without components in an evaluation names the largest class, and the others go on."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from mmpca_dist import evaluate
from mmpca_dist.runs import evaluation_scores

CORNERS = np.asarray([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
FRAME = pd.DataFrame(np.tile(CORNERS, (50, 1)), columns=["a", "b"]).assign(
    y=np.tile([0, 0, 1, 1, 0, 0], 50), g=np.arange(300) // 6 % 5
)
FOLDS = {"n_components": [1, 2], "splits": "groups", "column": "g", "standardize": False}
SETTINGS = {
    "moments": {},
    "rows": {"classifiers": [KNeighborsClassifier(), LogisticRegression()]},
    "margins": {"margins": True},
    "weights": {"weight": "w"},
}


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_largest_class_is_named_for_every_row(name, in_memory, monkeypatch):
    monkeypatch.setattr(evaluation_scores, "use_pooled", lambda *_: in_memory)
    frame = FRAME.assign(w=2.0) if name == "weights" else FRAME
    result = evaluate(frame, "y", methods=["pca", "fisher", "hsic"], **FOLDS, **SETTINGS[name])
    errors = result.errors.set_index("method")
    for method in ("fisher", "hsic"):
        assert errors.loc[[method], "used"].tolist() == [0] * len(errors.loc[[method]])
        np.testing.assert_allclose(errors.loc[[method], "mean"], 100 / 3)
    assert set(errors.loc["pca", "used"]) == {1, 2}
    page = Path(str(result.report).removeprefix("file://")).read_text()
    assert "Fisher discriminant, in a split: FisherDiscriminant finds no component" in page


def test_an_evaluation_of_such_methods_alone_ends(tmp_path):
    assert set(evaluate(FRAME, "y", methods="fisher", **FOLDS).errors["used"]) == {0, 2}
    numbers = FRAME.assign(y=FRAME["y"] * 1.0)
    errors = evaluate(numbers, target="y", methods=["pls", "pca"], **FOLDS).errors
    assert errors.loc[errors["method"] == "pls", "used"].tolist() == [0, 0]
    np.testing.assert_allclose(errors["r2"], 0, atol=1e-12)


def test_components_of_some_folds_alone():
    X = FRAME[["a", "b"]] + np.where(FRAME["g"] == 0, FRAME["y"] * 3.0, 0)[:, None]
    result = evaluate(X.assign(y=FRAME["y"], g=FRAME["g"]), "y", methods=["fisher", "pca"], **FOLDS)
    assert np.isfinite(result.errors["mean"]).all()


def test_no_components_are_never_what_to_use():
    rng = np.random.default_rng(0)
    X = CORNERS[np.arange(300) % 6] + rng.normal(0, 0.01, (300, 2)) * (FRAME["y"].to_numpy() == 1)[:, None]
    X = X + np.where(rng.random(300) < 0.03, 3 * FRAME["y"], 0)[:, None] * (np.arange(300) % 12 < 6)[:, None]
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=FRAME["y"], g=FRAME["g"])
    for rows in (frame, FRAME):
        result = evaluate(rows, "y", methods=["fisher", "pca"], **FOLDS)
        assert "with 0 components" not in result.summary
