"""The examples in docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import mmpca_dist

ROOT = Path(mmpca_dist.__file__).parent
MODULES = [
    ".".join((ROOT.name, *path.relative_to(ROOT).with_suffix("").parts))
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text()
]


def test_there_are_examples():
    assert len(MODULES) > 20


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted and not done.failed
