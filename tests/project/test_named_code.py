"""The pages that name files and functions of the code name those that exist."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from helpers import ROOT

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
