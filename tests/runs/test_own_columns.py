"""Columns that AnnData objects and data frames have beside the rows serve as labels, groups, weights, covariates."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from mmpca_dist import evaluate
from mmpca_dist.errors import InputError

RNG = np.random.default_rng(2)
Y = np.repeat([0, 1, 2], 40)
X = RNG.normal(size=(120, 4)) + 2 * (Y[:, None] == np.arange(4))
BESIDE = pd.DataFrame(
    {
        "cell_type": pd.Categorical(np.array(["a", "b", "c"])[Y]),
        "batch": np.array(list("pqrs"))[np.arange(120) % 4],
        "age": RNG.normal(size=120),
        "w": RNG.random(120) + 0.1,
    },
    index=[f"cell {i}" for i in range(120)],
)
FRAME = pd.DataFrame(X, BESIDE.index, list("abcd"))
ROLES = {
    "groups": {"splits": "groups", "folds": 4, "column": "batch"},
    "covariates": {"covariates": ["batch"]},
    "numbers": {"covariates": ["age"]},
    "weight": {"weight": "w"},
    "balance": {"balance": "batch"},
    "plain": {},
}


def errors(data, y, **settings):
    evaluated = evaluate(data, y, **{"methods": "pca", "n_components": [2], "splits": "folds", **settings})
    return evaluated.errors["mean"].tolist()


def with_columns(settings):
    """Return the rows with the columns that settings name, all of which play a role."""
    named = {name for value in settings.values() for name in (value if isinstance(value, list) else [value])}
    return FRAME.join(BESIDE[[name for name in BESIDE if name in named or name == "cell_type"]])


@pytest.mark.parametrize("settings", ROLES.values(), ids=ROLES)
def test_columns_of_obs_are_those_of_a_frame(settings):
    anndata = pytest.importorskip("anndata")
    wanted = errors(with_columns(settings), "cell_type", **settings)
    dense, sparse = (anndata.AnnData(rows, obs=BESIDE) for rows in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(errors(dense, "cell_type", **settings), wanted, rtol=1e-6)
    np.testing.assert_allclose(errors(sparse, "cell_type", **settings), wanted, rtol=1e-6)
    np.testing.assert_allclose(errors(dense, BESIDE.cell_type, **settings), wanted, rtol=1e-6)


@pytest.mark.parametrize("settings", ROLES.values(), ids=ROLES)
def test_columns_of_a_lazy_frame_are_its_own(settings):
    frame = with_columns(settings)
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    np.testing.assert_allclose(errors(lazy, "cell_type", **settings), errors(frame, "cell_type", **settings), rtol=1e-6)


def test_numbers_to_predict_are_a_column():
    anndata = pytest.importorskip("anndata")
    frame = FRAME.join(BESIDE[["age"]])
    settings = {"methods": "pls", "n_components": [1], "splits": "folds", "target": "age"}
    wanted = evaluate(frame, **settings).errors["mean"].tolist()
    for data in (dd.from_pandas(frame, npartitions=3, sort=False), anndata.AnnData(X, obs=BESIDE)):
        np.testing.assert_allclose(evaluate(data, **settings).errors["mean"].tolist(), wanted, rtol=1e-6)


def test_partitions_count_as_what_they_hold():
    frame = pd.DataFrame((40 * np.abs(X)).astype("uint8"), columns=list("abcd"))
    lazy = dd.from_pandas(frame, npartitions=3).map_partitions(lambda part: part / 255, meta=frame)
    wanted = errors((frame / 255).assign(y=Y), "y")
    assert errors(lazy.assign(y=dd.from_pandas(pd.Series(Y), npartitions=3)), "y") == wanted


def test_columns_that_are_absent_are_named(tmp_path):
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(X, obs=BESIDE)
    with pytest.raises(InputError, match=r"no column 'bach' .*Did you mean 'batch'"):
        errors(data, "cell_type", covariates=["bach"])
    with pytest.raises(InputError, match="no column 'cell' in obs"):
        errors(data, "cell")
    with pytest.raises(InputError, match="needs the labels"):
        errors(data, None)
    folder = str(tmp_path / "kept")
    assert errors(data, "cell_type", folder=folder) == errors(data, "cell_type", folder=folder)
    assert list(data.obs.columns) == list(BESIDE.columns)
