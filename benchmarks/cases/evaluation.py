"""Evaluations by folds, from merged moments, against fits of every fold."""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.moments import loaded, store, zarr_array
from benchmarks.harness import THREADS, Case, Data

FIVE = ("pca", "m-pca0", "m-pca1a", "fisher", "hsic")
FOLDS, COMPONENTS = 5, (1, 2, 4, 8, 12, 16)


def settings(data: Data, methods: tuple[str, ...], folder: str) -> dict[str, Any]:
    """Return the configuration of runs and evaluations."""
    return {
        "dataset": {"uri": data["group"]}, "methods": list(methods), "n_components": list(COMPONENTS),
        "output": f"{folder}/output", "compute": {"workers": THREADS},
    }  # fmt: skip


def folds(data: Data, methods: tuple[str, ...]) -> Data:
    """Evaluate methods at all numbers of components by folds, with the classifier ``fisher``, and write the report."""
    from mmpca_dist import evaluate

    wanted = {"splits": "folds", "folds": FOLDS, "classifiers": ["fisher"]}
    with tempfile.TemporaryDirectory() as folder:
        errors = evaluate({**settings(data, methods, folder), "evaluation": wanted}).errors
        return {"passes": 2, "value": float(errors[errors.method == methods[0]]["mean"].min())}


def one_fit(data: Data) -> Data:
    """Fit five methods once, and write the report."""
    from mmpca_dist import run

    with tempfile.TemporaryDirectory() as folder:
        run({**settings(data, FIVE, folder), "project": {"methods": []}})
    return {"passes": 1}


def labels(data: Data) -> Any:
    """Return the labels of a store."""
    return zarr_array(f"{data['group']}/y")[:]


def grid_search(data: Data) -> Data:
    """Load all rows and search over PCA's components with scikit-learn."""
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline

    pipeline = Pipeline([("pca", PCA()), ("lda", LinearDiscriminantAnalysis())])
    search = GridSearchCV(pipeline, {"pca__n_components": list(COMPONENTS)}, cv=FOLDS, refit=False)
    return {"value": 100 * (1 - search.fit(loaded(data), labels(data)).best_score_)}


def signed(data: Data) -> tuple[Any, Any, Any]:
    """Return all rows in double precision, labels of -1 and 1 as a column, and folds."""
    y = np.where(labels(data) == 1, 1.0, -1.0)
    return loaded(data).astype(np.float64), y[:, None], np.arange(len(y)) % FOLDS


def errors_of_signs(truth: Any, predicted: Any) -> Any:
    """Return the rows with the wrong sign, for each number of components."""
    return (np.sign(predicted) != truth).sum(axis=(1, 2))


def ikpls(data: Data) -> Data:
    """Load all rows and cross-validate IKPLS, whose folds come from the moments of all."""
    from ikpls.fast_cross_validation.numpy import PLS

    X, y, fold = signed(data)
    model = PLS(algorithm=2, scale_X=False, scale_Y=False, copy=False)
    wrong: Any = model.cross_validate(X, y, max(COMPONENTS), fold, errors_of_signs, n_jobs=1, verbose=0)
    return {"value": float(100 * np.min(np.sum(list(wrong.values()), axis=0)) / len(y))}


def cvmatrix(data: Data) -> Data:
    """Load all rows and take the moments of the rows that train in each fold, without models."""
    from cvmatrix.cvmatrix import CVMatrix

    X, y, fold = signed(data)
    matrix = CVMatrix(scale_X=False, scale_Y=False, copy=False)
    matrix.fit(X, y)
    for number in range(FOLDS):
        matrix.training_XTX_XTY(np.flatnonzero(fold == number))
    return {}


def percent(_data: Data, error: float) -> dict[str, float]:
    """Return the lowest mean error on rows held out, in percent."""
    return {"error": error}


def cases() -> list[Case]:
    """Return the cases of this theme."""
    shapes = {"tiny": (800, 24), "usual": (200_000, 256), "full": (1_000_000, 256)}
    sizes = {name: {"rows": rows, "columns": columns} for name, (rows, columns) in shapes.items()}
    pca = Case("evaluation: pca by folds", store, sizes, percent)
    pca.add("evaluate, pca", partial(folds, methods=("pca",)), "ours")
    pca.add("evaluate, five methods", partial(folds, methods=FIVE), "own")
    pca.add("one fit of five methods", one_fit, "own")
    pca.add("scikit-learn GridSearchCV of PCA and LDA, loaded whole", grid_search)
    pls = Case("evaluation: pls by folds", store, sizes, percent)
    pls.add("evaluate, pls", partial(folds, methods=("pls",)), "ours")
    pls.add("IKPLS, fast cross-validation, loaded whole", ikpls, needs=("ikpls",))
    pls.add("CVMatrix, moments alone, loaded whole", cvmatrix, needs=("cvmatrix",))
    return [pca, pls]
