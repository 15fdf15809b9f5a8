"""Evaluations of given parts: what a user may get wrong, and parts that change between two sessions."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers.evaluating import scored
from helpers.runs import open_and_close
from helpers.tables import config_of, labelled, write_npz, write_parquet, write_zarr

from mmpca_dist.configuration.schema import load_config, parse_config
from mmpca_dist.errors import ConfigError, InputError, OutputError
from mmpca_dist.jobs.directory import Identity, RunDirectory
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.runs.evaluate import evaluate, preview_evaluation
from mmpca_dist.stores.storage import from_json, to_json

X, Y = labelled(60, 4, 2, seed=5, separation=0.5)
PARTS = np.arange(60) % 3


def given(tmp_path, uri, column, **changes):
    """Return an evaluation of parts that a column names."""
    evaluation = {"splits": "given", "column": str(column), "classifiers": ["fisher"], "margins": False, **changes}
    return config_of(tmp_path / "out", uri, evaluation=evaluation)


def in_file(tmp_path):
    np.save(tmp_path / "parts.npy", PARTS)
    return write_npz(tmp_path / "rows.npz", X, Y), tmp_path / "parts.npy"


def in_zarr(tmp_path):
    """Return rows in chunks of 7, and the name of an array of parts beside them."""
    return write_zarr(tmp_path / "rows.zarr", X, Y, 7, beside={"part": PARTS}), "part"


def change(tmp_path, column):
    """Give one row near the end another part."""
    if column == "part":
        zarr.open_group(str(tmp_path / "rows.zarr"), mode="a")["part"][58] = 0
    else:
        np.save(column, np.where(np.arange(60) == 58, 0, PARTS))


@pytest.mark.parametrize("make", [in_file, in_zarr])
def test_parts_that_have_changed_are_another_input(make, tmp_path):
    uri, column = make(tmp_path)
    config = given(tmp_path, uri, column)
    before, *_ = scored(config)
    assert [record["rows"] for record in before] == [20, 20, 20]
    assert scored(config)[0] == before  # the same parts go on, with the records that are there
    (tmp_path / "out" / "evaluation" / "splits" / "00002.json").unlink()
    change(tmp_path, column)
    for refused in (lambda: scored(config), lambda: open_and_close(config, "evaluation")):
        with pytest.raises(OutputError, match=r"already holds a different run: its parts have changed since\. Choose"):
            refused()


def test_parts_of_which_a_chunk_is_not_stored(tmp_path):
    uri, column = in_zarr(tmp_path)
    group = zarr.open_group(uri, mode="a")
    group["part"][...] = PARTS + 1
    (tmp_path / "rows.zarr" / "part" / "c" / "3").unlink()
    with pytest.raises(
        InputError, match=r"lacks label chunks of 7 rows of 'part' \(rows 21 to 27\), and their fill value 0 is not"
    ):
        evaluate(given(tmp_path, uri, column))


def test_rows_of_which_chunks_are_filled_in(tmp_path):
    """As the data set says; the parts are opened as it is."""
    uri, column = in_zarr(tmp_path)
    (tmp_path / "rows.zarr" / "X" / "c" / "3" / "0").unlink()
    config = given(tmp_path, uri, column)
    with pytest.raises(InputError, match="missing_chunks"):
        evaluate(config)
    filled = {"missing_chunks": "fill"}
    evaluation = {"splits": "given", "column": column, "classifiers": ["fisher"], "margins": False}
    assert len(scored(config_of(tmp_path / "filled", uri, dataset=filled, evaluation=evaluation))[0]) == 3


@pytest.mark.parametrize("parts", [np.array(3), np.stack([PARTS, PARTS], axis=1)])
def test_parts_that_are_no_column(parts, tmp_path):
    uri, column = in_file(tmp_path)
    np.save(column, parts)
    with pytest.raises(InputError) as caught:
        evaluate(given(tmp_path, uri, column))
    assert str(caught.value) == (
        f"The values in {column} have shape {parts.shape}; there must be one name or number a row, shape (n,)."
    )
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_array(tmp_path):
    uri, column = in_file(tmp_path)
    for content in (b"", b"PK\x03\x04", Path(column).read_bytes()[:150]):
        Path(column).write_bytes(content)
        with pytest.raises(InputError, match=r"parts\.npy (is not a readable \.npy file: |declares the shape)"):
            evaluate(given(tmp_path, uri, column))


def test_a_file_of_objects(tmp_path):
    """What pandas gives for a column of words."""
    uri, column = in_file(tmp_path)
    np.save(column, PARTS.astype(str).astype(object))
    with pytest.raises(InputError, match=r"holds pickled Python objects, .* np\.asarray\(y, dtype=str\)\.$"):
        evaluate(given(tmp_path, uri, column))


@pytest.mark.parametrize("words", [False, True])
def test_a_column_of_parts_is_no_feature(words, tmp_path):
    """Named in dataset.drop or not, be it numbers or words: the errors are those of the rows without it."""
    uri = write_parquet(
        tmp_path / "rows.parquet", X, Y, part=[f"part {part}" for part in PARTS] if words else PARTS, row=np.arange(60)
    )
    expected, *_ = scored(given(tmp_path / "file", *in_file(tmp_path)))
    for drop in (["row"], ["row", "part"]):
        config = given(tmp_path / str(len(drop)), uri, "part")
        config = config.model_copy(update={"dataset": config.dataset.model_copy(update={"drop": drop})})
        open_and_close(config, "evaluation")
        preview_evaluation(config)
        records, *_ = scored(config)
        assert [record["errors"] for record in records] == [record["errors"] for record in expected]
        assert scored(config)[0] == records  # the same configuration goes on
        assert RunDirectory(f"{config.output}/evaluation").config.dataset.drop == drop


def test_a_column_of_parts_that_is_none_or_the_rows(tmp_path):
    uri = write_parquet(tmp_path / "rows.parquet", X, Y, part=PARTS)
    with pytest.raises(InputError, match=r"has no column 'prt' \(evaluation\.column\)\. Did you mean 'part'"):
        evaluate(given(tmp_path, uri, "prt"))
    rows = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"X": rows, "part": PARTS, "label": Y}), uri)
    assert Inputs.of(given(tmp_path, uri, "part"), "evaluation").dataset.n_features == X.shape[1]
    records, *_ = scored(given(tmp_path / "list", uri, "part"))
    assert [record["rows"] for record in records] == [20, 20, 20]
    with pytest.raises(InputError, match=r"list column 'X' and others"):  # a run keeps to dataset.drop
        Inputs.of(given(tmp_path, uri, "part"))


@pytest.mark.parametrize("held_out", [True, False, "True", "False"])
@pytest.mark.parametrize("words", [False, True])
def test_parts_that_are_true_or_false(held_out, words, tmp_path):
    uri, column = in_file(tmp_path)
    tests = PARTS == 1
    np.save(column, np.where(tests, "true", "false") if words else tests)
    if words and isinstance(held_out, str):
        held_out = held_out.lower()
    records, *_ = scored(given(tmp_path, uri, column, held_out=held_out))
    assert [record["rows"] for record in records] == [20 if str(held_out).lower() == "true" else 40]


@pytest.mark.parametrize(("held_out", "said"), [(None, "3 parts of {} held out"), ("2", "Part 2 of {} held out")])
def test_what_is_held_out_is_said(held_out, said, tmp_path):
    uri, column = in_file(tmp_path)
    evaluate(given(tmp_path, uri, column, held_out=held_out))
    page = (tmp_path / "out" / "evaluation" / "report" / "index.html").read_text()
    assert said.format(column) in page


IDLE = [
    ({"splits": "folds", "held_out": "a"}, "held_out", "given"),
    ({"splits": "folds", "train": "3/4"}, "train", "shares or groups"),
    ({"splits": "shares", "folds": 3}, "folds", "folds or blocks or groups"),
    ({"splits": "shares", "held_out": 0}, "held_out", "given"),
    ({"splits": "given", "column": "part", "count": 3}, "count", "shares or folds or groups"),
    ({"splits": "given", "column": "part", "train": 0.5}, "train", "shares or groups"),
]


@pytest.mark.parametrize(("evaluation", "name", "kinds"), IDLE)
def test_settings_of_another_kind_of_splits(evaluation, name, kinds, tmp_path):
    with pytest.raises(ConfigError) as caught:
        config_of(tmp_path, "bundled:iris", evaluation=evaluation)
    assert str(caught.value) == (
        f"the test: evaluation.{name} is of splits: {kinds}, and has no effect on splits: {evaluation['splits']}. "
        f"Leave it out, or set evaluation.splits to {kinds}."
    )


def test_where_a_setting_of_another_kind_was_given_is_said(tmp_path):
    (tmp_path / "my.yaml").write_text("{dataset: {uri: 'bundled:iris'}, methods: pca, n_components: 2, output: out}")
    changes, places = {"evaluation.train": 0.5}, {"evaluation.train": "--set evaluation.train=0.5"}
    with pytest.raises(
        ConfigError, match=r"^--set evaluation.train=0.5: evaluation.train is of splits: shares or groups, "
    ):
        load_config(tmp_path / "my.yaml", changes, places=places)


def test_settings_that_are_all_set_and_those_of_earlier_runs(tmp_path):
    """What is shown of a configuration may be given again, and what is stored can be read whatever it holds."""
    config = given(tmp_path, *in_file(tmp_path))
    assert parse_config(config.model_dump(mode="json"), "the test") == config
    run = RunDirectory(str(tmp_path / "out"))
    run.begin(Identity(config, "fingerprint", "evaluation"))
    header = from_json((tmp_path / "out" / "run.json").read_bytes())
    header["config"]["evaluation"]["train"] = "1/2"
    (tmp_path / "out" / "run.json").write_bytes(to_json(header))
    assert run.config.evaluation.train == "1/2"
    chooses = config_of(tmp_path, "bundled:iris", n_components="auto", evaluation={"splits": "shares", "folds": 3})
    assert chooses.evaluation.folds == 3  # by which the number of components is chosen
