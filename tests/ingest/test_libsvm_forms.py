"""LIBSVM text with indices from 0, with columns that new rows lack, and with numbers to predict."""

import numpy as np
import pandas as pd
import pytest
from helpers.ingested import ingest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file, load_wine

import mmpca_dist
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.errors import InputError
from mmpca_dist.runs.check import check
from mmpca_dist.runs.draft import suggested_yaml
from mmpca_dist.tables.compose import open_dataset

X, Y = load_wine(return_X_y=True)


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_rows_are_those_of_scikit_learn(zero_based, share, tmp_path):
    rows = X * (np.random.default_rng(0).random(X.shape) < share)
    dump_svmlight_file(rows, Y, str(tmp_path / "a.svm"), zero_based=zero_based)
    ingest(tmp_path / "a.svm", tmp_path / "a.zarr", dtype="float64")
    expected, _ = load_svmlight_file(str(tmp_path / "a.svm"))
    np.testing.assert_allclose(open_dataset(tmp_path / "a.zarr").read_rows(0, len(X)), expected.toarray())
    assert check(str(tmp_path / "a.svm")).n_features == 13


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("predicts", [True, False])
@pytest.mark.parametrize("lacking", [[], [12], [0], [0, 12], [9, 10, 11, 12], list(range(12))])
def test_new_rows_lack_columns_that_are_zero(lacking, zero_based, predicts, tmp_path):
    """A file that has neither the first column nor the last one does not tell where it begins: the run does."""
    y = Y + np.random.default_rng(0).random(len(Y)) if predicts else Y
    new = X[:40].copy()
    new[:, lacking] = 0
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=zero_based)
    dump_svmlight_file(new, y[:40], str(tmp_path / "b.svm"), zero_based=zero_based)
    (tmp_path / "a.yaml").write_text(suggested_yaml(check(str(tmp_path / "a.svm"))), encoding="utf-8")
    output = str(tmp_path / "run")
    mmpca_dist.run(load_config(tmp_path / "a.yaml", {"output": output, "methods": ["pca"], "n_components": [2]}))
    mmpca_dist.transform(output, str(tmp_path / "b.svm"), str(tmp_path / "b.parquet"))
    expected = mmpca_dist.load_model(output, "pca", 2).transform(new.astype(np.float32))
    np.testing.assert_allclose(
        pd.read_parquet(tmp_path / "b.parquet").filter(like="pca"), expected, rtol=1e-4, atol=1e-3
    )
    mmpca_dist.refresh(output, str(tmp_path / "b.svm"), str(tmp_path / "live"))


def test_more_columns_than_the_model_has_are_refused(tmp_path):
    dump_svmlight_file(X[:, :10], Y, str(tmp_path / "a.svm"), zero_based=False)
    dump_svmlight_file(X, Y, str(tmp_path / "b.svm"), zero_based=False)
    (tmp_path / "a.yaml").write_text(suggested_yaml(check(str(tmp_path / "a.svm"))), encoding="utf-8")
    output = str(tmp_path / "run")
    mmpca_dist.run(load_config(tmp_path / "a.yaml", {"output": output, "methods": ["pca"], "n_components": [2]}))
    with pytest.raises(InputError, match="13 features, but the run was fitted to 10"):
        mmpca_dist.transform(output, str(tmp_path / "b.svm"), str(tmp_path / "b.parquet"))
