"""Covariates that tell the class only together: what follows from the classes is refused by name, in folds too."""

import numpy as np
import pandas as pd
import pytest
from helpers.tables import config_of, write_parquet

from mmpca_dist import PLS, FisherDiscriminant, MarginPCA, evaluate, run
from mmpca_dist.errors import InputError

RNG = np.random.default_rng(5)
N = 240
Y = np.arange(N) % 2
T = np.arange(N) % 3
Z = RNG.normal(size=N)
W = RNG.normal(size=N)


def levels(codes, *names):
    return np.asarray(names)[codes]


PART = RNG.integers(0, 2, N)
CROSSED = {"p": levels(PART, *"uv"), "q": levels(PART ^ Y, *"st"), "r": 2.0 * (PART & Y)}
TOGETHER = {
    "a sum with the class": (Y, {"z1": Z, "z2": Z + Y}, "'z1', 'z2'"),
    "units that differ by far": (Y, {"z1": 1e6 + Z, "z2": 1e-6 * (Z - 3 * Y)}, "'z1', 'z2'"),
    "three of them": (T, {"z1": Z, "z2": W, "z3": Z - 2 * W + 5 * T}, "'z1', 'z2', 'z3'"),
    "beside one that is free": (Y, {"z1": Z, "free": W, "z2": Z + Y}, "'z1', 'z2'"),
    "nested batches": (Y, {"batch": levels(PART + 2 * Y, "a1", "a2", "b1", "b2")}, "'batch'"),
    "nested batches of three classes": (T, {"batch": levels(PART + 2 * T, *"abcdef")}, "'batch'"),
    "two of three classes share": (T, {"batch": levels(PART + 2 * (T == 2), *"abcd")}, "'batch'"),
    "an indicator and a number": (Y, {"site": levels(PART, "u", "v"), "dose": 2.0 * PART + Y}, "'site', 'dose'"),
    "factors that cross": (Y, CROSSED, "'p', 'q', 'r'"),
}


@pytest.mark.parametrize("case", list(TOGETHER))
@pytest.mark.parametrize("columns", [4, 300])
def test_covariates_that_tell_the_class_together_are_refused(case, columns):
    y, covariates, names = TOGETHER[case]
    X = RNG.normal(size=(N, columns)) + Z[:, None]
    design = pd.get_dummies(pd.DataFrame(covariates), dtype=float)
    design = (design - design.mean()) / design.std()
    within = design - design.groupby(y).transform("mean")
    assert np.linalg.matrix_rank(within.to_numpy(), 1e-5) < np.linalg.matrix_rank(design.to_numpy(), 1e-5)
    match = f"covariates? {names}.*follow from the classes.*Leave out"
    with pytest.raises(InputError, match=match.replace("covariates? 'batch'", "categories of the covariate 'batch'")):
        MarginPCA(2).fit(X, y, covariates=pd.DataFrame(covariates))


FINE = {
    "collinear in all rows": {"z1": Z, "z2": 3 * Z + 1},
    "nearly collinear": {"z1": Z, "z2": Z + 1e-4 * W},
    "far from zero": {"z1": 1e8 + Z, "z2": W + Y},
    "one level in one class": {"batch": levels(np.where(Y == 1, PART, PART + (W > 0)), *"abc")},
    "categories that are the same twice": {"p": levels(PART, *"uv"), "q": levels(PART, *"st")},
    "nearly the class": {"z1": Y + 1e-3 * Z},
}


@pytest.mark.parametrize("case", list(FINE))
def test_what_can_be_told_apart_is_removed_as_by_least_squares(case):
    covariates = pd.DataFrame(FINE[case])
    X = RNG.normal(size=(N, 4)) + Z[:, None] + PART[:, None]
    found = FisherDiscriminant(1).fit(X, Y, covariates=covariates)
    design = pd.get_dummies(covariates, dtype=float)
    design = ((design - design.mean()) / design.std()).to_numpy()
    whole = np.column_stack([Y == 0, Y == 1, design]).astype(float)
    V = X - design @ np.linalg.lstsq(whole, X, rcond=1e-10)[0][2:]
    expected = FisherDiscriminant(1, precision="double").fit(V, Y)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-5)


def test_numbers_to_predict_are_told_together_too():
    y = W + 0.1 * RNG.normal(size=N)
    with pytest.raises(InputError, match="covariates 'z1', 'z2' together follow from the targets"):
        PLS(1, target="continuous").fit(RNG.normal(size=(N, 4)), y, covariates=pd.DataFrame({"z1": Z, "z2": Z + y}))


def test_runs_and_folds_refuse_them_as_well(tmp_path):
    X = RNG.normal(size=(N, 4))
    nested = levels(np.where(np.arange(N) < 4, 0, PART) + 2 * Y, "a1", "a2", "b1", "b2")
    uri = write_parquet(tmp_path / "t.parquet", X, Y, batch=nested)
    config = config_of(tmp_path / "out", uri, dataset={"covariates": ["batch"]}, methods=["m-pca0"], n_components=2)
    with pytest.raises(InputError, match="'batch' follow from the classes"):
        run(config)
    mixed = nested.copy()
    mixed[0] = "b1"  # one row alone ties the batches of both classes; folds that hold it out cannot
    table = pd.DataFrame(X).add_prefix("x").assign(batch=mixed)
    with pytest.raises(InputError, match="'batch' follow from the classes"):
        evaluate(table, Y, covariates=["batch"], methods=["fisher"], n_components=[1])
