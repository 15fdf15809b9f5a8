"""Row maps in runs, evaluations, transforms and refreshes: the results are those of a file of mapped rows."""

import shutil
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import yaml
import zarr
from helpers.evaluating import by_cell, scored, timeless
from helpers.resuming import results_hash
from helpers.runs import Recorder, refreshed, same_models, through
from helpers.tables import config_of, labelled, write_npz, write_parquet, write_zarr
from sklearn.decomposition import KernelPCA
from sklearn.pipeline import make_pipeline

import mmpca_dist.jobs.first_stages as first_stages
from mmpca_dist import load_maps, load_model, load_moments, open_dataset, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.errors import ConfigError, InputError, OutputError
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.passes.rows import spread_sample
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.runs import fit as stages
from mmpca_dist.runs.evaluate import preview_evaluation
from mmpca_dist.runs.fit import preview, stages_of

FOURIER = {"name": "fourier", "n_components": 24}
NYSTROEM = {"name": "nystroem", "n_components": 20}
BOTH = ["unit-length", {**NYSTROEM, "kernel": "poly", "degree": 2}, FOURIER]
X, Y = labelled(240, 6, 3, seed=5)
NAMES = list("abcdef")
no_report = pytest.mark.usefixtures("no_report")


def settings_of(output, uri, maps, **changes):
    return config_of(output, uri, **{"methods": ["pca", "m-pca0", "fisher"], "dataset": {"maps": maps}, **changes})


def arrays_in(output):
    """Return the arrays of the fits of a run."""
    paths = sorted(path.parent for path in Path(output, "maps").rglob("zarr.json") if "array" in path.read_text())
    return {str(path.relative_to(output)): zarr.open_array(str(path))[...] for path in paths}


def same_fits(left, right):
    assert left.keys() == right.keys() and left
    assert all(np.array_equal(left[name], right[name]) for name in left)


@no_report
@pytest.mark.parametrize(
    "maps", [pytest.param([NYSTROEM], id="one", marks=pytest.mark.e2e), pytest.param(BOTH, id="several")]
)
def test_a_run_is_that_of_a_file_of_mapped_rows_whatever_the_format_and_the_chunks(maps, tmp_path):
    rows = np.round(4 * X)
    uris = {
        "npz": write_npz(tmp_path / "rows.npz", rows, Y),
        "parquet": write_parquet(tmp_path / "rows.parquet", rows, Y, NAMES),
        "small": write_zarr(tmp_path / "small.zarr", rows, Y, 7),
        "large": write_zarr(tmp_path / "large.zarr", rows, Y, 100),
        "sparse": write_npz(tmp_path / "sparse.npz", rows, Y, sparse=True),
        "int16": write_npz(tmp_path / "narrow.npz", rows.astype(np.int16), Y),
    }
    for kind, uri in uris.items():
        run(settings_of(tmp_path / kind, uri, maps))
    fits = {kind: arrays_in(tmp_path / kind) for kind in uris}
    for kind in ("parquet", "small", "large"):
        same_fits(fits[kind], fits["npz"])
    mapped = load_maps(str(tmp_path / "npz")).transform(rows)
    run(settings_of(tmp_path / "plain", write_npz(tmp_path / "mapped.npz", mapped, Y), []))
    for method in ("pca", "m-pca0", "fisher"):
        expected = load_model(str(tmp_path / "plain"), method)
        for kind in uris:
            model = load_model(str(tmp_path / kind), method)
            rtol = 1e-4 if kind == "int16" else 1e-7  # mapped rows of such are in single precision
            np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=rtol)
            projected = zarr.open_array(str(tmp_path / kind / "projected" / f"{method}.zarr" / "X"))[...]
            atol = 1e-3 if kind == "int16" else 1e-6
            np.testing.assert_allclose(projected, expected.transform(mapped), atol=atol * np.abs(projected).max())


@no_report
@pytest.mark.e2e
def test_every_method_applies_to_mapped_rows(tmp_path):
    """Kernel M-PCA, kernel PCA, kernel Fisher discriminants, and so on."""
    methods = list(METHODS)
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    run(settings_of(tmp_path / "out", uri, [NYSTROEM], methods=methods))
    mapped = load_maps(str(tmp_path / "out")).transform(X)
    run(settings_of(tmp_path / "plain", write_npz(tmp_path / "mapped.npz", mapped, Y), [], methods=methods))
    for method in methods:
        found, expected = (load_model(str(tmp_path / name), method).components_ for name in ("out", "plain"))
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max(), err_msg=method)


@no_report
@pytest.mark.e2e
def test_more_columns_than_rows_and_all_rows_as_landmarks(tmp_path):
    """The first is solved in the span of the rows. The second is kernel PCA, and fewer landmarks may have its rank."""
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    run(settings_of(tmp_path / "wide", uri, [{**FOURIER, "n_components": 400}]))
    mapped = load_maps(str(tmp_path / "wide")).transform(X)
    run(settings_of(tmp_path / "plain", write_npz(tmp_path / "mapped.npz", mapped, Y), []))
    for method in ("pca", "m-pca0", "fisher"):
        found, expected = (load_model(str(tmp_path / name), method) for name in ("wide", "plain"))
        assert found.n_features_in_ == 400
        np.testing.assert_allclose(
            found.components_, expected.components_, atol=1e-9 * np.abs(expected.components_).max()
        )
    results = run(settings_of(tmp_path / "all", uri, {"name": "nystroem", "n_components": 240, "gamma": 0.1}))
    kernel_pca = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X)
    np.testing.assert_allclose(load_model(str(tmp_path / "all"), "pca").eigenvalues_ * 240, kernel_pca.eigenvalues_)
    assert results["maps"]["notes"] == [] and results["plan"]["choice"]["kind"] == "dense"
    linear = run(settings_of(tmp_path / "linear", uri, {**NYSTROEM, "kernel": "linear"}))
    assert linear["maps"]["notes"] == ["nystroem: the kernel of its 20 landmarks has rank 6, and so have mapped rows."]


@no_report
@pytest.mark.parametrize(
    ("cluster", "workers", "threads"), [("threads", 2, 2), pytest.param("local", 2, 1, marks=pytest.mark.slow)]
)
@pytest.mark.e2e
def test_bits_do_not_depend_on_threads_and_workers(cluster, workers, threads, tmp_path, limits):
    """Many spans, cut across blocks of mapped rows, and a fit that reads them on workers."""
    rows, labels = labelled(1500, 12, 3, seed=2)
    uri = write_zarr(tmp_path / "rows.zarr", rows.astype(np.float32), labels, 130)
    limits.unit_bytes = limits.smallest_unit_bytes = 130 * 20 * 4
    maps = ["unit-length", {"name": "nystroem", "n_components": 20, "gamma": 2}, {**FOURIER, "gamma": "scale"}]
    hashes = {}
    for used in (("threads", 1, 1), (cluster, workers, threads)):
        output = tmp_path / "-".join(map(str, used))
        compute = dict(zip(("cluster", "workers", "threads_per_worker"), used, strict=True))
        run(settings_of(output, uri, maps, compute=compute, precision="single", methods=["pca", "fisher"]))
        hashes[output.name] = results_hash(output)
        same_fits(arrays_in(output), arrays_in(tmp_path / "threads-1-1"))
    assert len(set(hashes.values())) == 1


@no_report
@pytest.mark.e2e
def test_a_killed_run_fits_maps_once_and_a_damaged_fit_is_made_again(tmp_path, monkeypatch):
    config = settings_of(tmp_path / "out", write_npz(tmp_path / "rows.npz", X, Y), BOTH)
    whole = settings_of(tmp_path / "whole", tmp_path / "rows.npz", BOTH)
    run(whole)
    for fails in ("save_fits", None):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(first_stages if fails else stages, fails or "class_statistics", interrupted)
            run(config)
        assert (tmp_path / "out" / "records" / "maps.json").exists() == (fails is None)
    recorder = Recorder()
    run(config, [recorder])
    assert recorder.ended["maps"] and not recorder.ended["reduce"]
    assert results_hash(tmp_path / "out") == results_hash(tmp_path / "whole")
    chunk = next(path for path in (tmp_path / "out" / "maps" / "2.zarr" / "weights" / "c").rglob("*") if path.is_file())
    data = bytearray(chunk.read_bytes())
    data[100] ^= 1
    chunk.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"maps/2\.zarr/weights.* Give the command that wrote it again"):
        load_maps(str(tmp_path / "out"))
    run(config, [recorder])
    assert not recorder.ended["maps"] and any("The stage 'maps' is done again" in note for note in recorder.notes)
    same_fits(arrays_in(tmp_path / "out"), arrays_in(tmp_path / "whole"))


def interrupted(*_, **__):
    raise KeyboardInterrupt


@no_report
@pytest.mark.e2e
def test_other_options_are_another_run(tmp_path):
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    run(settings_of(tmp_path / "out", uri, [NYSTROEM]))
    for other in ({**NYSTROEM, "seed": 1}, {**NYSTROEM, "gamma": 1}, FOURIER):
        with pytest.raises(OutputError, match=r"already holds a different run: .*maps"):
            run(settings_of(tmp_path / "out", uri, [other]))
    run(settings_of(tmp_path / "other", uri, [{**NYSTROEM, "seed": 1}]))
    first, second = (arrays_in(tmp_path / name)["maps/1.zarr/landmarks"] for name in ("out", "other"))
    assert not np.array_equal(first, second)
    run(settings_of(tmp_path / "out", uri, [{**NYSTROEM, "kernel": "rbf"}]))  # the default, written out


def test_row_maps_are_part_of_the_settings_and_the_fingerprint(tmp_path):
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    config = settings_of(tmp_path / "out", uri, ["unit-length"])
    assert config.settings()["dataset"]["maps"] == ["unit-length"]
    assert [stage.name for stage in stages_of(config)][:3] == ["count", "plan", "reduce"]
    dataset = Inputs.of(config).dataset
    plain = open_dataset(uri)
    assert dataset.fingerprint() == plain.with_maps(config.dataset.maps).fingerprint() != plain.fingerprint()
    assert dataset.fingerprint() != Inputs.of(settings_of(tmp_path / "out", uri, BOTH)).dataset.fingerprint()
    again = parse_config(yaml.safe_load(yaml.safe_dump(settings_of(tmp_path, uri, BOTH).model_dump(mode="json"))), "")
    assert again.settings()["dataset"]["maps"] == settings_of(tmp_path, uri, BOTH).settings()["dataset"]["maps"]


@no_report
@pytest.mark.e2e
def test_models_follow_the_maps_and_new_rows_go_through_both(tmp_path):
    """Stored models take mapped rows; ``load_maps`` comes before them, for what is in memory and what is lazy."""
    uri = write_parquet(tmp_path / "rows.parquet", X, Y, NAMES)
    new = write_parquet(tmp_path / "new.parquet", X[:50, ::-1], Y[:50], NAMES[::-1])
    run(settings_of(tmp_path / "out", uri, BOTH))
    output = str(tmp_path / "out")
    maps, model = load_maps(output), load_model(output, "m-pca0")
    both = make_pipeline(maps, model)
    projected = zarr.open_array(str(tmp_path / "out" / "projected" / "m-pca0.zarr" / "X"))[...]
    frame = pd.DataFrame(X, columns=NAMES)
    np.testing.assert_allclose(both.transform(frame), projected, atol=1e-12)
    lazy = both.transform(open_dataset(uri))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), projected, atol=1e-12)
    assert maps.feature_names_in_.tolist() == NAMES and maps.get_feature_names_out().shape == (24,)
    assert not hasattr(model, "feature_names_in_") and model.n_features_in_ == 24
    # Columns come by name, as those of models of ``load_model`` do.
    np.testing.assert_array_equal(maps.transform(frame[NAMES[::-1]]), maps.transform(frame))
    done = through(output, new, tmp_path / "new")
    for method in ("pca", "m-pca0", "fisher"):
        again = zarr.open_array(f"{done['destination']}/projected/{method}.zarr/X")[...]
        stored = zarr.open_array(str(tmp_path / "out" / "projected" / f"{method}.zarr" / "X"))[:50]
        np.testing.assert_allclose(again, stored, atol=1e-12)
    narrow = write_npz(tmp_path / "narrow.npz", X[:, :5], Y)
    with pytest.raises(InputError, match=r"has 5 features, but the run was fitted to 6"):
        through(output, narrow, tmp_path / "no")


@no_report
@pytest.mark.e2e
def test_maps_that_are_not_fitted_are_loaded_too(tmp_path):
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    run(settings_of(tmp_path / "unit", uri, ["unit-length"]))
    run(settings_of(tmp_path / "plain", uri, []))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(load_maps(str(tmp_path / "unit")).transform(X), unit, rtol=1e-15)
    np.testing.assert_array_equal(load_maps(str(tmp_path / "plain")).transform(X), X)
    with pytest.raises(InputError, match="There is no run in"):
        load_maps(str(tmp_path / "none"))


@no_report
@pytest.mark.e2e
def test_a_refreshed_run_keeps_the_maps(tmp_path):
    first = write_npz(tmp_path / "first.npz", X[:150], Y[:150])
    new = write_npz(tmp_path / "new.npz", X[150:], Y[150:])
    run(settings_of(tmp_path / "run", first, BOTH, methods=["pca", "m-pca0"]))
    output = str(tmp_path / "live")
    done = refreshed(tmp_path / "run", new, output)
    assert done["rows"] == 240
    mapped = load_maps(str(tmp_path / "run")).transform(X)
    run(settings_of(tmp_path / "all", write_npz(tmp_path / "mapped.npz", mapped, Y), [], methods=["pca", "m-pca0"]))
    same_models(output, tmp_path / "all", ("pca", "m-pca0"))
    np.testing.assert_array_equal(load_maps(output).transform(X), mapped)
    assert load_moments(output).n_rows == 240
    projected = through(output, new, tmp_path / "projected")
    rows = zarr.open_array(f"{projected['destination']}/projected/pca.zarr/X")[...]
    np.testing.assert_allclose(rows, load_model(output, "pca").transform(mapped[150:]), atol=1e-12)
    shutil.copy(new, tmp_path / "newer.npz")
    again = refreshed(tmp_path / "run", tmp_path / "newer.npz", output)
    assert again["rows"] == 330
    np.testing.assert_array_equal(load_maps(output).transform(X), mapped)


@pytest.mark.e2e
def test_an_evaluation_is_that_of_a_file_of_mapped_rows(tmp_path, limits):
    """In memory, and by merging the moments of folds."""
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    settings = {"methods": ["pca", "m-pca0", "fisher"], "evaluation": {"classifiers": ["fisher", "naive-bayes"]}}
    found, _, results = scored(settings_of(tmp_path / "out", uri, BOTH, **settings))
    maps = open_dataset(uri).with_maps(
        settings_of(tmp_path, uri, BOTH).dataset.maps,
        first_stages.fit_row_maps(Inputs.of(settings_of(tmp_path, uri, BOTH)).dataset, in_memory),
    )  # fmt: skip
    mapped = write_npz(tmp_path / "mapped.npz", maps.read_rows(0, 240), Y)
    expected, _, _ = scored(settings_of(tmp_path / "plain", mapped, [], **settings))
    assert by_cell(found) == by_cell(expected)
    *widths, last = results["maps"]["notes"]
    assert len(widths) == 2 and all("gamma is " in note for note in widths) and last == first_stages.SEES_ALL
    assert results["count"]["stored"]["n_features"] == 6 and results["count"]["n_features"] == 24
    limits.direct_bytes = 0
    merged, _, _ = scored(settings_of(tmp_path / "merged", uri, BOTH, **settings))
    assert by_cell(merged) == by_cell(found)
    preview_evaluation(settings_of(tmp_path / "preview", uri, BOTH, **settings)).refuse_if_too_large()
    assert timeless(found) == timeless(scored(settings_of(tmp_path / "out", uri, BOTH, **settings))[0])


def in_memory(dataset, count, seed):
    return spread_sample(Tasks(scheduler=Threads(1)), dataset, count, seed)


@pytest.mark.e2e
def test_numbers_of_components_are_chosen_on_mapped_rows(tmp_path):
    config = settings_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", X, Y), [NYSTROEM], n_components="auto", methods="pca"
    )
    results = run(config)
    assert list(results)[:4] == ["count", "plan", "maps", "choose"]
    assert max(results["choose"]["methods"]["pca"]["candidates"]) > 6  # more than the table has columns


@pytest.mark.e2e
def test_pictures_of_mapped_images_claim_no_pixels(tmp_path):
    """Components of mapped rows are no images; the report says which columns there are."""
    maps = [{"name": "nystroem", "n_components": 64}]  # as many as pixels
    results = run(config_of(tmp_path / "out", dataset={"maps": maps}, methods=["pca", "m-pca0"]))
    assert results["count"]["image_shape"] is None
    names = [figure["name"] for figure in results["report"]["figures"]]
    assert not {"components", "reconstructions"} & set(names)
    page = Path(results["report"]["html"]).read_text()
    assert '<h2 id="loadings">' in page
    assert "<b>64</b> features that row maps make of 64 columns" in page
    assert Inputs.of(
        config_of(tmp_path / "x", dataset={"maps": maps, "image_shape": [8, 8]})
    ).dataset.mapped.own_columns
    with pytest.raises(InputError, match="image_shape is 8 x 9, but the rows have 64 features"):
        Inputs.of(config_of(tmp_path / "x", dataset={"maps": maps, "image_shape": [8, 9]}))
    unit = run(config_of(tmp_path / "unit", dataset={"maps": "unit-length"}, n_components=[2, 5]))
    assert "components" in [figure["name"] for figure in unit["report"]["figures"]]


@pytest.mark.e2e
def test_the_plan_counts_mapped_rows_and_the_fit(tmp_path):
    maps, uri = [{"name": "nystroem", "n_components": 2000}], "synthetic:gaussian?n=1000000&d=16&seed=1"
    config = config_of(tmp_path / "out", uri, dataset={"maps": maps})
    plan = preview(config)
    assert [each.name for each in plan.passes] == ["moments", "project"]
    assert plan.memory > 5 * 8 * 2000**2
    units = np.diff(Inputs.of(config).dataset.chunk_edges)
    assert units.max() * 2000 * 4 <= 64 << 20


MISTAKES = [
    ("nystrom", "dataset.maps: unknown row map 'nystrom'; there are fourier, nystroem"),
    ([1], "a row map is a name, or a mapping such as {name: nystroem, n_components: 300} (found 1)"),
    ([{"nystroem": {"n_components": 3}}], "a row map is a name, or a mapping such as"),
    ({"name": "fourier", "gama": 1}, "fourier: Unknown key 'gama'. Did you mean 'gamma'?"),
    ({"name": "fourier", "gamma": 0}, "gamma must be scale, or a number above 0, such as 'gamma: 0.1' (found 0)."),
    ({"name": "fourier", "gamma": "scales"}, "gamma must be scale, or a number above 0"),
    ({"name": "nystroem", "kernel": "rbg"}, "kernel must be rbf or laplacian or poly or cosine or linear"),
    ({"name": "nystroem", "kernel": "linear", "degree": 2}, "degree is a parameter of poly, and"),
    ({"name": "nystroem", "n_components": 0}, "n_components must be a whole number from 1 to 20000"),
    ({"name": "unit-length", "seed": 1}, "unit-length: Unknown key 'seed'"),
]


def test_mistaken_maps_are_named_with_what_would_be_right(tmp_path):
    for maps, expected in MISTAKES:
        with pytest.raises(ConfigError) as caught:
            settings_of(tmp_path / "out", "bundled:iris", maps)
        assert expected in str(caught.value)


@pytest.mark.e2e
def test_tables_that_cannot_be_mapped(tmp_path):
    with pytest.raises(InputError, match=r"nystroem takes 300 landmarks among the rows, and bundled:iris has 150 rows"):
        run(settings_of(tmp_path / "out", "bundled:iris", ["nystroem"]))
    bad = X.copy()
    bad[200, 3] = np.inf
    uri = write_parquet(tmp_path / "rows.parquet", bad, Y, NAMES)
    for maps in ([NYSTROEM], ["unit-length"], [{**FOURIER, "gamma": 1}]):
        with pytest.raises(InputError, match=r"Found inf in row 200, column 3 \('d'\)"):
            run(settings_of(tmp_path / "bad", uri, maps))
        assert not (tmp_path / "bad").exists()
    with pytest.raises(InputError, match="n_components=21 is more than the 20 features"):
        run(settings_of(tmp_path / "out", tmp_path / "rows.parquet", [NYSTROEM], n_components=21))
