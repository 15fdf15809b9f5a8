"""What type checkers of users see: signatures, and the types of what methods return."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_overloads

import pytest

from mmpca_dist import load_model
from mmpca_dist.methods.registry import METHODS

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
TYPES = """
import numpy as np
from mmpca_dist import FisherDiscriminant, GeneralizedDiscriminantAnalysis, MarginPCA, NystroemFeatures, load_model

X, y = np.eye(4), np.arange(4)
reveal_type(MarginPCA(2, "pca", recall=0.9).fit(X, y).transform(X))
reveal_type(FisherDiscriminant(shrinkage=0.1).fit_transform(X, y))
reveal_type(GeneralizedDiscriminantAnalysis(1, kernel="poly").fit(X, y).transform(X))
reveal_type(NystroemFeatures(2).fit_transform(X))
reveal_type(MarginPCA(2).pairing)
reveal_type(load_model("runs/a", "fisher"))
MarginPCA(2, pairings="one-vs-one")
"""
"""Its last line has a mistake in it."""


def by_mypy(folder, name):
    """Return what mypy says of a file with the settings of nobody in particular, a line a message."""
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", name]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    return [line for line in ended.stdout.splitlines() if line.startswith(name) and "import-untyped" not in line]


def by_pyright(folder, name):
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [Path(sys.executable).with_name("basedpyright"), "--outputjson", "--pythonpath", sys.executable, name]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    found = json.loads(ended.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    return [f"{name}:{each['range']['start']['line'] + 1}: {each['message']}" for each in found["generalDiagnostics"]]


CHECKERS = [by_mypy, by_pyright]


@pytest.mark.parametrize("check", CHECKERS)
def test_type_checkers_accept_the_python_of_the_readme(check, tmp_path):
    assert BLOCKS
    (tmp_path / "readme.py").write_text("\n".join(BLOCKS))
    assert check(tmp_path, "readme.py") == []
