"""Exported models give rows the T2 and Q that ``belongs`` gives them, and carry the limits of the run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.tables import config_of
from test_exports import mixed_table, onnx_columns

from mmpca_dist import load_model, run
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import open_run
from mmpca_dist.runs.export.model import export

SCORES = ["t2", "q"]
METHODS = ["m-pca0", "fisher", "random-projection"]
pytestmark = pytest.mark.usefixtures("no_report")


def limits_of(output, method):
    return open_run(str(output)).record(records.BELONGING)["limits"][method]


def in_onnx(file, inputs):
    """Return the outputs by name, and the metadata."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True)), session.get_modelmeta().custom_metadata_map


def in_sql(file, frame):
    connection = pytest.importorskip("duckdb").connect()
    connection.register("source", frame)
    return connection.sql(Path(file).read_text()).df()


def in_numpy(file, X):
    """Return the scores by the formulas of docs/export.md, and the limits."""
    m = np.load(file, allow_pickle=False)
    Y = (X - m["centre"]) / m["scale"]
    t2 = ((Y @ m["t2_loadings"].T) ** 2).sum(axis=1)
    q = (Y**2).sum(axis=1) - ((Y @ m["q_loadings"].T) ** 2).sum(axis=1)
    return {"t2": t2, "q": q}, {name: float(m[f"{name}_limit"]) for name in SCORES}


def compared(found, expected, rtol=1e-10, scores=SCORES):
    for name, own in zip(scores, found, strict=True):
        np.testing.assert_allclose(own, expected[name], rtol=rtol, err_msg=name)


@pytest.mark.parametrize("standardize", [False, True])
def test_a_table_of_every_kind_of_column_with_gaps(standardize, tmp_path):
    """Two of its columns are called as the scores, one of them but for case, which SQL does not tell apart."""
    frame, y = mixed_table()
    frame = frame.rename(columns={frame.columns[0]: "t2", frame.columns[1]: "Q"})
    frame.assign(kind=y).to_parquet(tmp_path / "rows.parquet")
    dataset = {"label": "kind", "missing": "mean"}
    run(config_of(tmp_path / "run", tmp_path / "rows.parquet", dataset=dataset, methods=METHODS, n_components=2,
                  precision="double", standardize=standardize, belonging={"alpha": 0.05}))  # fmt: skip
    for method in METHODS:
        expected = load_model(str(tmp_path / "run"), method).belongs(frame)
        limits = limits_of(tmp_path / "run", method)
        (file,), _ = export(str(tmp_path / "run"), method, "onnx", str(tmp_path / "m.onnx"))
        found, metadata = in_onnx(file, onnx_columns(frame))
        assert list(found) == ["components", "t2_", "q"]
        compared([found["t2_"], found["q"]], expected)
        assert {name: float(value) for name, value in metadata.items()} == {f"{n}_limit": limits[n] for n in SCORES}
        (file,), _ = export(str(tmp_path / "run"), method, "sql", str(tmp_path / "m.sql"))
        selected = in_sql(file, frame)
        assert list(selected)[-4:] == ["t2_", "t2_limit", "q_", "q_limit"]
        compared([selected["t2_"], selected["q_"]], expected)
        for name in SCORES:
            assert selected[f"{name}_limit"].unique().tolist() == [limits[name]]


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_an_array_far_from_zero(precision, standardize, tmp_path):
    """bm2pca subtracts an offset, random-projection no mean, and fisher has directions that are not orthonormal."""
    methods = [*METHODS[1:], "bm2pca", "pca"]
    kind = np.dtype("f4" if precision == "single" else "f8")
    X = np.random.default_rng(0).normal(300, 2.0 ** np.arange(7), (300, 7)).astype(kind)
    np.savez(tmp_path / "rows.npz", X=X, y=np.arange(300) % 2)
    run(config_of(tmp_path / "run", tmp_path / "rows.npz", methods=methods, n_components=3, precision=precision,
                  standardize=standardize, belonging={"scores": ["t2", "q"]}))  # fmt: skip
    for method in methods:
        model = load_model(str(tmp_path / "run"), method)
        expected = model.belongs(X)
        (file,), usage = export(str(tmp_path / "run"), method, "onnx", str(tmp_path / "m.onnx"))
        scope = {"X": X, "onnxruntime": pytest.importorskip("onnxruntime"), "numpy": np}
        exec(usage, scope)  # noqa: S102
        assert {scope[name].dtype for name in ("Z", *SCORES)} == {kind}
        # Scores are computed in double precision; single rounds them once.
        compared([scope[name] for name in SCORES], expected, rtol=1e-10 if precision == "double" else 1e-7)
        np.testing.assert_allclose(scope["Z"], model.transform(X), rtol=1e-5, atol=1e-5 * np.abs(scope["Z"]).max())
        (file,), _ = export(str(tmp_path / "run"), method, "npy", str(tmp_path / "m.npz"))
        found, limits = in_numpy(file, X.astype(float))
        compared(found.values(), expected)
        assert limits == limits_of(tmp_path / "run", method)


def test_gaps_that_a_run_does_not_fill_leave_gaps_in_the_scores(tmp_path):
    """A row whose Q were 0 would seem to fit perfectly. lasso reads few columns, but Q all."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 6)), columns=list("abcdef"))
    X.assign(kind=(X.a + X.b > 0).astype(int)).to_parquet(tmp_path / "rows.parquet")
    run(config_of(tmp_path / "run", tmp_path / "rows.parquet", dataset={"label": "kind"}, methods=["pca", "lasso"],
                  n_components=2, precision="double", belonging={"alpha": 0.05}))  # fmt: skip
    for method, gone in (("pca", SCORES), ("lasso", ["q"])):
        with_gap = X.copy()
        with_gap.loc[3, "f"] = np.nan
        expected = load_model(str(tmp_path / "run"), method).belongs(X)
        (file,), _ = export(str(tmp_path / "run"), method, "sql", str(tmp_path / "m.sql"))
        found = in_sql(file, with_gap)
        (file,), _ = export(str(tmp_path / "run"), method, "onnx", str(tmp_path / "m.onnx"))
        outputs, _ = in_onnx(file, {"X": with_gap.to_numpy()})
        assert np.isnan([outputs[name][3] for name in SCORES]).all()
        assert found.loc[3, gone].isna().all()
        whole = np.arange(200) != 3
        compared([found[name][whole] for name in SCORES], expected[whole])
        compared([outputs[name][whole] for name in SCORES], expected[whole])


def test_scores_that_a_run_does_not_keep_are_left_out(tmp_path):
    """So are those of fewer components, for which there are no limits."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 5)), columns=list("abcde"))
    X.assign(kind=np.arange(200) % 2).to_parquet(tmp_path / "rows.parquet")

    def names_of(folder, n_components=None, **settings):
        output = str(tmp_path / folder)
        run(config_of(output, tmp_path / "rows.parquet", dataset={"label": "kind"}, methods=["pca"], n_components=2,
                      **settings))  # fmt: skip
        files = [export(output, "pca", name, str(tmp_path / f"m.{suffix}"), n_components)[0][0]
                 for name, suffix in (("onnx", "onnx"), ("sql", "sql"), ("npy", "npz"))]  # fmt: skip
        outputs, metadata = in_onnx(files[0], {"X": X.to_numpy()})
        selected = [name for name in in_sql(files[1], X) if name not in X and not name.startswith("pca_")]
        arrays = [name for name in np.load(files[2]).files if name == "centre" or name.startswith(("t2", "q"))]
        return [*outputs], [*metadata], selected, arrays

    only_q = (["components", "q"], ["q_limit"], ["q", "q_limit"], ["centre", "q_loadings", "q_limit"])
    assert names_of("q", belonging={"scores": ["q"]}) == only_q
    assert names_of("q", 1, belonging={"scores": ["q"]}) == (["components"], [], [], [])
    assert names_of("distance", belonging={"scores": ["class-distance"]}) == (["components"], [], [], [])
    assert names_of("none") == (["components"], [], [], [])
