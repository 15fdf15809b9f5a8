"""The estimators find the components of the papers, and no others; rows go through them, and back."""

import dask.array as da
import naive
import numpy as np
import pytest
from helpers.estimators import ALL, UNITS, make
from helpers.samples import SCATTERS, angle_bound, largest_angle
from helpers.tables import labelled
from helpers.watching import watched
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from mmpca_dist import (
    LOL,
    PLS,
    FisherDiscriminant,
    MarginPCA,
    RandomProjection,
    RidgeDirections,
    SupervisedPCA,
    class_moments,
)
from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.methods.margin_pca import VARIANTS
from mmpca_dist.results.notes import method_notes
from mmpca_dist.statistics import from_rows, row_space
from mmpca_dist.statistics.medians import PAIRINGS


def assert_leading(reducer, S, n_rows, precision):
    """Components span the leading eigenspace of S, for every prefix whose gap the precision resolves."""
    error = n_rows * UNITS[precision] * np.trace(S)  # n terms, each rounded relative to at most the trace
    values, vectors = naive.eigenpairs(S)
    K = len(reducer.components_)
    np.testing.assert_allclose(reducer.eigenvalues_, values[:K], rtol=0, atol=error)
    for k in range(1, K + 1):
        angle = largest_angle(reducer.components_[:k], vectors[:, :k])
        assert angle <= angle_bound(S, k, error)
    np.testing.assert_allclose(reducer.components_ @ reducer.components_.T, np.eye(K), atol=1e-12)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_margin_components_are_eigenvectors_of_the_difference_rows(variant, pairing, n_classes, precision):
    X, y = labelled(70, 6, n_classes, seed=1)
    S = naive.mean_outer_product(naive.ROWS[variant](X, y, pairing))
    reducer = MarginPCA(3, variant, pairing=pairing, precision=precision).fit(X, y)
    assert_leading(reducer, S, len(X), precision)
    np.testing.assert_allclose(reducer.total_, np.trace(S), rtol=100 * UNITS[precision])


@pytest.mark.parametrize("shrinkage", [1e-3, 0.2, 0.0])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_fisher_directions_solve_the_generalised_problem(n_classes, shrinkage):
    X, y = labelled(90, 5, n_classes, seed=2)
    reducer = FisherDiscriminant(shrinkage=shrinkage, precision="double").fit(X, y)
    assert reducer.components_.shape == (n_classes - 1, 5)
    values, vectors = naive.fisher(X, y, shrinkage, n_classes - 1)
    # inv(W) B is not symmetric: its eigenvectors lose the condition of W (here below 1e3) over the gaps (above 1e-2)
    np.testing.assert_allclose(reducer.eigenvalues_, values, rtol=1e-9)
    for found, expected in zip(reducer.components_, vectors.T, strict=True):
        np.testing.assert_allclose(found, expected * np.sign(found @ expected), rtol=0, atol=1e-8 * np.abs(found).max())
    _, W = naive.fisher_matrices(X, y, shrinkage)
    np.testing.assert_allclose(reducer.components_ @ W @ reducer.components_.T, np.eye(n_classes - 1), atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_supervised_pca_finds_the_eigenvectors_of_the_hsic_matrix(n_classes):
    X, y = labelled(60, 5, n_classes, seed=3)
    matrix = np.exp(-np.abs(np.subtract.outer(np.arange(n_classes), np.arange(n_classes))))
    kernels = {"delta": lambda a, b: a == b, "linear": lambda a, b: a * b, "matrix": lambda a, b: matrix[a, b]}
    for name, kernel in kernels.items():
        S = naive.hsic_matrix(X, y, kernel)
        k = 1 if name == "linear" else n_classes - 1
        option = matrix if name == "matrix" else name
        reducer = SupervisedPCA(k, kernel=option, precision="double").fit(X, y)
        assert_leading(reducer, S, len(X), "double")


@pytest.mark.parametrize("n_classes", [2, 4])
def test_lol_is_mean_differences_then_scatter_within(n_classes):
    X, y = labelled(80, 6, n_classes, seed=4)
    reducer = LOL(5, precision="double").fit(X, y)
    expected = naive.lol(X, y, 5)
    for k in range(1, 6):
        assert largest_angle(reducer.components_[:k], expected[:, :k]) < 1e-9  # gaps are above 1e-2 of the trace
    np.testing.assert_allclose(reducer.components_ @ reducer.components_.T, np.eye(5), atol=1e-12)


@pytest.mark.parametrize("shape", [(120, 5), (12, 40)])
def test_pca_is_that_of_scikit_learn(shape):
    X, y = labelled(*shape, 2, seed=5)
    ours = MarginPCA(3, "pca", center=True, precision="double").fit(X, y)
    theirs = PCA(3, svd_solver="full").fit(X)
    bound = angle_bound(np.cov(X.T), 3, len(X) * UNITS["double"] * np.trace(np.cov(X.T)))
    assert largest_angle(ours.components_, theirs.components_.T) <= bound
    # scikit-learn divides by n - 1
    np.testing.assert_allclose(ours.eigenvalues_ * len(X) / (len(X) - 1), theirs.explained_variance_, rtol=1e-12)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(X)), theirs.inverse_transform(theirs.transform(X)), atol=1e-11
    )


@pytest.mark.parametrize("name", ALL)
def test_the_largest_loading_is_positive(name):
    """Also when the rows are mirrored, which would turn every sign."""
    X, y = labelled(60, 5, 3, seed=6)
    for rows in (X, -X):
        components = make(name, n_components=2).fit(rows, y).components_
        largest = np.abs(components).argmax(axis=1)
        assert (components[np.arange(2), largest] > 0).all()


OF_SCATTERS = [name for name in ALL if name not in ("lasso", "fisher-score", "random-projection")]
"""The methods whose components span no more than the rows do."""
MAX_COMPONENTS = {
    "pca": (11, "n_samples - 1"), "m-pca0": (11, "n_samples - 1"), "m-pca1a": (11, "n_samples - 1"),
    "m-pca1b": (12, "n_samples"), "m-pca2": (11, "pairs"), "fisher": (2, "classes less one"),
    "hsic": (2, "classes less one"), "lol": (11, "n_samples - 1"), "pls": (11, "n_samples - 1"),
    "ridge": (2, "classes less one"), "fisher-score": (20, "differ between the class means"),
    "random-projection": (20, "number of columns"),
}  # fmt: skip


@pytest.mark.parametrize("name", MAX_COMPONENTS)
def test_more_components_than_the_rank_are_refused_by_the_name_of_the_limit(name):
    X, y = labelled(12, 20, 3, seed=7)
    rank, limit = MAX_COMPONENTS[name]
    assert make(name, n_components=rank).fit(X, y).components_.shape == (rank, 20)
    with pytest.raises(InputError, match=f"n_components={rank + 1} is more than the {rank} .*{limit}"):
        make(name, n_components=rank + 1).fit(X, y)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", OF_SCATTERS)
def test_null_vectors_are_never_returned(name, precision):
    """Columns that repeat others or are constant: by default as many components as there are directions."""
    X, y = labelled(80, 3, 3, seed=8)
    X = np.column_stack([X, X[:, 0], X @ [1.0, 2.0, -1.0], np.full(80, 4.0)])
    reducer = make(name, n_components=None, precision=precision).fit(X, y)
    rank = 2 if name in ("fisher", "hsic", "ridge") else 4 if name == "m-pca1b" else 3
    if name == "m-pca1b":  # the median of a sum is not the sum of the medians, which adds a direction
        assert reducer.eigenvalues_[-1] < reducer.eigenvalues_[0]
    assert reducer.components_.shape == (rank, 6)
    null = np.asarray([[1, 0, 0, -1, 0, 0], [0, 0, 0, 0, 0, 1.0]])
    assert np.abs(null @ reducer.components_.T).max() < 1e-3
    assert (reducer.eigenvalues_ > UNITS[precision] * reducer.total_).all()


@pytest.mark.parametrize("shape", [(100, 4), (12, 30)])
@pytest.mark.parametrize("name", ALL)
def test_standardize_is_a_standard_scaler_before(name, shape):
    X, y = labelled(*shape, 3, seed=9)
    X = X * np.logspace(-2, 2, shape[1])
    X[:, 1] = 7.0
    inside = make(name, n_components=2, standardize=True, precision="double").fit(X, y)
    scaler = StandardScaler().fit(X)
    before = make(name, n_components=2, center=True, precision="double").fit(scaler.transform(X), y)
    np.testing.assert_allclose(inside.scale_, scaler.scale_, rtol=1e-12)
    assert inside.scale_[1] == 1
    # Columns differ by rounding, a mean of many spreads; Fisher's solution amplifies it as in test_scatters.
    tolerance = 1e-6 if name == "fisher" else 1e-9
    np.testing.assert_allclose(inside.eigenvalues_, before.eigenvalues_, rtol=tolerance)
    np.testing.assert_allclose(inside.components_, before.components_, atol=tolerance)
    np.testing.assert_allclose(
        inside.transform(X), before.transform(scaler.transform(X)), atol=tolerance * np.abs(inside.transform(X)).max()
    )


@pytest.mark.parametrize("precision", ["single", "double"])
def test_imprecise_components_are_marked(precision):
    """A variance near the rounding floor of the pass (eps times the trace) is returned with a mark."""
    rng = np.random.default_rng(10)
    scale = np.sqrt(50 * UNITS[precision])
    X, y = rng.standard_normal((300, 2)) * [1.0, scale], rng.integers(2, size=300)
    reducer = MarginPCA(2, "pca", precision=precision).fit(X, y)
    assert reducer.imprecise_.tolist() == [False, True]
    (note,) = method_notes(MethodSection(name="pca"), reducer, 2, precision)
    assert ("not reliable. Set precision: double." in note) == (precision == "single")


def test_residuals_bound_the_distance_to_an_eigenvalue():
    X, y = labelled(50, 6, 2, seed=11)
    reducer = MarginPCA(4, precision="double").fit(X, y)
    S = naive.mean_outer_product(naive.mpca0_rows(X, y))
    found = np.linalg.norm(S @ reducer.components_.T - reducer.components_.T * reducer.eigenvalues_, axis=0)
    slack = 50 * UNITS["double"] * np.trace(S)
    assert (np.abs(found - reducer.residuals_) <= slack).all()
    assert (reducer.residuals_ <= slack).all()


def test_components_that_solve_no_equation_have_no_residuals():
    X, y = labelled(50, 6, 3, seed=11)
    reducer = LOL(4).fit(X, y)
    assert reducer.residuals_.shape == (4,)
    assert np.isnan(reducer.residuals_).all()


def test_only_directions_between_means_count_as_precise_beside_the_scatter():
    """Means on a line give one direction, so the second component is already one of scatter within the classes."""
    rng = np.random.default_rng(12)
    y = np.repeat([0, 1, 2], 40)
    within = rng.standard_normal((40, 4)) * [1.0, 1.0, 0.1, 0.01]
    within -= within.mean(axis=0)
    X = np.concatenate([within, within, within]) + np.outer(y, [1.0, 0.0, 0.0, 0.0])
    reducer = LOL(3, precision="double").fit(X, y)
    assert (reducer.relative_errors_ > 0).tolist() == [False, True, True]


MANY = {
    "m-pca0": lambda X, y, reducer: naive.mean_outer_product(naive.mpca0_rows(X, y)),
    "m-pca1a": lambda X, y, reducer: naive.mean_outer_product(naive.mpca1a_rows(X, y, reducer.pairing)),
    "m-pca1b": lambda X, y, reducer: naive.mean_outer_product(naive.mpca1b_rows(X, y, reducer.pairing)),
    "pca": lambda X, y, reducer: naive.mean_outer_product(naive.pca_rows(X, y)),
}


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("name", MANY)
def test_many_classes_are_pooled_by_estimators_too(name, pairing, limits, monkeypatch):
    """One scatter, or for m-pca0 two, in place of one a class, and still the components of the difference rows."""
    X, y = labelled(150, 6, 7, seed=19)
    limits.pooled_bytes = 7 * 6 * 6 * 8 - 1
    taken = watched(monkeypatch, from_rows, "take_moments", lambda found, *_, **__: found[0].scatters.shape)
    reducer = make(name, n_components=3, precision="double", pairing=pairing).fit(X, y)
    assert taken == [(1 + (name == "m-pca0"), 6, 6)]
    assert_leading(reducer, MANY[name](X, y, reducer), len(X), "double")


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("standardize", [False, True])
def test_many_classes_of_few_rows_are_pooled_in_their_span(name, standardize, limits, monkeypatch):
    """A scatter a class would take C n^2 numbers however few columns the rows span."""
    X, y = labelled(30, 50, 7, seed=20)
    expected = make(name, n_components=3, precision="double", standardize=standardize).fit(X, y)
    limits.pooled_bytes = 7 * 30 * 30 * 8 - 1
    taken = watched(monkeypatch, row_space, "wide_statistics")
    reducer = make(name, n_components=3, precision="double", standardize=standardize).fit(X, y)
    assert [len(one.moments.scatters) for one in taken] == [1 + (name == "m-pca0")]
    np.testing.assert_allclose(reducer.components_, expected.components_, atol=1e-9)
    np.testing.assert_allclose(reducer.eigenvalues_, expected.eigenvalues_, rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_the_registry_makes_each_method_with_the_settings_of_a_run(name):
    given = {
        "pairing": "one-vs-one", "shrinkage": 0.25, "alpha": 0.5, "seed": 7, "search": "approximate", "recall": 0.9,
        "max_queries": 70,
    }  # fmt: skip
    method = METHODS[name]
    options = {option: value for option, value in given.items() if option in method.options.model_fields}
    reducer = method.reducer(3, method.options(**options), standardize=True, precision="double")
    found = reducer.get_params()
    assert type(reducer) is method.estimator
    assert (found["n_components"], found["standardize"], found["precision"]) == (3, True, "double")
    assert found.get("variant", name) == name
    assert {option: found[option] for option in options} == options
    needs = method.reducer(None, method.options(**options)).needs()
    assert bool(needs.searches) == (name == "m-pca2")
    assert bool(needs.medians) == (name == "m-pca1b")
    assert set(SCATTERS) < set(METHODS)


BAD = [
    (MarginPCA(0), "whole number of at least 1"),
    (MarginPCA(True), "whole number of at least 1"),
    (MarginPCA(1.5), "whole number of at least 1"),
    (MarginPCA(variant="m-pca1"), "Did you mean 'm-pca1"),
    (MarginPCA(pairing="all"), "one-vs-rest, one-vs-one"),
    (MarginPCA(precision="half"), "single, double"),
    (MarginPCA(variant="m-pca2", search="exac"), "mode='exac' must be one of exact, approximate. Did you mean 'exact'"),
    (MarginPCA(variant="m-pca2", recall=2), "recall=2 must lie between 0 and 1"),
    (MarginPCA(variant="m-pca2", max_queries=0), "max_queries=0 must be a whole number of at least 2"),
    (MarginPCA(variant="m-pca2", mutual="one"), "mutual='one' must be one of twice, once. Did you mean 'once'"),
    (MarginPCA(variant="m-pca2", mutual="once", max_queries=5), "mutual='once' needs the nearest row of every row"),
    (FisherDiscriminant(shrinkage=1.5), "at least 0 and at most 1"),
    (RidgeDirections(alpha=-1), "alpha=-1 must be a number of at least 0"),
    (RidgeDirections(alpha=float("nan")), "alpha=nan must be a number of at least 0"),
    (RandomProjection(seed=-1), "seed=-1 must be a whole number of at least 0"),
    (RandomProjection(seed=1.5), "seed=1.5 must be a whole number of at least 0"),
    (PLS(0), "whole number of at least 1"),
    (SupervisedPCA(kernel="delt"), "Did you mean 'delta'"),
    (SupervisedPCA(kernel=-np.eye(2)), "not positive semidefinite"),
    (SupervisedPCA(kernel=np.eye(3)), "2 x 2"),
]


@pytest.mark.parametrize(("reducer", "message"), BAD)
def test_parameters_out_of_range_are_refused_when_fitting(reducer, message):
    X, y = labelled(20, 3, 2, seed=15)
    with pytest.raises(InputError, match=message):
        reducer.fit(X, y)


@pytest.mark.parametrize("seed", range(16, 36))
def test_a_singular_scatter_without_shrinkage_is_refused(seed):
    """A pivot that should be zero comes out positive, by rounding, as often as not."""
    X, y = labelled(10, 30, 2, seed=seed)
    with pytest.raises(InputError, match="set shrinkage above 0"):
        FisherDiscriminant(shrinkage=0).fit(X, y)
    assert FisherDiscriminant(shrinkage=1e-3).fit(X, y).components_.shape == (1, 30)


@pytest.mark.parametrize("name", ["m-pca0", "m-pca1b", "m-pca2"])
@pytest.mark.parametrize("data", ["ionosphere", "colon"])
def test_real_tables_tall_and_wide(real_data, data, name):
    """Published data, standard column scales and a constant column included, against the difference rows."""
    X, y = real_data(data)
    X = X[:, :200].astype(np.float64)
    S = naive.mean_outer_product(naive.ROWS[name](X[:150], y[:150]))
    reducer = MarginPCA(1, name, precision="double").fit(X[:150], y[:150])
    assert_leading(reducer, S, 150, "double")


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("m-pca1b", "m-pca2")])
def test_stored_moments_give_the_same_bits_as_the_rows(name):
    X, y = labelled(60, 5, 3, seed=17)
    reducer = make(name, n_components=2).fit(X, y)
    expected, options = reducer.components_.copy(), {"variant": name} if name in SCATTERS else {}
    stored = type(reducer).from_moments(class_moments(X, y), n_components=2, **options)
    np.testing.assert_array_equal(stored.components_, expected)
    assert stored.transform(X).shape == (60, 2)


@pytest.mark.parametrize("name", ["m-pca0", "lol", "fisher", "pls", "ridge", "lasso"])
def test_inverse_transform_is_the_least_squares_reconstruction(name):
    """The row nearest to the mean among those that project to Z."""
    X, y = labelled(60, 5, 3, seed=12)
    for options in ({"center": True}, {"center": False}, {"standardize": True}):
        reducer = make(name, n_components=2, **options).fit(X, y)
        Z = reducer.transform(X)
        back = reducer.inverse_transform(Z)
        np.testing.assert_allclose(reducer.transform(back), Z, atol=1e-10 * max(1, np.abs(Z).max()))
        units = 1.0 if reducer.scale_ is None else reducer.scale_
        centred = (X - reducer.mean_) / units
        design = reducer.components_.T
        fitted = design @ LinearRegression(fit_intercept=False).fit(design, centred.T).coef_.T
        np.testing.assert_allclose((back - reducer.mean_) / units, fitted.T, atol=1e-9)


def test_projection_is_uncentred_unless_asked_for():
    X, y = labelled(40, 4, 2, seed=13)
    plain, centred = (MarginPCA(2, center=c, precision="double").fit(X, y) for c in (False, True))
    np.testing.assert_allclose(plain.transform(X), X @ plain.components_.T, atol=1e-12)
    np.testing.assert_allclose(centred.transform(X), (X - X.mean(axis=0)) @ plain.components_.T, atol=1e-11)


@pytest.mark.parametrize("options", [{"center": True}, {"standardize": True}])
@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_centred_projection_of_single_precision_rows_far_from_zero(mean, options):
    """The mean goes off in double before the product: what is lost is a rounding of centred rows, not of the mean."""
    rng = np.random.default_rng(20)
    y = np.arange(600) % 3
    X = (rng.standard_normal((600, 4)) * [4.0, 2.0, 1.0, 0.5] + y[:, None] + mean).astype(np.float32)
    exact_rows = X.astype(float)
    for name in ("m-pca0", "m-pca1b", "fisher"):
        reducer = make(name, n_components=2, **options).fit(X, y)
        rows = exact_rows - exact_rows.mean(axis=0)
        if "standardize" in options:
            rows /= exact_rows.std(axis=0)
        exact = rows @ reducer.components_.T
        # d products and the row itself, rounded: (d + 2) units of |x - mean| |v|; Fisher's v is divided by sd.
        allowed = 6 * UNITS["single"] * np.linalg.norm(rows, axis=1).max() * np.linalg.norm(reducer.components_, axis=1)
        if "standardize" in options:
            allowed *= exact_rows.std(axis=0).max() / exact_rows.std(axis=0).min()
        for Z in (reducer.transform(X), reducer.transform(da.from_array(X, (70, 4))).compute()):
            assert Z.dtype == np.float32
            assert (np.abs(Z - exact) <= allowed).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_rows_of_single_precision_stay_so(dtype):
    X, y = labelled(40, 4, 2, seed=14)
    X = (X * 10 + 60).astype(dtype)
    Z = MarginPCA(2).fit(X, y).transform(X)
    assert Z.dtype == (np.float32 if dtype == "float32" else np.float64)
