"""Rows as other libraries hold them: columns checked by name, results lazy, the numbers those of rows in memory."""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from helpers.tables import labelled, write_csr, write_zarr
from scipy.sparse import csr_array
from sklearn.base import clone

from mmpca_dist import (
    LOL,
    PLS,
    FisherDiscriminant,
    FisherScore,
    LassoSelection,
    MarginPCA,
    NearestOpposite,
    RandomProjection,
    RidgeDirections,
    SupervisedPCA,
    class_moments,
    open_dataset,
    to_anndata,
)
from mmpca_dist.errors import InputError

NAMES = list("abcde")
N = 90
ESTIMATORS = {
    "pca": MarginPCA(2, "pca"), "m-pca0": MarginPCA(2), "m-pca1b": MarginPCA(2, "m-pca1b"),
    "m-pca2": MarginPCA(2, "m-pca2"), "fisher": FisherDiscriminant(2), "hsic": SupervisedPCA(2), "lol": LOL(2),
    "pls": PLS(2), "ridge": RidgeDirections(2), "lasso": LassoSelection(2), "fisher-score": FisherScore(2),
    "random": RandomProjection(2),
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("several_units")


def rows():
    return labelled(N, 5, 3, seed=3)


def frames(columns=None):
    """Return a data frame in memory and the same as Dask has it, and the labels of both."""
    X, y = rows()
    frame = pd.DataFrame(X, columns=NAMES, index=np.arange(N) * 10)
    frame = frame if columns is None else frame[columns]
    return frame, dd.from_pandas(frame, npartitions=4), y


def check_the_same(found, rows, expected, X):
    """Compare a fit and its lazy projection with those of the rows in memory."""
    np.testing.assert_allclose(np.abs(found.components_), np.abs(expected.components_), atol=2e-6)
    Z = found.transform(rows)
    assert dask.is_dask_collection(Z), "transform must stay lazy"
    assert isinstance(Z, da.Array)
    np.testing.assert_allclose(Z.compute(), found.transform(X), atol=1e-10)


CHANGES = {
    "reordered": lambda frame: frame[NAMES[::-1]],
    "missing": lambda frame: frame[NAMES[:4]],
    "unexpected": lambda frame: frame.assign(f=1.0),
    "renamed": lambda frame: frame.rename(columns={"b": "z"}),
}


def test_columns_of_dask_frames_are_checked_in_scikit_learns_words():
    """Reordered columns used to give wrong numbers."""
    frame, lazy, y = frames()
    for method, kind in (("transform", MarginPCA(2)), ("partial_fit", MarginPCA(2)), ("kneighbors", NearestOpposite())):
        arguments = () if method == "transform" else (y,)
        of_lazy, of_frame = clone(kind).fit(lazy, y), clone(kind).fit(frame, y)
        assert of_lazy.feature_names_in_.tolist() == NAMES
        for change in CHANGES.values():
            with pytest.raises(InputError) as found:
                getattr(of_lazy, method)(change(lazy), *arguments)
            with pytest.raises(ValueError) as expected:
                getattr(of_frame, method)(change(frame), *arguments)
            assert str(found.value) == str(expected.value)


def test_frames_in_memory_and_of_dask_check_one_another():
    frame, lazy, y = frames()
    with pytest.raises(InputError, match="feature names should match"):
        MarginPCA(2).fit(frame, y).transform(lazy[NAMES[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        MarginPCA(2).fit(lazy, y).transform(frame[NAMES[::-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        MarginPCA(2).fit(lazy, y).transform(da.from_array(frame.to_numpy(), (20, 5)))
    other = MarginPCA(2).fit(lazy, y).fit(da.from_array(frame.to_numpy(), (20, 5)), y)
    assert not hasattr(other, "feature_names_in_"), "a new fit forgets the names of the one before"


def test_names_that_are_no_strings_are_no_names():
    """As scikit-learn has it; they used to become strings."""
    frame, _, y = frames()
    numbered = dd.from_pandas(frame.set_axis(range(5), axis=1), npartitions=3)
    assert not hasattr(MarginPCA(2).fit(numbered, y), "feature_names_in_")
    mixed = dd.from_pandas(frame.set_axis(["a", 1, 2, 3, 4], axis=1), npartitions=3)
    with pytest.raises(InputError, match="all input features have string names"):
        MarginPCA(2).fit(mixed, y)


def test_columns_of_several_types_are_their_numbers():
    frame, _, y = frames()
    frame = (frame * 10).round().assign(c=frame["c"] > 3, e=frame["e"] > 3)
    frame = frame.astype({"a": "int8", "b": "Int64", "c": "boolean", "d": "float32", "e": bool})
    lazy = dd.from_pandas(frame, npartitions=3)
    expected = MarginPCA(2, precision="double").fit(frame, y)
    found = MarginPCA(2, precision="double").fit(lazy, y)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10)
    np.testing.assert_allclose(found.transform(lazy).compute(), expected.transform(frame), atol=1e-9)
    gap = frame.copy()
    gap.loc[200, "b"] = pd.NA
    with pytest.raises(InputError, match=r"^MarginPCA: Found nan in row 20, column 'b', in rows .* of the Dask"):
        MarginPCA(2).fit(dd.from_pandas(gap, npartitions=3), y)
    with pytest.raises(InputError, match="Column 'a' of X has type"):
        MarginPCA(2).fit(dd.from_pandas(frame.assign(a="text"), npartitions=3), y)


@pytest.mark.parametrize("kind", ["frame", "array", "dataset"])
def test_results_stay_lazy_under_set_output(kind):
    frame, lazy, y = frames()
    X = {"frame": lazy, "array": da.from_array(frame.to_numpy(), (20, 5)), "dataset": open_dataset("bundled:iris")}[
        kind
    ]
    y = None if kind == "dataset" else y
    reducer = MarginPCA(2).set_output(transform="default")
    plain = reducer.fit_transform(X, y)
    assert isinstance(plain, da.Array)
    for Z in (reducer.set_output(transform="pandas").transform(X), reducer.fit_transform(X, y)):
        assert isinstance(Z, dd.DataFrame)
        assert Z.columns.tolist() == reducer.get_feature_names_out().tolist()
        computed = Z.compute()
        np.testing.assert_array_equal(computed.to_numpy(), plain.compute())
        if kind == "frame":
            assert computed.index.tolist() == frame.index.tolist()
    back = reducer.inverse_transform(reducer.transform(X))
    np.testing.assert_array_equal(np.asarray(back), np.asarray(reducer.inverse_transform(plain)))


@pytest.mark.parametrize("variant", ["m-pca0", "m-pca1b", "m-pca2"])
def test_fits_of_equal_parameters_are_told_apart_by_dask(variant):
    """By what was fitted, also when one estimator is fitted again."""
    X, y = labelled(60, 5, 3, seed=2)
    rows, scaled = da.from_array(X, (30, 5)), X * np.linspace(0.1, 9, 5)
    first, second = (MarginPCA(2, variant).fit(table, y) for table in (X, scaled))
    expected = [first.transform(X), second.transform(X)]
    lazy = [first.transform(rows), second.transform(rows)]
    first.fit(scaled, y)
    np.testing.assert_array_equal(dask.compute(*lazy), expected)
    model, projected = dask.compute(second, lazy[1])
    np.testing.assert_array_equal(model.components_, second.components_)
    np.testing.assert_array_equal(projected, expected[1])


def test_polars_has_no_lazy_form():
    pytest.importorskip("polars", reason="only then can set_output ask for it")
    _, lazy, y = frames()
    reducer = MarginPCA(2).set_output(transform="polars").fit(lazy, y)
    with pytest.raises(InputError, match="polars, which has no lazy form"):
        reducer.transform(lazy)


def test_partial_fit_takes_dask_pieces():
    frame, lazy, y = frames()
    labels = dd.from_pandas(pd.Series(y, index=frame.index), npartitions=4)
    pieces = MarginPCA(2, precision="double")
    for part, names in ((lazy.partitions[:2], labels.partitions[:2]), (lazy.partitions[2:], labels.partitions[2:])):
        pieces.partial_fit(part, names)
    expected = MarginPCA(2, precision="double").fit(frame, y)
    np.testing.assert_allclose(pieces.components_, expected.components_, atol=1e-10)


@pytest.fixture
def stored(tmp_path):
    X, y = rows()
    return open_dataset(write_zarr(tmp_path / "a.zarr", X, y, 7))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_takes_a_dataset(name, stored):
    X, y = rows()
    found, expected = (clone(ESTIMATORS[name]).fit(*given) for given in ((stored,), (X, y)))
    check_the_same(found, stored, expected, X)
    np.testing.assert_array_equal(found.classes_, expected.classes_)


def test_a_dataset_under_other_labels_and_targets(stored):
    X, y = rows()
    other = np.asarray(["ant", "bee"])[(X[:, 0] > 3).astype(int)]
    found = MarginPCA(2, precision="double").fit(stored, other)
    assert found.classes_.tolist() == ["ant", "bee"]
    np.testing.assert_allclose(
        found.components_, MarginPCA(2, precision="double").fit(X, other).components_, atol=1e-10
    )
    targets = X[:, :2] @ np.asarray([[1.0, 2.0], [0.5, -1.0]])
    for reducer in (SupervisedPCA(2, target="continuous"), PLS(2, target="continuous")):
        found = clone(reducer).fit(stored, targets)
        np.testing.assert_allclose(found.components_, clone(reducer).fit(X, targets).components_, atol=1e-10)
        with pytest.raises(InputError, match="give continuous targets as y"):
            clone(reducer).fit(stored)
    with pytest.raises(InputError, match="has 90 rows and 89 labels; there must be one a row"):
        MarginPCA(2).fit(stored, y[:89])


def test_a_dataset_of_csr_rows_is_projected_in_its_units(tmp_path):
    X = csr_array(np.maximum(np.random.default_rng(0).standard_normal((60, 8)), 0.5) - 0.5)
    write_csr(tmp_path / "s.zarr", (X.data, X.indices, X.indptr), X.shape, labels=np.arange(60) % 2)
    dataset = open_dataset(tmp_path / "s.zarr")
    reducer = MarginPCA(2, center=True).fit(dataset)
    Z = reducer.transform(dataset)
    assert isinstance(Z, da.Array)
    np.testing.assert_allclose(Z.compute(), reducer.transform(X), atol=1e-12)


def test_a_dataset_has_its_names_checked(tmp_path):
    frame, lazy, y = frames()
    frame.assign(label=y).to_parquet(tmp_path / "a.parquet", index=False)
    dataset = open_dataset(tmp_path / "a.parquet")
    reducer = MarginPCA(2).fit(dataset)
    assert reducer.feature_names_in_.tolist() == NAMES
    with pytest.raises(InputError, match="feature names should match"):
        reducer.transform(lazy[NAMES[::-1]])
    np.testing.assert_allclose(reducer.transform(lazy).compute(), reducer.transform(dataset).compute())


@pytest.mark.parametrize("kind", ["dask", "frame", "dataset"])
def test_neighbors_of_rows_that_are_read_piece_by_piece(kind, stored):
    frame, lazy, y = frames()
    X = {"dask": da.from_array(frame.to_numpy(), (13, 5)), "frame": lazy, "dataset": stored}[kind]
    search = NearestOpposite().fit(frame if kind == "frame" else frame.to_numpy(), y)
    found = search.kneighbors(X, None if kind == "dataset" else y)
    expected = search.kneighbors(frame if kind == "frame" else frame.to_numpy(), y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_neighbors_need_classes():
    frame, lazy, _ = frames()
    for X in (frame, lazy):
        with pytest.raises(InputError, match="labels y are None"):
            NearestOpposite().fit(X)


@pytest.mark.parametrize("chunks", [None, (13, 5), (20, 2)], ids=["memory", "rows", "columns"])
def test_xarray(chunks):
    xr = pytest.importorskip("xarray", reason="its objects are taken only where it is installed")
    X, y = rows()
    array = xr.DataArray(X, dims=("cell", "gene"), coords={"gene": NAMES})
    labels = xr.DataArray(y, dims=("cell",))
    table = xr.Dataset({name: ("cell", X[:, i]) for i, name in enumerate(NAMES)})
    if chunks:
        array, labels = array.chunk(dict(zip(array.dims, chunks, strict=True))), labels.chunk(cell=9)
        table = table.chunk(cell=13)
    expected = MarginPCA(2, precision="double").fit(X, y)
    for given in (array, table):
        found = MarginPCA(2, precision="double").fit(given, labels)
        assert found.feature_names_in_.tolist() == NAMES
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10)
        Z = found.transform(given)
        values = Z.data if isinstance(given, xr.DataArray) else Z
        assert isinstance(values, da.Array if chunks else np.ndarray)
        np.testing.assert_allclose(np.asarray(Z), expected.transform(X), atol=1e-10)
        np.testing.assert_array_equal(class_moments(given, labels, precision="double").counts, np.bincount(y))
    with pytest.raises(ValueError, match="feature names should match"):
        found.transform(array.isel(gene=slice(None, None, -1)))
    with pytest.raises(InputError, match="two: rows, then columns"):
        found.fit(array.expand_dims("batch"), labels)
    with pytest.raises(InputError, match=r"same one dimension. Pass one array of rows: dataset\[name\]"):
        found.fit(xr.Dataset({"X": array, "y": labels}), labels)


@pytest.mark.parametrize("lazy", [False, True])
def test_xarray_keeps_the_labels_of_rows_and_columns(lazy):
    """Places of a map that were stacked to columns come back as a map; other estimators take what is returned."""
    xr = pytest.importorskip("xarray", reason="its objects are taken only where it is installed")
    X = np.random.default_rng(0).standard_normal((30, 4, 5))
    coordinates = {"time": np.arange(30) + 1990, "lat": [4, 3, 2, 1], "lon": np.arange(5) * 10.0}
    maps = xr.DataArray(X, dims=tuple(coordinates), coords={**coordinates, "season": ("time", np.arange(30) % 4)})
    rows = (maps.chunk(time=7) if lazy else maps).stack(place=("lat", "lon"))
    model = MarginPCA(3, "pca", center=True).fit(rows, maps["season"].values)
    Z = model.transform(rows)
    assert Z.dims == ("time", "component") and Z["season"].values.tolist() == maps["season"].values.tolist()
    back = pickle.loads(pickle.dumps(model)).inverse_transform(Z).unstack("place")  # noqa: S301
    assert back.dims == ("time", "lat", "lon") and back["lat"].values.tolist() == [4, 3, 2, 1]
    expected = model.inverse_transform(np.asarray(Z)).reshape(X.shape)
    np.testing.assert_allclose(back.values, expected, atol=1e-12)
    assert model.inverse_transform(np.asarray(Z)).shape == (30, 20)
    plain = MarginPCA(3, "pca", center=True).fit(X.reshape(30, 20), maps["season"].values)
    assert plain.inverse_transform(Z).dims == ("time", "feature")
    assert isinstance(plain.set_output(transform="pandas").transform(rows), pd.DataFrame) or lazy


@pytest.mark.parametrize("dims", [("rows", "columns"), ("columns", "rows"), ("component", "feature")])
@pytest.mark.parametrize("labelled", [True, False])
def test_xarray_may_have_any_names(dims, labelled):
    xr = pytest.importorskip("xarray", reason="its objects are taken only where it is installed")
    X = np.random.default_rng(0).standard_normal((30, 4))
    labels = {dims[0]: np.arange(30), dims[1]: list("abcd"), "run": 3} if labelled else {}
    rows = xr.DataArray(X, dims=dims, coords=labels)
    model = MarginPCA(2, "pca").fit(rows, np.arange(30) % 3)
    later = rows.assign_coords(run=4)  # a label of all rows, which tells nothing of columns
    Z = model.transform(later)
    assert Z.dims[0] == dims[0] and len(set(Z.dims)) == 2
    back = model.inverse_transform(Z)
    assert back.dims == dims and back["run"] == 4 and set(back.coords) == {*labels, "run"}
    swapped = model.inverse_transform(Z.rename({dims[0]: dims[1], Z.dims[1]: "score"}))
    assert swapped.dims[0] == dims[1] and len(set(swapped.dims)) == 2


@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "dask", "dask-csr"])
def test_anndata(kind):
    anndata = pytest.importorskip("anndata", reason="its objects are taken only where it is installed")
    X, y = rows()
    X = np.where(X > 2, X, 0)
    matrix = {
        "dense": lambda: X, "csr": lambda: csr_array(X), "csc": lambda: csr_array(X).tocsc(),
        "dask": lambda: da.from_array(X, (13, 5)), "dask-csr": lambda: da.from_array(X, (13, 5)).map_blocks(csr_array),
    }[kind]()  # fmt: skip
    obs = pd.DataFrame(
        {"kind": pd.Categorical(np.asarray(["ant", "bee", "cat"])[y])}, index=[f"cell{i}" for i in range(N)]
    )
    data = anndata.AnnData(matrix, obs=obs, var=pd.DataFrame(index=NAMES))
    expected = MarginPCA(2, precision="double").fit(X, y)
    for labels in ("kind", y, obs["kind"]):
        found = MarginPCA(2, precision="double").fit(data, labels)
        assert found.feature_names_in_.tolist() == NAMES
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)
    Z = found.transform(data)
    assert isinstance(Z, da.Array if "dask" in kind else np.ndarray)
    np.testing.assert_allclose(np.asarray(Z), expected.transform(X), atol=1e-9)
    assert to_anndata(data, {"m-pca0": found}) is data
    np.testing.assert_array_equal(data.obsm["X_m-pca0"], np.asarray(Z))
    np.testing.assert_array_equal(data.varm["m-pca0"], found.components_.T)
    np.testing.assert_array_equal(data.uns["m-pca0"]["eigenvalues"], found.eigenvalues_)
    with pytest.raises(InputError, match=r"must name the fitted reducers: \{'m-pca0': model\}; it is a MarginPCA"):
        to_anndata(data, found)
    assert found.fit(data, "kind").classes_.tolist() == ["ant", "bee", "cat"]
    with pytest.raises(ValueError, match="feature names should match"):
        found.transform(data[:, ::-1])
    with pytest.raises(InputError, match=r"no column 'kin' in obs\. Did you mean 'kind'"):
        found.fit(data, "kin")
    np.testing.assert_array_equal(class_moments(data, "kind").counts, np.bincount(y))
