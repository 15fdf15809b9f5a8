"""Tables 5 to 7 of Zhang & Schneider 2010: projection penalties on pairs of Yale faces.

From every subject 3, 5 or 7 images are training rows. The reductions are learned on those of all 15 subjects, the
classifiers on each of the 105 pairs. Models are a machine with the kernel (x^T y + 1)^2 ("SVM-Kernel"), a linear one on
reduced features ("SVM"), and one with a projection penalty ("Proj"). Every machine chooses its alpha by stratified
cross-validation, of as many folds as there are images a subject, at most 5. Of alphas that err equally, it takes the
smallest.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from mmpca_dist import GeneralizedDiscriminantAnalysis, KernelProjectionPenaltyClassifier, OrthogonalLaplacianProjection
from mmpca_dist.settings import setting

from .table import Array, Table, stored_arrays

KERNEL: dict[str, Any] = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}


class Faces(NamedTuple):
    """Images of shape (n, pixels), and their subjects of shape (n,)."""

    X: Array
    y: NDArray


class Yale(Table):
    """Tables 5 to 7, and what the paper leaves open about them."""

    NUMBERS = (5, 6, 7)
    TRAINING = "images"
    FULL = 50
    RIVALS = {f"Proj-{name}": ("SVM-Kernel", f"SVM-{name}") for name in ("KPCA", "GDA", "OLap")}  # noqa: RUF012

    table: Literal["yale"]
    images: list[Literal[3, 5, 7]] = setting(
        min_length=1, values="3, 5 or 7", example=[3, 5, 7], description="Training images of each subject"
    )
    pixels: Literal["range", "length"] = setting(example="range", description="From 0 to 1, or images of unit length")
    scaling: Literal["length", "scatter"] = setting(
        example="length", description="Components of GDA have unit length, or unit total scatter"
    )
    share: float = setting(
        gt=0, le=1, values="a number above 0, and at most 1", example=0.99,
        description="Share of the variance that GDA's kernel PCA step keeps",
    )  # fmt: skip
    laplacian: Literal["linear", "poly"] = setting(example="linear", description="The kernel of OLap")

    @property
    def amounts(self) -> list[Literal[3, 5, 7]]:
        """Training images of each subject."""
        return self.images

    def load(self) -> Faces:
        """Return images and subjects."""
        X, y = stored_arrays(self.path, "X", "y")
        X = X.astype(np.float64)
        return Faces(X / (255 if self.pixels == "range" else np.linalg.norm(X, axis=1, keepdims=True)), y)

    def run(self, data: Faces, amount: int, seed: int) -> dict[str, float]:
        """Return mean errors of a random choice of training images over the pairs of subjects."""
        X, y = data
        rng = np.random.default_rng(seed)
        train = np.concatenate([rng.permutation(np.flatnonzero(y == subject))[:amount] for subject in np.unique(y)])
        is_train = np.isin(np.arange(len(y)), train)
        reductions = self.reductions(X[train], y[train])
        errors = defaultdict(list)
        for pair in itertools.combinations(np.unique(y), 2):
            rows = np.flatnonzero(np.isin(y, pair))
            own = np.flatnonzero(is_train[rows]), np.flatnonzero(~is_train[rows])
            for model, error in self.pair_errors(X[rows], y[rows], *own, reductions, seed).items():
                errors[model].append(error)
        return {model: float(np.mean(values)) for model, values in errors.items()}

    def reductions(self, X: Array, y: NDArray) -> dict[str, Any]:
        """Return the reductions of the paper, fitted to the training images of all subjects."""
        principal = KernelPCA(len(X), **KERNEL).fit(X)
        values = principal.eigenvalues_
        shares = np.cumsum(values) / values.sum()
        cut = values[np.searchsorted(shares, min(self.share, shares[-1]))] / values[0]
        tolerance = 1e-10 if self.share == 1 else float(cut) * (1 - 1e-9)
        steps: list[Any] = [GeneralizedDiscriminantAnalysis(tol=tolerance, **KERNEL)]
        if self.scaling == "scatter":  # v^T T v = 1
            steps += [StandardScaler(), FunctionTransformer(_multiplied, kw_args={"factor": len(X) ** -0.5})]
        space = KERNEL if self.laplacian == "poly" else {"kernel": "linear"}
        return {
            "KPCA": principal,
            "GDA": make_pipeline(*steps).fit(X, y),
            "OLap": OrthogonalLaplacianProjection(**space).fit(X, y),
        }

    def pair_errors(
        self, X: Array, y: NDArray, train: NDArray, test: NDArray, reductions: dict[str, Any], seed: int
    ) -> dict[str, float]:
        """Return the test errors in percent of all models for two subjects."""
        plain: Array = (X @ X.T + 1) ** 2
        errors: dict[str, float] = {}

        def machine_error(matrix: Array) -> float:
            alpha = self.chosen_alpha(matrix[np.ix_(train, train)], y[train], seed)
            machine = SVC(C=1 / (2 * alpha), kernel="precomputed").fit(matrix[np.ix_(train, train)], y[train])
            return 100 * float(np.mean(machine.predict(matrix[np.ix_(test, train)]) != y[test]))

        errors["SVM-Kernel"] = machine_error(plain)
        for name, reduction in reductions.items():
            Z = reduction.transform(X)
            errors[f"SVM-{name}"] = machine_error(Z @ Z.T)
            # the machine that has the penalty, as a kernel: fast enough for cross-validation
            alpha = self.chosen_alpha((plain + Z @ Z.T / self.epsilon)[np.ix_(train, train)], y[train], seed)
            model = KernelProjectionPenaltyClassifier(reduction, alpha=alpha, epsilon=self.epsilon, **KERNEL)
            errors[f"Proj-{name}"] = 100 - 100 * model.fit(X[train], y[train]).score(X[test], y[test])
        return errors

    def chosen_alpha(self, matrix: Array, y: NDArray, seed: int) -> float:
        """Return the alpha that errs least in cross-validation of a machine with this kernel matrix."""
        folds = list(StratifiedKFold(min(5, len(y) // 2), shuffle=True, random_state=seed).split(matrix, y))
        errors = []
        for alpha in self.alphas:
            wrong = 0
            for train, test in folds:
                machine = SVC(C=1 / (2 * alpha), kernel="precomputed").fit(matrix[np.ix_(train, train)], y[train])
                wrong += int(np.sum(machine.predict(matrix[np.ix_(test, train)]) != y[test]))
            errors.append(wrong)
        return self.alphas[int(np.argmin(errors))]


def _multiplied(Z: Array, factor: float) -> Array:
    return Z * factor
