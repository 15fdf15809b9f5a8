"""The one ``+`` for what blocks, units and spans of rows leave."""

from __future__ import annotations

from typing import Any, Self


class ArraySums:
    """Base of dataclasses that add up field by field, as `added` does."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*added(tuple(vars(self).values()), tuple(vars(other).values())))


def added(left: Any, right: Any) -> Any:
    """Return the sum of arrays, numbers or sums of them: of tuples item by item, of lists end to end.

    A part that is None in one of both is None in the sum.
    """
    if left is None or right is None:
        return None
    if isinstance(left, tuple):
        return tuple(added(*pair) for pair in zip(left, right, strict=True))
    return left + right
