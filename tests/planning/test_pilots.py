"""Pilots: two units are read as all rows would be, and what that took is what plans follow from."""

import gc

import numpy as np
import pytest
from distributed import KilledWorker
from distributed.client import FutureCancelledError
from helpers.tables import config_of, labelled, make_config, write_npz

from mmpca_dist import open_dataset, run
from mmpca_dist.errors import ClusterError, InputError, PlanError
from mmpca_dist.passes.pilot import Footprint, Pilot, traced
from mmpca_dist.passes.schedulers import Cluster, OnRows
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.planning.run_plan import Measured
from mmpca_dist.runs import pilots
from mmpca_dist.runs.fit import preview
from mmpca_dist.tables.spans import Span

pytestmark = pytest.mark.usefixtures("no_report")
MIB = 1 << 20


def footprint(spans=8, units=8, held=0, task=10, left=1, merged=1, merging=1):
    return Footprint(
        "moments", 0, spans, units, held, *(size * MIB for size in (task, left, merged, merging)), (0, 0), 1.0
    )


@pytest.mark.parametrize(("given", "threads", "seen", "expected", "reason"), [
    ({}, 1, 1.0, 10 + 4 + 1, "a task, a result of each depth of the tree, and a merger"),
    ({"held": 100 * MIB}, 1, 1.0, 100 + 10 + 4 + 1, "what the process held before, too"),
    ({}, 2, 1.0, 20 + 4 + 1, "a task a thread"),
    ({}, 16, 1.0, 80 + 4 + 1, "never more tasks than spans"),
    ({"spans": 1, "units": 1}, 2, 1.0, 10 + 1, "nothing is merged"),
    ({"merged": 2, "merging": 2}, 1, 1.0, 10 + (1 + 2 + 4 + 8) + 8, "results that keep rows double at each depth"),
    ({"merged": 2, "merging": 2}, 1, 0.5, 10 + (1 + 2 + 4 + 4) + 4, "results hold classes, half of which were seen"),
    ({"units": 32, "merged": 2}, 1, 1.0, 9 + 4 + (4 + 8 + 16 + 32) + 16, "spans of four units leave more than one"),
])  # fmt: skip
def test_memory_of_a_pass(given, threads, seen, expected, reason):
    assert footprint(**given).memory(threads, seen) == expected * MIB, reason


def test_the_largest_pass_or_what_lies_between_counts():
    small, large = footprint(), footprint(held=100 * MIB)
    assert Measured([small, large], 0).memory(1) == large.memory(1, 1.0)
    assert Measured([small, large], 999 * MIB).memory(1) == 999 * MIB


def test_what_a_first_task_imports_is_not_left_by_all():
    modules = []

    def task(_, span):
        if not modules:
            modules.append(np.ones(32 * MIB, np.uint8))
        return [np.ones(MIB, np.uint8)]

    pilot, spans = Pilot(), [Span(i, (4 * i, 4 * i + 4)) for i in range(5)]
    with traced():
        pilot.begins("own", 1234)
        Tasks(scheduler=pilot).run(OnRows(None, task), spans, lambda left, right: left, "own")
    (found,) = pilot.footprints
    assert MIB <= found.left < 2 * MIB <= 32 * MIB <= found.task


def test_what_a_first_merge_imports_is_not_merged_by_all():
    modules = []

    def merge(left, right):
        if not modules:
            modules.append(np.ones(32 * MIB, np.uint8))
        return [left[0] + right[0]]

    pilot, spans = Pilot(), [Span(i, (4 * i, 4 * i + 4)) for i in range(100)]
    with traced():
        pilot.begins("own", 1234)
        Tasks(scheduler=pilot).run(OnRows(None, lambda _, span: [np.ones(100)]), spans, merge, "own")
    (found,) = pilot.footprints
    assert found.merging < MIB
    assert found.merged >= found.stored[1] == 800
    assert found.memory(1, 1.0) < 4 * MIB


def test_a_pilot_measures_what_its_tasks_allocate():
    """Tasks take 8 MiB and leave 1; a merger takes 3 in addition and leaves 2."""

    def task(_, span):
        assert not gc.isenabled(), "what others left would count as given back"
        np.ones(8 * MIB, np.uint8)
        return [np.ones(MIB, np.uint8)]

    def merge(left, right):
        np.ones(5 * MIB, np.uint8)
        return [np.ones(2 * MIB, np.uint8)]

    pilot, spans = Pilot(), [Span(i, (4 * i, 4 * i + 3, 4 * i + 4)) for i in range(5)]
    with traced():
        held = np.ones(16 * MIB, np.uint8)
        pilot.begins("own", 1234)
        Tasks(scheduler=pilot).run(OnRows(None, task), spans, merge, "own")
        pilot.end()
    (found,) = pilot.footprints
    assert (found.name, found.n_bytes, found.spans, found.units) == ("own", 1234, 5, 10)
    sizes = np.array([found.held, found.task, found.left, found.merging, found.merged]) / MIB
    np.testing.assert_allclose(sizes, [held.nbytes / MIB, 8, 1, 5, 2], atol=0.25)
    assert found.seconds > 0 and gc.isenabled()
    with traced():
        np.ones(40 * MIB, np.uint8)
        pilot.end()
        np.ones(4 * MIB, np.uint8)
        pilot.end()
    assert pilot.between == pytest.approx(40 * MIB, rel=0.01), "the most between passes, whatever follows"


def test_labels_are_read_whole_and_rows_of_two_units(tmp_path):
    X, y = labelled(1000, 4, 3, seed=1)
    dataset = open_dataset(write_npz(tmp_path / "rows.npz", X, y))
    spans = [Span(i, (100 * i, 100 * i + 100)) for i in range(9)] + [Span(9, (900, 950, 1000))]
    tasks = Tasks(scheduler=Pilot())
    seen = [
        tasks.run(OnRows(dataset, lambda _, span: [span.edges], X=reads), spans, list.__add__, "own")
        for reads in (True, False)
    ]
    assert seen == [[(0, 100), (100, 200)], [span.edges for span in spans]]


METHODS = {
    "moments": {"methods": ["pca", "m-pca0", "fisher"]},
    "medians": {"methods": ["m-pca1b"]},
    "passes": {"methods": ["pca"], "solver": {"kind": "krylov"}},
    "sweeps": {
        "methods": [{"name": "bm2pca", "max_iter": 5}, {"name": "projection-penalty", "max_iter": 5, "alpha": "auto"}]
    },
    "covariates": {"methods": ["pca"], "dataset": {"covariates": ["beside"]}},
    "maps": {"methods": ["pca"], "dataset": {"maps": [{"name": "nystroem", "n_components": 20}]}},
    "gaps": {"methods": ["pca"], "dataset": {"missing": "mean"}},
    "classes": {"methods": ["pca", "m-pca1b", "fisher"], "classes": 90},
}


@pytest.mark.parametrize("case", METHODS)
def test_plans_of_all_kinds_of_runs(case, tmp_path, limits, monkeypatch):
    """A pilot may see a few of the classes, and counts labels of all rows; the run is as without it."""
    limits.unit_bytes = limits.smallest_unit_bytes = 4 << 10
    settings = dict(METHODS[case])
    X, y = labelled(900, 12, settings.pop("classes", 3), seed=3)
    if case == "gaps":
        X[::50, 1] = np.nan
    if case == "classes":
        y = np.sort(y)  # two units hold few
    uri = write_npz(tmp_path / "rows.npz", X, y)
    if case == "covariates":
        with np.load(uri) as stored:
            np.savez(uri, **stored, beside=np.arange(900) % 5.0)
    config = config_of(tmp_path / "out", uri, n_components=[2], **settings)
    plan = preview(config)
    names = [each.name for each in plan.passes]
    assert names and names[-1] == "project"
    assert all(each.seconds > 0 for each in plan.passes)
    assert plan.memory > plan.base
    results = run(config)
    assert max(results[name].get("memory", 0) for name in results) <= 1.05 * plan.memory


def test_little_data_has_no_pilot(tmp_path, monkeypatch):
    monkeypatch.setattr(pilots, "measured", pytest.fail)
    plan = preview(make_config(tmp_path / "out", methods=["pca", "m-pca1b"], n_components=[2]))
    assert plan.passes == [] and dict(plan.rows())["expected time"].startswith("not measured: ")


def test_what_is_far_too_large_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(pilots, "measured", pytest.fail)
    config = make_config(
        tmp_path / "out", "synthetic:gaussian?n=100000&d=3000", methods=["pca"], n_components=[2],
        compute={"memory_limit": "300MiB"},
    )  # fmt: skip
    with pytest.raises(PlanError, match=r"and 600\.00 MiB"):
        preview(config).refuse_if_too_large()


@pytest.mark.parametrize(("lost", "kind", "told"), [
    (KilledWorker("pilot", None, 3), PlanError, "64 MiB a worker"),
    (FutureCancelledError("pilot", "scheduler-connection-lost"), ClusterError, "connection to the Dask scheduler"),
])  # fmt: skip
def test_a_worker_that_dies_of_a_pilot_and_a_scheduler_that_goes_are_told(lost, kind, told):
    class Client:
        def submit(self, function, **_):
            return self

        def result(self):
            raise lost

    class Run:
        request = type("Request", (), {"resources": type("Resources", (), {"memory_limit": 64 * MIB})})
        measure = None

    with pytest.raises(kind, match=told):
        pilots.measured(Cluster(Client()), Run())


def test_two_units_that_lack_what_all_rows_have_are_no_fault(tmp_path, limits):
    """The first units hold one class and constant columns. A run says itself which values are not finite."""
    limits.unit_bytes = limits.smallest_unit_bytes = 4 << 10
    X, y = labelled(900, 12, 2, seed=3)
    y = np.sort(y)
    X[y == 0] = 1.0
    config = config_of(tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), n_components=[2], standardize=True)
    assert preview(config).memory > 0
    run(config)
    X[3, 4] = np.nan
    config = config_of(tmp_path / "bad", write_npz(tmp_path / "bad.npz", X, y), n_components=[2])
    assert preview(config).memory > 0
    with pytest.raises(InputError, match="nan"):
        run(config)
