"""What blocks, units and spans of rows leave adds up field by field; blocks hold every row once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mmpca_dist.passes.array_sums import ArraySums, added
from mmpca_dist.passes.units import blocks


@dataclass(frozen=True)
class Parts(ArraySums):
    array: Any
    number: int
    several: tuple[Any, ...]
    samples: list[Any]
    absent: Any = None


def test_sums_are_those_of_every_field():
    inner = Parts(np.ones(2), 1, (), [])
    left, right = (Parts(np.full(2, k), k, (np.eye(2) * k, None, inner), [k], k - 1 or None) for k in (1, 2))
    total = left + right
    np.testing.assert_array_equal(total.array, [3, 3])
    np.testing.assert_array_equal(total.several[0], np.eye(2) * 3)
    assert (total.number, total.several[1], total.several[2].number) == (3, None, 2)
    assert (total.samples, total.absent) == ([1, 2], None)
    assert added((1, None), (2, 3)) == (3, None)


@pytest.mark.parametrize(("n_rows", "size"), [(0, 3), (1, 3), (6, 3), (7, 3)])
def test_blocks_hold_every_row_once_in_order(n_rows, size):
    rows = [row for block in blocks(n_rows, size) for row in range(block.start, block.stop)]
    assert rows == list(range(n_rows)) and all(block.stop - block.start <= size for block in blocks(n_rows, size))
