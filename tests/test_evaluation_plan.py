"""What an evaluation costs, told beforehand, beside what it costs."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from evaluating import clusters, config_of, scored, searched, store
from samples import labelled

from mmpca_dist.datasets import storage
from mmpca_dist.errors import PlanError
from mmpca_dist.runs import evaluating
from mmpca_dist.runs.evaluating import EVALUATION_STAGES, forgetting, preview_evaluation
from mmpca_dist.runs.events import Callback
from mmpca_dist.runs.job import measured, open_job, run_stage
from pipelines.cli import cli

METHODS = ["pca", "m-pca1a", "fisher"]
CASES = {
    "merged": {"methods": METHODS, "evaluation": {"folds": 3}},
    "dealt twice": {"methods": METHODS, "evaluation": {"folds": 2, "count": 2, "classifiers": ["qda", "svm"]}},
    "medians and rows": {"methods": ["m-pca1b"], "evaluation": {"folds": 3, "classifiers": ["fisher", "logistic"]}},
    "rows alone": {"methods": METHODS, "evaluation": {"folds": 2, "classifiers": ["svm"], "margins": False}},
    "shares": {"methods": METHODS, "evaluation": {"splits": "shares", "count": 3}},
    "pairs": {"methods": ["m-pca2"], "evaluation": {"folds": 3}},
    "pairs of some": {"methods": ["m-pca2"], "evaluation": {"folds": 4}, "neighbors": {"max_queries": 80}},
    "pairs, fold by fold": {"methods": ["m-pca2"], "evaluation": {"folds": 2, "count": 2}},
    "pairs of scaled columns": {"methods": ["m-pca2"], "evaluation": {"folds": 3}, "standardize": True},
    "pairs in memory": {"methods": ["m-pca2"], "evaluation": {"splits": "shares", "count": 2}},
}


@pytest.mark.parametrize("case", CASES)
def test_passes_bytes_and_pairs_are_those_that_are_made(case, tmp_path, monkeypatch):
    works = searched(monkeypatch)
    config = config_of(
        tmp_path / "out", store(tmp_path / "rows.npz", *labelled(300, 6, 3, seed=1, separation=0.5)), **CASES[case]
    )
    plan, (_, _, results) = preview_evaluation(config), scored(config)
    assert plan.bytes == results["score"]["bytes"] > 0
    assert [one.name for one in plan.passes] == results["score"]["passes"]
    assert (plan.search is None) is (not works) is not case.startswith("pairs")
    if works:
        bound = plan.search.pairs * (1.05 if case == "pairs of some" else 1)  # drawn, and not evenly from the classes
        assert 0.5 * plan.search.pairs < sum(work.compared for work in works) <= bound
    assert results["plan"]["rows"] == plan.rows()
    assert plan.memory > plan.base


def test_medians_are_of_the_rows_that_train(tmp_path):
    """Half of them in each of two folds: 31 MB of values and keys are kept, and 61 MB would not be."""
    config = config_of(
        tmp_path / "out", "synthetic:gaussian?n=40000&d=128", methods=["m-pca1b"], evaluation={"folds": 2}
    )
    plan, (_, _, results) = preview_evaluation(config), scored(config)
    assert [one.name for one in plan.passes] == results["score"]["passes"] == ["moments", "score"]
    assert plan.bytes == results["score"]["bytes"]


def test_too_little_memory_is_told_before_any_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluating, "read_all", pytest.fail)
    monkeypatch.setattr(evaluating, "evaluate_parts", pytest.fail)
    config = config_of(
        tmp_path / "out", store(tmp_path / "rows.npz", *labelled(300, 6, 2, seed=2)),
        compute={"memory_limit": "100MiB"},
    )  # fmt: skip
    told = r"The plan needs .* 200.00 MiB \(2 workers x 100.00 MiB\) are allowed. .*Fewer folds"
    with pytest.raises(PlanError, match=told):
        scored(config)
    assert not storage.exists(str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("methods", "splits"),
    [
        (["pca", "m-pca0"], {"folds": 4}),
        (["pca", "m-pca0"], {"splits": "shares", "count": 2}),
        (["pca", "m-pca2"], {"folds": 4}),
    ],
)
def test_memory_is_within_the_plan(methods, splits, tmp_path):
    config = config_of(
        tmp_path / "out", store(tmp_path / "rows.npz", *clusters()), methods=methods, n_components=[2, 20],
        evaluation={**splits, "classifiers": ["fisher", "qda"]},
    )  # fmt: skip
    with open_job(config, Callback(), "evaluation") as job, forgetting(job):
        for stage in EVALUATION_STAGES[:-2]:
            run_stage(job, stage)
        with measured(job.scheduler) as peak:
            run_stage(job, EVALUATION_STAGES[-2])
            assert peak() < job.results["plan"]["memory"] < 2.5 * peak()


def test_the_command_shows_it(tmp_path):
    import yaml

    content = {
        "dataset": {"uri": str(store(tmp_path / "rows.npz", *labelled(300, 6, 2, seed=4)))},
        "methods": ["pca"], "n_components": [2], "evaluation": {"count": 7, "classifiers": ["svm"]},
    }  # fmt: skip
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(content))
    found = CliRunner().invoke(cli, ["plan", str(tmp_path / "my.yaml"), "--evaluation"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert "7 x moments, 7 x score, 7 x gather" in " ".join(found.output.split())
