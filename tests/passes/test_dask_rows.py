"""Passes over Dask arrays: one flat graph, planned in time that grows with the blocks; ``da.from_zarr``."""

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from dask.highlevelgraph import HighLevelGraph, Layer

from mmpca_dist import MarginPCA, class_moments, open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.passes.dask_rows import dask_rows

D = 6


@pytest.fixture
def several_units(limits):
    """Reading units of two blocks."""
    limits.unit_bytes = 2 * 10 * D * 8


def blocks(n_blocks, columns=D, labels=da.from_array):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10 * n_blocks, D)), np.arange(10 * n_blocks) % 3
    return da.from_array(X, (10, columns)), labels(y) if labels is np.asarray else labels(y, 10)


def work_of_a_fit(n_blocks, columns, labels, monkeypatch):
    """Return how many graphs are joined and how many layers are searched for what is needed, in a fit."""
    counts = {"merge": 0, "cull": 0}
    merge, cull = HighLevelGraph.merge.__func__, Layer.cull

    def count_merge(cls, *graphs):
        counts["merge"] += len(graphs)
        return merge(cls, *graphs)

    def count_cull(layer, *args):
        counts["cull"] += 1
        return cull(layer, *args)

    X, y = blocks(n_blocks, columns, labels)
    with monkeypatch.context() as patched:
        patched.setattr(HighLevelGraph, "merge", classmethod(count_merge))
        patched.setattr(Layer, "cull", count_cull)
        MarginPCA(2).fit(X, y).transform(X).compute()
    return counts


@pytest.mark.parametrize("labels", [da.from_array, np.asarray], ids=["dask-labels", "labels-in-memory"])
@pytest.mark.parametrize("columns", [D, 2], ids=["whole-rows", "split-along-columns"])
def test_the_graphs_to_plan_do_not_grow_in_number_with_the_blocks(columns, labels, monkeypatch):
    """A graph a block, joined and searched one by one, made planning quadratic."""
    few, many = (work_of_a_fit(n, columns, labels, monkeypatch) for n in (5, 40))
    assert few == many


def test_labels_in_memory_are_cut_without_a_task_that_all_blocks_wait_for():
    X, y = blocks(30, labels=np.asarray)
    graph = dask_rows(X, y)[1].graph
    dependents = [key for node in graph.values() for key in node.dependencies]
    by_key = {key: dependents.count(key) for key in dependents}
    by_key = {key: n for key, n in by_key.items() if not str(key).startswith("original-")}
    assert max(by_key.values(), default=0) <= 1


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 17])
def test_the_same_bits_whatever_the_labels_are_held_by_and_whoever_runs_the_tasks(n_blocks, several_units):
    X, y = blocks(n_blocks)
    expected = class_moments(X, y)
    for labels, scheduler in ((np.asarray(y), "threads"), (y, "sync"), (y.rechunk(7), "threads")):
        with dask.config.set(scheduler=scheduler):
            found = class_moments(X, labels)
        np.testing.assert_array_equal(found.means, expected.means)
        np.testing.assert_array_equal(found.scatters, expected.scatters)


def test_rows_that_a_cluster_holds_already_are_used_where_they_are():
    from distributed import Client

    X, y = blocks(9)
    expected = MarginPCA(2).fit(X, y)
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        X, y = client.persist([X, y])
        found = MarginPCA(2).fit(X, y)
        Z = found.transform(X).compute()
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(Z, expected.transform(np.asarray(blocks(9)[0])))


N, WIDTH = 120, 5


@pytest.fixture(params=["plain", "zstd", "sharded"])
def store(request, tmp_path):
    options = {
        "plain": {"compressors": None, "chunks": (20, WIDTH)},
        "zstd": {"compressors": [zarr.codecs.ZstdCodec()], "chunks": (20, WIDTH)},
        "sharded": {"compressors": None, "chunks": (10, WIDTH), "shards": (20, WIDTH)},
    }[request.param]
    rng = np.random.default_rng(0)
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    X = group.create_array("X", shape=(N, WIDTH), dtype="f4", **options)
    X[...] = rng.standard_normal((N, WIDTH)) + 7
    y = group.create_array("y", shape=(N,), chunks=(20,), dtype="i2")
    y[...] = rng.integers(3, size=N)
    return str(tmp_path / "a.zarr")


def arrays(store):
    return da.from_zarr(store, component="X"), da.from_zarr(store, component="y")


def test_the_same_bits_by_the_short_way_by_blocks_and_from_the_data_set(store):
    X, y = arrays(store)
    by_blocks = X + np.float32(0)
    assert dask_rows(X, y)[1].stored is not None
    assert dask_rows(by_blocks, y)[1].stored is None
    short = class_moments(X, y)
    for other in (class_moments(by_blocks, y), class_moments(open_dataset(store))):
        np.testing.assert_array_equal(short.scatters, other.scatters)
        np.testing.assert_array_equal(short.means, other.means)


@pytest.mark.parametrize("change", [lambda X: X[1:], lambda X: X[::-1], lambda X: X * 2, lambda X: X.rechunk((30, 5))])
def test_whatever_was_done_to_the_array_goes_by_its_blocks(store, change):
    """An array that is not the stored one any more must not be read from the store."""
    X, y = arrays(store)
    changed = change(X)
    labels = np.asarray(y)[: len(changed)]
    assert dask_rows(changed, labels)[1].stored is None
    expected = class_moments(changed.compute(), labels, precision="double")
    found = class_moments(changed, labels, precision="double")
    np.testing.assert_allclose(found.scatters, expected.scatters, rtol=1e-12)
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-12)


def test_a_value_that_is_not_finite_is_named_by_its_row(store):
    zarr.open_array(f"{store}/X", mode="r+")[77, 3] = np.nan
    with pytest.raises(InputError, match=r"nan in row 77, column 3, in rows 60 to 79"):
        class_moments(*arrays(store))
