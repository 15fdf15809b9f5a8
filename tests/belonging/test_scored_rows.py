"""Scores beside the coordinates of transformed rows are those of the model."""

import numpy as np
import pandas as pd
import pytest
import zarr
from helpers.runs import through
from helpers.tables import labelled
from test_scores import run_of

from mmpca_dist import load_model

COLUMNS = ["t2", "q", "nearest_class", "distance", "t2_p", "q_p", "distance_p", "p", "belongs"]


def test_a_file_has_the_columns_of_each_method(tmp_path):
    X, y = labelled(200, 8, 3, 5)
    run_of(tmp_path, X, y, methods=["pca", "fisher"])
    new = X[::3] * 2
    pd.DataFrame(new, columns=[f"f{j}" for j in range(8)]).to_parquet(tmp_path / "new.parquet")
    through(tmp_path / "run", tmp_path / "new.parquet", tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    for method in ("pca", "fisher"):
        expected = load_model(str(tmp_path / "run"), method).belongs(new)
        assert list(expected) == COLUMNS
        for name in COLUMNS:
            own = found[f"{method}_{name}"]
            if own.dtype.kind == "f":
                np.testing.assert_allclose(own, expected[name], rtol=1e-8)
            else:
                assert own.tolist() == expected[name].tolist()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_group_of_one_method_has_plain_names(workers, tmp_path):
    X, y = labelled(200, 8, 3, 5)
    run_of(tmp_path, X, np.array(["a", "b", "c"])[y], methods=["pca"], compute={"workers": workers})
    np.save(tmp_path / "new.npy", X * 2)
    through(tmp_path / "run", tmp_path / "new.npy", tmp_path / "out")
    group = zarr.open_group(tmp_path / "out" / "projected" / "pca.zarr", mode="r")
    expected = load_model(str(tmp_path / "run"), "pca").belongs(X * 2)
    assert {*COLUMNS} <= {*group.array_keys()}
    assert group["nearest_class"][...].tolist() == expected["nearest_class"].tolist()
    assert group["belongs"][...].tolist() == expected["belongs"].tolist()
    np.testing.assert_allclose(group["t2"][...], expected["t2"], rtol=1e-8)


def test_runs_without_belonging_write_coordinates_alone(tmp_path):
    X, y = labelled(100, 5, 2, 5)
    run_of(tmp_path, X, y, methods=["pca"], belonging=None)
    np.save(tmp_path / "new.npy", X)
    through(tmp_path / "run", tmp_path / "new.npy", tmp_path / "out.parquet")
    assert list(pd.read_parquet(tmp_path / "out.parquet")) == ["row", "pca_0", "pca_1", "pca_2"]
