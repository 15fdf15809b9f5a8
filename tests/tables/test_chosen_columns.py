"""A choice of columns by name or number, in every format; and columns that are no features."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.evaluating import scored
from helpers.resuming import results_hash
from helpers.runs import refreshed, through
from helpers.tables import config_of, labelled, write_npz, write_parquet, write_zarr

from mmpca_dist import class_moments, load_model, open_dataset, run
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs.fit import preview
from mmpca_dist.tables.compose import open_rows

X, Y = labelled(240, 6, 3, seed=5)
X = X.round(2) * (np.random.default_rng(0).random(X.shape) < 0.6)
NAMES = list("abcdef")
CHOSEN = ["e", "a", "d"]
AT = [4, 0, 3]
no_report = pytest.mark.usefixtures("no_report")


def tables(folder, rows=X, y=Y):
    """Return the same rows in several formats, and the choice of the same columns in each."""
    return {
        "zarr": (write_zarr(folder / "t.zarr", rows, y, names=NAMES), CHOSEN),
        "plain": (write_zarr(folder / "plain.zarr", rows, y), AT),
        "parquet": (write_parquet(folder / "t.parquet", rows, y, NAMES), CHOSEN),
        "numbers": (write_parquet(folder / "n.parquet", rows, y, NAMES), AT),
        "sparse": (write_npz(folder / "t.npz", rows, y, sparse=True), AT),
    }


def choosing(output, uri, columns):
    return config_of(output, uri, methods=["pca", "m-pca0"], dataset={"columns": columns})


@pytest.mark.parametrize("unit", [None, 700])
def test_rows_are_those_of_a_table_of_these_columns(unit, tmp_path, monkeypatch):
    if unit is not None:
        monkeypatch.setattr(LIMITS, "unit_bytes", unit)
    (tmp_path / "list.txt").write_text("\n".join(CHOSEN) + "\n\n")
    for kind, (uri, columns) in tables(tmp_path).items():
        for choice in [columns] if columns == AT else [columns, str(tmp_path / "list.txt")]:
            dataset = open_dataset(uri, columns=choice)
            assert dataset.n_features == 3 and dataset.sparse == (kind == "sparse")
            assert dataset.feature_names == (None if kind in ("plain", "sparse") else CHOSEN)
            np.testing.assert_array_equal(dataset.read_rows(0, 240), X[:, AT], err_msg=kind)
            np.testing.assert_array_equal(dataset.read_rows(33, 150), X[33:150, AT], err_msg=kind)
            rows = dataset.read_sparse(33, 150)
            assert rows.has_canonical_format
            np.testing.assert_array_equal(rows.toarray(), X[33:150, AT], err_msg=kind)
            np.testing.assert_array_equal(dataset.read_labels(3, 9), Y[3:9])


def test_moments_have_the_bits_of_a_table_of_these_columns(tmp_path):
    expected = class_moments(open_dataset(write_zarr(tmp_path / "few.zarr", X[:, AT], Y)))
    for kind in ("zarr", "plain"):
        uri, columns = tables(tmp_path)[kind]
        found = class_moments(open_dataset(uri, columns=columns))
        np.testing.assert_array_equal(found.scatters, expected.scatters)
        np.testing.assert_array_equal(found.means, expected.means)


@pytest.mark.parametrize(("columns", "message"), [
    (["alpha_gane"], r"dataset.columns names 'alpha_gane', which is no feature of .* Did you mean 'alpha_gene'\?"),
    (["alpha_gene", 0], r"has column 'alpha_gene' 2 times"),
    ([6], r"has column 6; those of .* are numbered 0 to 5"),
    ([], "chooses no column"),
    ("absent.txt", r"is 'absent.txt', and there is no such file"),
])  # fmt: skip
def test_a_bad_choice_is_refused_in_one_sentence(columns, message, tmp_path):
    names = ["alpha_gene", *NAMES[1:]]
    for uri in (write_zarr(tmp_path / "t.zarr", X, Y, names=names), write_parquet(tmp_path / "t.parquet", X, Y, names)):
        with pytest.raises(InputError, match=message):
            open_dataset(uri, columns=columns)
    plain = write_zarr(tmp_path / "p.zarr", X, Y)
    with pytest.raises(InputError, match="have no names: give their numbers"):
        open_dataset(plain, columns=["a"])
    with pytest.raises(ConfigError, match=r"dataset\.columns must be a file with one name or number a line"):
        choosing(tmp_path / "out", plain, {"a": 1})


@no_report
@pytest.mark.e2e
def test_models_choose_again_by_themselves(tmp_path):
    """The file of the choice is not needed again; new tables have more columns, in another order."""
    few = write_zarr(tmp_path / "few.zarr", X[:, AT], Y)
    run(config_of(tmp_path / "few", few, methods=["pca", "m-pca0"]))
    expected = load_model(str(tmp_path / "few"), "m-pca0")
    order = [5, 4, 3, 2, 1, 0]
    new = X[::-1] + 1
    for kind, (uri, columns) in tables(tmp_path).items():
        file = tmp_path / "list.txt"
        file.write_text("".join(f"{column}\n" for column in columns))
        output = tmp_path / "runs" / kind
        config = choosing(output, uri, str(file) if kind != "numbers" else columns)
        assert preview(config).to_json()
        assert run(config)["count"]["n_features"] == 3
        file.unlink()
        model = load_model(str(output), "m-pca0")
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)
        folder = tmp_path / f"new-{kind}"
        folder.mkdir()
        if kind == "zarr":
            rows = write_zarr(folder / "r.zarr", new[:, order], Y, names=[NAMES[i] for i in order])
        elif kind in ("parquet", "numbers"):
            rows = write_parquet(folder / "r.parquet", new[:, order], Y, [NAMES[i] for i in order])
        else:
            rows = Path(tables(folder, new)[kind][0])
            rows = str(rows.rename(folder / f"r{rows.suffix}"))
        through(output, rows, folder / "out", methods=["m-pca0"])
        Z = open_rows(str(folder / "out/projected/m-pca0.zarr")).read(0, 240)
        np.testing.assert_allclose(Z, expected.transform(new[:, AT]), atol=1e-9, err_msg=kind)
        live = refreshed(output, rows, tmp_path / f"live-{kind}")["folder"]
        both = np.vstack([X[:, AT], new[:, AT]]).mean(axis=0)
        np.testing.assert_allclose(load_model(live, "pca").mean_, both, atol=1e-9, err_msg=kind)


@no_report
def test_a_new_table_that_lacks_a_chosen_column_is_refused(tmp_path):
    uri, columns = tables(tmp_path)["zarr"]
    run(choosing(tmp_path / "out", uri, columns))
    new = write_zarr(tmp_path / "new.zarr", X, Y, names=["a", "b", "c", "d", "eee", "f"])
    with pytest.raises(InputError, match=r"lacks 1 of the 3 features that the model was fitted to: 'e'"):
        through(tmp_path / "out", new, tmp_path / "p")


@pytest.mark.e2e
def test_evaluations_choose_too_with_text_gaps_and_another_file_is_another_run(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES).assign(label=Y, town=np.where(Y == 0, "p", "q"))
    frame.loc[:9, "a"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    dataset = {"columns": ["town", "a", "d"], "missing": "mean"}
    config = config_of(tmp_path / "out", tmp_path / "t.parquet", dataset=dataset, standardize=False)
    records, _, results = scored(config)
    assert results["count"]["feature_names"] == ["town=q", "a", "d"]
    few = frame[["town", "a", "d", "label"]]
    few.to_parquet(tmp_path / "few.parquet")
    config = config_of(tmp_path / "o", tmp_path / "few.parquet", dataset={"missing": "mean"}, standardize=False)
    others, _, _ = scored(config)
    assert [record["errors"] for record in records] == [record["errors"] for record in others]
    file = tmp_path / "list.txt"
    keys = []
    for name in ("b", "c"):
        file.write_text(f"a\n{name}\n")
        zarr_uri = write_zarr(tmp_path / "t.zarr", X, Y, names=NAMES)
        run(choosing(tmp_path / name, zarr_uri, str(file)))
        keys.append(results_hash(tmp_path / name))
    assert keys[0] != keys[1]


def test_chosen_columns_cost_what_they_hold():
    from mmpca_dist.tables.chosen_columns import SomeColumns
    from mmpca_dist.tables.readers.memory import source_in_memory

    rows = source_in_memory(np.asarray(X), "X")
    few = SomeColumns(rows, AT)
    assert few.n_bytes == rows.n_bytes
    assert SomeColumns(few, [2, 1]).read(0, 240).tolist() == X[:, [3, 0]].tolist()


SOUND = {"methods": "pca", "n_components": 2, "output": "out"}


@pytest.fixture
def table(tmp_path):
    """Return the path of a Parquet file with an identifier, a text, 20 features and a label."""
    n = 30
    columns = {"id": np.arange(n) * 1000, "name": [f"row {i}" for i in range(n)]}
    columns |= {f"f{j}": np.random.default_rng(j).standard_normal(n) for j in range(20)}
    pq.write_table(pa.table({**columns, "label": np.arange(n) % 3}), tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


def test_columns_that_are_no_features_are_left_out(table):
    dataset = open_dataset(table, drop=["id", "name"])
    assert dataset.feature_names == [f"f{j}" for j in range(20)]
    expected = np.column_stack([np.random.default_rng(j).standard_normal(30) for j in range(20)])
    np.testing.assert_array_equal(dataset.read_rows(0, 30), expected)
    assert dataset.fingerprint() != open_dataset(table, drop=["name"]).fingerprint()


def test_new_rows_may_have_the_columns_that_were_left_out(table, tmp_path):
    output = str(tmp_path / "out")
    run({**SOUND, "dataset": {"uri": str(table), "drop": ["id", "name"]}, "output": output})
    through(output, table, tmp_path / "new")
    rows = open_dataset(table, drop=["id", "name"]).read_rows(0, 30)
    projected = open_dataset(tmp_path / "new" / "projected" / "pca.zarr").read_rows(0, 30)
    np.testing.assert_allclose(projected, load_model(output, "pca").transform(rows), rtol=1e-5, atol=1e-5)


def test_a_column_that_is_no_number_says_how_to_leave_it_out(table):
    with pytest.raises(InputError, match=r"'name' of .* type string, .*dataset\.drop=\[name\]"):
        open_dataset(table)


@pytest.mark.parametrize(("drop", "expected"), [
    (["nam"], "dataset.drop names 'nam', which is no column of .*Did you mean 'name'"),
    (["NAME"], "dataset.drop names 'NAME', which is no column of .*Did you mean 'name'"),
    (["label"], "'label', which is the label"),
    (["zzzz"], r"Its columns are 'id', 'name', 'f0', .*'f7', \.\.\. \(23 in all\)\.$"),
])  # fmt: skip
def test_columns_to_leave_out_must_be_there(table, drop, expected):
    with pytest.raises(InputError, match=expected):
        open_dataset(table, drop=drop)


def test_only_parquet_has_columns_to_leave_out():
    with pytest.raises(InputError, match=r"dataset\.drop is .*, but bundled:iris is a bundled table"):
        open_dataset("bundled:iris", drop=["id"])


def test_a_list_column_beside_others_may_be_all_that_is_left(tmp_path):
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12.0)), 4)
    pq.write_table(pa.table({"id": [1, 2, 3], "X": rows, "label": [0, 1, 0]}), tmp_path / "lists.parquet")
    dataset = open_dataset(tmp_path / "lists.parquet", drop=["id"])
    np.testing.assert_array_equal(dataset.read_rows(0, 3), np.arange(12.0).reshape(3, 4))


def test_a_missing_label_lists_few_columns(tmp_path):
    pq.write_table(pa.table({f"gene_{i}": [1.0, 2.0] for i in range(3000)}), tmp_path / "wide.parquet")
    with pytest.raises(InputError) as caught:
        open_dataset(tmp_path / "wide.parquet")
    assert "(3000 in all)" in str(caught.value)
    assert len(str(caught.value)) < 400
