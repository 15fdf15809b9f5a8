"""M-PCA2 in runs: the components of the estimator, wherever the work is done, and one search only."""

import json
from itertools import pairwise
from pathlib import Path

import naive
import numpy as np
import pytest
from helpers.pairs import EPS, assert_components, small  # noqa: F401  (a fixture of all tests here, too)
from helpers.runs import Recorder
from helpers.samples import largest_angle
from helpers.tables import config_of, read_back

from mmpca_dist import MarginPCA, load_model, run
from mmpca_dist.neighbors import pair_statistics as pair_module
from mmpca_dist.planning.run_plan import RunRequest

pytestmark = pytest.mark.usefixtures("no_report")

METHODS = ["pca", "m-pca0", "m-pca2"]


def config(output, uri="bundled:wine", **changes):
    settings = {"methods": METHODS, "n_components": [2, 4], "project": {"methods": []}, **changes}
    return config_of(output, uri, **settings)


COMPUTE = {
    "threads": {"cluster": "threads", "workers": 2},
    "local": {"cluster": "local", "workers": 2, "memory_limit": "2GiB"},
    "little memory": {"cluster": "threads", "workers": 1, "memory_limit": "2GiB"},
}


@pytest.mark.parametrize(
    "where", ["threads", *(pytest.param(w, marks=pytest.mark.slow) for w in COMPUTE if w != "threads")]
)
def test_a_run_gives_the_components_of_the_estimator(where, tmp_path, monkeypatch):
    """On threads, on a cluster of processes, and with a store in place of memory: the same bits."""
    if where == "little memory":
        monkeypatch.setattr(RunRequest, "search_in_memory", False)
    output = tmp_path / "out"
    results = run(config(output, compute=COMPUTE[where]))
    assert results["search"]["in_memory"] == (where == "threads")
    X, y = read_back("bundled:wine")
    fitted = MarginPCA(4, "m-pca2", precision="double").fit(X, y)
    loaded = load_model(str(output), "m-pca2")
    np.testing.assert_array_equal(loaded.components_, fitted.components_)
    np.testing.assert_array_equal(loaded.eigenvalues_, fitted.eigenvalues_)
    assert_components(loaded, naive.mpca2_rows(X, y), EPS)
    assert not (output / "scratch").exists() or not list((output / "scratch").rglob("*"))
    certificate = results["search"]["certificate"]
    assert certificate["proved_exact"] == 1 and certificate["queries"] == len(X) and certificate["recall"] is None
    stored = [json.loads(path.read_text()) for path in Path(output).rglob("*.json") if "search" in path.name]
    assert any("certificate" in json.dumps(record) for record in stored)


def test_a_run_once_more_searches_no_more(tmp_path):
    """Nor where the model is wanted anew; but it does where the settings of the search have changed."""
    run(config(tmp_path / "out"))
    before = load_model(str(tmp_path / "out"), "m-pca2").components_
    again, other = Recorder(), Recorder()
    run(config(tmp_path / "out"), [again])
    assert again.ended["search"] and again.ended["solve"]
    np.testing.assert_array_equal(load_model(str(tmp_path / "out"), "m-pca2").components_, before)
    methods = [*METHODS[:2], {"name": "m-pca2", "mutual": "once"}]
    run(config(tmp_path / "other", methods=methods), [other])
    assert not other.ended["search"]
    X, y = read_back("bundled:wine")
    once = load_model(str(tmp_path / "other"), "m-pca2")
    assert_components(once, naive.mpca2_rows(X, y, mutual="once"), EPS)
    assert ("search", "search") in other.passes and ("search", "pairs") in other.passes


@pytest.mark.e2e
def test_a_run_broken_off_in_the_search_leaves_no_scratch_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(RunRequest, "search_in_memory", False)
    seen = []

    def fail(neighbors, **_):
        seen.extend((tmp_path / "out" / "scratch").rglob("segment-0"))
        raise OSError("the network went away")

    with monkeypatch.context() as patch:
        patch.setattr(pair_module, "pair_scatter", fail)
        with pytest.raises(OSError, match="went away"):
            run(config(tmp_path / "out"))
    assert seen, "there was a scratch folder"
    assert not list((tmp_path / "out").rglob("segment-*"))
    recorder = Recorder()
    run(config(tmp_path / "out"), [recorder])
    assert recorder.ended["reduce"] and not recorder.ended["search"]
    run(config(tmp_path / "whole"))
    models = [load_model(str(tmp_path / name), "m-pca2").components_ for name in ("out", "whole")]
    np.testing.assert_array_equal(*models)


def test_runs_take_the_settings_of_the_search(tmp_path, limits):
    limits.calibration_queries = 200
    search = {"search": "approximate", "recall": 0.8, "max_queries": 900, "pairing": "one-vs-rest"}
    methods = [*METHODS[:2], {"name": "m-pca2", **search}]
    results = run(config(tmp_path / "out", "bundled:digits", methods=methods, standardize=True))
    certificate = results["search"]["certificate"]
    assert certificate["mode"] == "approximate" and certificate["queries"] == 900
    assert certificate["recall"] is None or certificate["recall"]["low"] >= 0.8
    X, y = read_back("bundled:digits")
    fitted = MarginPCA(4, "m-pca2", **search, standardize=True, precision="double").fit(X, y)
    np.testing.assert_array_equal(load_model(str(tmp_path / "out"), "m-pca2").components_, fitted.components_)


@pytest.mark.e2e
def test_runs_on_published_tables(real_data, real_path, tmp_path):
    """Ionosphere as published and colon, wide: double precision, against the difference rows."""
    for name in ("ionosphere_raw", "colon"):
        X, y = real_data(name)
        run(config(tmp_path / name, str(real_path(f"{name}.parquet"))))
        rows = np.asarray(naive.mpca2_rows(X.astype(float), y))
        _, singular, right = np.linalg.svd(rows / np.sqrt(len(rows)), full_matrices=False)
        model = load_model(str(tmp_path / name), "m-pca2")
        np.testing.assert_allclose(model.eigenvalues_, singular[:4] ** 2, rtol=1e-9)
        assert largest_angle(model.components_, right[:4].T) < 1e-8
        assert all(a >= b for a, b in pairwise(model.eigenvalues_))
