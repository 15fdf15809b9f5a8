"""The kernel form of projection penalties: kinds of rows, reductions and kernels, and mistakes."""

import sys

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from helpers.kernels import POLY, overlapping, reduction_of, signs
from naive_kernels import degree_two_features, projection_penalty
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mmpca_dist import (
    GeneralizedDiscriminantAnalysis,
    KernelProjectionPenaltyClassifier,
    MarginPCA,
    OrthogonalLaplacianProjection,
)
from mmpca_dist.errors import InputError

KINDS = [KernelProjectionPenaltyClassifier, GeneralizedDiscriminantAnalysis, OrthogonalLaplacianProjection]


@pytest.mark.parametrize("solver", ["libsvm", "clarabel"])
def test_equal_rows_with_different_labels(solver):
    X, y = overlapping(24, 3, seed=6)
    X, y = np.concatenate([X, X, X[:4]]), np.concatenate([y, y, 1 - y[:4]])
    R = reduction_of(3, 1, 7)
    model = KernelProjectionPenaltyClassifier(R, alpha=1e-3, epsilon=1e-3, solver=solver, **POLY).fit(X, y)
    least = projection_penalty(degree_two_features(X, 0.3, 1.0), X @ R.T, signs(y), 1e-3, 1e-3)[3]
    np.testing.assert_allclose(model.objective_, least, rtol=1e-6)
    assert least > 4


@pytest.mark.parametrize("epsilon", [0, 1e-4])
def test_reduced_features_that_are_constant_or_depend_on_others(epsilon):
    X, y = overlapping(40, 3, seed=8)
    X = np.column_stack([X, np.full(40, 1.9)])  # whose 7-fold differs from its mean, by rounding
    R = np.asarray([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 7]])
    model = KernelProjectionPenaltyClassifier(R, epsilon=epsilon, alpha=0.1, tol=1e-9).fit(X, y)
    one = KernelProjectionPenaltyClassifier(np.sqrt(2) * R[:1], epsilon=epsilon, alpha=0.1, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), one.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(model.weights_[0, 0], model.weights_[0, 1], rtol=1e-9)
    assert abs(model.weights_[0, 2]) < 1e-12
    none = KernelProjectionPenaltyClassifier(R[2:], epsilon=epsilon, alpha=0.1, tol=1e-9).fit(X, y)
    plain = SVC(C=5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(none.decision_function(X), plain.decision_function(X), atol=1e-4)


def outputs(model, X):
    return model.transform(X) if hasattr(model, "transform") else model.decision_function(X)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_mean_far_larger_than_the_spread_does_no_harm(kind, kernel):
    X, y = overlapping(40, 3, seed=9, classes=3)
    X = np.round(X * 1024) / 1024  # so that adding the mean is exact
    more = {} if kind in KINDS[1:] else {"reduction": np.asarray([[1, -1, 0.5]]), "alpha": 0.1, "tol": 1e-14}
    near, far = (outputs(kind(kernel=kernel, gamma=0.2, **more).fit(Z, y), Z) for Z in (X, X + 2.0**22))
    np.testing.assert_allclose(far, near, atol=1e-5 if more else 1e-8 * np.abs(near).max())


def test_rows_of_other_types():
    X, y = overlapping(40, 5, seed=10)
    X = np.where(X > 0, X, 0).astype(np.float32)
    R = reduction_of(5, 2, 11)
    for kernel in ("rbf", "poly", "linear"):
        options = {"kernel": kernel, "alpha": 0.1, "tol": 1e-9}
        expected = KernelProjectionPenaltyClassifier(R, **options).fit(X.astype(np.float64), y)
        scores = expected.decision_function(X)
        for rows in (X, csr_matrix(X), pd.DataFrame(X, columns=list("abcde"))):
            model = KernelProjectionPenaltyClassifier(R, **options).fit(rows, y)
            assert model.decision_function(rows).dtype == np.float64
            np.testing.assert_allclose(model.decision_function(rows), scores, atol=1e-5)
            for others in (X, csr_matrix(X)) if isinstance(rows, np.ndarray | csr_matrix) else ():
                np.testing.assert_allclose(model.decision_function(others), scores, atol=1e-5)


def test_names_of_columns_reach_the_reduction():
    X, y = overlapping(40, 3, seed=12)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = KernelProjectionPenaltyClassifier(StandardScaler().set_output(transform="pandas")).fit(frame, y)
    assert model.reduction_.feature_names_in_.tolist() == model.feature_names_in_.tolist() == list("abc")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["c", "b", "a"]])


def test_reductions_that_are_fitted_are_used_as_they_are():
    X, y = overlapping(40, 4, seed=13)
    fitted = PCA(2).fit(X[:10])
    assert KernelProjectionPenaltyClassifier(fitted).fit(X, y).reduction_ is fitted
    unfitted = MarginPCA(2, "m-pca1a")
    model = KernelProjectionPenaltyClassifier(unfitted).fit(X, y)
    assert model.reduction_ is not unfitted and not hasattr(unfitted, "components_")
    np.testing.assert_array_equal(model.reduction_.components_, MarginPCA(2, "m-pca1a").fit(X, y).components_)
    kept = clone(KernelProjectionPenaltyClassifier(FrozenEstimator(fitted))).fit(X, y)
    np.testing.assert_array_equal(kept.reduction_.transform(X), fitted.transform(X))


def test_the_default_reduction_is_a_discriminant_of_the_same_kernel():
    X, y = overlapping(40, 4, seed=14, classes=3)
    reduction = GeneralizedDiscriminantAnalysis(**POLY)
    one, other = (KernelProjectionPenaltyClassifier(r, **POLY).fit(X, y) for r in (None, reduction))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_a_function_is_a_kernel():
    X, y = overlapping(40, 4, seed=15)
    named = KernelProjectionPenaltyClassifier(PCA(1), tol=1e-9, **POLY).fit(X, y)
    called = KernelProjectionPenaltyClassifier(
        PCA(1), tol=1e-9, kernel=lambda A, B: (0.3 * A @ B.T + 1) ** 2
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(called.decision_function(X), named.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", ["cosine", lambda A, B: A @ B.T + 1], ids=["cosine", "function"])
def test_rounding_errors_of_a_large_mean_are_no_negative_eigenvalues(kernel, seed):
    """Kernels whose values lose digits to the mean are positive semidefinite, but rounding errors count."""
    X, y = overlapping(30, 2, seed)
    model = KernelProjectionPenaltyClassifier(np.eye(1, 3), kernel=kernel, alpha=1e-8)
    with pytest.warns(UserWarning, match="rounding errors count. Subtract the means of the columns"):
        model.fit(np.column_stack([np.full(30, 1e6), 1e-3 * X]), y)
    X, y = overlapping(30, 5, (28, 44, 51)[seed % 3])  # their least eigenvalue is below - 1.5 n eps times the largest
    with pytest.warns(UserWarning, match="rounding errors count"):
        GeneralizedDiscriminantAnalysis(kernel=lambda A, B: A @ B.T + 1).fit(X + 1e6, y)


@pytest.mark.parametrize("seed", range(8))
def test_indefinite_kernels_are_refused_whatever_the_solution(seed):
    """Without this the gap proves nothing: the problem is not convex."""
    X, y = overlapping(30, 4, seed)
    with pytest.raises(InputError, match=r"not positive semidefinite: .* has the eigenvalue -\d"):
        KernelProjectionPenaltyClassifier(
            np.eye(1, 4), kernel=lambda A, B: np.tanh(0.5 * A @ B.T - 0.5), alpha=10.0
        ).fit(X, y)  # fmt: skip


MISTAKES = {
    "alpha": ({"alpha": 0}, "alpha=0 must be a number of more than 0"),
    "epsilon": ({"epsilon": -1}, "epsilon=-1 must be a number of at least 0"),
    "endless epsilon": ({"epsilon": np.inf}, "epsilon=inf"),
    "kernel": ({"kernel": "ploy"}, "Did you mean 'poly'"),
    "no kernel": ({"kernel": "polynomial"}, "must be one of 'linear'"),
    "no name": ({"kernel": ["rbf"]}, r"kernel=\['rbf'\] must be one of"),
    "gammas": ({"gamma": np.ones(2)}, "gamma=.* must be a number of more than 0"),
    "gamma": ({"gamma": "scal"}, "gamma='scal' must be a number"),
    "degree": ({"degree": 2.5}, "degree=2.5 must be a whole number"),
    "solver": ({"solver": "libsvn"}, "Did you mean 'libsvm'"),
    "libsvm without epsilon": ({"solver": "libsvm", "epsilon": 0}, "leave solver out"),
    "class": ({"reduction": PCA}, r"give an instance, PCA\(...\)"),
    "columns": ({"reduction": np.ones((2, 3))}, r"shape \(2, 3\).*shape \(K, 4\)"),
    "one row": ({"reduction": np.ones(4)}, r"shape \(4,\)"),
    "text": ({"reduction": "pca"}, "reduction is 'pca'"),
    "not finite": ({"reduction": np.full((1, 4), np.nan)}, "finite array"),
    "indefinite": ({"kernel": lambda A, B: -(A @ B.T), "reduction": np.eye(1, 4)}, "not positive semidefinite"),
    "asymmetric": ({"kernel": lambda A, B: A @ np.roll(B, 1, axis=1).T, "reduction": np.eye(1, 4)}, "not symmetric"),
    "shape": ({"kernel": lambda A, B: A @ A.T[:, :1], "reduction": np.eye(1, 4)}, r"must return finite numbers"),
}  # fmt: skip
REFUSED = [(KernelProjectionPenaltyClassifier(**parameters), message) for parameters, message in MISTAKES.values()]
REFUSED += [
    (GeneralizedDiscriminantAnalysis(3), "n_components=3 is more than the 2 .*classes less one"),
    (GeneralizedDiscriminantAnalysis(0), "n_components=0 must be a whole number of at least 1"),
    (GeneralizedDiscriminantAnalysis(shrinkage=2), "shrinkage=2 must be a number of at least 0"),
    (GeneralizedDiscriminantAnalysis(tol=1), "tol=1 must be a number of .* less than 1"),
    (GeneralizedDiscriminantAnalysis(kernel="rfb"), "Did you mean 'rbf'"),
    (GeneralizedDiscriminantAnalysis(kernel="poly", coef0=-1), "coef0=-1 must be a number of at least 0"),
    (OrthogonalLaplacianProjection(variance_share=0), "variance_share=0 must be a number of more than 0"),
    (GeneralizedDiscriminantAnalysis(kernel=lambda A, B: A * [3, 1, 1, -2] @ B.T), "semidefinite"),
    (GeneralizedDiscriminantAnalysis(kernel=lambda A, B: np.ones((len(A), len(B)))), "same image"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "message"), REFUSED)
def test_mistakes_are_said(model, message):
    X, y = overlapping(20, 4, seed=16, classes=3)
    with pytest.raises(InputError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_in_rows_are_said(kind):
    X, y = overlapping(20, 4, seed=17)
    with pytest.raises(InputError, match="one class"):
        kind().fit(X, np.zeros(20, int))
    with pytest.raises(InputError, match=r"pass X\.compute"):
        kind().fit(da.from_array(X, (5, 4)), y)


class Broken(PCA):
    def transform(self, X):
        return np.full((len(X), 1), np.nan)


def test_reduced_features_that_are_not_finite_are_refused():
    X, y = overlapping(20, 4, seed=18)
    with pytest.raises(InputError, match="reduction Broken returns"):
        KernelProjectionPenaltyClassifier(Broken(1)).fit(X, y)


def test_without_clarabel_the_message_says_what_to_install(monkeypatch):
    X, y = overlapping(20, 4, seed=19)
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(InputError, match=r"pip install 'mmpca-dist\[qp\]'"):
        KernelProjectionPenaltyClassifier(PCA(1), epsilon=0).fit(X, y)
    assert KernelProjectionPenaltyClassifier(PCA(1)).fit(X, y).score(X, y) > 0.5
