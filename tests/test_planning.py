"""The plan against what a run then does: passes, bytes, memory; and what it says."""

import numpy as np
import pytest
from test_runs import make_config

import mmpca_dist.planning as planning_module
import mmpca_dist.statistics.medians as medians_module
import mmpca_dist.statistics.summary as summary_module
from mmpca_dist import open_dataset, run
from mmpca_dist.datasets import make_spans
from mmpca_dist.errors import PlanError
from mmpca_dist.planning import Resources, plan_projection
from mmpca_dist.runs.stages import preview
from mmpca_dist.statistics.medians import foreseen_rounds

MEDIANS = {"methods": ["pca", "m-pca1b"], "precision": "single", "n_components": [2, 8]}


def planned_and_done(config):
    """Return the plan and what was measured: passes, bytes read."""
    results = run(config)
    reduce, project = results["reduce"], results["project"]
    assert max(reduce["memory"], project["memory"]) <= results["plan"]["memory"]
    return results["plan"], [*reduce["passes"], "project"], reduce["bytes"] + project["bytes"]


def test_medians_that_need_brackets(tmp_path):
    """146 MiB of rows: too much to keep, and few enough between the brackets."""
    plan, passes, n_bytes = planned_and_done(
        make_config(tmp_path / "out", "synthetic:gaussian?n=300000&d=128", **MEDIANS)
    )
    assert passes == [p["name"] for p in plan["passes"]] == ["sample", "moments", "project"]
    assert n_bytes == sum(p["bytes"] for p in plan["passes"]) < 3 * 300000 * 128 * 4
    assert plan["more_passes"] == 1, "a bracket misses once in two million"


def test_medians_that_need_another_pass(tmp_path, monkeypatch):
    """A budget of 2 MiB, where 4.5 are expected between the brackets."""
    for module in (planning_module, medians_module, summary_module):
        monkeypatch.setattr(module, "KEPT_BYTES", 2 << 20)
    monkeypatch.setattr(medians_module, "KEPT_FLOOR", 0)
    plan, passes, n_bytes = planned_and_done(
        make_config(tmp_path / "out", "synthetic:gaussian?n=300000&d=128", **MEDIANS)
    )
    assert passes == [p["name"] for p in plan["passes"]] == ["sample", "moments", "medians", "project"]
    assert n_bytes == sum(p["bytes"] for p in plan["passes"])


def test_medians_of_small_data_need_no_sample(tmp_path):
    plan, passes, _ = planned_and_done(make_config(tmp_path / "out", "bundled:digits", **MEDIANS))
    assert passes == [p["name"] for p in plan["passes"]] == ["moments", "project"]
    assert plan["more_passes"] == 0


@pytest.mark.parametrize(
    ("n_rows", "rounds"),
    [(1_000_000, 1), (4_000_000, 2), (100_000_000, 3), (10**12, 6)],
)
def test_rounds_foreseen_for_256_columns(n_rows, rounds):
    """Of two classes in single precision: 2% of the values, 6 bytes each, lie between the first brackets, and 5.6%
    of those between the next: (5 sqrt(s) + 2) / s of samples of s = 65,536 and then 8,192 values."""
    assert foreseen_rounds(n_rows * 256, 6, 2 * 256, 65_536) == rounds


def test_fewer_threads_and_other_limits_are_told_apart(tmp_path):
    uri = "synthetic:gaussian?n=3000&d=8"
    shared = dict(preview(make_config(tmp_path / "out", uri, n_components=2)).rows())
    assert "of 4.00 GiB (2 workers x 2.00 GiB)" in shared["peak memory a worker"]
    apart = preview(make_config(tmp_path / "out", uri, n_components=2, compute={"cluster": "tcp://host:1"}))
    assert dict(apart.rows())["peak memory a worker"].endswith("of 2.00 GiB")
    assert 0 < apart.base < apart.memory


@pytest.mark.parametrize("allowed", ["memory", "disk"])
def test_a_projection_is_refused_with_both_numbers(allowed, tmp_path, monkeypatch):
    dataset = open_dataset("synthetic:gaussian?n=1000000&d=64")
    limit = (1 << 30) if allowed == "disk" else (100 << 20)
    resources = Resources("single", str(tmp_path), 1, 1, True, limit * 8 if allowed == "disk" else limit)
    monkeypatch.setattr(planning_module, "_free_bytes", lambda _: 10 << 20)
    plan = plan_projection(dataset, make_spans(dataset), resources, widths=[4, 4], formats=2)
    assert plan.output == 1_000_000 * 8 * 4 * 2
    message = (
        r"writes 61.04 MiB, and 10.00 MiB are free" if allowed == "disk" else r"needs .* and 100.00 MiB are allowed"
    )
    with pytest.raises(PlanError, match=message):
        plan.refuse_if_too_large()
    assert np.isfinite(plan.seconds)
