"""Generalized discriminant analysis and orthogonal Laplacian projections equal twins in explicit features."""

import naive_kernels as naive
import numpy as np
import pandas as pd
import pytest
from helpers.tables import labelled
from scipy.linalg import subspace_angles
from scipy.sparse import csr_matrix

from mmpca_dist import FisherDiscriminant, GeneralizedDiscriminantAnalysis, OrthogonalLaplacianProjection
from mmpca_dist.errors import InputError
from mmpca_dist.models.projection_penalty.kernel.orthogonal_laplacian import orthogonal_minimisers

POLY = {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 1.0}
SHAPES = {"tall": (60, 3, 3), "square": (20, 4, 4), "wide": (12, 9, 3)}
"""Rows, columns, classes. With POLY the images have rank 9, 14 and 11, of at most 59, 19 and 11."""


def unsigned(Z):
    """Columns with the sign that makes their largest entry positive."""
    return Z * np.sign(Z[np.abs(Z).argmax(axis=0), np.arange(Z.shape[1])])


def explicit(X, directions):
    F = naive.degree_two_features(X, 0.3, 1.0)
    return (F - F.mean(axis=0)) @ directions


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shrinkage", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_discriminants_equal_those_of_explicit_features(shape, shrinkage, seed):
    X, y = labelled(*SHAPES[shape], seed=seed)
    F = naive.degree_two_features(X, 0.3, 1.0)
    n_classes = len(np.unique(y))
    model = GeneralizedDiscriminantAnalysis(shrinkage=shrinkage, **POLY).fit(X, y)
    values, directions = naive.generalized_discriminants(F, y, shrinkage, n_classes - 1)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-8)
    Z, expected = model.transform(X), explicit(X, directions)
    assert Z.shape == (len(X), n_classes - 1)
    if shape == "wide" and not shrinkage:
        # the criterion is 1 in the whole space between the classes, which has no distinguished basis
        assert subspace_angles(Z, expected).max() < 1e-5
        return
    np.testing.assert_allclose(unsigned(Z), unsigned(expected), atol=1e-6 * np.abs(expected).max())


def test_with_a_linear_kernel_they_are_fishers():
    """The same definition of shrinkage, where the images have the rank of the columns."""
    X, y = labelled(80, 5, 3, seed=3)
    for shrinkage in (1e-3, 0.5):
        Z = GeneralizedDiscriminantAnalysis(kernel="linear", shrinkage=shrinkage).fit(X, y).transform(X)
        fisher = FisherDiscriminant(shrinkage=shrinkage, precision="double", center=True).fit(X, y)
        expected = fisher.transform(X) / np.linalg.norm(fisher.components_, axis=1)
        np.testing.assert_allclose(unsigned(Z), unsigned(expected), atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
def test_as_many_rows_as_images_have_dimensions_are_projected_onto_a_point_a_class(kernel):
    X, y = labelled(20, 30, 4, seed=4)
    model = GeneralizedDiscriminantAnalysis(kernel=kernel).fit(X, y)
    np.testing.assert_allclose(model.eigenvalues_, 1, atol=1e-9)
    Z = model.transform(X)
    spread = max(np.ptp(Z[y == c], axis=0).max() for c in np.unique(y))
    assert spread < 1e-6 * np.ptp(Z, axis=0).max()
    assert np.linalg.matrix_rank(Z, 1e-6) == 3


@pytest.mark.parametrize("model", [GeneralizedDiscriminantAnalysis(**POLY), OrthogonalLaplacianProjection(**POLY)])
@pytest.mark.parametrize("shape", SHAPES)
def test_directions_have_unit_length_in_the_space_of_the_kernel(model, shape):
    X, y = labelled(*SHAPES[shape], seed=5)
    model.fit(X, y)
    F = naive.degree_two_features(X, 0.3, 1.0)
    directions = model.dual_coef_ @ (F - F.mean(axis=0))
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, atol=1e-8)
    np.testing.assert_allclose(explicit(X, directions.T), model.transform(X), atol=1e-9 * np.abs(F).max())


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shape", ["tall", "square"])
def test_laplacian_projections_equal_the_iteration_of_the_paper(shape, seed):
    X, y = labelled(*SHAPES[shape], seed=seed)
    S = naive.class_graph(y)
    for options, F in ((POLY, naive.degree_two_features(X, 0.3, 1.0)), ({"kernel": "linear"}, X)):
        model = OrthogonalLaplacianProjection(3, **options).fit(X, y)
        directions = naive.orthogonal_laplacian(F, S, 3)
        expected = (F - F.mean(axis=0)) @ directions
        np.testing.assert_allclose(unsigned(model.transform(X)), unsigned(expected), atol=1e-5 * np.abs(expected).max())
        assert (np.diff(model.eigenvalues_) > 0).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_with_few_rows_laplacian_projections_span_what_has_no_spread_within_classes(seed):
    """All solve the problem equally well: the criterion is 0, as for the first of the iteration of the paper."""
    X, y = labelled(12, 30, 3, seed=seed)
    model = OrthogonalLaplacianProjection().fit(X, y)
    np.testing.assert_allclose(model.eigenvalues_, 0, atol=1e-12)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)
    Z = model.transform(X)
    assert max(np.ptp(Z[y == c], axis=0).max() for c in range(3)) < 1e-8 * np.ptp(Z, axis=0).max()
    F = X - X.mean(axis=0)
    B, W = naive.scatters(F, y)
    basis = naive.span(F)
    null = basis @ np.linalg.svd(basis.T @ W @ basis)[0][:, -2:]
    assert subspace_angles(model.components_.T, null).max() < 1e-6
    np.testing.assert_allclose(np.trace(model.components_ @ B @ model.components_.T), np.trace(null.T @ B @ null))


def test_classes_that_are_points_end_the_search():
    """Rounding makes the criterion of one direction negative, and that of all: -4e-16 once kept it from being a tie."""
    ratios, vectors = orthogonal_minimisers(-4e-16 * np.eye(3), 44 * np.eye(3), np.diag([1.0, 3.0, 2.0]), 2)
    np.testing.assert_array_equal(ratios, 0)
    np.testing.assert_allclose(np.abs(vectors), np.eye(3)[:, [1, 2]], atol=1e-12)


def test_where_criteria_are_equal_both_reductions_find_the_same_features():
    X, y = labelled(15, 40, 5, seed=6)
    Z, other = (kind(**POLY).fit(X, y).transform(X) for kind in REDUCERS)
    np.testing.assert_allclose(unsigned(Z), unsigned(other), atol=1e-6 * np.abs(Z).max())


REDUCERS = (GeneralizedDiscriminantAnalysis, OrthogonalLaplacianProjection)


def test_a_share_of_the_variance_drops_principal_coordinates():
    X, y = labelled(60, 6, 3, seed=7)
    X = X * np.asarray([100, 50, 10, 1, 0.1, 0.01])
    share = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:2] ** 2
    share = share.sum() / ((X - X.mean(axis=0)) ** 2).sum()
    model = OrthogonalLaplacianProjection(variance_share=share - 1e-9).fit(X, y)
    principal = np.linalg.svd(X - X.mean(axis=0))[2][:2]
    assert subspace_angles(model.components_.T, principal.T).max() < 1e-6
    with pytest.raises(InputError, match="n_components=3 is more than the 2"):
        OrthogonalLaplacianProjection(3, variance_share=share - 1e-9).fit(X, y)


@pytest.mark.parametrize("kind", REDUCERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "cosine"])
def test_rows_of_other_types_and_a_singular_kernel(kind, kernel):
    """Rows that occur twice, a constant column, single precision, sparse rows, frames."""
    X, y = labelled(30, 5, 3, seed=8)
    X = np.concatenate([X, X]).astype(np.float32)
    X[:, 2] = 3
    y = np.concatenate([y, y])
    expected = kind(kernel=kernel).fit(X.astype(np.float64), y).transform(X.astype(np.float64))
    np.testing.assert_allclose(expected[:30], expected[30:], atol=1e-9)
    for rows in (X, csr_matrix(X), pd.DataFrame(X, columns=list("abcde"))):
        found = kind(kernel=kernel).fit(rows, y).transform(rows)
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    found = kind(kernel=kernel).fit(X, y).transform(csr_matrix(X))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", REDUCERS)
def test_rounding_errors_of_a_large_mean_are_no_directions(kind):
    """Values of this function lose digits to the mean, which it does not subtract; its images have rank 3."""
    X, y = labelled(40, 3, 3, seed=9)
    X = np.round(X * 1024) / 1024
    near = kind(kernel="linear").fit(X, y)
    with pytest.warns(UserWarning, match="rounding errors count"):
        far = kind(kernel=lambda A, B: A @ B.T).fit(X + 2.0**20, y)
    scale = np.abs(near.transform(X)).max()
    np.testing.assert_allclose(far.transform(X + 2.0**20), near.transform(X), atol=1e-2 * scale)


def test_components_are_there_with_a_linear_kernel_only():
    X, y = labelled(40, 4, 3, seed=10)
    model = OrthogonalLaplacianProjection().fit(X, y)
    np.testing.assert_allclose(model.transform(X), (X - X.mean(axis=0)) @ model.components_.T, atol=1e-10)
    sparse = OrthogonalLaplacianProjection().fit(csr_matrix(X), y)
    np.testing.assert_allclose(sparse.components_, model.components_, atol=1e-8)
    assert not hasattr(model.set_params(kernel="rbf").fit(X, y), "components_")


def test_names_of_features():
    X, y = labelled(20, 4, 3, seed=13)
    frame = GeneralizedDiscriminantAnalysis().set_output(transform="pandas").fit(X, y).transform(X)
    assert frame.columns.tolist() == ["generalizeddiscriminantanalysis0", "generalizeddiscriminantanalysis1"]
