"""Objects found and deleted by their exact names: ``*``, ``?`` and ``[..]`` are legal in names, and fsspec's ``rm``
takes them for patterns, which match the objects of others."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

THREADS = 16
"""Objects are deleted one by one, so that a refused deletion is an error, and so many at once."""


def objects_at(fs: Any, path: str) -> dict[str, dict[str, Any]]:
    """Return the file at ``path``, or all files below that folder, by their names in the file system.

    Stores list names that begin with a prefix, so ``x`` may also list ``x1``: those are left out.
    """
    root = path.rstrip("/")
    return {name: info for name, info in fs.find(path, detail=True).items() if _is_below(name, root)}


def _is_below(name: str, root: str) -> bool:
    return name == root or name.startswith(f"{root}/")


def remove(fs: Any, path: str, has_folders: bool) -> None:
    """Delete the file at ``path``, or that folder with all that is in it, if it is there.

    Parameters
    ----------
    fs : file system of fsspec
    path : str
    has_folders : bool
        Whether folders exist by themselves; in object stores they are only parts of names.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        for done in pool.map(functools.partial(_remove_file, fs), objects_at(fs, path)):
            assert done is None  # noqa: S101  (raises what a thread has raised)
    if has_folders and fs.isdir(path):
        entries = fs.find(path, withdirs=True, detail=True)
        folders = {name for name, info in entries.items() if info["type"] == "directory" and _is_below(name, path)}
        for folder in sorted(folders | {path}, reverse=True):
            fs.rmdir(folder)


def _remove_file(fs: Any, path: str) -> None:
    with suppress(FileNotFoundError):  # another process was faster, or the answer of a first attempt was lost
        fs.rm_file(path)
