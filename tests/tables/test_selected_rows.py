"""Some of the rows of a table are those that a mask takes; to read few of many holds no more than a reading unit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from helpers.samples import Watched

from mmpca_dist import class_moments, open_dataset
from mmpca_dist.statistics.widened_rows import widened_as
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.tables.column import column_in_memory
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted
from mmpca_dist.tables.spans import reading_edges

N, D = 480, 6
MASKS = {
    "many": np.arange(N) % 5 > 0,
    "few": np.isin(np.arange(N), [3, 100, 101, 350, 479]),
    "ends": (np.arange(N) < 30) | (np.arange(N) >= 470),
    "one": np.arange(N) == 77,
    "whole units": np.arange(N) < 250,
}


class Chunked(Watched):
    """Rows in chunks of 20."""

    chunk_edges = np.arange(0, N + 1, 20)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_rows_are_those_of_the_mask_and_no_more_than_a_unit_is_read_at_once(name, sparse, limits):
    limits.unit_bytes = 60 * D * 8
    mask, X = MASKS[name], np.random.default_rng(0).standard_normal((N, D))
    reads, names = [], (np.arange(N) % 3).astype(str)
    source = rows_in_memory(scipy.sparse.csr_array(X) if sparse else X, names, "X")
    chunked = source.over(Chunked(source.stored, lambda start, stop: reads.append((start, stop))))
    rows, column = chunked.only(lambda batch: mask[batch.rows]), column_in_memory(names, "names")
    n, places = int(mask.sum()), np.flatnonzero(mask)
    for start, stop in {(0, n), (0, 1), (n - 1, n), (n // 3, 2 * n // 3 + 1)}:
        taken = places[start:stop]
        values = rows.read_sparse(start, stop).toarray() if sparse else rows.read_rows(start, stop)
        np.testing.assert_array_equal(values, X[taken])
        assert rows.read_labels(start, stop).tolist() == names[taken].tolist()
        assert rows.batch(start, stop).rows.tolist() == taken.tolist()
        (beside, there), place = rows.beside(column, start, stop)
        assert beside.tolist() == names[taken].tolist() and there.all() and place.rows.tolist() == taken.tolist()
        assert rows.batch(start, stop).weight is None
    assert max(stop - start for start, stop in reads) <= 60
    chunks = mask.reshape(-1, 20).any(axis=1)
    assert all(chunks[start // 20 : stop // 20].all() for start, stop in reads), "chunks without any are not read"
    assert len(reading_edges(rows)) >= min(len(rows.chunk_edges), N // 60), "about as many units as the source has"


@pytest.mark.parametrize("name", MASKS)
def test_keys_are_made_of_the_rows_that_are_left_by_their_new_numbers(name, limits):
    limits.unit_bytes = 60 * D * 8
    X = np.random.default_rng(0).standard_normal((N, D))
    source = rows_in_memory(X, np.arange(N), "X")
    rows = weighted(source.over(Chunked(source.stored, lambda start, stop: None)), MASKS[name].astype(float))
    widening = Widening(D, np.asarray([1]), np.asarray([0.5]))
    n = int(MASKS[name].sum())
    for table in (rows, widened_as(rows, widening)):
        keyed = table.keyed(lambda batch: np.arange(batch.start, batch.stop))
        for start, stop in {(0, n), (n - 1, n), (n // 3, 2 * n // 3 + 1)}:
            batch = keyed.batch(start, stop)
            assert batch.label.tolist() == list(range(start, stop))
            assert batch.rows.tolist() == np.flatnonzero(MASKS[name])[start:stop].tolist()
            np.testing.assert_array_equal(batch.X, table.read_rows(start, stop))
        assert (keyed.n_features, keyed.n_columns, keyed.form) == (table.n_features, D, table.form)


def test_a_table_of_rare_labels_is_read_in_as_many_units_as_if_all_were_known(limits, tmp_path):
    limits.unit_bytes = 1 << 14
    X = np.random.default_rng(1).standard_normal((40_000, 8)).astype(np.float32)
    labels = np.full(len(X), None, dtype=object)
    labels[::199], labels[50::199] = "a", "b"
    table = pa.table({**{f"x{i}": column for i, column in enumerate(X.T)}, "label": pa.array(labels, pa.string())})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=500)
    rows = open_dataset(tmp_path / "t.parquet", unlabelled="skip")
    assert len(reading_edges(rows)) - 1 == pytest.approx(X.nbytes / limits.unit_bytes, rel=0.1)
    known = np.flatnonzero(np.not_equal(labels, None))
    found, expected = (
        class_moments(*of, precision="double") for of in ((rows,), (X[known], labels[known].astype(str)))
    )
    assert found.counts.tolist() == expected.counts.tolist()
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-10)
    np.testing.assert_allclose(found.scatters, expected.scatters, rtol=1e-10, atol=1e-8)
