"""Text that says that a row has no label says so in every format, and so do the words of the setting."""

import numpy as np
import pandas as pd
import pytest
import zarr

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.tables.compose import open_rows

N = 40
X = np.random.default_rng(0).normal(size=(N, 3))
WORDS = np.asarray(["NA", "b", "", "c", " nan ", "b", "?", "c"])[np.arange(N) % 8]
FRAME = pd.DataFrame({"text": WORDS, "levels": pd.Categorical(WORDS)}, index=[f"r{i}" for i in range(N)])


def stored(form, path):
    match form:
        case "h5ad" | "zarr of AnnData":
            table = pytest.importorskip("anndata").AnnData(X, obs=FRAME)
            (table.write_h5ad if form == "h5ad" else table.write_zarr)(path)
            return (
                {"text": "text", "levels": "levels"} if form == "h5ad" else {"text": "obs/text", "levels": "obs/levels"}
            )
        case "parquet":
            pd.DataFrame(X, columns=list("uvw")).assign(**{"text": WORDS}).to_parquet(path)
            return {"text": "text"}
        case "npz":
            np.savez(path, X=X, y=WORDS)
            return {"text": "y"}
        case "npy":
            np.save(path, X)
            np.save(f"{path}.labels.npy", WORDS)
            return {"text": f"{path}.labels.npy"}
    group = zarr.open_group(path, mode="w", zarr_format=int(form[-1]))
    group.create_array("X", data=X)
    group.create_array("text", shape=N, dtype=str, chunks=7)[...] = WORDS
    return {"text": "text"}


SUFFIXES = {"h5ad": ".h5ad", "parquet": ".parquet", "npz": ".npz", "npy": ".npy"}
FORMS = ["zarr 2", "zarr 3", "zarr of AnnData", "h5ad", "parquet", "npz", "npy"]


@pytest.mark.parametrize("form", FORMS)
def test_words_for_missing_are_no_labels(form, tmp_path):
    path = str(tmp_path / f"t{SUFFIXES.get(form, '.zarr')}")
    for label in stored(form, path).values():
        with pytest.raises(InputError, match=r"Row 0 has no label|missing value"):
            open_dataset(path, label=label).read_labels(0, N)
        dataset = open_dataset(path, label=label, unlabelled="skip")
        names = dataset.read_labels(0, dataset.n_rows)
        assert dict(zip(*np.unique(names, return_counts=True), strict=True)) == {"?": 5, "b": 10, "c": 10}
        dataset = open_dataset(path, label=label, unlabelled="skip", missing_values=["?"])
        assert dataset.n_rows == 20


@pytest.mark.parametrize("form", ["zarr 3", "h5ad"])
def test_columns_beside_the_rows_have_the_same_words(form, tmp_path):
    path = str(tmp_path / f"t{SUFFIXES.get(form, '.zarr')}")
    name = stored(form, path)["text"]
    _, there = open_rows(path).column(name, "covariates").read(0, 8)
    assert there.tolist() == [False, True, False, True, False, True, True, True]
