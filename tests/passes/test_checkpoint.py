"""A pass that goes on from what groups of its spans have left gives the same bits, and repeats little."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from helpers.resuming import Killed

from mmpca_dist.passes.checkpoint import Checkpoint, PassCheckpoint
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.row_space import row_space_statistics
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import Span


class Task:
    """Sums that depend on their order in the last bits; dies at a span where told to."""

    def __init__(self, die_at=None):
        self.done, self.die_at, self._lock = [], die_at, threading.Lock()

    def __call__(self, span):
        if span.index == self.die_at:
            raise Killed
        with self._lock:
            self.done.append(span.index)
        return np.random.default_rng(span.index).standard_normal(50) * 10.0 ** (span.index % 7)


def add(left, right):
    return left + right


def spans(n):
    return [Span(i, (i, i + 1)) for i in range(n)]


def reduced(task, n, folder, threads=1, **options):
    checkpoint = None if folder is None else Checkpoint(str(folder), 10**9)
    return Tasks(scheduler=Threads(threads), checkpoint=checkpoint, **options).run(task, spans(n), add, "sum")


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 65, 200])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_pass_that_died_goes_on_with_the_same_bits(n, threads, tmp_path):
    expected = reduced(Task(), n, None)
    for number, die_at in enumerate(sorted({0, n // 2, n - 1})):
        folder, first, second = tmp_path / str(number), Task(die_at), Task()
        with pytest.raises(Killed):
            reduced(first, n, folder, threads)
        np.testing.assert_array_equal(reduced(second, n, folder, threads), expected)
        assert not set(second.done) - set(range(n))
        third = Task()
        np.testing.assert_array_equal(reduced(third, n, folder, threads), expected)
        assert third.done == [], "the pass was complete"


def test_no_more_than_the_groups_in_flight_are_repeated(tmp_path):
    first, second = Task(die_at=900), Task()
    with pytest.raises(Killed):
        reduced(first, 1024, tmp_path)
    told = []
    reduced(second, 1024, tmp_path, progress=lambda done, total: told.append((done, total)))
    group = 1024 // 64
    assert len(set(first.done) & set(second.done)) < group
    assert told[0] == (1024 - len(second.done), 1024) and told[-1] == (1024, 1024)


def test_passes_come_in_order_and_do_not_mix(tmp_path):
    """Two passes of one name; and one that must not be kept, between them."""
    for _ in range(2):
        tasks = [Task(), Task(), Task()]
        context = Tasks(scheduler=Threads(1), checkpoint=Checkpoint(str(tmp_path), 10**9))
        for task, n, kept in zip(tasks, (4, 5, 4), (True, False, True), strict=True):
            context.run(task, spans(n), add, "sum", kept)
        counts = [len(task.done) for task in tasks]
    assert counts == [0, 5, 0]


def test_large_results_are_kept_only_of_as_much_data():
    """A sixteenth: 200 MB of rows are worth 12.5 MB; of 64 groups, each has a share."""
    checkpoint = PassCheckpoint("x", 256, 200_000_000, frozenset())
    assert checkpoint.largest(8) == 12_500_000
    assert checkpoint.largest(4) == 12_500_000 // 16
    assert checkpoint.largest(0) == 64 << 10
    kept = [depth for depth in range(9) if checkpoint.keeps(depth)]
    assert kept == [2, 4, 6, 8] and 256 / 2 ** kept[0] == 64


def test_what_is_too_large_is_not_kept(tmp_path):
    def task(span):
        return np.zeros(10_000)

    Tasks(scheduler=Threads(1), checkpoint=Checkpoint(str(tmp_path), 0)).run(task, spans(4), add, "sum")
    assert not list(tmp_path.rglob("*.npz"))


def test_arrays_with_strides_go_on_as_they_will_be_read(tmp_path):
    """Products of differently strided arrays may differ in bits: what goes on is what is on the disk."""
    context = Tasks(scheduler=Threads(1), checkpoint=Checkpoint(str(tmp_path), 10**9))
    found = context.run(lambda span: np.eye(6)[::2], spans(1), add, "sum")
    assert found.flags.c_contiguous


def test_a_damaged_group_is_named(tmp_path):
    reduced(Task(), 8, tmp_path)
    (root,) = tmp_path.rglob("3-0.npz")
    root.write_bytes(root.read_bytes()[:100])
    with pytest.raises(Exception, match=r"Cannot read .*3-0.npz: it is damaged"):
        reduced(Task(), 8, tmp_path)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_read_into_memory_are_not_kept(sparse, tmp_path):
    X = scipy.sparse.random_array((6, 40), density=0.3, format="csr", random_state=0)
    rows = Rows.of(rows_in_memory(X if sparse else X.toarray(), np.arange(6) % 2, "X"), Threads(1))
    folder = tmp_path / "checkpoint"
    found = row_space_statistics(replace(rows, checkpoint=Checkpoint(str(folder), 10**9)))
    expected = row_space_statistics(rows)
    np.testing.assert_array_equal(found.moments.scatters, expected.moments.scatters)
    assert not folder.exists()
