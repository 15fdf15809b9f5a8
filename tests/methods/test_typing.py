"""What type checkers see: parameters of estimators, and the types of what methods return."""

import ast
import json
import os
import re
import subprocess
import sys

import pytest
from helpers import ROOT

from mmpca_dist.methods.base.registry import METHODS

pytestmark = pytest.mark.e2e

BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
TYPES = """
from typing import Any, assert_type
import numpy as np
from numpy.typing import NDArray
from mmpca_dist import BayesianMarginPCA, FisherDiscriminant, GeneralizedDiscriminantAnalysis, MarginPCA
from mmpca_dist import NystroemFeatures, ProjectionPenaltyClassifier, ReductionDisplay, evaluate, load_model, run
from mmpca_dist.runs.outcomes import FinishedEvaluation, FinishedRun

X, y = np.eye(4), np.arange(4)
assert_type(MarginPCA(2, "pca", recall=0.9).fit(X, y).transform(X), NDArray[Any])
assert_type(FisherDiscriminant(shrinkage=0.1).fit_transform(X, y), NDArray[Any])
assert_type(NystroemFeatures(2).fit_transform(X), NDArray[Any])
assert_type(GeneralizedDiscriminantAnalysis(1, kernel="poly").fit(X, y).transform(X), NDArray[np.float64])
assert_type(load_model("runs/a", "fisher"), FisherDiscriminant)
assert_type(load_model("runs/a", "bm2pca", n_components=2), BayesianMarginPCA)
assert_type(load_model("runs/a", "projection-penalty"), ProjectionPenaltyClassifier)
assert_type(evaluate(X, y, folds=3), FinishedEvaluation)
assert_type(run("quickstart"), FinishedRun)
assert_type(ReductionDisplay.from_estimator(FisherDiscriminant(), X, y), ReductionDisplay)
assert_type(model, MarginPCA)  # of the README
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
    stub = ast.parse((ROOT / "mmpca_dist" / "__init__.pyi").read_text())
    types = {}
    for overload in (node for node in stub.body if isinstance(node, ast.FunctionDef)):
        literals = re.findall(r"'([^']+)'", ast.unparse(overload.args.args[1].annotation))
        types |= dict.fromkeys(literals, ast.unparse(overload.returns))
    assert types == {method.name: method.estimator.__name__ for method in METHODS.values()}
