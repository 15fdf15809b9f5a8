"""An error that nobody foresaw: its last line is shown, and its traceback is in a file that the message names."""

import re
from pathlib import Path

import pytest
from helpers.tables import write_config
from prefect.states import Crashed

from mmpca_dist.configuration.schema import load_config
from mmpca_dist.errors import OutputError
from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.job import open_job
from mmpca_dist.jobs.journal import UnforeseenError, traceback_kept
from mmpca_dist.report import run_page
from mmpca_dist.runs.fit import run, stages_of
from mmpca_dist.stores import storage
from mmpca_pipelines import flows
from mmpca_pipelines.__main__ import main


def fails(*_, **__):
    raise ZeroDivisionError("nothing to divide by")


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path / "my.yaml", "out")


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Run ``mmpca`` with these words, which fails, and return what it says and the file that it names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)

    def call(*words):
        monkeypatch.setattr("sys.argv", ["mmpca", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        message = capfd.readouterr().err.strip()
        found = re.fullmatch(
            r"mmpca: Unexpected error: ZeroDivisionError: nothing to divide by\. The traceback is in (.+); "
            r"please report it\.",
            message,
        )
        assert found, message
        return Path(found[1])

    return call


def assert_holds_the_traceback(file):
    text = file.read_text()
    assert text.startswith("Traceback (most recent call last):") and "in fails" in text
    assert text.endswith("ZeroDivisionError: nothing to divide by\n")


@pytest.mark.e2e
def test_a_stage_that_fails_leaves_the_traceback_in_the_run(tmp_path, prefect_server, config, command, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(run_page, "figures", fails)
        file = command("run", str(config))
    assert file.parent == tmp_path / "out" / "errors"
    assert_holds_the_traceback(file)
    assert (tmp_path / "out" / "records" / "solve.json").exists()
    run(load_config(config))
    assert (tmp_path / "out" / "report" / "index.html").exists(), "the run goes on"


@pytest.mark.parametrize(("words", "target"), [
    (("transform", "out", "bundled:iris", "projected", "--prefect"), "mmpca_dist.runs.transform.transform"),
    (("ingest", "table.csv", "table.zarr"), "mmpca_dist.jobs.inputs.ingest"),
    (("plan", "my.yaml"), "mmpca_dist.runs.fit.preview"),
], ids=["transform", "ingest", "plan"])  # fmt: skip
@pytest.mark.e2e
def test_commands_without_a_run_leave_it_among_the_temporary_files(
    tmp_path, prefect_server, config, command, monkeypatch, words, target
):
    run(load_config(config, {"output": str(tmp_path / "out")}))
    (tmp_path / "table.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    monkeypatch.setattr(target, fails)
    file = command(*words)
    assert file.is_relative_to(tmp_path / "temporary")
    assert_holds_the_traceback(file)


def test_a_folder_that_is_no_run_yet_stays_as_it_is(tmp_path, monkeypatch):
    """A file in it would be foreign content, and the next start would be refused."""
    with pytest.raises(UnforeseenError) as caught, traceback_kept(str(tmp_path / "out")):
        fails()
    assert not (tmp_path / "out").exists()
    assert_holds_the_traceback(Path(re.search(r"is in (\S+);", str(caught.value))[1]))


def test_a_run_whose_store_fails_still_gets_its_traceback(tmp_path, config, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(load_config(config))
    monkeypatch.setattr(storage, "write_bytes", fails)
    with pytest.raises(UnforeseenError) as caught, traceback_kept("out"):
        fails()
    assert_holds_the_traceback(Path(re.search(r"is in (\S+);", str(caught.value))[1]))


def test_a_stage_that_prefect_did_not_run_is_not_taken_for_done(tmp_path, config, monkeypatch):
    monkeypatch.setattr(flows, "task", lambda **_: lambda _: lambda **_: Crashed(message="no connection"))
    loaded = load_config(config, {"output": str(tmp_path / "out")})
    with open_job(loaded, Callbacks([])) as job, pytest.raises(RuntimeError, match="the stage count: no connection"):
        flows.TaskChain().stage(job, stages_of(loaded)[0], "count")


def test_refusals_pass_as_they_are(tmp_path, config):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other.txt").write_text("theirs")
    changed = load_config(config, {"output": str(tmp_path / "out")})
    with pytest.raises(OutputError), traceback_kept(changed.output), open_job(changed, Callbacks([])):
        pass
