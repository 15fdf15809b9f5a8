"""Logistic discriminant analysis as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from mmpca_dist.methods.base.registry import BETWEEN_CLASSES, Method
from mmpca_dist.methods.base.solution import Solution, class_limit
from mmpca_dist.methods.base.swept_reducer import ClassifiesByScores, SweptReducer
from mmpca_dist.methods.base.traits import Fitted, Option
from mmpca_dist.models.logistic_discriminant.fit import LogisticFit, NewtonFit, contrasts
from mmpca_dist.statistics.working_statistics import EPS, Statistics
from mmpca_dist.tables.covariates import BY_NAME


class LogisticDiscriminant(ClassifiesByScores, SweptReducer):
    """The directions that a multinomial logistic regression of the classes uses.

    It minimises -sum_i log p(y_i | x_i) + alpha/2 sum_c |w_c|^2, with p(c | x) proportional to exp(w_c^T x + b_c).
    Parameters that are not listed are as in ``MarginPCA``.

    Parameters
    ----------
    n_components : int, optional
        At most the number of classes less one, which is the default.
    alpha : float
        scikit-learn's ``LogisticRegression`` has C = 1 / alpha, and for two classes 2 / alpha.
    tol, max_iter : float, int
        Passes end when a Newton step would gain no more than this share of the objective, or after so many.
    scratch : str, optional
        Not used: rows have no states.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal in (standardised) columns: the right singular vectors of the coefficients w, the strongest first.
    eigenvalues_ : array of shape (K,)
        Squared singular values of w.
    weights_ : array of shape (C, K), or (1, K) for two classes
        Coefficients of the outputs (of two classes that of the second less that of the first) in the components.
    objective_, gap_ : float
        The minimum, and by how much it may be missed, relative to it: an estimate, what a Newton step would gain.
    n_iter_ : int
        Passes over the rows.
    classes_ : array of shape (C,)

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import LogisticDiscriminant
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LogisticDiscriminant(standardize=True).fit(X, y)
    >>> model.transform(X).shape, round(model.score(X, y), 2)
    ((178, 2), 1.0)
    """

    traits = SweptReducer.traits.extended({
        "alpha": Option(gt=0, example=100, description="Weight of the squared coefficients against the sum of losses"),
        "tol": Option(
            ge=0, lt=1, example=1e-8, description="Passes end when a step would gain no more than this share"
        ),
    }, nested=True, by_classes=True, stored=(
        "weights_", "outputs_at_mean_", "objective_", "gap_", "n_iter_"
    ))  # fmt: skip

    def __init__(
        self, n_components: int | None = None, *, alpha: float = 1.0, tol: float = 1e-6, max_iter: int = 100,
        scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, tol=tol, max_iter=max_iter, scratch=scratch,
            standardize=standardize, center=center, precision=precision, solver=solver, missing=missing,
        )  # fmt: skip
        self.alpha = alpha

    def _fit(self) -> LogisticFit:
        return LogisticFit(self.alpha, self.tol, self.max_iter)

    def _solve(self, statistics: Statistics) -> Solution:
        model: NewtonFit = self._swept(statistics)
        n_classes = len(model.best) + 1
        _, lengths, directions = np.linalg.svd(model.best[:, :-1], full_matrices=False)
        count = self._at_most(int(np.count_nonzero(lengths > n_classes * EPS * lengths.max())))
        squares, errors = lengths**2, n_classes * EPS * lengths.max() / lengths[:count]
        solution = Solution.of_directions(
            directions[:count], squares[:count], errors, float(squares.sum()), class_limit(n_classes)
        )
        outputs = contrasts(n_classes).T if n_classes > 2 else np.diff(contrasts(2))
        self.weights_ = outputs @ model.best[:, :-1] @ solution.components.T
        self.outputs_at_mean_ = outputs @ model.best[:, -1]
        self.objective_, self.gap_, self.n_iter_ = model.objective, model.gap, model.n_passes
        return solution

    def shorten(self, n_components: int) -> None:
        super().shorten(n_components)
        self.weights_ = self.weights_[:, :n_components]

    def fitted(self) -> Fitted:
        loadings, mean, _ = self.projection()
        at_mean = self.weights_ @ (loadings.T @ self.mean_) if mean is None else 0
        gain = f"a further step would lower its objective by {self.gap_:.2g} of it: raise max_iter."
        return replace(
            super().fitted(), classifier=(self.weights_, self.outputs_at_mean_ - at_mean),
            unconverged=[] if self.gap_ <= self.tol else [gain],
        )  # fmt: skip

    def _outputs(self, X: Any, covariates: Any = BY_NAME) -> Any:
        return self._transformed(X, covariates, center=True) @ self.weights_.T + self.outputs_at_mean_

    def predict_proba(self, X: Any, covariates: Any = BY_NAME) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n_samples, C)."""
        outputs = np.asarray(self._outputs(X, covariates))
        if outputs.shape[1] > 1:
            return np.asarray(softmax(outputs, axis=1))
        return np.hstack([expit(-outputs), expit(outputs)])


METHOD = Method(
    "logistic-discriminant",
    "Logistic discriminants",
    "classes",
    "what a multinomial logistic regression tells classes apart by",
    BETWEEN_CLASSES,
    LogisticDiscriminant,
    settable=("alpha", "tol", "max_iter"),
    values="squared singular values of the coefficients",
    shares="squared coefficients",
)
