"""Data frames of numbers, booleans, text and gaps: as files of the same, and for models that are loaded."""

import numpy as np
import pandas as pd
import pytest
from helpers.tables import labelled
from test_mixed_tables import NO_REPORT, TEXTS, config_of, encoded, table, write

from mmpca_dist import MarginPCA, load_model, open_dataset, run
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS


@NO_REPORT
def test_a_loaded_model_knows_the_levels_and_keeps_the_index(tmp_path):
    frame = table(1200)
    run(config_of(tmp_path / "out", write("parquet", tmp_path / "t", frame), methods=["m-pca0"]))
    some = frame[frame["colour"] == "red"].drop(columns="label")[:3]
    model = load_model(str(tmp_path / "out"), "m-pca0").set_output(transform="pandas")
    Z = model.transform(some)
    assert Z.index.tolist() == some.index.tolist()
    expected = load_model(str(tmp_path / "out"), "m-pca0").transform(encoded(frame, frame)[0])[some.index]
    np.testing.assert_allclose(Z.to_numpy(), expected, atol=1e-9)
    with pytest.warns(UserWarning, match="text that the model has not seen"):
        model.transform(some.assign(colour="teal"))


@NO_REPORT
def test_a_loaded_model_finds_its_columns_among_others(tmp_path):
    frame = table(300)
    numbers = write("parquet", tmp_path / "t", frame.drop(columns=["colour", "size", "town"]).assign(id=np.arange(300)))
    run(config_of(tmp_path / "out", numbers, dataset={"drop": ["id"]}, methods=["pca"]))
    model, columns = load_model(str(tmp_path / "out"), "pca"), ["a", "flag", "b", "whole"]
    expected = model.transform(frame[columns])
    for others in (frame, frame[columns[::-1]], frame[[*columns, "label"]], frame[columns].assign(more=1)):
        np.testing.assert_array_equal(model.transform(others), expected)
    with pytest.raises(InputError, match=r"Column 'a' of X cannot be .*: type .*string, where numbers belong"):
        model.transform(frame.assign(a="x"))
    with pytest.raises(InputError, match=r"unseen at fit time|missing"):
        model.transform(frame[["a", "b", "whole"]].assign(more=1))
    fitted = MarginPCA(1).fit(frame[columns], frame["label"])
    with pytest.raises(InputError, match="Column 'colour' of X holds text, and was not there in the fit"):
        fitted.transform(frame)


def test_data_frames_that_cannot_be_read(monkeypatch):
    frame, y = table(60).drop(columns="label"), table(60)["label"]
    with pytest.raises(InputError, match=r"^MarginPCA: Column 'day' of X cannot be .*: type timestamp.*Drop or"):
        MarginPCA(2).fit(frame.assign(day=pd.Timestamp("2024-01-31")), y)
    with pytest.raises(InputError, match="data frame X has columns that cannot be read"):
        MarginPCA(2).fit(frame.assign(odd=[1, "a"] * 30), y)
    with pytest.raises(InputError, match=r"X has 2 features called 'colour=red', one of them a text"):
        MarginPCA(2).fit(frame.assign(**{"colour=red": 1.0}), y)
    model, gap = MarginPCA(2).fit(frame[["a", "b", "colour"]], y), frame["colour"].where(frame.index != 7)
    with pytest.raises(
        InputError, match=r"^MarginPCA: X lacks 1 of the 3 features that the model was fitted to: 'colour'"
    ):
        model.transform(frame[["a", "b"]])
    with pytest.raises(InputError, match=r"^MarginPCA: column 'colour' of X has NaN in row 7"):
        model.transform(frame[["a", "b"]].assign(colour=gap))
    with pytest.warns(UserWarning, match=r"Text is new in most rows, .*: 'name'. Leave such columns out"):
        MarginPCA(2).fit(frame.assign(name=[f"n{i}" for i in range(60)]), y)
    monkeypatch.setattr(LIMITS, "max_levels", 3)
    with pytest.raises(
        InputError, match=r"Column 'colour' of X .*: 3 different texts, such as 'red', and indicators for at most 3"
    ):
        MarginPCA(2).fit(frame, y)


def test_frames_of_polars_with_categories_and_dates():
    polars = pytest.importorskip("polars")
    frame, y = table(300)[["a", "colour"]], table(300)["label"]
    kind = polars.Enum(["red", "green", "blue"])
    kinds = polars.from_pandas(frame).with_columns(polars.col("colour").cast(kind))
    np.testing.assert_array_equal(MarginPCA(2).fit(kinds, y).components_, MarginPCA(2).fit(frame, y).components_)
    dates = polars.from_pandas(frame[["a"]].assign(day=pd.Timestamp("2024-01-31")))
    with pytest.raises(InputError, match="Column 'day' of X cannot be used as it is: type"):
        MarginPCA(1).fit(dates, y)


@pytest.mark.parametrize("library", ["pandas", "categories", "polars"])
def test_data_frames_give_the_same_bits_as_files(library, tmp_path):
    frame = table(1500)
    features, y = frame.drop(columns="label"), frame["label"]
    dataset = open_dataset(write("parquet", tmp_path / "t", frame), encode=True)
    if library == "polars":
        features = pytest.importorskip("polars").from_pandas(features)
    elif library == "categories":
        features = features.astype(dict.fromkeys(TEXTS, "category"))
    found, expected = MarginPCA(2).fit(features, y), MarginPCA(2).fit(dataset)
    np.testing.assert_array_equal(found.components_, expected.components_)
    assert found.feature_names_in_.tolist() == dataset.feature_names
    new = table(40, seed=3).drop(columns="label")
    X, _ = encoded(new.assign(label=""), frame)
    with pytest.warns(UserWarning, match="text that the model has not seen, whose indicators are 0: colour"):
        MarginPCA(2).fit(frame.drop(columns="label"), y).transform(new.assign(colour="teal"))
    if library == "polars":
        new = pytest.importorskip("polars").from_pandas(new)
    np.testing.assert_allclose(found.transform(new), MarginPCA(2).fit(encoded(frame, frame)[0], y).transform(X))


def test_gaps_have_the_same_bits_in_files_and_in_rows_of_any_memory_order(tmp_path):
    X, y = labelled(400, 5, 3, seed=4)
    X[np.random.default_rng(4).random(X.shape) < 0.1] = np.nan
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame.assign(label=y).to_parquet(tmp_path / "t.parquet", row_group_size=90)
    fit = MarginPCA(2, precision="double", missing="mean").fit
    expected = fit(open_dataset(tmp_path / "t.parquet", missing="mean")).components_
    for rows in (X, np.asfortranarray(X), frame):
        np.testing.assert_array_equal(fit(rows, y).components_, expected)


def test_a_column_of_a_frame_may_be_called_as_labels_are():
    frame = table(60).rename(columns={"a": "y", "colour": "label", "label": "z"})
    found = MarginPCA(2).fit(frame.drop(columns="z"), frame["z"])
    assert [name for name in found.feature_names_in_ if name.startswith(("y", "label"))] == [
        "y", "label=blue", "label=green", "label=red",
    ]  # fmt: skip
