"""Cubes (y, x, band) in Zarr with a raster of labels: their pixels are rows, and some have no label."""

import itertools

import numpy as np
import pytest
import zarr
from helpers import examples
from helpers.evaluating import scored
from helpers.runs import Recorder, model_hash, refreshed, same_models, through
from helpers.tables import config_of, labelled, make_config, write_npz, write_zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from mmpca_dist import class_moments, load_model, open_dataset, run
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.compose import column_of, open_rows
from mmpca_dist.tables.labels import notes_on_missing

HEIGHT, WIDTH = 23, 17
N = HEIGHT * WIDTH
X, Y = labelled(N, 5, 3, seed=7)
X, Y = X.astype(np.float32), Y + 1
RASTER = np.where(np.random.default_rng(1).random(N) < 0.3, 0, Y)
KEPT = RASTER > 0
no_report = pytest.mark.usefixtures("no_report")


def write(path, labels=RASTER, X=X, chunks=(6, 5, 2), width=WIDTH, **options):
    group = zarr.open_group(str(path), mode="w")
    height = len(X) // width
    group.create_array("reflectance", data=X.reshape(height, width, -1), chunks=chunks, **options)
    if labels is not None:
        group.create_array("cover", data=labels.reshape(height, width), chunks=(7, 9))
        group.create_array("block", data=(np.arange(len(X)) // 60 % 4).reshape(height, width), chunks=(height, width))
    return str(path)


NAMED = {"features": "reflectance", "label": "cover"}
SKIPPING = {**NAMED, "unlabelled": "skip", "unlabelled_value": 0}


@settings(max_examples=examples(12))
@given(st.tuples(*map(st.integers, (1, 1, 1), (23, 17, 5))), st.integers(0, N - 1), st.integers(1, N), st.booleans())
def test_rows_are_pixels_whatever_the_chunks(tmp_path_factory, chunks, start, size, sharded):
    more = {"shards": tuple(2 * chunk for chunk in chunks)} if sharded else {}
    dataset = open_dataset(write(tmp_path_factory.mktemp("c"), chunks=chunks, **more), **NAMED)
    stop = min(start + size, N)
    np.testing.assert_array_equal(dataset.read_rows(start, stop), X[start:stop])
    np.testing.assert_array_equal(dataset.read_labels(start, stop), RASTER[start:stop])
    out = np.empty((stop - start, 5), np.float32)
    assert np.shares_memory(dataset.read_rows(start, stop, out), out)
    np.testing.assert_array_equal(out, X[start:stop])
    np.testing.assert_array_equal(
        column_of(dataset.stored, "block", "").read(start, stop)[0], np.arange(start, stop) // 60 % 4
    )
    assert dataset.chunk_edges.tolist() == [*range(0, N, chunks[0] * WIDTH), N]


def test_bands_of_chunks_that_are_large_are_cut_within_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(LIMITS, "band_bytes", 4 * WIDTH * 5 * 4)
    dataset = open_dataset(write(tmp_path / "c.zarr"), **NAMED)
    assert (dataset.chunk_edges // WIDTH).tolist() == [0, 4, 6, 10, 12, 16, 18, 22, 23]
    assert "lines 4 to 5" in dataset.describe_chunk(5 * WIDTH)


@pytest.mark.parametrize("value", [0, "0"])
def test_moments_have_the_bits_of_the_same_rows_in_zarr(value, tmp_path):
    rows = open_dataset(write(tmp_path / "c.zarr"), **{**SKIPPING, "unlabelled_value": value})
    assert rows.n_rows == KEPT.sum()
    np.testing.assert_array_equal(rows.read_rows(0, rows.n_rows), X[KEPT])
    np.testing.assert_array_equal(rows.read_labels(0, rows.n_rows), RASTER[KEPT])
    found = class_moments(rows)
    flat = open_dataset(write_zarr(tmp_path / "t.zarr", X, RASTER, 6 * WIDTH), unlabelled="skip", unlabelled_value=0)
    expected = class_moments(flat)
    np.testing.assert_array_equal(found.scatters, expected.scatters)
    few = class_moments(open_dataset(write_zarr(tmp_path / "few.zarr", X[KEPT], RASTER[KEPT], 50)))
    np.testing.assert_allclose(found.scatters, few.scatters, rtol=1e-12, atol=1e-9)
    assert found.classes.tolist() == [1, 2, 3]


@pytest.mark.e2e
@no_report
def test_a_run_evaluates_by_blocks_and_transforms_all_pixels(tmp_path):
    uri = write(tmp_path / "c.zarr")
    more = {"evaluation": {"splits": "groups", "column": "block", "folds": 4, "classifiers": ["lda"], "margins": False}}
    config = config_of(tmp_path / "out", uri, methods=["m-pca0", "pca"], dataset=SKIPPING, **more)
    results = run(config)
    assert results["count"]["notes"] == [f"Rows left out, as they have no label: {N - KEPT.sum()}."]
    records, _, _ = scored(config)
    assert len(records) == 4 and sum(record["rows"] for record in records) == KEPT.sum()
    flat = write_npz(tmp_path / "t.npz", X[KEPT], RASTER[KEPT])
    run(config_of(tmp_path / "flat", flat, methods=["m-pca0", "pca"]))
    same_models(tmp_path / "out", tmp_path / "flat", ["m-pca0"], atol=1e-6)
    model, recorder = load_model(str(tmp_path / "out"), "m-pca0"), Recorder()
    new = write(tmp_path / "new.zarr", labels=None)
    for name, rows in (("all", uri), ("new", new)):
        through(tmp_path / "out", rows, tmp_path / name, recorder, methods=["m-pca0"])
        Z = open_rows(str(tmp_path / f"{name}/projected/m-pca0.zarr")).read(0, N)
        image = Z.reshape(HEIGHT, WIDTH, 2)
        np.testing.assert_allclose(image[3, 4], model.transform(X[[3 * WIDTH + 4]])[0], rtol=1e-4, atol=1e-4)
    assert any("have no label, so the labels go with the projected rows" in note for note in recorder.notes)
    more = write(tmp_path / "more.zarr", X=X + 1)
    live = refreshed(tmp_path / "out", more, tmp_path / "live")["folder"]
    both = np.vstack([X[KEPT], X[KEPT] + 1]).astype(float)
    np.testing.assert_allclose(load_model(live, "pca").mean_, both.mean(axis=0), rtol=1e-6)


@no_report
@pytest.mark.e2e
def test_results_have_the_same_bits_for_any_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(LIMITS, "unit_bytes", 2000)
    monkeypatch.setattr(LIMITS, "smallest_unit_bytes", 2000)
    hashes = set()
    for workers, kind in itertools.product((1, 2), ("cube", "again")):
        output = tmp_path / f"{kind}{workers}"
        dataset = {"uri": write(tmp_path / "c.zarr"), **SKIPPING}
        run(make_config(output, methods=["pca"], n_components=[2], dataset=dataset, compute={"workers": workers}))
        hashes.add(model_hash(output, ["pca"]))
    assert len(hashes) == 1


def test_rows_without_a_label_are_refused_unless_they_are_skipped(tmp_path):
    uri, first = write(tmp_path / "c.zarr"), int(np.argmin(KEPT))
    with pytest.raises(
        InputError, match=f"Row {first} of .* has the label 0, which .* dataset.unlabelled: skip leaves"
    ):
        class_moments(open_dataset(uri, **NAMED, unlabelled_value=0))
    assert class_moments(open_dataset(uri, **NAMED)).classes.tolist() == [0, 1, 2, 3], "0 is a class otherwise"
    with pytest.raises(InputError, match=r"No row of .* is left: none has a label"):
        open_dataset(write(tmp_path / "z.zarr", labels=np.zeros(N, int)), **SKIPPING)
    texts = write_zarr(tmp_path / "t.zarr", X, np.where(KEPT, "crop", "unknown"), 50)
    assert open_dataset(texts, unlabelled="skip", unlabelled_value="unknown").n_rows == KEPT.sum()


def test_chunks_that_are_not_stored(tmp_path):
    """A raster leaves out chunks of pixels without a class; those of rows are never made up."""
    labels = RASTER.reshape(HEIGHT, WIDTH).copy()
    labels[7:14, :9] = 0
    uri = write(tmp_path / "c.zarr", labels.ravel())
    assert not (tmp_path / "c.zarr/cover/c/1/0").exists()
    rows = open_dataset(uri, **SKIPPING)
    assert notes_on_missing(rows.label_column) == [] and class_moments(rows).sizes.sum() == np.count_nonzero(labels)
    as_class = open_dataset(uri, **NAMED)
    missing = as_class.label_column.missing
    assert (missing.n_rows, missing.stretches) == (63, ((7 * WIDTH, 14 * WIDTH),))
    with pytest.raises(InputError, match=r"lacks 1 of the chunks of 'cover', the first one \(1, 0\)"):
        open_dataset(uri, **NAMED, missing_chunks="refuse")
    (tmp_path / "c.zarr/reflectance/c/2/1/0").unlink()
    with pytest.raises(InputError, match=r"lacks 1 of the chunks of 'reflectance', .*: lines 12 to 17"):
        open_dataset(uri, **SKIPPING)


def test_what_does_not_fit_is_refused(tmp_path):
    uri = write(tmp_path / "c.zarr")
    group = zarr.open_group(uri, mode="a")
    group.create_array("flat", data=RASTER)
    group.create_array("bands", data=np.moveaxis(X.reshape(HEIGHT, WIDTH, 5), 2, 0))
    with pytest.raises(InputError, match=r"'flat' of .* has shape \(391,\); labels must have shape \(y, x\)"):
        open_dataset(uri, features="reflectance", label="flat")
    with pytest.raises(InputError, match=r"of shape \(23, 17\), and 'bands' of \(5, 23\) pixels. .*: transpose it"):
        open_dataset(uri, features="bands", label="cover")
    group.create_array("X", data=X)
    with pytest.raises(InputError, match=r"'cover' of .* has shape \(23, 17\); labels must have shape \(n,\)"):
        open_dataset(uri, label="cover")
