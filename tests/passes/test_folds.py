"""Moments of what trains are merges of the other folds, from one pass; folds of groups leave rows of every class."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from distributed import Client, LocalCluster
from helpers.samples import batch_of, even_edges, product_bound, shuffled
from helpers.tables import labelled, write_zarr
from naive import coordinatewise_median, exact_class_moments
from scipy.sparse import csr_array

from mmpca_dist import class_moments, open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.column_splits import given_splits, time_splits
from mmpca_dist.evaluation.splits import PartSizes, fold_splits, share_splits
from mmpca_dist.evaluation.training import moments_by_fold, scatters_of_parts
from mmpca_dist.passes.census import take_census
from mmpca_dist.passes.folds import deal_groups
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.fold_moments import training_moments
from mmpca_dist.statistics.medians import median_sets
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.tables.column import column_in_memory
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted
from mmpca_dist.tables.roles import TIME
from mmpca_dist.tables.spans import make_spans, spans_of


def take_folds(dataset, make=fold_splits, *arguments, edges=None, scheduler=None, precision="double", **options):
    """Return (moments of the parts, medians, splits)."""
    spans = make_spans(dataset) if edges is None else spans_of(np.asarray(edges))
    scheduler = scheduler or Threads(1)
    census = take_census(dataset, spans, Tasks(scheduler=scheduler))
    how = {"n_splits": 1} if make is share_splits else {}
    watched = {name: options.pop(name) for name in ("progress", "on_pass") if name in options}
    rows = Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler)
    splits = make(rows, *arguments, **how)
    found = moments_by_fold(replace(rows, **watched), splits, precision=precision, **options)
    return found.parts, found.medians, splits


def assert_training(training, X, y, keep, precision):
    """Moments are those of the rows that are kept, within the rounding of the products and of the merges."""
    counts, means, scatters = exact_class_moments(X[keep], y[keep], np.unique(y))
    np.testing.assert_array_equal(training.counts, counts)
    np.testing.assert_allclose(training.means, means, rtol=1e-6 if precision == "single" else 1e-12)
    for found, expected, mean in zip(training.scatters, scatters, means, strict=True):
        assert (np.abs(found - expected) <= product_bound(expected, len(X), precision, mean)).all()


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("n_classes", "k"), [(2, 2), (2, 5), (3, 3), (4, 10)])
def test_training_moments_are_those_of_the_other_folds(n_classes, k, precision):
    X, y = labelled(200, 4, n_classes, seed=1)
    y[: 2 * n_classes] = np.arange(2 * n_classes) % n_classes
    dataset = rows_in_memory(X, y)
    parts, medians, splits = take_folds(dataset, fold_splits, k, edges=even_edges(200, 33), precision=precision)
    assert medians is None
    codes = splits.codes(batch_of(y))[0]
    trained = list(training_moments(parts))
    assert len(parts) == len(trained) == k
    for f in range(k):
        np.testing.assert_array_equal(parts[f].counts, splits.counts[0, :, f])
        assert_training(parts[f], X, y, codes == f, precision)
        assert_training(trained[f], X, y, codes != f, precision)


def test_parts_of_rows_of_which_some_are_left_out_hold_the_rows_of_their_splits(limits):
    limits.unit_bytes = 20 * 4 * 8
    X, y = labelled(200, 4, 3, seed=1)
    weights = np.where((np.arange(200) < 25) | (np.arange(200) % 7 == 0), 0.0, 1.0)
    left = np.flatnonzero(weights)
    parts, _, splits = take_folds(weighted(rows_in_memory(X, y), weights), fold_splits, 4)
    codes = splits.codes(batch_of(y[left]))[0]
    for f, trained in enumerate(training_moments(parts)):
        assert_training(parts[f], X[left], y[left], codes == f, "double")
        assert_training(trained, X[left], y[left], codes != f, "double")


@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_fold_that_holds_nearly_all_of_a_class(precision):
    """Its rows are far and wide; what is left of the class is narrow. A subtraction would leave noise alone."""
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], 200)
    X = rng.standard_normal((400, 3))
    X[200:397] = 1e6 + 1e5 * rng.standard_normal((197, 3))
    X[397:] = 1e-3 * X[397:] + 5
    names = np.where((np.arange(400) >= 200) & (np.arange(400) < 397), 0, np.arange(400) % 3)
    parts, _, _ = take_folds(
        rows_in_memory(X, y), given_splits, rows_in_memory(np.zeros((len(y), 1)), names, "names"), precision=precision
    )
    training = next(training_moments(parts))
    assert training.counts[1] == 2
    keep = names != 0
    assert_training(training, X, y, keep, precision)
    narrow = class_moments(X[keep], y[keep], precision="double").scatters[1]
    np.testing.assert_allclose(training.scatters[1], narrow, rtol=1e-4 if precision == "single" else 1e-9)


def test_a_share_and_its_rest():
    X, y = labelled(150, 3, 2, seed=3)
    parts, _, splits = take_folds(rows_in_memory(X, y), share_splits, "2/3")
    codes = splits.codes(batch_of(y))[0]
    trained = list(training_moments(parts))
    assert splits.held_out == (1,)
    assert_training(trained[1], X, y, codes == 0, "double")
    np.testing.assert_array_equal(trained[1].counts, parts[0].counts)


@pytest.mark.parametrize("pairing", ["one-vs-rest", "one-vs-one"])
def test_medians_of_what_trains_come_with_the_same_pass(pairing):
    X, y = labelled(160, 3, 3, seed=4)
    y[:6] = [0, 1, 2] * 2
    sets, passes = median_sets(3, pairing), []
    _, medians, splits = take_folds(
        rows_in_memory(X, y), fold_splits, 4, edges=even_edges(160, 30), medians_of=sets,
        on_pass=lambda name, _: passes.append(name),
    )  # fmt: skip
    assert passes == ["moments"]
    codes = splits.codes(batch_of(y))[0]
    for f in range(4):
        for t, members in enumerate(sets):
            rows = X[(codes != f) & members[y]]
            np.testing.assert_array_equal(medians[f, t], coordinatewise_median(rows))


def test_medians_of_one_part_held_out():
    X, y = labelled(90, 2, 2, seed=5)
    names = np.where(np.arange(90) % 3, "train", "test")
    _, medians, _ = take_folds(
        rows_in_memory(X, y),
        given_splits,
        rows_in_memory(np.zeros((len(y), 1)), names, "names"),
        "test",
        medians_of=median_sets(2, "one-vs-rest"),
    )  # fmt: skip
    assert medians.shape == (1, 2, 2)
    for c in range(2):
        np.testing.assert_array_equal(medians[0, c], coordinatewise_median(X[(names == "train") & (y != c)]))


def same_bits(one, other):
    return all(
        a.means.tobytes() == b.means.tobytes() and a.scatters.tobytes() == b.scatters.tobytes()
        for a, b in zip(one, other, strict=True)
    )


def test_the_same_bits_for_any_workers():
    X, y = labelled(700, 6, 3, seed=6)
    dataset, edges = rows_in_memory(X.astype(np.float32), y), even_edges(700, 40)
    first, _, _ = take_folds(dataset, fold_splits, 5, edges=edges, precision="single")
    others = [
        take_folds(shuffled(dataset, seed), fold_splits, 5, edges=edges, precision="single", scheduler=Threads(n))[0]
        for seed, n in ((1, 2), (2, 4))
    ]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        scheduler = Cluster(client)
        others.append(take_folds(dataset, fold_splits, 5, edges=edges, precision="single", scheduler=scheduler)[0])
    for other in others:
        assert same_bits(first, other)
        assert same_bits(training_moments(first), training_moments(other))


def test_stored_rows_and_sparse_rows(tmp_path):
    """The view reads a store like the data set it stands for, and CSR rows as such."""
    X, y = labelled(120, 5, 2, seed=7)
    X[np.abs(X) < 1] = 0
    uri = write_zarr(tmp_path / "rows.zarr", X, y, 17, labels_in=50)
    expected, _, _ = take_folds(rows_in_memory(X, y), fold_splits, 3)
    stored, _, _ = take_folds(open_dataset(uri), fold_splits, 3)
    sparse, _, _ = take_folds(rows_in_memory(csr_array(X), y, "the rows"), fold_splits, 3)
    for other in (stored, sparse):
        for a, b in zip(expected, other, strict=True):
            np.testing.assert_array_equal(a.counts, b.counts)
            np.testing.assert_allclose(a.scatters, b.scatters, rtol=1e-12, atol=1e-10)


def test_a_value_that_is_not_finite_is_found_where_it_is():
    X, y = labelled(60, 3, 2, seed=8)
    X[41, 2] = np.inf
    with pytest.raises(InputError, match="Found inf in row 41, column 2"):
        take_folds(rows_in_memory(X, y), fold_splits, 3)


def splitting(kind, y, seed):
    """Return what splits rows: into three folds, a share, windows of time, or parts of other sizes for every class."""
    if kind == "folds":
        return lambda rows: fold_splits(rows, 3)
    if kind == "share":
        return lambda rows: share_splits(rows, "2/3", n_splits=1)
    rng, n = np.random.default_rng(seed), len(y)
    if kind == "windows":
        times = rng.integers(1, 40, n)
        times[np.unique(y, return_index=True)[1]] = 0  # every class trains in the first window
        column = column_in_memory(times, "times")
        return lambda rows: time_splits(rows, rows.dataset.labelled_by(column, TIME), windows=3)
    names = np.where(rng.random(n) < 0.9 * y / y.max(), 0, rng.integers(1, 4, n))
    for part in (1, 2):  # no part holds all rows of a class
        names[[np.flatnonzero(y == label)[part] for label in np.unique(y)]] = part
    return lambda rows: given_splits(rows, rows_in_memory(np.zeros((len(y), 1)), names, "names"))


@pytest.mark.parametrize("weightings", [(), (ClassWeighting.OTHERS,)])
@pytest.mark.parametrize("kind", ["folds", "share", "windows", "given"])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_pooled_scatters_of_what_trains_are_those_of_the_definition(precision, kind, weightings):
    """Weights of m-pca0 are the counts of what trains, which no two of the parts share."""
    X, y = labelled(900, 4, 30, seed=9)
    y[:120] = np.arange(120) % 30
    rows = Rows.of(rows_in_memory(X, y), Threads(2))
    spans = spans_of(np.asarray(even_edges(900, 37)))
    splits = splitting(kind, y, 10)(rows)
    found = moments_by_fold(replace(rows, spans=spans), splits, precision=precision, pooled=True, weightings=weightings)
    codes, trained = splits.codes(batch_of(y))[0], list(found.training())
    assert len(trained) == len(splits.held_out)
    for part, (training, _) in zip(splits.held_out, trained, strict=True):
        keep = splits.trains(part)[codes]
        counts, means, scatters = exact_class_moments(X[keep], y[keep], np.unique(y))
        np.testing.assert_array_equal(training.counts, counts)
        np.testing.assert_allclose(training.means, means, rtol=1e-5 if precision == "single" else 1e-12)
        assert training.scatters.shape == (1 + len(weightings), 4, 4)
        for weights in [np.ones(30), keep.sum() - counts][: 1 + len(weightings)]:
            expected = np.tensordot(weights, scatters, axes=1)
            allowed = 4 * product_bound(expected, 900, precision)  # as both ends of a difference are rounded
            assert (np.abs(training.scatter(weights) - expected) <= allowed).all()


@pytest.mark.parametrize("precision", ["single", "double"])
def test_pooled_scatters_have_the_same_bits_for_any_workers(precision):
    X, y = labelled(900, 4, 30, seed=11)
    y[:120] = np.arange(120) % 30
    found = []
    for threads in (1, 2, 5):
        rows = Rows.of(rows_in_memory(X, y), Threads(threads))
        splits = fold_splits(rows, 4)
        rows = replace(rows, spans=spans_of(np.asarray(even_edges(900, 37))))
        of_parts = moments_by_fold(rows, splits, precision=precision, pooled=True, weightings=list(ClassWeighting))
        found.append([moments for moments, _ in of_parts.training()])
    assert same_bits(found[0], found[1]) and same_bits(found[0], found[2])


def test_scatters_are_pooled_where_that_saves_much_and_serves_all(limits):
    pooled_bytes = limits.pooled_bytes
    for n_classes, each, weightings, scatters in (
        (100, False, (), 3),
        (100, False, (ClassWeighting.OTHERS,), 6),
        (16, False, (ClassWeighting.OTHERS,), 48),  # a row would be in four products, for an eighth of the memory
        (17, False, (ClassWeighting.OTHERS,), 6),
        (2, False, (), 6),
        (100, True, (), 300),
    ):
        sizes = PartSizes(counts=np.full((1, n_classes, 3), 9), held_out=(0, 1, 2))
        limits.pooled_bytes = pooled_bytes
        assert scatters_of_parts(sizes, 5, weightings, each) == 3 * n_classes
        limits.pooled_bytes = 0
        assert scatters_of_parts(sizes, 5, weightings, each) == scatters


def serves(table, folds, n_folds):
    """Whether every fold has rows, and every class has rows outside each fold."""
    outside = [table[folds != fold] for fold in range(n_folds)]
    return all((rows.sum(axis=0) > 0).all() and len(rows) < len(table) for rows in outside)


@pytest.mark.parametrize("n_folds", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_every_class_trains_if_any_dealing_lets_it(seed, n_folds):
    """Tables of up to eight groups, each with few of up to seven classes, against all ways to deal them."""
    rng = np.random.default_rng(seed)
    n_served = 0
    for _ in range(1200):
        shape = rng.integers(3, 9), rng.integers(2, 8)
        table = rng.integers(1, 3, shape) * (rng.random(shape) < 0.35)
        table = table[table.any(axis=1)]
        if len(table) < n_folds or ((table > 0).sum(axis=0) < 2).any():
            continue
        if not serves(table, deal_groups(csr_array(table), n_folds), n_folds):
            ways = itertools.product(range(n_folds), repeat=len(table))
            assert not any(serves(table, np.asarray(folds), n_folds) for folds in ways), table.tolist()
        else:
            n_served += 1
    assert n_served > 90


def test_groups_that_cannot_be_dealt_are_dealt_all_the_same():
    """Among three groups, any two of which share a class, two are in one of two folds."""
    folds = deal_groups(csr_array(np.asarray([[1, 1, 0], [0, 1, 1], [1, 0, 1]])), 2)
    assert sorted(np.bincount(folds)) == [1, 2]
