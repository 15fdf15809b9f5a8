"""Rows straight from ``da.from_zarr`` are read into reused buffers: skipped work, never another result."""

import dask.array as da
import numpy as np
import pytest
import zarr

from mmpca_dist import class_moments, open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.passes.dask_rows import dask_rows

N, D = 120, 5


@pytest.fixture(params=["plain", "zstd", "sharded"])
def store(request, tmp_path):
    options = {
        "plain": {"compressors": None, "chunks": (20, D)},
        "zstd": {"compressors": [zarr.codecs.ZstdCodec()], "chunks": (20, D)},
        "sharded": {"compressors": None, "chunks": (10, D), "shards": (20, D)},
    }[request.param]
    rng = np.random.default_rng(0)
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    X = group.create_array("X", shape=(N, D), dtype="f4", **options)
    X[...] = rng.standard_normal((N, D)) + 7
    y = group.create_array("y", shape=(N,), chunks=(20,), dtype="i2")
    y[...] = rng.integers(3, size=N)
    return str(tmp_path / "a.zarr")


def arrays(store):
    return da.from_zarr(store, component="X"), da.from_zarr(store, component="y")


def test_the_same_bits_by_the_short_way_by_blocks_and_from_the_data_set(store):
    X, y = arrays(store)
    by_blocks = X + np.float32(0)
    assert dask_rows(X, y)[1].stored is not None
    assert dask_rows(by_blocks, y)[1].stored is None
    short = class_moments(X, y)
    for other in (class_moments(by_blocks, y), class_moments(open_dataset(store))):
        np.testing.assert_array_equal(short.scatters, other.scatters)
        np.testing.assert_array_equal(short.means, other.means)


@pytest.mark.parametrize("change", [lambda X: X[1:], lambda X: X[::-1], lambda X: X * 2, lambda X: X.rechunk((30, D))])
def test_whatever_was_done_to_the_array_goes_by_its_blocks(store, change):
    """An array that is not the stored one any more must not be read from the store."""
    X, y = arrays(store)
    changed = change(X)
    labels = np.asarray(y)[: len(changed)]
    assert dask_rows(changed, labels)[1].stored is None
    expected = class_moments(changed.compute(), labels, precision="double")
    found = class_moments(changed, labels, precision="double")
    np.testing.assert_allclose(found.scatters, expected.scatters, rtol=1e-12)
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-12)


def test_a_value_that_is_not_finite_is_named_by_its_row(store):
    zarr.open_array(f"{store}/X", mode="r+")[77, 3] = np.nan
    with pytest.raises(InputError, match=r"nan in row 77, column 3, in rows 60 to 79"):
        class_moments(*arrays(store))
