"""What passes leave survives a disk bit by bit, without pickle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mmpca_dist.neighbors.search import SearchCounts
from mmpca_dist.passes.serialization import decode, encode, is_contiguous, size_of
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.scatter_operator import Sums


def same(a, b):
    """Tell whether two values are the same in every bit and type."""
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)
    if isinstance(a, float):
        return type(b) is float and (a == b or (np.isnan(a) and np.isnan(b)))
    return type(a) is type(b) and a == b


ARRAYS = hnp.arrays(
    st.sampled_from(["f4", "f8", "i8", "u2", "?", "U3"]), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)
)
PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.floats() | ARRAYS
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.lists(inner).map(tuple))


@given(VALUES)
def test_values_come_back_bit_by_bit(value):
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize("value", [np.float32(0.1), np.int64(-3), -0.0, float("inf"), {1: (2, "x"), "k": np.eye(2)}])
def test_scalars_keep_their_types(value):
    assert same(decode(encode(value)), value)


def test_dataclasses_of_passes():
    moments = ClassMoments(
        np.array(["a", "bc"]), np.array([3.0, 4.0]), np.array([3, 4]), np.eye(2), np.ones((2, 2, 2)), np.eye(2)
    )
    for value in ((moments, None), SearchCounts(1, 2, 3), (moments, [Sums((np.eye(2),), np.eye(2))])):
        assert same(decode(encode(value)), value)


def test_arrays_in_the_order_of_fortran_stay_so():
    assert decode(encode(np.asfortranarray(np.eye(3)))).flags.f_contiguous
    assert is_contiguous((np.eye(3), np.asfortranarray(np.eye(3))))
    assert not is_contiguous((np.eye(3), np.eye(4)[::2]))
    assert size_of((np.eye(3), {"x": np.zeros(5, np.float32)}, 7)) == 9 * 8 + 5 * 4


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([object()]), np.array([1 + 2j])])
def test_other_things_are_not_stored(value):
    with pytest.raises(TypeError, match="cannot be stored"):
        encode(value)


def test_damaged_bytes_are_found():
    data = bytes(encode(np.arange(1000.0)))
    for position in range(0, len(data), 97):
        broken = bytearray(data)
        broken[position] ^= 0x10
        try:
            found = decode(bytes(broken))
        except ValueError as error:
            assert "damaged" in str(error)
        else:  # a bit of the archive's own bookkeeping that matters to nobody
            np.testing.assert_array_equal(found, np.arange(1000.0))
    with pytest.raises(ValueError, match="damaged"):
        decode(data[: len(data) // 2])


def test_classes_of_other_packages_are_not_looked_for():
    data = bytes(encode(SearchCounts()))
    assert b"mmpca_dist.neighbors.search:SearchCounts" in data
    with pytest.raises(ValueError, match="damaged"):
        decode(data.replace(b"mmpca_dist.neighbors.search:SearchCounts", b"subprocess.dist.search.X:xxPopen"))
