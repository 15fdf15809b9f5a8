"""What Zarr declares is bounded before it takes memory; damaged metadata are named; no code in data is run."""

import json
import pickle
from pathlib import Path

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers.ingested import ingest
from helpers.tables import COLUMNS, ROWS, X, Y, change, config_of, write_small
from zarr.codecs import BloscCodec, ZstdCodec

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.runs.fit import preview


def chunk_files(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file() and path.name.split(".")[0].isdigit()]


@pytest.mark.parametrize("version", [2, 3])
def test_a_blosc_chunk_that_is_cut_short_is_damage(version, tmp_path):
    """numcodecs reads on beyond its end."""
    codec = numcodecs.Blosc() if version == 2 else BloscCodec()
    write_small(tmp_path / "a.zarr", version, compressors=codec)
    assert np.array_equal(open_dataset(tmp_path / "a.zarr").read_rows(0, ROWS), X)
    for path in chunk_files(tmp_path / "a.zarr" / "X"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises((ValueError, RuntimeError), match=r"ends early|encoded value is invalid"):
        open_dataset(tmp_path / "a.zarr").read_rows(0, ROWS)


def test_filters_of_zarr_2_serve_as_before(tmp_path):
    filters = [numcodecs.Delta("f8"), numcodecs.AsType("f8", "f8")]
    write_small(tmp_path / "a.zarr", 2, filters=filters, compressors=numcodecs.Zlib(), labels=X[:, 0].round())
    np.testing.assert_allclose(open_dataset(tmp_path / "a.zarr").read_rows(0, ROWS), X, rtol=1e-12)


class Boom:
    def __reduce__(self):
        return (exec, ("import builtins; builtins.mmpca_was_run = True",))


@pytest.mark.parametrize("array", ["X", "y", "var/names", "obs/cell/categories", "part"])
@pytest.mark.parametrize("slot", ["filters", "compressor"])
def test_pickles_in_zarr_are_never_loaded(array, slot, tmp_path):
    folder = write_small(tmp_path / "a.zarr", 2)
    group = zarr.open_group(folder, mode="a")
    if array.startswith("var"):
        group.create_group("var").attrs["_index"] = "names"
    if array.startswith("obs"):
        group.create_group("obs/cell").create_array("codes", data=Y)
    place = folder / array
    place.mkdir(parents=True, exist_ok=True)
    metadata = {
        "zarr_format": 2, "shape": [ROWS], "chunks": [ROWS], "dtype": "|O", "fill_value": None, "order": "C",
        "compressor": None, "filters": None,
    }  # fmt: skip
    pickles = {"id": "pickle", "protocol": 5}
    metadata[slot] = [pickles] if slot == "filters" else pickles
    (place / ".zarray").write_text(json.dumps(metadata))
    (place / "0").write_bytes(pickle.dumps(Boom()))
    label = {"obs/cell/categories": "obs/cell", "part": "part"}.get(array, "y")
    with pytest.raises(MmpcaError):
        found = open_dataset(folder, label=label)
        found.read_rows(0, ROWS)
        found.read_labels(0, ROWS)
    assert not hasattr(__import__("builtins"), "mmpca_was_run")


ABSURD = [10**10, 10**15, 10**18, 10**30, -5, 2.5, 20.0, True, None, "20", [1]]


@pytest.mark.parametrize("missing", ["refuse", "fill"])
@pytest.mark.parametrize("size", ABSURD, ids=str)
def test_absurd_shapes_of_zarr_are_one_sentence(size, missing, tmp_path):
    folder = write_small(tmp_path / "a.zarr")
    for array, other in (("X", [COLUMNS]), ("y", [])):
        change(folder, array, shape=[size, *other])
    if size is True:
        return  # which JSON writes as true, and Zarr may take for 1
    try:
        found = open_dataset(folder, missing_chunks=missing)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert found.n_rows == ROWS if size == 20.0 else missing == "fill"


def test_a_sparse_grid_of_chunks_is_filled_as_before(tmp_path):
    """One chunk in five is stored."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    rows = group.create_array("X", shape=(1000, COLUMNS), chunks=(10, COLUMNS), dtype="f8", fill_value=7)
    for start in range(0, 1000, 50):
        rows[start : start + 10] = 1.0
    group.create_array("y", data=np.arange(1000) % 2)
    found = open_dataset(tmp_path / "a.zarr", missing_chunks="fill").read_rows(0, 1000)
    assert np.array_equal(np.unique(found, return_counts=True)[1], [200 * COLUMNS, 800 * COLUMNS])
    with pytest.raises(InputError, match=r"lacks 80 of the chunks of 'X', the first one \(1, 0\): rows 10 to 19"):
        open_dataset(tmp_path / "a.zarr")


@pytest.mark.parametrize("array", ["X", "y"])
def test_a_chunk_beyond_the_memory_of_a_run(array, tmp_path):
    folder = write_small(tmp_path / "a.zarr", compressors=ZstdCodec())
    change(folder, array, chunk=[10**8, COLUMNS][: 2 if array == "X" else 1])
    with pytest.raises(InputError, match=rf"A chunk of .*/{array} takes .* and .* may be .*\(compute.memory_limit\)"):
        preview(config_of(tmp_path / "out", folder, compute={"memory_limit": "500MB"}, precision=None))


@pytest.mark.parametrize(
    "text", ["9" * 5000, "[" * 100_000, '{"a": ' * 20_000, "nul", '{"shape": [1e999]}', "{}", "[]"]
)
@pytest.mark.parametrize("place", ["zarr.json", "X/zarr.json", "y/zarr.json"])
def test_metadata_that_are_none(text, place, tmp_path):
    folder = write_small(tmp_path / "a.zarr")
    (folder / place).write_text(text)
    if place == "zarr.json" and text.startswith(("{}", '{"shape')):
        return  # a group without attributes
    with pytest.raises(InputError):
        open_dataset(folder)


@pytest.mark.parametrize("key", ["shape", "chunk_grid", "codecs", "data_type", "fill_value", "attributes", "node_type"])
@pytest.mark.parametrize("array", ["X", "y"])
def test_any_metadata_end_in_a_sentence(key, array, tmp_path):
    values = [None, [], {}, -1, "x", [[]], [None], {"name": "x"}, [{"name": "x"}], 10**400 % 7]
    for number, value in enumerate(values):
        folder = write_small(tmp_path / f"{number}.zarr")
        change(folder, array, **{key: value})
        try:
            open_dataset(folder)
        except MmpcaError as error:
            assert "\n" not in str(error), value
        except Exception as error:
            pytest.fail(f"{key} = {value!r} ends in {error!r}")


@pytest.mark.parametrize("name", ["X\0", "../../X", "..", "/X", "X/../X", "", ".", "x" * 300, "\ud800"])
def test_names_that_are_none(name, tmp_path):
    folder = write_small(tmp_path / "a.zarr")
    pq.write_table(pa.table({"a": [1.0, 2.0], "label": [0, 1]}), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    for place in (folder, tmp_path / "a.parquet", tmp_path / "a.npz"):
        for which in ("features", "label"):
            try:
                open_dataset(place, **{which: name})
            except MmpcaError:
                pass
            else:
                assert name in ("", "/X")
    with pytest.raises(InputError, match="NUL"):
        open_dataset(f"{folder}\0")


def test_labels_of_objects_are_one_sentence(tmp_path):
    folder = write_small(tmp_path / "a.zarr", 2)
    path = folder / "y" / ".zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), "dtype": "|O", "fill_value": None}))
    with pytest.raises(MmpcaError):
        open_dataset(folder).read_labels(0, ROWS)


@pytest.mark.parametrize("size", ABSURD, ids=str)
def test_absurd_shapes_of_sparse_rows(size, tmp_path):
    from scipy.sparse import csr_array

    np.savez(tmp_path / "in.npz", **dict(zip(("data", "indices", "indptr"), parts(csr_array(X)), strict=True)),
             shape=X.shape, y=Y, format="csr")  # fmt: skip
    ingest(tmp_path / "in.npz", tmp_path / "a.zarr")
    for position in (0, 1):
        shape = [ROWS, COLUMNS]
        shape[position] = size
        zarr.open_group(tmp_path / "a.zarr", mode="a")["X"].attrs["shape"] = shape
        try:
            open_dataset(tmp_path / "a.zarr").read_sparse(0, 1)
        except InputError as error:
            assert "\n" not in str(error)


def parts(X):
    return X.data, X.indices, X.indptr
