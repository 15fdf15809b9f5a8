"""The front of the house: the version in one place, hooks, forms and the addresses of the project."""

import re
import subprocess
import tomllib

import pytest
import yaml
from helpers import ROOT
from helpers.docker import run, tool

import mmpca_dist

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECORDS = re.compile(r"CHANGELOG\.md|docs/benchmarks/|docker/.*\.lock|pyproject\.toml")
"""What tells of the past, or of other packages; and the place of the version."""


def test_the_version_stands_in_pyproject_alone():
    """An environment whose metadata are older is one that wants `pip install -e .`."""
    assert mmpca_dist.__version__ == PROJECT["version"]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("this is no checkout of git")
    named = re.compile(rf"(mmpca.dist|(?<!encoding-)version)[^\n\w]{{0,6}}{re.escape(PROJECT['version'])}\b")
    paths = [ROOT / name for name in listed.stdout.splitlines() if not RECORDS.match(name)]
    assert [path for path in paths if path.exists() and named.search(path.read_text("utf-8", "replace"))] == []


def test_every_hook_of_others_has_a_fixed_version():
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]:
        assert repository["repo"] == "local" or re.fullmatch(r"v\d+\.\d+\.\d+", repository["rev"])


@pytest.mark.parametrize(("schema", "path"), [
    ("dependabot", ".github/dependabot.yml"), ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
    ("github-issue-forms", ".github/ISSUE_TEMPLATE/idea.yml"), ("citation-file-format", "CITATION.cff"),
])  # fmt: skip
def test_the_schema_accepts_the_file(schema, path):
    checked = run(tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", str(ROOT / path))
    assert checked.returncode == 0, checked.stdout + checked.stderr
