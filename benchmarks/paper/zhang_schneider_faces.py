"""Projection penalties on the Yale faces: tables 5 to 7 of Zhang & Schneider 2010, beside own figures.

``python -m mmpca_paper.zhang_schneider_faces --runs 5`` takes about two minutes a run. The faces, ``yale_32x32.npz``
with X (165, 1024) from 0 to 255 and y (165,), are looked for in the folder MMPCA_DATA, by default ``../shared/data``.

Of every subject 3, 5 or 7 images are training rows. The reductions are learned on those of all 15 subjects, the
classifiers on each of the 105 pairs. Models are a machine with the kernel (x^T y + 1)^2 ("SVM-Kernel"), a linear one on
reduced features ("SVM"), and one with a projection penalty ("Proj"). Every machine chooses its alpha by stratified
cross-validation, of as many folds as there are images a subject, at most 5. Of alphas that err equally, it takes the
smallest.

The options are what the paper leaves open: how pixels are scaled, the length of the components of GDA, the share of
the variance that its kernel PCA step keeps, and whether OLap uses the kernel. Over four runs the defaults come nearest:
0.8 points, the root mean squared difference of all figures. It is 1.8 with OLap in the space of the kernel, and 2.4 to
3.5 with images of unit length. The kernel (x^T y)^2 makes no difference.

With components of unit length "Proj" errs as "SVM" does, unlike in the paper: the reduced part of the kernel, over an
epsilon of 1e-5, outweighs the rest. With ``--scaling scatter --share 0.99`` GDA loses something; the penalty regains
0.7 points of it with 7 images, in three runs, but at most 0.1 with fewer. The paper has gains of 0.8 to 2.2 points.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from mmpca_dist import (
    GeneralizedDiscriminantAnalysis,
    KernelProjectionPenaltyClassifier,
    OrthogonalLaplacianProjection,
)

from .zhang_schneider import ALPHAS, Array, Comparison, argument_parser, data_path, published

TABLES = (5, 6, 7)
KERNEL: dict[str, Any] = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}
IMAGES = (3, 5, 7)
EPSILON = 1e-5


class Reading(NamedTuple):
    """What the paper leaves open."""

    pixels: str = "range"
    scaling: str = "length"
    share: float = 1.0
    laplacian: str = "linear"


def load_faces(pixels: str) -> tuple[Array, NDArray]:
    """Return images (165, 1024), from 0 to 1 (``range``) or of unit length (``length``), and their subjects."""
    with np.load(data_path("yale_32x32.npz")) as data:
        X, y = data["X"].astype(np.float64), data["y"]
    return X / (255 if pixels == "range" else np.linalg.norm(X, axis=1, keepdims=True)), y


def _multiplied(Z: Array, factor: float) -> Array:
    return Z * factor


def fitted_reductions(X: Array, y: NDArray, reading: Reading) -> dict[str, Any]:
    """Return the reductions of the paper, fitted to the training images of all subjects."""
    principal = KernelPCA(len(X), **KERNEL).fit(X)
    shares = np.cumsum(principal.eigenvalues_) / principal.eigenvalues_.sum()
    cut = principal.eigenvalues_[np.searchsorted(shares, min(reading.share, shares[-1]))] / principal.eigenvalues_[0]
    tolerance = 1e-10 if reading.share == 1 else float(cut) * (1 - 1e-9)
    steps: list[Any] = [GeneralizedDiscriminantAnalysis(tolerance=tolerance, **KERNEL)]
    if reading.scaling == "scatter":  # v^T T v = 1
        steps += [StandardScaler(), FunctionTransformer(_multiplied, kw_args={"factor": len(X) ** -0.5})]
    space = KERNEL if reading.laplacian == "poly" else {"kernel": "linear"}
    return {
        "KPCA": principal,
        "GDA": make_pipeline(*steps).fit(X, y),
        "OLap": OrthogonalLaplacianProjection(**space).fit(X, y),
    }


def chosen_alpha(matrix: Array, y: NDArray, seed: int) -> float:
    """Return the alpha that errs least in cross-validation of a machine with this kernel matrix."""
    folds = list(StratifiedKFold(min(5, len(y) // 2), shuffle=True, random_state=seed).split(matrix, y))
    errors = []
    for alpha in ALPHAS:
        wrong = 0
        for train, test in folds:
            machine = SVC(C=1 / (2 * alpha), kernel="precomputed").fit(matrix[np.ix_(train, train)], y[train])
            wrong += int(np.sum(machine.predict(matrix[np.ix_(test, train)]) != y[test]))
        errors.append(wrong)
    return float(ALPHAS[int(np.argmin(errors))])


def pair_errors(X: Array, y: NDArray, train: NDArray, test: NDArray, reductions: dict, seed: int) -> dict[str, float]:
    """Return the test errors in percent of all models for two subjects."""
    plain: Array = (X @ X.T + 1) ** 2
    errors: dict[str, float] = {}

    def machine_error(matrix: Array) -> float:
        alpha = chosen_alpha(matrix[np.ix_(train, train)], y[train], seed)
        machine = SVC(C=1 / (2 * alpha), kernel="precomputed").fit(matrix[np.ix_(train, train)], y[train])
        return 100 * float(np.mean(machine.predict(matrix[np.ix_(test, train)]) != y[test]))

    errors["SVM-Kernel"] = machine_error(plain)
    for name, reduction in reductions.items():
        Z = reduction.transform(X)
        errors[f"SVM-{name}"] = machine_error(Z @ Z.T)
        # the machine that has the penalty, as a kernel: fast enough for cross-validation
        alpha = chosen_alpha((plain + Z @ Z.T / EPSILON)[np.ix_(train, train)], y[train], seed)
        model = KernelProjectionPenaltyClassifier(reduction, alpha=alpha, epsilon=EPSILON, **KERNEL)
        errors[f"Proj-{name}"] = 100 - 100 * model.fit(X[train], y[train]).score(X[test], y[test])
    return errors


def run_errors(X: Array, y: NDArray, images: int, reading: Reading, seed: int) -> dict[str, float]:
    """Return mean errors of a random choice of training images over the 105 pairs of subjects."""
    rng = np.random.default_rng(seed)
    train = np.concatenate([rng.permutation(np.flatnonzero(y == subject))[:images] for subject in np.unique(y)])
    is_train = np.isin(np.arange(len(y)), train)
    reductions = fitted_reductions(X[train], y[train], reading)
    found = defaultdict(list)
    for pair in itertools.combinations(np.unique(y), 2):
        rows = np.flatnonzero(np.isin(y, pair))
        own = np.flatnonzero(is_train[rows]), np.flatnonzero(~is_train[rows])
        for key, error in pair_errors(X[rows], y[rows], *own, reductions, seed).items():
            found[key].append(error)
    return {key: float(np.mean(values)) for key, values in found.items()}


def main() -> None:
    """Print own and published errors, and their root mean squared difference."""
    parser = argument_parser(__doc__, runs=3, repeated="random choices of training images (the paper: 50)")
    parser.add_argument("--images", type=int, nargs="+", choices=IMAGES, default=IMAGES)
    parser.add_argument("--pixels", choices=("range", "length"), default="range")
    parser.add_argument("--scaling", choices=("length", "scatter"), default="length", help="of GDA's components")
    parser.add_argument("--share", type=float, default=1.0, help="of the variance that GDA's kernel PCA step keeps")
    parser.add_argument("--laplacian", choices=("linear", "poly"), default="linear")
    options = parser.parse_args()
    reading = Reading(options.pixels, options.scaling, options.share, options.laplacian)
    X, y = load_faces(reading.pixels)
    print(f"{reading}, {options.runs} runs")
    comparison = Comparison(published(TABLES), "images")
    for images in options.images:
        runs = [run_errors(X, y, images, reading, seed) for seed in range(options.runs)]
        for model in runs[0]:
            comparison.add(images, model, [run[model] for run in runs])
    print(f"root mean squared difference {comparison.difference():.2f}")


if __name__ == "__main__":
    main()
