"""One pass gives the same bits on any number of threads or workers, in any order, with and without lost workers.

What blocks, units and spans of rows leave adds up field by field; blocks hold every row once.
"""

import os
import threading
import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers.samples import even_edges, shuffled, watched
from threadpoolctl import threadpool_limits

from mmpca_dist.blas import _controller, single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.passes.census import take_census
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Cluster, Threads, run_span
from mmpca_dist.passes.tree_reduction import ArraySums, Tasks, added
from mmpca_dist.passes.units import blocks
from mmpca_dist.statistics.from_rows import take_moments
from mmpca_dist.statistics.medians import median_sets
from mmpca_dist.tables.compose import open_dataset
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import Span, make_spans, spans_of, unit_edges

URI = "synthetic:clusters?n=20000&d=12&k=6&classes=3&seed=7"
EDGES = even_edges(20000, 617)


def bits(scheduler, dataset=None, precision="single"):
    """Return the bytes of the moments and medians of a pass."""
    dataset = dataset or open_dataset(URI)
    spans = spans_of(EDGES)
    census = take_census(dataset, spans, Tasks(scheduler=scheduler))
    moments, medians = take_moments(
        Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler),
        precision=precision,
        medians_of=median_sets(3, "one-vs-rest"),
    )
    assert moments.n_rows == 20000
    return b"".join(a.tobytes() for a in (moments.counts, moments.means, moments.scatters, medians))


def fatal_once(flag, middle, start, stop):
    """Kill the process which first reads past the middle of some rows."""
    if start >= middle and not flag.exists():
        flag.touch()
        os._exit(1)


@pytest.fixture(scope="module")
def reference():
    return {precision: bits(Threads(1), precision=precision) for precision in ("single", "double")}


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("threads", [2, 4])
def test_the_same_bits_for_any_number_of_threads(threads, precision, reference):
    assert bits(Threads(threads), precision=precision) == reference[precision]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_bits_in_any_order_of_arrival(seed, reference):
    assert bits(Threads(4), shuffled(open_dataset(URI), seed)) == reference["single"]


@pytest.mark.parametrize("cluster", [pytest.param(1, marks=pytest.mark.slow), 2], indirect=True)
def test_the_same_bits_for_any_number_of_worker_processes(cluster, reference):
    assert bits(Cluster(cluster)) == reference["single"]


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_the_same_bits_after_a_worker_was_lost(cluster, reference, tmp_path):
    flag = tmp_path / "killed"
    dataset = watched(open_dataset(URI), partial(fatal_once, flag, EDGES[-1] // 2))
    assert bits(Cluster(cluster), dataset) == reference["single"]
    assert flag.exists(), "no worker was killed: the test would prove nothing"


@dataclass(frozen=True)
class Refuses:
    """A task that finds something wrong in one span."""

    bad: int

    def __call__(self, span):
        if span.index == self.bad:
            raise InputError(f"Found nonsense in span {span.index}.")
        time.sleep(0.001)
        return 1


def add(left, right):
    return left + right


def check_findings(scheduler, bad, caplog, capfd):
    """The user's mistake comes back as one sentence; nothing logs a traceback, and the next pass is made."""
    spans, tasks = [Span(i, (i, i + 1)) for i in range(40)], Tasks(scheduler=scheduler)
    with pytest.raises(InputError, match=rf"^Found nonsense in span {bad}\.$"):
        tasks.run(Refuses(bad), spans, add, "refuse")
    assert tasks.run(Refuses(-1), spans, add, "accept") == 40
    assert "Traceback" not in caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize("bad", [0, 17, 39])
def test_a_finding_ends_the_pass_without_a_crash(bad, caplog, capfd):
    check_findings(Threads(2), bad, caplog, capfd)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_a_finding_on_a_worker_ends_the_pass_without_a_crash(cluster, caplog, capfd):
    check_findings(Cluster(cluster), 3, caplog, capfd)


def concatenate(left, right):
    return f"({left}{right})"


@dataclass(frozen=True)
class Name:
    def __call__(self, span):
        return str(span.index)


@pytest.mark.parametrize(
    ("n_spans", "tree"), [(1, "0"), (2, "(01)"), (3, "((01)2)"), (5, "(((01)(23))4)"), (7, "(((01)(23))((45)6))")]
)
def test_the_tree_is_pairwise_and_fixed(n_spans, tree):
    spans = [Span(i, (i, i + 1)) for i in range(n_spans)]
    for threads in (1, 3):
        found = Tasks(scheduler=Threads(threads)).run(Name(), spans, concatenate, "tree")
        assert found == tree


def test_progress_counts_every_span_once():
    seen, spans = [], [Span(i, (i, i + 1)) for i in range(9)]
    Tasks(scheduler=Threads(2), progress=lambda *p: seen.append(p)).run(Name(), spans, concatenate, "n")
    assert seen == [(i, 9) for i in range(10)]


def test_a_long_task_is_told_again_and_again(limits):
    limits.progress_line_seconds = 0.01
    seen, told = [], threading.Event()

    def wait(span):
        assert told.wait(60)
        return "x"

    def progress(*step):
        seen.append(step)
        if len(seen) == 4:
            told.set()

    Tasks(scheduler=Threads(1), progress=progress).run(wait, [Span(0, (0, 1))], concatenate, "n")
    assert seen[:4] == [(0, 1)] * 4 and seen[-1] == (1, 1)


@pytest.mark.parametrize(("n_rows", "chunk_rows", "row_bytes"), [
    (1, 1, 8),
    (1000, 7, 8),  # small chunks are read together
    (1000, 1000, 1 << 20),  # a chunk larger than a unit stays whole
    (5000, 10, 1 << 20),  # 64 rows a unit: 6 chunks of 10
    (100_000, 64, 1 << 20),  # many units: 16 a span
])  # fmt: skip
def test_spans_cover_every_row_once_and_keep_to_chunks(n_rows, chunk_rows, row_bytes):
    edges = even_edges(n_rows, chunk_rows)
    spans = spans_of(unit_edges(edges, row_bytes))
    units = [unit for span in spans for unit in span.units]
    assert units[0][0] == 0
    assert units[-1][1] == n_rows
    assert all(a[1] == b[0] for a, b in pairwise(units))
    assert {row for unit in units for row in unit} <= set(edges.tolist())
    assert all((stop - start) * row_bytes <= 64 << 20 or stop - start <= chunk_rows for start, stop in units)
    assert [span.index for span in spans] == list(range(len(spans)))
    assert len(spans) >= min(32, len(units))
    assert max(len(span.units) for span in spans) <= 16


@pytest.mark.parametrize(("n_rows", "chunk_rows", "row_bytes", "units"), [
    (8 * 1024, 256, 8 << 10, 8),  # 64 MiB: eight of 8 MiB, which a few workers share evenly
    (5 * 1024, 256, 8 << 10, 5),
    (1023, 128, 8 << 10, 1),  # less than 8 MiB
    (9 * 8192, 1024, 8 << 10, 9),  # 576 MiB: nine of 64 MiB
    (9 * 8192 + 1024, 1024, 8 << 10, 10),  # none of them a rest of 8 MiB
])  # fmt: skip
def test_units_are_about_equal_and_at_least_eight(n_rows, chunk_rows, row_bytes, units):
    sizes = np.diff(unit_edges(even_edges(n_rows, chunk_rows), row_bytes))
    assert len(sizes) == units
    assert sizes.max() - sizes.min() < 2 * chunk_rows


def test_spans_depend_on_the_data_alone(monkeypatch):
    """Not on the processors or memory of the machine, or two machines would give different bits."""
    dataset = open_dataset("synthetic:gaussian?n=3000000&d=64")
    before = make_spans(dataset)
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    assert make_spans(dataset) == before
    assert len(before) > 1


def test_tasks_run_on_one_blas_thread_each():
    """Also when another task, which began earlier, ends first."""

    def blas_threads(_):
        return {info["num_threads"] for info in _controller().info() if info["user_api"] == "blas"}

    assert run_span(blas_threads, Span(0, (0, 1))) == {1}
    outer, inner = single_blas_thread(), single_blas_thread()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert blas_threads(None) == {1}
    inner.__exit__(None, None, None)


def test_the_limit_on_blas_is_taken_back_whichever_thread_leaves_last():
    def blas_threads():
        return {info["num_threads"] for info in _controller().info() if info["user_api"] == "blas"}

    def hold(entered, leave):
        with single_blas_thread():
            entered.set()
            leave.wait()
            seen.append(blas_threads())

    seen, before = [], threadpool_limits(2, user_api="blas")
    with before:
        events = [(threading.Event(), threading.Event()) for _ in range(2)]
        threads = [threading.Thread(target=hold, args=pair) for pair in events]
        for thread, (entered, _) in zip(threads, events, strict=True):
            thread.start()
            entered.wait()
        for thread, (_, leave) in zip(threads, events, strict=True):
            leave.set()
            thread.join()
        assert seen == [{1}, {1}]
        assert blas_threads() == {2}


def test_what_a_reader_raises_becomes_one_sentence():
    def fail(start, stop):
        raise OSError("the disk is gone")

    dataset = watched(rows_in_memory(np.zeros((10, 2)), np.arange(10) % 2, "disk.zarr"), fail)
    census = take_census(dataset, spans_of(np.asarray([0, 10])), Tasks(scheduler=Threads(1)))
    with pytest.raises(InputError, match=r"Cannot read rows 0 to 9 of disk.zarr: the disk is gone\. .*restore it"):
        take_moments(
            Rows(dataset=dataset, census=census, spans=spans_of(np.asarray([0, 10])), scheduler=Threads(1)),
            precision="single",
        )


@dataclass(frozen=True)
class Parts(ArraySums):
    array: Any
    number: int
    several: tuple[Any, ...]
    samples: list[Any]
    absent: Any = None


def test_sums_are_those_of_every_field():
    inner = Parts(np.ones(2), 1, (), [])
    left, right = (Parts(np.full(2, k), k, (np.eye(2) * k, None, inner), [k], k - 1 or None) for k in (1, 2))
    total = left + right
    np.testing.assert_array_equal(total.array, [3, 3])
    np.testing.assert_array_equal(total.several[0], np.eye(2) * 3)
    assert (total.number, total.several[1], total.several[2].number) == (3, None, 2)
    assert (total.samples, total.absent) == ([1, 2], None)
    assert added((1, None), (2, 3)) == (3, None)


@pytest.mark.parametrize(("n_rows", "size"), [(0, 3), (1, 3), (6, 3), (7, 3)])
def test_blocks_hold_every_row_once_in_order(n_rows, size):
    rows = [row for block in blocks(n_rows, size) for row in range(block.start, block.stop)]
    assert rows == list(range(n_rows)) and all(block.stop - block.start <= size for block in blocks(n_rows, size))
