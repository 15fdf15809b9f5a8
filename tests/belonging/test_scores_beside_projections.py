"""Scores that are taken from the product of a projection, against those of the rows."""

import numpy as np
import pytest
import zarr
from helpers.tables import labelled, write_zarr
from test_scores import run_of

from mmpca_dist import load_model, transform
from mmpca_dist.runs import scored_rows

METHODS = ["pca", "fisher", {"name": "bm2pca", "max_iter": 3}]


@pytest.mark.parametrize(("standardize", "shift"), [(False, 0), (False, 100), (True, 100)])
@pytest.mark.parametrize(("precision", "near"), [("double", 1e-9), ("single", 1e-3)])
def test_scores_beside_projected_rows_are_those_of_the_rows(precision, near, standardize, shift, tmp_path):
    X, y = labelled(300, 8, 2, 5)
    X = (X + shift).astype("f4")
    run_of(tmp_path, X, y, methods=METHODS, precision=precision, standardize=standardize, evaluation={"folds": 2})
    new = np.concatenate([X[:40], X[:40] + np.float32(3)])
    target = str(tmp_path / "scored.zarr")
    transform(str(tmp_path / "run"), write_zarr(tmp_path / "new.zarr", new, np.zeros(80, int), 30), target)
    found = zarr.open_group(target, mode="r")
    for method in ("pca", "fisher", "bm2pca"):
        model = load_model(str(tmp_path / "run"), method)
        columns = model.belongs(new.astype(float))
        for name in ("t2", "q", "distance"):
            own = found[f"{method}_{name}"][:]
            np.testing.assert_allclose(own, columns[name], rtol=near, atol=near * columns[name].mean(), err_msg=name)
        p = np.abs(found[f"{method}_p"][:] - columns["p"])
        assert p.max() < (1e-12 if precision == "double" else 0.05)
        names = [name.startswith(method) for name in found.attrs["feature_names"]]
        expected = model.transform(new.astype(float))
        np.testing.assert_allclose(found["X"][:][:, names], expected, atol=near * 1e-2 * np.abs(expected).max())


def test_rows_nearly_in_the_span_are_scored_in_double(tmp_path, monkeypatch):
    """In single precision Q is lost where components hold nearly all of a row."""
    X, y = labelled(300, 8, 2, 5)
    X = np.concatenate([X[:, :3] * 1e3, X[:, 3:]], axis=1)
    run_of(tmp_path, X, y, methods=["pca"], precision="single")
    monkeypatch.setattr(scored_rows.Beside, "of_rows", None)
    transform(str(tmp_path / "run"), str(tmp_path / "rows.zarr"), str(tmp_path / "scored.zarr"))
    q = zarr.open_group(str(tmp_path / "scored.zarr"), mode="r")["q"][:]
    np.testing.assert_allclose(q, load_model(str(tmp_path / "run"), "pca").belongs(X)["q"], rtol=1e-9)
