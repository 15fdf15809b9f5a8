"""The workflows, as far as they can be checked where they do not run."""

import tomllib

import pytest
import yaml
from helpers import ROOT
from helpers.docker import run, tool

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_schema_of_workflows_accepts_the_file(path):
    checked = run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(path))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_matrix_is_what_the_project_supports():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    listed = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name]
    assert jobs["tests"]["strategy"] == jobs["lowest"]["strategy"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == listed
    assert jobs["tests"]["steps"][-1] == {"run": ".ci/run ${{ matrix.python }}"}
    assert PROJECT["requires-python"] == f">={listed[0]}"
    assert f"SUPPORTED=({' '.join(listed)})" in (ROOT / ".ci" / "run").read_text()
