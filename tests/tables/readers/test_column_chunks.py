"""Rows whose chunks end along the columns too: read whole, planned for, or refused with what would help."""

import dask.array as da
import numpy as np
import psutil
import pytest
import zarr
from helpers.ingested import ingest
from helpers.tables import labelled, make_config, write_zarr

import mmpca_dist.ingest.sources as sources
from mmpca_dist import MarginPCA, class_moments, load_model, open_dataset, run
from mmpca_dist.errors import InputError, PlanError
from mmpca_dist.passes.dask_rows import dask_rows
from mmpca_dist.runs.fit import preview
from mmpca_dist.tables.spans import make_spans

N, D = 120, 10
LAYOUTS = {
    "v3": {"chunk": 20, "columns": 4},
    "v3 bare": {"chunk": 20, "columns": 4, "compressors": None},
    "v3 sharded": {"chunk": 10, "columns": 2, "shards": (20, 4)},
    "v3 all columns in chunks of one": {"chunk": 20, "columns": 1},
    "v2": {"chunk": 20, "columns": 4, "v2": True},
}


def without_report(monkeypatch):
    monkeypatch.setattr("mmpca_dist.report.run_page.write_report", lambda *_: {"outputs": []})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_bits_are_those_of_chunks_of_whole_rows(layout, tmp_path, monkeypatch):
    without_report(monkeypatch)
    X, y = labelled(N, D, 3, seed=0)
    uris = {
        "rows": write_zarr(tmp_path / "rows.zarr", X, y, 20, labels_in=30),
        "both": write_zarr(tmp_path / "both.zarr", X, y, labels_in=30, **LAYOUTS[layout]),
    }
    assert make_spans(open_dataset(uris["both"])) == make_spans(open_dataset(uris["rows"]))
    for name, uri in uris.items():
        run(make_config(tmp_path / name, uri, methods=["m-pca0", "m-pca1b"], n_components=2))
    for method in ("m-pca0", "m-pca1b"):
        one, other = (load_model(str(tmp_path / name), method) for name in uris)
        np.testing.assert_array_equal(one.components_, other.components_)
        one, other = (open_dataset(tmp_path / name / "projected" / f"{method}.zarr").read_rows(0, N) for name in uris)
        np.testing.assert_array_equal(one, other)


@pytest.mark.e2e
def test_the_plan_holds(tmp_path, monkeypatch):
    """98 MiB of rows, 12 MiB a row of chunks; every chunk is read once a pass."""
    without_report(monkeypatch)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100_000, 256), dtype=np.float32), rng.integers(3, size=100_000)
    uri = write_zarr(tmp_path / "a.zarr", X, y, 12_500, columns=50)
    config = make_config(tmp_path / "out", uri, methods=["pca"], n_components=2, precision="single")
    plan = preview(config)
    assert [p.bytes for p in plan.passes] == [X.nbytes] * 2 and not plan.advice
    results = run(config)
    assert max(results[stage]["memory"] for stage in ("reduce", "project")) <= plan.memory


def test_rows_of_chunks_that_are_too_large_are_refused_with_the_chunks_that_help(tmp_path):
    """30,000 rows of 20,000 columns in chunks of 2 MiB: small chunks, but 2.2 GiB a row of them."""
    zarr.create_array(f"{tmp_path}/a.zarr/X", shape=(30_000, 20_000), chunks=(30_000, 20), dtype="f4")
    zarr.create_array(f"{tmp_path}/a.zarr/y", data=np.arange(30_000) % 2)
    zarr.create_group(f"{tmp_path}/a.zarr")
    config = make_config(
        tmp_path / "out", f"{tmp_path}/a.zarr", methods=["hsic"], n_components=1,
        dataset={"missing_chunks": "fill"},
    )  # fmt: skip
    advice = (
        r"A task reads whole rows of whole chunks, 30000 rows or 2.24 GiB at a time; chunks of 838 rows and all "
        r"columns would do: mmpca ingest .*a.zarr DEST.zarr\.$"
    )
    with pytest.raises(PlanError, match=advice):
        preview(config).refuse_if_too_large()


def test_ingest_makes_such_chunks_in_bounded_memory(tmp_path, monkeypatch, limits):
    X, y = labelled(N, D, 3, seed=1)
    uri = write_zarr(tmp_path / "a.zarr", X, y, N, columns=3, labels_in=30)
    limits.band_bytes = 7 * X.strides[0]
    read, encode = [], sources.encode_block
    monkeypatch.setattr(sources, "encode_block", lambda y, where: read.append(len(y)) or encode(y, where))
    ingest(uri, tmp_path / "b.zarr", chunk_bytes=10 * X.strides[0])
    assert max(read) == 7
    made = zarr.open_array(f"{tmp_path}/b.zarr/X")
    assert made.chunks == (10, D)
    np.testing.assert_array_equal(made[:], X)


@pytest.mark.parametrize("stored", [False, True], ids=["blocks", "from_zarr"])
def test_dask_arrays(stored, tmp_path):
    """Arrays straight from Zarr are read in whole rows, without the chunks that Dask would join."""
    X, y = labelled(N, D, 3, seed=2)
    uri = write_zarr(tmp_path / "a.zarr", X, y, 20, columns=3, labels_in=30)
    rows = da.from_zarr(uri, component="X") if stored else da.from_array(X, (20, 3))
    assert rows.numblocks == (6, 4)
    assert (dask_rows(rows, y)[1].stored is not None) == stored
    found, expected = class_moments(rows, y), class_moments(open_dataset(uri))
    np.testing.assert_array_equal(found.scatters, expected.scatters)
    reducer = MarginPCA(2).fit(rows, y)
    np.testing.assert_allclose(reducer.transform(rows).compute(), reducer.transform(X), rtol=1e-12, atol=1e-12)


def test_dask_arrays_whose_rows_do_not_fit_memory_are_refused(monkeypatch):
    X, y = labelled(N, D, 3, seed=3)
    rows = da.from_array(X, (60, 3))
    reducer = MarginPCA(2).fit(rows, y)
    need = 2 * 60 * D * 8
    for free in (need, need - 1):
        monkeypatch.setattr(psutil, "virtual_memory", lambda free=free: type("Memory", (), {"available": free}))
        if free == need:
            dask_rows(rows, y)
            continue
        for use in (lambda: MarginPCA(2).fit(rows, y), lambda: reducer.transform(rows)):
            with pytest.raises(InputError, match=r"hold 60 rows of some columns.*free.*chunks=\(838860, -1\)"):
                use()
