"""What spans of rows leave, as dataclasses of arrays that add up."""

from __future__ import annotations

from typing import Any, Self


class ArraySums:
    """Base of dataclasses that add up field by field: arrays and numbers; tuples item by item; lists end to end.

    A part that is None in one of both is None in the sum.
    """

    def __add__(self, other: Self) -> Self:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return type(self)(*(_added(left, right) for left, right in pairs))


def _added(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if isinstance(left, tuple):
        return tuple(_added(*pair) for pair in zip(left, right, strict=True))
    return left + right
