"""What type checkers see: parameters of estimators, and the types of what methods return."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_overloads

import pytest

from mmpca_dist import load_model
from mmpca_dist.jobs import finished_runs
from mmpca_dist.methods.base.registry import METHODS

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
TYPES = """
from typing import Any, assert_type
import numpy as np
from numpy.typing import NDArray
from mmpca_dist import FisherDiscriminant, GeneralizedDiscriminantAnalysis, MarginPCA, NystroemFeatures, load_model

X, y = np.eye(4), np.arange(4)
assert_type(MarginPCA(2, "pca", recall=0.9).fit(X, y).transform(X), NDArray[Any])
assert_type(FisherDiscriminant(shrinkage=0.1).fit_transform(X, y), NDArray[Any])
assert_type(NystroemFeatures(2).fit_transform(X), NDArray[Any])
assert_type(GeneralizedDiscriminantAnalysis(1, kernel="poly").fit(X, y).transform(X), NDArray[np.float64])
assert_type(load_model("runs/a", "fisher"), FisherDiscriminant)
MarginPCA(2, pairings="one-vs-one")
"""
"""The last line has a mistake."""


def by_mypy(folder, name):
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--output=json", name]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    # scikit-learn has no types that mypy knows
    return [(each["line"], each["message"]) for each in found if each["code"] != "import-untyped"]


def by_pyright(folder, name):
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", name]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    found = json.loads(ended.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    return [(each["range"]["start"]["line"] + 1, each["message"]) for each in found["generalDiagnostics"]]


@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_type_checkers_accept_the_readme_and_know_parameters_rows_and_models(check, tmp_path):
    assert BLOCKS
    code = "\n".join([*BLOCKS, TYPES])
    (tmp_path / "readme.py").write_text(code)
    ((line, message),) = check(tmp_path, "readme.py")
    assert line == code.count("\n") and "pairings" in message


def test_models_have_the_type_of_their_method():
    """Of all methods but families, which nothing outside of their folder names."""
    types = {}
    for overload in get_overloads(load_model):
        stated = eval(overload.__annotations__["method"], vars(finished_runs))  # noqa: S307  (of this project's own code)
        types |= dict.fromkeys(get_args(stated), overload.__annotations__["return"])
    single = [method for method in METHODS.values() if ".models." not in method.estimator.__module__]
    assert types == {method.name: method.estimator.__name__ for method in single}
