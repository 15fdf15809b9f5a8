"""Seconds to start: imports, the command's help, and the quickstart without Prefect, each as a new process."""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases.common import nothing
from benchmarks.harness import Case, Data, sized

QUICKSTART = Path(__file__).parents[2] / "conf" / "quickstart.yaml"


def python(_data: Data, *arguments: str, **more: str) -> Data:
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, *arguments], check=True, env={**os.environ, **more}, **quiet)
    return {}


def importing(data: Data, module: str) -> Data:
    return python(data, "-c", f"import {module}")


def mmpca(data: Data, command: str = "--help") -> Data:
    """Run the command; the quickstart into a new folder, and at the tiny size none."""
    with tempfile.TemporaryDirectory() as folder:
        run = ["run", "--no-prefect", str(QUICKSTART), "--output", f"{folder}/run"]
        return python(data, "-m", "mmpca_pipelines", *(run if command == data["runs"] else ["--help"]))


def completion(data: Data) -> Data:
    words = {"_MMPCA_COMPLETE": "bash_complete", "COMP_WORDS": "mmpca ru", "COMP_CWORD": "1"}
    return python(data, shutil.which("mmpca") or "", **words)


CASE = Case("start: a new process", nothing, sized("runs", ("",), ("quickstart",), ("quickstart",)))
CASE.add("import mmpca_dist", partial(importing, module="mmpca_dist"), "ours")
CASE.add("mmpca --help", mmpca, "own")
CASE.add("completion of a command", completion, "own")
CASE.add("mmpca run --no-prefect conf/quickstart.yaml", partial(mmpca, command="quickstart"), "own")
CASE.add("import numpy", partial(importing, module="numpy"))
CASE.add("import sklearn", partial(importing, module="sklearn"))
CASES = [CASE]
