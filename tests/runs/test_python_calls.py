"""``run``, ``evaluate``, ``transform`` and ``refresh`` from Python: rows in memory, data frames, a Dask client."""

import gc
import tempfile
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import polars as pl
import pytest
import xarray as xr
from distributed import Client, LocalCluster
from helpers.runs import model_hash
from scipy.sparse import csr_array
from sklearn.datasets import load_iris

from mmpca_dist import MarginPCA, RunConfig, evaluate, open_dataset, refresh, run, transform
from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.configuration.held_out_sections import EvaluationConfig
from mmpca_dist.errors import ConfigError, InputError, OutputError
from mmpca_dist.runs.evaluate_settings import EvaluateSettings

X, Y = load_iris(return_X_y=True, as_frame=True)
ROWS = X.to_numpy()
FOLDS = {"methods": ["pca", "m-pca0"], "n_components": [1, 2], "splits": "folds", "folds": 5, "margins": False}
SPECIES = np.asarray(["setosa", "versicolor", "virginica"])[Y]
CONFIG = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca0"], "n_components": 2}


def configured(output):
    return {
        **{key: CONFIG[key] for key in ("dataset", "methods")},
        "n_components": [1, 2],
        "evaluation": {"splits": "folds", "folds": 5, "margins": False},
        "output": str(output),
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return evaluate(configured(tmp_path_factory.mktemp("evaluated"))).errors


FORMS = {
    "frame": lambda: (X, Y),
    "array": lambda: (ROWS, SPECIES),
    "polars": lambda: (pl.from_pandas(X.assign(kind=SPECIES)), "kind"),
    "csr": lambda: (csr_array(ROWS), Y),
    "dask": lambda: (da.from_array(ROWS, (40, 2)), da.from_array(SPECIES, 30)),
    "dask frame": lambda: (dd.from_pandas(X.assign(label=SPECIES), npartitions=3), "label"),
    "dask csr": lambda: (da.from_array(ROWS, (40, -1)).map_blocks(csr_array), Y.to_numpy()),
    "xarray": lambda: (xr.DataArray(ROWS, dims=("row", "column")), Y),
}


@pytest.mark.parametrize("form", [*list(FORMS)[:1], *(pytest.param(name, marks=pytest.mark.e2e) for name in FORMS)])
def test_rows_in_memory_have_the_errors_of_rows_in_files(form, expected):
    found = evaluate(*FORMS[form](), **FOLDS)
    np.testing.assert_array_equal(found.errors["mean"], expected["mean"])
    assert found.best["mean"] == found.errors["mean"].min() and str(found).startswith(found.summary)
    assert f"with {found.recommended['used']} component" in found.summary and found.recommended["method"] == "pca"
    folder = Path(found.folder)
    page = found._repr_html_()
    assert folder.exists() and str(folder) in page and "<table" in page and f"{found.best['mean']:.1f}" in page
    del found
    gc.collect()
    assert not folder.parent.exists(), "a temporary folder lasts as long as the result"


def test_editors_complete_the_settings_of_evaluate():
    sections = {"dataset", "evaluation", "project", "belonging", "refresh", "output"}  # the last is ``folder``
    of_files = {"uri", "data_dir", "missing_chunks", "moments"}
    keys = (RunConfig.model_fields.keys() - sections) | (DatasetConfig.model_fields.keys() - of_files)
    assert EvaluateSettings.__annotations__.keys() == keys | EvaluationConfig.model_fields.keys() | {"cv", "groups"}


def test_frames_may_hold_text_gaps_and_groups_and_what_is_wrong_is_told(tmp_path):
    frame = X.assign(colour=np.where(Y == 2, "red", "blue"), plant=np.arange(150) % 30, kind=SPECIES)
    frame.iloc[3, 0] = np.nan
    options = {"methods": "m-pca0", "n_components": 2, "margins": False, "missing": "mean"}
    found = evaluate(frame, "kind", splits="groups", column="plant", folds=3, folder=tmp_path / "a", **options)
    assert Path(found.folder) == tmp_path / "a" / "evaluation" and found.report.startswith(found.folder)
    stored = open_dataset(tmp_path / "a" / "rows" / "rows.parquet", label="label", encode=True, missing="mean")
    assert stored.feature_names == [*X.columns, "colour=red", "plant"]
    again = evaluate(frame, "kind", splits="groups", column="plant", folds=3, folder=tmp_path / "a", **options)
    assert again.errors.equals(found.errors)
    classes = found.classes.set_index(["method", "class"])
    assert list(classes.index) == [
        (method, kind) for method in ("m-pca0", "all-columns") for kind in np.unique(SPECIES)
    ]
    assert set(classes["rows"]) == {50} and classes["mean"].groupby("method").mean().between(0.1, 30).all()
    assert "Errors by class" in Path(found.report).read_text()
    with pytest.raises(OutputError, match="holds other rows, of an earlier call"):
        evaluate(frame[:-1], "kind", folder=tmp_path / "a", **options)
    with pytest.raises(InputError, match=r"Column .sepal length .cm.. of X cannot be used as it is"):
        evaluate(frame, "kind")
    before = set(Path(tempfile.gettempdir()).glob("mmpca-????????"))
    unplanted = frame.assign(plant=[None if i == 9 else f"p{i % 30}" for i in range(150)])
    for call, words in (
        (lambda: evaluate(X), "needs the labels of the rows"), (lambda: evaluate(X, Y[:9]), "150 rows, and y 9 labels"),
        (lambda: evaluate(frame, "knd"), "X has no column 'knd'. Did you mean 'kind'"),
        (lambda: MarginPCA(2).fit(frame, "kind"), "give the labels themselves"),
        (lambda: run(X), "For rows in memory say MarginPCA"), (lambda: refresh("run", X, "out"), "must be in files"),
        (lambda: evaluate(X, Y, client="tcp://here"), "must be an open Dask client"),
        (lambda: evaluate(frame, "kind"), r"drop=\['sepal length .cm.'\]; or .* missing='mean'"),
        (lambda: evaluate(X, Y, **{"evaluation.count": 0}), "evaluation.count"),
        (lambda: evaluate(X, Y, sample_weight=np.ones(150)), r"a column of X: evaluate\(X.assign"),
        (lambda: evaluate(X, np.where(Y == 1, "NA", "b")), "y holds the label 'NA'"),
        (lambda: evaluate(unplanted, "kind", splits="groups", column="plant", **options), "Row 9 has no value in colu"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            call()
    assert set(Path(tempfile.gettempdir()).glob("mmpca-????????")) <= before, "a call that fails leaves no folder"
    with pytest.raises(InputError, match="folds is for rows: set it in the configuration"):
        evaluate(configured(tmp_path / "b"), folds=3)
    with pytest.raises(ConfigError, match="fold"):
        evaluate(X, Y, fold=3)
    with pytest.raises(InputError, match=r"name it by dataset\.uri"):
        evaluate(open_dataset("bundled:iris"), None)


@pytest.mark.e2e
def test_empty_chunks_of_dask_arrays_are_stored():
    """Zarr leaves out chunks of zeros by default, and a run refuses those that are absent."""
    rows = da.concatenate([da.zeros((150, 4), chunks=50), da.from_array(ROWS, (50, -1))])
    assert len(evaluate(rows, np.r_[Y, Y], **FOLDS).errors) == 5


@pytest.mark.e2e
def test_a_run_is_transformed_and_refreshed_on_a_client(tmp_path):
    new = "bundled:iris?classes=setosa,virginica"
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        there = run({**CONFIG, "output": str(tmp_path / "there")}, client=client)
        rows = transform(there, new, tmp_path / "rows", methods="m-pca0", client=client)
        more = refresh(there, new, tmp_path / "more", client=client)
        scored = evaluate(configured(tmp_path / "scored"), client=client)
    here = run({**CONFIG, "output": str(tmp_path / "here")})
    assert model_hash(here.folder, CONFIG["methods"]) == model_hash(there.folder, CONFIG["methods"])
    assert '"cluster": "threads"' in (tmp_path / "there" / "run.json").read_text(), "the client is not of the run"
    kept = open_dataset(new)
    frame = rows.rows("m-pca0")
    expected = there.model("m-pca0").transform(kept.read_rows(0, 100))
    np.testing.assert_allclose(frame.iloc[:, :2], expected, rtol=1e-5)
    assert frame["label"].tolist() == kept.read_labels(0, 100).tolist()
    assert more["rows"] == 250 and more.model("pca").moments_.n_rows == 250
    assert refresh(there, "bundled:iris", tmp_path / "none").folder == there.folder, "nothing new: the run itself"
    for each in (there, rows, more, scored):
        assert "<table" in each._repr_html_() and each.folder in repr(each)
    assert there.methods["components"].to_dict() == {"pca": 2, "m-pca0": 2} and Path(there.report).exists()
