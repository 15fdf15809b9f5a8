"""Columns of numbers with a few other cells: what ``check`` accepts runs, and what it calls a gap is one."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mmpca_dist
from mmpca_dist import MarginPCA
from mmpca_dist.configuration.schema import RunConfig, load_config
from mmpca_dist.errors import ColumnError, InputError
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.runs.check import check
from mmpca_dist.runs.draft import suggested_yaml

N, AT = 300, [3, 50, 77, 200, 299]


def table(word="?", column="age", at=AT):
    """Return five columns of numbers, of which one is text with other cells, and a label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    frame = pd.DataFrame(rng.normal(size=(N, 4)) + y[:, None], columns=list("abcd"))
    frame[column] = rng.integers(20, 65, N).astype(str)
    frame.loc[at, column] = word
    return frame.assign(y=np.array(["no", "yes"])[y])


def write(frame, folder, kind):
    path = folder / f"t.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return str(path)


def rows_of(path, folder, **dataset):
    """Return the rows of a run, by the draft of ``check`` or by settings."""
    if dataset:
        section = {"uri": path, "label": "y", **dataset}
        plain = {"dataset": section, "methods": ["pca"], "n_components": [1], "output": str(folder / "run")}
        inputs = Inputs.of(RunConfig.model_validate(plain))
    else:
        (folder / "draft.yaml").write_text(suggested_yaml(check(path)), encoding="utf-8")
        inputs = Inputs.of(load_config(folder / "draft.yaml", {"output": str(folder / "run")}))
    return inputs.dataset.read_rows(0, inputs.dataset.n_rows), inputs.dataset.feature_names


WORDS = ["?", "-", ".", r"\N", "12 kg", "41%", "$41.50", "5,000", "unknown", "*", "not done", "<0.5"]
KNOWN = ["None", "<NA>", " ", "", "n/a", " NA "]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("word", WORDS + KNOWN)
def test_five_features_are_made_where_five_are_right(word, kind, tmp_path):
    frame = table(word)
    path = write(frame, tmp_path, kind)
    checked = check(path)
    expected = pd.to_numeric(frame["age"], errors="coerce").to_numpy()
    X, names = rows_of(path, tmp_path)
    assert (checked.n_features, checked.n_gaps, names) == (5, 5, ["a", "b", "c", "d", "age"])
    np.testing.assert_array_equal(X[:, 4], expected)
    assert checked.missing_values == ([word] if word in WORDS else [])
    if word in WORDS:
        assert f"age: 295 numbers, and {word!r} 5 times." in checked.notes
        with pytest.raises(ColumnError, match=r"295 numbers, and .* 5 times.*missing_values") as caught:
            rows_of(path, tmp_path, missing="mean")
        assert caught.value.faults[0].facts["words"] == [word]
    X, _ = rows_of(path, tmp_path, missing="mean", missing_values=WORDS)
    np.testing.assert_array_equal(X[:, 4], expected)


@pytest.mark.parametrize("word", ["?", "None"])
def test_gaps_that_words_say_are_refused_where_gaps_are(word, tmp_path):
    for kind in ("csv", "parquet"):
        with pytest.raises(ColumnError, match="5 missing values"):
            rows_of(write(table(word), tmp_path, kind), tmp_path, missing_values=["?"])


@pytest.mark.parametrize("word", ["?", "41%", "1,5"])
def test_estimators_name_the_column_and_the_remedy(word):
    frame = table(word)
    message = (
        r"'age' of X .*295 numbers, and .* 5 times\. Convert numbers: .*pd\.to_numeric\(X\['age'\], errors='coerce'"
    )
    with pytest.raises(InputError, match=message):
        MarginPCA(2).fit(frame.drop(columns="y"), frame["y"])
    mixed = frame.drop(columns="y").assign(age=[int(v) if v.isdigit() else v for v in frame["age"]])
    with pytest.raises(InputError, match=message):
        MarginPCA(2).fit(mixed.astype({"age": object}), frame["y"])
    with pytest.raises(InputError, match="295 numbers"):
        mmpca_dist.evaluate(mixed.astype({"age": object}), frame["y"])


@pytest.mark.parametrize(("cells", "n_features"), [
    (["1", "2", "3", "ER"], 4),  # wards
    (["1st", "2nd", "3rd"], 3),
    (["A1", "B2", "7"], 3),
    (["small", "large"], 1),
    (["01", "02", "03"], 3),
    (["(1)", "(2)", "3*"], 3),
])  # fmt: skip
def test_categories_stay_categories(cells, n_features, tmp_path):
    frame = table().assign(age=np.resize(cells, N))
    X, _ = rows_of(write(frame, tmp_path, "parquet"), tmp_path)
    assert X.shape == (N, 4 + n_features)
    fitted = MarginPCA(2, variant="m-pca0").fit(frame.drop(columns="y"), frame["y"])
    assert fitted.components_.shape[1] == 4 + n_features


@pytest.mark.parametrize("text", ["{:,}", "{}%", "${}.50", "{} kg", "EUR {}", "<{}"])
def test_numbers_in_another_notation_are_named_and_left_out(text, tmp_path):
    rng = np.random.default_rng(1)
    frame = table().assign(age=[text.format(v) for v in rng.integers(1000, 99_999, N)])
    for kind in ("csv", "parquet"):
        path = write(frame, tmp_path, kind)
        X, names = rows_of(path, tmp_path)
        assert (X.shape, names) == ((N, 4), ["a", "b", "c", "d"])
        with pytest.raises(ColumnError, match="300 numbers with a"):
            rows_of(path, tmp_path, missing="mean")


def test_words_count_in_all_columns_and_in_numbers(tmp_path):
    frame = table().assign(site=np.resize(["u", "v", "w", "?"], N))
    frame.loc[[5, 6], "a"] = -999
    for kind in ("csv", "parquet"):
        path = write(frame, tmp_path, kind)
        X, names = rows_of(path, tmp_path, missing="mean", missing_values=["?", -999])
        assert names[5:] == ["site=u", "site=v", "site=w"]
        assert np.isnan(X).sum(axis=0).tolist() == [2, 0, 0, 0, 5, 75, 75, 75]
        assert check(path, missing_values=["?", "-999"]).n_gaps == 2 + 5 + 75


def test_a_label_that_is_a_word_for_missing_is_none(tmp_path):
    frame = table("41").assign(y=np.resize(["yes", "no", "", "NA"], N))
    for kind in ("csv", "parquet"):
        path = write(frame, tmp_path, kind)
        checked = check(path)
        assert (dict(checked.classes), checked.n_unlabelled) == ({"yes": 75, "no": 75}, 150)
        X, _ = rows_of(path, tmp_path)
        assert len(X) == 150


def test_transforms_and_refreshes_take_the_words_of_the_run(tmp_path):
    projected = []
    for kind in ("csv", "parquet"):
        path = write(table(), tmp_path, kind)
        settings = {"output": str(tmp_path / f"run-{kind}"), "n_components": [2], "methods": ["pca"]}
        (tmp_path / "draft.yaml").write_text(suggested_yaml(check(path)), encoding="utf-8")
        mmpca_dist.run(load_config(tmp_path / "draft.yaml", settings))
        new = write(table().iloc[:60], tmp_path, kind)
        out = tmp_path / f"{kind}.parquet"
        mmpca_dist.transform(settings["output"], new, str(out))
        projected.append(pd.read_parquet(out).filter(like="pca").to_numpy())
        bad = write(table().iloc[:60].replace({"age": {"?": "x1"}}), tmp_path, kind)
        with pytest.raises(InputError, match=r"'age': .*x1"):
            mmpca_dist.transform(settings["output"], bad, str(tmp_path / "bad.parquet"))
        Path(bad).rename(tmp_path / f"bad.{kind}")
        with pytest.raises(InputError, match="58 numbers, and"):
            mmpca_dist.refresh(settings["output"], str(tmp_path / f"bad.{kind}"), str(tmp_path / f"live-{kind}"))
    np.testing.assert_array_equal(*projected)
    assert np.isfinite(projected[0]).all()


def test_text_of_numbers_alone_is_read_as_numbers_by_runs_and_transforms(tmp_path):
    path = write(table("41"), tmp_path, "parquet")
    settings = {"output": str(tmp_path / "run"), "n_components": [2], "methods": ["pca"]}
    (tmp_path / "draft.yaml").write_text(suggested_yaml(check(path)), encoding="utf-8")
    mmpca_dist.run(load_config(tmp_path / "draft.yaml", settings))
    mmpca_dist.transform(settings["output"], path, str(tmp_path / "out.parquet"))
    assert len(pd.read_parquet(tmp_path / "out.parquet")) == N


def test_rows_of_totals_are_refused_and_lines_of_names_left_out(tmp_path):
    frame = table("33")
    lines = frame.to_csv(index=False).splitlines()
    (tmp_path / "t.csv").write_text("\n".join([*lines, "1,2,3,4,Total,"]))
    assert "rows of totals" in check(str(tmp_path / "t.csv")).refused[0]
    (tmp_path / "t.csv").write_text("\n".join([*lines[:90], lines[0], *lines[90:], lines[0], ""]))
    X, _ = rows_of(str(tmp_path / "t.csv"), tmp_path)
    np.testing.assert_allclose(X, frame.drop(columns="y").astype(float))
    assert "occurs again, as 2 lines" in check(str(tmp_path / "t.csv")).notes[0]


def test_other_cells_in_one_of_many_blocks(limits, tmp_path):
    ages = [f"{20 + i * 0.37:.2f}" for i in range(600)]
    ages[500:510] = ["?"] * 10
    rows = "".join(f"{age},{i % 7 / 4},{'pq'[i % 2]}\n" for i, age in enumerate(ages))
    (tmp_path / "t.csv").write_text("age,b,y\n" + rows)
    limits.text_block_bytes, limits.text_block_lines = 400, 0
    checked = check(str(tmp_path / "t.csv"))
    assert (checked.missing_values, checked.n_features, checked.n_gaps) == (["?"], 2, 10)
    assert "age: 590 numbers, and '?' 10 times." in checked.notes


@pytest.mark.parametrize("text", ["({})", "{}-", "{}*", "{} **", "12,34,{}"])
def test_numbers_with_marks_are_named(text, tmp_path):
    numbers = np.random.default_rng(1).integers(100, 999, N)
    for kind in ("csv", "parquet"):
        checked = check(write(table().assign(age=[text.format(v) for v in numbers]), tmp_path, kind))
        (use,) = (use for use in checked.uses if use.column.name == "age")
        assert use.what == "left out" and use.reason.startswith("300 numbers with a "), use.reason


def test_finer_numbers_with_a_decimal_comma_are_no_identifier(tmp_path):
    frame = table().assign(age=[f"{i},{i % 7}" for i in range(N)])
    checked = check(write(frame, tmp_path, "csv"))
    assert "'age': left out (300 numbers with a decimal comma, such as '0,0': write plain numbers)" in checked.remedies
    with pytest.raises(InputError, match=r"= X\['age'\]\.str\.replace\(',', '\.'\)\.astype\(float\)"):
        MarginPCA(2).fit(frame.drop(columns="y"), frame["y"])


@pytest.mark.parametrize(("decimal", "word"), [(None, None), (",", None), (None, "?")])
def test_weights_targets_and_covariates_in_text_are_numbers(decimal, word, tmp_path):
    frame, rng = table("41"), np.random.default_rng(2)
    values = dict(zip(["w", "t", "z"], rng.uniform(1, 2, (3, N)).round(4), strict=True))
    for name, column in values.items():
        frame[name] = [str(value).replace(".", decimal or ".") for value in column]
    frame.loc[[7], "a"] = np.nan
    frame[[*"abcd"]] = frame[[*"abcd"]].round().astype("Int64")
    if word is not None:
        frame.loc[[3, 9], "t"] = word
    numbers = {"decimal": decimal, "missing_values": [word] if word else [], "missing": "mean", "unlabelled": "skip"}
    for kind in ("csv", "parquet"):
        path = write(frame, tmp_path, kind)
        section = {"uri": path, "target": {"column": "t"}, "weight": "w", "covariates": ["z"], "drop": ["y"], **numbers}
        plain = {"dataset": section, "methods": ["pls"], "n_components": [1], "output": str(tmp_path / "run")}
        batches = list(
            Inputs.of(RunConfig.model_validate(plain)).dataset.value_batches("weight", "covariates", "targets")
        )
        kept = np.ones(N, bool) if word is None else ~np.isin(np.arange(N), [3, 9])
        found = {role: np.concatenate([batch.roles[role] for batch in batches]).ravel() for role in batches[0].roles}
        np.testing.assert_array_equal(found["weight"], values["w"][kept])
        np.testing.assert_array_equal(found["targets"], values["t"][kept])
        assert len(found["covariates"]) == kept.sum()
