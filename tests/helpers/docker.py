"""Lock files of the image, and the tools that build it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LOCKS = {"3.11": "requirements.lock", "3.13": "requirements-3.13.lock"}


def tool(name):
    """Find a command beside this Python or on the path; skip the test where there is none."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
