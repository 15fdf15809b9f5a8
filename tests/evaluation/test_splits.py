"""Splits are exact within each class, and depend on row numbers, labels and the seed alone."""

import pickle
from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from helpers.samples import batch_of, even_edges
from helpers.watching import watched
from hypothesis import given
from hypothesis import strategies as st
from naive_judging import fold_sizes, parts_by_hash, splitmix64

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation import thresholds
from mmpca_dist.evaluation.column_splits import given_splits
from mmpca_dist.evaluation.splits import PartSizes, fold_splits, share_splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.dask_rows import dask_rows
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of


def split(make, y, *arguments, edges=None, scheduler=None, dataset=None, **options):
    """Return the splits of rows with these labels, whose reading units begin at ``edges``."""
    dataset = dataset or rows_in_memory(np.zeros((len(y), 1)), np.asarray(y))
    spans = None if edges is None else spans_of(np.asarray(edges))
    return make(Rows.of(dataset, scheduler or Threads(1), spans), *arguments, **options)


def labels(n, n_classes=3, seed=1):
    """Return labels of unequal classes with at least two rows each."""
    rng = np.random.default_rng(seed)
    y = rng.choice(n_classes, n, p=np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2))
    y[: 2 * n_classes] = np.arange(2 * n_classes) % n_classes
    return y


def parts(names):
    """Return the parts of rows as a column of labels."""
    return rows_in_memory(np.zeros((len(names), 1)), names, "the given splits")


def test_the_mixer_is_splitmix64():
    """Its first number for seed 0 is the finisher of the golden ratio, as the reference implementations print it."""
    assert int(thresholds.mix(np.array([0x9E3779B97F4A7C15], np.uint64))[0]) == 0xE220A8397B1DCDAF
    x = np.random.default_rng(1).integers(2**64, size=100, dtype=np.uint64)
    np.testing.assert_array_equal(thresholds.mix(x), [splitmix64(int(value)) for value in x])


def test_no_two_rows_share_a_hash_and_none_is_zero():
    """It is a bijection: both steps back give the number again."""

    def unshift(x, shift):
        found = x
        for _ in range(64 // shift + 1):
            found = x ^ (found >> np.uint64(shift))
        return found

    x = np.random.default_rng(2).integers(2**64, size=1000, dtype=np.uint64)
    back = unshift(thresholds.mix(x), 31) * np.uint64(pow(0x94D049BB133111EB, -1, 2**64))
    back = unshift(back, 27) * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 2**64))
    np.testing.assert_array_equal(unshift(back, 30), x)
    assert int(thresholds.mix(np.zeros(1, np.uint64))[0]) == 0
    # A hash is 0 only where mix(row + 1) is the key, the mix of a number that no row + 1 reaches.
    largest = thresholds.split_keys(thresholds.MAX_SEED - 1, 3)
    np.testing.assert_array_equal(largest, [splitmix64(2**64 - 2**31 + s) for s in range(3)])


@given(
    n=st.integers(6, 120), n_classes=st.integers(2, 3), seed=st.integers(0, 2**32 - 1), share=st.integers(1, 9)
)  # fmt: skip
def test_shares_are_the_twins(n, n_classes, seed, share):
    y = labels(n, n_classes, seed)
    exact = Fraction(share, 10)
    sizes = {c: (int((exact * k + Fraction(1, 2)) // 1), k) for c, k in enumerate(np.bincount(y).tolist())}
    sizes = {c: (kept, k - kept) for c, (kept, k) in sizes.items()}
    if any(kept == 0 for kept, _ in sizes.values()) or all(rest == 0 for _, rest in sizes.values()):
        with pytest.raises(InputError):
            split(share_splits, y, share / 10, n_splits=2, seed=seed)
        return
    found = split(share_splits, y, share / 10, n_splits=2, seed=seed)
    codes = found.codes(batch_of(y))
    for s in range(2):
        np.testing.assert_array_equal(codes[s], parts_by_hash(y.tolist(), sizes, seed, s))
    np.testing.assert_array_equal(found.counts, [[sizes[c] for c in range(n_classes)]] * 2)
    np.testing.assert_array_equal(found.training(batch_of(y)), codes == 0)


@given(n=st.integers(6, 120), n_classes=st.integers(2, 3), seed=st.integers(0, 2**32 - 1), k=st.integers(2, 6))
def test_folds_are_the_twins(n, n_classes, seed, k):
    y = labels(n, n_classes, seed)
    found = split(fold_splits, y, k, n_splits=2, seed=seed)
    sizes, codes = fold_sizes(y.tolist(), k), found.codes(batch_of(y))
    for s in range(2):
        np.testing.assert_array_equal(codes[s], parts_by_hash(y.tolist(), sizes, seed, s))
    assert np.ptp(found.counts, axis=2).max() <= 1
    assert np.ptp(found.counts.sum(axis=1), axis=1).max() <= 1
    assert found.held_out == tuple(range(k))
    for part in found.held_out:
        np.testing.assert_array_equal(found.training(batch_of(y), part), codes != part)


@pytest.mark.parametrize("memory", [1 << 8, 1 << 12, 8 << 20])
def test_exact_whatever_the_memory(memory, limits):
    """Few bits a pass, hence many passes, find the same rows; 20,000 of them, in pieces."""
    y = labels(20_000, 4)
    limits.split_count_bytes, limits.hashed_rows = memory, 1000
    found = split(fold_splits, y, 5, n_splits=3, seed=7, edges=even_edges(20_000, 3_333))
    codes = found.codes(batch_of(y))
    for s in range(3):
        np.testing.assert_array_equal(codes[s], parts_by_hash(y.tolist(), fold_sizes(y.tolist(), 5), 7, s))


def test_passes_and_memory_are_few(monkeypatch):
    """50 splits of 100,000 rows: two passes over the labels, within the bytes allowed."""
    y = labels(100_000, 2)
    # The census is counted by a pass too.
    passes = watched(monkeypatch, Tasks, "run", lambda found, *_: getattr(found, "nbytes", 0))
    found = split(share_splits, y, n_splits=50)
    assert len(passes) <= 3
    assert max(passes) <= LIMITS.split_count_bytes
    expected = (np.bincount(y) * 8 + 5) // 10
    codes = found.codes(batch_of(y))
    for c in range(2):
        np.testing.assert_array_equal((codes[:, y == c] == 0).sum(axis=1), expected[c])


def test_the_same_for_any_chunks_and_workers():
    y = labels(900, 3)
    expected = split(fold_splits, y, 4, n_splits=3, seed=11)
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster, Client(
        cluster
    ) as client:  # fmt: skip
        others = [
            split(fold_splits, y, 4, n_splits=3, seed=11, edges=even_edges(900, 7), scheduler=Threads(3)),
            split(fold_splits, y, 4, n_splits=3, seed=11, edges=even_edges(900, 50), scheduler=Cluster(client)),
        ]
    for other in others:
        np.testing.assert_array_equal(other.thresholds, expected.thresholds)
    codes = expected.codes(batch_of(y))
    pieces = [expected.codes(batch_of(y[start : start + 77], start)) for start in range(0, 900, 77)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), codes)


def test_dask_arrays():
    y = labels(400, 2)
    dataset, scheduler = dask_rows(da.zeros((400, 3), chunks=(70, 3)), da.from_array(y, 50))
    found = split(fold_splits, y, 4, dataset=dataset, scheduler=scheduler)
    np.testing.assert_array_equal(found.codes(batch_of(y)), split(fold_splits, y, 4).codes(batch_of(y)))


def test_splits_travel_small():
    y = labels(5000, 2)
    found = split(share_splits, y, n_splits=10)
    data = pickle.dumps(found)
    assert len(data) < 2000
    np.testing.assert_array_equal(pickle.loads(data).codes(batch_of(y)), found.codes(batch_of(y)))  # noqa: S301
    np.testing.assert_array_equal(found.only(3).codes(batch_of(y[10:90], 10)), found.codes(batch_of(y[10:90], 10))[3:4])


def test_splits_and_seeds_are_independent():
    """With 10,000 rows in 50 splits of a seed, and one of other seeds, any two training halves share about a half.

    How many they share is hypergeometric with standard deviation 25; of 1,770 pairs none should be 6 of them away.
    """
    y = np.repeat([0, 1], 5000)
    halves = [split(share_splits, y, "1/2", n_splits=50, seed=0).training(batch_of(y))]
    halves += [split(share_splits, y, "1/2", n_splits=1, seed=seed).training(batch_of(y)) for seed in range(1, 11)]
    masks = np.concatenate(halves).astype(np.int64)
    shared = (masks @ masks.T)[np.triu_indices(len(masks), 1)]
    assert np.abs(shared - 2500).max() < 6 * 25
    np.testing.assert_array_equal(masks.sum(axis=1), 5000)
    # Neighbouring rows do not fall together either: about half of 9,999 pairs do, with standard deviation 50.
    together = (masks[:, 1:] == masks[:, :-1]).sum(axis=1)
    assert np.abs(together - 5000).max() < 6 * 50


def test_halves_are_rounded_up_and_floats_read_as_written():
    y = np.repeat([0, 1], [5, 3])
    assert split(share_splits, y, 0.5).counts[0].tolist() == [[3, 2], [2, 1]]
    # 0.7 as a double is a little less than 7/10: 0.7 * 5 must round as 3.5.
    assert split(share_splits, y, 0.7).counts[0].tolist() == [[4, 1], [2, 1]]
    assert split(share_splits, y, Fraction(7, 10)).counts[0].tolist() == [[4, 1], [2, 1]]


def test_what_naming_the_largest_class_in_training_gets_wrong():
    """As counted row by row, in parts of other shares of the classes than the rest, folds and shares."""
    y = np.repeat(["a", "b", "c"], [30, 20, 10])
    held_out = np.isin(np.arange(60), [0, 1, 2, *range(31, 49), *range(52, 60)])  # 3, 18 and 8 of the classes
    names = np.where(held_out, "test", "train")
    made = [split(given_splits, y, parts(names)), split(fold_splits, y, 4, n_splits=2), split(share_splits, y, 0.7)]
    for found in made:
        for part in found.held_out:
            for train in found.training(batch_of(y), part):
                largest = max("abc", key=lambda label: np.sum(y[train] == label))
                assert found.baseline_errors(part) == np.sum(y[~train] != largest)
    assert made[0].baseline_errors(0) == 26  # more than half, where it is half of all rows


def test_given_parts():
    y = np.array(["a", "b"] * 30)
    names = np.repeat(["test", "train", "valid"], 20)
    found = split(given_splits, y, parts(names))
    assert found.names.tolist() == ["test", "train", "valid"]
    assert found.held_out == (0, 1, 2)
    assert found.counts.tolist() == [[[10, 10, 10], [10, 10, 10]]]
    np.testing.assert_array_equal(found.codes(batch_of(y[15:45], 15)), [np.repeat([0, 1, 2], 20)[15:45]])
    one = split(given_splits, y, parts(names), "test", edges=even_edges(60, 7), scheduler=Threads(2))
    assert one.held_out == (0,)
    np.testing.assert_array_equal(one.training(batch_of(y)), [names != "test"])
    whole = pickle.loads(pickle.dumps(one))  # noqa: S301
    np.testing.assert_array_equal(whole.training(batch_of(y)), one.training(batch_of(y)))
    column = rows_in_memory(np.zeros((60, 2)), np.arange(60) % 4, "folds")
    np.testing.assert_array_equal(split(given_splits, y, column, 3).codes(batch_of(y)), [np.arange(60) % 4])


@pytest.mark.parametrize(("make", "y", "arguments", "message"), [
    (share_splits, [0] * 9 + [1], (0.3,), r"With a share of 0.3, no row with the label '1'"),
    (share_splits, [0, 1] * 2, ("9/10",), r"leaves none to hold out"),
    (share_splits, [0, 1] * 9, (1.0,), r"The share 1.0 .* between 0 and 1"),
    (share_splits, [0, 1] * 9, ("half",), r"The share 'half'"),
    (share_splits, [0, 1] * 9, ("1/0",), r"The share '1/0'"),
    (fold_splits, ["a", "b", "b", "b"], (2,), r"With 2 folds, no row with the label 'a' trains while"),
    (fold_splits, [0, 1] * 3, (7,), r"7 folds for 6 rows; there must be 2 to 6"),
    (fold_splits, [0, 1] * 3, (1,), r"1 folds for 6 rows"),
    (given_splits, [0, 1] * 3, (parts(["x"] * 6),), r"All rows of the given splits are in the part x"),
    (given_splits, [0, 1] * 3, (parts(["x", "z"] * 2),), r"There are parts for 4 rows, and .* has 6"),
    (
        given_splits,
        [0, 1, 1] * 2,
        (parts(["x", "y", "y"] * 2),),
        r"With the parts of the given splits, no row with the label '0', '1' trains",
    ),
    (
        given_splits,
        [0, 1] * 4,
        (parts(["test", "train"] * 4), "tests"),
        r"part 'tests'; there are .* Did you mean 'test'",
    ),
])  # fmt: skip
def test_what_is_refused(make, y, arguments, message):
    with pytest.raises(InputError, match=message):
        split(make, y, *arguments)


@pytest.mark.parametrize("options", [{"seed": -1}, {"seed": 2**32}])
def test_seeds_and_numbers_are_checked(options):
    with pytest.raises(InputError, match="whole number"):
        split(share_splits, [0, 1] * 9, **options)


def test_a_strange_label_is_refused():
    found = split(fold_splits, [0, 1] * 3, 2)
    with pytest.raises(InputError, match="none of the known classes"):
        found.codes(batch_of(np.array([0, 5])))


def test_folds_that_hold_no_row_of_a_class_are_told_of() -> None:
    from mmpca_dist.configuration.held_out_sections import EvaluationConfig
    from mmpca_dist.jobs.inputs import notes_on_parts

    assert notes_on_parts(EvaluationConfig(folds=4), None, ["ash", "yew", "oak"], [3, 4, 1]) == [
        "Class ash has 3 rows: 1 of the 4 folds hold none of it.",
        "Class oak has 1 row: 3 of the 4 folds hold none of it.",
    ]
    assert notes_on_parts(EvaluationConfig(splits="shares"), None, ["ash"], [3]) == []


@pytest.mark.parametrize("forward", [False, True])
def test_counts_of_training_rows_are_sums_over_the_parts_that_train(forward):
    counts, held_out = np.random.default_rng(0).integers(0, 9, (3, 4, 7)), (2, 5, 6)
    sizes = PartSizes(counts=counts, held_out=held_out, forward=forward)
    expected = [
        [[sum(row[:part]) + (0 if forward else sum(row[part + 1 :])) for part in held_out] for row in table]
        for table in counts.tolist()
    ]
    np.testing.assert_array_equal(sizes.training_counts, expected)
    np.testing.assert_array_equal(sizes.n_train, np.sum(expected, axis=1))
