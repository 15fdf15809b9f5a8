"""Tables of numbers, booleans, text and gaps in Parquet: indicators, as scikit-learn's encoder makes them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet
import pytest
from helpers import tables
from helpers.evaluating import scored
from helpers.ingested import ingest
from helpers.runs import Recorder, refreshed, through
from helpers.tables import labelled, write_npz
from sklearn.preprocessing import OneHotEncoder

from mmpca_dist import MarginPCA, load_model, open_dataset, run
from mmpca_dist.errors import AccessError, ColumnError, InputError, OutputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.compose import open_rows

NO_REPORT = pytest.mark.usefixtures("no_report")
METHODS = ["pca", "m-pca0", "m-pca1a", "m-pca2"]
TEXTS = ["colour", "size", "town"]


def table(n=4000, seed=1):
    """Return a frame of numbers, booleans and text: three colours, two sizes, a few towns and many rare ones."""
    X, y = labelled(n, 3, 3, seed=seed)
    rng = np.random.default_rng(seed)
    colour = np.asarray(["red", "green", "blue"])[np.where(rng.random(n) < 0.6, y, rng.integers(0, 3, n))]
    town = np.where(rng.random(n) < 0.01, [f"village {i}" for i in rng.integers(0, 40, n)], "city")
    town = np.where(rng.random(n) < 0.3, "port", town)
    return pd.DataFrame(
        {
            "a": X[:, 0], "colour": colour, "flag": rng.random(n) < 0.3 + 0.2 * (y == 1), "b": X[:, 1].round(3),
            "size": np.where(X[:, 2] > 0, "small", "large"), "town": town, "whole": rng.integers(0, 9, n),
            "label": np.asarray(["x", "y", "z"])[y],
        }
    )  # fmt: skip


def encoded(frame, fitted):
    """Return the features as scikit-learn encodes them, in the order of the columns."""
    columns, names = [], []
    for name in frame.columns.drop("label"):
        if name in TEXTS:
            encoder = OneHotEncoder(
                min_frequency=0.001, drop="if_binary", handle_unknown="ignore", sparse_output=False
            ).fit(fitted[[name]])
            columns.append(encoder.transform(frame[[name]]))
            names += [each.replace(f"{name}_", f"{name}=", 1) for each in encoder.get_feature_names_out()]
        else:
            columns.append(frame[[name]].to_numpy(float))
            names.append(name)
    return np.hstack(columns), [name.replace("infrequent_sklearn", "(rare)") for name in names]


def write(kind, path, frame):
    if kind == "arrow":
        feather.write_feather(pa.Table.from_pandas(frame), f"{path}.feather", compression="uncompressed", chunksize=700)
        return f"{path}.feather"
    if kind == "categories":
        frame = frame.astype(dict.fromkeys(TEXTS, "category"))
    frame.to_parquet(f"{path}.parquet", row_group_size=700)
    return f"{path}.parquet"


def config_of(output, uri, **changes):
    return tables.config_of(output, uri, **{"methods": METHODS, **changes})


@pytest.mark.parametrize("kind", ["parquet", "categories", "arrow"])
def test_text_becomes_indicators(kind, tmp_path):
    frame = table()
    dataset = open_dataset(write(kind, tmp_path / "t", frame), encode=True)
    X, names = encoded(frame, frame)
    assert dataset.feature_names == names and "town=(rare)" in names and "size=small" in names
    np.testing.assert_array_equal(dataset.read_rows(0, len(frame)), X)
    np.testing.assert_array_equal(dataset.read_rows(650, 1500), X[650:1500])


@NO_REPORT
@pytest.mark.parametrize("kind", ["parquet", "categories", "arrow"])
def test_a_run_needs_nothing_said_and_transform_nothing_said_again(kind, tmp_path):
    frame = table()
    results = run(config_of(tmp_path / "out", write(kind, tmp_path / "t", frame)))
    X, names = encoded(frame, frame)
    assert results["count"]["feature_names"] == names and results["count"]["standardize"]
    assert "Columns are standardised, as indicators of text stand beside numbers" in results["count"]["notes"][0]
    for method in METHODS:
        expected = MarginPCA(2, variant=method, precision="double", standardize=True).fit(X, frame["label"])
        found = load_model(str(tmp_path / "out"), method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9, err_msg=method)
    new = table(300, seed=5).sample(frac=1, axis="columns", random_state=0).drop(columns="label")
    new.loc[:4, "colour"] = "teal"
    recorder = Recorder()
    uri = write(kind, tmp_path / "new", new)
    through(tmp_path / "out", uri, tmp_path / "projected", recorder, methods=["m-pca0"])
    assert "colour (such as 'teal'; 5 rows)" in recorder.notes[0]
    Z = open_rows(str(tmp_path / "projected" / "projected" / "m-pca0.zarr")).read(0, 300)
    expected = load_model(str(tmp_path / "out"), "m-pca0").transform(
        encoded(new.assign(label="")[frame.columns], frame)[0]
    )
    np.testing.assert_allclose(Z, expected, atol=1e-9)


@NO_REPORT
def test_evaluations_gaps_covariates_weights_and_rows_without_labels(tmp_path):
    frame = table(600)
    rng = np.random.default_rng(0)
    frame.loc[rng.random(600) < 0.1, "a"] = np.nan
    frame.loc[rng.random(600) < 0.1, "colour"] = None
    frame.loc[:5, "label"] = None
    frame["site"], frame["n"] = np.where(rng.random(600) < 0.5, "p", "q"), rng.integers(0, 3, 600)
    dataset = {"missing": "mean", "unlabelled": "skip", "weight": "n", "covariates": ["site"]}
    uri = write("parquet", tmp_path / "t", frame)
    config = config_of(tmp_path / "out", uri, dataset=dataset, evaluation={"classifiers": ["lda"], "margins": False})
    kept = frame[frame["label"].notna() & (frame["n"] > 0)]
    results = run(config)
    assert results["count"]["n_rows"] == len(kept)
    assert results["count"]["notes"][0] == f"Rows left out, as they have no label or weight zero: {600 - len(kept)}."
    records, _, _ = scored(config)
    assert sum(record["rows"] for record in records) == kept["n"].sum()
    plain = kept.drop(columns=["site", "n"])
    X, names = encoded(plain, plain[plain["colour"].notna()])
    of_colour = [j for j, name in enumerate(names) if name.startswith("colour=")]
    X[np.ix_(plain["colour"].isna().to_numpy(), of_colour)] = np.nan
    found = load_model(str(tmp_path / "out"), "m-pca0")
    expected = MarginPCA(2, standardize=True, missing="mean").fit(
        X, plain["label"], sample_weight=kept["n"], covariates=kept[["site"]]
    )
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


@NO_REPORT
def test_levels_are_those_of_repeated_rows(tmp_path):
    """A level that two rows of 3,000 have is rare, unless these weigh more; one of rows that are left out is none."""
    frame = table(3000)
    frame["n"] = np.random.default_rng(0).integers(1, 3, 3000)
    frame.loc[:1, ["town", "n"]] = "heavy", 40
    frame.loc[2:1500:300, ["town", "n"]] = "weightless", 0
    frame.loc[3:1500:300, ["town", "label"]] = "unlabelled", None
    kept = frame[frame["label"].notna()]
    repeated = kept.loc[kept.index.repeat(kept["n"])].drop(columns="n")
    X, names = encoded(repeated, repeated)
    assert "town=heavy" in names and not {"town=weightless", "town=unlabelled"} & {*names}
    uri, dataset = write("parquet", tmp_path / "t", frame), {"weight": "n", "unlabelled": "skip"}
    results = run(config_of(tmp_path / "out", uri, dataset=dataset, methods=["m-pca0"]))
    assert results["count"]["feature_names"] == names
    expected = MarginPCA(2, precision="double", standardize=True).fit(X, repeated["label"])
    np.testing.assert_allclose(load_model(str(tmp_path / "out"), "m-pca0").components_, expected.components_, atol=1e-9)
    features = kept.drop(columns=["label", "n"])
    of_frame = MarginPCA(2, precision="double", standardize=True).fit(features, kept["label"], sample_weight=kept["n"])
    assert of_frame.get_feature_names_out().shape == (2,) and of_frame.n_features_in_ == len(names)
    np.testing.assert_allclose(of_frame.components_, expected.components_, atol=1e-9)


@NO_REPORT
def test_a_refresh_keeps_the_levels(tmp_path):
    frame = table(1200)
    uris = [write("parquet", tmp_path / str(i), part) for i, part in enumerate((frame[:800], frame[800:]))]
    run(config_of(tmp_path / "first", uris[0], methods=["pca", "m-pca0"]))
    folder = refreshed(tmp_path / "first", uris[1], tmp_path / "live")["folder"]
    X, _ = encoded(frame, frame[:800])
    expected = MarginPCA(2, precision="double", standardize=True).fit(X, frame["label"])
    np.testing.assert_allclose(load_model(folder, "m-pca0").components_, expected.components_, atol=1e-9)


@NO_REPORT
def test_new_rows_without_labels_and_text(tmp_path):
    """A refresh leaves out such rows, and transform, which needs none, writes none then."""
    frame = table(1200)
    frame.loc[::9, "label"] = None
    parts = frame[:800], frame[800:]
    uris = [write("parquet", tmp_path / str(i), part) for i, part in enumerate(parts)]
    dataset = {"unlabelled": "skip", "missing": "mean"}
    run(config_of(tmp_path / "first", uris[0], dataset=dataset, methods=["pca", "m-pca0"]))
    recorder, n_left_out = Recorder(), parts[1]["label"].isna().sum()
    folder = refreshed(tmp_path / "first", uris[1], tmp_path / "live", recorder)["folder"]
    assert any(f"1.parquet left out, as they have no label: {n_left_out}." in each for each in recorder.notes)
    kept = frame[frame["label"].notna()]
    expected = MarginPCA(2, precision="double", standardize=True).fit(encoded(kept, parts[0])[0], kept["label"])
    np.testing.assert_allclose(load_model(folder, "m-pca0").components_, expected.components_, atol=1e-9)
    model = load_model(str(tmp_path / "first"), "m-pca0")
    new = frame[:40].assign(town=None, size=np.nan, colour=7)
    for kind in ("partly", "none"):
        uri = write("parquet", tmp_path / kind, new if kind == "partly" else new.assign(label=None))
        recorder = Recorder()
        manifest = through(tmp_path / "first", uri, tmp_path / f"to {kind}", recorder, methods=["m-pca0"])
        assert not manifest["labels"] and "have no label, so the labels go with the projected rows" in recorder.notes[0]
        assert "colour (such as '7'; 40 rows)" in recorder.notes[1]
        Z = open_rows(str(tmp_path / f"to {kind}" / "projected" / "m-pca0.zarr")).read(0, 40)
        X = encoded(frame[:40], parts[0])[0]
        for j, name in enumerate(model.feature_names_in_):
            if name.partition("=")[0] in TEXTS:
                X[:, j] = 0 if name.startswith("colour") else model.mean_[j]
        np.testing.assert_allclose(Z, model.transform(X), atol=1e-9)
    partly = tmp_path / "partly.parquet"
    told = r"Row 0 has no label in column 'label' of .*\. dataset.unlabelled: skip leaves out such rows"
    with pytest.raises(InputError, match=told):
        through(tmp_path / "first", partly, tmp_path / "named", methods=["m-pca0"], label="label")


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_rows_without_labels_are_left_out_of_arrays_too(kind, tmp_path):
    X, y = labelled(60, 4, 3, seed=1)
    y = np.where(np.arange(60) % 7 == 0, np.nan, y)
    write_npz(tmp_path / "t.npz", X, y)
    np.save(tmp_path / "t.npy", X)
    np.save(tmp_path / "y.npy", y)
    given = (tmp_path / f"t.{kind}", None if kind == "npz" else str(tmp_path / "y.npy"))
    dataset = open_dataset(given[0], label=given[1], unlabelled="skip")
    np.testing.assert_array_equal(dataset.read_labels(3, 40), y[~np.isnan(y)][3:40])
    np.testing.assert_array_equal(dataset.read_rows(3, 40), X[~np.isnan(y)][3:40])
    with pytest.raises(InputError, match=r"Label nan at position 0|Row 0 has no label"):
        open_dataset(given[0], label=given[1]).read_labels(0, 60)


@NO_REPORT
def test_refused_by_name(tmp_path, monkeypatch):
    frame = table(300)
    dates = frame.assign(day=pd.Timestamp("2024-01-31"), identifier=[f"p{i}" for i in range(300)])
    uri = write("parquet", tmp_path / "t", dates)
    with pytest.raises(InputError, match=r"'day' .*turn dates into numbers, such as days since one of them"):
        run(config_of(tmp_path / "out", uri))
    monkeypatch.setattr(LIMITS, "max_levels", 100)
    message = (
        r"'identifier' .* 300 different texts, such as 'p\d+', and indicators for at most 100 .*drop=\[day,identifier\]"
    )
    with pytest.raises(InputError, match=message):
        run(config_of(tmp_path / "out", uri, dataset={"drop": ["day"]}))
    gaps = dates.assign(b=dates["b"].mask(np.arange(300) == 7))
    for drop, others in ((["day"], {"identifier", "b"}), ([], {"day", "b"})):
        with pytest.raises(ColumnError) as caught:
            run(config_of(tmp_path / "out", write("parquet", tmp_path / "g", gaps), dataset={"drop": drop}))
        assert {fault.facts["name"] for fault in caught.value.faults} == others
    run(config_of(tmp_path / "out", uri, dataset={"drop": ["day", "identifier"]}, standardize=False))
    assert load_model(str(tmp_path / "out"), "pca").scale_ is None


@NO_REPORT
def test_csv_becomes_parquet_with_types(tmp_path):
    """Types of whole numbers, numbers, booleans, dates and text, and the models of the data frame behind it."""
    frame = table(3000)
    frame["whole"] = frame["whole"].astype("Int64")
    frame.loc[::7, "a"], frame.loc[::11, "whole"] = np.nan, pd.NA
    frame["day"] = pd.date_range("2024-01-01", periods=3000).astype(str)
    frame["at"], frame["zip"] = frame["day"] + "T10:00:00Z", [f"{i:05d}x" for i in range(3000)]
    frame["bits"] = ["0", "1", *["true"] * 2998]
    frame.to_csv(tmp_path / "t.csv", index=False)
    manifest = ingest(tmp_path / "t.csv", tmp_path / "t.parquet")
    assert (manifest["rows"], manifest["columns"]) == frame.shape
    found = pa.parquet.read_table(tmp_path / "t.parquet")
    kinds = {field.name: str(field.type) for field in found.schema}
    assert kinds == {
        "a": "double", "colour": "string", "flag": "bool", "b": "double", "size": "string", "town": "string",
        "whole": "int64", "label": "string", "day": "date32[day]", "at": "timestamp[ms, tz=UTC]",
        "zip": "string", "bits": "string",
    }  # fmt: skip
    assert found.column("whole").null_count == frame["whole"].isna().sum()
    settings = {"missing": "mean", "drop": ["day", "at", "zip", "bits"]}
    run(config_of(tmp_path / "out", tmp_path / "t.parquet", dataset={**settings}))
    uri = write("parquet", tmp_path / "frame", frame)
    run(config_of(tmp_path / "twin", uri, dataset={**settings}))
    for method in METHODS:
        both = [load_model(str(tmp_path / name), method).components_ for name in ("out", "twin")]
        np.testing.assert_allclose(*both, atol=1e-12)
    with pytest.raises(OutputError, match="is there already"):
        ingest(tmp_path / "t.csv", tmp_path / "t.parquet")
    ingest(tmp_path / "t.csv", tmp_path / "t.parquet", overwrite=True)
    with pytest.raises(InputError, match="neither CSV nor a Delta Lake table"):
        ingest(uri, tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"so 'label', 'drop', 'sparse' cannot be chosen here"):
        ingest(tmp_path / "t.csv", tmp_path / "other.parquet", label="label", drop=["zip"], sparse=False)
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(AccessError, match="a folder where a file belongs"):
        ingest(tmp_path / "t.csv", tmp_path / "folder.parquet", overwrite=True)
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(InputError, match="has 1 cells where 2 belong"):
        ingest(tmp_path / "bad.csv", tmp_path / "bad.parquet")
    assert not (tmp_path / "bad.parquet").exists()


@pytest.mark.parametrize(("output", "label", "size", "said"), [
    ("out", "a", 1, "column 'a' of t.csv is not a whole number .* numbers to predict as dataset.target"),
    ("out", "label", 100, "n_components=100 is more than the .* features of t.csv"),
    ("t.csv/out", "label", 1, r"Cannot write .*t.csv/out: "),
], ids=["label", "components", "output"])  # fmt: skip
def test_a_run_of_text_names_what_the_user_did(output, label, size, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table(100).to_csv("t.csv", index=False)
    with pytest.raises(InputError, match=said) as caught:
        run(config_of(output, "t.csv", dataset={"label": label, "missing": "mean"}, n_components=size))
    assert "converted" not in str(caught.value)


def test_lists_of_one_length_are_rows(tmp_path):
    """As pandas, Spark and Hugging Face write embeddings."""
    X, y = labelled(300, 6, 3, seed=1)
    for kind in (pa.float32(), pa.float16(), pa.float64()):
        lists = pa.array(X.astype(kind.to_pandas_dtype()).tolist(), pa.list_(kind))
        pa.parquet.write_table(pa.table({"x": lists, "label": y}), tmp_path / "t.parquet", row_group_size=70)
        dataset = open_dataset(tmp_path / "t.parquet")
        assert dataset.n_features == 6 and dataset.dtype == kind.to_pandas_dtype()
        np.testing.assert_array_equal(dataset.read_rows(60, 200), X.astype(dataset.dtype)[60:200])
    uneven = pa.array([*X[:80].tolist(), [1.0], *X[81:].tolist()])
    pa.parquet.write_table(pa.table({"x": uneven, "label": y}), tmp_path / "t.parquet", row_group_size=70)
    with pytest.raises(InputError, match=r"list in row 80 of .* has 1 values, and that in row 0 has 6"):
        open_dataset(tmp_path / "t.parquet").read_rows(60, 200)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.list_(pa.int64(), 6), pa.large_list(pa.float64())], ids=str
)
def test_lists_that_are_missing_are_gaps(kind, tmp_path):
    X, y = labelled(300, 6, 3, seed=1)
    X = np.rint(X).astype(np.float32)
    lists = [None if i in (70, 133) else row for i, row in enumerate(X.astype(int).tolist())]
    uri, X[[70, 133]] = tmp_path / "t.parquet", np.nan
    pa.parquet.write_table(pa.table({"x": pa.array(lists, kind), "label": y}), uri, row_group_size=70)
    np.testing.assert_array_equal(open_dataset(uri, missing="mean").read_rows(10, 290), X[10:290])
    with pytest.raises(InputError, match=r"Column 'x' of .* has missing values \(null\), the first in row 70"):
        open_dataset(uri).read_rows(60, 200)
    if not pa.types.is_fixed_size_list(kind):
        lists[71] = [1] * 5
        pa.parquet.write_table(pa.table({"x": pa.array(lists, kind), "label": y}), uri, row_group_size=70)
        with pytest.raises(InputError, match=r"list in row 71 of .* has 5 values, and that in row 0 has 6"):
            open_dataset(uri, missing="mean").read_rows(60, 200)
