"""Pairs by the part held out: the same bits wherever the search runs, rows of other kinds, passes, refusals."""

from dataclasses import replace
from functools import partial

import dask.array as da
import numpy as np
import pytest
from helpers.part_samples import assert_training, difference_rows, find_all, make_small, prepared, training_statistics
from helpers.samples import even_edges
from helpers.tables import counts_like_text, labelled, write_csr
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.pair_folds import with_pairs_by_part
from mmpca_dist.passes.dask_rows import dask_rows
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.passes.scratch import open_scratch
from mmpca_dist.tables.compose import open_dataset
from mmpca_dist.tables.readers.memory import rows_in_memory

EPS = float(np.finfo(np.float64).eps)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


# ------------------------------------------------------------------------------------------------- wherever it runs

URI = "synthetic:clusters?n=900&d=24&k=40&classes=3&seed=7"
NAMES = np.random.default_rng(9).integers(0, 4, 900)
NAMED = np.unique(NAMES)
SEARCHES = (
    Search(), Search(mutual="once"), Search("approximate", 0.8),
    Search("approximate", 0.8, 800, "one-vs-one"),
)  # fmt: skip


def bits(scheduler, opener, searches=SEARCHES):
    """Return the bytes of every scatter."""
    rows, parts = prepared(open_dataset(URI), NAMES, edges=even_edges(900, 117))
    X, y, found = rows.dataset.read_rows(0, 900), rows.dataset.read_labels(0, 900), []
    for wanted in searches:
        training = [training_statistics(X, y, part != NAMES, {"precision": "single"})[-1] for part in NAMED]
        for statistics in with_pairs_by_part(training, replace(rows, scheduler=scheduler), parts, wanted, opener):
            pairs = statistics.pairs[wanted]
            found.append(pairs.scatter.tobytes() + pairs.sample.tobytes() + repr(pairs.certificate).encode())
    assert len(set(found)) == len(found)
    return found


@pytest.fixture
def reference(small, limits):
    limits.smallest_segment = 200
    limits.rows_per_cell = 20
    return bits(Threads(1), partial(open_scratch, True))


@pytest.mark.e2e
def test_the_same_bits_for_any_number_of_threads_in_memory_and_on_disk(reference, tmp_path):
    assert bits(Threads(4), partial(open_scratch, True)) == reference
    assert bits(Threads(2), partial(open_scratch, False, str(tmp_path))) == reference
    assert not list(tmp_path.iterdir()), "the scratch is gone"


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_the_same_bits_for_worker_processes(cluster, reference, tmp_path):
    found = bits(Cluster(cluster), partial(open_scratch, False, str(tmp_path)), SEARCHES[1:3])
    assert found == reference[len(NAMED) : 3 * len(NAMED)]


@pytest.mark.parametrize("n_parts", [2, 3])
def test_dask_arrays(n_parts):
    """Their labels come with the tasks."""
    X, y = labelled(200, 6, 3, seed=10)
    names = np.arange(200) % n_parts
    statistics = [training_statistics(X, y, names != part, {"precision": "double"})[-1] for part in range(n_parts)]
    plain, parts = prepared(rows_in_memory(X, y), names)
    lazy = Rows.of(*dask_rows(da.from_array(X, (47, 4)), y))
    expected, found = (
        with_pairs_by_part(statistics, rows, parts, Search(), partial(open_scratch, True)) for rows in (plain, lazy)
    )
    for own, other in zip(found, expected, strict=True):
        own_pairs, other_pairs = own.pairs[Search()], other.pairs[Search()]
        atol = 300 * EPS * np.trace(other_pairs.scatter)
        np.testing.assert_allclose(own_pairs.scatter, other_pairs.scatter, rtol=0, atol=atol)
        np.testing.assert_array_equal(own_pairs.counts, other_pairs.counts)


@pytest.mark.parametrize("n_parts", [2, 4])
def test_sparse_rows(n_parts, tmp_path):
    (values, indices, indptr), X, y = counts_like_text(150, 30, 3, seed=11)
    data = open_dataset(write_csr(tmp_path / "rows.zarr", (values, indices, indptr), X.shape, labels=y))
    assert data.sparse and csr_array((values, indices, indptr), X.shape).nnz
    names = np.arange(150) % n_parts
    found = find_all(data, names)
    assert_training(found, X, y, names)
    training = [training_statistics(X, y, names != part, {"precision": "double"})[-1] for part in range(n_parts)]
    by_part = with_pairs_by_part(training, *prepared(data, names), Search(), partial(open_scratch, True))
    for part, statistics in enumerate(by_part):
        rows = difference_rows(X.astype(float), y, names != part, None, "one-vs-rest", "twice")
        expected = sum(np.outer(row, row) for row in rows)
        atol = 300 * EPS * np.trace(expected)
        np.testing.assert_allclose(statistics.pairs[Search()].scatter, expected, rtol=0, atol=atol)


# ------------------------------------------------------------------------------------------------- passes, refusals


@pytest.mark.parametrize("n_parts", [2, 3])
def test_a_bad_value_is_named_even_where_it_is_held_out(n_parts):
    X, y = labelled(60, 3, 2, seed=14)
    names = np.arange(60) % n_parts
    training = [training_statistics(X, y, names != part, {"precision": "double"})[-1] for part in range(n_parts)]
    X = X.copy()
    X[33, 1] = np.nan
    found = with_pairs_by_part(training, *prepared(rows_in_memory(X, y), names), Search(), partial(open_scratch, True))
    with pytest.raises(InputError, match=r"^Found nan in row 33, column 1"):
        list(found)


def test_published_table(real_data):
    X, y = real_data("ionosphere_raw")
    names = np.random.default_rng(15).integers(0, 5, len(X))
    assert_training(find_all(rows_in_memory(X, y), names), X, y, names)
