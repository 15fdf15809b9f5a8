"""Arrays of other kinds than users usually give: read as what they are, or refused in a sentence of this project."""

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from mmpca_dist import (
    PLS,
    FisherDiscriminant,
    KernelProjectionPenaltyClassifier,
    MarginPCA,
    NearestOpposite,
    evaluate,
    open_dataset,
)
from mmpca_dist.errors import InputError

RNG = np.random.default_rng(5)
Y = np.repeat([0, 1, 2], 20)
X = RNG.normal(size=(60, 4)) + 3 * (Y[:, None] == np.arange(4))
NAMES = np.array(["ox", "cat", "é"])
AGES = RNG.normal(size=60)
LAZY = da.from_array(X, (20, 4))


@pytest.mark.parametrize(
    "y",
    [
        NAMES[Y].astype(np.dtypes.StringDType()),
        np.char.encode(NAMES[Y], "utf-8"),
        np.char.encode(NAMES[Y], "utf-8").astype(object),
        [name.encode() for name in NAMES[Y]],
        pa.array(NAMES[Y]),
        pa.chunked_array([NAMES[Y][:20], NAMES[Y][20:]]),
        da.from_array(np.char.encode(NAMES[Y], "utf-8"), 7),
        np.asmatrix(NAMES[Y]).T,
    ],
    ids=["StringDType", "bytes", "objects of bytes", "a list of bytes", "Arrow", "Arrow in chunks", "Dask", "a matrix"],
)
def test_labels_in_other_types_of_text(y):
    for fit in (MarginPCA(2).fit, NearestOpposite().fit):
        assert fit(X, y).classes_.tolist() == sorted(NAMES)
    assert MarginPCA(2).fit(LAZY, y).classes_.tolist() == sorted(NAMES)


@pytest.mark.parametrize("names", [["a", "a\0"], [b"a", b"a\0"], ["", "\0"]])
def test_names_that_arrays_of_text_do_not_tell_apart_are_refused(names):
    for y in (names * 30, np.array(names * 30, object), pd.Series(names * 30)):
        with pytest.raises(InputError, match="lose NUL characters"):
            MarginPCA(1).fit(X, y)
    with pytest.raises(InputError, match="lose NUL characters"):
        MarginPCA(1).fit(X, Y, covariates=np.array(names * 30, object))


def test_numbers_beyond_64_bits():
    with pytest.raises(InputError, match="beyond 64 bits"):
        MarginPCA(1).fit(X, [2**70, 1] * 30)
    assert MarginPCA(1).fit(X, [2**63 + 1, 2**63] * 30).classes_.tolist() == [2**63, 2**63 + 1]
    large = X.astype(object)
    large[:, 0] = [2**70 + int(value * 2**69) for value in X[:, 0]]
    wanted = MarginPCA(1, standardize=True, precision="double").fit(large.astype(float), Y).components_
    for rows in (large, pd.DataFrame(large), pd.DataFrame(large).assign(t="u")):
        fitted = MarginPCA(1, standardize=True, precision="double").fit(rows, Y)
        np.testing.assert_allclose(fitted.components_[:, :4], wanted, atol=1e-9)


def test_a_matrix_is_an_array():
    wanted = MarginPCA(2).fit(X, Y, covariates=AGES)
    fitted = MarginPCA(2).fit(np.asmatrix(X), np.asmatrix(Y).T, covariates=np.asmatrix(AGES).T)
    assert np.array_equal(fitted.components_, wanted.components_)
    assert type(fitted.transform(np.asmatrix(X), AGES)) is np.ndarray


@pytest.mark.parametrize("lazy", [dask.delayed(list)(Y), dask.bag.from_sequence(Y.tolist())], ids=["Delayed", "Bag"])
def test_collections_without_a_shape_are_refused(lazy):
    for use in (
        lambda: MarginPCA(2).fit(X, lazy),
        lambda: MarginPCA(2).fit(LAZY, lazy),
        lambda: MarginPCA(2).fit(lazy, Y),
        lambda: MarginPCA(2).fit(X, Y, sample_weight=lazy),
        lambda: evaluate(X, lazy, methods="pca"),
    ):
        with pytest.raises(InputError, match=r"of Dask, whose shape is not known: pass \w+\.compute\(\)"):
            use()


@pytest.mark.parametrize(
    "Z", [np.ones((3, 3)), np.ones(3), da.ones((3, 1)), sp.csr_array((3, 3)), np.array([["a", "b"]]), pd.DataFrame(X)]
)
def test_projections_of_another_width_are_refused(Z):
    with pytest.raises(InputError, match=r"must hold numbers of shape \(n_samples, 2\)"):
        MarginPCA(2).fit(X, Y).inverse_transform(Z)


@pytest.mark.parametrize("form", [sp.csr_array, sp.coo_matrix, sp.csc_array, np.asmatrix, pd.DataFrame, pa.table])
def test_projections_in_other_forms_go_back(form):
    model = MarginPCA(2).fit(X, Y)
    Z = model.transform(X)
    given = pa.table({"a": Z[:, 0], "b": Z[:, 1]}) if form is pa.table else form(Z)
    np.testing.assert_allclose(model.inverse_transform(given), model.inverse_transform(Z))


def test_tables_of_arrow_are_data_frames():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(sex=["u", "v"] * 30)
    table, options = pa.Table.from_pandas(frame), {"methods": "pca", "n_components": [1], "splits": "folds"}
    wanted = evaluate(frame, Y, **options).errors["mean"].tolist()
    assert evaluate(table, Y, **options).errors["mean"].tolist() == wanted
    named = table.append_column("y", pa.array(Y))
    assert evaluate(named, "y", **options).errors["mean"].tolist() == wanted
    with pytest.raises(InputError, match="no column 'z'"):
        evaluate(named, "z", **options)
    ages = pa.table({"age": AGES})
    fitted = MarginPCA(2).fit(table, pa.array(Y), covariates=ages)
    assert np.array_equal(fitted.components_, MarginPCA(2).fit(frame, Y, covariates=AGES).components_)
    assert np.array_equal(fitted.transform(table, ages), fitted.transform(frame, ages.to_pandas()))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.coo_matrix])
def test_values_of_sparse_rows_that_are_not_finite_are_named(form, value):
    rows = np.where(X > 1, X, 0)
    rows[17, 2] = value
    model, given = MarginPCA(2).fit(X, Y), form(rows)
    shown = "NaN" if np.isnan(value) else "inf"
    for use in (
        lambda: MarginPCA(2).fit(given, Y),
        lambda: model.transform(given),
        lambda: FisherDiscriminant().fit(given, Y),
        lambda: NearestOpposite().fit(given, Y),
        lambda: KernelProjectionPenaltyClassifier().fit(given, Y),
    ):
        with pytest.raises(InputError, match=f"column 2 of X has {shown} in row 17") as error:
            use()
        assert "HistGradientBoosting" not in str(error.value)
        assert "missing" not in str(error.value)


@pytest.mark.parametrize("kind", ["numbers", "names"])
def test_lazy_rows_are_transformed_with_their_covariates(kind, tmp_path):
    np.savez(tmp_path / "rows.npz", X=X, y=Y)
    covariates = AGES if kind == "numbers" else np.array(["u", "v"])[(AGES > 0).astype(int)]
    model = MarginPCA(2, precision="double").fit(X, Y, covariates=covariates)
    wanted = model.transform(X, covariates)
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=4)
    for rows in (LAZY, frame.values, open_dataset(str(tmp_path / "rows.npz"))):
        Z = model.transform(rows, covariates)
        assert isinstance(Z, da.Array)
        np.testing.assert_allclose(Z.compute(), wanted, atol=1e-12)
    Z = MarginPCA(2, precision="double").fit_transform(LAZY, Y, covariates=covariates)
    np.testing.assert_allclose(np.abs(Z.compute()), np.abs(wanted), atol=1e-7)
    with pytest.raises(InputError, match="one for each of 60 rows"):
        model.transform(LAZY, covariates[:5])
    with pytest.raises(InputError, match="was fitted without covariates"):
        MarginPCA(2).fit(X, Y).transform(LAZY, covariates)


def test_lazy_targets_of_whole_numbers_are_doubles():
    fitted = PLS(1, target="continuous").fit(LAZY, da.from_array(Y, 7))
    np.testing.assert_allclose(fitted.components_, PLS(1, target="continuous").fit(X, Y).components_, atol=1e-6)


def test_decimals_that_are_whole_numbers_are_labels():
    y = pa.array(Y.tolist()).cast(pa.decimal128(19, 0))
    assert MarginPCA(2).fit(X, y).classes_.tolist() == [0, 1, 2]
