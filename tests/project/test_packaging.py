"""What is installed: configurations by name, packages under names of this project alone, and a complete sdist."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from helpers import ROOT

import mmpca_dist
from mmpca_dist.configuration import bundled
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.errors import ConfigError

IGNORED = shutil.ignore_patterns(".git", "*.egg-info", "build", "__pycache__", ".*_cache")
BUILD = "from setuptools import build_meta as b; import sys; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The wheel and the source distribution of the checkout, the wheel built from the latter."""
    if not (ROOT / "MANIFEST.in").exists():
        pytest.skip("this is no checkout")
    folder = tmp_path_factory.mktemp("distributions")
    shutil.copytree(ROOT, folder / "checkout", ignore=IGNORED)

    def build(kind, source):
        ended = subprocess.run(
            [sys.executable, "-P", "-c", BUILD, kind, str(folder)], cwd=source, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return folder / ended.stdout.splitlines()[-1]

    sdist = build("sdist", folder / "checkout")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return sdist, build("wheel", folder / sdist.name.removesuffix(".tar.gz"))


def test_the_wheel_holds_every_module_and_configuration_and_no_name_of_others(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = set(wheel.namelist())
    moved = {
        "mmpca_dist": "mmpca_dist", "pipelines": "mmpca_pipelines", "conf": "mmpca_dist/conf",
        "benchmarks/paper": "mmpca_paper",
    }  # fmt: skip
    for folder, installed in moved.items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".pyi", ".yaml", ".html", ".js", ".json", ".csv", ".typed"):
                assert f"{installed}/{path.relative_to(ROOT / folder).as_posix()}" in names
    tops = {name.split("/")[0] for name in names}
    assert {name for name in tops if not name.endswith(".dist-info")} == {
        "mmpca_dist",
        "mmpca_pipelines",
        "mmpca_paper",
    }


def test_the_source_distribution_holds_what_its_tests_read(distributions):
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode != 0:
        pytest.skip("this is no checkout of git")
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {name for name in tracked.stdout.splitlines() if (ROOT / name).exists() and name != ".gitignore"}
    assert not needed - names


@pytest.mark.slow
def test_the_installed_wheel_serves_in_an_empty_folder(distributions, tmp_path):
    """A configuration goes by its name, and foreign packages in the working directory do no harm."""
    with zipfile.ZipFile(distributions[1]) as wheel:
        wheel.extractall(tmp_path / "site")  # noqa: S202  (just built)
    work = tmp_path / "work"
    for name in ("pipelines", "conf", "mmpca_pipelines"):
        (work / name).mkdir(parents=True)
        (work / name / "__init__.py").write_text("raise SystemExit('a stranger was imported')")
    code = "import sys; from mmpca_pipelines.__main__ import main; sys.argv[0] = 'mmpca'; main()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PREFECT_HOME": str(tmp_path / "prefect")}
    environment.pop("PREFECT_API_URL", None)

    def mmpca(*words):
        command = [sys.executable, "-P", "-c", code, *words]
        ended = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert "quickstart" in mmpca("config", "--list").split()
    assert mmpca("config", "prefect", "--path").strip() == str(tmp_path / "site/mmpca_dist/conf/prefect.yaml")
    mmpca("run", "evaluate", "--set", "methods=[pca]", "--output", "out")
    assert (work / "out" / "report" / "index.html").exists()


def test_bundled_configurations_go_by_name(tmp_path, monkeypatch):
    """Unless a file is called so; a folder, such as the output of an earlier run, is no configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evaluate").mkdir()
    for name in bundled.run_names():
        assert load_config(name) == load_config(ROOT / "conf" / f"{name}.yaml")
    content = yaml.safe_load(bundled.path_of("quickstart").read_text())
    (tmp_path / "quickstart").write_text(yaml.safe_dump({**content, "n_components": [3]}))
    assert load_config("quickstart").n_components == [3]
    for name in bundled.OPERATIONS:
        with pytest.raises(ConfigError, match=f"^{name} is a file for Prefect, not .*: see 'mmpca config {name}'"):
            load_config(name)


@pytest.mark.parametrize("name", ["quickstrat", "../conf/quickstart", "/quickstart", "prefcet"])
def test_a_name_that_is_no_name_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"There is no configuration {name};") as caught:
        load_config(name)
    assert ("Did you mean 'quickstart'?" in str(caught.value)) is (name != "prefcet")


def test_every_package_is_installed_and_every_folder_of_configurations():
    """Guards the lists in setup.py."""
    text = (ROOT / "setup.py").read_text()
    listed = set(re.findall(r'"mmpca_dist\.conf[\w.]*": "([\w/]+)"', text))
    assert listed == {p.parent.relative_to(ROOT).as_posix() for p in (ROOT / "conf").rglob("*.yaml")}


def test_the_pipelines_are_importable_under_a_name_of_this_project():
    assert Path(importlib.util.find_spec("mmpca_pipelines").origin).parent.name in ("pipelines", "mmpca_pipelines")
    assert Path(mmpca_dist.__file__).parent.name == "mmpca_dist"
