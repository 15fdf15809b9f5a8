"""The plan against what a run then does: passes, bytes, memory; and what it says."""

from pathlib import Path

import numpy as np
import pytest
from dask.utils import format_bytes
from helpers.tables import make_config

import mmpca_dist.planning.run_plan as planning_module
from mmpca_dist import open_dataset, run
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import PlanError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.neighbors.options import row_bytes
from mmpca_dist.passes.scratch import ZarrScratch
from mmpca_dist.planning.plan import Resources
from mmpca_dist.planning.run_plan import SLACK, RunRequest, make_plan
from mmpca_dist.runs.fit import preview
from mmpca_dist.stores import storage
from mmpca_dist.tables.spans import make_spans

MEDIANS = {"methods": ["pca", "m-pca1b"], "precision": "single", "n_components": [2, 8]}


@pytest.fixture
def units(limits):
    """Little data is cut into units, too, as a pilot reads two of many."""
    limits.unit_bytes = limits.smallest_unit_bytes = 64 << 10


def planned_and_done(config, projected=True):
    """Return the plan, and the passes that were made; what was measured of them is what was planned."""
    results = run(config)
    stages = [results[name] for name in ("reduce", "search", "project") if name in results]
    assert max(stage["memory"] for stage in stages) <= 1.05 * results["plan"]["memory"]
    passes = [*(name for stage in stages for name in stage["passes"]), *["project"] * projected]
    searched = {"sample", "cells"} if results["plan"]["search"] else set()
    planned = [p for p in results["plan"]["passes"] if p["name"] not in searched]
    assert [p["name"] for p in planned] == [name for name in passes if name not in searched]
    assert all(p["seconds"] > 0 for p in planned)
    return results["plan"], passes


GAUSSIAN = "synthetic:gaussian?n=300000&d=128"
MEDIAN_CASES = {
    "brackets": (GAUSSIAN, None, ["sample", "moments"], "too much to keep; a bracket misses once in two million"),
    "small": ("bundled:digits", None, ["moments"], "all values are kept"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if name == "small" else pytest.mark.e2e) for name in MEDIAN_CASES]
)
def test_passes_for_medians(case, request, tmp_path, limits):
    uri, kept, expected, reason = MEDIAN_CASES[case]
    if uri != GAUSSIAN:
        request.getfixturevalue("units")
    if kept is not None:
        limits.kept_bytes, limits.kept_floor = kept, 0
    plan, passes = planned_and_done(make_config(tmp_path / "out", uri, **MEDIANS))
    assert passes == [*expected, "project"], reason
    assert plan["more"] == "medians again where brackets overflow or miss"


def test_a_sample_of_all_rows_tells_the_medians(tmp_path, limits):
    limits.kept_bytes, limits.kept_floor = 1 << 10, 0
    results = run(make_config(tmp_path / "out", "bundled:digits", **MEDIANS, project={"methods": []}))
    assert results["reduce"]["passes"] == ["sample", "moments"]


def test_fewer_threads_and_other_limits_are_told_apart(tmp_path):
    uri = "synthetic:gaussian?n=3000&d=8"
    shared = dict(preview(make_config(tmp_path / "out", uri, n_components=2)).rows())
    assert "of 4.00 GiB (2 workers x 2.00 GiB)" in shared["peak memory"]
    apart = preview(make_config(tmp_path / "out", uri, n_components=2, compute={"cluster": "tcp://host:1"}))
    assert dict(apart.rows())["peak memory"].endswith("of 2.00 GiB a worker")
    assert 0 < apart.base < apart.memory


def test_the_plan_does_not_depend_on_what_the_process_holds(tmp_path, units):
    """A notebook with a table of its own gets the plan of a fresh process, and its table is not measured."""
    config = make_config(tmp_path / "out", "synthetic:gaussian?n=30000&d=8", methods=["pca"], n_components=2)
    lean = preview(config)
    table = np.ones(100 << 20)
    assert preview(config).memory == pytest.approx(lean.memory, rel=0.01)
    planned_and_done(config)
    assert table.nbytes > lean.memory


@pytest.mark.parametrize("limit", ["300MiB", "64GiB"])
def test_the_solver_does_not_depend_on_memory_limits(limit, tmp_path):
    """Nor on what this process holds already: another solver would give other bits."""
    config = make_config(
        tmp_path / "out", "synthetic:gaussian?n=3000&d=96", methods=["pca"], n_components=2,
        compute={"memory_limit": limit, "workers": 1},
    )  # fmt: skip
    plan = preview(config)
    assert plan.choice.kind == "dense"
    if plan.memory > plan.memory_limit:
        with pytest.raises(PlanError, match=r"or set solver\.kind: krylov"):
            plan.refuse_if_too_large()


def request_of(uri, output, limit, **facts):
    dataset = open_dataset(uri)
    counts = np.array([dataset.n_rows // 2, dataset.n_rows - dataset.n_rows // 2])
    resources = Resources("single", str(output), 1, 1, facts.pop("in_process", True), limit)
    return RunRequest(dataset, make_spans(dataset), counts, Needs(n_components=4), resources, **facts)


@pytest.mark.parametrize(
    ("limit", "message"),
    [(100 << 20, r"needs .* and 100.00 MiB are allowed"), (8 << 30, r"writes 91.62 MiB, and 10.00 MiB are free")],
)
def test_a_projection_is_refused_with_both_numbers(limit, message, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "free_bytes", lambda _: 10 << 20)
    plan = make_plan(request_of("synthetic:gaussian?n=1000000&d=64", tmp_path, limit, widths=[4, 4], formats=2))
    moments = 2 * (64 + 1) * 64 * 8
    assert plan.output == 1_000_000 * 2 * 2 * (4 * 4 + 8) + moments  # components and the number of a row
    with pytest.raises(PlanError, match=message):
        plan.refuse_if_too_large()


SEARCH = {"methods": ["pca", "m-pca2"], "precision": "single", "n_components": 2}


def searching(**options):
    return {**SEARCH, "methods": ["pca", {"name": "m-pca2", **options}]}


SEARCHED = "synthetic:gaussian?n=150000&d=64"


@pytest.mark.parametrize("in_memory", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.e2e
def test_a_search_stays_within_its_plan(in_memory, tmp_path, limits, monkeypatch):
    """Memory, passes, pairs, and scratch, which is laid out in memory or on the disk."""
    limits.unit_bytes = 4 << 20
    if not in_memory:
        monkeypatch.setattr(planning_module, "fits_memory", lambda *_: False)
    written = {}
    write = ZarrScratch.put

    def put(scratch, name, arrays, **options):
        write(scratch, name, arrays, **options)
        files = (Path(scratch.uri) / name).rglob("*")  # of this thread alone: others have files come and go
        written[name] = sum(file.stat().st_size for file in files if file.is_file())

    monkeypatch.setattr(ZarrScratch, "put", put)
    config = make_config(tmp_path / "out", SEARCHED, **searching(max_queries=5000))
    plan, passes = planned_and_done(config)
    assert passes == ["moments", "sample", "cells", "project"]
    found = RunDirectory(str(tmp_path / "out")).record("search")
    assert found["in_memory"] is in_memory is plan["search"]["in_memory"]
    assert found["certificate"]["work"]["compared"] <= plan["search"]["pairs"]
    assert 2 * found["certificate"]["scratch_bytes"] <= plan["search"]["scratch"]
    assert bool(written) is not in_memory
    assert sum(written.values()) <= 1.01 * plan["search"]["scratch"]  # checksums and metadata
    assert not (tmp_path / "out" / "scratch").exists() or not any((tmp_path / "out" / "scratch").iterdir())


@pytest.mark.e2e
def test_a_search_of_wide_rows_stays_within_its_plan(tmp_path, limits, monkeypatch):
    """With a solver in passes and rows laid out on the disk: memory, and the passes that are told."""
    limits.unit_bytes = 4 << 20
    monkeypatch.setattr(planning_module, "fits_memory", lambda *_: False)
    solver = {"kind": "krylov", "passes": 3, "oversampling": 30, "tolerance": 0}
    config = make_config(
        tmp_path / "out", "synthetic:gaussian?n=800&d=8000", **searching(max_queries=200), solver=solver,
        project={"methods": []},
    )  # fmt: skip
    plan, _ = planned_and_done(config, projected=False)
    assert not plan["search"]["in_memory"]
    models = RunDirectory(str(tmp_path / "out")).record("solve")["models"]
    told = [models["pca"]["certificate"], models["m-pca2"]["certificate"]["solver"]]
    assert [(known["passes"], len(known["history"])) for known in told] == [(3, 2), (4, 3)]
    assert (tmp_path / "out" / "report" / "convergence.svg").exists()


def test_the_plan_of_a_search_of_wide_rows_grows_with_their_width_alone(tmp_path):
    """Not with its square, nor with thousands of rows at a time."""

    def planned(d, **changes):
        wanted = {**SEARCH, "n_components": 4, **changes}
        return preview(make_config(tmp_path / "out", f"synthetic:gaussian?n=12000&d={d}", **wanted))

    wide = planned(30_000)
    wide.refuse_if_too_large()  # two workers of 2 GiB
    assert wide.choice.kind == "krylov"
    held, twice = (plan.memory - plan.base for plan in (wide, planned(60_000)))
    assert twice < 2.5 * held
    more = planned(30_000, solver={"kind": "krylov", "passes": 100, "oversampling": 100})
    assert more.memory - wide.memory > 96 * 104 * 30_000 * 8, "bases are in double precision"


def test_the_search_goes_to_disk_where_memory_is_small(tmp_path):
    """Rows are there twice while they are sorted, and may take half of what is allowed."""
    uri = "synthetic:gaussian?n=1000000&d=64"
    half = 2 * 1_000_000 * row_bytes(open_dataset(uri))
    for limit, expected in ((2 * half, True), (2 * half - 2, False)):
        assert request_of(uri, tmp_path, limit).search_in_memory is expected
    assert not request_of(uri, tmp_path, 2 * half, in_process=False).search_in_memory


def test_scratch_that_does_not_fit_the_disk_is_refused_with_both_numbers(tmp_path, monkeypatch):
    config = make_config(
        tmp_path / "out", SEARCHED, **SEARCH, project={"methods": []},
        compute={"cluster": "tcp://host:1", "memory_limit": "8GiB"},
    )  # fmt: skip
    plan = preview(config)
    scratch = plan.search.scratch
    assert plan.written == plan.output + scratch
    assert f"up to {format_bytes(scratch)} at the output, gone afterwards" in dict(plan.rows())["scratch"]
    monkeypatch.setattr(storage, "free_bytes", lambda _: 10 << 20)
    refused = f"writes .*{format_bytes(scratch)} of it scratch of the search for m-pca2, and 10.00 MiB are free"
    with pytest.raises(PlanError, match=refused):
        preview(config).refuse_if_too_large()


def test_what_a_search_is_expected_to_cost_follows_from_its_settings(tmp_path):
    def planned(**options):
        plan = preview(make_config(tmp_path / "out", SEARCHED, **searching(**options)))
        return plan.search, dict(plan.rows())["pairs to compare"]

    exact, text = planned()
    dataset = open_dataset(SEARCHED)
    counts = np.unique(dataset.read_labels(0, dataset.n_rows), return_counts=True)[1]
    assert exact.pairs == pytest.approx(2.0 * counts[0] * counts[1])
    assert exact.proved and text.startswith("up to ")
    some, _ = planned(max_queries=15_000)
    assert some.pairs == pytest.approx(exact.pairs / 10)
    guess, text = planned(search="approximate")
    assert not guess.proved and text.startswith("perhaps ")
    assert guess.pairs < exact.pairs
    few, text = planned(search="approximate", max_queries=1000)  # as many as would be searched exactly to calibrate
    assert few.proved and few.pairs == pytest.approx(exact.pairs / 150) and text.startswith("up to ")
    assert preview(make_config(tmp_path / "out", SEARCHED, methods=["pca"], n_components=2)).search is None


def test_a_plan_states_no_time_of_a_search(tmp_path, units, limits):
    """It was wrong by 2 to 8 times: the search tells its own once its first units are done. Little data has none."""
    plan = preview(make_config(tmp_path / "out", methods=["pca", "m-pca2"], n_components=[2]))
    told = dict(plan.rows())["expected time"]
    assert told.endswith(" by the speed of two units; that of the search is told by the speed of its first units")
    without = preview(make_config(tmp_path / "out", methods=["pca"], n_components=[2]))
    assert dict(without.rows())["expected time"].endswith(" for the passes, by the speed of two units")
    limits.unit_bytes = limits.smallest_unit_bytes = 8 << 20
    little = preview(make_config(tmp_path / "out", methods=["pca"]))
    assert dict(little.rows())["expected time"] == "not measured: the rows are two reading units or fewer"


def test_states_of_sweeps_count_as_memory_or_as_scratch(tmp_path, monkeypatch):
    config = make_config(tmp_path / "out", "bundled:iris", methods=["bm2pca"], n_components=2)
    within = preview(config)
    monkeypatch.setattr(RunRequest, "sweep_in_memory", lambda *_: False)
    beside = preview(config)
    assert within.kept == 0 < beside.kept
    assert within.memory - beside.memory == pytest.approx(SLACK * beside.kept, abs=2)
