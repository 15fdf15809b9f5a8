"""Runs on published data sets, in double precision, against the twins: subspaces within a millionth of a degree."""

import naive
import numpy as np
import pytest
import scipy.linalg
from helpers.ingested import ingest
from helpers.samples import SCATTERS, largest_angle
from helpers.tables import config_of, write_npz

from mmpca_dist import FisherDiscriminant, load_model, run

pytestmark = pytest.mark.usefixtures("no_report")

CHECKED = [*SCATTERS, "hsic", "lol", "fisher"]
LIMIT = np.deg2rad(1e-6)
K = 8


def run_on(uri, output, **changes):
    run(config_of(output, uri, methods=CHECKED, n_components=K, **changes))
    return {method: load_model(str(output), method) for method in CHECKED}


def assert_same_subspaces(components, vectors, values, floor):
    """Compare every prefix whose gap leaves less than the limit to rounding; there must be one.

    ``floor`` is what rounding may do to the matrix, in norm: 100 eps of its trace, on either side.
    """
    checked = 0
    for k in range(1, len(components) + 1):
        following = values[k] if k < len(values) else 0.0
        if 2 * floor / (values[k - 1] - following + 1e-300) < LIMIT:
            assert largest_angle(components[:k], vectors[:, :k]) < LIMIT
            checked += 1
    assert checked > 0, "no prefix has a gap that permits the comparison"


def leading(rows):
    """Eigenpairs of the mean outer product of difference rows, without forming it: it may be 3571 x 3571."""
    _, singular, right = np.linalg.svd(np.asarray(rows) / np.sqrt(len(rows)), full_matrices=False)
    return singular**2, right.T


def assert_all_methods(models, X, y):
    eps = np.finfo(float).eps
    for method in SCATTERS:
        values, vectors = leading(naive.ROWS[method](X, y))
        assert_same_subspaces(models[method].components_, vectors, values, 100 * eps * values.sum())
    root = leading_hsic(X, y)
    assert_same_subspaces(models["hsic"].components_, root[1], root[0], 100 * eps * root[0].sum())
    difference = np.subtract(*(X[y == label].mean(axis=0) for label in sorted(set(y))))  # of two classes
    assert largest_angle(models["lol"].components_[:1], difference[:, None] / np.linalg.norm(difference)) < LIMIT
    assert_fisher(models["fisher"], X, y)


def leading_hsic(X, y):
    """Eigenpairs of X^T H L H X by its root, the class sums of the centred rows (delta kernel)."""
    centred = X - X.mean(axis=0)
    sums = np.stack([centred[y == label].sum(axis=0) for label in sorted(set(y))])
    _, singular, right = np.linalg.svd(sums, full_matrices=False)
    return singular**2, right.T


def assert_fisher(model, X, y):
    """Each direction solves B v = l W_g v with v^T W_g v = 1, to rounding amplified by the condition of W_g."""
    n, d = X.shape
    mean = X.mean(axis=0)
    parts = [X[y == label] for label in sorted(set(y))]
    within = np.concatenate([part - part.mean(axis=0) for part in parts])
    between = np.stack([np.sqrt(len(part)) * (part.mean(axis=0) - mean) for part in parts])
    g, trace = FisherDiscriminant().shrinkage, np.sum(within**2)
    for v, value in zip(model.components_, model.eigenvalues_, strict=True):
        left = between.T @ (between @ v) / n
        right = (1 - g) * within.T @ (within @ v) / n + g * trace / (n * d) * v
        assert np.linalg.norm(left - value * right) < 1e-8 * np.linalg.norm(left)
        np.testing.assert_allclose(v @ right, 1, rtol=1e-8)


@pytest.mark.parametrize("name", ["ionosphere_raw", pytest.param("colon", marks=pytest.mark.e2e)])
def test_parquet_tables_whole(real_data, real_path, tmp_path, name):
    X, y = real_data(name)
    models = run_on(real_path(f"{name}.parquet"), tmp_path / "out")
    assert_all_methods(models, X.astype(float), y)


@pytest.mark.slow
def test_leukemia_through_ingest(real_data, real_path, tmp_path):
    """72 rows of 3,571 columns stored column by column, solved in the span of the rows."""
    X, y = real_data("leukemia")
    ingest(real_path("leukemia.npz"), tmp_path / "leukemia.zarr")
    models = run_on(tmp_path / "leukemia.zarr", tmp_path / "out")
    assert_all_methods(models, X.astype(float), y)


def test_mushrooms_against_the_twins_on_a_part_and_the_structure_on_all(real_data, real_path, tmp_path):
    """Binary rows full of ties."""
    X, y = real_data("mushrooms")
    part = np.arange(0, len(X), 27)
    few = write_npz(tmp_path / "part.npz", X[part], y[part])
    assert_all_methods(run_on(few, tmp_path / "out"), X[part].astype(float), y[part])
    assert_structure(run_on(real_path("mushrooms.parquet"), tmp_path / "all"), X.astype(float), y)


@pytest.mark.slow
def test_mnist_against_the_twins_on_2000_rows_and_the_structure_on_all(real_data, real_path, tmp_path):
    """Ten classes, 784 columns of bytes, some of them constant."""
    X, y = real_data("mnist")
    part = np.arange(0, len(X), 35)
    models = run_on(write_npz(tmp_path / "part.npz", X[part], y[part]), tmp_path / "out")
    rows, labels = X[part].astype(float), y[part]
    eps = np.finfo(float).eps
    for method in SCATTERS:
        S = all_pairs(rows, labels) if method == "m-pca0" else gram(naive.ROWS[method](rows, labels))
        values, vectors = naive.eigenpairs(S)
        assert_same_subspaces(models[method].components_, vectors, values, 100 * eps * np.trace(S))
    ingest(real_path("mnist.npz"), tmp_path / "mnist.zarr", image_shape=(28, 28))
    assert_structure(run_on(tmp_path / "mnist.zarr", tmp_path / "all"), X.astype(float), y)


def gram(rows):
    rows = np.asarray(rows)
    return rows.T @ rows / len(rows)


def all_pairs(X, y):
    """The M-PCA0 scatter of 1.8 million differences, taken row by row."""
    total, pairs = np.zeros((X.shape[1], X.shape[1])), 0
    for x, own in zip(X, y, strict=True):
        differences = X[y != own] - x
        total += differences.T @ differences
        pairs += len(differences)
    return total / pairs


def assert_structure(models, X, y):
    """Compare with the scatters written out from class moments of the whole table in float64."""
    labels, n, eps = sorted(set(y)), len(X), np.finfo(float).eps
    parts = {c: X[y == c] for c in labels}
    G = {c: (p - p.mean(axis=0)).T @ (p - p.mean(axis=0)) for c, p in parts.items()}
    size = {c: len(p) for c, p in parts.items()}
    S = {name: np.zeros((X.shape[1], X.shape[1])) for name in SCATTERS}
    for c in labels:
        rest = X[y != c]
        offsets = {"pca": X.mean(axis=0), "m-pca1a": rest.mean(axis=0), "m-pca1b": np.median(rest, axis=0)}
        for name, centre in offsets.items():
            offset = parts[c].mean(axis=0) - centre
            S[name] += (G[c] + size[c] * np.outer(offset, offset)) / n
        offset = parts[c].mean(axis=0) - X.mean(axis=0)
        S["m-pca0"] += ((n - size[c]) * G[c] + n * size[c] * np.outer(offset, offset)) / (
            (n**2 - sum(s**2 for s in size.values())) / 2
        )
    for name, matrix in S.items():
        values, vectors = scipy.linalg.eigh(matrix)
        values, vectors = values[::-1], vectors[:, ::-1]
        assert_same_subspaces(models[name].components_, vectors, values, 100 * eps * np.trace(matrix))
        np.testing.assert_allclose(models[name].eigenvalues_, values[:K], rtol=1e-9)
    assert_fisher(models["fisher"], X, y)
