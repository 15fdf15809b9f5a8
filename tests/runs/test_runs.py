"""A run through the library: stages, records, resume, models, projected rows, clusters, bits."""

import errno
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from helpers.runs import Recorder, model_hash
from helpers.tables import config_of, make_config, read_back, write_npz, write_parquet
from scipy.spatial.distance import cdist

from mmpca_dist import MarginPCA, class_moments, load_model, load_moments, open_dataset, run
from mmpca_dist.errors import AccessError, InputError
from mmpca_dist.jobs import finished_runs
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.stored_arrays import load_statistics
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.report.run_page import report_contents
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.results.figures import eigenvalue_table
from mmpca_dist.results.run_result import SolvedRun
from mmpca_dist.runs.fit import preview
from mmpca_dist.stores import storage

pytestmark = pytest.mark.usefixtures("no_report")
SWEEPS = ["sweep", "sweep-2", "sweep-3"]
"""Stages of the methods that are fitted by sweeps."""


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory):
    """A run of all methods with its report."""
    output = tmp_path_factory.mktemp("runs") / "digits"
    recorder = Recorder()
    results = run(make_config(output, project={"format": ["zarr", "parquet"]}), [recorder])
    return str(output), results, recorder


def test_every_stage_runs_once_and_tells_its_progress(digits_run):
    _, results, recorder = digits_run
    assert list(results) == ["count", "plan", "reduce", "search", *SWEEPS, "solve", "project", "erasure", "report"]
    assert not any(recorder.ended.values())
    ended = {stage for stage, done, total in recorder.progress if done == total}
    assert ended >= {"count", "reduce", "search", *SWEEPS, "solve", "project"}


def test_the_loaded_model_is_the_estimator_fitted_in_memory(digits_run):
    """The run and the estimator share their code, so they agree to the bit."""
    output, _, _ = digits_run
    X, y = read_back("bundled:digits")
    fitted = MarginPCA(5, "m-pca1b", precision="double").fit(X, y)
    loaded = load_model(output, "m-pca1b", 5)
    np.testing.assert_array_equal(loaded.components_, fitted.components_)
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(loaded.classes_, fitted.classes_)
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(load_model(output, "m-pca1b", 2).components_, loaded.components_[:2])


def test_projected_rows_are_a_data_set_in_both_formats(digits_run):
    output, _, _ = digits_run
    X, y = read_back("bundled:digits")
    expected = load_model(output, "fisher").transform(X)
    for path in (f"{output}/projected/fisher.zarr", f"{output}/projected/fisher.parquet"):
        projected = open_dataset(path, drop=["row"] if path.endswith("parquet") else [])
        # Double-precision products in another order: a few units in the last place of |x| |v|.
        np.testing.assert_allclose(projected.read_rows(0, len(X)), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(projected.read_labels(0, len(X)), y)


def test_the_report_is_there_with_pictures_and_plan_beside_measured(digits_run):
    _output, results, _ = digits_run
    html = (storage.filesystem(results["report"]["html"])[0]).cat_file(results["report"]["html"]).decode()
    assert "data:image/png;base64," in html and html.count("<figure") == len(results["report"]["figures"])
    assert "M-PCA1a" in html and "peak memory" in html
    assert len(results["report"]["figures"]) >= 4


def test_the_report_shows_the_margins_and_the_certificate_of_the_search(digits_run):
    output, results, _ = digits_run
    found = RunDirectory(output)
    contents = report_contents(SolvedRun(found, found.config, open_dataset("bundled:digits"), results))
    margins = contents.data["margins"]
    assert margins.counts.sum() == 1797 == len(margins.before)
    X, y = read_back("bundled:digits")
    apart = np.where(y[:, None] == y, np.inf, cdist(X, X)).min(axis=1)
    np.testing.assert_allclose(np.sort(margins.before), np.sort(apart), rtol=1e-12)
    np.testing.assert_allclose(np.histogram(margins.before, margins.edges)[0], margins.counts)
    drawn = [method for method in contents.methods if "margins" in method.method.sections]
    assert set(margins.after) == {method.name for method in drawn}
    for method in drawn:
        kept = margins.after[method.name] / margins.before
        assert kept.min() >= 0 and kept.max() <= 1 + 1e-9, method.name  # Fisher's too, which is not orthonormal
    largest = {m.name: (margins.after[m.name] ** 2).sum() for m in drawn if len(m.components) == 5}
    assert max(largest, key=largest.get) == "m-pca2"  # by its definition
    model = load_model(output, "m-pca2")
    assert largest["m-pca2"] == pytest.approx(1797 * model.eigenvalues_.sum())
    assert model.certificate_["queries"] == 1797
    (search,) = [one for one in contents.certificates if one.key == "search"]
    rows = {what: shown for what, shown, _ in search.rows}
    assert rows["rows searched for"] == "1,797" and rows["proved exact"] == rows["recall"] == "100%"
    assert "margins" in {figure["name"] for figure in results["report"]["figures"]}


def test_what_was_not_measured_is_shown_as_absent(digits_run):
    """LOL's components solve no eigenvalue equation: no residual in the table of the methods nor in the report."""
    output, results, _ = digits_run
    rows = {row["method"]: row for row in result_in(output).rows}
    assert rows["lol"]["residual"] == "-"
    assert float(rows["pca"]["residual"]) < 1e-9
    found = RunDirectory(output)
    contents = report_contents(SolvedRun(found, found.config, open_dataset("bundled:digits"), results))
    shown = {m.name: eigenvalue_table(m).records() for m in contents.methods}
    assert {row["residual"] for row in shown["lol"]} == {"-"}
    assert "-" not in {row["residual"] for row in shown["pca"]}


@pytest.mark.e2e
def test_the_same_run_again_repeats_nothing(tmp_path):
    config = make_config(tmp_path / "out", "bundled:iris", n_components=2)
    run(config)
    before = model_hash(tmp_path / "out", METHODS)
    recorder = Recorder()
    run(config, [recorder])
    assert {stage for stage, reused in recorder.ended.items() if reused} == {
        "count", "reduce", "search", *SWEEPS, "solve", "project", "erasure", "report",
    }  # fmt: skip
    assert model_hash(tmp_path / "out", METHODS) == before


def test_a_refused_run_leaves_nothing(tmp_path):
    rows = np.arange(40.0).reshape(20, 2)
    rows[7, 1] = np.nan
    uri, notes = write_npz(tmp_path / "rows.npz", rows, np.arange(20) % 2), Recorder()
    config = config_of(tmp_path / "out", uri, n_components=1)
    with pytest.raises(InputError, match="nan in row 7"):
        run(config, [notes])
    assert not notes.notes and not (tmp_path / "out").exists()


@pytest.mark.e2e
def test_a_full_disk_costs_no_pass_over_the_rows(tmp_path, monkeypatch):
    """It is one sentence, as a refusal is; but what was refused is discarded, and this run goes on."""

    config = make_config(tmp_path / "out", "bundled:iris", n_components=2, project={"format": ["parquet"]})

    def fail(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", fail)
        with pytest.raises(AccessError, match=r"Cannot write .*pca.parquet: no space is left"):
            run(config, [stopped := Recorder()])
    assert stopped.notes[-1:] == [
        f"What is done is kept in {config.output}, as the run may go on: give the same command again."
    ]
    recorder = Recorder()
    run(config, [recorder])
    assert recorder.ended["reduce"] and not recorder.ended["project"]


@pytest.mark.parametrize("compute", [
    {"cluster": "threads", "workers": 1},
    {"cluster": "threads", "workers": 4},
    pytest.param({"cluster": "local", "workers": 2, "memory_limit": "2GiB"}, marks=pytest.mark.slow),
], ids=str)  # fmt: skip
@pytest.mark.e2e
def test_the_bits_do_not_depend_on_where_the_work_runs(tmp_path, compute):
    uri = "synthetic:clusters?n=300000&d=96&k=6&classes=3"
    methods = ["pca", "m-pca0", "m-pca1b", "fisher"]
    one = make_config(tmp_path / "one", uri, methods=methods, precision="single", n_components=2)
    other = make_config(tmp_path / "other", uri, methods=methods, precision="single", n_components=2, compute=compute)
    run(one)
    run(other)
    assert model_hash(tmp_path / "one", methods) == model_hash(tmp_path / "other", methods)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.e2e
def test_partial_fit_extends_a_stored_run(tmp_path, monkeypatch, standardize):
    """By the run's own moments, which are read only when they are asked for."""
    X, y = read_back("bundled:wine")
    old = np.arange(len(X)) % 3 > 0
    output = str(tmp_path / "out")
    run(make_config(output, write_npz(tmp_path / "old.npz", X[old], y[old]), standardize=standardize))
    reads = []
    monkeypatch.setattr(finished_runs, "load_statistics", lambda *a, **o: reads.append(1) or load_statistics(*a, **o))
    for method in METHODS:
        model = load_model(output, method, 2 if METHODS[method].estimator.traits.nested else None)
        assert not reads
        needs = METHODS[method].reducer(None, METHODS[method].options()).needs()
        if needs.medians or needs.searches or needs.swept:
            assert not hasattr(model, "partial_fit")
            continue
        model = pickle.loads(pickle.dumps(model)).partial_fit(X[~old], y[~old])  # noqa: S301
        assert reads.pop() == 1 and not reads
        whole = load_model(output, method, len(model.components_)).fit(X, y)
        tolerance = 1e-8 if method == "fisher" else 1e-10
        np.testing.assert_allclose(model.components_, whole.components_, atol=tolerance)
        np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_, rtol=tolerance)
        assert model.moments_.n_rows == len(X)


def test_the_moments_of_a_run_are_those_of_its_rows(tmp_path):
    run(make_config(tmp_path / "out", "bundled:iris", methods=["pca", "m-pca1b"], n_components=2, standardize=True))
    found = load_moments(str(tmp_path / "out"))
    expected = class_moments(open_dataset("bundled:iris"), precision="double")
    for name in ("classes", "counts", "means", "scatters", "weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_runs_without_moments_that_rows_could_extend_say_why(tmp_path, limits):
    with pytest.raises(InputError, match="There is no run in"):
        load_moments(str(tmp_path / "nothing"))
    rng = np.random.default_rng(7)
    wide = write_npz(tmp_path / "wide.npz", rng.standard_normal((12, 30)), np.arange(12) % 2)
    run(config_of(tmp_path / "wide", wide, n_components=[2, 5]))
    limits.pooled_bytes = 100
    run(make_config(tmp_path / "pooled", "bundled:iris", methods=["pca", "m-pca0"], n_components=2))
    for name, reason in (("wide", "fewer rows than columns"), ("pooled", "many classes were pooled")):
        with pytest.raises(InputError, match=f"keeps no class moments .*{reason}"):
            load_moments(str(tmp_path / name))
        model = load_model(str(tmp_path / name), "pca")
        with pytest.raises(InputError, match=f"keeps no class moments .*{reason}"):
            model.partial_fit(rng.standard_normal((12, model.n_features_in_)), np.arange(12) % 2)


def test_names_of_features_come_with_tables_not_with_arrays(tmp_path):
    """Rows of a Parquet table are data frames elsewhere; rows of arrays have no names to be checked."""
    X, y = read_back("bundled:iris")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    parquet = write_parquet(tmp_path / "iris.parquet", X, y, list("abcd"))
    for name, uri in (("table", parquet), ("array", "bundled:iris")):
        run(config_of(tmp_path / name, uri))
    table, array = load_model(str(tmp_path / "table"), "pca"), load_model(str(tmp_path / "array"), "pca")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(table.transform(frame), array.transform(X))
    assert table.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert not hasattr(array, "feature_names_in_")
    np.testing.assert_array_equal(table.transform(frame[["d", "c", "b", "a"]]), table.transform(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        table.transform(frame.rename(columns={"d": "e"}))


def test_notes_name_the_precision_that_was_computed_in(tmp_path):
    """Fewer rows than columns are computed in double precision, whatever the configuration says."""
    X = np.zeros((6, 30))
    X[:, 0] = [1, -1, 1, -1, 1, -1]
    X[:, 1] = np.sqrt(120 * np.finfo(float).eps) * np.asarray([1, 1, -1, -1, 0, 0])  # a variance of 80 eps
    uri = write_npz(tmp_path / "wide.npz", X, [0, 0, 0, 1, 1, 1])
    results = run(config_of(tmp_path / "out", uri, precision="single", n_components=[2, 5]))
    assert results["solve"]["precision"] == "double"
    assert any("floor of double precision: not reliable." in note for note in results["report"]["notes"])
    assert not any("Set precision" in note for note in results["report"]["notes"])


def test_the_plan_of_little_data_reads_no_rows_and_no_plan_writes_anything(tmp_path, limits, monkeypatch):
    from mmpca_dist.tables.readers.built_in_tables import BundledTable

    with monkeypatch.context() as patch:
        patch.setattr(BundledTable, "read", lambda *_: pytest.fail("rows were read"))
        preview(make_config(tmp_path / "out", methods=["pca", "m-pca2"]))
    limits.unit_bytes = 100 << 10
    plan = preview(make_config(tmp_path / "out"))
    of_probes = ["erasure: moments", "erasure: probe"]
    assert [p.name for p in plan.passes] == [*of_probes, "moments", *["sweep"] * 8, "project"]
    shared = preview(make_config(tmp_path / "out", methods=["pca", "erase"]))
    assert [p.name for p in shared.passes] == ["moments", "project"], "probes take their passes"
    assert not (tmp_path / "out").exists()


@pytest.mark.e2e
def test_standardize_equals_standardised_rows(tmp_path):
    """x -> V^T ((x - mean) / sd), as if the rows had been standardised before."""
    from sklearn.preprocessing import StandardScaler

    X, y = read_back("bundled:wine")
    run(make_config(tmp_path / "out", "bundled:wine", standardize=True))
    scaled = StandardScaler().fit_transform(X)
    expected = MarginPCA(5, "m-pca1a", precision="double").fit(scaled, y)
    loaded = load_model(str(tmp_path / "out"), "m-pca1a")
    np.testing.assert_allclose(loaded.transform(X), expected.transform(scaled), atol=1e-10)


@pytest.mark.parametrize("mean", [1e4, 1e6])
@pytest.mark.e2e
def test_standardised_projection_of_rows_far_from_zero(tmp_path, mean):
    """The mean goes off the rows before the single-precision product: what is lost is the rows' own rounding."""
    rng = np.random.default_rng(5)
    X = (rng.standard_normal((500, 4)) + mean).astype(np.float32)
    np.savez(tmp_path / "far.npz", X=X, y=np.arange(500) % 2)
    config = make_config(tmp_path / "out", tmp_path.as_posix() + "/far.npz", n_components=2, standardize=True,
                         methods=["pca", "m-pca0"], precision="single")  # fmt: skip
    run(config)
    model = load_model(str(tmp_path / "out"), "pca")
    exact = (X.astype(float) - model.mean_) / model.scale_ @ model.components_.T
    projected = open_dataset(str(tmp_path / "out" / "projected" / "pca.zarr")).read_rows(0, 500)
    np.testing.assert_allclose(projected, exact, atol=1e-5)
    np.testing.assert_allclose(model.transform(X), exact, atol=1e-5)
