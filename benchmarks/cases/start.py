"""Seconds to start: imports, the command's help, and the quickstart without Prefect, each as a new process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.cases.moments import nothing
from benchmarks.harness import Case, Data

QUICKSTART = Path(__file__).parents[2] / "conf" / "quickstart.yaml"
COMMAND = ("-m", "mmpca_pipelines")


def python(_data: Data, arguments: tuple[str, ...]) -> Data:
    """Run Python with these arguments."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {}


def quickstart(data: Data) -> Data:
    """Run the quickstart into a new folder, or plan it."""
    if data["command"] == "plan":
        return python({}, (*COMMAND, "plan", str(QUICKSTART)))
    with tempfile.TemporaryDirectory() as folder:
        return python({}, (*COMMAND, "run", "--no-prefect", str(QUICKSTART), "--output", f"{folder}/run"))


def cases() -> list[Case]:
    """Return the cases of this theme."""
    sizes = {"tiny": {"command": "plan"}, "usual": {"command": "run"}, "full": {"command": "run"}}
    case = Case("start: a new process", nothing, sizes)
    case.add("import mmpca_dist", partial(python, arguments=("-c", "import mmpca_dist")), "ours")
    case.add("mmpca --help", partial(python, arguments=(*COMMAND, "--help")), "own")
    case.add("mmpca run --no-prefect conf/quickstart.yaml", quickstart, "own")
    case.add("import numpy", partial(python, arguments=("-c", "import numpy")))
    case.add("import sklearn", partial(python, arguments=("-c", "import sklearn")))
    return [case]
