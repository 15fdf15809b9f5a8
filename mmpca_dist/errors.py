"""Errors a user can act on: each names what was found, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class MmpcaError(Exception):
    """Base of every error this library raises on purpose."""


class InputError(MmpcaError, ValueError):
    """The data set, or an argument that describes it, cannot be used as it is."""


class AccessError(InputError):
    """Something cannot be reached, read or written at present: a disk, a network or a store fails."""


class ClusterError(AccessError):
    """The cluster that did the work is gone, or its workers die."""


class ConfigError(MmpcaError, ValueError):
    """A run's configuration is not valid."""


class PlanError(MmpcaError, MemoryError):
    """The plan needs more memory or disk than it is allowed."""


class OutputError(MmpcaError, FileExistsError):
    """The output holds something that must not be overwritten."""


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest known name, or an empty string."""
    close = difflib.get_close_matches(found, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


MOST_NAMES = 10
"""So many names a message lists; tables may have thousands of columns."""


def some_names(names: Sequence[str]) -> str:
    """Return the first names, quoted, and how many there are where not all are listed."""
    listed = ", ".join(repr(name) for name in names[:MOST_NAMES])
    return listed if len(names) <= MOST_NAMES else f"{listed}, ... ({len(names)} in all)"
