"""``Mergeable``: methods of estimators that are there where statistics merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Mergeable:
    """A method that an estimator has where statistics merge; elsewhere looking it up says why it is not there."""

    def __init__(self, method: Callable) -> None:
        self._method = method

    def __get__(self, reducer: Any, owner: type | None = None) -> Any:
        if reducer is not None and reducer._unmergeable is not None:
            raise AttributeError(f"There is no {self._method.__name__}: {reducer._unmergeable}.")
        return self._method.__get__(reducer, owner)
