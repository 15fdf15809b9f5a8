"""The work of a command in a flow and without Prefect: the same stages, and the same results."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import yaml
from helpers.commands import in_process

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def config_file(tmp_path):
    content = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca2"], "n_components": [2]}
    path = tmp_path / "iris.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def connected(monkeypatch, prefect_server):
    """Count how often a command waits for the server of the tests."""
    waited = []
    server = SimpleNamespace(check=lambda: None, connect=lambda: waited.append(1), is_temporary=False)
    monkeypatch.setattr("mmpca_pipelines.server.PrefectServer", lambda *_: nullcontext(server))
    return waited


def written(folder):
    """Return the model and the projected rows of a run, by their names."""
    files = [*folder.glob("models/**/*"), *folder.glob("projected/**/*")]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in files if path.is_file()}
    assert found
    return found


@pytest.mark.e2e
def test_a_command_does_the_same_with_prefect_and_without(config_file, mmpca, connected, tmp_path, monkeypatch):
    code, printed, errors = mmpca("run", config_file, "--output", tmp_path / "flow")
    assert code == 0, errors
    assert connected == [1]
    code, plain, errors = mmpca("run", config_file, "--no-prefect", "--output", tmp_path / "plain")
    assert code == 0, errors
    monkeypatch.setenv("MMPCA_PREFECT", "off")
    assert mmpca("run", config_file, "--output", tmp_path / "off")[0] == 0
    assert connected == [1]
    stages = [[line.split()[1] for line in text.splitlines() if "✓" in line] for text in (printed, plain)]
    assert stages[0] == stages[1] and "project" in stages[0]
    assert written(tmp_path / "flow") == written(tmp_path / "plain") == written(tmp_path / "off")


def test_every_command_works_without_prefect(config_file, mmpca, no_server, tmp_path, monkeypatch):
    monkeypatch.setenv("MMPCA_PREFECT", "off")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(
        "a,b,c,d,label\n" + "".join(f"{i},{i * i % 7},1,{i % 3},{i % 2}\n" for i in range(30))
    )
    for arguments in (
        ["ingest", "rows.csv", "rows.zarr"],
        ["run", config_file, "--output", "run", "--set", "dataset.uri=rows.zarr", "--set", "methods=pca"],
        ["evaluate", config_file, "--output", "run", "--set", "dataset.uri=rows.zarr", "--set", "evaluation.folds=2"],
        ["transform", "run", "rows.zarr", "new"],
        ["refresh", "run", "rows.zarr", "live"],
    ):
        code, printed, errors = mmpca(*arguments)
        assert code == 0, (arguments, printed, errors)
    code, _, errors = mmpca("refresh", "run", "rows.zarr", "run")
    assert code == 2 and "Traceback" not in errors


@pytest.mark.e2e
def test_a_temporary_server_leaves_the_database_of_prefect_home_alone(config_file, tmp_path):
    """Two commands after another; that of the user is not made, opened or changed."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "prefect.db").write_bytes(b"the database of a server at work")
    for output in ("a", "b"):
        ran = in_process("run", config_file, "--output", tmp_path / output, PREFECT_HOME=home, TMPDIR=tmp_path)
        assert ran.returncode == 0 and "not receive" not in ran.stdout, ran.stdout + ran.stderr
    assert (home / "prefect.db").read_bytes() == b"the database of a server at work"
    assert sorted(path.name for path in home.glob("prefect.db*")) == ["prefect.db"]
    assert not list(tmp_path.glob("mmpca-prefect-*"))
