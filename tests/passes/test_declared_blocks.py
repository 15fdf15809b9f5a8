"""Blocks of a Dask array count as what they hold, whatever type the array declares, or they are refused."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from mmpca_dist import PLS, MarginPCA, NearestOpposite, RandomFourierFeatures, class_moments, evaluate
from mmpca_dist.errors import InputError

RNG = np.random.default_rng(3)
Y = np.repeat([0, 1, 2], 20)
X = RNG.normal(size=(60, 4)) + 3 * (Y[:, None] == np.arange(4))
NAMES = np.array(["a", "cat", "mouse"])
LAZY = da.from_array(X, (15, 4))


def declared(values, dtype, chunks=20):
    """Return a Dask array that declares another type than its blocks have."""
    array = da.from_array(values, (chunks, *values.shape[1:]))
    return array.map_blocks(lambda block: block, dtype=dtype, meta=np.empty((0,) * values.ndim, dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "bool", "float32"])
@pytest.mark.parametrize(
    "use",
    [
        lambda rows: MarginPCA(2).fit(rows, Y),
        lambda rows: MarginPCA(2).partial_fit(rows, Y),
        lambda rows: MarginPCA(1, "m-pca1b").fit(rows, Y),
        lambda rows: MarginPCA(2, missing="mean").fit(rows, Y),
        lambda rows: MarginPCA(2).fit(X, Y).transform(rows).compute(),
        lambda rows: class_moments(rows, Y),
        lambda rows: NearestOpposite().fit(rows, Y),
        lambda rows: RandomFourierFeatures(3).fit(rows),
        lambda rows: evaluate(rows, Y, methods="pca", n_components=[1]),
    ],
    ids=["fit", "partial_fit", "m-pca1b", "missing", "transform", "class_moments", "nearest", "features", "evaluate"],
)
def test_rows_that_the_type_cannot_hold_are_refused(use, dtype):
    with pytest.raises(InputError, match=rf"declares {dtype}, and a block of it holds float64.*X.astype\('float64'\)"):
        use(declared(X, dtype))


@pytest.mark.parametrize(("held", "dtype"), [("float64", "int64"), ("int64", "uint8"), ("int16", "float32")])
def test_rows_that_the_type_holds_are_read(held, dtype):
    whole = np.abs(np.rint(9 * X))
    fitted = MarginPCA(2, precision="double").fit(declared(whole.astype(held), dtype), Y)
    plain = MarginPCA(2, precision="double").fit(da.from_array(whole.astype(dtype), (20, 4)), Y)
    np.testing.assert_allclose(fitted.components_, plain.components_, atol=1e-10)


def test_gaps_in_rows_declared_whole_numbers_are_refused_by_name():
    rows = declared(np.where(X > 4, np.nan, np.rint(X)), "int64")
    with pytest.raises(InputError, match=r"declares int64.*float64"):
        MarginPCA(2, missing="mean").fit(rows, Y)
    MarginPCA(2, missing="mean").fit(rows.astype(float), Y)


def test_frames_whose_partitions_are_other_numbers_than_declared():
    frame = pd.DataFrame((40 * np.abs(X)).astype("uint8"), columns=list("abcd"))
    mixed = frame.assign(a=frame.a.astype("int64"))
    for table in (frame, mixed):
        lazy = dd.from_pandas(table, npartitions=3).map_partitions(lambda part: part / 255, meta=table)
        with pytest.raises(InputError, match="holds float64"):
            evaluate(lazy, Y, methods="pca", n_components=[1])
        fitted = MarginPCA(2).fit(lazy.astype(float), Y)
        np.testing.assert_allclose(fitted.components_, MarginPCA(2).fit(table / 255, Y).components_, atol=1e-6)


@pytest.mark.parametrize("weight", [None, np.r_[0.0, np.ones(59)]], ids=["", "weighted"])
@pytest.mark.parametrize("dtype", ["U1", "U0", "S1", object])
@pytest.mark.parametrize("chunks", [15, 20, 7])
def test_text_is_as_wide_as_it_is(dtype, chunks, weight):
    y = declared(NAMES[Y], dtype, chunks)
    assert MarginPCA(2).fit(LAZY, y, sample_weight=weight).classes_.tolist() == NAMES.tolist()
    assert class_moments(LAZY, y, sample_weight=weight).classes.tolist() == NAMES.tolist()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [(Y + 1, "bool"), (NAMES[Y], "int64"), (Y - 1, "uint8"), (Y + 0.5, "int64"), (Y + 2**53 + 1, "float32")],
)
def test_labels_that_the_type_cannot_hold_are_refused(values, dtype):
    for use in (MarginPCA(2).fit, class_moments, NearestOpposite().fit, MarginPCA(2).partial_fit):
        with pytest.raises(InputError, match=f"y is a Dask array that declares {dtype}"):
            use(LAZY, declared(values, dtype))


@pytest.mark.parametrize("weight", [None, np.r_[0.0, np.ones(59)]], ids=["", "weighted"])
@pytest.mark.parametrize(
    ("values", "dtype"), [(Y + 300, "int8"), (Y + 2**60, "int32"), (np.float64(Y) + 2**31, "int32")]
)
def test_whole_numbers_are_as_wide_as_they_are(values, dtype, weight):
    for chunks in (7, 15, 20):
        fitted = MarginPCA(2).fit(LAZY, declared(values, dtype, chunks), sample_weight=weight)
        assert fitted.classes_.tolist() == np.unique(values).tolist()


def test_targets_and_weights_are_not_cut():
    with pytest.raises(InputError, match="y is a Dask array that declares int64"):
        PLS(1, target="continuous").fit(LAZY, declared(Y + 0.5, "int64"))
    with pytest.raises(InputError, match="sample_weight is a Dask array that declares int64"):
        MarginPCA(2).fit(LAZY, Y, sample_weight=declared(Y + 0.5, "int64"))


@pytest.fixture
def frame():
    frame = pd.DataFrame(X, columns=list("abcd"))
    return frame.assign(y=Y, w=RNG.random(60) + 0.1, i=np.arange(60))


@pytest.mark.parametrize("n", [0, 7, 25])
def test_weights_are_a_column_of_the_same_frame(frame, n):
    lazy = dd.from_pandas(frame, npartitions=4)
    part, some = lazy[lazy.i >= n] if n else lazy, frame[frame.i >= n]
    wanted = class_moments(some[list("abcd")], some.y, sample_weight=some.w)
    for y, w in [(part.y, part.w), (some.y.to_numpy(), part.w), (part.y, some.w.to_numpy()), (part.y, part.w.values)]:
        moments = class_moments(part[list("abcd")], y, sample_weight=w)
        np.testing.assert_allclose(moments.means, wanted.means, rtol=1e-6)
        np.testing.assert_allclose(moments.counts, wanted.counts)
    fitted = MarginPCA(2).fit(part[list("abcd")], part.y, sample_weight=part.w)
    np.testing.assert_allclose(
        fitted.components_, MarginPCA(2).fit(some[list("abcd")], some.y, sample_weight=some.w).components_, atol=1e-6
    )


def test_columns_of_other_rows_are_refused(frame):
    lazy = dd.from_pandas(frame, npartitions=4)
    rows, others = lazy[lazy.i >= 7], lazy[lazy.i < 53]
    with pytest.raises(InputError, match="another number of rows"):
        MarginPCA(2).fit(rows[list("abcd")], others.y)


def test_blocks_of_objects_are_read_as_the_numbers_that_they_hold():
    wanted = MarginPCA(2, "pca", precision="double").fit(X, Y).eigenvalues_
    for declared in (np.empty((0, 0)), np.empty((0, 0), object)):
        rows = da.from_array(X, (20, -1)).map_blocks(lambda b: b.astype(object), meta=declared)
        np.testing.assert_allclose(MarginPCA(2, "pca", precision="double").fit(rows, Y).eigenvalues_, wanted)
        words = rows.map_blocks(lambda b: np.where(b > 1, "x", b), meta=declared)
        with pytest.raises(InputError, match=r"such as .* must hold numbers"):
            MarginPCA(2, "pca").fit(words, Y)


def test_blocks_of_another_shape_are_refused():
    rows = da.from_array(X, (20, -1))
    narrow = rows.map_blocks(lambda b: b[:, :-1], meta=np.empty((0, 0)))
    model = MarginPCA(2).fit(X, Y)
    for use in (lambda: MarginPCA(2).fit(narrow, Y), lambda: model.transform(narrow).compute()):
        with pytest.raises(InputError, match=r"declares blocks of shape \(n, \d+\), and one has the shape"):
            use()
    with pytest.raises(InputError, match=r"sample_weight is a Dask array of shape \(\)"):
        MarginPCA(2).fit(rows, Y, sample_weight=da.from_array(np.asarray(2.0)))


def test_partitions_that_are_not_those_declared_are_refused_in_a_sentence():
    frame = pd.DataFrame(X).set_axis([f"c{j}" for j in range(X.shape[1])], axis=1)
    lazy = dd.from_pandas(frame, npartitions=3)
    for turned in (lambda p: p[p.columns[::-1]], lambda p: p.rename(columns={"c0": "q"})):
        rows = lazy.map_partitions(turned, meta=frame.iloc[:0])
        for use in (lambda rows=rows: MarginPCA(2).fit(rows, Y), lambda rows=rows: evaluate(rows, Y, methods="pca")):
            with pytest.raises(InputError, match="Dask cannot compute the blocks of X: The columns"):
                use()
