"""The command line as a person meets it: a terminal, mistakes, Ctrl-C, what the README shows."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from click import Context
from helpers import ROOT
from helpers.commands import in_process, without_prefect
from helpers.tables import content_of, write_config

from mmpca_dist import load_model, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.fit import stages_of
from mmpca_pipelines.cli import cli

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
HEADING = re.compile(r"^#+ (.*)$", re.M)
MMPCA = [sys.executable, "-m", "mmpca_pipelines"]
LONG = "synthetic:gaussian?n=40000000&d=64"


def environment(home):
    return without_prefect(PREFECT_HOME=home, COLUMNS=80)


@pytest.fixture(scope="module")
def prefect_home(tmp_path_factory):
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture
def long_config(tmp_path):
    return write_config(tmp_path / "long.yaml", tmp_path / "out", LONG)


def in_terminal(arguments, home, when, act, seconds=90):
    """Run a command in a terminal of its own, act once ``when`` has appeared, return (exit code, what it printed)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*MMPCA, *arguments], environment(home))  # noqa: S606
    shown, acted, end = b"", False, time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([terminal], [], [], 0.2)
            try:
                piece = os.read(terminal, 65536) if ready else None
            except OSError:  # how Linux says that the other side has gone
                break
            if piece == b"":
                break
            shown += piece or b""
            if not acted and when in shown:
                acted = True
                time.sleep(0.5)
                act(pid, terminal)
        else:
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"still running after {seconds} s: {shown[-2000:].decode(errors='replace')}")
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
    return os.waitstatus_to_exitcode(status), text.replace("\r", "")


def press_ctrl_c(_pid, terminal):
    os.write(terminal, b"\x03")


def end_server(pid, _terminal):
    servers = [p for p in psutil.Process(pid).children(recursive=True) if "mmpca_pipelines.server" in p.cmdline()]
    assert len(servers) == 1
    servers[0].kill()


@pytest.mark.parametrize(
    "cluster",
    [pytest.param("threads", marks=pytest.mark.slow), pytest.param("local", marks=pytest.mark.server)],
    ids=["ctrl-c", "ctrl-c with worker processes"],
)
def test_a_run_broken_off_ends_soon_with_one_line(prefect_home, long_config, tmp_path, cluster):
    arguments = ["run", str(long_config), "--set", f"compute.cluster={cluster}"]
    found, text = in_terminal(arguments, prefect_home, b"reduce: moments", press_ctrl_c)
    assert found == 130, text
    assert text.rstrip().endswith("mmpca: stopped. The same command goes on where it stopped.")
    assert "Waiting for a temporary Prefect server to start (set PREFECT_API_URL to use yours)" in text
    assert "Traceback" not in text
    assert (tmp_path / "out" / "records" / "count.json").exists()
    assert not (tmp_path / "out" / "records" / "reduce.json").exists()


@pytest.mark.server
def test_a_run_goes_on_without_its_temporary_server(prefect_home, long_config, tmp_path):
    """The server is killed in the middle of the first pass."""
    arguments = ["run", str(long_config), "--set", "dataset.uri=synthetic:gaussian?n=4000000&d=64"]
    code, text = in_terminal(arguments, prefect_home, b"reduce: moments", end_server, seconds=240)
    assert code == 0, text
    assert "The temporary Prefect server has ended. The work goes on without it." in text
    assert f"Report: {tmp_path / 'out'}" in text and "Traceback" not in text


@pytest.mark.slow
def test_a_finished_run_leaves_at_once(prefect_home, tmp_path):
    """Prefect delivers its events while the temporary server still listens, not to a closed port for a minute."""
    command = [*MMPCA, "run", write_config(tmp_path / "iris.yaml", tmp_path / "out")]
    with subprocess.Popen(command, env=environment(prefect_home), stdout=subprocess.PIPE, text=True) as process:
        assert any(line.startswith("Report:") for line in process.stdout)
        try:
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_named(long_config, prefect_home, tmp_path):
    ended = in_process("run", long_config, PREFECT_HOME=prefect_home, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert ended.returncode == 2
    assert "No Prefect server answers at http://127.0.0.1:9/api (PREFECT_API_URL)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("settings", "expected"), [
    (["dataset.uri=no/such.parquet"], "no/such.parquet"),
    (["n_components=65"], "n_components=65 is more than the 64 features"),
    (["output=taken"], "holds other files ('mine.txt') and no run"),
], ids=["no data set", "too many components", "taken output"])  # fmt: skip
@pytest.mark.usefixtures("no_server")
def test_mistakes_are_answered_before_a_server_starts(long_config, mmpca, tmp_path, monkeypatch, settings, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("precious")
    code, printed, errors = mmpca("run", long_config, *[word for s in settings for word in ("--set", s)])
    assert code == 2
    assert expected in errors
    assert "Prefect" not in printed + errors
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("arguments", "expected"), [
    (["ingest", "absent.csv", "made.zarr"], "absent.csv: it does not exist."),
    (["check", "row.csv"], "row.csv: it does not exist. Did you mean 'rows.csv'?"),
    (
        ["run", "mine.yaml"],
        "There is no configuration mine.yaml; 'mmpca config > mine.yaml' writes one to fill in. "
        "Did you mean 'my.yaml'?",
    ),
    (["ingest", "rows.csv", "taken"], "There is something at "),
    (["ingest", "rows.csv", "taken", "--overwrite"], "is not a Zarr group, so it is not overwritten"),
    (["ingest", "rows.csv", "rows.csv"], "cannot be written onto itself"),
    (["transform", "run", "absent.parquet", "made"], "absent.parquet: it does not exist."),
    (["transform", "absent", "rows.csv", "made"], "There is no run in "),
    (["transform", "run", "bundled:iris", "made", "--method", "fisher"], "has no method 'fisher'; it has pca."),
    (["transform", "run", "bundled:iris", "taken"], "holds other files ('notes.txt') and no run."),
    (["refresh", "absent", "bundled:iris", "made"], "There is no run in "),
    (["refresh", "run", "absent", "made"], "absent: it does not exist."),
    (["refresh", "run", "bundled:iris", "run"], "is the run itself."),
])  # fmt: skip
@pytest.mark.e2e
def test_addresses_are_refused_before_a_server_starts(arguments, expected, no_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(content_of("run"))
    Path("rows.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    Path("my.yaml").touch()
    Path("taken").mkdir()
    Path("taken", "notes.txt").write_text("mine")
    with pytest.raises(MmpcaError) as caught:
        cli(arguments, standalone_mode=False)
    assert expected in str(caught.value)
    assert not Path("made").exists() and not Path("made.zarr").exists()


def test_a_plan_needs_no_output(mmpca, tmp_path):
    (tmp_path / "my.yaml").write_text("{dataset: {uri: 'bundled:iris'}, methods: pca, n_components: 2}")
    code, printed, errors = mmpca("plan", tmp_path / "my.yaml")
    assert code == 0, errors
    assert "peak memory" in printed
    code, _, errors = mmpca("run", tmp_path / "my.yaml")
    assert code == 2
    assert "The key 'output' is missing. Add it, such as 'output: runs/mine'." in errors


def test_the_methods_are_those_that_run(mmpca):
    listed = mmpca("methods")[1].splitlines()
    assert [line.split()[0] for line in listed] == list(METHODS)


@pytest.mark.e2e
def test_the_summary_fits_a_terminal_and_its_residuals_are_relative(no_report, mmpca, tmp_path):
    output = str(tmp_path / "out")
    run({"dataset": {"uri": "bundled:digits"}, "methods": list(METHODS), "n_components": 16, "output": output})
    shown = mmpca("show", output)[1].splitlines()
    assert shown[0] == "bundled:digits: 1,797 rows, 64 features, 10 classes"
    assert max(map(len, shown[:-1])) <= 80  # the last line is an address
    assert shown[-1] == f"Report: {output}/report/index.html"
    rows = {row["method"]: row for row in result_in(output).rows}
    assert list(rows) == list(METHODS)
    model = load_model(output, "hsic")
    relative = model.residuals_.max() / model.eigenvalues_[0]
    assert rows["hsic"]["residual"] == f"{relative:.0e}"
    assert relative < 1e-12 < model.residuals_.max()
    pca = load_model(output, "pca")
    assert rows["pca"]["share"] == f"{100 * pca.eigenvalues_.sum() / pca.total_:.1f}%"
    assert all(line.count("│") in (0, 6) for line in shown)


def test_every_command_and_option_in_the_documents_exists():
    text = "".join(page.read_text() for page in PAGES)
    words = re.findall(r"^(?:pip .* && )?mmpca ([a-z]+)(.*)$", text, re.M)
    assert {name for name, _ in words} >= {*cli.commands} - {"methods"}
    for name, rest in words:
        command = cli.commands[name]
        options = {option for parameter in command.get_params(Context(command)) for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest.split("#")[0])) <= options, name


def heading_id(heading):
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def test_links_between_the_documents_lead_somewhere():
    for page in PAGES:
        text = page.read_text()
        for target, section in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", text):
            path = (page.parent / target) if target else page
            assert path.exists(), f"{page.name}: {target}"
            if section:
                headings = {heading_id(heading) for heading in HEADING.findall(path.read_text())}
                assert section[1:] in headings, f"{page.name}: {target}{section}"


@pytest.mark.e2e
def test_a_flow_started_elsewhere_refuses_and_tells_who_watches(prefect_server, tmp_path):
    """Not only the command line checks; a callback of one flow is not called by the next."""
    from prometheus_client import REGISTRY

    from mmpca_pipelines.entrypoints import fit_flow
    from mmpca_pipelines.flows import REFUSED, ended

    heard = []

    class Listener(Callback):
        def on_stage_end(self, stage, manifest, reused):
            heard.append(stage)

    sound = parse_config(content_of(tmp_path / "out"), "the test")
    names = ("mmpca_passes_total", "mmpca_read_bytes_total", "mmpca_stage_seconds_total")
    before = [REGISTRY.get_sample_value(name, {"stage": "reduce"}) or 0 for name in names]
    assert ended(fit_flow, sound, Listener()).state.is_completed()
    passes, n_bytes, seconds = (
        REGISTRY.get_sample_value(name, {"stage": "reduce"}) - value for name, value in zip(names, before, strict=True)
    )
    assert passes >= 1 and n_bytes == passes * 150 * 4 * 8 and seconds > 0
    assert heard == [stage.name for stage in stages_of(sound)]
    wrong = parse_config({**sound.model_dump(), "n_components": [5], "output": str(tmp_path / "other")}, "the test")
    state = fit_flow(wrong, return_state=True)
    assert state.name == REFUSED
    assert state.message.startswith("n_components=5 is more than the 4 features")
    assert len(heard) == len(stages_of(sound))
    assert not (tmp_path / "other").exists()


INTERRUPTED_EARLY = """
import os, signal, sys
from mmpca_pipelines.__main__ import main

class Slow:
    def __getattr__(self, name):
        os.kill(os.getpid(), signal.SIGINT)
        raise ImportError("the signal came too late")

sys.modules["mmpca_pipelines.cli"] = Slow()
main()
"""


def test_it_is_stopped_while_its_packages_are_read():
    """Ctrl-C in the first seconds, before there is a flow to break off."""
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED_EARLY], capture_output=True, text=True, cwd=ROOT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "mmpca: stopped.\n")
