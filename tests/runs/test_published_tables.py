"""Public tables as they are published: checked, run and evaluated with the draft of ``mmpca check``."""

import numpy as np
import pandas as pd
import pytest
import yaml

from mmpca_dist import evaluate, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.runs.check import LEFT_OUT, check
from mmpca_dist.runs.draft import suggested_yaml


@pytest.mark.e2e
def test_network_connections(real_path, tmp_path, no_report):
    """Of 494,021 connections in 23 classes, without names of columns; against pandas and NumPy in double."""
    path = real_path("kddcup99_10_percent.csv.gz")
    table, checked = pd.read_csv(path, header=None), check(str(path))
    labels = table.pop(41)
    assert (checked.n_rows, checked.label, checked.refused) == (len(table), "41", [])
    assert checked.classes == labels.value_counts().to_dict() and len(checked.classes) == 23
    dropped = [j for j in table if table[j].nunique() == 1]
    assert [use.column.name for use in checked.of_use(LEFT_OUT)] == [*map(str, dropped)]

    texts = table[[1, 2, 3]].apply(lambda text: text.where(text.map(text.value_counts()) >= len(text) / 1000, "(rare)"))
    columns = pd.concat(
        [table.drop(columns=[1, 2, 3, *dropped]), pd.get_dummies(texts, prefix=["1", "2", "3"])], axis=1
    )
    config = parse_config({**yaml.safe_load(suggested_yaml(checked)), "output": str(tmp_path / "run")}, "the draft")
    result = run(config)
    assert checked.n_features == columns.shape[1] == 58
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(columns.to_numpy(np.float64).T))[::-1]
    np.testing.assert_allclose(result.model("pca").eigenvalues_[:3], eigenvalues[:3], rtol=1e-5)
    errors = evaluate(config).errors
    assert set(errors["method"]) == {"pca", "m-pca0", "m-pca1a", "fisher", "all-columns"}
    assert errors["mean"].min() < 1 < 3 < errors["mean"].max()  # percent; the largest class: 43
