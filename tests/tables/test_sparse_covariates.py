"""Covariates of sparse rows: solvers in passes remove them from vectors, and no dense unit of rows is made."""

import numpy as np
import pytest
import scipy.sparse
import zarr
from helpers.evaluating import by_cell, scored
from helpers.moment_reducers import REDUCERS
from helpers.runs import through
from helpers.samples import on_dense
from helpers.tables import config_of, labelled, write_csr, write_zarr

from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.scatter_operator import Block, ScatterOperator
from mmpca_dist.statistics.widened_rows import adjustment_from_pass, widened
from mmpca_dist.tables.covariates import given_covariates
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted, with_covariates
from mmpca_dist.tables.spans import spans_of

PASSES = {"solver": "krylov", "passes": 12, "tolerance": 0}


def rows(n, d, q, dtype="f8", seed=1):
    """Return rows, most of whose values are zero, their labels, and covariates that go with both."""
    X, y = labelled(n, d, 3, seed=seed)
    y[:6] = [0, 1, 2] * 2
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.random(n) < 0.3 + 0.2 * y, 40 + 5 * y + 10 * rng.random(n), rng.standard_normal(n)])[:, :q]
    X = (X + Z @ rng.normal(0, 0.5, (q, d))) * (rng.random((n, d)) < 0.3)
    X[:, 1] = 1000 + rng.standard_normal(n)  # stored in all rows, far from zero
    X[:, 2] = np.where(rng.random(n) < 0.1, 0, 50 + Z[:, 0])  # in most
    return X.astype(dtype), y, Z


def removed(X, y, Z, w):
    """Regress the rows on classes and covariates by least squares, and subtract what the covariates explain."""
    design = np.column_stack([(y[:, None] == np.unique(y)).astype(float), Z])
    roots = np.sqrt(w)[:, None]
    coef = np.linalg.lstsq(roots * design, roots * X, rcond=None)[0][3:]
    return X - (Z - np.average(Z, axis=0, weights=w)) @ coef


def never_dense(monkeypatch):
    """Let reading of dense rows fail, of sparse ones and of those with covariates."""

    def refuse(_):
        raise AssertionError("a dense unit was read")

    on_dense(monkeypatch, refuse)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(("n", "d", "q"), [(200, 12, 1), (200, 12, 3), (60, 90, 3)])
def test_scatters_are_those_of_residuals(n, d, q, weights, dtype, monkeypatch):
    never_dense(monkeypatch)
    X, y, Z = rows(n, d, q, dtype)
    w = np.random.default_rng(3).uniform(0.1, 3, n) if weights else np.ones(n)
    dataset = widened(with_covariates(rows_in_memory(scipy.sparse.csr_array(X), y, "X"), given_covariates(Z, n)))
    dataset = weighted(dataset, w) if weights else dataset
    found = Rows.of(dataset, Threads(1), spans_of(np.asarray([0, 17, n // 2, n])))
    centres = np.random.default_rng(4).normal(0, 3, (3, d + q)) + np.append(X.mean(axis=0), np.zeros(q))
    operator = ScatterOperator(found, centres, np.dtype("f8"), adjustment=adjustment_from_pass(found))
    V = removed(X.astype(float), y, Z, w)
    vectors = np.random.default_rng(5).standard_normal((d, 4))
    factors = np.asarray([1.0, 0.5, 2.0])
    means = np.stack([np.average(V[y == label], axis=0, weights=w[y == label]) for label in range(3)])
    near = V - means[y]
    squares = np.stack([w[y == label] @ near[y == label] ** 2 for label in range(3)])
    expected = near.T @ ((w * factors[y])[:, None] * (near @ vectors))
    size = np.sqrt(factors @ squares)[:, None] * np.sqrt(factors @ squares @ vectors**2)
    for _ in range(2):  # the first pass takes means and squares, too
        (image,) = operator.apply([Block(factors, vectors)])
        assert (np.abs(image - expected) <= 1e-9 * size).all()
    np.testing.assert_allclose(operator.means, means, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operator.squares, squares, rtol=1e-9)
    assert operator.trace(factors) == pytest.approx(float(np.sum(factors @ squares)), rel=1e-9)


@pytest.mark.parametrize("method", ["pca", "m-pca0", "lol"])
@pytest.mark.parametrize(("n", "d", "q"), [(300, 30, 1), (300, 30, 3), (60, 90, 3)])
def test_fits_are_those_of_dense_rows(n, d, q, method, monkeypatch):
    X, y, Z = rows(n, d, q, "f4")
    w = np.random.default_rng(3).integers(0, 4, n)
    for changes, weights in (({}, None), ({"standardize": True}, w), ({"center": True}, w)):
        settings = {**PASSES, **changes, "n_components": 2}
        expected = REDUCERS[method]().set_params(**settings).fit(X, y, sample_weight=weights, covariates=Z)
        with monkeypatch.context() as patch:
            never_dense(patch)
            found = REDUCERS[method]().set_params(**settings)
            found.fit(scipy.sparse.csr_array(X), y, sample_weight=weights, covariates=Z)
            reduced = found.transform(scipy.sparse.csr_array(X), Z)
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
        np.testing.assert_allclose(np.abs(found.components_ @ expected.components_.T), np.eye(2), atol=1e-9)
        np.testing.assert_allclose(found.mean_, expected.mean_, rtol=1e-9)
        size = np.abs(reduced).max()
        np.testing.assert_allclose(np.abs(reduced), np.abs(expected.transform(X, Z)), atol=1e-5 * size)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("standardize", [pytest.param(False, marks=pytest.mark.e2e), True])
def test_runs_and_evaluations(standardize, tmp_path, monkeypatch):
    X, y, Z = rows(200, 30, 2)
    S = scipy.sparse.csr_array(X)
    uris = tmp_path / "csr.zarr", tmp_path / "dense.zarr"
    write_csr(uris[0], (S.data, S.indices, S.indptr), S.shape, labels=y)
    write_zarr(uris[1], X, y, 30)
    for uri in uris:
        for name, column in zip(("batch", "age"), Z.T, strict=True):
            zarr.open_group(str(uri)).create_array(name, data=column)
    methods = ["pca", "m-pca0"]
    settings = {
        "dataset": {"covariates": ["batch", "age"]}, "methods": methods, "standardize": standardize, "precision": None,
        "solver": {"kind": "krylov", "passes": 12, "tolerance": 0},
        "evaluation": {"classifiers": ["lda", "svm"], "margins": False},
    }  # fmt: skip

    def everything(uri):
        folder, new = tmp_path / f"run-{uri.name}", tmp_path / f"new-{uri.stem}"
        run(config_of(folder, uri, **settings))
        cells = by_cell(scored(config_of(tmp_path / f"evaluation-{uri.name}", uri, **settings))[0])
        through(folder, uri, new)
        outputs = [f"{base}/projected/{method}.zarr" for base in (folder, new) for method in methods]
        return folder, cells, [open_dataset(output).read_rows(0, 200) for output in outputs]

    folder, expected, projected = everything(uris[1])
    with monkeypatch.context() as patch:
        never_dense(patch)
        own, cells, found = everything(uris[0])
    assert cells == expected
    np.testing.assert_allclose(np.abs(found), np.abs(projected), atol=1e-8 * np.abs(projected).max())
    for method in methods:
        one, other = load_model(str(own), method), load_model(str(folder), method)
        np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=1e-9)
