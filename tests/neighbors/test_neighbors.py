"""The exact search finds the rows that the definition says, to the bit, and its bounds never discard wrongly."""

from itertools import pairwise
from math import prod

import naive
import numpy as np
import pytest
from helpers.neighbors import assert_found, assert_found_without_room
from helpers.row_kinds import KINDS, as_type, labelled_rows
from helpers.samples import even_edges, find, lay_out_rows
from helpers.tables import labelled
from hypothesis import given, settings
from hypothesis import strategies as st

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors import bounds
from mmpca_dist.neighbors import layout as layouts
from mmpca_dist.neighbors.cells import BALL, relative_rounding, train_frame
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.search import queries_from, queries_of, search_queries
from mmpca_dist.passes.scratch import ZarrScratch
from mmpca_dist.statistics.medians import PAIRINGS


@st.composite
def sizes(draw):
    """Limits so small that few rows make many cells, pieces, segments and units."""
    return {
        "rows_per_cell": draw(st.sampled_from([1, 3, 10, 300])),
        "piece_rows": draw(st.sampled_from([1, 4, 4096])),
        "smallest_piece": draw(st.sampled_from([1, 3, 256])),
        "segment_bytes": draw(st.sampled_from([1, 2000, 32 << 20])),
        "smallest_segment": draw(st.sampled_from([1, 8, 512])),
        "layout_block_rows": draw(st.sampled_from([5, 8192])),
        "layout_block_bytes": draw(st.sampled_from([1000, 64 << 20])),
    }


@settings(max_examples=60)
@given(labelled_rows(), sizes(), st.sampled_from(PAIRINGS), st.sampled_from([3, 17, 100]))
def test_every_neighbour_is_that_of_the_definition(data, limits, pairing, chunk):
    (X, y), n = data, len(data[0])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(LIMITS, name, value)
        found = find(X, y, edges=even_edges(n, chunk), pairing=pairing)
        assert_found_without_room(found, *assert_found(found, X, y, pairing), pairing)
    certificate = found.certificate()
    assert certificate["proved_exact"] == 1 and certificate["recall"] is None
    assert certificate["queries"] == n


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_in_one_cell_in_some_and_in_one_each(kind, limits):
    """Large cells, where a product is far larger than the distances it must tell apart, and small ones."""
    for d in (5, 16, 40, 301):
        for rows_per_cell, dtype in ((100, "float64"), (100, "float32"), (8, "float64"), (1, "float64")):
            limits.rows_per_cell = rows_per_cell
            rng = np.random.default_rng(d)
            X, y = as_type(KINDS[kind](rng, 40, d), dtype), rng.integers(0, 2, 40)
            found = find(X, y)
            assert_found_without_room(found, *assert_found(found, X, y))


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("d", [3, 12, 16, 40, 64, 200, 301])
def test_exact_ties_between_cells_of_one_row_go_to_the_lowest_row(d, pairing, limits):
    """Cells of radius zero leave no room at all: rounding of the product decides, and must not."""
    limits.rows_per_cell = 1
    limits.smallest_segment = 16
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for kind in ("equidistant", "last_bits"):
            order = rng.permutation(60)
            X, y = KINDS[kind](rng, 60, d)[order], (np.arange(60) >= 6).astype(int)[order]
            y[y == 1] += rng.integers(0, 2, 54)
            found = find(X, y, pairing=pairing)
            assert_found_without_room(found, *assert_found(found, X, y, pairing), pairing)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [5, 90])
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_standardised_columns(pairing, d, dtype):
    X, y = labelled(80, d, 3, seed=3)
    X = (X * np.logspace(-3, 3, d)).astype(dtype)
    deviations = X.std(axis=0, dtype=np.float64)
    found = find(X, y, deviations=deviations, pairing=pairing)
    assert_found(found, X.astype(np.float64) / deviations, y, pairing)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("shape", [(12, 2000), (4, 1600)])
def test_axes_of_very_wide_rows_come_from_a_randomized_decomposition(shape, pairing):
    for seed, kind in enumerate(("gaussian", "equal", "far_mean", "binary")):
        X, y = KINDS[kind](np.random.default_rng(seed), *shape), np.arange(shape[0]) % 2
        assert_found(find(X, y, pairing=pairing), X, y, pairing)


@pytest.mark.parametrize("factor", [1e8, 1e25, 1e36])
@pytest.mark.parametrize("d", [5, 20, 100])
def test_rows_far_beyond_all_that_was_sampled(d, factor):
    """The first units are not in the sample; in single precision such rows overflow when squared."""
    rng = np.random.default_rng(d)
    X, y = rng.standard_normal((200, d)).astype(np.float32), rng.integers(0, 3, 200)
    X[[5, 8]] *= np.float32(factor)
    X[[12, 33]] = np.float32(factor)
    for pairing in PAIRINGS:
        found = find(X, y, edges=even_edges(200, 10), pairing=pairing)
        assert_found(found, X, y, pairing)


# ------------------------------------------------------------------------------------------------- the distance


@settings(max_examples=100)
@given(
    st.integers(1, 200), st.integers(0, 2**20), st.sampled_from([1e-170, 1e-30, 1.0, 1e30, 1e140]),
    st.sampled_from(["float32", "float64"]), st.floats(0, 2),
)  # fmt: skip
def test_the_distance_is_summed_in_its_order_and_given_up_only_beyond_the_limit(d, seed, factor, dtype, share):
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        factor = np.clip(factor, 1e-30, 1e30)
    a, b = ((factor * rng.standard_normal((2, d))).astype(dtype) for _ in range(2))
    expected = naive.squared_distance([float(v) for v in a[1]], [float(v) for v in b[0]])
    buffer = np.empty(bounds.STEP)
    assert bounds.squared_distance(a, 1, b, 0, np.inf, buffer) == expected
    assert bounds.squared_distance(a, 1, b, 0, expected, buffer) == expected  # a tie is not beyond the limit
    limit = expected * share
    found = bounds.squared_distance(a, 1, b, 0, limit, buffer)
    assert found == expected or (np.isinf(found) and expected > limit)


# ------------------------------------------------------------------------------------------------- frame and layout


@settings(max_examples=40)
@given(labelled_rows(), st.integers(1, 40))
def test_coordinates_never_lengthen_a_distance(data, n_sampled):
    """Neither those of the products nor those of the second bound, also of rows far beyond the sample."""
    X = data[0]
    frame = train_frame(X[:n_sampled])
    rows = frame.rows(X)
    np.testing.assert_array_equal(rows, X.astype(np.float64))
    first, second = frame.coordinates(rows)
    assert first.shape == (len(X), frame.width) and second.shape == (len(X), frame.tail_width)
    assert frame.width <= min(X.shape[1], 64) and frame.tail_width <= 256
    columns = np.asarray(rows, np.float64).T
    every = np.sqrt(naive.squared_distance(columns[:, :, None], columns[:, None, :])) * frame.scale
    for i, true in enumerate(every):
        for coordinates in (first, second) if frame.tail_width else (first,):
            assert np.linalg.norm(coordinates[i]) <= BALL * (1 + 1e-12)
            between = np.linalg.norm(coordinates - coordinates[i], axis=1)
            assert (between <= true * (1 + relative_rounding(X.shape[1])) + frame.rounding).all()


def test_most_of_the_distance_shows_in_the_coordinates():
    """Bounds that are never wrong would be useless if they were always zero."""
    X, _ = labelled(500, 200, 2, seed=4)
    frame = train_frame(X[:300])
    assert not frame.complete
    for coordinates, least in zip(frame.coordinates(X), (0.8, 0.9), strict=True):
        shown = np.linalg.norm(coordinates[:250] - coordinates[250:], axis=1)
        true = np.linalg.norm(X[:250] - X[250:], axis=1) * frame.scale
        assert np.median(shown / true) > least
        norms = np.linalg.norm(X - frame.centre, axis=1) * frame.scale
        np.testing.assert_allclose(np.linalg.norm(coordinates, axis=1), norms, rtol=1e-12)  # nothing is left out


@settings(max_examples=40)
@given(labelled_rows(), sizes(), st.sampled_from([3, 17, 100]))
def test_the_layout_holds_every_row_once_by_cell_and_class(data, limits, chunk):
    (X, y), n = data, len(data[0])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(LIMITS, name, value)
        layout, scratch, census = lay_out_rows(X, y, edges=even_edges(n, chunk))
        piece_rows = layouts.piece_rows(layout.row_bytes)
        assert piece_rows <= LIMITS.piece_rows
        wide = piece_rows * layout.row_bytes > LIMITS.segment_bytes
        assert not wide or piece_rows <= LIMITS.smallest_piece
    codes = np.searchsorted(census.classes, y)
    assert sorted(scratch.tables) == sorted(f"segment-{i}" for i in range(layout.n_segments)), "units are gone"
    parts = [scratch.get(f"segment-{i}", layouts.ARRAYS) for i in range(layout.n_segments)]
    assert layout.row_bytes == sum(array[:1].nbytes for array in parts[0])
    x, z, halves, tail, rows = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    np.testing.assert_array_equal(np.sort(rows), np.arange(n))
    np.testing.assert_array_equal(x, X[rows].astype(np.float64))
    assert layout.segments[0] == 0 and layout.segments[-1] == len(layout.cell) and layout.n_rows == n
    for segment in range(layout.n_segments):
        start, stop = layout.positions(segment)
        assert len(parts[segment][0]) == stop - start > 0
        np.testing.assert_array_equal(layout.segment_of(np.arange(start, stop)), segment)
    frame, centres = layout.cells.frame, layout.cells.centres
    along, along_tail = frame.coordinates(frame.rows(X))
    for p, (start, stop) in enumerate(pairwise(layout.starts.tolist())):
        assert 0 < stop - start <= piece_rows
        assert layout.classes[p, 0] == start and layout.classes[p, -1] == stop
        for c, (first, last) in enumerate(pairwise(layout.classes[p].tolist())):
            np.testing.assert_array_equal(codes[rows[first:last]], c)
            assert (np.diff(rows[first:last]) > 0).all(), "rows of a class are sorted within a piece"
        own = slice(start, stop)
        absolute = z[own] + centres[layout.cell[p]].astype(np.float64)
        np.testing.assert_allclose(absolute, along[rows[own]], atol=bounds.U * layout.radii[p] + 1e-30)
        absolute = tail[own] + layout.cells.tail_centres[layout.cell[p]].astype(np.float64)
        np.testing.assert_allclose(absolute, along_tail[rows[own]], atol=bounds.U * layout.tail_radii[p] + 1e-30)
        for coordinates, radius in ((z[own], layout.radii[p]), (tail[own], layout.tail_radii[p])):
            assert (np.linalg.norm(coordinates.astype(np.float64), axis=1) <= radius).all()
    np.testing.assert_allclose(halves, 0.5 * np.sum(z.astype(np.float64) ** 2, axis=1), rtol=2 * bounds.U, atol=1e-44)


def test_queries_of_a_layout_are_all_rows_or_those_chosen(limits):
    limits.rows_per_cell = 8
    limits.smallest_segment = 20
    X, y = labelled(150, 20, 5, seed=5)
    layout, _, _ = lay_out_rows(X, y)
    assert layout.n_segments > 4
    chosen = np.asarray([0, 3, 77, 149])
    for wanted, expected in ((None, np.arange(150)), (chosen, chosen)):
        found = queries_of(layout, 0, layout.n_segments, wanted)
        np.testing.assert_array_equal(np.sort(found.rows), expected)
        np.testing.assert_array_equal(found.x, X[found.rows])
        np.testing.assert_array_equal(found.codes, y[found.rows])
        assert_grouped(found, layout)
    assert len(queries_of(layout, 0, 1, np.asarray([-1]))) == 0


def assert_grouped(found, layout):
    """Groups and blocks cover all queries once, radii hold, and a block has one class or says that it has several."""
    assert found.starts[0] == 0 and found.starts[-1] == len(found)
    for g, (start, stop) in enumerate(pairwise(found.starts.tolist())):
        lengths = np.linalg.norm(found.z[start:stop].astype(np.float64), axis=1)
        assert stop > start and (lengths <= found.radii[g]).all()
        absolute = found.z[start:stop] + layout.cells.centres[found.cell[g]].astype(np.float64)
        along, _ = layout.cells.frame.coordinates(found.x[start:stop])
        np.testing.assert_allclose(absolute, along, atol=bounds.U * found.radii[g] + 1e-30)
    n_classes = layout.classes.shape[1] - 1
    for few in (1, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LIMITS, "few_classes", few)
            blocks = found.blocks(n_classes)
        covered = np.concatenate([np.arange(start, stop) for _, start, stop, _ in blocks])
        np.testing.assert_array_equal(np.sort(covered), np.arange(len(found)))
        assert (np.diff(blocks[:, 3]) >= 0).all()
        for group, start, stop, code in blocks:
            assert found.starts[group] <= start < stop <= found.starts[group + 1]
            assert code == -1 if few == 1 else (found.codes[start:stop] == code).all()


@settings(max_examples=40)
@given(labelled_rows(), sizes(), st.sampled_from(PAIRINGS), st.sampled_from([0.5, 1.0, 1e12]))
def test_rows_from_elsewhere_find_their_nearest_too(data, limits, pairing, factor):
    """Queries that are not in the layout, also such as are far beyond all that is."""
    X, y = data
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(LIMITS, name, value)
        layout, _, census = lay_out_rows(X, y)
    rng = np.random.default_rng(0)
    others = X[rng.integers(0, len(X), 7)].astype(np.float64) * factor
    codes = rng.integers(0, len(census.classes), 7)
    asked = queries_from(layout.cells, others, codes)
    assert_grouped(asked, layout)
    found, _ = search_queries(asked, layout, one_vs_one=pairing == "one-vs-one")
    for place, i in enumerate(asked.rows.tolist()):
        both = np.concatenate([X.astype(np.float64), others[i : i + 1]])
        expected, distances = naive.nearest_opposite(both, np.append(y, census.classes[codes[i]]), pairing, [len(X)])
        np.testing.assert_array_equal(np.where(np.isfinite(found.squared[place]), found.rows[place], -1), expected[0])
        np.testing.assert_array_equal(np.sqrt(found.squared[place]), distances[0])


def test_far_cells_are_left_out_and_their_segments_never_read(tmp_path, limits):
    """The point of it all: few cells are visited, and few bytes read, where rows lie in clusters."""
    limits.rows_per_cell = 20
    limits.smallest_segment = 40
    rng = np.random.default_rng(6)
    X = 100 * rng.standard_normal((10, 5))[np.arange(800) % 10] + rng.standard_normal((800, 5))
    y = (np.arange(800) // 10) % 2
    found = find(X, y, scratch=ZarrScratch(str(tmp_path)))
    assert_found(found, X, y)
    certificate = found.certificate()
    assert certificate["compared_per_query"] < 800 / 5
    assert certificate["bytes_read"] < found.layout.n_segments * certificate["scratch_bytes"] / 3
    assert certificate["scratch_bytes"] == prod((800, 5 * 8 + 5 * 4 + 4 + 8))


# ------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(("value", "reason"), [(np.nan, "must be finite"), (np.inf, "finite"), (1e160, "overflow")])
@pytest.mark.parametrize("row", [0, 57, 199])
def test_a_value_that_cannot_be_compared_is_named_by_row_and_column(row, value, reason):
    """By the search itself, whether or not its sample holds the row."""
    X, y = labelled(200, 6, 2, seed=7)
    X[row, 4] = value
    message = f"^Found {value} in row {row}, column 4, in rows 0 to 199 of .*{reason}"
    with pytest.raises(InputError, match=message.replace("+", r"\+")):
        find(X, y, edges=even_edges(200, 20))
    with pytest.raises(InputError, match=reason):
        find(np.full((4, 3), value), [0, 1, 0, 1])


@pytest.mark.parametrize(("options", "message"), [
    ({"mode": "exactly"}, r"mode='exactly' must be one of exact, approximate\. Did you mean 'exact'"),
    ({"pairing": "all"}, "pairing='all' must be one of"),
    ({"mode": None}, "mode=None must be one of"),
    ({"pairing": 1}, "pairing=1 must be one of"),
    ({"recall": 2}, "recall=2 must lie between 0 and 1; .*mode='exact'"),
    ({"recall": 1.0}, "recall=1.0 must lie between"),
    ({"recall": "most"}, "recall='most' must lie between"),
    ({"max_queries": 0}, "max_queries=0 must be a whole number of at least 2"),
    ({"max_queries": 2.5}, "max_queries=2.5 must be a whole number of at least 2"),
    ({"max_queries": True}, "max_queries=True must be a whole number of at least 2"),
])  # fmt: skip
def test_bad_settings_are_refused_in_a_sentence(options, message):
    with pytest.raises(InputError, match=message):
        Search(**options)


# ------------------------------------------------------------------------------------------------- real data


@pytest.mark.parametrize(("name", "pairing"), [("ionosphere_raw", "one-vs-rest"), ("colon", "one-vs-one")])
def test_published_tables(real_data, name, pairing):
    X, y = real_data(name)
    assert_found(find(X, y, pairing=pairing), X, y, pairing)


def test_mushrooms_full_of_ties(real_data):
    """Binary columns: most neighbours are ties, which the lowest row number decides."""
    X, y = real_data("mushrooms")
    rows = np.arange(0, len(X), 11)
    nearest, distances = naive.nearest_opposite(X, y, queries=rows)
    queries_, found, found_distances = find(X, y).arrays()
    np.testing.assert_array_equal(queries_, np.arange(len(X)))
    np.testing.assert_array_equal(found[rows], nearest)
    np.testing.assert_array_equal(found_distances[rows], distances)


def test_digits_in_ten_classes(real_data, limits):
    """784 columns of bytes: all bounds at work, both ways of pairing classes."""
    X, y = real_data("mnist")
    X, y = X[::70].astype(np.float32), y[::70]
    limits.rows_per_cell = 50
    rows = np.arange(0, len(X), 5)
    for pairing in PAIRINGS:
        nearest, distances = naive.nearest_opposite(X, y, pairing, rows)
        _, found, found_distances = find(X, y, pairing=pairing).arrays()
        np.testing.assert_array_equal(found[rows], nearest)
        np.testing.assert_array_equal(found_distances[rows], distances)
