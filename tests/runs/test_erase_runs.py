"""Runs that erase the classes: projected rows, of every kind of table, have no covariance with them."""

import naive_scatters
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from helpers.tables import config_of, write_npz

from mmpca_dist import Callback, ConceptEraser, load_model, open_dataset, run, transform
from mmpca_dist.errors import InputError

N, D = 600, 8
RNG = np.random.default_rng(0)
Y, AGE = np.arange(N) % 3, RNG.standard_normal(N)
X = RNG.standard_normal((N, D)) @ RNG.standard_normal((D, D)) + RNG.standard_normal((3, D))[Y] + 5
COLUMNS = [f"c{i}" for i in range(D)]

pytestmark = pytest.mark.usefixtures("no_report")


class Notes(Callback):
    def __init__(self):
        self.notes = []

    def on_note(self, text):
        self.notes.append(text)


def projected(tmp_path, uri, dataset=None, callback=None, **changes):
    """Run, and return the erased rows that the run wrote."""
    config = config_of(tmp_path / "out", uri, methods=["pca", "erase", "fisher"], dataset=dataset or {}, **changes)
    run(config, [callback] if callback else None)
    written = open_dataset(f"{config.output}/projected/erase.zarr")
    return written.read_rows(0, written.n_rows), config.output


def left(Z, rows, y=Y):
    after, before = (np.linalg.norm(naive_scatters.concept_covariance(each, y)) for each in (Z, rows))
    return after / before


@pytest.mark.parametrize(
    "changes", [{}, {"standardize": True}, {"class_weight": {0: 2, 1: 3}}, {"solver": {"kind": "krylov"}}], ids=str
)
def test_written_rows_are_those_of_the_model(changes, tmp_path, several_units):
    Z, output = projected(tmp_path, write_npz(tmp_path / "rows.npz", X, Y), **changes)
    model = load_model(output, "erase")
    np.testing.assert_allclose(Z, model.transform(X), rtol=1e-12, atol=1e-12)
    weights = np.asarray([2.0, 3.0, 1.0])[Y] if "class_weight" in changes else np.ones(N)
    after, before = (np.linalg.norm(naive_scatters.concept_covariance(each, Y, weights)) for each in (Z, X))
    assert after < 1e-14 * before and Z.shape == X.shape
    transform(output, tmp_path / "rows.npz", tmp_path / "new", methods=["erase"])
    again = open_dataset(str(tmp_path / "new" / "projected" / "erase.zarr")).read_rows(0, N)
    np.testing.assert_array_equal(again, Z)


def test_single_precision_leaves_its_rounding(tmp_path):
    """Rows are written in float32: a mean of 600 roundings of rows of 5, of 3e-7 each, next to a covariance of 1."""
    Z, _ = projected(tmp_path, write_npz(tmp_path / "rows.npz", X, Y), precision="single")
    assert Z.dtype == np.float32 and left(Z.astype(float), X) < 1e-6


def test_fewer_rows_than_columns(tmp_path):
    wide = RNG.standard_normal((30, 90)) + 2 * RNG.standard_normal((3, 90))[Y[:30]]
    Z, _ = projected(tmp_path, write_npz(tmp_path / "rows.npz", wide, Y[:30]))
    assert left(Z, wide, Y[:30]) < 1e-14


@pytest.mark.parametrize("kind", ["covariates", "gaps"])
def test_rows_that_are_adjusted(kind, tmp_path):
    frame = pd.DataFrame(X, columns=COLUMNS).assign(y=Y)
    if kind == "covariates":
        frame[COLUMNS] += AGE[:, None] * np.arange(D)
        frame["age"], dataset, expected = AGE, {"label": "y", "covariates": ["age"]}, X
    else:
        frame.loc[3:30, "c2"] = np.nan
        dataset, expected = {"label": "y", "missing": "mean"}, frame[COLUMNS].fillna(frame[COLUMNS].mean()).to_numpy()
    frame.to_parquet(tmp_path / "rows.parquet")
    Z, output = projected(tmp_path, tmp_path / "rows.parquet", dataset)
    assert left(Z, expected) < 1e-13
    np.testing.assert_allclose(load_model(output, "erase").transform(frame.drop(columns="y")), Z, atol=1e-12)


def test_sparse_rows_become_dense_and_a_note_says_so(tmp_path):
    anndata, rows = pytest.importorskip("anndata"), np.where(X > 6, X, 0)
    labels = pd.DataFrame({"y": Y.astype(str)}, index=[str(i) for i in range(N)])
    anndata.AnnData(scipy.sparse.csr_matrix(rows), obs=labels).write_h5ad(tmp_path / "rows.h5ad")
    heard = Notes()
    Z, _ = projected(tmp_path, tmp_path / "rows.h5ad", {"label": "y"}, heard)
    assert left(Z, rows) < 1e-13 and any("dense" in note for note in heard.notes)
    expected = ConceptEraser(precision="double").fit(scipy.sparse.csr_array(rows), Y).transform(rows)
    np.testing.assert_allclose(Z, expected, atol=1e-11)


def test_belonging_of_erased_rows_is_refused(tmp_path):
    with pytest.raises(InputError, match="belonging scores rows by their components, and erase keeps all columns"):
        projected(tmp_path, write_npz(tmp_path / "rows.npz", X, Y), belonging={"alpha": 0.1})
