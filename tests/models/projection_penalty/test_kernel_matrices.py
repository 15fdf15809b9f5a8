"""Kernel matrices: given in place of rows, and too large for the memory."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.kernels import POLY, overlapping, reduction_of
from helpers.watching import allocated
from scipy.sparse import csr_matrix
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from mmpca_dist import (
    GeneralizedDiscriminantAnalysis,
    KernelProjectionPenaltyClassifier,
    NystroemFeatures,
    OrthogonalLaplacianProjection,
    ProjectionPenaltyClassifier,
)
from mmpca_dist.errors import InputError
from mmpca_dist.tables.memory_limits import within

KINDS = [GeneralizedDiscriminantAnalysis, OrthogonalLaplacianProjection, KernelProjectionPenaltyClassifier]
RBF = {"kernel": "rbf", "gamma": 0.2}


def outputs(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.transform(X)


@pytest.mark.parametrize("kernel", [RBF, POLY, {"kernel": "linear"}], ids=lambda kernel: kernel["kernel"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_gives_what_its_kernel_gives(kind, kernel):
    X, y = overlapping(60, 4, seed=1, classes=3)
    K = pairwise_kernels(X, metric=kernel["kernel"], **{name: kernel[name] for name in kernel if name != "kernel"})
    expected = outputs(kind(**kernel).fit(X[:40], y[:40]), X)
    given = K[:40, :40].copy()
    model = kind(kernel="precomputed").fit(given, y[:40])
    assert model.n_features_in_ == 40
    np.testing.assert_allclose(outputs(model, K[:, :40]), expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(given, K[:40, :40])  # fitting leaves it alone
    sparse = kind(kernel="precomputed").fit(csr_matrix(given), y[:40])
    np.testing.assert_array_equal(outputs(sparse, csr_matrix(K[:, :40])), outputs(model, K[:, :40]))


def test_a_reduction_by_a_matrix_has_columns_for_the_rows():
    """z = P phi(x) of directions that are combinations of images."""
    X, y = overlapping(40, 4, seed=2)
    K = X @ X.T
    P = reduction_of(40, 2, 3)
    model = KernelProjectionPenaltyClassifier(P, kernel="precomputed", tol=1e-9).fit(K, y)
    expected = KernelProjectionPenaltyClassifier(P @ X, kernel="linear", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(model.decision_function(K), expected.decision_function(X), atol=1e-5)


def test_folds_of_a_matrix_are_cut_from_rows_and_columns():
    X, y = overlapping(60, 4, seed=4, classes=3)
    K = pairwise_kernels(X, metric="rbf", gamma=0.2)
    found = cross_val_score(KernelProjectionPenaltyClassifier(kernel="precomputed"), K, y, error_score="raise")
    expected = cross_val_score(KernelProjectionPenaltyClassifier(**RBF), X, y, error_score="raise")
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_mistaken_matrices_are_refused(kind):
    X, y = overlapping(20, 4, seed=5)
    K, model = X @ X.T, kind(kernel="precomputed")
    with pytest.raises(InputError, match=r"X has shape \(20, 4\): kernel='precomputed' takes the kernel matrix"):
        model.fit(X, y)
    with pytest.raises(InputError, match="The kernel is not symmetric"):
        model.fit(K + np.triu(K), y)
    with pytest.raises(InputError, match="The kernel is not positive semidefinite"):
        model.fit(-K, y)
    with pytest.raises(ValueError, match="20 features"):
        outputs(model.fit(K, y), K[:, :10])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.e2e
def test_every_check_of_scikit_learn_passes(kind, monkeypatch):
    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    no_kernel = {"check_estimators_dtypes": "its square matrix of random numbers is not positive semidefinite"}
    results = check_estimator(
        kind(kernel="precomputed"), on_skip=None, on_fail="raise", expected_failed_checks=no_kernel
    )
    assert sum(result["status"] == "passed" for result in results) > 40
    skipped = {result["check_name"] for result in results if result["status"] != "passed"}
    assert skipped == {"check_array_api_input", *no_kernel}


@pytest.mark.parametrize("kernel", ["rbf", "function"])
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_beyond_the_memory_are_refused_before_they_are_made(kind, kernel):
    calls = []
    n = 200_000
    X, y = np.arange(n, dtype=np.float64)[:, None], np.arange(n) % 2
    told = r"200,000 rows .* matrices of .* TiB, and 3\.00 GiB .* NystroemFeatures"
    with allocated() as memory, within(3 << 30, "a test"), pytest.raises(InputError, match=told):
        kind(kernel=kernel if kernel == "rbf" else lambda *rows: calls.append(rows)).fit(X, y)
    assert memory.peak < 50 * X.nbytes and not calls
    with within(8 * model_matrices(kind) * 60**2, "a test"):  # up to the limit there is no complaint
        kind().fit(*overlapping(60, 3, seed=7))
    with within(8 * model_matrices(kind) * 60**2 - 1, "a test"), pytest.raises(InputError, match="60 rows"):
        kind().fit(*overlapping(60, 3, seed=7))


def model_matrices(kind):
    return kind()._matrices()


def test_the_way_beyond():
    """With all rows as landmarks, what the message names is the same machine."""
    X, y = overlapping(40, 4, seed=8)
    features = NystroemFeatures(40, kernel="poly", gamma=0.3, degree=2, coef0=1).fit(X)
    Z = features.transform(X)
    reduction = make_pipeline(features, PCA(2)).fit(X)
    settings = {"alpha": 0.1, "epsilon": 0.01, "tol": 1e-8}
    expected = KernelProjectionPenaltyClassifier(reduction, **POLY, **settings).fit(X, y)
    found = ProjectionPenaltyClassifier(reduction[-1].components_, loss="hinge", **settings).fit(Z, y)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_allclose(found.decision_function(Z), expected.decision_function(X), atol=1e-3)


MEASURE = """
import sys
import numpy as np, psutil
from mmpca_dist.jobs.job import watched_memory
from helpers.kernels import overlapping
from mmpca_dist import *
X, y = overlapping(int(sys.argv[1]), 20, seed=0, classes=3)
make = eval("lambda: " + sys.argv[2])
make().fit(X[:60], y[:60])
before = psutil.Process().memory_info().rss
with watched_memory(0.001) as peak:  # the peak of the system begins with that of the process that forked this one
    make().fit(X, y)
print((peak() - before) / 8 / len(X) ** 2, make()._matrices())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("n", "model"), [
    (1500, "GeneralizedDiscriminantAnalysis()"),
    (1500, "GeneralizedDiscriminantAnalysis(shrinkage=0.1)"),
    (1500, "OrthogonalLaplacianProjection(kernel='rbf')"),
    (1500, "KernelProjectionPenaltyClassifier()"),
    (800, "KernelProjectionPenaltyClassifier(np.eye(20)[:2], epsilon=0)"),
])  # fmt: skip
def test_a_fit_holds_no_more_matrices_than_are_counted(n, model, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "tests")
    measured, stated = subprocess.check_output([sys.executable, "-c", MEASURE, str(n), model]).split()
    assert 0.5 * float(stated) < float(measured) <= float(stated)
