"""`mmpca evaluate` as a person meets it, and its flow as Prefect shows it."""

import json
from pathlib import Path

import pytest
import yaml
from helpers import ROOT
from helpers.operations import artifacts_of, tasks_of
from helpers.tables import labelled, write_parquet

from mmpca_dist.configuration.schema import load_config, parse_config
from mmpca_dist.errors import InputError
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.predictors.specification import CLASSIFIERS
from mmpca_dist.runs import evaluate as stages
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.runs.evaluate import evaluate, evaluation_stages
from mmpca_pipelines import console as shown

TABLES = set((ROOT / "conf" / "paper").glob("zhang-schneider-*.yaml"))
PAPER = sorted({*(ROOT / "conf" / "paper").glob("*.yaml")} - TABLES)
SOUND = {
    "dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca0"], "n_components": [1, 2],
    "evaluation": {"splits": "folds", "folds": 3},
}  # fmt: skip
STAGES = [stage.name for stage in evaluation_stages(parse_config(SOUND | {"output": "out"}, "the test"))]


@pytest.fixture
def mmpca(mmpca, tmp_path, monkeypatch):
    """Run the command where ``my.yaml`` is, with wide lines."""
    (tmp_path / "my.yaml").write_text(yaml.safe_dump({**SOUND, "output": "out"}))
    monkeypatch.chdir(tmp_path)
    for console in (shown.console, shown.errors):
        monkeypatch.setattr(console, "width", 200)
    return mmpca


LOG_ODDS = {"name": "fisher", "options": {"threshold": "log-odds"}}


@pytest.mark.parametrize(("settings", "expected"), [
    (["methods=[pca,fischer]"], "methods: unknown method 'fischer'; there are pca, .* Did you mean 'fisher'?"),
    (["evaluation.classifiers=fischer"], "unknown classifier 'fischer'; there are fisher, .* Did you mean 'fisher'?"),
    (["evaluation.classifiers=[svm,svm]"], "two classifiers are called 'svm'; give one of them another label."),
    (["evaluation.reference=m-pca1a"], "evaluation.reference names 'm-pca1a', which is not among pca, m-pca0. Did"),
    (["evaluation.train=1.5"], "evaluation.train: The share 1.5 .* must be between 0 and 1, like 0.8 or '4/5'."),
    (["evaluation.train=4/0"], "evaluation.train: The share '4/0' .* must be between 0 and 1"),
    (["evaluation.splits=given"], "splits: groups, time, given and listed take a column"),
    (["evaluation.column=part"], "and a column takes one of these kinds of splits."),
    (["evaluation.splits=fold"], "Did you mean 'folds'?"),
    (["evaluation.fold=3"], "Unknown key 'evaluation.fold'. Did you mean 'folds'?"),
    (["evaluation.published=ionosfere"], "no published figures for 'ionosfere'; .* Did you mean 'ionosphere'?"),
    (["n_components=5"], "n_components=5 is more than the 4 features of bundled:iris."),
    (["dataset.uri=a.npz", "dataset.data_dir=here"], "/here/a.npz, in the folder of dataset.data_dir."),
    (
        ["dataset.uri=a.npz", "dataset.data_dir=$MMPCA_DATA_NONE"],
        "the environment variable MMPCA_DATA_NONE is not set. Set it to",
    ),
])  # fmt: skip
def test_a_mistake_is_one_sentence(settings, expected, mmpca, no_server, tmp_path):
    code, printed, errors = mmpca("evaluate", "my.yaml", *[word for one in settings for word in ("--set", one)])
    assert code == 2 and not printed
    assert errors.startswith("mmpca: ") and errors.count("\n") == 1 and errors.endswith((".\n", "?\n")), errors
    assert all(part in errors for part in expected.split(" .* ")), errors
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_absent_data_of_the_paper(path, mmpca, no_server, tmp_path, monkeypatch):
    """It says where it looked and what to do."""
    config = load_config(path)
    assert config.evaluation.published == path.stem.removesuffix("_libsvm").removesuffix("_varying")
    assert config.output.endswith(f"runs/paper/{path.stem}")
    monkeypatch.delenv("MMPCA_DATA", raising=False)
    assert "MMPCA_DATA is not set. Set it to the folder of the data sets" in mmpca("evaluate", path)[2]
    monkeypatch.setenv("MMPCA_DATA", str(tmp_path / "absent"))
    code, printed, errors = mmpca("evaluate", path)
    assert code == 2 and not printed and errors.count("\n") == 1
    assert f"There is no {tmp_path}/absent/{config.dataset.uri}, in the folder" in errors


@pytest.mark.parametrize(("changes", "expected"), [
    ({"folds": 500}, "There are 500 folds for 150 rows; there must be 2 to 150."),
    ({"splits": "given", "column": "part"}, "evaluation.column is 'part', and bundled:iris has no columns but its"),
    ({"splits": "given", "column": "absent.npy"}, "absent.npy: it does not exist."),
    ({"classifiers": [LOG_ODDS]}, "log-odds of fisher is between two classes, and there are 3: leave it out."),
])  # fmt: skip
def test_rows_that_cannot_be_held_out_so(changes, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        evaluate({**SOUND, "evaluation": changes, "output": "out"})
    assert expected in str(caught.value)
    assert not Path("out").exists()


def test_a_column_of_parts_that_is_not_there_is_likened_to_one_that_is(tmp_path):
    X, y = labelled(30, 3, 2, seed=0)
    uri = write_parquet(tmp_path / "rows.parquet", X, y, part=["a", "b", "c"] * 10)
    wrong = {"splits": "given", "column": "prat"}
    for drop in ([], ["part"]):
        dataset = {"uri": uri, "drop": drop}
        with pytest.raises(InputError, match=r"has no column 'prat' \(evaluation\.column\)\. Did you mean 'part'\?$"):
            evaluate({**SOUND, "dataset": dataset, "evaluation": wrong, "output": str(tmp_path / "out")})


def test_the_classifiers_are_listed(mmpca):
    code, printed, _ = mmpca("classifiers")
    listed, _, more = printed.partition("\n\n")
    assert code == 0 and [line.split()[0] for line in listed.splitlines()] == list(CLASSIFIERS)
    assert "by its import name" in more


@pytest.mark.e2e
def test_evaluated_listed_shown_and_taken_up_again(prefect_server, mmpca, tmp_path, monkeypatch):
    """By the command line, on the server of the tests; nothing is computed twice."""
    code, first, errors = mmpca("evaluate", "my.yaml")
    assert code == 0 and not errors, errors
    assert "The lowest mean error" in first and f"Report: {tmp_path}/out/evaluation/report/index.html" in first
    assert all(f"✓ {name}" in first for name in STAGES)
    table = first[first.index("Errors in percent") :]
    assert all(name in table for name in ("pca", "m-pca0", "lda"))
    listed = mmpca("runs", tmp_path)[1].splitlines()
    assert any("out" in line and "finished" in line and "bundled:iris" in line for line in listed)

    for module, name in ((evaluation_scores, "evaluate"), (stages, "choose_C")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("evaluated again"))
    code, again, _ = mmpca("evaluate", "my.yaml")
    assert code == 0 and again.count("already done") == len(STAGES) - 1  # all but the plan
    assert again[again.index("Use ") :] == first[first.index("Use ") :]
    assert mmpca("show", "out")[1] == first[first.index("Use ") :]

    code, _, errors = mmpca("evaluate", "my.yaml", "--set", "evaluation.folds=4")
    assert code == 2 and "already holds a different run: its evaluation.folds is 3, here it is 4. Choose" in errors
    with pytest.raises(InputError, match="holds an evaluation, and no models: fit them with 'mmpca run'"):
        load_model("out/evaluation", "pca")

    (tmp_path / "out" / "evaluation" / "records" / "score.json").unlink()
    assert any("stopped at score; the same command goes on" in line for line in mmpca("runs", "out")[1].splitlines())


@pytest.mark.e2e
def test_the_flow_leaves_tables_pictures_and_few_task_runs(prefect_server, tmp_path):
    from mmpca_pipelines.entrypoints import evaluate_flow

    config = parse_config({**SOUND, "output": str(tmp_path / "out")}, "the test")
    state = evaluate_flow(config, return_state=True)
    assert state.is_completed() and state.message.endswith(f"Report: {tmp_path}/out/evaluation/report/index.html")
    found = artifacts_of(state)
    shown = {"standings", "costs", "errors-1", "margins-1", "figure-errors-by-components", "progress", "result"}
    assert {f"out-evaluation-{name}" for name in shown} <= set(found)
    assert [row["stage"] for row in json.loads(found["out-evaluation-stages"])] == STAGES
    assert "The lowest mean error" in found["out-evaluation-result"]
    assert len(STAGES) == len(tasks_of(state, len(STAGES))[1]) <= 50
    result = state.result()
    assert set(result) == {"folder", "report", "answer", "verdict"}
    assert result["verdict"] and result["answer"] and result["verdict"] != result["answer"]
