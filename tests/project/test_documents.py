"""What the documents print is run, examples in docstrings too, and the code that they name exists."""

import ast
import doctest
import importlib
import os
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from helpers import ROOT
from sklearn.datasets import load_digits

import mmpca_dist

PAGES = {
    page.name: page for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
SHELL, PYTHON, SHOWN = {"sh", "console", "bash"}, {"python", "py"}, {"yaml", "text", "toml"}
SERVERS = "needs servers: tests/project/test_workflows.py and tests/pipelines/test_operations.py start some"
PUBLISHED = "needs published data: tests of the tables look for them in MMPCA_DATA"
NOT_RUN = {
    "README.md": {"pip install": "needs an empty environment: .ci/run has one", "mmpca check kddcup99": PUBLISHED},
    "command-line.md": {"eval": "is for start-up files of shells: tests/pipelines/test_scripts.py completes"},
    "CONTRIBUTING.md": {"": "sets up a checkout: .ci/run does"},
    "belonging.md": {"": "names the reader's own rows: tests/belonging makes some for all of the commands"},
    "cells.md": {"merged = cells.merge": "goes on from the block before: tests/statistics/test_cells.py has all"},
    "export.md": {"Y = (X - m": "goes on from rows of the reader's own: tests/runs/test_exported_scores.py has some"},
    "bm2pca.md": {"mmpca evaluate conf/paper": PUBLISHED, "import os": PUBLISHED},
    "benchmarks.md": {"pip install": "takes an hour: tests/project/test_benchmarks.py runs tiny sizes"},
    "paper.md": {"": PUBLISHED},
    "projection-penalties-tables.md": {"": PUBLISHED},
    "data.md": {"import zarr\n\ncube": "needs a cube of pixels: tests/tables/readers/test_zarr_cubes.py has some"},
    "docker.md": {"": "needs Docker: tests/project/test_docker.py and tests/project/test_stack.py read its files"},
    "messy-tables.md": {"mmpca check kddcup99": PUBLISHED},
    "laptop-to-cluster.md": {
        "mmpca plan my.yaml --set": "takes 8 GiB and minutes: larger-than-memory.md runs a smaller one",
        "kill -9": "kills what is left out: tests/runs/test_chaos.py kills runs",
        **dict.fromkeys(
            ["pip install '.[s3]'", "export AWS", "dask ", "mmpca run my.yaml --set", "prefect ", "export PREFECT"],
            SERVERS,
        ),
        "mmpca ingest table.csv s3": SERVERS,
    },
    "object-storage.md": {"": SERVERS},
    "operations.md": {**dict.fromkeys(["prefect ", "export "], SERVERS), "mmpca config notifications": SERVERS},
}
"""What no test runs as printed, by how a block of a page begins, and why."""
EARLY = {"README.md", "messy-tables.md"}


@cache
def blocks(page):
    """Return the kinds and texts of a page's blocks that are run."""
    left_out = tuple(NOT_RUN.get(page, ()))
    return [
        (kind, text)
        for kind, text in BLOCK.findall(PAGES[page].read_text())
        if kind not in SHOWN and not text.startswith(left_out)
    ]


@pytest.fixture
def folder(tmp_path):
    """A folder with what the documents call by names that stand for the reader's own."""
    copytree(ROOT / "conf", tmp_path / "conf")
    rows = load_digits(as_frame=True).frame.rename(columns={"target": "species"})
    rows[:600].assign(id=range(600), patient=np.arange(600) // 3).to_csv(tmp_path / "table.csv", index=False)
    rows[600:900].drop(columns="species").to_parquet(tmp_path / "new_rows.parquet")
    (tmp_path / "inbox").mkdir()
    rows[900:1200].to_parquet(tmp_path / "inbox" / "monday.parquet")
    (tmp_path / "news.libsvm").write_text("1 3:1 900:2\n0 1:2\n1 2:1 900:1\n0 5:1\n")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "mmpca").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mmpca_pipelines "$@"\n')
    (commands / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for command in commands.iterdir():
        command.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("page", [
    pytest.param(page, marks=pytest.mark.e2e if page in EARLY else pytest.mark.slow)
    for page in PAGES
    if blocks(page)
])  # fmt: skip
def test_a_page_does_what_it_prints(page, folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    environment |= {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "MMPCA_PREFECT": "off", "COLUMNS": "80"}
    environment["PREFECT_HOME"] = str(folder / "prefect")
    for number, (kind, text) in enumerate(blocks(page)):
        if "import anndata" in text and find_spec("anndata") is None:
            pytest.skip("the rest of the page needs anndata, which has no version for this Python")
        command = ["bash", "-euo", "pipefail", "-c"]
        if kind in PYTHON:  # from a file, as worker processes read it again
            (folder / f"block{number}.py").write_text(text)
            command, text = [sys.executable], f"block{number}.py"
        ended = subprocess.run(
            [*command, text], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        assert ended.returncode == 0, f"{text}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"


def test_what_is_not_run_is_listed():
    """Every exception is of a block, and every block is of a kind that is run, or only shown."""
    for page, path in PAGES.items():
        found = BLOCK.findall(path.read_text())
        assert {kind for kind, _ in found} <= SHELL | PYTHON | SHOWN, page
        for beginning in NOT_RUN.get(page, ()):
            assert any(text.startswith(beginning) for kind, text in found if kind not in SHOWN), (page, beginning)
    assert set(NOT_RUN) <= set(PAGES)


PACKAGE = Path(mmpca_dist.__file__).parent
MODULES = [
    ".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]


def test_there_are_examples():
    assert len(MODULES) > 20


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted and not done.failed


NAMED = {
    "CONTRIBUTING.md": (40, 20),
    "docs/design.md": (80, 60),
    "docs/proofs.md": (4, 7),
    "docs/search.md": (7, 6),
    "docs/solvers.md": (5, 5),
    "docs/trust.md": (20, 0),
}
"""At least so many files and functions are named in each page, which guards the patterns below."""
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:[\w.-]+/)+(?:[\w.-]+\.\w+)?|[\w-]+\.(?:py|md|toml|cff|html|pyi)")
NAMES_IN = re.compile(r"((?:`[\w.]+`(?:,|,? and|,? or)\s+)*`[\w.]+`)\s+(?:\([^()]*\)\s+)?in\s+`([\w/.-]+\.pyi?)`")
DIAGRAM = re.compile(r"^  [│├└].*$", re.M)


def located(path):
    """Return a file or folder that a page names, relative to the library or to the repository."""
    return next((root / path for root in (ROOT / "mmpca_dist", ROOT) if (root / path).exists()), None)


@cache
def defined_in(path):
    """Return the names that a file defines at its level, and in its classes as ``Class.name``."""
    names = set()

    def add(body, prefix):
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names.update(prefix + name.id for target in targets for name in ast.walk(target) if hasattr(name, "id"))
            if isinstance(node, ast.ClassDef):
                add(node.body, f"{prefix}{node.name}.")

    add(ast.parse(path.read_text()).body, "")
    return names


@pytest.mark.parametrize("page", NAMED)
def test_every_file_exists(page):
    text = (ROOT / page).read_text()
    drawn = [word.rstrip(",") for line in DIAGRAM.findall(text) for word in line.split() if word.endswith(".py")]
    paths = [name for name in CODE.findall(text) if FILE.fullmatch(name)]
    assert len(drawn) + len(paths) >= NAMED[page][0]
    missing = [path for path in [*drawn, *paths] if located(path) is None]
    assert not missing, f"{page}: {missing}"


@pytest.mark.parametrize("page", NAMED)
def test_every_function_is_in_its_file(page):
    named = [
        (name, path) for names, path in NAMES_IN.findall((ROOT / page).read_text()) for name in CODE.findall(names)
    ]
    assert len(named) >= NAMED[page][1]
    for name, path in named:
        file = located(path)
        assert file is not None and name in defined_in(file), f"{page}: `{name}` in `{path}`"


def test_a_name_that_is_gone_would_be_seen():
    """Guards the tests above."""
    assert NAMES_IN.findall("`Plan.rows` and `Gone`\nin `planning/plan.py`") == [
        ("`Plan.rows` and `Gone`", "planning/plan.py")
    ]
    plan = defined_in(located("planning/plan.py"))
    assert "Plan.rows" in plan and "Gone" not in plan
    assert located("planning/gone.py") is None
