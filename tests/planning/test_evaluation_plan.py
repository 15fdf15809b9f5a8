"""What an evaluation costs, told beforehand, beside what it costs."""

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.evaluating import scored
from helpers.tables import config_of, labelled, write_config, write_npz

from mmpca_dist.errors import PlanError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.planning.evaluation_plan import splits_at_once
from mmpca_dist.planning.plan import Plan, Resources
from mmpca_dist.planning.run_plan import SLACK, THREAD_SLACK
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.runs.evaluate import preview_evaluation
from mmpca_dist.stores import storage
from mmpca_pipelines.cli import cli

METHODS = ["pca", "m-pca1a", "fisher"]


def test_too_little_memory_is_told_before_any_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_scores, "read_all", pytest.fail)
    monkeypatch.setattr(evaluation_scores, "evaluate", pytest.fail)
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", *labelled(300, 6, 2, seed=2)),
        compute={"memory_limit": "100MiB"},
    )  # fmt: skip
    told = r"The plan needs .* 200.00 MiB \(2 workers x 100.00 MiB\) are allowed. .*fewer columns, classes, folds"
    with pytest.raises(PlanError, match=told):
        scored(config)
    assert not storage.exists(str(tmp_path / "out"))


@pytest.mark.parametrize(("evaluation", "passes"), [
    ({"folds": 3}, ["moments", "score"]),
    ({"folds": 3, "classifiers": ["fisher", "svm"]}, ["moments", "score", "gather"]),
    ({"splits": "shares", "count": 2}, []),
], ids=["moments", "rows", "in memory"])  # fmt: skip
def test_passes_over_much_data_have_a_pilot_of_one_part(evaluation, passes, tmp_path):
    uri = write_npz(tmp_path / "rows.npz", *labelled(3000, 60, 3, seed=1))
    plan = preview_evaluation(config_of(tmp_path / "out", uri, methods=METHODS, evaluation=evaluation))
    assert [each.name for each in plan.passes] == passes
    assert plan.fits == (2 if "count" in evaluation else 3)


@pytest.mark.parametrize(("limit", "expected"), [(512, 1), (700, 1), (1200, 2), (9000, 4), (9000, 3)])
def test_splits_in_memory_that_do_not_fit_together_go_fewer_at_a_time(limit, expected):
    mib = 1 << 20
    plan = Plan([], 1, 0, 400 * mib, Resources("double", "out", 2, 2, True, limit * mib // 2), None)
    count, memory = splits_at_once(plan, 50 * mib, 250 * mib, max(expected, 3))
    assert count == expected
    assert memory == pytest.approx((400 + SLACK * 100 + expected * (SLACK * 250)) * mib + expected * THREAD_SLACK)


def test_the_first_split_in_memory_is_alone(tmp_path, monkeypatch):
    """It is scored once, and decides how many of the others go together."""
    seen = []
    monkeypatch.setattr(
        evaluation_scores, "splits_at_once", lambda plan, size, split, left: seen.append(split) or (1, 77)
    )
    uri = write_npz(tmp_path / "rows.npz", *labelled(3000, 60, 3, seed=1))
    told = Watching()
    records, _, results = scored(config_of(tmp_path / "out", uri, evaluation={"splits": "shares", "count": 3}), told)
    assert [note for note in told.notes if "1 at a time fit compute.memory_limit, where there are 2 threads." in note]
    assert [record["split"] for record in records] == [0, 1, 2]
    assert results["score"]["planned"] == 77 and len(seen) == 1 and seen[0] > 3000 * 60 * 8


def test_the_command_shows_it(tmp_path):
    uri = write_npz(tmp_path / "rows.npz", *labelled(300, 6, 2, seed=4))
    evaluation = {"count": 7, "classifiers": ["svm"]}
    config = write_config(tmp_path / "my.yaml", tmp_path / "out", uri, evaluation=evaluation)
    found = CliRunner().invoke(cli, ["plan", config, "--evaluation"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert "every method is fitted" in " ".join(found.output.split())


FIRST, TOGETHER = "told after the first splits", "not known: all splits end together"


@pytest.mark.parametrize(("splits", "time"), [
    ({"splits": "folds", "folds": 3, "count": 2}, FIRST),
    ({"splits": "folds", "folds": 6, "count": 1}, TOGETHER),
    ({"splits": "shares", "count": 6}, FIRST),
])  # fmt: skip
def test_splits_and_fits_are_told_and_when_time_is(splits, time, tmp_path):
    uri = write_npz(tmp_path / "rows.npz", *labelled(300, 6, 2, seed=1))
    evaluation = {**splits, "classifiers": ["fisher", "svm", {"name": "svm", "C": "nested", "label": "nested"}]}
    told = dict(preview_evaluation(config_of(tmp_path / "out", uri, methods=METHODS, evaluation=evaluation)).rows())
    assert told["splits"] == "every method is fitted 6 times"
    assert told["classifiers fitted"] == f"up to {(3 + 1) * (1 + 31) * 6} times to rows"
    assert told["expected time"] == time and "note" not in told


def test_more_than_a_hundred_splits_are_named(tmp_path):
    X, y = labelled(300, 6, 2, seed=1)
    uri = str(tmp_path / "rows.npz")
    np.savez(uri, X=X, y=y, key=np.arange(300))
    for splits, lower in (
        ({"splits": "shares", "count": 100}, ""),
        ({"splits": "shares", "count": 101}, "count"),
        ({"folds": 101}, "folds"),
        ({"splits": "groups", "column": "key", "folds": 101}, "folds"),
        ({"splits": "time", "column": "key", "windows": 101}, "windows"),
    ):
        note = preview_evaluation(config_of(tmp_path / "out", uri, evaluation=splits)).note
        said, _, others = note.partition("All columns are not evaluated for comparison: of fewer rows than columns")
        assert said.strip() == (f"Every method is fitted 101 times: for fewer, lower {lower}." if lower else "")
        assert bool(others) is (lower == "windows")  # the first of which has few rows before it


class Watching(Callback):
    """Keeps what is told of time and progress."""

    def __init__(self):
        self.expected, self.steps, self.notes = [], [], []

    def on_note(self, text):
        self.notes.append(text)

    def on_expected(self, stage, seconds):
        assert seconds > 0
        self.expected.append((stage, len(self.steps)))

    def on_pass(self, stage, name):
        self.name = name

    def on_progress(self, stage, done, total):
        if stage == "score":
            self.steps.append((self.name, done, total))


@pytest.mark.parametrize(("count", "expected"), [(4, [("score", 2)]), (1, [])])
def test_the_first_split_in_memory_tells_how_long_the_others_take(count, expected, tmp_path):
    watch, uri = Watching(), write_npz(tmp_path / "rows.npz", *labelled(90, 5, 2, seed=2))
    evaluation = {"splits": "shares", "count": count}
    scored(config_of(tmp_path / "out", uri, compute={"workers": 1}, evaluation=evaluation), watch)
    assert watch.expected == expected
    assert watch.steps == [("rows", done, count) for done in range(count + 1)]


@pytest.mark.parametrize("count", [1, 3])
def test_the_first_deal_of_folds_tells_it_too_and_every_fit_is_progress(count, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (True, False))
    watch, uri = Watching(), write_npz(tmp_path / "rows.npz", *labelled(90, 5, 2, seed=2))
    evaluation = {"splits": "folds", "folds": 3, "count": count, "classifiers": ["fisher", "svm"]}
    records, _, _ = scored(config_of(tmp_path / "out", uri, evaluation=evaluation), watch)
    for name in ("fit methods", "fit classifiers", "measure margins"):
        assert [step[1:] for step in watch.steps if step[0] == name] == [(1, 3), (2, 3), (3, 3)] * count
    assert watch.expected == ([("score", len(watch.steps) // 3)] if count == 3 else [])
    assert all(set(record["passes"]) <= {"moments", "score", "gather"} for record in records)
