"""``n_components: auto``: the one-standard-error rule, and runs that go by it."""

import json
from pathlib import Path

import naive_evaluation
import numpy as np
import pytest
from helpers.evaluating import by_cell, scored
from helpers.refreshing import PARTS, X, Y, write
from helpers.runs import Recorder, model_hash, refreshed
from helpers.samples import batch_of
from helpers.tables import auto, config_of, counts_like_text, labelled, read_back, write_npz
from hypothesis import given
from hypothesis import strategies as st
from naive_evaluation import one_standard_error as by_hand

from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.evaluation.component_rule import candidates, one_standard_error
from mmpca_dist.evaluation.splits import fold_splits
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.report.run_page import report_contents
from mmpca_dist.report.sections.choice import tried
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.results.run_result import SolvedRun
from mmpca_dist.runs import evaluate as stages
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.stores import storage

METHODS = ["pca", "m-pca0", "m-pca1a", "m-pca1b", "fisher", "hsic", "lol", "fisher-score", "random-projection"]


def chosen(results):
    return {method: found["chosen"] for method, found in results["choose"]["methods"].items()}


def cells_of(errors, rows, most=None):
    """Return the cells of a method whose errors are given by number of components and fold."""
    records = [
        {
            "split": fold,
            "rows": n,
            "errors": [
                {"method": "pca", "n_components": size, "used": min(size, most or size), "classifier": "fisher",
                 "errors": found[fold]}
                for size, found in errors.items()
            ],
        }
        for fold, n in enumerate(rows)
    ]  # fmt: skip
    return ErrorTable.of(records, sum(rows)).cells()


@st.composite
def errors_in_folds(draw):
    rows = draw(st.lists(st.integers(3, 40), min_size=2, max_size=7))
    sizes = draw(st.lists(st.integers(1, 64), min_size=1, max_size=8, unique=True))
    few = draw(st.booleans())  # of few errors many ties
    return {size: [draw(st.integers(0, 1 if few else n)) for n in rows] for size in sorted(sizes)}, rows


@given(errors_in_folds())
def test_the_rule_is_that_of_exact_arithmetic(found):
    errors, rows = found
    assert one_standard_error(cells_of(errors, rows)).n_components == by_hand(errors, rows)


@pytest.mark.parametrize(("errors", "expected"), [
    ({1: [9, 9, 9], 2: [5, 5, 5], 4: [5, 5, 5]}, 2),  # equal, and nothing varies
    ({1: [1, 2, 3], 2: [3, 2, 1], 4: [2, 1, 3]}, 1),  # the same counts in another order
    ({1: [7, 7, 7], 2: [3, 5, 7], 4: [2, 4, 6]}, 2),  # 5 is at most 4 + 2 sqrt(1 / 3 + 1 / 2), and 7 is more
    ({1: [8, 8, 8], 2: [5, 5, 6], 4: [2, 4, 6]}, 2),  # 5.3 is at most 5.8, though it is more than 4 + 2 / sqrt(3)
    ({2: [4, 6, 8], 4: [3, 5, 7], 8: [0, 0, 0]}, 8),
    ({3: [0, 0, 0]}, 3),
])  # fmt: skip
def test_the_rule_by_examples(errors, expected):
    assert one_standard_error(cells_of(errors, [20] * 3)).n_components == expected == by_hand(errors, [20] * 3)


def test_numbers_that_come_to_the_same_count_as_the_smallest():
    """Where there are two components at most, four and eight are two."""
    errors = {1: [9, 9, 9], 2: [5, 4, 5], 4: [5, 4, 5], 8: [5, 4, 5]}
    taken = one_standard_error(cells_of(errors, [20] * 3, most=2))
    assert (taken.n_components, taken.used) == (2, 2)


def test_candidates_end_where_the_data_do():
    assert candidates(0) == candidates(1) == [1] and candidates(5) == [1, 2, 3, 4]
    assert candidates(50) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]


def test_candidates_fit_columns_and_the_smallest_training_rows(tmp_path):
    config = auto(tmp_path / "out", evaluation={"folds": 4})
    assert config.resolved(1000, 13).n_components == [1, 2, 3, 4, 6, 8, 12]
    assert config.resolved(18, 1000).n_components == [1, 2, 3, 4, 6, 8, 12]  # 13 rows train
    assert config.resolved(17, 1000).n_components == [1, 2, 3, 4, 6, 8]  # 12 rows train
    given = config_of(tmp_path / "out", "bundled:iris", n_components=[3, 70])
    assert given.resolved(17, 10).n_components == [3, 70]


def test_the_judge_is_the_first_classifier_from_moments(tmp_path):
    def judge(*names):
        return auto(tmp_path / "out", evaluation={"classifiers": list(names)}).evaluation.judge.name

    assert (judge("svm", "qda", "lda"), judge("svm"), judge("fisher")) == ("qda", "fisher", "fisher")


def test_parts_that_are_given_are_not_dealt_anew(tmp_path):
    np.save(tmp_path / "parts.npy", np.arange(150) % 3)
    evaluation = {"splits": "given", "column": str(tmp_path / "parts.npy")}
    with pytest.raises(InputError, match=r"deals rows into folds, and evaluation.splits: given asks for the parts"):
        run(auto(tmp_path / "out", evaluation=evaluation))


def test_a_classifier_of_two_classes_does_not_choose_for_three(tmp_path, no_report):
    classifier = {"name": "fisher", "options": {"threshold": "log-odds"}}
    with pytest.raises(InputError, match="between two classes, and there are 3: leave it out") as caught:
        run(auto(tmp_path / "out", evaluation={"classifiers": [classifier]}))
    assert "split" not in str(caught.value)  # which is what a pass would have said first
    assert not (tmp_path / "out").exists()


def chosen_by_hand(config, X, y):
    """Return the number of components of each method, by fitting every method anew while each fold is held out."""
    wanted = config.evaluation
    rows = Rows.of(open_dataset(config.dataset.uri), Threads(1))
    splits = fold_splits(rows, wanted.folds, seed=wanted.seed)
    judged = wanted.model_copy(update={"classifiers": [wanted.judge]})
    resolved = config.resolved(*X.shape).model_copy(update={"evaluation": judged})
    found = naive_evaluation.evaluate(X, y, splits, resolved)
    assert not any(close for *_, close in found.values()), "choose data whose decisions are no matter of rounding"
    parts, label = splits.codes(batch_of(y))[0], wanted.judge.label
    counts = [int(np.sum(parts == part)) for part in splits.held_out]
    taken, folds = {}, range(len(counts))
    for method in config.labels:
        errors = {size: [found[fold, method, size, label][1] for fold in folds] for size in resolved.n_components}
        size = by_hand(errors, counts)
        taken[method] = min(found[fold, method, size, label][0] for fold in folds)
    return taken


@pytest.mark.parametrize("direct", [False, pytest.param(True, marks=pytest.mark.e2e)])
@pytest.mark.parametrize("changes", [
    {"methods": [*METHODS, "m-pca2", "pls"]},
    {"methods": ["pca", "m-pca1b", "fisher"], "standardize": True, "evaluation": {"folds": 4, "seed": 2}},
    {"methods": ["pca", "m-pca0"], "evaluation": {"classifiers": ["svm", "qda"], "folds": 3}},
])  # fmt: skip
def test_a_run_takes_what_the_whole_protocol_by_hand_takes(changes, direct, no_report, tmp_path, monkeypatch):
    if direct:
        monkeypatch.setattr(evaluation_scores, "route", lambda *_: (False, True))
    config = auto(tmp_path / "out", "bundled:wine", **changes)
    results = run(config)
    rows, labels = read_back("bundled:wine")
    expected = chosen_by_hand(config, np.asarray(rows, np.float64), labels)
    assert chosen(results) == expected
    assert {method: model["n_components"] for method, model in results["solve"]["models"].items()} == expected
    assert results["choose"]["passes"][:1] == (["rows"] if direct else ["moments"])
    for method in config.labels:
        assert open_dataset(f"{config.output}/projected/{method}.zarr").n_features == expected[method]
        assert load_model(config.output, method).components_.shape == (expected[method], rows.shape[1])


def test_what_the_record_says(no_report, tmp_path):
    recorder = Recorder()
    results = run(auto(tmp_path / "out", methods=["pca", "fisher"]), [recorder])
    record = json.loads((tmp_path / "out" / "records" / "choose.json").read_text())
    assert record["passes"] == ["moments", "score"], "two passes serve all folds, methods and numbers"
    assert (record["classifier"], record["folds"]) == ("lda", 5) and "one standard error" in record["rule"]
    pca, fisher = record["methods"]["pca"], record["methods"]["fisher"]
    assert pca["candidates"] == fisher["candidates"] == [1, 2, 3, 4]
    assert (pca["used"], fisher["used"]) == ([1, 2, 3, 4], [1, 2, 2, 2])
    splits = [json.loads((tmp_path / "out" / place).read_text()) for place in record["outputs"]]
    for method, found in record["methods"].items():
        errors = [
            [line["errors"] / split["rows"] for line in split["errors"] if line["method"] == method][::-1]
            for split in splits
        ]
        np.testing.assert_allclose(found["means"], 100 * np.mean(errors, axis=0), rtol=1e-12)
        deviation = 100 * np.std(errors, axis=0, ddof=1)
        np.testing.assert_allclose(found["standard_errors"], deviation * np.sqrt(1 / 5 + 1 / 4), rtol=1e-12)
    words = "(one-standard-error rule, lda, 5 folds)"
    assert results["choose"]["found"] == [f"pca: 3 components {words}", f"fisher: {fisher['chosen']} component {words}"]
    assert result_in(str(tmp_path / "out")).words[0].endswith("the one-standard-error rule, lda, 5 folds")
    assert not recorder.notes, "nobody asked for more components than there are"
    events = [json.loads(line) for line in (tmp_path / "out" / "events.jsonl").read_text().splitlines()]
    assert any(e["event"] == "stage-end" and e.get("found") == record["found"] for e in events)


def test_the_report_shows_the_choice_and_the_settings_as_given(tmp_path):
    config = auto(tmp_path / "out", methods=["pca", "fisher"])
    results = run(config)
    assert results["report"]["figures"][0]["name"] == "choice"
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert "How many components" in page and "chosen by cross-validation in 5 folds" in page
    assert "n_components: auto" in page
    contents = report_contents(SolvedRun(RunDirectory(config.output), config, open_dataset("bundled:iris"), results))
    pca = results["choose"]["methods"]["pca"]
    cells = tried("pca", contents.data["choice"])
    assert [cell.summary.mean for cell in cells] == pca["means"]
    errors = [cell.summary.corrected_standard_error for cell in cells]
    np.testing.assert_allclose(errors, pca["standard_errors"], rtol=1e-12)
    assert [method.requested for method in contents.methods] == [[pca["chosen"]], [1]]


COMPUTE = [
    {"cluster": "threads", "workers": 3},
    pytest.param({"cluster": "local", "workers": 2, "memory_limit": "2GiB"}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("compute", COMPUTE, ids=str)
@pytest.mark.parametrize("kind", ["merged", "wide"])
@pytest.mark.e2e
def test_the_bits_do_not_depend_on_where_the_work_runs(kind, compute, no_report, tmp_path):
    rows, y = labelled(120, 150 if kind == "wide" else 12, 3, seed=8, separation=0.6)
    changes = {"methods": ["pca", "m-pca0", "lol", "m-pca2"], "precision": "single"}
    uri = write_npz(tmp_path / "rows.npz", rows.astype(np.float32), y)
    one = run(auto(tmp_path / "one", uri, **changes, compute={"workers": 1}))
    other = run(auto(tmp_path / "other", uri, **changes, compute=compute))
    assert one["choose"]["passes"][0] == ("rows" if kind == "wide" else "moments")
    assert one["choose"]["methods"] == other["choose"]["methods"]
    assert model_hash(tmp_path / "one", changes["methods"]) == model_hash(tmp_path / "other", changes["methods"])


def test_a_choice_broken_off_goes_on_from_the_folds_that_are_done(no_report, tmp_path, monkeypatch):
    _, rows, y = counts_like_text(80, 8, 3, seed=4)
    uri = write_npz(tmp_path / "rows.npz", rows, y, sparse=True)
    config = auto(tmp_path / "out", uri, compute={"workers": 1})
    evaluate, evaluated = evaluation_scores.evaluate, []

    def die_at_the_fourth(rows, splits, *rest):
        if len(evaluated) == 3:
            raise KeyboardInterrupt
        evaluated.append(splits.first)
        return evaluate(rows, splits, *rest)

    monkeypatch.setattr(evaluation_scores, "evaluate", die_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    evaluated.append("again")
    results = run(config)
    assert sorted(evaluated[:3] + evaluated[4:]) == [0, 1, 2, 3, 4]
    whole = run(auto(tmp_path / "whole", uri))
    assert results["choose"]["methods"] == whole["choose"]["methods"]
    again = Recorder()
    assert run(config, [again])["choose"]["found"] == results["choose"]["found"]
    assert again.ended["choose"] and again.ended["solve"]


def test_a_run_depends_on_folds_and_judge_only_where_it_chooses(no_report, tmp_path):
    run(auto(tmp_path / "out"))
    with pytest.raises(OutputError, match=r"its evaluation\.folds is 5, here it is 4"):
        run(auto(tmp_path / "out", evaluation={"folds": 4}))
    recorder = Recorder()  # what the choice does not depend on
    run(auto(tmp_path / "out", evaluation={"classifiers": ["lda", "svm"], "margins": False}), [recorder])
    assert recorder.ended["choose"]
    with pytest.raises(OutputError, match="its n_components is 'auto', here it is"):
        run(config_of(tmp_path / "out", "bundled:iris", n_components=[2]))
    run(config_of(tmp_path / "given", "bundled:iris"))
    run(config_of(tmp_path / "given", "bundled:iris", evaluation={"folds": 4}), [recorder])
    assert recorder.ended["solve"]


def test_an_evaluation_tries_all_candidates(tmp_path):
    records, _, results = scored(auto(tmp_path / "auto", "bundled:wine", methods=["pca", "hsic"]))
    given = config_of(tmp_path / "given", "bundled:wine", methods=["pca", "hsic"], n_components=[1, 2, 3, 4, 6, 8, 12])
    assert "choose" not in results
    assert by_cell(records) == by_cell(scored(given)[0])


def test_the_plan_of_an_evaluation_is_that_of_the_candidates_given(tmp_path):
    """And a class with fewer rows than folds, which a choice refuses, is no matter to shares."""
    rows, y = labelled(60, 5, 2, seed=1)
    uri = write_npz(tmp_path / "rows.npz", rows, np.where(np.arange(60) < 3, 2, y))
    shares = {"evaluation": {"splits": "shares", "count": 2}}
    plan = stages.preview_evaluation(auto(tmp_path / "out", uri, **shares))
    given = stages.preview_evaluation(config_of(tmp_path / "out", uri, n_components=[1, 2, 3, 4], **shares))
    assert (plan.memory, [one.name for one in plan.passes]) == (given.memory, [one.name for one in given.passes])
    results = stages.evaluate(auto(tmp_path / "out", uri, **shares))
    assert "n_components: auto" in Path(results["compare"]["html"]).read_text()


def test_a_refreshed_run_keeps_the_numbers_that_were_chosen(no_report, tmp_path):
    methods = ["fisher", "pca", "m-pca1b", "m-pca0"]  # not in the order of the alphabet
    first = write("npz", tmp_path / "first", X[PARTS["first"]], Y[PARTS["first"]])
    taken = chosen(run(auto(tmp_path / "base", first, methods=methods)))
    assert taken["pca"] > 1, "one component is what anything might give"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write("npz", tmp_path / name / name, X[PARTS[name]], Y[PARTS[name]])
        manifest = refreshed(tmp_path / "base", tmp_path / name, tmp_path / "live")
        record = RunDirectory(manifest["folder"]).record("choose")
        assert [line.split(":")[0] for line in record["found"]] == ["fisher", "pca", "m-pca0"]
        assert list(manifest["left_out"]) == ["m-pca1b"]
        for method in manifest["methods"]:
            assert len(load_model(str(tmp_path / "live"), method).components_) == taken[method]
    assert result_in(str(tmp_path / "live")).words[0] == result_in(str(tmp_path / "base")).words[0]


def test_it_works_on_an_object_store_url(no_report):
    config = auto("memory://bucket/chosen")
    assert chosen(run(config)) == {"pca": 3}
    assert storage.exists("memory://bucket/chosen/splits/00004.json")
