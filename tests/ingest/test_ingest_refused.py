"""Tables that cannot be ingested: what was found, where, and what to do, with nothing left."""

import gzip
import re
import zipfile

import fsspec
import numpy as np
import pytest
from helpers import each
from helpers.ingested import NAMES, X, Y, ingest, write_all, write_csv

from mmpca_dist import open_dataset
from mmpca_dist.errors import ConfigError, InputError

CSV = "a,b,label\n1,2,x\n\n3,4,y\n"
BAD = {
    "word": (
        "a.csv",
        CSV + "5,six,x\n",
        r"Column 'b' of .*: text: 'six' in row 2 \(line 5\)\. Leave out .*: --drop b; or keep .*: --keep b; or write",
    ),
    "word past row numbers": ("a.csv", ",a,b,y\n0,5,6,x\n1,7,oh,z\n", r"Column 'b' .* 'oh' in row 1 \(line 3\)"),
    "ragged": ("a.csv", CSV + "5,6\n", r"Row 2 \(line 5\) of .*a.csv has 2 cells where 3 belong"),
    "empty cell": ("a.csv", CSV + "5,,x\n", r"Column 'b' .* 1 value missing, infinite or .* in row 2 \(line 5\)"),
    "NaN": ("a.csv", CSV + "nan,4,x\n", r"Column 'a' .* 1 value missing, infinite or .* in row 2"),
    "infinite": ("a.csv", CSV + "5,1e39,x\n", r"Column 'b' .* infinite or too large, the first in row 2"),
    "no label": ("a.csv", CSV + "5,6,\n", r"Column 'label' of .*: the value in row 2 \(line 5\) is empty"),
    "measurement": ("a.csv", "a,b\n1,2.5\n2,3.5\n", r"'b' .*: 2\.5 in row 0 is not a whole number\. Correct labels"),
    "empty": ("a.csv", "", "is empty"),
    "names only": ("a.csv", "a,b,label\n", "no rows"),
    "one column": ("a.csv", "a\n1\n", "one column"),
    "not gzip": ("a.csv.gz", b"\x1f\x8b\x08" + CSV.encode(), "cannot be decompressed"),
    "not UTF-8": ("a.csv", b"a,b,label\n1,2,caf\xe9\n", "UTF-?8"),
    "svm: words": ("a.libsvm", "1 1:2\n# note\n0 1:2 x:3\n", r"'x:3' in line 3 of .* is not 'index:value'"),
    "svm: no value": ("a.libsvm", "1 1:2\n0 1: 2:3\n", r"'1:' in line 2 of .* is not 'index:value'"),
    "svm: label": ("a.libsvm", "1 1:2\nred 1:2\n", r"label 'red' in line 2 .* is not a number"),
    "svm: index": ("a.libsvm", "1 1:2\n0 3000000000:2\n", "index 3000000000; there are 2147483647 columns at most"),
    "svm: order": ("a.libsvm", "1 1:2\n0 3:2 2:1\n", r"'2:1' in line 2 .* it follows 3"),
    "svm: NaN": ("a.libsvm", "1 1:2\n\n0 1:nan 2:3\n", r"Feature 0 .* NaN in row 1 \(line 3\)"),
    "svm: CSV": ("a.svm", "1,2,3\n4,5,6\n", "no 'index:value'"),
}


@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "over a good one"])
def test_bad_text_is_explained_and_leaves_nothing(tmp_path, overwrite):
    for (name, (file, text, message)), folder in each(BAD.items(), tmp_path):
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        if overwrite:
            ingest("bundled:iris", folder / "made.zarr")
        with pytest.raises(InputError, match=message) as error:
            ingest(folder / file, folder / "made.zarr", overwrite=overwrite, chunk_bytes=1)
        assert re.fullmatch(r"[A-Z/'].*\.", str(error.value), re.DOTALL) and str(folder) in str(error.value), name
        assert sorted(p.name for p in folder.iterdir()) == [file] + ["made.zarr"] * overwrite
        if overwrite:
            assert open_dataset(folder / "made.zarr").n_rows == 150


def test_a_bad_cell_after_shards_were_written_leaves_nothing(tmp_path, memory, limits):
    limits.text_block_bytes = 1 << 18
    rows = np.tile(X, (200, 1))
    rows[-1, 2] = np.nan
    path = write_csv(tmp_path / "a.csv", rows, np.tile(Y, 200))
    for destination in (tmp_path / "made.zarr", memory):
        blocks = []
        with pytest.raises(InputError, match=r"Column 'blue' .* in row 51399 \(line 51401\)"):
            ingest(path, destination, chunk_bytes=10_000, progress=lambda *a: blocks.append(a))  # noqa: B023
        assert len(blocks) > 2
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    assert not fsspec.filesystem("memory").find("/ingest")


def test_bad_numpy_files_are_explained(tmp_path):
    X, y = np.ones((10, 3)), np.arange(10) % 2
    cases = {
        "one": ({"X": X, "y": y[:9]}, "10 rows and 9 labels"),
        "objects": ({"X": X, "y": y.astype(object)}, "pickled Python objects, which are never loaded"),
        "names": ({"x": X, "y": y}, r"no array 'X' \(--features\); it holds x, y"),
        "words": ({"X": X.astype(str), "y": y}, "features must be numbers"),
        "halves": ({"X": X, "y": y / 2}, "not a whole number"),
        "cube": ({"X": X[None], "y": y[:1]}, r"must have shape \(n, d\)"),
        "hole": ({"X": np.where(np.arange(30).reshape(10, 3) == 16, np.nan, X), "y": y}, "Feature 1 .* NaN in row 5"),
        "none": ({"X": X[:0], "y": y[:0]}, "no rows"),
        "wide": ({"X": X.astype(np.longdouble), "y": y}, "float128|longdouble"),
    }
    for name, (arrays, message) in cases.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
        with pytest.raises(InputError, match=message):
            ingest(tmp_path / f"{name}.npz", tmp_path / "made.zarr")
    np.savez(tmp_path / "good.npz", X=X, y=y)
    damaged = bytearray((tmp_path / "good.npz").read_bytes())
    damaged[200] ^= 1
    (tmp_path / "bad.npz").write_bytes(damaged)
    with pytest.raises(InputError, match=r"Bad CRC-32|damaged or cut short"):
        ingest(tmp_path / "bad.npz", tmp_path / "made.zarr")
    (tmp_path / "worse.npz").write_bytes(damaged[:100])
    with pytest.raises(InputError, match=r"not a readable \.npz"):
        ingest(tmp_path / "worse.npz", tmp_path / "made.zarr")
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive:
        archive.writestr("X.npy", zipfile.ZipFile(tmp_path / "good.npz").read("X.npy")[:-8])
        archive.writestr("y.npy", zipfile.ZipFile(tmp_path / "good.npz").read("y.npy"))
    with pytest.raises(InputError, match="cut short"):
        ingest(tmp_path / "short.npz", tmp_path / "made.zarr")
    with pytest.raises(InputError, match="labels"):
        ingest(tmp_path / "rows.npy", tmp_path / "made.zarr")
    assert not list(tmp_path.glob("made.zarr*"))


def test_a_truncated_gzip_is_explained(tmp_path):
    rows, labels = np.tile(X, (30, 1)), np.tile(Y, 30)
    whole = write_csv(tmp_path / "a.csv.gz", rows, labels, opener=gzip.open).read_bytes()
    for name, data in {"cut": whole[: len(whole) // 2], "flipped": whole[:5000] + b"\0" * 9 + whole[5009:]}.items():
        (tmp_path / f"{name}.csv.gz").write_bytes(data)
        with pytest.raises(InputError, match=r"cannot be decompressed|is not readable|where a number|cells where"):
            ingest(tmp_path / f"{name}.csv.gz", tmp_path / "made.zarr")
    assert not list(tmp_path.glob("made.zarr*"))


def test_options_that_cannot_be_honoured_are_refused(tmp_path):
    files = write_all(tmp_path)
    csv, svm = files["csv"][0], files["libsvm"][0]
    for source, options, message in (
        (tmp_path / "no.csv", {}, "does not exist"),
        (tmp_path / "no.npz", {}, "does not exist"),
        (csv, {"label": "lable"}, r"no column 'lable' \(--label\)\. Did you mean 'label'"),
        (csv, {"label": "kind"}, r"no column 'kind' \(--label\)\. Its columns are 'red', 'green', "),
        (csv, {"drop": ["gren"]}, r"no column 'gren' \(--drop\)\. Did you mean 'green'"),
        (csv, {"drop": ["red", "label"], "label": "label"}, "--drop and --label both name column 4 of .*, 'label'"),
        (csv, {"drop": NAMES}, "no features left"),
        (csv, {"drop": [*NAMES, "label"]}, "no features left"),
        (csv, {"drop": ["5"]}, r"no column 5 \(--drop\); it has 5 columns"),
        (files["csv without names"][0], {"drop": ["red"]}, "holds no names; give a number"),
        (svm, {"drop": ["red"]}, r"drop=\['red'\] cannot be honoured"),
        (files["npz"][0], {"drop": ["red"]}, r"--drop is \['red'\], but .*a\.npz is a file of arrays"),
        (files["zarr"][0], {"drop": ["red"]}, r"--drop is \['red'\], but .*a\.zarr is a Zarr group"),
        (files["zarr"][0], {"label": "yy"}, r"no array 'yy' \(--label\); it holds X, y\. Did you mean 'y'"),
        (files["parquet"][0], {"label": "lable"}, r"no column 'lable' \(--label\)\. Did you mean 'label'"),
        (files["parquet"][0], {"drop": ["gren"]}, "--drop names 'gren', which is no column of .*Did you mean 'green'"),
        (csv, {"label": 9}, "no column 9"),
        (csv, {"features": "red"}, "cannot be honoured"),
        (svm, {"label": "y"}, "cannot be honoured"),
        (csv, {"dtype": "int8"}, "dtype must be float32 or float64"),
    ):
        with pytest.raises((InputError, ConfigError), match=message):
            ingest(source, tmp_path / "made.zarr", **options)
    assert not list(tmp_path.glob("made.zarr*"))
