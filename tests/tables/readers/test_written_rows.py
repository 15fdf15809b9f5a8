"""What tables hold is what was written: metadata of arrays, their copies, and members of archives that contradict."""

import io
import json
import zipfile

import numpy as np
import pytest
import zarr
from helpers import each

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.ingest.job import ingest

X = np.arange(80, dtype=np.float32).reshape(40, 2).repeat(3, axis=1)
Y = np.arange(40) % 2


def ingested(folder, sparse):
    np.savez(folder / "a.npz", X=X, y=Y)
    ingest(folder / "a.npz", folder / "a.zarr", sparse=sparse, chunk_bytes=200)
    return folder / "a.zarr"


def test_a_shape_or_a_type_that_is_another(tmp_path):
    """One bit makes 2 or 4 columns of 6, or 7 of sparse rows."""
    for (sparse, changes), folder in each(
        ((False, {"shape": [40, 4]}), (True, {"shape": [40, 7]}), (False, {"data_type": "int32", "fill_value": 0})),
        tmp_path,
    ):
        place = ingested(folder, sparse)
        metadata = place / "X/zarr.json"
        found = json.loads(metadata.read_text())
        (found["attributes"] if sparse else found).update(changes)
        metadata.write_text(json.dumps(found))
        with pytest.raises(InputError, match=r"was written with \[40, 6, 'float32'\]"):
            open_dataset(place)


def test_rows_that_were_added_since(tmp_path):
    place = ingested(tmp_path, sparse=False)
    group = zarr.open_group(str(place))
    for name, values in (("X", X), ("y", Y)):
        group[name].append(values)
    np.testing.assert_array_equal(open_dataset(place).read_rows(0, 80), np.concatenate([X, X]))


@pytest.mark.parametrize("version", [2, 3])
def test_copies_of_metadata_that_are_out_of_date(version, tmp_path):
    """Zarr would read the values of the new array by the shape and type of the old one."""
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=version)
    group.create_array("X", data=X)
    group.create_array("y", data=Y)
    zarr.consolidate_metadata(str(tmp_path / "a.zarr"))
    group = zarr.open_group(str(tmp_path / "a.zarr"), use_consolidated=False)
    del group["X"]
    group.create_array("X", data=X.astype(np.int32))
    np.testing.assert_array_equal(open_dataset(tmp_path / "a.zarr").read_rows(0, 40), X.astype(np.int32))


def archive(path, members):
    with zipfile.ZipFile(path, "w") as file:
        for name, values in members:
            data = io.BytesIO()
            np.save(data, values)
            file.writestr(name, data.getvalue())


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("X.npy", "X.npy"), ("X", "X.npy"), ("X.npy", "X")])
def test_two_arrays_of_one_name(names, tmp_path):
    """NumPy takes one of them, and whoever looks into the archive another."""
    archive(tmp_path / "a.npz", [(names[0], X), (names[1], 2 * X), ("y.npy", Y)])
    for read in (open_dataset, lambda path: ingest(path, tmp_path / "a.zarr")):
        with pytest.raises(InputError, match="holds 2 arrays called 'X'"):
            read(tmp_path / "a.npz")


def test_a_member_that_is_no_array_by_its_name(tmp_path):
    archive(tmp_path / "a.npz", [("X", X), ("y.npy", Y)])
    with pytest.raises(InputError, match=r"not a readable \.npz file: .*X\.npy"):
        open_dataset(tmp_path / "a.npz")
