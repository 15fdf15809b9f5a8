"""Read headers of NumPy files safely from several threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

READINGS = 20


def read_again(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function that reads headers do so again where the parser fails.

    Python's parser (3.11 and 3.12) counts how deep it is once for all threads. Where garbage is collected as it works,
    another thread may parse in between, and then it raises a SystemError, "AST constructor recursion depth mismatch",
    for text that is sound.
    """

    @functools.wraps(function)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(READINGS - 1):
            try:
                return function(*args, **kwargs)
            except SystemError:
                continue
        return function(*args, **kwargs)

    return reading
