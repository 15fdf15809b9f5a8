"""What an evaluation costs, told beforehand, beside what it costs."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from helpers.evaluating import KNN, clusters, config_of, scored, searched, store
from helpers.samples import labelled

from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import PlanError
from mmpca_dist.evaluation_runs import score_stage
from mmpca_dist.evaluation_runs.score_stage import forgetting
from mmpca_dist.evaluation_runs.stages import EVALUATION_STAGES, preview_evaluation
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.open_job import open_job
from mmpca_dist.jobs.run_stage import measured, run_stage
from mmpca_dist.planning import run_plan
from mmpca_pipelines.cli import cli

METHODS = ["pca", "m-pca1a", "fisher"]
CASES = {
    "merged": {"methods": METHODS, "evaluation": {"folds": 3}},
    "dealt twice": {"methods": METHODS, "evaluation": {"folds": 2, "count": 2, "classifiers": ["qda", "svm"]}},
    "medians and rows": {"methods": ["m-pca1b"], "evaluation": {"folds": 3, "classifiers": ["fisher", "logistic"]}},
    "rows alone": {"methods": METHODS, "evaluation": {"folds": 2, "classifiers": ["svm"], "margins": False}},
    "shares": {"methods": METHODS, "evaluation": {"splits": "shares", "count": 3}},
    "pairs": {"methods": ["m-pca2"], "evaluation": {"folds": 3}},
    "pairs of some": {"methods": [{"name": "m-pca2", "max_queries": 80}], "evaluation": {"folds": 4}},
    "pairs, fold by fold": {"methods": ["m-pca2"], "evaluation": {"folds": 2, "count": 2}},
    "pairs of scaled columns": {"methods": ["m-pca2"], "evaluation": {"folds": 3}, "standardize": True},
    "pairs in memory": {"methods": ["m-pca2"], "evaluation": {"splits": "shares", "count": 2}},
}


@pytest.mark.parametrize("case", CASES)
def test_passes_bytes_and_pairs_are_those_that_are_made(case, tmp_path, monkeypatch):
    works = searched(monkeypatch)
    monkeypatch.setattr(run_plan, "_free_bytes", lambda _: 10 << 30)  # others write to the disk meanwhile
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
    monkeypatch.setattr(score_stage, "read_all", pytest.fail)
    monkeypatch.setattr(score_stage, "evaluate_parts", pytest.fail)
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
        with measured(job) as peak:
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


def work(tmp_path, **changes):
    """Return the operations beside passes by name, of an evaluation of 300 x 6 rows in shares."""
    uri = store(tmp_path / "rows.npz", *labelled(300, 6, 3, seed=1, separation=0.5))
    evaluation = {"splits": "shares", "count": 3, "classifiers": ["fisher"], **changes.pop("evaluation", {})}
    plan = preview_evaluation(config_of(tmp_path / "out", uri, evaluation=evaluation, **changes))
    assert plan.operations == sum(one.operations for one in [*plan.passes, *plan.work])
    return {one.name: one.operations for one in plan.work}


FIT, JUDGE, MARGINS, CHOICE = "fit methods", "fit and score classifiers", "measure margins", "choose penalties"


def test_operations_grow_with_splits_methods_sizes_and_classifiers(tmp_path):
    base = work(tmp_path)
    assert set(base) == {FIT, JUDGE, MARGINS} and min(base.values()) > 0
    assert work(tmp_path, evaluation={"count": 6}) == {name: 2 * count for name, count in base.items()}
    methods = work(tmp_path, methods=["pca", "m-pca0"])
    assert (methods[FIT], methods[JUDGE]) == (2 * base[FIT], 2 * base[JUDGE])
    assert base[MARGINS] < methods[MARGINS] < 2 * base[MARGINS]  # "before" is the same for both
    assert work(tmp_path, n_components=[4])[JUDGE] > base[JUDGE]
    several = work(tmp_path, n_components=[2, 4])
    assert several[JUDGE] == base[JUDGE] + work(tmp_path, n_components=[4])[JUDGE]
    assert MARGINS not in work(tmp_path, evaluation={"margins": False})


def test_operations_grow_with_every_classifier(tmp_path):
    alone = {
        name: work(tmp_path, evaluation={"classifiers": [name], "margins": False})[JUDGE]
        for name in ("fisher", "lda", "qda", "naive-bayes", "svm", "logistic", KNN["name"])
    }
    every = work(tmp_path, evaluation={"classifiers": list(alone), "margins": False})[JUDGE]
    assert every == pytest.approx(sum(alone.values()))
    assert min(alone.values()) > 0 and alone["svm"] > alone["fisher"]
    nested = work(tmp_path, evaluation={"classifiers": [{"name": "svm", "C": "nested"}], "margins": False})
    assert nested[JUDGE] > 20 * alone["svm"]
    chosen = work(tmp_path, evaluation={"classifiers": [{"name": "svm", "C": "auto"}]})
    assert chosen[JUDGE] == alone["svm"] and chosen[CHOICE] > alone["svm"]


def test_margins_of_more_columns_and_of_fits_to_rows_take_more(tmp_path):
    def margins(n_features, classifier):
        rows = labelled(400, n_features, 2, seed=1)
        config = config_of(
            tmp_path / "out", store(tmp_path / f"{n_features}.npz", *rows),
            evaluation={"splits": "shares", "classifiers": [classifier]},
        )  # fmt: skip
        return next(one.operations for one in preview_evaluation(config).work if one.name == MARGINS)

    assert margins(60, "fisher") > 50 * margins(6, "fisher")  # squares and cubes of the columns
    assert margins(60, "svm") > 2 * margins(6, "svm")  # and what summarises them is the same


@pytest.mark.parametrize("splits", [{"splits": "folds", "folds": 3}, {"splits": "shares"}])
def test_the_time_of_scoring_is_told_as_a_rough_one(splits, tmp_path):
    uri = store(tmp_path / "rows.npz", *labelled(300, 6, 2, seed=1))
    told = dict(preview_evaluation(config_of(tmp_path / "out", uri, evaluation=splits)).rows())["expected time"]
    assert told.startswith("roughly, by operations at usual rates: under a second for the passes, ")
    assert told.endswith("under a second to fit and score classifiers, under a second to measure margins")


class Watching(Callback):
    """Keeps what is told of time and progress."""

    def __init__(self):
        self.expected, self.steps = [], []

    def on_expected(self, stage, seconds):
        assert seconds > 0
        self.expected.append((stage, len(self.steps)))

    def on_pass(self, stage, name):
        self.name = name

    def on_progress(self, stage, done, total):
        if stage == "score":
            self.steps.append((self.name, done, total))


@pytest.mark.parametrize(("count", "expected"), [(4, [("score", 1)]), (1, [])])
def test_the_first_split_in_memory_tells_how_long_the_others_take(count, expected, tmp_path):
    watch, uri = Watching(), store(tmp_path / "rows.npz", *labelled(90, 5, 2, seed=2))
    evaluation = {"splits": "shares", "count": count}
    scored(config_of(tmp_path / "out", uri, compute={"workers": 1}, evaluation=evaluation), watch)
    assert watch.expected == expected
    assert watch.steps == [("rows", done + 1, count) for done in range(count)]


@pytest.mark.parametrize("count", [1, 3])
def test_the_first_deal_of_folds_tells_it_too_and_every_fit_is_progress(count, tmp_path, monkeypatch):
    monkeypatch.setattr(score_stage, "merges", lambda *_: True)
    watch, uri = Watching(), store(tmp_path / "rows.npz", *labelled(90, 5, 2, seed=2))
    evaluation = {"splits": "folds", "folds": 3, "count": count, "classifiers": ["fisher", "svm"]}
    records, _, _ = scored(config_of(tmp_path / "out", uri, evaluation=evaluation), watch)
    for name in ("fit methods", "fit classifiers"):
        assert [step[1:] for step in watch.steps if step[0] == name] == [(1, 3), (2, 3), (3, 3)] * count
    assert watch.expected == ([("score", len(watch.steps) // 3)] if count == 3 else [])
    assert all("fit" not in name for record in records for name in record["passes"])
