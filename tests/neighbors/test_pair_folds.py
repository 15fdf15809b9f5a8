"""Pairs while each part of the rows is held out in turn, from one search: those of the rows that train alone."""

from dataclasses import replace
from functools import partial

import naive
import numpy as np
import pytest
from helpers.part_samples import assert_training, difference_rows, find_all, make_small, prepared, training_statistics
from helpers.row_kinds import KINDS, labelled_rows
from helpers.samples import batch_of, even_edges
from helpers.tables import entangled, labelled
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mmpca_dist.evaluation.splits import fold_splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors import nearest
from mmpca_dist.neighbors.kernels import NO_ROW, Best
from mmpca_dist.neighbors.nearest import draw_rows, find_nearest, make_layout
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.pair_folds import RowsInParts, find_by_part, with_pairs_by_part
from mmpca_dist.neighbors.pair_statistics import apply_pairs, pair_scatter, with_pairs
from mmpca_dist.neighbors.search import queries_of, search_queries
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.scratch import MemoryScratch, ZarrScratch, open_scratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.medians import PAIRINGS
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of

EPS = float(np.finfo(np.float64).eps)
SINGLE = float(np.finfo(np.float32).eps)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


def part_names(rng, y, n_parts):
    """Return parts of unequal size that leave every class a row in at least two of them."""
    shares = rng.dirichlet(np.ones(n_parts))
    names = rng.choice(n_parts, len(y), p=shares)
    names[:n_parts] = rng.permutation(n_parts)[: len(y)]
    assume(len(np.unique(names)) > 1)
    assume(all(len(np.unique(names[y == label])) > 1 for label in np.unique(y)))
    return names


@given(
    labelled_rows(), st.integers(2, 6), st.integers(0, 2**20), st.sampled_from(PAIRINGS), st.sampled_from([3, 100]),
    st.sampled_from([1, 3, 10, 300]), st.sampled_from([1, 8, 512]), st.sampled_from([1, 4, 4096]),
)  # fmt: skip
def test_every_neighbour_is_the_nearest_that_trains(data, n_parts, seed, pairing, chunk, cell, segment, piece):
    """Ties and duplicates too, rows of every kind, classes of one row in each of two parts."""
    X, y = data
    names = part_names(np.random.default_rng(seed), y, n_parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LIMITS, "rows_per_cell", cell)
        patch.setattr(LIMITS, "smallest_segment", segment)
        patch.setattr(LIMITS, "piece_rows", piece)
        found = find_all(rows_in_memory(X, y), names, edges=even_edges(len(X), chunk), pairing=pairing)
        assert_training_without_room(found, assert_training(found, X, y, names, pairing), X, names)


def assert_training_without_room(found, nearest_of, X, names):
    """Search again with the true distances as what is known, but of higher rows: every neighbour is then a tie."""
    layout = found[0].layout
    asked = queries_of(layout, 0, layout.n_segments, None)
    exact, parts = replace(found[0].tables, part=None).joined("squared", "parts")
    nothing = np.full(exact.shape, -1)
    known = Best(exact.copy(), np.full(exact.shape, NO_ROW - 1), nothing, np.full(len(X), np.inf), parts.copy())
    again, _ = search_queries(asked, layout, one_vs_one=exact.shape[1] > 2, best=known, apart=True)
    slots = parts.shape[1]
    for code, part in enumerate(np.unique(names)):
        rows, expected, distances = nearest_of[part]
        place = np.argsort(asked.rows)[rows]
        held = again.parts[place] == code
        squared = np.where(held, again.squared[place, slots:], again.squared[place, :slots])
        nearest_rows = np.where(held, again.rows[place, slots:], again.rows[place, :slots])
        np.testing.assert_array_equal(np.sqrt(squared), distances)
        np.testing.assert_array_equal(np.where(np.isfinite(squared), nearest_rows, -1), expected)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("d", [3, 16, 64, 301])
def test_exact_ties_between_cells_of_one_row_go_to_the_lowest_row_that_trains(d, pairing, limits):
    """Cells of radius zero leave no room at all: rounding of the product decides, and must not."""
    limits.rows_per_cell = 1
    for seed, kind in enumerate(("equidistant", "last_bits")):
        rng = np.random.default_rng(seed)
        order = rng.permutation(60)
        X, y = KINDS[kind](rng, 60, d)[order], (np.arange(60) >= 6).astype(int)[order]
        y[y == 1] += rng.integers(0, 2, 54)
        names = rng.permutation(np.arange(60) % 4)
        names[np.flatnonzero(y == 0)] = np.arange(6) % 4
        found = find_all(rows_in_memory(X, y), names, pairing=pairing)
        assert_training_without_room(found, assert_training(found, X, y, names, pairing), X, names)


def test_a_class_whose_nearest_rows_all_lie_in_one_part():
    """While it is held out every one of its neighbours is replaced, by rows of several parts, or else none is."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((90, 6)), np.repeat([0, 1, 1], 30)
    X[60:] += 20  # far away, and in the other parts
    names = np.concatenate([np.arange(30) % 4, np.zeros(30, int), 1 + np.arange(30) % 3])
    found = find_all(rows_in_memory(X, y), names)
    assert_training(found, X, y, names)
    for part, neighbors in enumerate(found):
        queries, rows, _ = neighbors.arrays()
        of_class = rows[queries < 30, 0]
        assert (of_class >= 60).all() if part == 0 else ((of_class >= 30) & (of_class < 60)).all()


@pytest.mark.parametrize("stored", [False, pytest.param(True, marks=pytest.mark.e2e)])
def test_names_of_parts_folds_and_one_search(stored, tmp_path):
    """Stratified folds by hashes; one search compares fewer pairs than one for each fold."""
    X, y = labelled(600, 12, 3, seed=2)
    data = rows_in_memory(X, y)
    rows = Rows.of(data, Threads(2), spans=spans_of(even_edges(600, 90)))
    parts = fold_splits(rows, 5)
    (names,) = parts.codes(batch_of(y))
    scratch = ZarrScratch(str(tmp_path)) if stored else MemoryScratch()
    layout = make_layout(rows, scratch, members=RowsInParts(parts))
    found = find_by_part(layout, parts, Search(), Tasks(scheduler=Threads(2)))
    assert_training(found, X, y, names)
    alone = 0
    for part in range(5):
        alone += searched_alone(X, y, names != part, Search()).work.compared
    assert found[0].cost.compared < 0.75 * alone
    assert found[0].certificate()["shared_by"] == 5
    assert found[0].certificate()["compared_per_query"] == found[0].cost.compared / 600


def searched_alone(X, y, trains, search):
    rows = Rows.of(rows_in_memory(X[trains], y[trains]), Threads(1))
    return find_nearest(make_layout(rows, MemoryScratch()), rows.census.classes, search, rows)


# ------------------------------------------------------------------------------------------------- scatters


@settings(max_examples=25)
@given(
    st.integers(12, 60), st.sampled_from([1, 3, 17, 70]), st.integers(0, 2**20), st.sampled_from([2, 3, 4]),
    st.sampled_from([2, 3, 5]), st.sampled_from(PAIRINGS), st.sampled_from(["twice", "once"]),
    st.sampled_from(["single", "double"]), st.booleans(),
)  # fmt: skip
def test_the_scatter_is_that_of_the_rows_that_train(n, d, seed, n_classes, n_parts, pairing, mutual, precision, grid):
    """Tall and wide: what a search of these rows alone gives."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, d)).astype(float) if grid else rng.standard_normal((n, d))
    y = rng.permutation(np.arange(n) % n_classes)
    names = part_names(rng, y, n_parts)
    wanted = Search(pairing=pairing, mutual=mutual)
    training = [training_statistics(X, y, names != part, {"precision": precision}) for part in np.unique(names)]
    every, parts = prepared(rows_in_memory(X, y), names, edges=even_edges(n, 11), scheduler=Threads(2))
    given_statistics = (statistics for _, statistics in training)
    found = with_pairs_by_part(given_statistics, every, parts, wanted, partial(open_scratch, True))
    for part, own, (rows, statistics) in zip(np.unique(names), found, training, strict=True):
        alone = with_pairs(statistics, rows, wanted, MemoryScratch()).pairs[wanted]
        pairs = own.pairs[wanted]
        assert (pairs.weight, pairs.queries, pairs.fraction) == (alone.weight, alone.queries, 1)
        np.testing.assert_array_equal(pairs.edges, alone.edges)
        np.testing.assert_array_equal(pairs.counts, alone.counts)
        np.testing.assert_array_equal(in_order(pairs.sample), in_order(alone.sample))
        differences = difference_rows(X, y, names != part, statistics.scale, pairing, mutual)
        assert pairs.weight == len(differences)
        unit = SINGLE if own.precision == "single" else EPS
        expected = sum(np.outer(row, row) for row in differences)
        error = (n + d + 8) * unit * (np.trace(expected) + EPS)
        if own.basis is not None:
            expected = own.basis.T @ expected @ own.basis
        np.testing.assert_allclose(pairs.scatter, expected, rtol=0, atol=error)
        np.testing.assert_allclose(pairs.scatter, alone.scatter, rtol=0, atol=error)
        assert pairs.certificate["proved_exact"] == 1


def in_order(rows):
    return rows[np.lexsort(rows.T)]


def test_vectors_take_the_place_of_the_scatter():
    """As in passes over the pairs of rows with many columns."""
    X, y = labelled(120, 20, 3, seed=4)
    names = np.arange(120) % 4
    vectors = np.random.default_rng(5).standard_normal((20, 3))
    for neighbors in find_all(rows_in_memory(X, y), names, mutual="once"):
        whole = pair_scatter(neighbors, precision="double").scatter
        found = apply_pairs(neighbors, vectors)
        np.testing.assert_allclose(found, whole @ vectors, rtol=0, atol=200 * EPS * np.trace(whole) * 10)


# ------------------------------------------------------------------------------------------------- some queries, recall


def test_drawn_queries_are_those_that_train_of_one_draw():
    """So many more are drawn that about as many train as were asked for."""
    X, y = labelled(400, 5, 3, seed=7)
    names = np.random.default_rng(8).choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])
    found = find_all(rows_in_memory(X, y), names, max_queries=100)
    least = min(np.sum(names != part) for part in range(4))
    drawn = draw_rows(400, int(np.ceil(100 * 400 / least)))
    for part, neighbors in enumerate(found):
        rows, expected, distances = naive.nearest_training(X, y, names, part)
        asked = np.isin(rows, drawn)
        queries, nearest_rows, found_distances = neighbors.arrays()
        np.testing.assert_array_equal(queries, rows[asked])
        np.testing.assert_array_equal(nearest_rows, expected[asked])
        np.testing.assert_array_equal(found_distances, distances[asked])
        pairs = pair_scatter(neighbors, precision="double")
        assert pairs.queries == pairs.weight == asked.sum()
        assert pairs.fraction == asked.sum() / len(rows)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("seed", range(3))
def test_what_an_approximate_search_says_of_each_part_is_true(seed, pairing):
    """Its recall reaches what was wanted whichever part is held out, and no wrong neighbour is called proved."""
    X, y = entangled(1500, 8 + 12 * seed, seed)
    names = np.random.default_rng(seed).choice(4, 1500, p=[0.4, 0.3, 0.2, 0.1])
    found = find_all(rows_in_memory(X, y), names, mode="approximate", recall=0.8, pairing=pairing)
    assert all(neighbors.recall is not None for neighbors in found), "an exact search would prove nothing here"
    for part, neighbors in enumerate(found):
        queries, rows, distances = neighbors.arrays()
        expected, _, least = naive.nearest_training(X, y, names, part, pairing)
        np.testing.assert_array_equal(queries, expected)
        known = rows >= 0
        np.testing.assert_array_equal(known, np.isfinite(least))
        assert (names[rows[known]] != part).all() and (distances >= least).all()
        for i, slot in np.argwhere(known)[::20]:
            j = rows[i, slot]
            assert y[j] != y[queries[i]] and (pairing == "one-vs-rest" or y[j] == slot)
            assert distances[i, slot] == np.sqrt(naive.squared_distance(X[queries[i]].tolist(), X[j].tolist()))
        right = distances == least
        certificate = neighbors.certificate()
        assert certificate["proved_exact"] * len(queries) <= right.all(axis=1).sum()
        assert 0.8 <= certificate["recall"]["low"] <= certificate["recall"]["share"] <= certificate["recall"]["high"]
        assert_recall_is_measured(neighbors, queries, right & known, known)
        check_missed(neighbors, queries, distances, least)


def assert_recall_is_measured(neighbors, queries, right, known):
    """Count again on the queries of the sample that the effort was not chosen from."""
    scratch, recall = neighbors.layout.scratch, neighbors.recall
    names = [name for name in scratch.tables if name.startswith("sample.")]
    rows = np.sort(np.concatenate([scratch.get(name, ("queries",))[0] for name in names]))
    tested = np.isin(queries, rows[~nearest._first_half(rows)])
    assert recall.sampled == known[tested].sum()
    assert recall.found == right[tested].sum()
    assert recall.queries == tested.sum()


def check_missed(neighbors, queries, distances, least):
    """What was missed of the sample is as far off as the tables say."""
    pairs = pair_scatter(neighbors, precision="double")
    if pairs.missed is None:
        assert neighbors.recall.found == neighbors.recall.sampled
        return
    found, best = (np.linalg.norm(rows, axis=1) for rows in pairs.missed)
    assert len(found) == neighbors.recall.sampled - neighbors.recall.found
    assert (found > best).all()
    for length in found:
        assert np.isclose(distances[np.isfinite(distances)], length, rtol=1e-12).any()
    for length in best:
        assert np.isclose(least[np.isfinite(least)], length, rtol=1e-12).any()
