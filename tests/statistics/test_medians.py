"""Medians out of core are those of numpy to the last bit, in however many passes."""

import naive_scatters
import numpy as np
import pytest
from helpers.samples import even_edges, take
from hypothesis import given, settings
from hypothesis import strategies as st

from mmpca_dist.statistics import median_counts, medians
from mmpca_dist.statistics.median_counts import Brackets, MedianCounter, MedianCounts
from mmpca_dist.statistics.medians import median_sets, narrow_by_sample, settle, weighted_median


class TooManyPassesError(Exception):
    """The medians do not settle."""


def passes_and_medians(X, y, *, size, pairing="one-vs-rest", limit=60, samples=None, weights=None):
    """Return the names of the passes over all rows and the medians, shape (C, d); ``samples`` gets their bytes."""
    passes = []

    def on_pass(name, n_bytes):
        assert 0 < n_bytes <= X.nbytes
        if name == "sample":
            if samples is not None:
                samples.append(n_bytes)
            return
        passes.append(name)
        if len(passes) > limit:
            raise TooManyPassesError

    sets = median_sets(len(np.unique(y)), pairing)
    _, found = take(X, y, edges=even_edges(len(X), size), medians_of=sets, on_pass=on_pass, row_weights=weights)
    return passes, found


def expected_medians(X, y, pairing="one-vs-rest"):
    """Double precision first: numpy rounds the mean of the middle two to the type of the rows."""
    codes = np.unique(y, return_inverse=True)[1]
    sets = median_sets(codes.max() + 1, pairing)
    return np.stack([np.median(X[member[codes]].astype(np.float64), axis=0) for member in sets])


@pytest.fixture
def small_budget(limits):
    """Return a function that shrinks what a pass may keep (bytes) and the sample that brackets are made from."""

    def shrink(kept, floor, sample):
        limits.kept_bytes, limits.kept_floor, limits.sample_rows = kept, floor, sample

    return shrink


VALUES = {
    "binary": st.integers(0, 1),
    "ties": st.integers(-2, 2),
    "int64": st.integers(-(2**62), 2**62),
    "floats": st.floats(-1e6, 1e6),
    "float32": st.floats(-1e6, 1e6, width=32),
    "huge": st.sampled_from([-1e150, -1e-300, -0.0, 0.0, 1e-300, 1e150]),
}
DTYPES = {"binary": np.uint8, "ties": np.int8, "int64": np.int64, "float32": np.float32}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("pairing", ["one-vs-rest", "one-vs-one"])
@settings(max_examples=25)
@given(data=st.data())
def test_small_data_in_one_pass(kind, pairing, data):
    """Odd and even counts, ties, duplicates, 0/1 columns, one row a class; whatever fits is settled at once."""
    row = st.tuples(VALUES[kind], VALUES[kind], st.integers(0, 2))
    rows = data.draw(st.lists(row, min_size=2, max_size=20).filter(lambda r: len({v[2] for v in r}) > 1))
    X = np.asarray([r[:2] for r in rows], dtype=DTYPES.get(kind, np.float64))
    y = np.asarray([r[2] for r in rows])
    passes, found = passes_and_medians(X, y, size=data.draw(st.integers(1, 20)), pairing=pairing)
    np.testing.assert_array_equal(found, expected_medians(X, y, pairing))
    assert passes == ["moments"]


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", ">f8", "longdouble", "uint8", "int16", "uint64"])
def test_every_type_of_rows(dtype):
    rng = np.random.default_rng(0)
    X = (rng.integers(0, 2 if dtype == "bool" else 90, size=(121, 3))).astype(dtype)
    y = rng.integers(3, size=121)
    _, found = passes_and_medians(X, y, size=40)
    np.testing.assert_array_equal(found, expected_medians(X, y))


def adversarial(kind, n, seed):
    """Return rows, sorted by class, whose sample says little of the whole."""
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(3, size=n))
    if kind == "normal":
        X = rng.standard_normal((n, 2))
    elif kind == "sorted by value, classes far apart":
        X = np.sort(rng.standard_normal((n, 2)), axis=0) + 10 * y[:, None]
    elif kind == "ties":
        X = rng.integers(-3, 4, size=(n, 2)).astype(float)
    elif kind == "binary":
        X = rng.integers(0, 2, size=(n, 2)).astype(np.uint8)
    elif kind == "constant":
        X = np.full((n, 2), 7.25)
    elif kind == "heavy tails":
        X = np.sinh(6 * rng.standard_normal((n, 2))).astype(np.float32)
    else:  # the chunks that are sampled hold one value, the others another
        X = np.where((np.arange(n) // 97 % 3 == 0)[:, None], 0.5, rng.standard_normal((n, 2)) + 5)
    return X, y


KINDS = (
    "normal", "sorted by value, classes far apart", "ties", "binary", "constant", "heavy tails", "misled sample",
)  # fmt: skip


@pytest.mark.parametrize("pairing", ["one-vs-rest", "one-vs-one"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_small_budget_costs_passes_but_no_bits(kind, pairing, small_budget):
    small_budget(kept=64, floor=4000, sample=32)
    X, y = adversarial(kind, 4001, seed=1)
    passes, found = passes_and_medians(X, y, size=97, pairing=pairing)
    np.testing.assert_array_equal(found, expected_medians(X, y, pairing))
    assert passes[0] == "moments"
    assert set(passes[1:]) <= {"medians"}
    if kind not in ("ties", "binary", "constant"):  # brackets overflow, or miss
        assert passes.count("medians") >= 2


WEIGHTS = {
    "whole": lambda rng, X: rng.integers(1, 5, len(X)), "quarters": lambda rng, X: rng.integers(1, 9, len(X)) / 4,
    "any": lambda rng, X: rng.exponential(size=len(X)), "huge": lambda rng, X: 10.0 ** rng.integers(-6, 9, len(X)),
    "by value": lambda rng, X: np.exp2(np.clip(np.round(X[:, 0]), -9, 9)),
}  # fmt: skip


@pytest.mark.parametrize("kept", [64, 60_000, 1 << 30])
@pytest.mark.parametrize("kind", ["normal", "ties", "binary", "sorted by value, classes far apart"])
@pytest.mark.parametrize("weighting", WEIGHTS)
def test_weights_are_how_often_a_value_counts(weighting, kind, kept, small_budget):
    """In one pass or many, to the last bit; the twin adds fractions."""
    small_budget(kept=kept, floor=2000, sample=200)
    X, y = adversarial(kind, 700, seed=4)
    weights = WEIGHTS[weighting](np.random.default_rng(5), X)
    passes, found = passes_and_medians(X, y, size=97, weights=weights)
    expected = [naive_scatters.weighted_median(X[y != label], weights[y != label]) for label in range(3)]
    np.testing.assert_array_equal(found, expected)
    assert passes[0] == "moments" and len(passes) < 40
    direct = [weighted_median(X[y != label].astype(float), weights[y != label].astype(float)) for label in range(3)]
    np.testing.assert_array_equal(direct, expected)


@pytest.mark.parametrize("pairing", ["one-vs-rest", "one-vs-one"])
@pytest.mark.parametrize("kind", ["shuffled", *KINDS])
def test_more_units_are_counted_where_a_quarter_of_them_saves_a_pass(kind, pairing, small_budget):
    """Units that mislead cost passes, but no bits."""
    small_budget(kept=150_000, floor=4000, sample=2000)
    X, y = adversarial("normal" if kind == "shuffled" else kind, 40_000, seed=2)
    if kind == "shuffled":
        y = np.random.default_rng(3).permutation(y)
    samples = []
    passes, found = passes_and_medians(X, y, size=500, pairing=pairing, samples=samples)
    np.testing.assert_array_equal(found, expected_medians(X, y, pairing))
    if kind == "shuffled":
        assert len(samples) == 2
        assert samples[1] <= X.nbytes / 4
        if pairing == "one-vs-one":  # units have other shares of classes, which only matter where a set has several
            assert passes == ["moments"]


@pytest.mark.parametrize(
    ("n_classes", "kept", "sample", "size"), [(2, 64, 10_000, 1500), (40, 64, 10_000, 1500), (40, 4000, 100, 400)]
)
@pytest.mark.parametrize("pairing", ["one-vs-rest", "one-vs-one"])
def test_a_sample_of_all_rows_leaves_one_pass(n_classes, kept, sample, size, pairing, small_budget):
    """Blocks of rows of several classes, and of one, whatever a pass may keep; a small sample leaves several."""
    small_budget(kept=kept, floor=100, sample=sample)
    rng = np.random.default_rng(n_classes)
    X, y = rng.standard_normal((1500, 3)).astype(np.float32), rng.permutation(np.arange(1500) ** 2 // 9 % n_classes)
    passes, found = passes_and_medians(X, y, size=size, pairing=pairing)
    assert (passes == ["moments"]) == (sample >= len(X))
    np.testing.assert_array_equal(found, expected_medians(X, y, pairing))


def test_values_at_the_ends_of_a_bracket_are_counted_not_kept(small_budget):
    """Columns of 0 and 1 settle in the pass of the moments, with no room to keep anything."""
    small_budget(kept=64, floor=4000, sample=4000)
    X, y = adversarial("binary", 4001, seed=2)
    passes, found = passes_and_medians(X, y, size=400)
    np.testing.assert_array_equal(found, expected_medians(X, y))
    assert passes == ["moments"]


@pytest.mark.parametrize("few", [1, 10**9])
@pytest.mark.parametrize("ends", [(-1, 1), (0, 0), (0, 2), (-9, 9)])
def test_values_are_counted_alike_one_by_one_and_all_at_once(few, ends, monkeypatch):
    """As counted by hand: below, at the low end, inside, at the high end; one value at both ends counts as the low."""
    monkeypatch.setattr(median_counts, "FEW", few)
    rng = np.random.default_rng(8)
    X, y = rng.integers(-3, 4, size=(1300, 3)), rng.integers(3, size=1300)
    members = median_sets(3, "one-vs-rest")
    low, high = (np.full((3, 3), end) for end in ends)
    counter = MedianCounter(Brackets(members, np.bincount(y), low, high), budget=1 << 30)
    counter.add(X, y)
    found = counter.result()
    for number in range(3):
        rows = X[y != number]
        at_high = 0 * rows.sum(axis=0) if ends[0] == ends[1] else (rows == ends[1]).sum(axis=0)
        inside = (rows > ends[0]) & (rows < ends[1])
        expected = (rows < ends[0]).sum(axis=0), (rows == ends[0]).sum(axis=0), inside.sum(axis=0), at_high
        np.testing.assert_array_equal(found.counts[:, number], expected)
        for column in range(3):
            kept = found.values[found.keys == 3 * number + column]
            np.testing.assert_array_equal(np.sort(kept), np.sort(rows[inside[:, column], column]))


@pytest.mark.parametrize("step", [2, 3, 5000])
def test_a_step_keeps_values_of_some_rows_and_counts_those_of_all(step):
    """Of every so many rows of a piece, with the ends of the bracket; the next pass keeps those of all rows."""
    rng = np.random.default_rng(step)
    X, ends = rng.integers(-9, 9, size=(700, 2)).astype(np.float32), (np.float32(-3), np.float32(4))
    low, high = (np.full((1, 2), end) for end in ends)
    brackets = Brackets(np.ones((1, 1), bool), np.asarray([len(X)]), low, high, step)
    counter = MedianCounter(brackets, budget=1 << 30)
    counter.add(X, np.zeros(len(X), int))
    found, inside = counter.result(), (ends[0] <= X) & (ends[1] >= X)
    expected = [(ends[0] > X).sum(axis=0), [0, 0], inside.sum(axis=0), [0, 0]]
    np.testing.assert_array_equal(found.counts[:, 0], expected)
    for column in range(2):
        some = X[::step, column][inside[::step, column]]
        np.testing.assert_array_equal(np.sort(found.values[found.keys == column]), np.sort(some))
    medians, following = settle(brackets, found)
    assert np.isnan(medians).all()
    assert following.step == 1
    assert (following.low <= np.median(X, axis=0)).all()
    assert (following.high >= np.median(X, axis=0)).all()


def test_a_bracket_that_missed_is_replaced_by_the_side_it_missed_on():
    values = np.asarray([[1.0], [2.0], [3.0], [4.0], [5.0]])
    for low, high, side in ((3.5, 4.5, (-np.inf, 3.5)), (1.5, 2.5, (2.5, np.inf))):
        brackets = Brackets(np.ones((1, 1), bool), np.asarray([5]), np.asarray([[low]]), np.asarray([[high]]))
        counter = MedianCounter(brackets, budget=1000)
        counter.add(values, np.zeros(len(values), int))
        found, following = settle(brackets, counter.result())
        assert np.isnan(found).all()
        assert (following.low[0, 0], following.high[0, 0]) == side


@settings(max_examples=60)
@given(
    values=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    ends=st.tuples(st.integers(-1, 10), st.integers(-1, 10)),
)
def test_a_pass_settles_the_median_exactly_when_its_bracket_holds_it(values, ends):
    """For any bracket of any values: the median if both its order statistics lie in it, else no answer."""
    low, high = sorted(ends)
    X = np.asarray(values, dtype=float)[:, None]
    brackets = Brackets(np.ones((1, 1), bool), np.asarray([len(X)]), *np.asarray([[[low]], [[high]]], float))
    counter = MedianCounter(brackets, budget=10_000)
    counter.add(X, np.zeros(len(X), int))
    found, _ = settle(brackets, counter.result())
    ordered = sorted(values)
    middle = ordered[(len(X) - 1) // 2], ordered[len(X) // 2]
    if all(low <= value <= high for value in middle):
        assert found[0, 0] == sum(middle) / 2
    else:
        assert np.isnan(found[0, 0])


def test_the_sample_brackets_the_median_of_a_fair_sample():
    rng = np.random.default_rng(3)
    X, codes = rng.standard_normal((20_000, 4)), rng.integers(2, size=20_000)
    pick = slice(None, None, 20)
    brackets = Brackets(~np.eye(2, dtype=bool), np.bincount(codes), np.full((2, 4), -np.inf), np.full((2, 4), np.inf))
    narrow_by_sample(brackets, X[pick], codes[pick])
    for number in (0, 1):
        median = np.median(X[codes != number], axis=0)
        assert (median > brackets.low[number]).all()
        assert (median < brackets.high[number]).all()
        low, high = brackets.low[number], brackets.high[number]
        inside = np.mean(np.logical_and(low < X, high > X))
        assert inside < 0.35  # 5 standard deviations of the rank of a sample of 500 are 56 of 500, either side


@pytest.mark.slow
def test_every_round_narrows_so_that_the_passes_end(small_budget):
    small_budget(kept=64, floor=100, sample=4)
    settled = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(50, 300))
        X, y = rng.standard_normal((n, 3)), np.sort(rng.integers(3, size=n))
        passes, found = passes_and_medians(X, y, size=13, limit=n)
        np.testing.assert_array_equal(found, expected_medians(X, y))
        settled += len(passes) > 1
    assert settled > 0


def test_thinning_ends_where_even_one_value_a_cell_is_beyond_the_budget(limits, monkeypatch):
    limits.kept_floor = 10
    thin = MedianCounts._thin_to

    def guarded(self, level):
        if level > 64:
            raise TooManyPassesError
        return thin(self, level)

    monkeypatch.setattr(MedianCounts, "_thin_to", guarded)
    zeros = np.zeros((1, 50), np.int64)
    keys, values = np.arange(50, dtype=np.uint16), np.arange(50.0)
    kept = MedianCounts(np.stack([zeros] * 4), keys, values, 0, 0).within_budget()
    assert len(kept.keys) > 0


def test_a_settled_median_stays_settled():
    """Whatever other columns still need: a pass over the same rows with the new brackets settles it again."""
    X = np.asarray([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [5.0, 50.0], [6.0, 60.0]])
    brackets = Brackets(np.ones((1, 1), bool), np.asarray([6]), np.asarray([[0.0, 45.0]]), np.asarray([[7.0, 55.0]]))
    rounds = []
    for _ in range(2):
        counter = MedianCounter(brackets, budget=1000)
        counter.add(X, np.zeros(len(X), int))
        found, brackets = settle(brackets, counter.result())
        rounds.append(found[0].tolist())
        if brackets is None:
            break
    assert rounds[0][0] == 3.5
    assert np.isnan(rounds[0][1])
    assert rounds[1] == [3.5, 35.0]


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize("n", [0, 1, 500])
def test_thinning_keeps_every_second_value_of_each_median(n, piece, monkeypatch):
    """In pieces, whose temporary arrays are small, as at once."""
    monkeypatch.setattr(median_counts, "PIECE_VALUES", piece)
    rng = np.random.default_rng(n)
    keys, values = rng.integers(40, size=n).astype(np.uint16), rng.standard_normal(n)
    new_keys, new_values = median_counts._halved(keys, values)
    expected = [(key, value) for key in range(40) for value in values[keys == key][::2]]
    assert list(zip(new_keys.tolist(), new_values.tolist(), strict=True)) == expected


def test_without_pairings_no_sets_are_made():
    assert median_sets(10**9) is None  # nothing of the order of C x C


def test_rows_that_never_settle_end():
    from types import SimpleNamespace

    from mmpca_dist.errors import InputError

    ends = np.zeros((1, 1), np.uint8), np.full((1, 1), 255, np.uint8)
    brackets = Brackets(np.ones((1, 1), bool), np.array([9]), *ends)
    below = MedianCounts(np.array([[[9]], [[0]], [[0]], [[0]]]), np.empty(0, np.uint16), np.empty(0, np.uint8))
    rows = SimpleNamespace(
        pass_over=lambda *_: below,
        scheduler=None,
        census=SimpleNamespace(classes=np.array([0])),
        dataset=SimpleNamespace(uri="X"),
    )
    with pytest.raises(InputError, match="passes do not settle the medians of X"):
        medians.all_medians(rows, brackets)
