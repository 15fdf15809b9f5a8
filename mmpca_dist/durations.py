"""Times in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def time_left(seconds: float) -> str:
    """Return how long something takes still, in words."""
    return f"{'about ' if seconds >= 1 else ''}{duration(seconds)} left"
