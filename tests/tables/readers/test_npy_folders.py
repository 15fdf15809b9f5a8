"""Folders of embeddings: rows in .npy files, labels in Parquet, as one table."""

import fsspec
import numpy as np
import pandas as pd
import pytest
from helpers.evaluating import scored
from helpers.runs import hash_of_command, refreshed, same_models, through
from helpers.tables import config_of, labelled, write_zarr

from mmpca_dist import class_moments, load_model, open_dataset, run
from mmpca_dist.errors import InputError
from mmpca_dist.runs.refresh_inputs import arrivals
from mmpca_dist.stores import storage
from mmpca_dist.tables.compose import column_of, open_rows

X, Y = labelled(440, 6, 3, seed=2)
HALF = X.astype(np.float16)
NAMES = np.asarray(["ant", "bee", "cow"])[Y]
FRAME = pd.DataFrame(
    {
        "caption": [f"a {name}" for name in NAMES],
        "label": NAMES,
        "source": np.arange(440) // 5 % 2,
        "n": np.arange(440) % 3,
        "shop": np.arange(440) % 4,
    }
)
no_report = pytest.mark.usefixtures("no_report")


def write(folder, rows=HALF, frame=FRAME, size=40, name="img_emb", tables=None):
    """Write eleven files of rows, and as many tables, unless one is asked for."""
    folder = str(folder)
    for part in range(0, len(rows), size):
        with fsspec.open(f"{folder}/{name}/{name}_{part // size}.npy", "wb", auto_mkdir=True) as file:
            np.save(file, rows[part : part + size])
    step = size if tables is None else len(rows)
    for part in range(0, len(rows), step) if frame is not None else []:
        with fsspec.open(f"{folder}/metadata/metadata_{part // step}.parquet", "wb", auto_mkdir=True) as file:
            frame[part : part + step].to_parquet(file)
    return folder


@pytest.mark.parametrize("tables", [None, 1])
@pytest.mark.parametrize("place", ["", "memory://npy"])
def test_rows_and_labels(tables, place, tmp_path):
    dataset = open_dataset(write(place or tmp_path / "e", tables=tables))
    assert (dataset.n_rows, dataset.n_features, dataset.dtype) == (440, 6, np.float16)
    assert dataset.chunk_edges.tolist() == [*range(0, 440, 40), 440], "file 2 before file 10"
    for start, stop in ((0, 440), (33, 130), (80, 120), (439, 440)):
        np.testing.assert_array_equal(dataset.read_rows(start, stop), HALF[start:stop])
        np.testing.assert_array_equal(dataset.read_labels(start, stop), NAMES[start:stop])
    np.testing.assert_array_equal(column_of(dataset.stored, "source", "").read(30, 90)[0], FRAME["source"][30:90])
    assert "img_emb_2.npy" in dataset.describe_chunk(100)
    if place:
        storage.remove(place)


def test_moments_have_the_bits_of_the_same_rows_in_zarr(tmp_path):
    found = class_moments(open_dataset(write(tmp_path / "e"), label="label"))
    expected = class_moments(open_dataset(write_zarr(tmp_path / "t.zarr", HALF, Y, 40)))
    np.testing.assert_array_equal(found.scatters, expected.scatters)
    np.testing.assert_array_equal(found.means, expected.means)
    other = class_moments(open_dataset(write(tmp_path / "f", size=77)))
    np.testing.assert_allclose(other.scatters, expected.scatters, rtol=1e-12, atol=1e-9)


def test_the_fingerprint_is_that_of_all_files(tmp_path):
    folder = write(tmp_path / "e")
    prints = {open_dataset(folder).fingerprint(), open_dataset(folder, label="source").fingerprint()}
    np.save(f"{folder}/img_emb/img_emb_10.npy", HALF[:40])
    prints.add(open_dataset(folder).fingerprint())
    assert len(prints) == 3
    assert len(open_dataset(folder).addresses) == 22


@pytest.mark.e2e
@no_report
def test_runs_evaluations_transforms_and_refreshes(tmp_path):
    frame = FRAME.assign(label=FRAME["label"].where(np.arange(440) % 9 > 0))
    dataset = {"unlabelled": "skip", "weight": "n", "covariates": ["source"], "columns": [5, 0, 1, 2]}
    evaluation = {"splits": "groups", "column": "shop", "folds": 4, "classifiers": ["fisher"], "margins": False}
    uri, methods = write(tmp_path / "e", frame=frame), ["pca", "m-pca0"]
    config = config_of(tmp_path / "out", uri, methods=methods, dataset=dataset, evaluation=evaluation)
    results = run(config)
    keep = frame["label"].notna().to_numpy() & (FRAME["n"] > 0).to_numpy()
    assert results["count"]["n_rows"] == keep.sum()
    plain = write_zarr(tmp_path / "t.zarr", HALF[keep][:, [5, 0, 1, 2]], Y[keep], 40)
    for name, values in (("n", FRAME["n"][keep]), ("source", FRAME["source"][keep])):
        np.save(tmp_path / f"{name}.npy", np.asarray(values))
    beside = {"weight": str(tmp_path / "n.npy"), "covariates": [str(tmp_path / "source.npy")]}
    run(config_of(tmp_path / "same", plain, methods=methods, dataset=beside))
    same_models(tmp_path / "out", tmp_path / "same", ["m-pca0"], classes=False)
    records, _, _ = scored(config)
    assert len(records) == 4
    run(config_of(tmp_path / "plain", write(tmp_path / "f"), methods=methods))
    new = write(tmp_path / "new", HALF[:100], None)
    through(tmp_path / "plain", new, tmp_path / "projected")
    Z = open_rows(str(tmp_path / "projected/projected/pca.zarr")).read(0, 100)
    of_arrays = load_model(str(tmp_path / "plain"), "pca").transform(HALF[:100])
    np.testing.assert_allclose(Z, of_arrays, rtol=1e-5, atol=1e-5)
    more = write(tmp_path / "more", HALF[:80] + 1, FRAME[:80])
    live = refreshed(tmp_path / "plain", more, tmp_path / "live")["folder"]
    both = np.vstack([HALF, HALF[:80] + 1]).astype(float)
    np.testing.assert_allclose(load_model(live, "pca").mean_, both.mean(axis=0), rtol=1e-6)


def test_what_does_not_go_together_is_refused(tmp_path):
    folder = write(tmp_path / "e")
    with pytest.raises(InputError, match=r"has no column 'lable' \(dataset.label\). Did you mean 'label'"):
        open_dataset(folder, label="lable")
    with pytest.raises(InputError, match=r"dataset.drop is \['caption'\], but .* is a folder of arrays"):
        open_dataset(folder, drop=["caption"])
    write(folder, name="text_emb", frame=None)
    with pytest.raises(InputError, match=r"in 'img_emb', 'text_emb': name one of these folders with dataset.features"):
        open_dataset(folder)
    np.testing.assert_array_equal(open_dataset(folder, features="text_emb").read_rows(0, 3), HALF[:3])
    (tmp_path / "e/metadata/metadata_3.parquet").rename(tmp_path / "e/metadata/metadata_30.parquet")
    with pytest.raises(InputError, match=r"img_emb_3.npy, of 40 rows, is paired with .*metadata_4.parquet, of 40"):
        open_dataset(folder, features="img_emb")
    short = write(tmp_path / "short", frame=FRAME[:400], tables=1)
    with pytest.raises(InputError, match=r"has 440 rows, and .* describes 400"):
        open_dataset(short)
    np.save(f"{short}/img_emb/img_emb_3.npy", X[:40])
    with pytest.raises(InputError, match="differ in the type: float64 and float16"):
        open_dataset(short)
    with pytest.raises(InputError, match="no Parquet that describes their rows in a folder 'metadata'"):
        open_dataset(write(tmp_path / "bare", frame=None))
    np.save(tmp_path / "bare/img_emb/objects.npy", np.asarray([{}]), allow_pickle=True)
    with pytest.raises(InputError, match="pickled Python objects, which are never loaded"):
        open_rows(tmp_path / "bare")


def test_folders_in_an_inbox_are_data_sets(tmp_path):
    inbox = tmp_path / "inbox"
    folders = [write(inbox / day) for day in ("monday", "tuesday")]
    (inbox / "notes").mkdir()
    assert [arrival.uri for arrival in arrivals(str(inbox))] == folders
    assert [arrival.uri for arrival in arrivals(folders[0])] == folders[:1]


def test_files_without_a_folder_of_their_own_and_beside_a_table(tmp_path):
    for i in range(2):
        np.save(tmp_path / f"part_{i}.npy", HALF[220 * i : 220 * (i + 1)])
    (tmp_path / "about").mkdir()
    FRAME.to_parquet(tmp_path / "about/labels.parquet")
    np.testing.assert_array_equal(open_dataset(tmp_path).read_labels(200, 300), NAMES[200:300])
    np.testing.assert_array_equal(open_dataset(tmp_path).read_rows(200, 300), HALF[200:300])
    pd.DataFrame(X, columns=list("abcdef")).assign(label=NAMES).to_parquet(tmp_path / "table.parquet")
    (tmp_path / "about/labels.parquet").unlink()
    np.testing.assert_array_equal(open_dataset(tmp_path).read_rows(0, 440), X, "Parquet, with weights beside it, say")


@pytest.mark.e2e
def test_the_command_gives_the_bits_of_the_same_rows_in_zarr(tmp_path):
    write_zarr(tmp_path / "t.zarr", HALF, NAMES, 40)
    expected = hash_of_command(tmp_path, str(tmp_path / "t.zarr"))
    assert hash_of_command(tmp_path, write(tmp_path / "e")) == expected
