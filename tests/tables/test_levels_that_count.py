"""Levels of text are those of the rows that count: for whatever reason others are left out, in runs and in check."""
# ruff: noqa: E501

import numpy as np
import pandas as pd
import pytest
from helpers.runs import Recorder
from helpers.tables import config_of

from mmpca_dist import open_dataset, run
from mmpca_dist.runs.check import check

N = 300
RNG = np.random.default_rng(0)
SITES, LABELS = RNG.choice(["u", "v"], N), RNG.integers(0, 2, N)


def table(sites, **changes):
    """Return 300 rows that count and 100 others, whose site is elsewhere."""
    frame = pd.DataFrame({"a": RNG.normal(size=N + 100), "site": np.append(SITES, sites)})
    return frame.assign(label=pd.array([*LABELS, *[0] * 100], "Int64"), **changes)


def without_labels(frame):
    frame.loc[N:, "label"] = pd.NA
    return frame


WAYS = {
    "unlabelled": (without_labels(table(["elsewhere"] * 100)), {"unlabelled": "skip"}, ["a", "site=v"]),
    "three levels, one elsewhere": (
        without_labels(table([f"e{i}" for i in range(100)])).assign(
            site=lambda t: t["site"].where(t.index % 3 > 0, "w")), {"unlabelled": "skip"}, ["a", "site=u", "site=v", "site=w"]),
    "one level left": (without_labels(table(["x"] * 100).assign(site=["u"] * N + ["x"] * 100)), {"unlabelled": "skip"},
                       ["a", "site=u"]),
    "weight 0": (table(["elsewhere"] * 100, w=[1.0] * N + [0] * 100), {"weight": "w"}, ["a", "site=v"]),
    "unlabelled and weight 0": (
        without_labels(table(["elsewhere"] * 100, w=[0.0] * 9 + [2] * (N - 9) + [1] * 100)).assign(
            site=lambda t: t["site"].where(t.index >= 9, "none")), {"unlabelled": "skip", "weight": "w"}, ["a", "site=v"]),
    "a label that says there is none": (
        table(["elsewhere"] * 100).assign(label=lambda t: t["label"].where(t.index < N, 9)),
        {"unlabelled": "skip", "unlabelled_value": 9}, ["a", "site=v"]),
    "no number to predict": (
        table(["elsewhere"] * 100).assign(label=lambda t: t["a"].where(t.index < N)),
        {"unlabelled": "skip", "target": "label", "label": None}, ["a", "site=v"]),
    "rare once others are left out": (
        without_labels(table(["rare"] * 100).assign(site=[*SITES, *["rare"] * 100])).assign(
            site=lambda t: t["site"].where(t.index > 0, "rare")), {"unlabelled": "skip"}, ["a", "site=rare", "site=u", "site=v"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("way", WAYS)
def test_features_are_those_of_rows_that_count(tmp_path, no_report, way, kind):
    frame, dataset, names = WAYS[way]
    uri = tmp_path / f"t.{kind}"
    frame.to_csv(uri, index=False) if kind == "csv" else frame.to_parquet(uri)
    method = "pls" if "target" in dataset else "pca"
    results = run(config_of(tmp_path / "out", uri, dataset=dataset, methods=[method], n_components=1), [Recorder()])
    assert results["count"]["feature_names"] == names
    if dataset == {"unlabelled": "skip"} and way != "one level left":  # which check leaves out
        assert check(str(uri), "label").n_features == len(names)


def test_a_data_set_of_python_too(tmp_path):
    WAYS["unlabelled"][0].to_parquet(tmp_path / "t.parquet")
    assert open_dataset(tmp_path / "t.parquet", encode=True, unlabelled="skip").feature_names == ["a", "site=v"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_classes_of_weight_0_have_no_levels_of_their_own(tmp_path, no_report, kind):
    frame, uri = table(["elsewhere"] * 100).assign(label=[*LABELS, *[2] * 100]), tmp_path / f"t.{kind}"
    frame.to_csv(uri, index=False) if kind == "csv" else frame.to_parquet(uri)
    for label, names in (("2", ["a", "site=v"]), ("1", ["a", "site=elsewhere", "site=u", "site=v"])):
        section = {"class_weight": {label: 0}, "methods": ["pca"], "n_components": 1}
        results = run(config_of(tmp_path / label, uri, **section), [Recorder()])
        assert results["count"]["feature_names"] == names and len(results["count"]["classes"]) == 3
