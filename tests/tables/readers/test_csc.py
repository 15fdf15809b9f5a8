"""Rows that are stored by columns are read as the same rows stored by rows, band by band."""

import pickle

import numpy as np
import pytest
from helpers.h5ad_files import write_h5ad
from helpers.tables import counts_like_text, write_csr
from scipy.sparse import csc_array, csr_array

from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.errors import InputError
from mmpca_dist.ingest.job import ingest
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.tables.readers import csc

(DATA, INDICES, INDPTR), X, Y = counts_like_text(200, 30, 3, 1)
COLUMNS = csc_array(X)


def stored(folder, kind, by_columns=True, data=COLUMNS.data, indices=COLUMNS.indices):
    if kind == "h5ad":
        obs = {"cell_type": (np.array(["a", "b", "c"])[Y], "text")}
        rows = csc_array((data, indices, COLUMNS.indptr), X.shape) if by_columns else csr_array(X)
        return write_h5ad(folder / f"{by_columns}.h5ad", rows, obs), "cell_type"
    parts = (data, indices, COLUMNS.indptr) if by_columns else (DATA, INDICES, INDPTR)
    form = "csc_matrix" if by_columns else "csr_matrix"
    return write_csr(folder / f"{by_columns}.zarr", parts, X.shape, labels=Y, form=form), None


@pytest.mark.parametrize("band", [1 << 30, 40 * 300, 40])
@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_bands_of_rows_are_those_of_the_matrix(tmp_path, kind, band, limits, monkeypatch):
    """One band, several, and one for each row; pieces that end within a column; any order of reading."""
    monkeypatch.setattr(csc, "PIECE", 17)
    uri, label = stored(tmp_path, kind)
    rows = open_dataset(uri, label=label)
    limits.turned_bytes = band
    for start, stop in [(0, 200), (0, 20), (20, 150), (150, 200), (3, 4), (7, 7), (100, 160)]:
        np.testing.assert_array_equal(rows.read_sparse(start, stop).toarray(), X[start:stop])
        copy = pickle.loads(pickle.dumps(rows))  # noqa: S301  (as tasks are sent)
        np.testing.assert_array_equal(copy.read_sparse(start, stop).toarray(), X[start:stop])


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_a_run_is_that_of_the_same_rows(tmp_path, kind):
    found = []
    for by_columns in (True, False):
        uri, label = stored(tmp_path, kind, by_columns)
        section = {"uri": uri, "label": label}
        output = str(tmp_path / f"out-{by_columns}")
        found.append(
            load_model(
                run({"dataset": section, "methods": "m-pca0", "n_components": 3, "output": output}).folder, "m-pca0"
            )
        )
    np.testing.assert_array_equal(found[0].components_, found[1].components_)


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_what_is_too_large_for_a_run_is_ingested(tmp_path, kind, limits):
    uri, label = stored(tmp_path, kind)
    limits.turned_bytes = 40 * 100
    with pytest.raises(
        InputError, match=r"stored by columns \(CSC\), and has .* values, too many .*'mmpca ingest .* rows.zarr'"
    ):
        open_dataset(uri, label=label)
    target = str(tmp_path / "rows.zarr")
    ingest(IngestConfig(source=uri, destination=target, label=label), lambda done, total: None, lambda note: None)
    rows = open_dataset(target)
    np.testing.assert_array_equal(rows.read_sparse(0, 200).toarray(), X)
    assert rows.read_labels(0, 200).tolist() == (Y if label is None else np.array(["a", "b", "c"])[Y]).tolist()


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_damaged_columns_are_refused(tmp_path, kind):
    outside = COLUMNS.indices.copy()
    outside[5] = 200
    twice = COLUMNS.indices.copy()
    twice[1] = twice[0]
    for number, (indices, words) in enumerate(
        [(outside, "has a value in row 200, and 200 rows"), (twice, "has column .* twice")]
    ):
        (tmp_path / str(number)).mkdir()
        uri, label = stored(tmp_path / str(number), kind, indices=indices)
        with pytest.raises(InputError, match=words):
            open_dataset(uri, label=label).read_sparse(0, 200)
