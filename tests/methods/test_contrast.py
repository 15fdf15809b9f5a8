"""Contrasts of named scatters against their twins, and against what textbooks compute in other ways."""

import dask.array as da
import naive
import naive_scatters
import numpy as np
import pytest
import scipy.sparse
from helpers.samples import largest_angle
from helpers.tables import labelled

from mmpca_dist import FisherDiscriminant, MarginPCA, ScatterContrast, class_moments, load_model, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.evaluate import evaluate

WHITENED = [
    "total", "within", {"class": {1: 1}}, {"class": {0: 1, 1: 1}}, {"total": 0.5, "within": 1, "class": {2: 2}},
]  # fmt: skip
QUOTIENTS = {
    "fisher": ("between", "within"),
    "minimum noise fraction": ("total", {"class": {0: 1}}),
    "patterns": ({"class": {0: 1, 1: -1}}, {"class": {0: 1, 1: 1}}),
    "sums": ({"total": 2, "class": {1: 1}}, {"within": 1, "class": {2: 0.5}}),
}


def covariance(X, y, scatter, w=None):
    return naive.named_covariance(X, y, {scatter: 1} if isinstance(scatter, str) else scatter, w)


def fitted(X, y, w=None, **options):
    return ScatterContrast(precision="double", **options).fit(X, y, sample_weight=w)


def same_but_signs(found, expected, atol):
    """Components, one a row, are the same but for their signs, relative to their length."""
    lengths = np.linalg.norm(expected, axis=1)[:, None]
    signs = np.sign(np.sum(found * expected, axis=1))[:, None]
    np.testing.assert_allclose(found / lengths, signs * expected / lengths, atol=atol)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("case", QUOTIENTS)
def test_quotients_are_their_twins(case, standardize, weighted):
    X, y = labelled(150, 5, 3, seed=3)
    w = np.random.default_rng(0).integers(0, 4, len(X)) if weighted else None
    A, B = QUOTIENTS[case]
    found = fitted(X, y, w, A=A, B=B, standardize=standardize)
    counts = np.ones(len(X)) if w is None else w
    mean = counts @ X / counts.sum()
    rows = (X - mean) / np.sqrt(counts @ (X - mean) ** 2 / counts.sum()) if standardize else X
    over, under = covariance(rows, y, A, w), covariance(rows, y, B, w)
    values, vectors = naive_scatters.contrast(over, under)
    kept = np.abs(values) > 1e-10 * np.abs(values).max()
    np.testing.assert_allclose(found.eigenvalues_, values[kept], rtol=1e-9)
    same_but_signs(found.components_, vectors[:, kept].T, 1e-7)  # of gaps above 1e-3
    np.testing.assert_allclose(found.components_ @ under @ found.components_.T, np.eye(kept.sum()), atol=1e-10)
    assert found.total_ == pytest.approx(values[kept].sum() if values.min() > -1e-10 else np.nan, nan_ok=True)
    assert (found.residuals_ <= 1e-11 * values[0]).all()


@pytest.mark.parametrize("square", [{}, {"square": True}, {"square": True, "rotation": "zca"}])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("B", WHITENED, ids=str)
@pytest.mark.parametrize(("n", "d"), [(150, 5), (24, 60)])
def test_whitened_rows_have_the_identity_for_the_named_scatter(n, d, B, standardize, square):
    X, y = labelled(n, d, 3, seed=1)
    options = {"A": None, "B": B, "standardize": standardize, "center": True, **square}
    if n < d and "rotation" in square:
        with pytest.raises(InputError, match="rotation='zca' maps all columns to all, and rows are fewer"):
            fitted(X, y, **options)
        return
    found = fitted(X, y, **options)
    Z = found.transform(X)
    np.testing.assert_allclose(covariance(Z, y, B), np.eye(Z.shape[1]), atol=1e-10)
    rows = (X - X.mean(axis=0)) / X.std(axis=0) if standardize else X
    values = naive.eigenpairs(covariance(rows, y, B))[0]
    assert Z.shape[1] == np.sum(values > 1e-10 * values[0]) == np.linalg.matrix_rank(covariance(rows, y, B))
    if "rotation" in square:
        np.testing.assert_allclose(found.components_, found.components_.T, atol=1e-10)
    else:
        np.testing.assert_allclose(found.eigenvalues_, values[: Z.shape[1]], rtol=1e-8)


def test_zca_moves_rows_least_and_keeps_all_columns():
    X, y = labelled(200, 4, 2, seed=5)
    zca, pca = (fitted(X, y, A=None, B="total", square=True, rotation=rotation) for rotation in ("zca", "pca"))
    values, vectors = naive.eigenpairs(covariance(X, y, "total"))
    np.testing.assert_allclose(zca.components_, vectors @ np.diag(values**-0.5) @ vectors.T, atol=1e-10)
    moved = [np.linalg.norm(each.transform(X) - X) for each in (zca, pca)]
    assert moved[0] < moved[1]
    assert fitted(X, y, n_components=1, A=None, B="total", square=True).components_.shape == (4, 4)
    np.testing.assert_allclose(zca.inverse_transform(zca.transform(X)), X, atol=1e-9)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("n", "d"), [(150, 6), (24, 60)])
def test_constant_and_repeated_columns_are_left_out_of_whitening(n, d, precision):
    X, y = labelled(n, d, 3, seed=2)
    X = np.column_stack([X, np.full(n, 7.0), X[:, 0], X[:, 1]])
    for B in WHITENED[:3]:
        found = ScatterContrast(A=None, B=B, center=True, precision=precision).fit(X, y)
        Z = found.transform(X)
        S = covariance(X, y, B)
        assert Z.shape[1] == np.linalg.matrix_rank(S, tol=1e-9 * np.trace(S))
        assert not found.components_[:, d].any()
        np.testing.assert_allclose(found.components_[:, 0], found.components_[:, d + 1], atol=1e-3)
        allowed = 1e-10 if precision == "double" else 1e-2  # single precision: eps over the smallest share of the trace
        np.testing.assert_allclose(covariance(Z, y, B), np.eye(Z.shape[1]), atol=allowed)
        if n > d:
            square = ScatterContrast(A=None, B=B, square=True, rotation="zca", precision=precision).fit(X, y)
            assert square.components_.shape == (d + 3, d + 3) and not square.components_[d].any()


@pytest.mark.parametrize("mean", [1e4, 1e6, 1e8])
def test_rows_far_from_zero(mean):
    """A mean of double precision is off by eps |mean|, which divides by the smallest deviation."""
    X, y = labelled(200, 5, 3, seed=4)
    X = X + mean
    smallest = np.sqrt(naive.eigenpairs(covariance(X, y, "within"))[0][-1])
    allowed = 1e-10 + 100 * np.finfo(float).eps * mean / smallest
    for B in ("total", "within", {"class": {1: 1}}):
        Z = fitted(X, y, A=None, B=B, center=True).transform(X)
        np.testing.assert_allclose(covariance(Z, y, B), np.eye(5), atol=allowed)
    near, far = fitted(X - mean, y), fitted(X, y)
    np.testing.assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=10 * allowed)
    same_but_signs(far.components_, near.components_, 100 * allowed)


@pytest.mark.parametrize("n", [80, 300])
def test_common_spatial_patterns_are_those_of_two_steps(n):
    X, y = labelled(n, 6, 2, seed=6)
    X[y == 1] *= [1, 3, 1, 0.5, 1, 1]
    names = np.asarray(["left", "right"])[y]
    shares, filters = naive_scatters.common_spatial_patterns(X, names, "left", "right")
    both = {"class": {"left": 1, "right": 1}}
    found = fitted(X, names, A={"class": "left"}, B=both)
    np.testing.assert_allclose(found.eigenvalues_, shares, rtol=1e-10)
    same_but_signs(found.components_, filters.T, 1e-8)
    ends = fitted(X, names, n_components=4, A={"class": {"left": 1, "right": -1}}, B=both, order="magnitude")
    order = np.argsort(-np.abs(2 * shares - 1))[:4]
    assert {0, len(shares) - 1} <= set(order.tolist())
    np.testing.assert_allclose(ends.eigenvalues_, (2 * shares - 1)[order], rtol=1e-9)
    same_but_signs(ends.components_, filters.T[order], 1e-8)
    left = np.var(ends.transform(X)[y == 0], axis=0)
    np.testing.assert_allclose(left, shares[order], rtol=1e-9)
    assert np.isnan(ends.total_)


@pytest.mark.parametrize("shrinkage", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize(("n", "d", "n_classes"), [(120, 6, 4), (90, 3, 5), (40, 90, 3)])
def test_fisher_is_a_contrast(n, d, n_classes, shrinkage):
    X, y = labelled(n, d, n_classes, seed=7)
    if n < d and shrinkage == 0:
        X = np.random.default_rng(7).standard_normal((n, d))
        with pytest.warns(UserWarning, match="of A lies where B is zero up to rounding"):
            singular = fitted(X, y)
        assert len(singular.eigenvalues_) <= n_classes - 1
        return
    found = fitted(X, y, shrinkage=shrinkage)
    expected = FisherDiscriminant(shrinkage=shrinkage, precision="double").fit(X, y)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7 * np.abs(found.components_).max())
    assert found.total_ == pytest.approx(expected.total_, rel=1e-8)
    assert found.limit_reason_ == f"the number of classes less one, {n_classes - 1}"


@pytest.mark.parametrize("a", [0.0, 0.5, 2.0, 50.0])
@pytest.mark.parametrize(("n", "d"), [(150, 6), (30, 70)])
def test_contrastive_pca_for_several_a_from_the_same_moments(n, d, a):
    X, y = labelled(n, d, 2, seed=8)
    M = covariance(X, y, {"class": {0: 1, 1: -a}})
    values, vectors = naive.eigenpairs(M)
    found = fitted(X, y, A={"class": {0: 1}}, B={"class": {1: 1}}, a=a)
    room = 1e-10 * np.abs(values).max()  # smaller ones may be zeros
    kept, own = np.abs(values) > room, np.abs(found.eigenvalues_) > room
    np.testing.assert_allclose(found.eigenvalues_[own], values[kept], atol=room / 100)
    assert largest_angle(found.components_[:2], vectors[:, :2]) < 1e-7
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(len(own)), atol=1e-10)
    alone = fitted(X, y, A={"class": {0: 1, 1: -a}}, B=None)
    np.testing.assert_allclose(alone.eigenvalues_, found.eigenvalues_, atol=1e-12 * values[0])


def test_the_total_scatter_alone_is_pca_and_needs_no_labels():
    X, y = labelled(80, 5, 3, seed=9)
    expected = MarginPCA(variant="pca", precision="double").fit(X, y)
    found = ScatterContrast(A="total", B=None, precision="double").fit(X)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-11)
    with pytest.raises(InputError, match="y"):
        ScatterContrast(A="within", B=None).fit(X)


def test_parts_merge_and_sparse_rows_and_dask_arrays_are_as_dense_ones():
    X, y = labelled(90, 6, 3, seed=10)
    X[np.abs(X) < 1] = 0
    options = {"A": "total", "B": {"class": {0: 1, 2: 0.5}}, "precision": "double"}
    expected = ScatterContrast(**options).fit(X, y)
    moments = class_moments(X[:40], y[:40], precision="double")
    merged = ScatterContrast.from_moments(moments, **options).partial_fit(X[40:], y[40:])
    for found in (
        merged,
        ScatterContrast(**options).fit(scipy.sparse.csr_array(X), y),
        ScatterContrast(**options).fit(da.from_array(X, chunks=(17, 6)), y),
    ):
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
        same_but_signs(found.components_, expected.components_, 1e-8)


def test_shrinkage_keeps_directions_without_scatter():
    X, y = labelled(20, 50, 2, seed=11)
    for g in (1e-3, 0.5):
        found = fitted(X, y, A="total", B="within", shrinkage=g)
        A, W = covariance(X, y, "total"), covariance(X, y, "within")
        B = (1 - g) * W + g * np.trace(W) / 50 * np.eye(50)
        values, vectors = naive_scatters.contrast(A, B)
        assert len(found.eigenvalues_) == 19
        np.testing.assert_allclose(found.eigenvalues_[0], values[0], rtol=1e-8)
        assert largest_angle(found.components_[:1], vectors[:, :1]) < 1e-6
    # whitening keeps the directions that rows have, and no others
    assert fitted(X, y, A=None, B="within", shrinkage=0.1).components_.shape == (18, 50)


@pytest.mark.usefixtures("no_report")
def test_sections_of_a_run_share_the_pass(tmp_path):
    X, y = labelled(120, 5, 2, seed=12)
    names = np.asarray(["control", "case"])[y]
    np.savez(tmp_path / "rows.npz", X=X, y=names)
    sides = {"A": {"class": "case"}, "B": {"class": "control"}}
    methods = [
        "contrast", {"name": "contrast", "label": "a-1", **sides, "a": 1},
        {"name": "contrast", "label": "a-10", **sides, "a": 10},
        {"name": "contrast", "label": "reduced", "A": None, "B": {"class": "control"}},
        {"name": "whitening", "B": {"class": {"control": 1}}, "rotation": "zca"},
    ]  # fmt: skip
    config = {"dataset": {"uri": str(tmp_path / "rows.npz")}, "methods": methods, "n_components": 2}
    output = str(tmp_path / "out")
    run({**config, "precision": "double", "output": output})
    for label, a in (("a-1", 1), ("a-10", 10)):
        expected = fitted(X, names, n_components=2, a=a, **sides)
        np.testing.assert_allclose(load_model(output, label).components_, expected.components_, atol=1e-9)
    assert load_model(output, "contrast").components_.shape == (1, 5)
    assert load_model(output, "reduced").components_.shape == (2, 5)
    whitened = load_model(output, "whitening")
    Z = whitened.transform(X)
    assert Z.shape == X.shape
    np.testing.assert_allclose(covariance(Z, names, {"class": {"control": 1}}), np.eye(5), atol=1e-9)


@pytest.mark.usefixtures("no_report")
def test_evaluations_compare_whitened_columns_with_all_columns(tmp_path):
    """Linear discriminant analysis is the same on both; nearest neighbours are not."""
    X, y = labelled(150, 5, 3, seed=17)
    np.savez(tmp_path / "rows.npz", X=X * [1, 10, 100, 1, 1], y=y)
    evaluate({
        "dataset": {"uri": str(tmp_path / "rows.npz")}, "methods": ["whitening", "contrast", "pca"],
        "n_components": [1, 2], "precision": "double", "output": str(tmp_path / "out"),
        "evaluation": {"classifiers": ["lda", "sklearn.neighbors.KNeighborsClassifier"], "folds": 3},
    })  # fmt: skip
    rows = {row["method"]: row for row in result_in(str(tmp_path / "out" / "evaluation")).rows if "lda" in row}
    assert set(rows) == {"whitening", "contrast", "pca", "all-columns"}
    assert rows["whitening"]["lda"] == rows["all-columns"]["lda"]
    near = next(column for column in rows["pca"] if "KNeighbors" in column)
    assert rows["whitening"][near] != rows["all-columns"][near]


@pytest.mark.parametrize(("options", "message"), [
    ({"A": "totl"}, "Unknown scatter 'totl' in A; there are total, within, between, class. Did you mean 'total'?"),
    ({"B": {"class": {1: "x"}}}, "B={'class': {1: 'x'}} must have numbers as coefficients, not all zero."),
    ({"B": {"within": 0}}, "B={'within': 0} must have numbers as coefficients"),
    ({"B": 3}, "B=3 must be total, within, between, or a mapping"),
    ({"A": None, "B": None}, "A or B is missing"),
    ({"A": None, "a": 1}, "A or B is missing"),
    ({"a": -1}, "a=-1 must be a number of at least 0"),
    ({"a": 1, "shrinkage": 0.1}, "shrinkage has no effect"),
    ({"order": "largst"}, "Did you mean 'largest'"),
    ({"square": True}, "square is for whitening"),
    ({"A": {"class": "5"}}, "There is no class '5' with rows."),
    ({"B": {"class": {0: 1, 1: -1}}}, "B divides, and must not be zero, or negative in a direction"),
    ({"n_components": 3}, "n_components=3 is more than the 2 components .* the number of classes less one, 2"),
    ({"n_components": 5, "A": {"within": 1, "class": {0: -1}}, "B": None}, "than the 4 .* rank of its scatters, at"),
])  # fmt: skip
def test_mistakes_are_named(options, message):
    X, y = labelled(60, 4, 3, seed=13)
    plain = message.replace("?", r"\?").replace("{", r"\{").replace("}", r"\}")
    with pytest.raises(InputError, match=plain):
        ScatterContrast(**options).fit(X, y)


def test_a_class_of_pooled_scatters_is_refused_and_sums_are_not(monkeypatch):
    X, y = labelled(200, 6, 8, seed=14)
    expected = fitted(X, y, A="total", B="within")
    monkeypatch.setattr(LIMITS, "pooled_bytes", 1)
    found = fitted(X, y, A="total", B="within")
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    with pytest.raises(InputError, match="scatter of class '3' alone is not known: those of 8 classes are too large"):
        fitted(X, y, A="total", B={"class": 3})


def test_rows_of_a_class_that_are_all_equal_do_not_divide():
    X, y = labelled(60, 4, 2, seed=15)
    X[y == 1] = X[y == 1][0]
    with pytest.raises(InputError, match="B divides, and must not be zero"):
        fitted(X, y, A="total", B={"class": 1})


def test_solvers_in_passes_are_refused():
    X, y = labelled(60, 4, 2, seed=16)
    with pytest.raises(InputError, match="never forms a scatter, and 'contrast' needs it as a whole"):
        ScatterContrast(1, solver="krylov").fit(X, y)


def test_a_configuration_is_checked_before_anything_is_read():
    config = {"dataset": {"uri": "bundled:iris"}, "n_components": 2, "output": "out"}
    with pytest.raises(ConfigError, match=r"contrast: Unknown scatter 'withn' in B.*Did you mean 'within'"):
        parse_config({**config, "methods": [{"name": "contrast", "B": "withn"}]}, "the test")
    stored = parse_config({**config, "methods": [{"name": "contrast", "B": {"class": {1: 2}}}]}, "the test")
    again = parse_config(stored.model_dump(mode="json"), "the test")
    assert again.model_dump(mode="json") == stored.model_dump(mode="json")


@pytest.mark.usefixtures("no_report")
def test_a_run_refuses_classes_that_are_not_there_once_labels_are_counted(tmp_path, monkeypatch):
    X, y = labelled(60, 4, 3, seed=18)
    np.savez(tmp_path / "rows.npz", X=X, y=np.asarray(["left", "rest", "right"])[y])
    config = {"dataset": {"uri": str(tmp_path / "rows.npz")}, "n_components": 1, "output": str(tmp_path / "out")}
    with pytest.raises(InputError, match=r"There is no class 'lefd' with rows. Did you mean 'left'"):
        run({**config, "methods": ["pca", {"name": "contrast", "A": {"class": "lefd"}}]})
    assert not (tmp_path / "out" / "statistics.zarr").exists()
    monkeypatch.setattr(LIMITS, "pooled_bytes", 1)
    with pytest.raises(InputError, match="scatter of class 'left' alone is not known: those of 3 classes"):
        run({**config, "methods": ["pca", {"name": "whitening", "B": {"class": "left"}}], "output": f"{tmp_path}/o2"})
    assert not (tmp_path / "o2" / "statistics.zarr").exists()
