"""Row maps: features of kernels, samples for their fits, transformers, and how mapped tables are read."""

import itertools
from dataclasses import replace

import dask.array as da
import naive_row_maps as naive
import numpy as np
import pandas as pd
import pytest
from helpers.tables import labelled
from scipy.sparse import csr_array, csr_matrix
from scipy.stats import kstest, norm
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem as SklearnNystroem
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.pipeline import make_pipeline

from mmpca_dist import MarginPCA, NystroemFeatures, RandomFourierFeatures
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import fit_row_maps, spread_sample
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.tables.mapped_rows import MAP_ROWS
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.row_maps.fourier import Fourier, draw_frequencies
from mmpca_dist.tables.row_maps.nystroem import PARAMETERS, Nystroem, inverse_root
from mmpca_dist.tables.row_maps.row_by_row import Log1p, NormalizeTotal, UnitLength
from mmpca_dist.tables.row_maps.sampling import by_chunk, sample_plan
from mmpca_dist.tables.row_maps.specification import ROW_MAPS
from mmpca_dist.tables.spans import make_spans

X, Y = labelled(300, 7, 3, seed=1)


def fitted(rows, maps):
    """Return a data set after row maps that are fitted to it."""
    return rows.with_maps(
        maps, fit_row_maps(rows.with_maps(maps), lambda *sample: spread_sample(Tasks(scheduler=Threads()), *sample))
    )


@pytest.mark.parametrize("orthogonal", [True, False])
def test_fourier_features_are_those_of_the_paper(orthogonal):
    model = RandomFourierFeatures(20, gamma=0.3, orthogonal=orthogonal, seed=4).fit(X)
    fit = model.fits_[0]
    expected = [naive.fourier(row, fit["frequencies"], fit["phases"]) for row in X[:30]]
    np.testing.assert_allclose(model.transform(X[:30]), expected, atol=1e-14)


@pytest.mark.parametrize("kernel", list(PARAMETERS))
@pytest.mark.parametrize("sparse", [False, True])
def test_nystroem_features_are_those_of_the_paper(kernel, sparse):
    rows = np.round(X) if sparse else X
    given = csr_array(rows) if sparse else rows
    model = NystroemFeatures(12, kernel=kernel, seed=2).fit(given)
    fit = model.fits_[0]
    if sparse:
        shape = tuple(fit["shape"].astype(int))
        landmarks = csr_array((fit["data"], fit["indices"].astype(int), fit["indptr"].astype(int)), shape).toarray()
    else:
        landmarks = fit["landmarks"] + fit.get("centre", 0)
    values = {"gamma": naive.scale(rows), "degree": 3, "coef0": 1}
    assert all((row == rows).all(axis=1).any() for row in np.round(landmarks, 12)) or not sparse
    expected = [
        naive.nystroem(x, landmarks, name=kernel, **{p: values[p] for p in PARAMETERS[kernel]}) for x in rows[:25]
    ]
    np.testing.assert_allclose(model.transform(given[:25]), expected, atol=1e-8)


def test_the_width_of_kernels_is_that_of_the_values():
    for rows in (X, csr_array(np.round(X))):
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        assert RandomFourierFeatures(4).fit(rows).gamma_ == pytest.approx(naive.scale(dense), rel=1e-12)
        assert NystroemFeatures(4).fit(rows).gamma_ == pytest.approx(naive.scale(dense), rel=1e-12)
    assert NystroemFeatures(4, kernel="linear").fit(X).gamma_ == 1
    with pytest.raises(InputError, match=r"a sample of 300 rows are equal\. Give gamma as a number"):
        RandomFourierFeatures(4).fit(np.ones((300, 2)))


def kernel_errors(count, seeds, *, orthogonal, gamma=0.05):
    """Return the mean squared error of the kernel of every seed."""
    exact = rbf_kernel(X[:60], gamma=gamma)
    errors = []
    for seed in seeds:
        Z = RandomFourierFeatures(count, gamma=gamma, orthogonal=orthogonal, seed=seed).fit_transform(X[:60])
        errors.append(np.mean((Z @ Z.T - exact) ** 2))
    return np.asarray(errors)


def test_the_kernel_error_of_fourier_features_falls_as_the_root_of_their_number():
    """With independent frequencies the squared error is V / D: the ratio of 16 times as many is 16, up to its noise."""
    few, many = (kernel_errors(count, range(40), orthogonal=False) for count in (64, 1024))
    ratio = few.mean() / many.mean()
    relative = np.hypot(few.std() / few.mean(), many.std() / many.mean()) / np.sqrt(40)
    assert abs(ratio / 16 - 1) < 4 * relative, (ratio, relative)


def test_orthogonal_frequencies_err_less_over_many_seeds():
    """Yu et al. 2016, theorem 1, is about the mean of cos(w . (x - x')): its errors are many standard errors apart.

    Phases add the same noise to the features of both, so that theirs differ less: by a tenth.
    """
    exact, differences = rbf_kernel(X[:60], gamma=0.3), X[:60, None] - X[None, :60]
    errors = {True: [], False: []}
    for seed in range(100):
        for orthogonal, found in errors.items():
            frequencies, _ = draw_frequencies(7, 70, 0.3, seed, orthogonal=orthogonal)
            found.append(np.mean((np.cos(differences @ frequencies).mean(axis=2) - exact) ** 2))
    assert apart(errors[True], errors[False]) > 6
    features = (kernel_errors(70, range(250), orthogonal=value, gamma=0.3) for value in (True, False))
    assert apart(*features) > 4


def apart(lower, higher):
    """Return how many standard errors two means are apart."""
    return (np.mean(higher) - np.mean(lower)) / (np.hypot(np.std(lower), np.std(higher)) / np.sqrt(len(lower)))


def test_frequencies_are_gaussian_and_orthogonal_in_blocks():
    frequencies, phases = draw_frequencies(5, 4_000, 0.5, 3, orthogonal=True)
    assert kstest(frequencies.ravel(), norm.cdf).pvalue > 1e-3
    assert phases.min() >= 0 and phases.max() < 2 * np.pi
    block = frequencies[:, 5:10]
    gram = block.T @ block
    np.testing.assert_allclose(gram - np.diag(np.diagonal(gram)), 0, atol=1e-12)
    narrow, _ = draw_frequencies(400, 3, 0.5, 0, orthogonal=True)
    assert narrow.shape == (400, 3) and abs(narrow[:, 0] @ narrow[:, 1]) < 1e-10


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_pca_of_all_rows_as_landmarks_is_kernel_pca(kernel):
    gamma = naive.scale(X)
    Z = NystroemFeatures(300, kernel=kernel).fit_transform(X)
    model = MarginPCA(5, "pca", precision="double", center=True).fit(Z, Y)
    expected = KernelPCA(5, kernel=kernel, gamma=gamma, degree=3, coef0=1).fit(X)
    scores = expected.transform(X)
    found = model.transform(Z)
    signs = np.sign(np.sum(found * scores, axis=0))
    np.testing.assert_allclose(found * signs, scores, atol=1e-7 * np.abs(scores).max())
    np.testing.assert_allclose(model.eigenvalues_ * 300, expected.eigenvalues_, rtol=1e-8)


def test_a_singular_kernel_has_features_in_its_range_alone():
    """Every row thrice: the features are those of the distinct rows, and finite, in single precision too."""
    rows = np.repeat(X[:30], 3, axis=0)
    for dtype, atol in ((np.float64, 1e-7), (np.float32, 1e-5)):
        Z = NystroemFeatures(90, gamma=0.1).fit_transform(rows.astype(dtype))
        assert Z.dtype == dtype
        np.testing.assert_allclose(Z @ Z.T, rbf_kernel(rows, gamma=0.1), atol=atol)
    linear = NystroemFeatures(50, kernel="linear").fit_transform(X)  # of rank 7
    np.testing.assert_allclose(linear @ linear.T, X @ X.T, atol=1e-9)
    with pytest.raises(InputError, match="kernel of every landmark of nystroem is zero"):
        inverse_root(np.zeros((3, 3)))
    with pytest.raises(InputError, match="not finite: its values are too large"):
        NystroemFeatures(5, kernel="poly", gamma=1, degree=100).fit(1e9 * X)


def test_rows_far_from_the_origin_keep_their_kernel():
    """Distances from expanded squares would lose 13 digits here."""
    far = X + 1e6
    for model in (NystroemFeatures(300, gamma=0.1), RandomFourierFeatures(30, gamma=0.1)):
        Z, near = model.fit_transform(far), clone(model).fit_transform(X)
        np.testing.assert_allclose(Z @ Z.T, near @ near.T, atol=3e-5 if len(Z.T) == 300 else 1.5)
    np.testing.assert_allclose(Z.shape, (300, 30))


def test_it_agrees_with_nystroem_of_scikit_learn_where_that_takes_the_same_landmarks():
    ours = NystroemFeatures(300, gamma=0.1).fit_transform(X)
    theirs = SklearnNystroem("rbf", gamma=0.1, n_components=300, random_state=0).fit_transform(X)
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-8)


def test_samples_are_distinct_rows_spread_over_the_table_from_few_stretches():
    for n, count in ((10, 10), (1000, 7), (1000, 1000), (200_000, 2048), (200_000, 3), (40, 31)):
        plan = sample_plan(n, count, 5)
        rows = np.concatenate([start + picks for start, _, picks in plan])
        assert len(rows) == count == len(np.unique(rows)) and (np.diff(rows) > 0).all()
        assert all((picks < stop - start).all() and (picks >= 0).all() for start, stop, picks in plan)
        assert len(plan) <= 32 and all(stop <= following for (_, stop, _), (following, *_) in itertools.pairwise(plan))
        quarters = np.histogram(rows, bins=4, range=(0, n))[0]
        assert count < 16 or np.ptp(quarters) <= 0.2 * count
        assert np.array_equal(rows, np.concatenate([start + picks for start, _, picks in sample_plan(n, count, 5)]))


def test_stretches_in_one_chunk_are_read_together():
    plan = sample_plan(100_000, 500, 1)
    for edges in (np.array([0, 100_000]), np.arange(0, 100_001, 10_000), np.arange(0, 100_001, 10)):
        joined = by_chunk(plan, edges)
        assert len(joined) == min(len(edges) - 1, 32)
        rows, expected = (np.concatenate([start + picks for start, _, picks in one]) for one in (joined, plan))
        assert np.array_equal(rows, expected)
        assert all(start + picks.max() < stop for start, stop, picks in joined)


MAPS = {
    "fourier": [Fourier(n_components=37)],
    "nystroem": [Nystroem(n_components=21)],
    "laplacian": [UnitLength(), Nystroem(n_components=15, kernel="laplacian")],
    "two": [UnitLength(), Nystroem(n_components=16, kernel="cosine"), Fourier(n_components=9), UnitLength()],
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "uint8", "csr"])
def test_bits_of_mapped_rows_do_not_depend_on_what_is_read_together(name, kind):
    wide, _ = labelled(1100, 40, 2, seed=3)
    wide = np.abs(np.round(3 * wide))
    rows = rows_in_memory(csr_matrix(wide) if kind == "csr" else wide.astype(kind), np.zeros(1100, int), "X")
    table = fitted(rows, MAPS[name])
    whole = table.read_rows(0, 1100)
    assert whole.dtype == table.dtype == (np.float64 if kind in ("float64", "csr") else np.float32)
    assert not table.sparse and table.row_bytes == whole[0].nbytes and table.n_bytes == whole.nbytes
    assert len(table.feature_names) == table.n_features == whole.shape[1]
    for start, stop in ((0, 1), (255, 257), (256, 512), (1099, 1100), (3, 1000)):
        assert np.array_equal(table.read_rows(start, stop), whole[start:stop])
        assert np.array_equal(table.read_rows(start, stop, np.empty_like(whole[start:stop])), whole[start:stop])
    np.testing.assert_array_equal(table.read_sparse(5, 9).toarray(), whole[5:9])


@pytest.mark.parametrize("name", [*MAPS, "unit"])
def test_bits_do_not_depend_on_the_order_of_an_array_in_memory(name):
    by_row = np.abs(labelled(1100, 40, 2, seed=3)[0])
    for precision in (np.float64, np.float32):
        tables = [
            fitted(rows_in_memory(values, np.zeros(1100, int), "X"), MAPS.get(name, [UnitLength()]))
            for values in (by_row.astype(precision), np.asfortranarray(by_row, precision))
        ]
        for start, stop in ((0, 1100), (0, 1), (255, 257), (256, 512), (3, 1000)):
            assert np.array_equal(*(table.read_rows(start, stop) for table in tables))


def test_dense_and_sparse_rows_and_precisions_agree():
    rows = np.round(X)
    maps = [Nystroem(n_components=30), Fourier(n_components=20)]
    dense, sparse, single = (
        fitted(rows_in_memory(value, Y, "X"), maps).read_rows(0, 300)
        for value in (rows, csr_matrix(rows), rows.astype(np.float32))
    )
    np.testing.assert_allclose(dense, sparse, atol=1e-8)
    np.testing.assert_allclose(dense, single, atol=1e-6)


def test_large_chunks_are_cut_where_mapped_rows_are_wider(monkeypatch):
    monkeypatch.setattr(LIMITS, "unit_bytes", 1 << 20)
    rows = rows_in_memory(np.zeros((20_000, 2), np.uint8), np.zeros(20_000, int), "X")
    table = rows.with_maps([Fourier(n_components=512, gamma=1)])
    sizes = np.diff(table.chunk_edges)
    assert len(rows.chunk_edges) == 2 and sizes.max() * table.row_bytes <= 1 << 20
    assert (sizes[:-1] % MAP_ROWS == 0).all() and sizes.sum() == 20_000
    assert max(len(span.units) for span in make_spans(table)) >= 1
    assert np.array_equal(rows.with_maps([UnitLength()]).chunk_edges, rows.chunk_edges)


def test_bad_rows_are_named_as_they_are_stored():
    bad = X.copy()
    bad[130, 4] = np.nan
    rows = rows_in_memory(bad, Y, "X")
    rows = replace(rows, base=replace(rows.base, feature_names=list("abcdefg")))
    maps = [UnitLength(), Fourier(n_components=3, gamma=1)]
    table = rows.with_maps(maps, [{}, maps[1].fit(None, 7)])
    for one in (table, rows.with_maps([UnitLength()])):
        with pytest.raises(InputError, match=r"Found nan in row 130, column 4 \('e'\), in rows .* of X"):
            one.read_rows(100, 200)
    huge = Nystroem(n_components=2, kernel="poly", gamma=1, degree=9)
    single = rows_in_memory(X.astype(np.float32), Y, "X")
    large = rows_in_memory(1e9 * X.astype(np.float32), Y, "X")
    fit = fitted(single, [huge]).mapped.fits
    with pytest.raises(InputError, match=r"nystroem makes values of row 7, in rows .* that float32 cannot hold"):
        large.with_maps([huge], fit).read_rows(7, 8)
    with pytest.raises(InputError, match=r"nystroem takes 301 landmarks among the rows, and X has 300 rows"):
        rows.with_maps([Nystroem(n_components=301)])


@pytest.mark.parametrize(
    "model", [RandomFourierFeatures(30), NystroemFeatures(30), NystroemFeatures(9, kernel="linear")]
)
def test_transformers_take_what_others_hold_and_stay_lazy(model):
    rows = np.round(X)
    expected = clone(model).fit(rows).transform(rows)
    lazy = da.from_array(rows, (77, 3))
    sparse = lazy.rechunk((77, 7)).map_blocks(csr_matrix, meta=csr_matrix((0, 7)))
    own = clone(model).fit(rows)
    for given in (csr_matrix(rows), lazy, sparse, rows_in_memory(rows, Y, "X"), pd.DataFrame(rows)):
        with_own_fit = clone(model).fit(given).transform(given)
        assert isinstance(with_own_fit, np.ndarray if isinstance(given, csr_matrix | pd.DataFrame) else da.Array)
        np.testing.assert_allclose(np.asarray(with_own_fit), expected, atol=1e-7)
    np.testing.assert_allclose(np.asarray(own.transform(lazy)), expected, atol=1e-7)
    assert np.asarray(own.transform(lazy.astype(np.float32))).dtype == np.float32
    frame = clone(model).set_output(transform="pandas").fit(rows).transform(rows)
    assert frame.columns[0] == f"{type(model).__name__.lower()}0"
    bad = da.from_array(np.where(rows == rows[0, 0], np.nan, rows), (77, 7))
    with pytest.raises(InputError, match="not finite"):
        clone(model).fit(bad)
    assert make_pipeline(clone(model), MarginPCA(2)).fit(rows, Y).transform(rows).shape == (300, 2)


def test_mistaken_parameters():
    for model, message in (
        (RandomFourierFeatures(0), "n_components=0 must be a whole number from 1 to 100000"),
        (RandomFourierFeatures(3, gamma=-1), r"gamma=-1 must be scale, or a number above 0\.$"),
        (RandomFourierFeatures(3, gamma="scales"), r"gamma='scales' must be .* Did you mean 'scale'\?"),
        (NystroemFeatures(3, kernel="rbg"), r"kernel='rbg' must be rbf or .* Did you mean 'rbf'\?"),
        (NystroemFeatures(3, kernel="linear", gamma=2), "gamma is a parameter of rbf and laplacian and poly, and"),
    ):
        with pytest.raises(InputError, match=f"^{type(model).__name__}: {message}"):
            model.fit(X)
    with pytest.warns(UserWarning, match="NystroemFeatures: all 9 rows are landmarks"):
        assert NystroemFeatures().fit_transform(X[:9]).shape[1] <= 9


def test_all_maps_are_registered_and_described():
    assert list(ROW_MAPS) == ["fourier", "nystroem", "log1p", "normalize-total", "unit-length"]
    for kind in ROW_MAPS.values():
        assert len(kind.description) > 10 and kind.options.__doc__


@pytest.mark.parametrize("kernel", list(PARAMETERS))
def test_kernels_mean_what_scikit_learn_means(kernel):
    values = {name: {"gamma": 0.2, "degree": 3, "coef0": 1}[name] for name in PARAMETERS[kernel]}
    expected = [[naive.kernel(a, b, kernel, **values) for b in X[:9]] for a in X[:9]]
    np.testing.assert_allclose(pairwise_kernels(X[:9], metric=kernel, **values), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_counts_are_normalized_as_scanpy_does(dtype, tmp_path):
    """Each row to the same sum, then log(1 + x): stored values alone, so that sparse rows stay sparse."""
    rng = np.random.default_rng(0)
    X = rng.poisson(0.4, (60, 30)).astype(dtype)
    X[7] = 0
    maps = [NormalizeTotal(to=1e4), Log1p()]
    total = X.sum(axis=1, keepdims=True, dtype=float)
    with pytest.raises(InputError, match=r"takes values above -1, and found -1\.5"):
        Log1p().fitted({})(np.asarray([[0.0, -1.5]]))
    with pytest.raises(InputError, match=r"takes counts, and found -0\.5"):
        NormalizeTotal(to=1e4).fitted({})(csr_array(np.asarray([[2.0, -0.5]])))
    expected = np.log1p(X * (1e4 / np.where(total > 0, total, 1)))
    for rows in (rows_in_memory(X, None, "X"), rows_in_memory(csr_array(X), None, "X")):
        found = rows.with_maps(maps)
        assert found.sparse == rows.sparse and found.n_features == 30
        np.testing.assert_allclose(found.read_rows(3, 60), expected[3:], rtol=1e-6)
        if rows.sparse:
            assert found.read_sparse(0, 60).nnz == csr_array(X).nnz
