"""Models in passes: projection penalties, l1 penalties, and sweeps of BM2PCA."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases.common import multiply, read_files
from benchmarks.cases.evaluation import labels
from benchmarks.cases.moments import draw, loaded, nothing, spread, store, zarr_array
from benchmarks.harness import THREADS, Case, Data

ALPHA, EPSILON = 10.0, 1e-2
COMPONENTS, SHARPNESS, SWEEPS, BLOCK = 10, 100.0, 3, 8192
ALPHAS = tuple(10.0**exponent for exponent in range(-8, 11, 2))


def axes(data: Data) -> NDArray:
    """Return components of PCA, which the penalties spare."""
    return np.asarray(np.load(Path(data["group"]) / "axes.npy")[:16])


def moments(data: Data) -> Data:
    """Take class moments."""
    from mmpca_dist import class_moments, open_dataset

    class_moments(open_dataset(data["group"]))
    return {"passes": 1}


def path_of_squares(data: Data) -> Data:
    """Fit squared losses for ten values of alpha, from moments."""
    from mmpca_dist import ProjectionPenaltyClassifier, class_moments, open_dataset

    found, options = class_moments(open_dataset(data["group"])), {"epsilon": EPSILON, "loss": "squared"}
    for alpha in ALPHAS:
        ProjectionPenaltyClassifier.from_moments(found, reduction=axes(data), alpha=alpha, **options)
    return {"passes": 1}


def penalised(data: Data, loss: str) -> Data:
    """Fit a loss in passes."""
    from mmpca_dist import ProjectionPenaltyClassifier, open_dataset

    model: Any = ProjectionPenaltyClassifier(axes(data), alpha=ALPHA, epsilon=EPSILON, loss=loss)  # type: ignore[arg-type]
    model.fit(open_dataset(data["group"]))
    value = float(model.objective_[0]) if loss == "logistic" else None
    return {"passes": model.n_iter_ + 1, "value": value}


def lbfgs(data: Data) -> Data:
    """Load all rows and fit scikit-learn's logistic regression of [x; P x / sqrt(epsilon)]."""
    from sklearn.linear_model import LogisticRegression

    X = loaded(data)
    X = np.concatenate([X, X @ axes(data).T.astype(np.float32) / np.float32(EPSILON**0.5)], axis=1)
    y = np.where(labels(data) == 1, 1, -1)
    model = LogisticRegression(C=1 / (2 * ALPHA), max_iter=1000).fit(X, y)
    scores, weights = model.decision_function(X).astype(np.float64), model.coef_.astype(np.float64)
    return {"value": float(np.logaddexp(0, -y * scores).sum() + ALPHA * (weights**2).sum())}


def objective(_data: Data, value: float) -> dict[str, float]:
    """Return the objective."""
    return {"objective": value}


def projection_penalties() -> Case:
    """Return the case of projection penalties."""
    shapes = {"tiny": (800, 40), "usual": (200_000, 256), "full": (1_000_000, 256)}
    sizes = {name: {"rows": rows, "columns": columns} for name, (rows, columns) in shapes.items()}
    case = Case("models: projection penalties", store, sizes, objective)
    case.add("logistic loss", partial(penalised, loss="logistic"), "ours")
    case.add("hinge loss", partial(penalised, loss="hinge"), "own")
    case.add("squared loss, ten values of alpha", path_of_squares, "own")
    case.add("class moments", moments, "own")
    case.add("scikit-learn LogisticRegression(lbfgs), loaded whole", lbfgs)
    return case


def few_columns(shape: Data) -> Data:
    """Return rows in memory whose labels depend on ten columns, and the penalty of their coefficients."""
    rng, n = np.random.default_rng(0), shape["rows"]
    X = np.asarray(draw(rng, np.zeros(n, int), shape["columns"]), np.float64) / spread(shape["columns"])[1]
    X -= X.mean(axis=0)
    y = np.where(X[:, :10].sum(axis=1) / 3 + rng.logistic(size=n) > 0, 1, -1)
    return {"X": X, "y": y, "alpha": 0.01 * n}


def l1_objective(data: Data, w: Any) -> dict[str, float]:
    """Return the sum of the losses plus the penalty."""
    losses = np.logaddexp(0, -data["y"] * (data["X"] @ np.ravel(w))).sum()
    return {"objective": float(losses + data["alpha"] * np.abs(w).sum())}


def l1_ours(data: Data) -> Data:
    """Fit by this project, which spares no direction."""
    from mmpca_dist import ProjectionPenaltyClassifier

    none = np.zeros((1, data["X"].shape[1]))
    options: Any = {"penalty": "l1", "fit_intercept": False, "precision": "double"}
    model = ProjectionPenaltyClassifier(none, alpha=data["alpha"], **options).fit(data["X"], data["y"])
    return {"passes": model.n_iter_, "value": model.coef_}


def liblinear(data: Data) -> Data:
    """Fit by LIBLINEAR."""
    from sklearn.linear_model import LogisticRegression

    options: Any = {"l1_ratio": 1.0, "solver": "liblinear", "fit_intercept": False, "tol": 1e-5}
    return {"value": LogisticRegression(C=1 / data["alpha"], **options).fit(data["X"], data["y"]).coef_}


def skglm(data: Data) -> Data:
    """Fit by skglm."""
    from skglm import SparseLogisticRegression

    model = SparseLogisticRegression(data["alpha"] / len(data["y"]), fit_intercept=False, tol=1e-5)
    return {"value": model.fit(data["X"], data["y"]).coef_}


def l1() -> Case:
    """Return the case of l1 penalties."""
    shapes = {"tiny": (400, 20), "usual": (100_000, 128), "full": (500_000, 256)}
    sizes = {name: {"rows": rows, "columns": columns} for name, (rows, columns) in shapes.items()}
    case = Case("models: l1, logistic loss, in memory", nothing, sizes, l1_objective, few_columns)
    case.add("projection penalty without a reduction", l1_ours, "ours")
    case.add("LIBLINEAR by scikit-learn", liblinear)
    case.add("skglm", skglm, needs=("skglm",))
    return case


def sweep(data: Data) -> Data:
    """Return the seconds of the fastest of a few sweeps."""
    from mmpca_dist import BayesianMarginPCA, open_dataset
    from mmpca_dist.eigen.options import SolverOptions
    from mmpca_dist.methods.base.statistics_for import class_statistics, with_sweeps
    from mmpca_dist.passes.rows import Rows
    from mmpca_dist.passes.schedulers import Threads

    begins: list[float] = []
    model = BayesianMarginPCA(COMPONENTS, C=SHARPNESS, tol=0.0, max_iter=SWEEPS)
    dataset = open_dataset(data["group"])
    rows = Rows.of(dataset, Threads(THREADS), on_pass=lambda *_: begins.append(time.perf_counter()))
    known = class_statistics(rows, model.needs(), SolverOptions(), precision="single", standardize=False)
    begins.clear()
    with_sweeps(known, rows, model._fit(), [COMPONENTS])
    return {"seconds": float(np.diff([*begins, time.perf_counter()]).min()), "passes": 1}


def row_by_row(data: Data) -> Data:
    """Update the rows as the paper does, with the inverse of a matrix for each, and add up what a sweep needs."""
    X, y, rng = zarr_array(data["path"]), np.where(labels(data) == 1, 1.0, -1.0), np.random.default_rng(0)
    k, C = COMPONENTS, SHARPNESS
    M, mean, eta = rng.standard_normal((X.shape[1], k)), X[:BLOCK].mean(axis=0), rng.standard_normal(k + 1)
    squares, B = np.outer(eta, eta) + 0.01 * np.eye(k + 1), np.eye(k) + M.T @ M

    def block(start: int) -> tuple[Any, ...]:
        rows = X[start : start + BLOCK].astype(np.float64) - mean
        signs, s = y[start : start + len(rows)], 1 / C
        covariance = np.linalg.inv(np.broadcast_to(B + C**2 * s * squares[:k, :k], (len(rows), k, k)))
        pull = rows @ M + (C * signs * (1 + C * s))[:, None] * eta[:k] - C**2 * s * squares[k, :k]
        z = np.append(np.einsum("nij,nj->ni", covariance, pull), np.ones((len(rows), 1)), axis=1)
        second = z[:, :, None] * z[:, None, :]
        second[:, :k, :k] += covariance
        chi = C**2 * (1 - 2 * signs * (z @ eta) + np.einsum("nij,ij->n", second, squares))
        updated = 1 / np.sqrt(np.abs(chi))
        return rows.T @ z, second.sum(axis=0), np.einsum("n,nij->ij", updated, second), (C * signs) @ z

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(block, range(0, len(y), BLOCK)):
            pass
    return {"passes": 1}


def both_products(data: Data) -> Data:
    """Multiply blocks by the components, and the transposed blocks by these products."""
    M = np.ones((data["columns"], COMPONENTS), np.float32)
    return multiply(data, lambda block, _: block.T @ (block @ M))


def sweeps() -> Case:
    """Return the case of BM2PCA."""
    shapes = {"tiny": (800, 24), "usual": (1_000_000, 256), "full": (4_000_000, 256)}
    sizes = {name: {"rows": rows, "columns": columns} for name, (rows, columns) in shapes.items()}
    case = Case("models: a sweep of BM2PCA", store, sizes)
    case.add("a sweep", sweep, "ours")
    case.add("class moments", moments, "own")
    case.add("row by row, as in the paper", row_by_row)
    case.add("reading alone", read_files, "floor")
    case.add("products with components alone", both_products, "floor")
    return case


def cases() -> list[Case]:
    """Return the cases of this theme."""
    return [projection_penalties(), l1(), sweeps()]
