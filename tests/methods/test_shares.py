"""A share in the place of a number of components: as many as hold it, in estimators, runs and evaluations."""

import dask.array as da
import naive
import numpy as np
import pytest
import scipy.sparse
from helpers.tables import labelled
from sklearn.model_selection import KFold

from mmpca_dist import (
    PLS,
    ConceptEraser,
    LassoSelection,
    LogisticDiscriminant,
    MarginPCA,
    ScatterContrast,
    evaluate,
    load_model,
    run,
)
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.methods.margin_pca import VARIANTS
from mmpca_dist.results.evaluation_result import stored_table

SHARES = (0.3, 0.7, 0.95, 0.999)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(60, 7), (20, 31)], ids=["tall", "wide"])
def test_the_fewest_components_that_hold_the_share(variant, shape):
    X, y = labelled(*shape, 3, seed=1)
    rows = naive.ROWS[variant](X, y, "one-vs-rest")
    full = MarginPCA(None, variant, precision="double").fit(X, y)
    for share in SHARES:
        found = MarginPCA(share, variant, precision="double").fit(X, y)
        assert found.n_components_ == len(found.components_) == naive.components_holding(rows, share)
        np.testing.assert_array_equal(found.components_, full.components_[: found.n_components_])
        assert found.transform(X).shape == (len(X), found.n_components_)


def test_of_dask_sparse_and_in_pieces():
    X, y = labelled(90, 6, 3, seed=2)
    expected = naive.components_holding(naive.pca_rows(X, y), 0.8)
    model = MarginPCA(0.8, "pca", precision="double")
    assert model.fit(da.from_array(X, (20, -1)), y).n_components_ == expected
    assert model.fit(scipy.sparse.csr_array(X), y).n_components_ == expected
    pieces = MarginPCA(0.8, "pca", precision="double").partial_fit(X[:40], y[:40])
    assert pieces.partial_fit(X[40:], y[40:]).n_components_ == expected


def test_runs_and_evaluations_take_shares(tmp_path):
    X, y = labelled(90, 6, 3, seed=3)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    output, methods = str(tmp_path / "out"), ["pca", "m-pca0", "all-columns"]
    settings = {"dataset": {"uri": str(tmp_path / "rows.npz")}, "methods": methods, "precision": "double"}
    fitted = run({**settings, "n_components": [0.5, 0.9], "output": output})
    rows = {"pca": naive.pca_rows, "m-pca0": naive.mpca0_rows}
    for method, make in rows.items():
        expected = naive.components_holding(make(X, y), 0.9)
        assert load_model(output, method).n_components_ == fitted.methods.loc[method, "components"] == expected
    parts = list(KFold(3, shuffle=True, random_state=0).split(X))
    result = evaluate(X, y, methods=methods[:2], n_components=[0.5, 0.9], cv=parts, precision="double")
    lines = stored_table(RunDirectory(result.folder), "errors").to_pandas()
    for method, make in rows.items():
        for share in (0.5, 0.9):
            used = lines[(lines["method"] == method) & (lines["n_components"] == share)]["used"].tolist()
            assert used == [naive.components_holding(make(X[train], y[train]), share) for train, _ in parts]
    assert sorted(result.errors["n_components"].unique()) == [0.5, 0.9, 6.0]


def test_where_no_share_is_known_it_is_refused(tmp_path):
    X, y = labelled(60, 5, 3, seed=4)
    for number in (1.0, 0.0, 1.5, -0.5):
        with pytest.raises(InputError, match="must be a whole number of at least 1, or a share between 0 and 1"):
            MarginPCA(number).fit(X, y)
    for model in (LassoSelection(0.9), LogisticDiscriminant(0.9)):
        with pytest.raises(InputError, match=r"n_components=0.9 is a share, and \w+ knows none: give a whole"):
            model.fit(X, y)
    with pytest.raises(InputError, match=r"share of what ScatterContrast is about, and its total is not known"):
        ScatterContrast(0.9, A="total", B="within", a=1.5).fit(X, y)
    with pytest.raises(InputError, match=r"share of what PLS is about, and its 5 components hold 0\.\d+ of it"):
        PLS(0.999).fit(X, y)
    with pytest.raises(InputError, match="solver='krylov' needs n_components as a number"):
        MarginPCA(0.9, solver="krylov").fit(X, y)
    assert ConceptEraser(0.9).fit(X, y).transform(X).shape == X.shape, "its number of components has no effect"
    settings = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca", "lasso"], "output": str(tmp_path / "out")}
    with pytest.raises(ConfigError, match=r"0\.9 is a share, and LassoSelection knows none: give a whole"):
        run({**settings, "n_components": 0.9})
