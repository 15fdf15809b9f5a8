"""Approximate searches: recall, certificates, drawn queries; and the same bits wherever the work runs."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import dask
import dask.array as da
import naive
import numpy as np
import pytest
import scipy.stats
from distributed import Client, LocalCluster
from helpers.part_samples import make_small
from helpers.samples import even_edges, find
from helpers.tables import entangled

from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors import nearest
from mmpca_dist.neighbors.estimator import NearestOpposite
from mmpca_dist.neighbors.layout import ARRAYS
from mmpca_dist.neighbors.nearest import Recall, _first_half, _sampled
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.passes.scratch import MemoryScratch, ZarrScratch
from mmpca_dist.statistics.medians import PAIRINGS
from mmpca_dist.tables.compose import open_dataset

URI = "synthetic:clusters?n=2000&d=24&k=40&classes=3&seed=7"
EDGES = even_edges(2000, 217)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch, 20, 200, 300)


# ------------------------------------------------------------------------------------------------- recall


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wanted", [0.8, 0.95])
def test_what_an_approximate_search_says_of_itself_is_true(wanted, seed, pairing):
    """Recall as measured on its sample, an interval above what was wanted, and no wrong neighbour called proved."""
    X, y = entangled(1200, 8 + 12 * seed, seed)
    found = find(X, y, mode="approximate", recall=wanted, pairing=pairing)
    rows, neighbours, distances = found.arrays()
    _, exact = naive.nearest_opposite(X, y, pairing)
    np.testing.assert_array_equal(rows, np.arange(1200))
    assert_distances_are_of_the_neighbours(X, y, neighbours, distances)
    assert (distances >= exact).all()
    right = (distances == exact).all(axis=1)
    proved = proved_queries(found)
    assert right[proved].all(), "a wrong neighbour was called proved"
    certificate = found.certificate()
    assert certificate["proved_exact"] == proved.sum() / 1200
    if found.recall is None:
        assert right.all() and found.effort == np.inf and proved.all()
        return
    tested = _sampled(1200, None, LIMITS.calibration_queries)
    tested = tested[~_first_half(tested)]
    assert len(tested) == 300
    counted = neighbours[tested] >= 0
    assert found.recall.sampled == counted.sum()
    assert found.recall.found == ((distances == exact)[tested] & counted).sum()
    low, high = found.recall.interval
    assert wanted <= low <= found.recall.share <= high
    assert certificate["recall"] == {"share": found.recall.share, "low": low, "high": high, "sampled": counted.sum()}


def assert_distances_are_of_the_neighbours(X, y, neighbours, distances):
    """Whatever was found is a row of another class (of that class), at the distance that is told."""
    known = np.argwhere(neighbours >= 0)
    for i, slot in known[:: max(1, len(known) // 300)]:
        j = neighbours[i, slot]
        assert y[j] != y[i] and (neighbours.shape[1] == 1 or y[j] == slot)
        assert distances[i, slot] == np.sqrt(naive.squared_distance(X[i].tolist(), X[j].tolist()))


def proved_queries(found):
    """Return which rows' neighbours the tables prove: nothing that was left out can be nearer."""
    proved = np.zeros(found.layout.n_rows, bool)
    for span in found.tables.spans:
        rows, codes = found.tables.get(span.index, "queries", "codes")
        best = found.tables.best(span)
        proved[rows] = best.open_bounds > best.reach(codes, found.layout.cells.frame.scale, 1)
    return proved


def test_an_approximate_search_is_cheaper():
    X, y = entangled(3000, 4, 5)
    exact, rough = find(X, y).certificate(), find(X, y, mode="approximate", recall=0.8).certificate()
    assert rough["compared_per_query"] < exact["compared_per_query"]
    assert 0 < rough["proved_exact"] < 1 == exact["proved_exact"]
    assert exact["recall"] is None and rough["recall"]["low"] >= 0.8


def rounds_of(found):
    return len({name.split("-")[1] for name in found.layout.scratch.tables if name.startswith("nearest.")})


def calibrated_in_steps(step, asked):
    """Return a calibration that looks a little further whenever it is asked, and notes for which recall."""

    def calibrate(sample, recall):
        asked.append(recall)
        return step * len(asked)

    return calibrate


def test_too_low_a_recall_is_searched_further(monkeypatch):
    """From cells that are nearest alone, round by round; each goes on from what is known and aims higher."""
    X, y = entangled(1500, 12, 6)
    _, exact = naive.nearest_opposite(X, y)
    rounds = []
    for wanted in (0.3, 0.8, 0.97):
        asked = []
        monkeypatch.setattr(nearest, "_calibrate", calibrated_in_steps(0.25, asked))
        found = find(X, y, mode="approximate", recall=wanted)
        distances = found.arrays()[2]
        rounds.append(rounds_of(found))
        assert found.recall is None or found.recall.interval[0] >= wanted
        assert found.effort == (0.25 * rounds[-1] if rounds[-1] <= nearest.MAX_ROUNDS else np.inf)
        np.testing.assert_allclose(1 - np.array(asked), (1 - wanted) * 0.5 ** np.arange(len(asked)))
        assert np.mean(distances == exact) >= wanted  # 1,500 rows: far above the interval's lower end
        assert (distances == exact)[proved_queries(found)].all()
    assert rounds == sorted(rounds) and rounds[-1] > rounds[0]


def test_a_recall_that_is_never_reached_ends_exact(monkeypatch):
    monkeypatch.setattr(nearest, "_calibrate", lambda *_: 0.0)
    monkeypatch.setattr(nearest, "_measure", lambda *_: Recall(1, 10, 10, np.empty((0, 3), np.int64)))
    X, y = entangled(1000, 12, 7)
    found = find(X, y, mode="approximate", recall=0.9)
    assert found.recall is None and found.effort == np.inf and rounds_of(found) == nearest.MAX_ROUNDS + 1
    np.testing.assert_array_equal(found.arrays()[1], naive.nearest_opposite(X, y)[0])
    assert found.certificate()["proved_exact"] == 1


def test_a_recall_that_few_rows_cannot_show_is_searched_for_exactly():
    """1,000 of 1,000 found would not show 99.9%."""
    X, y = entangled(1000, 12, 7)
    found = find(X, y, mode="approximate", recall=0.999)
    assert found.recall is None and found.certificate()["proved_exact"] == 1


def test_few_rows_are_searched_exactly_in_any_mode():
    X, y = entangled(600, 6, 8)
    found = find(X, y, mode="approximate", recall=0.5)
    assert found.recall is None
    np.testing.assert_array_equal(found.arrays()[1], naive.nearest_opposite(X, y)[0])


def test_the_interval_is_that_of_clopper_and_pearson():
    """Its ends are the shares at which so few, or so many, would be found once in forty times."""
    none = np.empty((0, 3), np.int64)
    low, high = Recall(95, 100, 100, none).interval
    np.testing.assert_allclose(scipy.stats.binom.sf(94, 100, low), 0.025, rtol=1e-6)
    np.testing.assert_allclose(scipy.stats.binom.cdf(95, 100, high), 0.025, rtol=1e-6)
    assert Recall(100, 100, 100, none).interval[1] == 1 and Recall(0, 10, 10, none).interval[0] == 0
    # Neighbours of one query are found or missed together: three a query tell no more than one.
    np.testing.assert_allclose(Recall(285, 300, 100, none).interval, (low, high))


def test_ties_count_as_found():
    """Rows that occur twice have two nearest rows at one distance: either is right."""
    X, y = entangled(700, 10, 9)
    X, y = np.concatenate([X, X]), np.concatenate([y, y])
    found = find(X, y, mode="approximate", recall=0.9)
    distances = found.arrays()[2]
    _, exact = naive.nearest_opposite(X, y)
    assert np.mean(distances == exact) > 0.9


# ------------------------------------------------------------------------------------------------- drawn queries


@pytest.mark.parametrize("mode", ["exact", "approximate"])
@pytest.mark.parametrize("wanted", [2, 50, 700, 1199, 1200, 5000])
def test_so_many_queries_are_drawn_always_the_same(wanted, mode):
    X, y = entangled(1200, 10, 10)
    found = find(X, y, max_queries=wanted, mode=mode, recall=0.9)
    rows, neighbours, distances = found.arrays()
    assert len(rows) == min(wanted, 1200) == found.certificate()["queries"]
    assert len(np.unique(rows)) == len(rows)
    expected, exact = naive.nearest_opposite(X, y, queries=rows)
    if mode == "exact":
        np.testing.assert_array_equal(neighbours, expected)
    assert np.mean(distances == exact) >= (0.9 if wanted >= 700 else 1)
    again = find(X, y, edges=even_edges(1200, 100), max_queries=wanted, mode=mode, recall=0.9).arrays()
    np.testing.assert_array_equal(again[0], rows)


def test_every_row_is_as_likely_to_be_drawn():
    drawn = np.zeros(60)
    for seed in range(400):
        drawn[nearest.draw_rows(60, 15, seed)] += 1
    # 400 draws a row with probability 1/4: 100 with standard deviation 8.7; five of these over 60 rows
    assert np.abs(drawn - 100).max() < 5 * 8.7


# ------------------------------------------------------------------------------------------------- the same bits


SEARCHES = (
    {"mode": "exact", "pairing": "one-vs-one"},
    {"mode": "approximate", "recall": 0.9},
    {"mode": "exact", "max_queries": 700},
)


def bits(scheduler, make_scratch=MemoryScratch, searches=SEARCHES):
    """Return the bytes of what each search finds, and of what it says of itself."""
    results = []
    for options in searches:
        found = find(open_dataset(URI), edges=EDGES, scheduler=scheduler, scratch=make_scratch(), **options)
        parts = [array.tobytes() for array in found.arrays()]
        results.append(b"".join([*parts, repr(found.certificate()).encode()]))
    return results


@pytest.fixture(scope="module")
def reference():
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch, 20, 200, 300)
        data = open_dataset(URI)
        X, y = data.read_rows(0, 2000), data.read_labels(0, 2000)
        found = bits(Threads(1))
        exact = find(X, y, edges=EDGES, pairing="one-vs-one").arrays()
        expected, distances = naive.nearest_opposite(X, y, "one-vs-one", np.arange(0, 2000, 10))
        np.testing.assert_array_equal(exact[1][::10], expected)
        np.testing.assert_array_equal(exact[2][::10], distances)
        assert found[0].startswith(b"".join(array.tobytes() for array in exact))
    return found


@pytest.mark.parametrize("threads", [2, 4])
def test_the_same_bits_for_any_number_of_threads(threads, reference):
    assert bits(Threads(threads)) == reference


@pytest.mark.e2e
def test_the_same_bits_from_memory_and_from_a_store(tmp_path, reference):
    assert bits(Threads(2), lambda: ZarrScratch(str(tmp_path / os.urandom(4).hex()))) == reference


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4))], indirect=True)
def test_the_same_bits_for_any_number_of_worker_processes(cluster, tmp_path, reference):
    assert bits(Cluster(cluster), lambda: ZarrScratch(str(tmp_path / os.urandom(4).hex()))) == reference


@pytest.mark.parametrize("chunk_bytes", [1, 300, 1 << 20])
def test_rows_taken_from_a_store_are_those_of_memory(chunk_bytes, tmp_path, limits):
    """Whatever chunks they lie in; arrays without columns and of one dimension too."""
    limits.scratch_chunk_bytes = chunk_bytes
    rng = np.random.default_rng(0)
    table = {"x": rng.standard_normal((50, 7)), "tail": np.empty((50, 0), np.float32), "rows": rng.permutation(50)}
    kept = [MemoryScratch(), ZarrScratch(str(tmp_path))]
    for scratch in kept:
        scratch.put("table", table)
    for positions in ([], [0], [49], [3, 4, 5, 20, 48], np.arange(50)):
        memory, store = (scratch.get("table", tuple(table), np.asarray(positions, np.int64)) for scratch in kept)
        for expected, found in zip(memory, store, strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@dataclass
class Fatal(ZarrScratch):
    """A scratch that kills the worker which first reads cells of the fifth segment to search them."""

    flag: str = ""
    driver: int = field(default_factory=os.getpid)

    def get(self, name, arrays, rows=slice(None)):
        mine = os.getpid() == self.driver
        if name == "segment-5" and arrays == ARRAYS and not mine and not Path(self.flag).exists():
            Path(self.flag).touch()
            os._exit(1)
        return super().get(name, arrays, rows)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_the_same_bits_after_a_worker_was_lost_in_mid_search(cluster, tmp_path, reference):
    flag = tmp_path / "killed"
    found = bits(Cluster(cluster), lambda: Fatal(str(tmp_path / "scratch"), flag=str(flag)), SEARCHES[:1])
    assert found == reference[:1]
    assert flag.exists(), "no worker was killed: the test would prove nothing"


@pytest.mark.parametrize("length", [0, 1, 9, 3000])
def test_a_store_gives_back_what_was_put_there(length, tmp_path, limits):
    """Whole and in part, of every shape; a table that is there is not written again, for it may be being read."""
    limits.scratch_chunk_bytes = 4096
    rng = np.random.default_rng(12)
    shapes = {"x": (length, 5), "tail": (length, 0), "halves": (length,), "three": (length, 2, 3)}
    scratch = ZarrScratch(str(tmp_path / "store"))
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["rows"] = rng.integers(0, 2**60, length)
    scratch.put("table", arrays)
    scratch.put("table", {"other": np.zeros(3)})
    for start, stop in ((0, None), (0, 5), (length // 3, length // 3 + 5), (length, length)):
        found = scratch.get("table", tuple(arrays), slice(start, stop))
        for part, whole in zip(found, arrays.values(), strict=True):
            np.testing.assert_array_equal(part, whole[start:stop])
            assert part.dtype == whole.dtype
    scratch.drop("table")
    scratch.drop("table")
    assert not list((tmp_path / "store").glob("table*"))


# ------------------------------------------------------------------------------------------------- Dask arrays


CHUNKS = {"rows": (100, 9), "row and column chunks": (333, 4), "one chunk": (1000, 9), "uneven": ((1, 0, 599, 400), 9)}


@pytest.mark.parametrize("scheduler", ["threads", "synchronous", pytest.param("distributed", marks=pytest.mark.e2e)])
def test_dask_arrays_of_any_chunking(scheduler):
    X, y = entangled(1000, 9, 11)
    expected, exact = naive.nearest_opposite(X, y)

    def check(forms):
        for chunks in forms:
            rows = da.from_array(X, chunks)
            distances, found = NearestOpposite().fit(rows, y).kneighbors()
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(distances, exact)
            rough = NearestOpposite(search="approximate", recall=0.85).fit(rows, da.from_array(y, 77))
            distances, _ = rough.kneighbors()
            assert np.mean(distances == exact) >= 0.85
            assert rough.certificate_["recall"] is None or rough.certificate_["recall"]["low"] >= 0.85
            np.testing.assert_array_equal(rough.fit(rows, y).kneighbors()[0], distances)

    if scheduler == "distributed":
        with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as local, Client(local):
            check([CHUNKS["row and column chunks"]])
    else:
        with dask.config.set(scheduler=scheduler):
            check(CHUNKS.values())
