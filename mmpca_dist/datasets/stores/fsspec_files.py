"""File systems of fsspec beyond a network, such as http, with retries."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mmpca_dist.datasets.stores import retries

LISTINGS = ("find", "ls")
PATTERNS = frozenset(["cat", "copy", "cp", "delete", "expand_path", "get", "glob", "move", "mv", "put", "rm"])
"""Operations of fsspec that take names for patterns, which may match the objects of others."""


class PatientFileSystem:
    """An fsspec file system that repeats operations while they fail for reasons that pass.

    Without encryption it lists until two listings agree.
    """

    def __init__(self, fs: Any, protocol: str) -> None:
        self._fs, self._protocol = fs, protocol

    @property
    def is_plain(self) -> bool:
        """Whether the connection is not encrypted."""
        return self._protocol == "http"

    def __getattr__(self, name: str) -> Any:
        if name in PATTERNS:
            raise AttributeError(f"{name} expands patterns in names; see mmpca_dist.datasets.stores.literal_names")
        attribute = getattr(self._fs, name)
        return functools.partial(self._patiently, name, attribute) if callable(attribute) else attribute

    def _patiently(self, name: str, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        what = f"{'list' if name in LISTINGS else name} {self._protocol}://{args[0]}" if args else name
        attempt = functools.partial(retries.patiently, what, functools.partial(method, *args, **options))
        return retries.agreed(what, attempt, lambda: self.is_plain) if name in LISTINGS else attempt()
