"""Nearest rows of other classes: cells, proved bounds, and a search that never needs the data in memory."""

from __future__ import annotations

from typing import Any

__all__ = ["NearestOpposite"]


def __getattr__(name: str) -> Any:
    # Its inner loops are compiled: whoever does not search need not wait for the compiler to be imported.
    if name == "NearestOpposite":
        from mmpca_dist.neighbors.front import NearestOpposite

        return NearestOpposite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
