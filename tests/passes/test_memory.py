"""Peak memory does not grow with the number of rows."""

import json
import subprocess
import sys

import pytest

MEASURE = """
import json, sys
from mmpca_dist import open_dataset
from mmpca_dist.tables.spans import make_spans
from mmpca_dist.jobs.job import watched_memory
from mmpca_dist.passes.census import take_census
from mmpca_dist.statistics.from_rows import gather_statistics
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
import psutil

dataset, scheduler = open_dataset(f"synthetic:gaussian?n={sys.argv[1]}&d=128&seed=3"), Threads(2)
spans = make_spans(dataset)
base = psutil.Process().memory_info().rss
with watched_memory(0.002) as peak:
    census = take_census(dataset, spans, Tasks(scheduler=scheduler))
    pairings = ("one-vs-rest",) if sys.argv[2] == "medians" else ()
    rows = Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler)
    gather_statistics(rows, precision="single", pairings=pairings)
print(json.dumps(peak() - base))
"""


def peak_of(n_rows, what):
    command = [sys.executable, "-c", MEASURE, str(n_rows), what]
    return json.loads(subprocess.check_output(command))


@pytest.mark.e2e
def test_moments_of_four_times_the_rows_take_the_same_memory():
    """128 and 512 MiB of rows: two buffers of 64 MiB and what the products need, within a tenth."""
    small, large = peak_of(262_144, "moments"), peak_of(1_048_576, "moments")
    assert large < 1.1 * small
    assert large < 250 << 20


@pytest.mark.slow
def test_medians_of_four_times_the_rows_stay_within_their_budget():
    """Kept values fill their fixed budget, and no more, from some size on.

    In a single short run one of the threads may be late with its buffer.
    """
    small = max(peak_of(2_097_152, "medians") for _ in range(3))
    large = peak_of(8_388_608, "medians")
    assert large < 1.1 * small
    assert large < 400 << 20
