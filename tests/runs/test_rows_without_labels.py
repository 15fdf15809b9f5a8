"""Rows of one class, or without labels: what needs no classes runs, and other methods are refused by name."""

import numpy as np
import pandas as pd
import pytest
import zarr
from helpers.reports import check_page
from helpers.runs import through
from helpers.tables import labelled
from scipy.sparse import csr_array

from mmpca_dist import MarginPCA, load_model, run
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.runs.compare_page import compare_page
from mmpca_dist.runs.compare_runs import compare_runs
from mmpca_dist.runs.evaluate import evaluate

METHODS = ["pca", "random-projection", "all-columns"]


def run_of(folder, **settings):
    X, _ = labelled(200, 6, 2, 5)
    pd.DataFrame(X, columns=[f"f{j}" for j in range(6)]).to_parquet(folder / "rows.parquet")
    dataset = {"uri": str(folder / "rows.parquet"), "label": "none", **settings.pop("dataset", {})}
    settings = {"methods": METHODS, "n_components": 3, "precision": "double"} | settings
    return X, run({"dataset": dataset, "output": str(folder / "run"), **settings})


@pytest.mark.parametrize("maps", [[], ["unit-length"]])
def test_a_run_without_labels_is_that_of_pca(maps, tmp_path):
    X, result = run_of(tmp_path, dataset={"maps": maps}, belonging={"alpha": 0.05, "scores": ["t2", "q"]})
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if maps else X
    model = load_model(str(tmp_path / "run"), "pca")
    centred = rows - rows.mean(axis=0)
    expected = np.linalg.svd(centred, full_matrices=False)[2][:3]
    np.testing.assert_allclose(np.abs(model.components_ @ expected.T), np.eye(3), atol=1e-9)
    projected = zarr.open_group(tmp_path / "run" / "projected" / "pca.zarr", mode="r")
    assert sorted(projected.array_keys()) == ["X", "row"]
    assert result["count"]["counts"] == [200]
    found = model.belongs(rows)
    assert list(found) == ["t2", "q", "t2_p", "q_p", "p", "belongs"]
    through(tmp_path / "run", tmp_path / "rows.parquet", tmp_path / "out.parquet", methods=["pca"])
    written = pd.read_parquet(tmp_path / "out.parquet")
    np.testing.assert_allclose(written["q"], found["q"], rtol=1e-8, atol=1e-12)


def test_pages_of_rows_without_labels_speak_of_no_classes(tmp_path):
    """Their first sentence is about the scatter that components hold; so is that of a comparison."""
    run_of(tmp_path, methods=METHODS[:2])
    page = check_page((tmp_path / "run" / "report" / "index.html").read_text())
    shares = [load_model(str(tmp_path / "run"), name) for name in METHODS[:2]]
    first, other = (model.eigenvalues_[:2].sum() / model.total_ for model in shares)
    told = f"PCA holds most of the scatter of the rows: {first:.0%} along its first two components"
    assert f"{told} (of the other method, {other:.0%})" in page.text
    for word in ("Classes", "classes most", "1 classes", "by its class", "between classes", "its outcome"):
        assert word not in page.text
    points = page.data["points"]
    assert points["groups"] == [{"name": "", "labels": [], "ranks": []}] and points["strips"] is None
    run_of(tmp_path, methods=METHODS[:2], output=str(tmp_path / "other"), n_components=2)
    (found,) = compare_runs([str(tmp_path / name) for name in ("run", "other")])
    text = check_page(compare_page([found])).text
    assert "holds most of the scatter" in text and "separates" not in text


def test_methods_that_need_classes_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"m-pca0, fisher: needs labels, and dataset\.label is none"):
        run_of(tmp_path, methods=["pca", "m-pca0", "fisher"])
    with pytest.raises(InputError, match="n_components: auto"):
        run_of(tmp_path, methods=["pca"], n_components="auto")
    with pytest.raises(ConfigError, match="leave out unlabelled"):
        run_of(tmp_path, dataset={"unlabelled": "skip"})


def test_an_evaluation_without_labels_is_refused(tmp_path):
    run_of(tmp_path)
    settings = {"methods": METHODS, "n_components": 3, "output": str(tmp_path / "e")}
    with pytest.raises(InputError, match="mmpca evaluate: needs labels"):
        evaluate({"dataset": {"uri": str(tmp_path / "rows.parquet"), "label": "none"}, **settings})


def test_estimators_take_rows_alone():
    X, y = labelled(200, 6, 2, 5)
    other = MarginPCA(3, "pca").fit(X, y)
    for rows in (X, csr_array(X), pd.DataFrame(X), X.tolist()):
        own = MarginPCA(3, "pca").fit(rows)
        np.testing.assert_allclose(np.abs(own.components_ @ other.components_.T), np.eye(3), atol=1e-5)
    with pytest.raises(ValueError, match="requires y"):
        MarginPCA(3, "m-pca0").fit(X)
