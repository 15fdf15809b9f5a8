"""ARPACK on sparse rows in memory against dense eigenvectors of difference rows, and when it is chosen."""

import naive
import numpy as np
import pytest
import scipy.sparse
from helpers.samples import largest_angle
from helpers.tables import config_of, labelled, write_npz

from mmpca_dist import LOL, FisherDiscriminant, MarginPCA, run
from mmpca_dist.eigen.blocks import arpack
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.statistics_for import class_statistics
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import make_spans

EPS = float(np.finfo(np.float64).eps)
ROWS = {"pca": naive.pca_rows, "m-pca0": naive.mpca0_rows}
SHAPES = [(40, 90), (120, 30)]


def thinned(n, d, kind, dtype="f8"):
    """Return rows most of whose values are zero, and labels."""
    X, y = labelled(n, d, 3, seed=n)
    X = np.where(np.random.default_rng(n).random(X.shape) < 0.4, X, 0)
    if kind == "balanced":
        y = np.arange(n) % 3
    elif kind == "a class of one row":
        y = np.where(np.arange(n) == 7, 2, np.arange(n) % 2)
    elif kind == "duplicates":
        X[n // 2 :], X[:, d // 2 :] = X[: n - n // 2], X[:, : d - d // 2]
    elif kind == "ties":  # 5 copies of the largest eigenvalue, or nearly
        X[:, :5] = 0
        X[np.arange(5) * 3 % n, np.arange(5)] = 40
    elif kind == "constant columns":
        X[:, [2, 9]] = 0.1, 1e6 / 3
    elif kind == "far means":
        X[:, 4] += 1e6
    return X.astype(dtype), y


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("variant", ROWS)
@pytest.mark.parametrize(
    "kind", ["balanced", "a class of one row", "duplicates", "ties", "constant columns", "far means"]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_components_are_those_of_dense_difference_rows(shape, kind, variant, dtype):
    X, y = thinned(*shape, kind, dtype)
    S = naive.mean_outer_product(ROWS[variant](X.astype(np.float64), y))
    values, _ = naive.eigenpairs(S)
    found = MarginPCA(5, variant, solver="arpack", precision="double", passes=2).fit(scipy.sparse.csr_array(X), y)
    V, size = found.components_.T, float(np.sqrt(np.trace(S)))
    rounding = shape[0] * EPS * size * (size + np.abs(X).max())  # the twin's rows, less their mean, are good to that
    actual = np.linalg.norm(S @ V - V * found.eigenvalues_, axis=0)
    np.testing.assert_allclose(found.eigenvalues_, values[:5], rtol=1e-8, atol=rounding)
    np.testing.assert_allclose(found.residuals_, actual, atol=rounding)
    assert (actual <= 1e-4 * found.eigenvalues_).all(), "the tolerance"
    np.testing.assert_allclose(V.T @ V, np.eye(5), atol=1e-12)
    assert (found.certificate_["solver"], found.certificate_["passes"]) == ("arpack", 2), "moments, and what proves"


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("variant", ROWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_repeat_rows_and_columns_have_units(shape, variant, standardize):
    X, y = thinned(*shape, "balanced")
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    options = {"variant": variant, "solver": "arpack", "precision": "double", "standardize": standardize}
    found = MarginPCA(4, **options).fit(scipy.sparse.csr_array(X), y, sample_weight=weights)
    X, y = np.repeat(X, weights, axis=0), np.repeat(y, weights)
    S = naive.mean_outer_product(ROWS[variant](naive.standardised(X) if standardize else X, y))
    values, vectors = naive.eigenpairs(S)
    np.testing.assert_allclose(found.eigenvalues_, values[:4], rtol=1e-9)
    assert largest_angle(found.components_, vectors[:, :4]) < 1e-4


@pytest.mark.parametrize("estimator", [MarginPCA(2, "m-pca1a"), MarginPCA(2, "m-pca1b"), LOL(3), FisherDiscriminant(2)])
def test_passes_go_on_for_methods_of_other_scatters(estimator):
    X, y = thinned(120, 30, "balanced")
    expected = estimator.set_params(precision="double", solver="dense").fit(X, y).components_
    more = {"solver": "arpack", "passes": 12, "tolerance": 0.0}
    found = estimator.set_params(**more).fit(scipy.sparse.csr_array(X), y)
    assert largest_angle(found.components_, np.linalg.qr(expected.T)[0]) < 1e-6
    assert found.certificate_["passes"] > 2


def test_two_scatters_at_once_have_the_same_bits_for_any_number_of_threads():
    """And in whatever order a set gives them, which differs from process to process."""
    X, y = thinned(120, 300, "a class of one row")
    dataset = rows_in_memory(scipy.sparse.csr_array(X), y)
    bits, orders = set(), (tuple(ClassWeighting), tuple(ClassWeighting)[::-1])
    for threads, order in zip((1, 2, 3), (*orders, frozenset(ClassWeighting)), strict=True):
        needs = Needs(order, own=True, n_components=4)
        rows = Rows.of(dataset, Threads(threads), make_spans(dataset))
        found = class_statistics(rows, needs, SolverOptions("arpack"), precision="single", standardize=False)
        assert found.approximation.passes == found.weighted.approximation.passes == 2
        bits.add(b"".join(each.basis.tobytes() + each.moments.scatters.tobytes() for each in (found, found.weighted)))
    assert len(bits) == 1


def test_what_does_not_converge_goes_on_in_passes(monkeypatch):
    X, y = thinned(120, 60, "balanced")
    monkeypatch.setattr(arpack, "eigsh", lambda *a, eigsh=arpack.eigsh, **k: eigsh(*a, **k, maxiter=1))
    monkeypatch.setattr(arpack, "lanczos_vectors", lambda count, size: count + 2)
    found = MarginPCA(3, "pca", solver="arpack", passes=9, tolerance=1e-6).fit(scipy.sparse.csr_array(X), y)
    assert (found.residuals_ <= 1e-6 * found.eigenvalues_).all()
    assert found.certificate_["passes"] > 2


def test_when_it_is_chosen(tmp_path):
    d = LIMITS.dense_columns + 1
    X, y = scipy.sparse.random_array((200, d), density=0.01, format="csr", rng=0), np.arange(200) % 2
    assert MarginPCA(3).fit(X, y).certificate_["solver"] == "arpack"
    assert not hasattr(MarginPCA(3).fit(X.toarray(), y), "certificate_"), "dense rows"
    for rows, beside in ((X.toarray(), None), (X, np.arange(200.0)[:, None] ** 2)):
        with pytest.raises(InputError, match="'arpack' serves sparse rows in memory without covariates or targets"):
            MarginPCA(3, solver="arpack").fit(rows, y, covariates=beside)
    uri = write_npz(tmp_path / "rows.npz", X, y, sparse=True)
    told = run(config_of(tmp_path / "out", uri, methods=["pca", "m-pca0", "hsic"], n_components=4))
    assert told["plan"]["solver"] == "arpack" and told["reduce"]["passes"][:3] == ["sample", "moments", "apply"]
    assert told["solve"]["models"]["pca"]["certificate"]["solver"] == "arpack"
