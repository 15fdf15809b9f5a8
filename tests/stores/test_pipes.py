"""What is neither a file nor a folder is refused by name: to read it would wait for ever."""

import os

import numpy as np
import pytest
import zarr

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.runs.listing import find_runs


def stored(path, **options):
    group = zarr.open_group(path, mode="w", **options)
    group.create_array("X", data=np.ones((6, 2)), chunks=(2, 2))
    group.create_array("y", data=np.arange(6) % 2)


@pytest.mark.parametrize(
    ("version", "name"),
    [(3, "zarr.json"), (3, "X/zarr.json"), (3, "y/zarr.json"), (3, "X/c/1/0"), (3, "y/c/0"), (2, "X/.zarray"),
     (2, ".zgroup"), (2, "X/0.0")],
)  # fmt: skip
@pytest.mark.parametrize("missing_chunks", [None, "fill"])
def test_a_pipe_in_a_zarr_group(tmp_path, version, name, missing_chunks):
    stored(tmp_path / "t.zarr", zarr_format=version)
    (tmp_path / "t.zarr" / name).unlink()
    os.mkfifo(tmp_path / "t.zarr" / name)
    with pytest.raises(InputError, match=f"{name} is neither a file nor a folder"):
        open_dataset(tmp_path / "t.zarr", missing_chunks=missing_chunks)


@pytest.mark.parametrize("name", ["t.parquet", "t.npz", "t.npy", "t.h5ad", "t.arrow", "folder/t.parquet"])
def test_a_pipe_in_the_place_of_a_file(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    for pipe in (name, "run.json"):
        os.mkfifo(tmp_path / pipe)
    np.save(tmp_path / "y.npy", np.arange(2))
    label = str(tmp_path / "y.npy") if name == "t.npy" else None
    with pytest.raises(InputError, match="neither a file nor a folder"):
        open_dataset((tmp_path / name).parent if "/" in name else tmp_path / name, label=label)
    assert [run.state for run in find_runs(str(tmp_path))] == ["unreadable"]
