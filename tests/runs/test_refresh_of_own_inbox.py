"""An inbox that holds the run's own table, whatever its columns mean: only what is new is taken, and all is as one."""

import numpy as np
import pandas as pd
import pytest
from helpers.runs import refreshed
from helpers.tables import config_of, labelled

from mmpca_dist import load_model, run

pytestmark = pytest.mark.usefixtures("no_report")
BESIDE = ["n", "size", "price", "cost", "label"]
ROLES = {
    "label alone": {"label": "label"},
    "weight": {"label": "label", "weight": "n"},
    "covariates": {"label": "label", "covariates": ["size"]},
    "weight and covariates": {"label": "label", "weight": "n", "covariates": ["size"]},
    "targets": {"target": ["price", "cost"], "covariates": ["size"]},
    "slices": {"target": {"column": "price", "slices": 3}, "weight": "n"},
    "rows without labels": {"label": "label", "unlabelled": "skip", "missing": "mean"},
}


def frame(n):
    X, y = labelled(n, 4, 3, seed=3)
    rng = np.random.default_rng(4)
    price = np.arange(n) % 90 + X[:, 0] / 10  # the slices of any 90 rows are those of all
    table = pd.DataFrame(X, columns=list("abcd")).assign(
        n=rng.integers(1, 4, n), size=rng.standard_normal(n), price=price, cost=rng.standard_normal(n), label=y
    )
    table.loc[::17, "label"] = None
    return table


def used(dataset):
    """Return the columns that play no role in a run, and the settings that leave them out."""
    named = str(dataset)
    return {**dataset, "drop": [name for name in BESIDE if f"'{name}'" not in named]}


@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=pytest.mark.e2e)])
@pytest.mark.parametrize("roles", ROLES)
def test_the_own_table_is_not_taken_again(roles, kind, tmp_path):
    dataset, whole = used(ROLES[roles]), frame(270)
    if "unlabelled" not in dataset:
        whole["label"] = whole["label"].fillna(0)
    write = pd.DataFrame.to_parquet if kind == "parquet" else pd.DataFrame.to_csv
    inbox, others = tmp_path / "inbox", {} if kind == "parquet" else {"index": False}
    inbox.mkdir()
    write(whole[:180], inbox / f"first.{kind}", **others)
    methods = ["pls"] if roles == "targets" else ["pca", "fisher"]
    settings = {"methods": methods, "n_components": 1}
    named = {**dataset, "data_dir": str(inbox)} if roles == "weight" else dataset
    uri = f"first.{kind}" if roles == "weight" else str(inbox / f"first.{kind}")
    base = str(tmp_path / "base")
    run(config_of(base, uri, dataset=named, **settings))
    assert not refreshed(base, inbox, tmp_path / "live")["solved"]
    write(whole[180:], inbox / f"second.{kind}", **others)
    manifest = refreshed(base, inbox, tmp_path / "live")
    assert manifest["rows"] == (270 if "unlabelled" not in dataset else int(whole["label"].notna().sum()))
    if roles == "slices":
        return  # slices are those of the first rows; of all rows they end elsewhere
    write(whole, tmp_path / f"all.{kind}", **others)
    run(config_of(tmp_path / "twin", str(tmp_path / f"all.{kind}"), dataset=dataset, **settings))
    for method in methods:
        found, expected = (load_model(str(tmp_path / name), method) for name in ("live", "twin"))
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7, err_msg=method)
