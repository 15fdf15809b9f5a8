"""Rows of one class, or without labels: what needs no classes runs, and other methods are refused by name."""

import numpy as np
import pandas as pd
import pytest
import yaml
import zarr
from click.testing import CliRunner
from helpers.reports import check_page
from helpers.runs import Recorder, refreshed, through
from helpers.tables import labelled, write_npz
from scipy.sparse import csr_array

from mmpca_dist import MarginPCA, load_model, run
from mmpca_dist.configuration.requests import MonitorConfig
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.runs.check import check
from mmpca_dist.runs.compare_page import compare_page
from mmpca_dist.runs.compare_runs import compare_runs
from mmpca_dist.runs.draft import suggested_yaml
from mmpca_dist.runs.monitor import monitor
from mmpca_pipelines.cli import cli

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


@pytest.mark.parametrize("rank", [2, 4])
def test_columns_that_are_left_out_choose_how_many_components(rank, tmp_path):
    """Rows of so many directions and noise: reconstruction only falls, and the choice is their number."""
    rng = np.random.default_rng(rank)
    X = rng.standard_normal((600, rank)) @ rng.standard_normal((rank, 20)) * 2 + rng.standard_normal((600, 20))
    pd.DataFrame(X, columns=[f"f{j}" for j in range(20)]).to_parquet(tmp_path / "rows.parquet")
    dataset = {"uri": str(tmp_path / "rows.parquet"), "label": "none"}
    result = run({"dataset": dataset, "methods": "pca", "n_components": "auto", "output": str(tmp_path / "run")})
    assert result.model("pca").components_.shape == (rank, 20)
    assert "left-out columns" in result["choose"]["how"]
    with pytest.raises(InputError, match="whole scatter"):
        run({"dataset": dataset, "methods": "pca", "n_components": "auto", "solver": {"kind": "krylov"},
             "output": str(tmp_path / "passes")})  # fmt: skip


def test_methods_that_need_classes_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"m-pca0, fisher: needs labels, and dataset\.label is none"):
        run_of(tmp_path, methods=["pca", "m-pca0", "fisher"])
    with pytest.raises(ConfigError, match="leave out unlabelled"):
        run_of(tmp_path, dataset={"unlabelled": "skip"})


@pytest.mark.parametrize("labelled_rows", [False, True], ids=["bare", "with a label column"])
def test_a_refresh_without_labels_is_a_run_over_all_rows(labelled_rows, tmp_path):
    """Labels of new rows do not count, nor do those of a monitor."""
    X, _ = run_of(tmp_path, belonging={"alpha": 0.05, "scores": ["t2", "q"]})
    more, y = labelled(80, 6, 2, 6)
    frame = pd.DataFrame(more, columns=[f"f{j}" for j in range(6)])
    new = str(tmp_path / "new.parquet")
    (frame.assign(label=y) if labelled_rows else frame).to_parquet(new)
    manifest = refreshed(tmp_path / "run", new, tmp_path / "live")
    assert (manifest["rows"], manifest["left_out"]) == (280, {})
    rows = np.concatenate([X, more])
    expected = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:3]
    live = tmp_path / "live"
    np.testing.assert_allclose(np.abs(load_model(str(live), "pca").components_ @ expected.T), np.eye(3), atol=1e-9)
    again = refreshed(tmp_path / "run", new, live)
    assert (again["taken"], again["solved"]) == ([], False)
    record = monitor(MonitorConfig(run=str(tmp_path / "run"), dataset=new))
    assert (record["moved"], record["new"], record["rows"]) == ([], [], 80)


def test_rows_without_labels_that_drift_are_told_without_a_label(tmp_path):
    X, _ = run_of(tmp_path)
    new = tmp_path / "new.parquet"
    moved = X[:90] + 3 * X.std(axis=0) * (np.arange(6) == 2)
    pd.DataFrame(moved, columns=[f"f{j}" for j in range(6)]).to_parquet(new)
    recorder = Recorder()
    (entry,) = refreshed(tmp_path / "run", new, tmp_path / "live", recorder)["taken"][-1:]
    assert entry["drift"]["moved"] == ["all rows"] and entry["drift"]["classes"][0]["class"] == "all rows"
    (note,) = [each for each in recorder.notes if "drifts" in each]
    assert "drifts. The set of rows moved by " in note and "class" not in note
    with pytest.raises(InputError, match=r"not taken in, as it drifts\. The set of rows moved"):
        refreshed(tmp_path / "run", new, tmp_path / "other", drift="refuse")


def test_a_refresh_refuses_labels_that_the_run_has_not_and_the_other_way_round(tmp_path):
    X, _ = run_of(tmp_path)
    new = str(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="has no labels: leave out --label"):
        refreshed(tmp_path / "run", new, tmp_path / "live", label="f1")
    pd.DataFrame(X).rename(columns=str).assign(label=np.arange(200) % 2).to_parquet(tmp_path / "labelled.parquet")
    run({"dataset": {"uri": str(tmp_path / "labelled.parquet")}, "methods": ["pca"], "n_components": 2,
         "output": str(tmp_path / "labels")})  # fmt: skip
    with pytest.raises(InputError, match="has labels: leave out --no-label"):
        refreshed(tmp_path / "labels", str(tmp_path / "labelled.parquet"), tmp_path / "live", label="none")


@pytest.mark.parametrize(("label", "n_features"), [("species", 5), ("label", 4), (None, 4)])
def test_a_check_without_labels_drafts_a_run_without(label, n_features, tmp_path):
    """A column that is called like labels is no feature, as in runs; another one is; arrays have labels apart."""
    X, y = labelled(60, 4, 2, 3)
    if label is None:
        uri = write_npz(tmp_path / "rows.npz", X, y)
    else:
        uri = str(tmp_path / "rows.csv")
        pd.DataFrame(X, columns=list("abcd")).assign(**{label: y}).to_csv(uri, index=False)
    found = check(uri, "none")
    assert (found.refused, found.classless, found.classes, found.n_features) == ([], True, {}, n_features)
    config = yaml.safe_load(suggested_yaml(found))
    assert (config["dataset"]["label"], config["methods"]) == ("none", ["pca", "random-projection"])
    result = run(config | {"output": str(tmp_path / "run"), "n_components": 2})
    assert result["count"]["n_features"] == n_features


@pytest.mark.e2e
def test_every_command_with_a_label_takes_rows_without(tmp_path, monkeypatch):
    """``--no-label`` stands for ``label: none``, also of a table in the place of a configuration."""
    X, y = labelled(120, 4, 2, 3)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(species=np.where(y, "x", "z"))
    monkeypatch.chdir(tmp_path)
    frame[:80].to_csv("rows.csv", index=False)
    frame[80:].to_csv("new.csv", index=False)

    def mmpca(*words):
        outcome = CliRunner().invoke(cli, [*words, *(["--no-prefect"] * (words[0] not in ("check", "plan")))])
        assert outcome.exit_code == 0, outcome.output
        return outcome.output

    settings = ["--set", "dataset.drop=species", "--set", "n_components=2", "--output", "out"]
    assert "label: none" in mmpca(
        "run", "rows.csv", "--no-label", *settings, "--set", "belonging={scores: [t2, q], alpha: 0.05}"
    )
    assert "least of the variance" in " ".join(mmpca("evaluate", "rows.csv", "--no-label", *settings).split())
    mmpca("plan", "rows.csv", "--no-label", *settings)
    mmpca("check", "rows.csv", "--no-label", "-o", "my.yaml")
    assert yaml.safe_load((tmp_path / "my.yaml").read_text())["dataset"]["label"] == "none"
    mmpca("transform", "out", "new.csv", "new.parquet", "--no-label")
    assert "label" not in pd.read_parquet("new.parquet")
    CliRunner().invoke(cli, ["monitor", "out", "new.csv", "--no-label", "--no-prefect"])  # alarm or none
    assert (tmp_path / "out-monitor" / "history.json").exists()
    mmpca("refresh", "out", "new.csv", "live", "--no-label")
    assert load_model("live", "pca").moments_.n_rows == 120
    (tmp_path / "labels.yaml").write_text(yaml.safe_dump({
        "dataset": {"uri": "rows.csv", "label": "species"}, "methods": ["pca"], "n_components": 2, "output": "other",
    }))  # fmt: skip
    mmpca("run", "labels.yaml", "--no-label", "--set", "dataset.drop=species")
    assert load_model("other", "pca").moments_.classes.tolist() == [0]


def test_estimators_take_rows_alone():
    X, y = labelled(200, 6, 2, 5)
    other = MarginPCA(3, "pca").fit(X, y)
    for rows in (X, csr_array(X), pd.DataFrame(X), X.tolist()):
        own = MarginPCA(3, "pca").fit(rows)
        np.testing.assert_allclose(np.abs(own.components_ @ other.components_.T), np.eye(3), atol=1e-5)
    with pytest.raises(ValueError, match="requires y"):
        MarginPCA(3, "m-pca0").fit(X)
