"""The benchmarks at tiny sizes: every case runs, peers agree with this project, and what is written is complete."""

import importlib.util
import json
import sys
from functools import cache, partial

import pytest
from helpers import ROOT, timed_entries

if not (ROOT / "benchmarks" / "harness.py").exists():
    pytest.skip("this is no checkout", allow_module_level=True)
sys.path.append(str(ROOT))

from benchmarks.cases.everything import CASES
from benchmarks.harness import Case, environment, measure
from benchmarks.harness_report import page, slope, write

BOUNDS = {"angle": 0.01, "residual": 1e-3}
"""The most degrees between subspaces in single precision, and the most that an eigenvector may be off."""
NEAR_OURS = {"objective": 1e-4, "error": 0.2}
"""Relative to ours: both solvers stop at 1e-5; errors are of other folds of the same 800 rows."""


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The record of each case by name, which is made when it is first asked for."""
    folder = tmp_path_factory.mktemp("benchmarks")
    return cache(lambda name: measure(CASES[name], "tiny", folder, rounds=1, isolated=False))


@pytest.mark.parametrize("name", CASES)
def test_every_entry_runs_or_says_what_is_absent(name, records):
    record = records(name)
    assert [row["name"] for row in record["rows"]] == list(CASES[name].entries)
    for row in record["rows"]:
        needs = CASES[name].entries[row["name"]].needs
        if all(importlib.util.find_spec(module) for module in needs):
            assert row.get("seconds", 0) > 0, row.get("status")
        else:
            assert row["status"].startswith("not installed: ")


@pytest.mark.parametrize("name", CASES)
def test_exact_entries_agree(name, records):
    """Those that are approximate by design are not compared."""
    ours = next(entry.name for entry in CASES[name].entries.values() if entry.role == "ours")
    accuracy = {row["name"]: row.get("accuracy", {}) for row in records(name)["rows"] if "seconds" in row}
    for entry in (entry for entry in accuracy if not CASES[name].entries[entry].approximate):
        for kind, value in accuracy[entry].items():
            if kind == "recall":
                assert value == 1, entry
            elif kind in BOUNDS:
                assert value <= BOUNDS[kind], (entry, kind)
            else:
                assert value == pytest.approx(accuracy[ours][kind], rel=NEAR_OURS[kind]), (entry, kind)


def test_a_process_of_its_own_for_each_entry(tmp_path):
    """Peaks are those of one entry; a process that dies, an error and an absent package are rows."""
    case = Case("processes", timed_entries.make, {"tiny": {}})
    case.add("nothing", partial(timed_entries.fill, n_bytes=1), "ours")
    case.add("64 MiB", partial(timed_entries.fill, n_bytes=64 << 20))
    case.add("fails", timed_entries.fail)
    case.add("dies", timed_entries.die)
    case.add("absent", timed_entries.fail, needs=("no_such_module",))
    record = measure(case, "tiny", tmp_path, rounds=2)
    rows = {row["name"]: row for row in record["rows"]}
    assert rows["64 MiB"]["peak"] > 60 << 20 > rows["nothing"]["peak"]
    assert len(rows["64 MiB"]["runs"]) == 2
    assert rows["dies"]["status"] == "its process died"
    assert rows["fails"]["status"] == "ValueError: wrong"
    assert rows["absent"]["status"] == "not installed: no_such_module"


@pytest.fixture(scope="module")
def results(records):
    return {**environment(), "rounds": 1, "cases": [records(name) for name in CASES]}


def test_the_table_has_a_line_for_each_entry(results):
    lines = [line for line in page(results).splitlines() if line.startswith("|")][2:]
    assert len(lines) == sum(len(case.entries) + len(case.published) for case in CASES.values())
    for name in CASES:
        assert sum(f"| {name} (" in line for line in lines) == 1


def test_the_json_is_complete_and_a_part_replaces_its_cases_alone(results, tmp_path):
    write(results, tmp_path)
    part = {**results, "cases": [{**results["cases"][0], "floor": 1.0}]}
    write(part, tmp_path)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert [case["case"] for case in stored["cases"]] == list(CASES)
    assert [case["floor"] == 1.0 for case in stored["cases"]][:2] == [True, False]
    assert {"date", "load", "machine", "versions", "rounds"} <= stored.keys()
    for case in stored["cases"]:
        assert {"case", "size", "shape", "load", "floor", "published"} <= case.keys()
        timed = [row for row in case["rows"] if "seconds" in row]
        assert all({"name", "role", "ratio", "peak", "runs"} <= row.keys() for row in timed)
        ours = next(row for row in timed if row["role"] == "ours")
        assert ours["ratio"] == 1
        assert (case["floor"] is None) == ("times the floor" not in ours)
    assert (tmp_path / "ratios.png").stat().st_size > 0


def test_a_slope_is_the_exponent():
    assert slope([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2)
