"""Models in formats of other programs give rows the components that ``transform`` gives them."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.tables import config_of

from mmpca_dist import load_model, run
from mmpca_dist.errors import InputError
from mmpca_dist.runs.export.model import EXPORTS, export, linear_model

N = 300
HOSTILE = ['a"b', "it's", "SELECT x; --", "größe ", "tab\there"]


def mixed_table():
    """Return columns with hostile names, gaps, a boolean, and text of three levels, of two, and with rare ones."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(5, 2, (N, len(HOSTILE))), columns=HOSTILE).mask(rng.random((N, 5)) < 0.1)
    frame['who\'s "x"'] = rng.choice(["it's", 'a "b"', "c"], N)
    frame["two"] = rng.choice(["yes", "no"], N)
    frame["flag"] = rng.random(N) < 0.5
    frame.loc[::17, "two"] = None
    return frame, np.arange(N) % 3


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A run in double precision on a table of every kind of column, and rows some of which hold new text."""
    folder = tmp_path_factory.mktemp("mixed")
    frame, y = mixed_table()
    pq.write_table(pa.Table.from_pandas(frame.assign(kind=y), preserve_index=False), folder / "rows.parquet")
    run(
        {
            "dataset": {"uri": str(folder / "rows.parquet"), "label": "kind", "missing": "mean"},
            "methods": ["m-pca0", "fisher", "erase", "random-projection"], "n_components": 2, "precision": "double",
            "project": {"methods": []}, "output": str(folder / "run"),
        }
    )  # fmt: skip
    new = frame.copy()
    new.loc[5, "two"] = "perhaps"
    return str(folder / "run"), new


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A run in single precision on an array far from zero, whose columns have no names."""
    folder = tmp_path_factory.mktemp("numbers")
    X = np.random.default_rng(0).normal(3, 1, (N, 7)).astype(np.float32)
    np.savez(folder / "rows.npz", X=X, y=np.arange(N) % 2)
    run(
        {
            "dataset": {"uri": str(folder / "rows.npz")}, "methods": ["m-pca0", "bm2pca", "erase"], "n_components": 3,
            "standardize": True, "project": {"methods": []}, "output": str(folder / "run"),
        }
    )  # fmt: skip
    return str(folder / "run"), X


def through_onnx(file, inputs):
    onnxruntime = pytest.importorskip("onnxruntime")
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def through_sql(file, frame):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("source", pa.Table.from_pandas(frame, preserve_index=False))
    columns = connection.sql(Path(file).read_text()).to_arrow_table()
    assert columns.column_names[: frame.shape[1]] == list(frame.columns)
    return np.column_stack([column.to_numpy() for column in columns.columns[frame.shape[1] :]])


def onnx_columns(frame):
    """Return the columns as inputs of an ONNX model, in which empty text is a gap."""
    text = [name for name in frame if frame[name].dtype.kind not in "fb"]
    return {
        name: (frame[name].fillna("").to_numpy(object) if name in text else frame[name].to_numpy(float))[:, None]
        for name in frame
    }


@pytest.mark.parametrize("method", ["m-pca0", "fisher", "erase", "random-projection"])
def test_a_table_of_every_kind_of_column(method, mixed, tmp_path):
    output, frame = mixed
    with pytest.warns(UserWarning, match="perhaps"):
        expected = load_model(output, method).transform(frame)
    files = {name: export(output, method, name, str(tmp_path / f"x{EXPORTS[name].suffix}"))[0] for name in
             ("onnx", "sql", "sklearn")}  # fmt: skip
    shuffled = frame[frame.columns[::-1]].assign(more=1)
    found = {
        "onnx": through_onnx(files["onnx"][0], onnx_columns(frame)),
        "sql": through_sql(files["sql"][0], shuffled),
        "sklearn": runpy.run_path(files["sklearn"][0])["load"]().transform(shuffled),
    }
    for name, rows in found.items():
        # Sums of 11 products of a few units each, in another order.
        np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("method", ["m-pca0", "bm2pca", "erase"])
def test_an_array_in_single_precision(method, numbers, tmp_path):
    output, X = numbers
    expected, exact = (load_model(output, method).transform(X.astype(kind)) for kind in (np.float32, np.float64))
    files = {name: export(output, method, name, str(tmp_path / f"{name}{EXPORTS[name].suffix}"))[0] for name in
             ("npy", "onnx", "faiss", "sklearn")}  # fmt: skip
    model = np.load(files["npy"][0], allow_pickle=False)
    by_hand = (X.astype(float) - model["mean"]) / model["scale"] @ model["components"].T - model["offset"]
    np.testing.assert_allclose(by_hand, exact, rtol=1e-12, atol=1e-12)
    pipeline = runpy.run_path(files["sklearn"][0])["load"]()
    np.testing.assert_allclose(pipeline.transform(X.astype(float)), exact, rtol=1e-12, atol=1e-12)
    single = through_onnx(files["onnx"][0], {"X": X})
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-6, atol=1e-6)
    faiss = pytest.importorskip("faiss")
    # faiss subtracts the mean after the product, so that its rounding is that of rows as long as their mean.
    reach = np.abs(X).max() * np.abs(model["components"] / model["scale"]).sum(axis=1).max()
    read = faiss.read_VectorTransform(files["faiss"][0])
    np.testing.assert_allclose(read.apply(X), exact, rtol=1e-6, atol=1e-6 * reach)


def test_fewer_components_are_the_first_ones(numbers, tmp_path):
    output, X = numbers
    (file,), _ = export(output, "m-pca0", "npy", str(tmp_path / "two.npz"), n_components=2)
    assert np.load(file)["components"].shape == (2, X.shape[1])
    np.testing.assert_array_equal(
        linear_model(output, "m-pca0").matrix[:, :2], linear_model(output, "m-pca0", 2).matrix
    )


@pytest.mark.e2e
def test_the_pipeline_needs_scikit_learn_alone(mixed, tmp_path):
    output, frame = mixed
    files, _ = export(output, "m-pca0", "sklearn", str(tmp_path / "m.py"))
    frame[:5].to_pickle(tmp_path / "frame")
    code = (
        "import runpy, sys; sys.modules['mmpca_dist'] = None\nimport pandas\n"
        f"print(runpy.run_path({files[0]!r})['load']().transform(pandas.read_pickle('frame')).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "(5, 2)", done.stderr


def test_what_a_format_cannot_express_is_refused_by_name(mixed, numbers, tmp_path):
    refused = [
        (mixed[0], "m-pca0", "faiss", "takes text"),
        (numbers[0], "m-pca0", "sql", "have no names, which SQL needs"),
        (numbers[0], "m-pca0", "onxn", "There is no format 'onxn'.* Did you mean 'onnx'"),
        (numbers[0], "pca", "npy", "has no method 'pca'"),
    ]
    for output, method, name, message in refused:
        with pytest.raises(InputError, match=message):
            export(output, method, name, str(tmp_path / "x"))
    assert not list(tmp_path.iterdir())


@pytest.mark.e2e
@pytest.mark.parametrize(("dataset", "message"), [
    ({"uri": "bundled:iris", "maps": ["unit-length"]}, "the row map 'unit-length'"),
    ({"uri": "rows.parquet", "covariates": ["b"]}, "the covariate 'b'"),
    ({"uri": "rows.parquet"}, "called 'A' but for case"),
])  # fmt: skip
def test_runs_whose_rows_go_through_more(dataset, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({**dict(zip("abA", rng.normal(size=(3, 60)), strict=True)), "y": np.arange(60) % 2}),
                   "rows.parquet")  # fmt: skip
    run({"dataset": dataset, "methods": ["pca"], "n_components": 1, "output": "out"})
    with pytest.raises(InputError, match=message):
        export("out", "pca", "sql")


GENERATOR = np.random.default_rng(1)
ROWS = 80
NAMES = {
    "components": ["components", "b", "c"],
    "both": ["components", "components_", "c"],
    "X": ["X", "Z", "n"],
    "slashes": ["a/0", "a/constant0", "zz/1"],
    "not ASCII": ["größe", "m²", "col (umn)"],
    "numbers": ["0", "1", "2"],
}


def with_names(names):
    frame = pd.DataFrame(GENERATOR.normal(size=(ROWS, 2)), columns=names[:2])
    frame[names[2]] = GENERATOR.choice(["u", "v", "w"], ROWS)
    return frame.assign(kind=GENERATOR.choice(["p", "q"], ROWS))


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("case", list(NAMES))
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("text", [True, False])
def test_the_printed_usage_gives_what_transform_gives(case, precision, text, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    names, X = NAMES[case], with_names(NAMES[case])
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
    X = with_names(NAMES["components"])
    X.loc[::7, "components"], X.loc[::9, "c"] = np.nan, None
    X.to_parquet(tmp_path / "t.parquet")
    dataset = {"label": "kind", "missing": "mean"}
    run(config_of(tmp_path / "out", tmp_path / "t.parquet", dataset=dataset, methods=["pca"], n_components=2))
    _, usage = export(str(tmp_path / "out"), "pca", "onnx", str(tmp_path / "m.onnx"))
    scope = {"X": X, "onnxruntime": pytest.importorskip("onnxruntime")}
    exec(usage, scope)  # noqa: S102
    expected = load_model(str(tmp_path / "out"), "pca").transform(X.drop(columns="kind"))
    np.testing.assert_allclose(scope["Z"], expected, atol=1e-5)
