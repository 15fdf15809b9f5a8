"""``mmpca`` in a process of its own, without the settings of Prefect that the tests have."""

import os
import subprocess
import sys

ALONE = [sys.executable, "-c", "import sys; from mmpca_pipelines.__main__ import main; sys.argv[0] = 'mmpca'; main()"]


def without_prefect(**more):
    """Return the environment without settings of Prefect, and with others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MMPCA_PREFECT"))}
    return {**kept, **{name: str(value) for name, value in more.items()}}


def in_process(*arguments, code=ALONE, cwd=None, **more):
    """Run a command, or other Python, and return how it ended and what it printed."""
    command, environment = [*code, *map(str, arguments)], without_prefect(**more)
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500)
