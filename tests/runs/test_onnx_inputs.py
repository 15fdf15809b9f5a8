"""Exported ONNX models load whatever columns are called, and what is printed runs."""

import numpy as np
import pandas as pd
import pytest
from helpers.tables import config_of

from mmpca_dist import load_model, run
from mmpca_dist.runs.export.model import export

onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(1)
N = 80
NAMES = {
    "components": ["components", "b", "c"],
    "both": ["components", "components_", "c"],
    "X": ["X", "Z", "n"],
    "slashes": ["a/0", "a/constant0", "zz/1"],
    "not ASCII": ["größe", "m²", "col (umn)"],
    "numbers": ["0", "1", "2"],
}


def table(names):
    frame = pd.DataFrame(RNG.normal(size=(N, 2)), columns=names[:2])
    frame[names[2]] = RNG.choice(["u", "v", "w"], N)
    return frame.assign(kind=RNG.choice(["p", "q"], N))


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("case", list(NAMES))
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("text", [True, False])
def test_the_printed_usage_gives_what_transform_gives(case, precision, text, tmp_path):
    names, X = NAMES[case], table(NAMES[case])
    columns = names if text else names[:2]
    X[[*columns, "kind"]].to_parquet(tmp_path / "t.parquet")
    run(config_of(tmp_path / "out", tmp_path / "t.parquet", dataset={"label": "kind"}, methods=["m-pca0"],
                  n_components=2, precision=precision))  # fmt: skip
    (file,), usage = export(str(tmp_path / "out"), "m-pca0", "onnx", str(tmp_path / "m.onnx"))
    scope = {"X": X if text else X[columns], "onnxruntime": onnxruntime, "numpy": np}
    exec(usage, scope)  # noqa: S102
    expected = load_model(str(tmp_path / "out"), "m-pca0").transform(X[columns])
    np.testing.assert_allclose(scope["Z"], expected, atol=1e-5 if precision == "single" else 1e-12)
    assert onnxruntime.InferenceSession(file).get_outputs()[0].name not in columns


@pytest.mark.usefixtures("no_report")
def test_gaps_in_text_and_numbers_run_as_printed(tmp_path):
    X = table(NAMES["components"])
    X.loc[::7, "components"], X.loc[::9, "c"] = np.nan, None
    X.to_parquet(tmp_path / "t.parquet")
    dataset = {"label": "kind", "missing": "mean"}
    run(config_of(tmp_path / "out", tmp_path / "t.parquet", dataset=dataset, methods=["pca"], n_components=2))
    _, usage = export(str(tmp_path / "out"), "pca", "onnx", str(tmp_path / "m.onnx"))
    scope = {"X": X, "onnxruntime": onnxruntime}
    exec(usage, scope)  # noqa: S102
    expected = load_model(str(tmp_path / "out"), "pca").transform(X.drop(columns="kind"))
    np.testing.assert_allclose(scope["Z"], expected, atol=1e-5)
