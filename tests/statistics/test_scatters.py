"""The table of methods: weighted sums of class scatters equal the papers' difference rows, one by one."""

import naive
import numpy as np
import pytest
from helpers.samples import SCATTERS, angle_bound, even_edges, largest_angle, take
from helpers.tables import labelled

from mmpca_dist import FisherDiscriminant, MarginPCA
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.methods.margin_pca import margin_scatter
from mmpca_dist.statistics.medians import PAIRINGS, by_pairing, median_sets
from mmpca_dist.statistics.row_space import wide_statistics
from mmpca_dist.statistics.scatters import pooled_weights
from mmpca_dist.statistics.working_statistics import tall_statistics
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.readers.memory import rows_in_memory

EPS = np.finfo(np.float64).eps


def dense(X, y, method, pairing, **options):
    sets = median_sets(len(np.unique(y)), pairing) if method == "m-pca1b" else None
    moments, medians = take(X, y, edges=even_edges(len(X), 17), medians_of=sets, **options)
    return margin_scatter(method, moments, medians, pairing).dense(moments)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("method", SCATTERS)
def test_every_scatter_is_the_mean_outer_product_of_the_rows_of_its_paper(method, pairing, n_classes):
    """Both sums have fewer than n^2 terms of size trace(S): n eps trace(S) is generous for either order."""
    X, y = labelled(53, 5, n_classes, seed=n_classes)
    expected = naive.mean_outer_product(naive.ROWS[method](X, y, pairing))
    tolerance = len(X) * EPS * np.trace(expected)
    np.testing.assert_allclose(dense(X, y, method, pairing), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", ["pca", "m-pca0", "m-pca1a"])
def test_rows_with_a_class_of_one_row(method):
    X, y = labelled(30, 4, 2, seed=6)
    y = np.append(np.zeros(29, int), 1)
    expected = naive.mean_outer_product(naive.ROWS[method](X, y))
    np.testing.assert_allclose(dense(X, y, method, "one-vs-rest"), expected, rtol=0, atol=30 * EPS * np.trace(expected))


@pytest.mark.parametrize("method", ["pca", "m-pca0"])
def test_pairing_is_no_matter_for_pca_and_all_pairs(method):
    X, y = labelled(40, 4, 3, seed=7)
    np.testing.assert_array_equal(dense(X, y, method, "one-vs-one"), dense(X, y, method, "one-vs-rest"))


@pytest.mark.parametrize("method", ["m-pca1a", "m-pca1b"])
def test_pairing_matters_for_many_classes_only(method):
    for n_classes, same in ((2, True), (3, False)):
        X, y = labelled(40, 4, n_classes, seed=8)
        one, rest = dense(X, y, method, "one-vs-one"), dense(X, y, method, "one-vs-rest")
        assert np.allclose(one, rest, rtol=1e-12) is same


@pytest.mark.parametrize("method", SCATTERS)
def test_a_class_without_rows_changes_nothing(method):
    X, y = labelled(40, 4, 3, seed=9)
    moments, _ = take(X, y)
    wider, _ = take(X, y, classes=np.arange(5))
    for pairing in PAIRINGS:
        plain = np.zeros((3, 4)) if method == "m-pca1b" else None
        padded = np.zeros((5, 4)) if method == "m-pca1b" else None
        found = margin_scatter(method, wider, padded, pairing).dense(wider)
        expected = margin_scatter(method, moments, plain, pairing).dense(moments)
        np.testing.assert_allclose(found, expected, rtol=0, atol=40 * EPS * np.trace(expected))


@pytest.mark.parametrize("method", SCATTERS)
def test_two_pooled_scatters_serve_every_method(method):
    X, y = labelled(60, 4, 3, seed=10)
    separate = dense(X, y, method, "one-vs-rest")
    pooled = dense(X, y, method, "one-vs-rest", weights=pooled_weights(np.bincount(y)))
    np.testing.assert_allclose(pooled, separate, rtol=0, atol=60 * EPS * np.trace(separate))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_hsic_from_class_means_is_the_product_with_n_by_n_matrices(n_classes):
    X, y = labelled(45, 4, n_classes, seed=11)
    moments, _ = take(X, y)
    A = moments.deviations * moments.counts[:, None]
    kernels = {"delta": lambda a, b: a == b, "linear": lambda a, b: a * b, "matrix": lambda a, b: np.exp(-abs(a - b))}
    for kernel in kernels.values():
        K = np.asarray([[float(kernel(a, b)) for b in range(n_classes)] for a in range(n_classes)])
        expected = naive.hsic_matrix(X, y, kernel)
        np.testing.assert_allclose(A.T @ K @ A, expected, rtol=0, atol=45**2 * EPS * np.trace(expected))


WIDE = [
    (name, p)
    for name, method in METHODS.items()
    for needs in [method.reducer(None, method.options()).needs()]
    for p in (PAIRINGS if name in ("m-pca1a", "m-pca1b") else PAIRINGS[:1])
    if method.reduces and not (needs.searches or needs.swept)
]


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(("name", "pairing"), WIDE)
@pytest.mark.parametrize("shape", [(14, 30), (20, 21)])
def test_few_rows_of_many_columns_give_the_components_of_the_d_by_d_way(name, pairing, shape, standardize):
    """The detour by the span of the rows is exact: every scatter maps that span into itself."""
    X, y = labelled(*shape, 3, seed=12)
    X[:, 2] = 5.0
    pairings = (pairing,) if name == "m-pca1b" else ()
    moments, medians = take(X, y, medians_of=median_sets(3, *pairings))
    given = {"pairing": pairing, "shrinkage": 1e-3}  # without it, contrasts divide by the smallest eigenvalue of W
    options = METHODS[name].options(**{key: given[key] for key in given if key in METHODS[name].options.model_fields})
    tall = tall_statistics(moments, by_pairing(medians, pairings), precision="double", standardize=standardize)
    rows = Batch.of_arrays(X, rows_in_memory(X), label=y)
    wide = wide_statistics(rows, np.arange(3), pairings=pairings, standardize=standardize, columns=True)
    assert wide.basis is not None
    assert tall.basis is None
    # Fisher's problem divides by W, whose smallest eigenvalues are shrinkage * trace / d: errors grow by 1e3 d.
    amplified = 1e3 * shape[1] if name in ("fisher", "contrast") else 1.0
    K = 2
    settings = {"standardize": standardize, "precision": "double"}
    expected, found = (METHODS[name].reducer(K, options, **settings).fit_statistics(s) for s in (tall, wide))
    assert found.components_.shape == (K, shape[1])
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-11 * amplified)
    tolerance = 1e-9 * amplified
    np.testing.assert_allclose(
        found.components_, expected.components_, rtol=0, atol=tolerance * np.abs(expected.components_).max()
    )


def test_the_d_by_d_way_itself_is_the_naive_one():
    """Anchors the comparison above: the tall way equals the difference rows."""
    X, y = labelled(60, 6, 3, seed=13)
    moments, medians = take(X, y, medians_of=median_sets(3, "one-vs-rest"))
    statistics = tall_statistics(moments, {"one-vs-rest": medians}, precision="double")
    for name in SCATTERS:
        S = naive.mean_outer_product(naive.ROWS[name](X, y))
        values, vectors = naive.eigenpairs(S)
        found = MarginPCA(3, variant=name)._solve(statistics)
        np.testing.assert_allclose(found.eigenvalues, values[:3], rtol=1e-12)
        bound = angle_bound(S, 3, 60 * EPS * np.trace(S))
        assert largest_angle(found.components, vectors[:, :3]) <= bound


def test_at_most_the_rank_that_the_structure_allows():
    X, y = labelled(12, 30, 3, seed=14)
    moments, medians = take(X, y, medians_of=median_sets(3, "one-vs-rest"))
    for name in SCATTERS:
        scatter = margin_scatter(name, moments, medians)
        rank = np.linalg.matrix_rank(scatter.dense(moments), hermitian=True)
        assert rank == scatter.max_rank == (12 if name == "m-pca1b" else 11)


def test_what_cannot_be_computed_is_refused():
    X, y = labelled(20, 3, 2, seed=15)
    moments, _ = take(X, y)
    with pytest.raises(InputError, match="needs the medians"):
        margin_scatter("m-pca1b", moments)
    alone, _ = take(X, np.zeros(20, int), classes=[0, 1])
    for name in SCATTERS:
        if name != "pca":
            with pytest.raises(InputError, match="only 1 class"):
                margin_scatter(name, alone, np.zeros((2, 3)))
    np.testing.assert_allclose(margin_scatter("pca", alone).dense(alone), np.cov(X.T, bias=True))
    repeated, _ = take(np.repeat(X[:2], 10, axis=0), np.repeat([0, 1], 10))
    with pytest.raises(InputError, match="all equal"):
        FisherDiscriminant(1)._solve(tall_statistics(repeated, None, precision="double"))
