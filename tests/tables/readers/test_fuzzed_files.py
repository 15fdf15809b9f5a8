"""Damaged files of every format end in rows or in one sentence; Hypothesis's profile ``fuzz`` damages many more."""

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
from helpers import examples
from helpers.tables import write
from hypothesis import given, settings
from hypothesis import strategies as st

from mmpca_dist import open_dataset
from mmpca_dist.errors import MmpcaError
from mmpca_dist.tables.memory_limits import within
from mmpca_dist.tables.source import readable

N = 40
X = np.arange(3.0 * N).reshape(N, 3) ** 1.5
Y = np.arange(N) % 2
EDITS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4)


@pytest.fixture(scope="module", params=["csr", "csv", "feather", "npz", "parquet", "zarr"])
def written(request, tmp_path_factory):
    """The address of a table, and the content of each of its files."""
    folder = tmp_path_factory.mktemp("fuzzed")
    if request.param == "feather":
        pa.feather.write_feather(pa.table({"a": X[:, 0], "b": X[:, 1], "label": Y}), folder / "t.feather", chunksize=9)
        address = folder / "t.feather"
    else:
        address = write(request.param, folder / "t", X, Y, names=["a", "b", "c"])
    return address, {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@settings(max_examples=examples(40))
@given(st.data(), EDITS, st.floats(0, 1) | st.just(1.0))
def test_a_damaged_file_ends_in_rows_or_in_one_sentence(written, data, edits, share):
    address, files = written
    path = data.draw(st.sampled_from(list(files)))
    damaged = bytearray(files[path])
    for place, value in edits:
        damaged[int(place * len(damaged))] = value
    path.write_bytes(damaged[: round(share * len(damaged))])
    try:
        with within(2**28, "the test's"), readable("rows"):
            found = open_dataset(address, label="label" if str(address).endswith("feather") else "y")
            rows, labels = found.read_rows(0, found.n_rows), found.read_labels(0, found.n_rows)
        assert len(rows) == len(labels) == found.n_rows
    except MmpcaError as error:
        assert "\n" not in str(error)
    finally:
        path.write_bytes(files[path])
