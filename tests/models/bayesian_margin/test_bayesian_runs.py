"""BM2PCA in runs and evaluations: models, projected rows, resumption between sweeps, own classifier, all columns."""

import numpy as np
import pytest
import zarr
from helpers.evaluating import by_cell, scored
from helpers.runs import Recorder, loaded_like, model_hash, same_models, through
from helpers.samples import batch_of
from helpers.tables import config_of, counts_like_text, labelled, make_config, write_csr, write_npz, write_zarr
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from mmpca_dist import BayesianMarginPCA, load_model, run
from mmpca_dist.errors import InputError
from mmpca_dist.models.bayesian_margin.sweep import MarginSweep
from mmpca_dist.runs.fit import preview
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.row_maps.row_by_row import UnitLength

pytestmark = pytest.mark.usefixtures("no_report")
BM2PCA = {"name": "bm2pca", "C": 10, "tol": 0, "max_iter": 4}


@pytest.mark.parametrize(
    ("n", "d", "n_classes", "standardize"), [(80, 6, 3, False), (80, 6, 2, True), (15, 40, 3, True)]
)
def test_a_run_keeps_the_estimator_fitted_in_memory(n, d, n_classes, standardize, tmp_path):
    X, y = labelled(n, d, n_classes, seed=1)
    words = np.array(["ash", "oak", "yew"])[y]
    uri = write_npz(tmp_path / "rows.npz", X, words)
    methods = ["pca", BM2PCA]
    run(config_of(tmp_path / "out", uri, methods=methods, n_components=[1, 3], standardize=standardize))
    own = BayesianMarginPCA(3, C=10, tol=0, max_iter=4, precision="double", standardize=standardize)
    own.fit(X, words)
    arrays = ("components_", "weights_", "noise_", "bounds_", "location_")
    model = loaded_like(tmp_path / "out", "bm2pca", own, X, arrays, rtol=1e-7, atol=1e-9)
    assert model.components_.shape == ((3, d) if n_classes == 2 else (n_classes, 3, d))
    pca = load_model(str(tmp_path / "out"), "pca")  # whose rows are not centred, unless they are standardised
    beside = zarr.open_array(str(tmp_path / "out" / "projected" / "pca.zarr" / "X"))[...]
    np.testing.assert_allclose(beside, pca.transform(X), rtol=1e-9, atol=1e-9)
    with pytest.raises(InputError, match="fitted for 3 components, and a fit for fewer has other ones"):
        load_model(str(tmp_path / "out"), "bm2pca", 1)
    assert not hasattr(model, "partial_fit")


def cut(monkeypatch, sweeps):
    """Let the fit fail as it updates after so many sweeps."""
    update = MarginSweep.update

    def failing(self, fitted, sums):
        if len(fitted.bounds) == sweeps:
            raise OSError("the machine is gone")
        return update(self, fitted, sums)

    monkeypatch.setattr(MarginSweep, "update", failing)


@pytest.mark.parametrize("cluster", ["threads", pytest.param("local", marks=pytest.mark.slow)])
@pytest.mark.e2e
def test_a_run_goes_on_between_sweeps_with_the_same_bits(cluster, tmp_path, monkeypatch, limits):
    """On threads, where states are kept in memory and on the disk, and on workers, which read them from there."""
    X, y = labelled(600, 8, 3, seed=2)
    limits.resumable_bytes = 0
    uri = write_zarr(tmp_path / "rows.zarr", X, y, 100)
    settings = {"methods": [{**BM2PCA, "C": "auto"}], "n_components": 2, "dataset": {"uri": uri}}
    run(make_config(tmp_path / "whole", uri, **settings))
    compute = {"cluster": cluster, "workers": 2, "threads_per_worker": 1}
    config = make_config(tmp_path / "broken", uri, compute=compute, **settings)
    passes, told = [], []
    for sweeps in (2, 3):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="gone"):
            cut(patch, sweeps)
            run(config)
    recorder = Recorder()
    recorder.on_pass = lambda stage, name: passes.append(name)
    recorder.on_sweep = lambda stage, words: told.append(words)
    results = run(config, [recorder])
    assert passes.count("choose") == 1 and passes.count("sweep") == 4
    tried = load_model(str(tmp_path / "broken"), "bm2pca").candidates_
    rounds = [*(f"choose-{i}" for i in range(1, len(tried) - 2)), "sweep"]
    expected = ["choose 4", *(f"{name} {i}" for name in rounds for i in range(1, 5))]
    assert [words.split(": evidence bound")[0] for words in told] == expected
    assert recorder.ended["reduce"] and not recorder.ended["sweep"]
    assert results["sweep"]["passes"] == passes[: len(results["sweep"]["passes"])]
    assert model_hash(tmp_path / "broken", ["bm2pca"]) == model_hash(tmp_path / "whole", ["bm2pca"])
    assert not (tmp_path / "broken" / "scratch").exists()
    run(config, [recorder])
    assert recorder.ended["sweep"]


@pytest.mark.e2e
def test_a_damaged_fit_is_made_again(tmp_path):
    X, y = labelled(60, 5, 2, seed=3)
    config = config_of(tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), methods=[BM2PCA])
    run(config)
    before = model_hash(tmp_path / "out", ["bm2pca"])
    path = tmp_path / "out" / "fits" / "1.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    (tmp_path / "out" / "records" / "solve.json").unlink()
    recorder = Recorder()
    run(config, [recorder])
    assert not recorder.ended["sweep"] and recorder.ended["reduce"]
    assert any("The stage 'sweep' is done again" in note for note in recorder.notes)
    assert model_hash(tmp_path / "out", ["bm2pca"]) == before


def test_the_plan_says_that_there_may_be_more_sweeps(tmp_path, limits):
    limits.unit_bytes = 100 << 10  # little data has no pilot
    plan = preview(config_of(tmp_path / "out", "bundled:digits", methods=["bm2pca"], n_components=5))
    assert plan.rows()[0] == (
        "passes over the rows", "6 or more (moments, 4 x sweep, project; sweeps until they converge)"
    )  # fmt: skip
    moments = 10 * 64 * 64 * 8 + 10 * 64 * 8
    numbers_of_rows = 1797 * 8
    assert plan.output == 1797 * 50 * 8 + numbers_of_rows + 10 * 64 * 5 * 8 + moments


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.e2e
def test_its_own_classifier_and_all_columns_in_an_evaluation(n_classes, center, tmp_path):
    X, y = labelled(66, 6, n_classes, seed=4, separation=0.6, mean=50.0)
    own, svm = {"name": "own", "C": 1.0, "bias": True}, {"name": "svm", "bias": True}
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), methods=["all-columns", "pca", BM2PCA],
        n_components=[1, 3], standardize=center,
        evaluation={"splits": "folds", "folds": 3, "classifiers": [own, "fisher", svm], "margins": True},
    )  # fmt: skip
    records, splits, _ = scored(config)
    found = by_cell(records)
    for number, part in enumerate(splits.held_out):
        train = splits.only(0).training(batch_of(y), part)[0]
        rows = (X - X[train].mean(axis=0)) / X[train].std(axis=0) if center else X
        svm = LinearSVC(C=1.0, tol=1e-8, max_iter=100_000).fit(rows[train], y[train])
        wrong = np.count_nonzero(svm.predict(rows[~train]) != y[~train])
        for size in (1, 3):
            model = BayesianMarginPCA(size, C=10, tol=0, max_iter=4, precision="double", standardize=center)
            model.fit(X[train], y[train])
            errors = np.count_nonzero(model.predict(X[~train]) != y[~train])
            assert found[number, "bm2pca", size, "own"] == (size, errors)
            assert found[number, "all-columns", size, "own"] == found[number, "all-columns", size, "svm"] == (6, wrong)
            assert found[number, "pca", size, "own"] == found[number, "pca", size, "svm"]
    assert any(line["errors"] for record in records for line in record["errors"])


def test_an_evaluation_that_would_merge_moments_sweeps_over_rows_in_memory_or_not(tmp_path, limits):
    X, y = labelled(90, 5, 2, seed=5)
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), methods=["pca", BM2PCA],
        evaluation={"splits": "folds", "folds": 3, "classifiers": ["own"], "margins": False},
    )  # fmt: skip
    expected, _, stages = scored(config)
    assert stages["score"]["passes"] == ["rows"]
    limits.direct_bytes = 100
    other = config_of(tmp_path / "other", tmp_path / "rows.npz", methods=["pca", BM2PCA], evaluation=config.evaluation)
    found, _, stages = scored(other)
    assert by_cell(found) == by_cell(expected)
    assert stages["score"]["passes"].count("gather") == 1


def test_all_columns_of_fewer_rows_are_turned(tmp_path):
    """Lengths and angles are those of the rows, which is all that a support vector machine looks at."""
    X, y = labelled(20, 50, 2, seed=6)
    from mmpca_dist import AllColumns

    Z = AllColumns(precision="double").fit(X, y).transform(X)
    assert Z.shape == (20, 21)  # the mean is a direction of its own
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, rtol=1e-10)


@pytest.mark.parametrize("kind", ["dense", "integers", "sparse"])
@pytest.mark.e2e
def test_rows_of_unit_length_are_those_of_a_file_of_such_rows(kind, tmp_path):
    parts, X, y = counts_like_text(60, 12, 3, seed=7)
    X = X.astype(np.uint8 if kind == "integers" else float)
    unit = normalize(X.astype(np.float32 if kind == "integers" else float))
    if kind == "sparse":
        uri = write_csr(tmp_path / "rows.zarr", parts, X.shape, labels=y)
    else:
        uri = write_npz(tmp_path / "rows.npz", X, y)
    settings = {"methods": ["pca", "m-pca1b", BM2PCA]}
    run(config_of(tmp_path / "mapped", uri, **settings, dataset={"maps": ["unit-length"]}))
    run(config_of(tmp_path / "plain", write_npz(tmp_path / "unit.npz", unit, y), **settings))
    same_models(
        tmp_path / "mapped", tmp_path / "plain", ("pca", "m-pca1b", "bm2pca"), atol=1e-5 if kind == "sparse" else 1e-12
    )
    done = through(tmp_path / "mapped", uri, tmp_path / "new", methods=["pca"])
    again = zarr.open_array(f"{done['destination']}/projected/pca.zarr/X")[...]
    np.testing.assert_allclose(again, load_model(str(tmp_path / "plain"), "pca").transform(unit), atol=1e-5)


def test_mapped_rows_have_a_fingerprint_of_their_own_and_rows_of_zeros_stay():
    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    rows = rows_in_memory(X, np.array([0, 1]), "X")
    unit = rows.with_maps([UnitLength()])
    np.testing.assert_allclose(unit.read_rows(0, 2), [[0.6, 0.8], [0, 0]])
    assert unit.fingerprint() != rows.fingerprint() and rows.with_maps([]) is rows
    assert X[0, 0] == 3.0


@pytest.mark.slow
def test_sweeps_over_many_rows_stay_within_the_plan(tmp_path):
    uri = "synthetic:gaussian?n=1000000&d=128&seed=3"
    for C in (10, "auto"):
        config = make_config(
            tmp_path / str(C), uri, methods=[{"name": "bm2pca", "C": C, "max_iter": 2, "tol": 0}],
            n_components=10, precision="single", project={"methods": []},
        )  # fmt: skip
        results = run(config)
        assert max(results[stage]["memory"] for stage in ("reduce", "sweep")) <= results["plan"]["memory"]


def test_rows_without_a_class_are_not_evaluated(tmp_path):
    X, y = labelled(40, 4, 2, seed=8)
    config = config_of(tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), methods=[{**BM2PCA, "unlabelled": 0}])
    with pytest.raises(InputError, match=r"bm2pca: rows without a class \(unlabelled\) cannot be scored"):
        scored(config)
