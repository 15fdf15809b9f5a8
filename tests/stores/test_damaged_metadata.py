"""Metadata that come damaged over a network are read again before they count as damaged."""

import numpy as np
import pandas as pd
import pytest
from helpers.remote_runs import ingested_table

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage


@pytest.fixture
def table(bucket, tmp_path):
    return ingested_table(bucket, tmp_path)


def read(table):
    dataset = open_dataset(table)
    return dataset.read_rows(0, dataset.n_rows)


@pytest.mark.e2e
def test_half_a_body_of_any_metadata(table, bucket, s3_proxy, limits):
    limits.first_pause = 0.02
    expected = read(table)
    s3_proxy.reset()
    read(table)
    numbers = [i for i, (verb, path) in enumerate(s3_proxy.calls) if verb == "GET" and path.endswith("zarr.json")]
    assert len(numbers) >= 3
    for number in numbers:
        s3_proxy.reset({number: "half"})
        np.testing.assert_array_equal(read(table), expected)
        assert s3_proxy.applied


def test_half_a_footer(bucket, s3_proxy, limits, tmp_path):
    limits.first_pause = 0.02
    pd.DataFrame({"a": np.arange(50.0), "label": np.arange(50) % 2}).to_parquet(tmp_path / "t.parquet")
    storage.write_bytes(f"{bucket}/t.parquet", (tmp_path / "t.parquet").read_bytes())
    s3_proxy.reset()
    expected = read(f"{bucket}/t.parquet")
    numbers = [i for i, (verb, path) in enumerate(s3_proxy.calls) if verb == "GET" and path.endswith("t.parquet")]
    for number in numbers:
        s3_proxy.reset({number: "half"})
        np.testing.assert_array_equal(read(f"{bucket}/t.parquet"), expected)


def test_metadata_that_stay_damaged_are_said_so_without_the_words_of_a_client(table, s3_proxy, limits):
    limits.first_pause = 0.02
    fs, path = storage.filesystem(f"{table}/zarr.json")
    fs.pipe_file(path, fs.cat_file(path)[:40])
    with pytest.raises(InputError, match="Cannot read") as refused:
        read(table)
    assert s3_proxy.url not in str(refused.value)
