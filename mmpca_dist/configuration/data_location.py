"""Locate the data set of a configuration: an address, or a file in a folder that a variable may name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage

VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))")
"""An environment variable at the beginning of a folder."""
KNOWN_VARIABLE = re.compile(r"MMPCA_DATA\w*|HOME")
"""A configuration may come from a stranger, and other variables may hold secrets."""


def located(section: DatasetConfig) -> str:
    """Return the address of a data set; raise InputError where its folder is not known, or the file is not in it."""
    if section.data_dir is None or ":" in section.uri or Path(section.uri).is_absolute():  # an address, or a name
        return section.uri
    if ".." in re.split(r"[/\\]", unquote(section.uri)):
        raise InputError(
            f"dataset.uri is {section.uri}, which leaves the folder of dataset.data_dir. Name a file within it."
        )
    uri = storage.join(_expanded(section.data_dir), section.uri)
    if not storage.exists(uri):
        raise InputError(
            f"There is no {uri}, in the folder of dataset.data_dir. Put it there, or name another folder (--set "
            "dataset.data_dir=DIR)."
        )
    return uri


def _expanded(folder: str) -> str:
    variable = VARIABLE.match(folder)
    if variable is None:
        return storage.normalize(folder)
    name = variable["braced"] or variable["plain"]
    if not KNOWN_VARIABLE.fullmatch(name):
        raise InputError(
            f"dataset.data_dir is {folder}, and of environment variables only HOME and those that begin with "
            "MMPCA_DATA stand for folders. Rename it, or give the folder itself (--set dataset.data_dir=DIR)."
        )
    if not os.environ.get(name):
        raise InputError(
            f"dataset.data_dir is {folder}, and the environment variable {name} is not set. Set it to the folder of "
            "the data sets, or give the folder itself (--set dataset.data_dir=DIR)."
        )
    return storage.normalize(os.environ[name] + folder[variable.end() :])
