"""A choice of columns by name or number: in every format, in runs, and in what a model is given afterwards."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from helpers.evaluating import scored, store
from helpers.resuming import results_hash, write_rows
from helpers.runs import make_config
from helpers.samples import labelled
from helpers.transforming import write_parquet

from mmpca_dist import class_moments, load_model, open_dataset, run
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs.refresh import RefreshConfig, refresh
from mmpca_dist.runs.stages import preview
from mmpca_dist.runs.transform_rows import TransformConfig, transform
from mmpca_dist.tables.readers.formats import open_rows

X, Y = labelled(240, 6, 3, seed=5)
X = X.round(2) * (np.random.default_rng(0).random(X.shape) < 0.6)
NAMES = list("abcdef")
CHOSEN = ["e", "a", "d"]
AT = [4, 0, 3]
no_report = pytest.mark.usefixtures("no_report")


def named_zarr(path, rows, y, names=NAMES, chunk=50):
    write_rows(path, rows, y, chunk)
    zarr.open_group(str(path), mode="a").attrs["feature_names"] = list(names)
    return str(path)


def tables(folder, rows=X, y=Y):
    """Return the same rows in several formats, and the choice of the same columns in each."""
    return {
        "zarr": (named_zarr(folder / "t.zarr", rows, y), CHOSEN),
        "plain": (write_rows(folder / "plain.zarr", rows, y, 50), AT),
        "parquet": (write_parquet(folder / "t.parquet", rows, y, NAMES), CHOSEN),
        "numbers": (write_parquet(folder / "n.parquet", rows, y, NAMES), AT),
        "sparse": (str(store(folder / "t.npz", rows, y, sparse=True)), AT),
    }


def config_of(output, uri, columns, **changes):
    dataset = {"uri": str(uri), "columns": columns}
    return make_config(output, methods=["pca", "m-pca0"], n_components=[2], dataset=dataset, **changes)


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
    expected = class_moments(open_dataset(write_rows(tmp_path / "few.zarr", X[:, AT], Y, 50)))
    for kind in ("zarr", "plain"):
        uri, columns = tables(tmp_path)[kind]
        found = class_moments(open_dataset(uri, columns=columns))
        np.testing.assert_array_equal(found.scatters, expected.scatters)
        np.testing.assert_array_equal(found.means, expected.means)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["alpha_gane"], r"dataset.columns names 'alpha_gane', which is no feature of .* Did you mean 'alpha_gene'\?"),
        (["alpha_gene", 0], r"has column 'alpha_gene' 2 times"),
        ([6], r"has column 6; those of .* are numbered 0 to 5"),
        ([], "chooses no column"),
        ("absent.txt", r"is 'absent.txt', and there is no such file"),
    ],
)
def test_a_bad_choice_is_refused_in_one_sentence(columns, message, tmp_path):
    names = ["alpha_gene", *NAMES[1:]]
    for uri in (named_zarr(tmp_path / "t.zarr", X, Y, names), write_parquet(tmp_path / "t.parquet", X, Y, names)):
        with pytest.raises(InputError, match=message):
            open_dataset(uri, columns=columns)
    plain = write_rows(tmp_path / "p.zarr", X, Y, 50)
    with pytest.raises(InputError, match="have no names: give their numbers"):
        open_dataset(plain, columns=["a"])
    with pytest.raises(ConfigError, match=r"dataset\.columns must be a file with one name or number a line"):
        config_of(tmp_path / "out", plain, {"a": 1})


@no_report
@pytest.mark.e2e
def test_models_choose_again_by_themselves(tmp_path):
    """The file of the choice is not needed again; new tables have more columns, in another order."""
    few = write_rows(tmp_path / "few.zarr", X[:, AT], Y, 50)
    run(make_config(tmp_path / "few", few, methods=["pca", "m-pca0"], n_components=[2]))
    expected = load_model(str(tmp_path / "few"), "m-pca0")
    order = [5, 4, 3, 2, 1, 0]
    new = X[::-1] + 1
    for kind, (uri, columns) in tables(tmp_path).items():
        file = tmp_path / "list.txt"
        file.write_text("".join(f"{column}\n" for column in columns))
        output = tmp_path / "runs" / kind
        config = config_of(output, uri, str(file) if kind != "numbers" else columns)
        assert preview(config).to_json()
        assert run(config)["count"]["n_features"] == 3
        file.unlink()
        model = load_model(str(output), "m-pca0")
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)
        folder = tmp_path / f"new-{kind}"
        folder.mkdir()
        if kind == "zarr":
            rows = named_zarr(folder / "r.zarr", new[:, order], Y, [NAMES[i] for i in order])
        elif kind in ("parquet", "numbers"):
            rows = write_parquet(folder / "r.parquet", new[:, order], Y, [NAMES[i] for i in order])
        else:
            rows = Path(tables(folder, new)[kind][0])
            rows = str(rows.rename(folder / f"r{rows.suffix}"))
        to = TransformConfig(output=str(output), dataset=rows, destination=str(folder / "out"), methods=["m-pca0"])
        transform(to)
        Z = open_rows(str(folder / "out/projected/m-pca0.zarr")).read_rows(0, 240)
        np.testing.assert_allclose(Z, expected.transform(new[:, AT]), atol=1e-9, err_msg=kind)
        live = refresh(RefreshConfig(run=str(output), new=rows, output=str(tmp_path / f"live-{kind}")))["folder"]
        both = np.vstack([X[:, AT], new[:, AT]]).mean(axis=0)
        np.testing.assert_allclose(load_model(live, "pca").mean_, both, atol=1e-9, err_msg=kind)


@no_report
def test_a_new_table_that_lacks_a_chosen_column_is_refused(tmp_path):
    uri, columns = tables(tmp_path)["zarr"]
    run(config_of(tmp_path / "out", uri, columns))
    new = named_zarr(tmp_path / "new.zarr", X, Y, ["a", "b", "c", "d", "eee", "f"])
    with pytest.raises(InputError, match=r"lacks 1 of the 3 features that the model was fitted to: 'e'"):
        transform(TransformConfig(output=str(tmp_path / "out"), dataset=new, destination=str(tmp_path / "p")))


@pytest.mark.e2e
def test_evaluations_choose_too_with_text_gaps_and_another_file_is_another_run(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES).assign(label=Y, town=np.where(Y == 0, "p", "q"))
    frame.loc[:9, "a"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    dataset = {"uri": str(tmp_path / "t.parquet"), "columns": ["town", "a", "d"], "missing": "mean"}
    config = make_config(tmp_path / "out", methods=["pca"], n_components=[2], dataset=dataset, standardize=False)
    records, _, results = scored(config)
    assert results["count"]["feature_names"] == ["town=q", "a", "d"]
    few = frame[["town", "a", "d", "label"]]
    few.to_parquet(tmp_path / "few.parquet")
    dataset = {"uri": str(tmp_path / "few.parquet"), "missing": "mean"}
    others, _, _ = scored(
        make_config(tmp_path / "o", methods=["pca"], n_components=[2], dataset=dataset, standardize=False)
    )
    assert [record["errors"] for record in records] == [record["errors"] for record in others]
    file = tmp_path / "list.txt"
    keys = []
    for name in ("b", "c"):
        file.write_text(f"a\n{name}\n")
        zarr_uri = named_zarr(tmp_path / "t.zarr", X, Y)
        run(config_of(tmp_path / name, zarr_uri, str(file)))
        keys.append(results_hash(tmp_path / name))
    assert keys[0] != keys[1]


def test_chosen_columns_cost_what_they_hold():
    """The plan counts the choice, and one unit of whole rows beside it."""
    from mmpca_dist.tables.chosen_columns import ChosenColumns
    from mmpca_dist.tables.readers.memory import ArrayDataset

    rows = ArrayDataset(np.asarray(X), Y)
    few = ChosenColumns(rows, AT)
    assert few.n_bytes == rows.n_bytes
    assert few.reading_bytes(100) == 100 * 24 + rows.reading_bytes(100)
    assert ChosenColumns(few, [2, 1]).read_rows(0, 240).tolist() == X[:, [3, 0]].tolist()
