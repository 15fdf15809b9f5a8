"""Evaluations by folds from merged moments, projection and l1 penalties, and sweeps of BM2PCA."""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from benchmarks.cases.common import floors, loaded, nothing, number, zarr_array
from benchmarks.cases.moments import draw, spread, store
from benchmarks.harness import THREADS, Case, Data, sized
from mmpca_dist import BayesianMarginPCA, ProjectionPenaltyClassifier, class_moments, evaluate, open_dataset, run
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.methods.base.statistics_for import class_statistics, with_sweeps
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads

FIVE = ("pca", "m-pca0", "m-pca1a", "fisher", "hsic")
FOLDS, COMPONENTS = 5, (1, 2, 4, 8, 12, 16)
ALPHA, EPSILON = 10.0, 1e-2
N_COMPONENTS, SHARPNESS, N_SWEEPS, BLOCK = 10, 100.0, 3, 8192
ALPHAS = tuple(10.0**exponent for exponent in range(-8, 11, 2))


def settings(data: Data, methods: tuple[str, ...], folder: str) -> dict[str, Any]:
    return {
        "dataset": {"uri": data["group"]}, "methods": list(methods), "n_components": list(COMPONENTS),
        "output": f"{folder}/output", "compute": {"workers": THREADS},
    }  # fmt: skip


def folds(data: Data, methods: tuple[str, ...]) -> Data:
    """Evaluate methods at all numbers of components by folds, with the classifier ``lda``, and write the report."""
    wanted = {"splits": "folds", "folds": FOLDS, "classifiers": ["lda"]}
    with tempfile.TemporaryDirectory() as folder:
        errors = evaluate({**settings(data, methods, folder), "evaluation": wanted}).errors
        return {"passes": 2, "value": float(errors[errors.method == methods[0]]["mean"].min())}


def one_fit(data: Data) -> Data:
    with tempfile.TemporaryDirectory() as folder:
        run({**settings(data, FIVE, folder), "project": {"methods": []}})
    return {"passes": 1}


def labels(data: Data) -> Any:
    return zarr_array(f"{data['group']}/y")[:]


def grid_search(data: Data) -> Data:
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
    from cvmatrix.cvmatrix import CVMatrix

    X, y, fold = signed(data)
    matrix = CVMatrix(scale_X=False, scale_Y=False, copy=False)
    matrix.fit(X, y)
    for held_out in range(FOLDS):
        matrix.training_XTX_XTY(np.flatnonzero(fold == held_out))
    return {}


SIZES = sized("rows columns", (800, 24), (200_000, 256), (1_000_000, 256))
PCA_CASE = Case("evaluation: pca by folds", store, SIZES, partial(number, name="error"))
PCA_CASE.add("evaluate, pca", partial(folds, methods=("pca",)), "ours")
PCA_CASE.add("evaluate, five methods", partial(folds, methods=FIVE), "own")
PCA_CASE.add("one fit of five methods", one_fit, "own")
PCA_CASE.add("scikit-learn GridSearchCV of PCA and LDA, loaded whole", grid_search)
PLS_CASE = Case("evaluation: pls by folds", store, SIZES, partial(number, name="error"))
PLS_CASE.add("evaluate, pls", partial(folds, methods=("pls",)), "ours")
PLS_CASE.add("IKPLS, fast cross-validation, loaded whole", ikpls, needs=("ikpls",))
PLS_CASE.add("CVMatrix, moments alone, loaded whole", cvmatrix, needs=("cvmatrix",))


def axes(data: Data) -> NDArray:
    return np.asarray(np.load(data["axes"])[:16])


def moments(data: Data) -> Data:
    class_moments(open_dataset(data["group"]))
    return {"passes": 1}


def path_of_squares(data: Data) -> Data:
    found = class_moments(open_dataset(data["group"]))
    for alpha in ALPHAS:
        options = {"reduction": axes(data), "alpha": alpha, "epsilon": EPSILON, "loss": "squared"}
        ProjectionPenaltyClassifier.from_moments(found, **options)  # type: ignore[arg-type]
    return {"passes": 1}


def penalised(data: Data, loss: str) -> Data:
    model: Any = ProjectionPenaltyClassifier(axes(data), alpha=ALPHA, epsilon=EPSILON, loss=loss)  # type: ignore[arg-type]
    model.fit(open_dataset(data["group"]))
    value = float(model.objective_[0]) if loss == "logistic" else None
    return {"passes": model.n_iter_ + 1, "value": value}


def lbfgs(data: Data) -> Data:
    X = loaded(data)
    X = np.concatenate([X, X @ axes(data).T.astype(np.float32) / np.float32(EPSILON**0.5)], axis=1)
    y = np.where(labels(data) == 1, 1, -1)
    model = LogisticRegression(C=1 / (2 * ALPHA), max_iter=1000).fit(X, y)
    scores, weights = model.decision_function(X).astype(np.float64), model.coef_.astype(np.float64)
    return {"value": float(np.logaddexp(0, -y * scores).sum() + ALPHA * (weights**2).sum())}


SIZES = sized("rows columns", (800, 40), (200_000, 256), (1_000_000, 256))
PROJECTION_PENALTIES = Case("models: projection penalties", store, SIZES, partial(number, name="objective"))
PROJECTION_PENALTIES.add("logistic loss", partial(penalised, loss="logistic"), "ours")
PROJECTION_PENALTIES.add("hinge loss", partial(penalised, loss="hinge"), "own")
PROJECTION_PENALTIES.add("squared loss, ten values of alpha", path_of_squares, "own")
PROJECTION_PENALTIES.add("class moments", moments, "own")
PROJECTION_PENALTIES.add("scikit-learn LogisticRegression(lbfgs), loaded whole", lbfgs)


def few_columns(shape: Data) -> Data:
    """Return rows in memory whose labels depend on ten columns, and the penalty of their coefficients."""
    rng, n = np.random.default_rng(0), shape["rows"]
    X = np.asarray(draw(rng, np.zeros(n, int), shape["columns"]), np.float64) / spread(shape["columns"])
    X -= X.mean(axis=0)
    y = np.where(X[:, :10].sum(axis=1) / 3 + rng.logistic(size=n) > 0, 1, -1)
    return {"X": X, "y": y, "alpha": 0.01 * n}


def l1_objective(data: Data, w: Any) -> dict[str, float]:
    """Return the sum of the losses plus the penalty."""
    losses = np.logaddexp(0, -data["y"] * (data["X"] @ np.ravel(w))).sum()
    return {"objective": float(losses + data["alpha"] * np.abs(w).sum())}


def l1_ours(data: Data) -> Data:
    none = np.zeros((1, data["X"].shape[1]))
    options: Any = {"penalty": "l1", "fit_intercept": False, "precision": "double"}
    model = ProjectionPenaltyClassifier(none, alpha=data["alpha"], **options).fit(data["X"], data["y"])
    return {"passes": model.n_iter_, "value": model.coef_}


def liblinear(data: Data) -> Data:
    options: Any = {"l1_ratio": 1.0, "solver": "liblinear", "fit_intercept": False, "tol": 1e-5}
    return {"value": LogisticRegression(C=1 / data["alpha"], **options).fit(data["X"], data["y"]).coef_}


def skglm(data: Data) -> Data:
    from skglm import SparseLogisticRegression

    model = SparseLogisticRegression(data["alpha"] / len(data["y"]), fit_intercept=False, tol=1e-5)
    return {"value": model.fit(data["X"], data["y"]).coef_}


SIZES = sized("rows columns", (400, 20), (100_000, 128), (500_000, 256))
L1 = Case("models: l1, logistic loss, in memory", nothing, SIZES, l1_objective, few_columns)
L1.add("projection penalty without a reduction", l1_ours, "ours")
L1.add("LIBLINEAR by scikit-learn", liblinear)
L1.add("skglm", skglm, needs=("skglm",))


def sweep(data: Data) -> Data:
    """Return the seconds of the fastest of a few sweeps."""
    begins: list[float] = []
    model = BayesianMarginPCA(N_COMPONENTS, C=SHARPNESS, tol=0.0, max_iter=N_SWEEPS)
    dataset = open_dataset(data["group"])
    rows = Rows.of(dataset, Threads(THREADS), on_pass=lambda *_: begins.append(time.perf_counter()))
    known = class_statistics(rows, model.needs(), SolverOptions(), precision="single", standardize=False)
    begins.clear()
    with_sweeps(known, rows, model._fit(), [N_COMPONENTS])
    return {"seconds": float(np.diff([*begins, time.perf_counter()]).min()), "passes": 1}


def row_by_row(data: Data) -> Data:
    """Update the rows with the inverse of a matrix for each, and add up what a sweep needs."""
    X, y, rng = zarr_array(data["path"]), np.where(labels(data) == 1, 1.0, -1.0), np.random.default_rng(0)
    k, pull_to = N_COMPONENTS, SHARPNESS * (SHARPNESS + 1)
    M, eta, inverse = rng.standard_normal((X.shape[1], k)), rng.standard_normal(k), rng.uniform(1, 2, len(y))
    B, squares = np.eye(k) + M.T @ M, np.outer(eta, eta)

    def block(start: int) -> tuple[Any, ...]:
        rows, s = X[start : start + BLOCK].astype(np.float64), inverse[start : start + BLOCK]
        covariance = np.linalg.inv(B + s[:, None, None] * squares)
        pull = rows @ M + (pull_to * y[start : start + BLOCK] * s)[:, None] * eta
        z = np.einsum("nij,nj->ni", covariance, pull)
        second = z[:, :, None] * z[:, None, :] + covariance
        sums = second.sum(axis=0), np.einsum("n,nij->ij", s, second)
        return rows.T @ z, sums, np.einsum("nij,ij->n", second, squares)

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(block, range(0, len(y), BLOCK)):
            pass
    return {"passes": 1}


SIZES = sized("rows columns", (800, 24), (1_000_000, 256), (4_000_000, 256))
SWEEPS = Case("models: a sweep of BM2PCA", store, SIZES)
SWEEPS.add("a sweep", sweep, "ours")
SWEEPS.add("class moments", moments, "own")
SWEEPS.add("row by row, as in the paper", row_by_row)
floors(SWEEPS, vectors=N_COMPONENTS)
CASES = [PCA_CASE, PLS_CASE, PROJECTION_PENALTIES, L1, SWEEPS]
