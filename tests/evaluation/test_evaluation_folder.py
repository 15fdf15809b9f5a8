"""A configuration that was run is evaluated, and the other way round: each has a folder of its own."""

import ast
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers import ROOT
from helpers.tables import config_of

import mmpca_dist
from mmpca_dist import run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.jobs.job import open_job
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.runs.listing import clean, find_runs
from mmpca_dist.stores.lease import held
from mmpca_pipelines.cli import cli

EVALUATION = {"folds": 3, "margins": False}


@pytest.fixture
def config(tmp_path):
    return config_of(tmp_path / "out", "bundled:iris", evaluation=EVALUATION)


def contents(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def shown(*arguments):
    found = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert found.exit_code == 0
    return found.output.replace("\n", "")


@pytest.mark.parametrize("order", [(run, evaluate), (evaluate, run)])
def test_both_stand_side_by_side_and_are_listed_shown_and_cleaned(order, config):
    first, second = order
    first(config)
    before = contents(config.output)
    second(config)
    after = contents(config.output)
    assert before.items() <= after.items()  # nothing of the first was touched
    below = f"{config.output}/evaluation"
    states = [(state.uri, state.state) for state in find_runs(config.output)]
    assert states == [(config.output, "finished"), (below, "finished")]
    assert load_model(config.output, "pca").components_.shape == (2, 4)
    assert result_in(below).words[0] in shown("show", below).replace("\n", "")
    assert f"Evaluation: mmpca show {below}" in shown("show", config.output)
    assert [cleaned.uri for cleaned in clean(config.output)] == [config.output, below]
    assert contents(config.output) == after


def test_an_evaluation_alone_is_shown_by_the_output_of_its_configuration(config):
    evaluate(config)
    assert result_in(f"{config.output}/evaluation").words[0][:60] in shown("show", config.output)
    with pytest.raises(InputError, match="There is no run in"):
        load_model(config.output, "pca")


def test_what_an_evaluation_is_writing_is_left_to_it(config):
    """The run beside it, and `mmpca clean`, remove half-written files: not those of others."""
    run(config)
    evaluate(config)
    own, other = (Path(folder, ".x.json.0123abcd.partial") for folder in (config.output, f"{config.output}/evaluation"))
    for place in (own, other):
        place.write_text("half")
    with open_job(config, mmpca_dist.jobs.events.Callback()):
        pass
    assert not own.exists() and other.exists()
    own.write_text("half")
    with held(f"{config.output}/evaluation"):
        clean(config.output)
        assert not own.exists() and other.exists()


def test_a_refused_evaluation_leaves_nothing_and_a_run_beside_it_stays(config):
    wrong = config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"folds": 500})})
    with pytest.raises(InputError, match="500 folds"):
        evaluate(wrong)
    assert not Path(config.output).exists()
    run(config)
    before = contents(config.output)
    with pytest.raises(InputError, match="500 folds"):
        evaluate(wrong)
    assert contents(config.output) == before


def test_other_files_in_the_folder_of_evaluations_are_not_taken_for_one(config):
    place = Path(config.output, "evaluation")
    place.mkdir(parents=True)
    (place / "precious.txt").write_text("precious")
    with pytest.raises(OutputError, match="holds other files"):
        evaluate(config)
    run(config)
    assert json.loads((Path(config.output) / "run.json").read_text())["purpose"] == "run"
    assert (place / "precious.txt").read_text() == "precious"
    assert RunDirectory(config.output).purpose == "run"


RESULTS = "it|that|this|them|the (folder|run|output|destination|result)s?"
ADVICE = re.compile(
    rf"\b(delete(?! files)|erase|wipe|discard|rm -r|overwrite it)\b|\b(remove|clear) ({RESULTS})\b", re.IGNORECASE
)
SOUND = ("Close it, or remove it.", "such as NUL. Remove it.")
"""A quote in a CSV file; a character in a configuration."""


def messages(path):
    """Yield the strings of a module that are no docstrings, an f-string as one, with ... for what it takes in."""
    tree = ast.parse(path.read_text())
    skip = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skip |= {id(part) for part in node.values}
            yield "".join(part.value if isinstance(part, ast.Constant) else "..." for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skip:
            yield node.value


def test_no_message_advises_to_delete_results():
    root = Path(mmpca_dist.__file__).parent
    modules = [*root.rglob("*.py"), *(ROOT / "pipelines").rglob("*.py")]
    found = [(path.name, text) for path in modules for text in messages(path) if " " in text and ADVICE.search(text)]
    assert len(modules) > 100
    assert [text for _, text in found if not text.endswith(SOUND)] == []
