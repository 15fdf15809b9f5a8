"""Choices among values of a hyperparameter, and what to do where they end on an edge of what was tried."""

from __future__ import annotations

from collections.abc import Mapping

from mmpca_dist.finite import or_infinite

STEP = 10.0
"""Factor between values that are tried."""


def least(errors: Mapping[float, float]) -> float:
    """Return the value with the least errors, of equal ones the first; errors that are not finite are never least."""
    return min(errors, key=lambda value: float(or_infinite(errors[value])))


def beyond(errors: Mapping[float, float], largest: float) -> float | None:
    """Return the next value beyond the edge that errs least, at most ``largest``; None where no edge does."""
    best = least(errors)
    if best == max(errors):
        return best * STEP if best * STEP <= largest else None
    return best / STEP if best == min(errors) else None


def edge_remark(name: str, value: float, errors: Mapping[float, float], option: str) -> list[str]:
    """Say that a choice ended on an edge of the values that were tried, where it errs less than the value next to it.

    ``option`` is where further values can be given.
    """
    tried = sorted(errors)
    if len(tried) < 2 or value not in (tried[0], tried[-1]):
        return []
    neighbor, edge, further = (
        (tried[1], "smallest", "smaller") if value == tried[0] else (tried[-2], "largest", "larger")
    )
    if errors[neighbor] <= errors[value]:
        return []
    return [
        f"{name} = {value:g} errs least on rows held out, and is the {edge} value that was tried: {further} ones may "
        f"err less still. Give some in {option}."
    ]
