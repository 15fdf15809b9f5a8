"""The search on values of all sizes: every neighbour is the true one, or the rows are refused in a sentence."""

from fractions import Fraction

import naive
import numpy as np
import pytest
from helpers.neighbors import assert_found, assert_found_without_room
from helpers.samples import even_edges, find
from helpers.tables import labelled
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors import bounds
from mmpca_dist.neighbors.bounds import SMALLEST_NORMAL
from mmpca_dist.neighbors.cells import train_frame
from mmpca_dist.neighbors.estimator import NearestOpposite
from mmpca_dist.neighbors.layout import LARGEST_VALUE
from mmpca_dist.neighbors.pair_statistics import PairSums, as_scatter
from mmpca_dist.statistics.medians import PAIRINGS

EXPONENTS = {
    "float32": [-44, -30, -19, -5, 0, 5, 19, 30, 37],
    "float64": [-300, -200, -165, -161, -155, -150, -100, -30, 0, 30, 100, 140, 148, 149, 160, 300],
}


@st.composite
def rows_of_all_sizes(draw, widths=(1, 3, 8, 40, 45, 100)):
    """Rows whose columns, and some of which, are of very different sizes, on grids or not; with labels."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    n, d, dtype = draw(st.integers(4, 40)), draw(st.sampled_from(widths)), draw(st.sampled_from(list(EXPONENTS)))
    exponents = st.sampled_from(EXPONENTS[dtype])
    values = rng.integers(-2, 3, (n, d)) if draw(st.booleans()) else rng.standard_normal((n, d))
    columns, rows = np.full(d, draw(exponents)), np.zeros(n)
    if draw(st.booleans()):
        columns[rng.random(d) < 0.5] = draw(exponents)
    if draw(st.booleans()):
        rows[rng.random(n) < 0.2] = draw(exponents)
    sizes = np.clip(columns + rows[:, None], EXPONENTS[dtype][0], EXPONENTS[dtype][-1])
    y = rng.integers(0, 3, n)
    assume(len(np.unique(y)) > 1)
    return (values * 10.0**sizes).astype(dtype), y


def vanishing(X, y):
    """Return for all pairs of rows of different classes whether they differ, but by less than squares can show."""
    X = X.astype(np.float64)
    squared = naive.squared_distance(X.T[:, :, None], X.T[:, None, :])
    differ = (X[:, None] != X).any(axis=2) & (y[:, None] != y)
    return differ & (squared < X.shape[1] * SMALLEST_NORMAL)


@settings(max_examples=60)
@given(rows_of_all_sizes(), st.sampled_from([1, 5, 400]), st.sampled_from([3, 17, 100]), st.sampled_from(PAIRINGS))
def test_rows_of_any_size_find_their_nearest_or_are_refused(data, rows_per_cell, chunk, pairing):
    X, y = data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LIMITS, "rows_per_cell", rows_per_cell)
        try:
            found = find(X, y, edges=even_edges(len(X), chunk), pairing=pairing)
        except InputError as error:
            too_large = X.dtype == np.float64 and np.abs(X).max() >= LARGEST_VALUE
            assert too_large if "overflow" in str(error) else "Scale the rows up" in str(error)
            assert too_large or vanishing(X, y).any()
            return
    assert X.dtype == np.float32 or np.abs(X).max() < LARGEST_VALUE
    expected, exact = assert_found(found, X, y, pairing)
    known = np.argwhere(expected >= 0)
    assert not vanishing(X, y)[known[:, 0], expected[tuple(known.T)]].any()
    assert found.certificate()["proved_exact"] == 1
    assert_found_without_room(found, expected, exact, pairing)


@settings(max_examples=60)
@given(rows_of_all_sizes(widths=(1, 3, 9)))
def test_what_is_called_nearest_is_nearest_in_exact_arithmetic(data):
    """Up to the rounding of a double: no square that vanished or overflowed decides."""
    X, y = data
    try:
        nearest = find(X, y).arrays()[1][:, 0]
    except InputError:
        return
    exact = [[Fraction(float(value)) for value in row] for row in X]
    for i, j in enumerate(nearest.tolist()):
        distances = {
            k: sum((a - b) ** 2 for a, b in zip(exact[i], exact[k], strict=True)) for k in np.flatnonzero(y != y[i])
        }
        assert distances[j] <= min(distances.values()) * (1 + Fraction(1, 10**13))


@pytest.mark.parametrize(("spread", "far"), [(1e-100, 1e100), (1e-30, 1e149), (1e-140, 1e149), (1e-5, 1e149)])
@pytest.mark.parametrize("d", [5, 40, 100])
def test_rows_whose_squares_overflow_once_they_are_scaled(d, spread, far):
    """The first units are not in the sample; brought to its size such rows are far beyond what squares can hold."""
    rng = np.random.default_rng(d)
    X, y = rng.standard_normal((200, d)) * spread, rng.integers(0, 3, 200)
    X[[5, 8]] *= far / spread / 10
    X[[12, 33]] = far
    assert_found(find(X, y, edges=even_edges(200, 10)), X, y)
    model = NearestOpposite().fit(X[20:], y[20:])  # queries that no layout has seen
    distances, rows = model.kneighbors(X[:20], y[:20])
    for i in range(20):
        both = np.concatenate([X[20:], X[i : i + 1]])
        expected, exact = naive.nearest_opposite(both, np.append(y[20:], y[i]), queries=[180])
        assert rows[i, 0] == expected[0, 0] and distances[i, 0] == exact[0, 0]


@pytest.mark.parametrize("scale", [1e-300, 2.0**-505, 1.0, 1e149])
def test_coordinates_are_finite_whatever_was_sampled(scale):
    rng = np.random.default_rng(0)
    for d in (3, 60):
        frame = train_frame(scale * rng.standard_normal((500, d)))
        assert 0 < frame.scale < np.inf and np.isfinite(frame.axes).all()
        rows = np.concatenate([rng.standard_normal((3, d)) * size for size in (0.0, 1e-300, 1.0, 1e149)])
        assert all(np.isfinite(coordinates).all() for coordinates in frame.coordinates(rows))


def test_standardised_values_that_overflow_are_refused():
    X, y = labelled(60, 4, 2, seed=1)
    X[7, 2] = 1e140
    with pytest.raises(InputError, match=r"Found 1e\+140 in row 7, column 2, .* overflow"):
        find(X, y, deviations=np.asarray([1, 1, 1e-20, 1]))


def test_equal_rows_of_different_classes_are_no_vanishing_differences():
    X, y = np.zeros((6, 3)), np.arange(6) % 2
    X[3:] = 1e-300
    X[5] = -0.0
    np.testing.assert_array_equal(find(X[[0, 1, 2, 5]], y[[0, 1, 2, 5]]).arrays()[1][:, 0], [1, 0, 1, 0])
    with pytest.raises(InputError, match=r"^Rows \d and \d differ by so little that .* Scale the rows up\.$"):
        find(X, np.asarray([0, 0, 0, 1, 1, 1]))


def test_a_row_that_is_left_without_a_neighbour_is_an_error(monkeypatch):
    """Never dropped: here a bound that is wrong leaves out all cells."""
    monkeypatch.setattr(bounds, "near_cells", lambda queried, targets, *_: np.zeros(targets.between.shape, bool))
    X, y = labelled(40, 3, 2, seed=2)
    with pytest.raises(MmpcaError, match=r"found no row of another class for row \d+ \(40 such rows\)"):
        find(X, y)


def test_differences_whose_squares_add_up_to_too_much_are_refused():
    sums = PairSums(np.full((2, 2), np.inf), np.inf, 3.0, [np.empty((0, 2))], np.zeros(120, np.int64))
    with pytest.raises(InputError, match="too large even for double precision; scale them down"):
        as_scatter(None, sums, np.linspace(0, 1, 121))
