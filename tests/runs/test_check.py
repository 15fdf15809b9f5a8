"""``mmpca check``: what it finds in a table, the configuration that it writes, and that this runs unedited."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from helpers import examples
from helpers.ingested import ingest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_wine

from mmpca_dist import evaluate, run
from mmpca_dist.configuration.schema import load_config, parse_config
from mmpca_dist.errors import InputError
from mmpca_dist.ingest import column_profiles
from mmpca_dist.ingest.column_profiles import ColumnProfile
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs.check import check
from mmpca_dist.runs.checked_table import GROUPS, INDICATORS, LABEL, LEFT_OUT, NUMBER
from mmpca_dist.runs.draft import suggested_yaml
from mmpca_pipelines.cli import cli
from mmpca_pipelines.console import console

WHY = {
    "record_id": "identifier", "number": "identifier", "comment": "no two rows", "visit": "a date",
    "seen": "text of dates", "unit": "same value", "copy": "equals 'm00'", "mostly": "is missing", "nothing": "no row",
    "limit": "infinite", "customer": "names groups",
}  # fmt: skip


def messy(n_rows=600, n_measured=6):
    """Return a table as people have them; the last column is the label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_rows)
    measured = rng.normal(size=(n_rows, n_measured)) + 2 * (y[:, None] == np.arange(n_measured) % 3)
    table = pd.DataFrame({f"m{i:02d}": column * 10.0**i for i, column in enumerate(measured.T)}).round(4)
    table = table.mask(rng.random(table.shape) < 0.05)
    table.insert(0, "record_id", [f"r{i:05d}" for i in rng.permutation(n_rows)])
    table.insert(1, "patient", [f"p{i}" for i in rng.integers(0, 40, n_rows)])
    table["number"] = rng.permutation(n_rows) + 7
    table["customer"] = rng.integers(0, 8, n_rows)
    table["visit"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(rng.integers(0, 90, n_rows), "D")
    table["seen"] = [f"{day}/0{month}/2026" for day, month in rng.integers(1, 9, (n_rows, 2))]
    table["city"] = rng.choice(["north", "south", "hill"], n_rows)
    table["comment"] = [f"text of {i}" for i in range(n_rows)]
    table["smoker"] = rng.random(n_rows) < 0.3
    table["unit"], table["copy"], table["nothing"] = "mm", table["m00"], np.nan
    table["mostly"] = pd.Series(rng.normal(size=n_rows)).mask(rng.random(n_rows) < 0.8)
    table["limit"] = np.where(np.arange(n_rows) == 5, np.inf, rng.normal(size=n_rows))
    table["outcome"] = pd.Series(np.array(["healthy", "ill", "well"])[y]).mask(rng.random(n_rows) < 0.02)
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messy")
    messy().to_csv(folder / "messy.csv", index=False)
    messy().to_parquet(folder / "messy.parquet", index=False)
    return folder


def invoke(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    return result if result.exception is None or isinstance(result.exception, SystemExit) else result.exception


@pytest.mark.parametrize("name", ["messy.csv", "messy.parquet"])
def test_every_column_is_seen_for_what_it_is(folder, name, monkeypatch):
    monkeypatch.setattr(LIMITS, "text_block_bytes", 4096)  # in many pieces
    table, checked = messy(), check(str(folder / name))
    uses = {use.column.name: use for use in checked.uses}
    assert list(uses) == list(table.columns)
    for column, words in WHY.items():
        assert uses[column].what == LEFT_OUT and words in uses[column].reason, uses[column]
    assert (uses["patient"].what, uses["outcome"].what, uses["city"].what) == (GROUPS, LABEL, INDICATORS)
    assert all(uses[column].what == NUMBER for column in ("m00", "m05", "smoker"))
    for column in table:
        look = uses[column].column
        assert (look.n_rows, look.n_missing) == (600, table[column].isna().sum())
        assert look.n_distinct == table[column].nunique(), column
        if uses[column].what == NUMBER and column != "smoker":
            assert look.deviation == pytest.approx(table[column].std(ddof=0), rel=1e-12)
            assert (look.smallest, look.largest) == (table[column].min(), table[column].max())
    assert checked.classes == Counter(table["outcome"].dropna())
    assert checked.n_gaps == table[[name for name in uses if uses[name].n_features]].isna().sum().sum()
    refused = {use.column.name for use in checked.uses if use.refused}
    assert refused == {"visit", "limit"}
    assert len(checked.remedies) == len(refused) + 2  # gaps, and rows without a label


@pytest.mark.parametrize("name", ["messy.csv", "messy.parquet"])
def test_the_configuration_has_a_reason_for_every_choice(folder, name):
    text = suggested_yaml(check(str(folder / name)))
    content = yaml.safe_load(text)
    dataset = content["dataset"]
    assert set(dataset["drop"]) == {*WHY, "patient"}
    assert (dataset["label"], dataset["unlabelled"], dataset["missing"]) == ("outcome", "skip", "mean")
    assert content["standardize"] is True
    assert content["evaluation"] == {"splits": "groups", "column": "patient"}
    for line in text.splitlines():
        assert "#" in line or line.endswith(":") or line.startswith("output"), line


def test_two_commands_from_a_csv_to_a_report(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "my.yaml"
    assert invoke("check", folder / "messy.csv", "-o", config).exit_code == 0
    output = ("--no-prefect", "--set", "methods=[pca,fisher]", "-q")
    result = invoke("run", config, *output)
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "runs" / "messy" / "report" / "index.html").exists()
    shown = json.loads(invoke("show", "runs/messy", "--json").output)
    table = messy()
    assert shown["records"]["count"]["n_rows"] == table["outcome"].notna().sum()
    assert shown["records"]["count"]["n_features"] == 6 + 3 + 1  # numbers, cities, smoker
    assert set(shown["records"]["solve"]["models"]) == {"pca", "fisher"}
    page = (tmp_path / "runs" / "messy" / "report" / "index.html").read_text()
    assert "<h1>Run of messy.csv</h1>" in page and "new_rows.csv" in page
    refused = invoke("plan", config, "--set", "dataset.label=outcom")
    assert f"{folder / 'messy.csv'} has no column 'outcom'" in str(refused)
    few = table.drop(columns="outcome")[:9]
    few.to_csv(tmp_path / "few.csv", index=False)
    assert invoke("transform", "runs/messy", "few.csv", "out.csv", "--no-prefect").exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"my.yaml", "runs", "few.csv", "out.csv"}  # no copy is left
    (listed,) = json.loads(invoke("runs", "runs", "--json").output)
    assert (listed["state"], listed["methods"]) == ("finished", ["pca", "fisher"])


@pytest.mark.e2e
def test_the_same_configuration_evaluates_by_patient_and_a_table_alone_runs(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = ("--no-prefect", "--set", "methods=[pca,fisher]", "--set", "n_components=2")
    result = invoke("evaluate", folder / "messy.csv", "--label", "outcome", *few)
    assert result.exit_code == 0 and "a guess" not in result.output and "as you say" in result.output
    assert result.output.count("note: Missing: ") == result.output.count("note: Rows left out") == 1
    header = json.loads((tmp_path / "runs" / "messy" / "evaluation" / "run.json").read_text())
    assert header["config"]["evaluation"]["column"] == "patient"
    assert invoke("run", folder / "messy.csv", "--label", "outcome", *few).exit_code == 0
    assert len(list((tmp_path / "runs" / "converted").iterdir())) == 1  # both read the same rows


@given(
    st.lists(st.sampled_from([0.0, 1.0, 2.5, np.nan, 1e300]), min_size=1, max_size=60),
    st.lists(st.integers(1, 59), max_size=5),
)
@settings(max_examples=examples(25), deadline=None)
def test_pieces_do_not_matter(values, cuts):
    column, looks = pa.array(values), [ColumnProfile("x"), ColumnProfile("x")]
    looks[0].add(column)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(values)], strict=True):
        looks[1].add(column.slice(start, max(stop - start, 0)))
    once, often = ((x.n_rows, x.n_missing, x.n_distinct, x.levels, x.is_whole, x.all_differ) for x in looks)
    assert once == often
    known = [value for value in values if value == value]
    assert once[:3] == (len(values), len(values) - len(known), len(set(known)))


def test_the_sample_of_values_is_fair_and_counts_are_exact(monkeypatch):
    """Against pandas: of 20,000 names, 300 are kept, each with its number of rows."""
    monkeypatch.setattr(column_profiles, "VALUES", 300)
    names = pd.Series(np.random.default_rng(0).integers(0, 20_000, 100_000)).map("n{}".format)
    look = ColumnProfile("name")
    for start in range(0, len(names), 7_000):
        look.add(pa.array(names[start : start + 7_000]))
    counts = names.value_counts()
    assert len(look.levels) == 300
    assert look.levels == counts[list(look.levels)].to_dict()
    # The relative standard error of the estimate is 1/sqrt(300); five of them.
    assert look.n_distinct == pytest.approx(len(counts), rel=5 / np.sqrt(300))
    assert not look.all_differ and not look.keeps_all
    exact = ColumnProfile("few")
    exact.add(pa.array(["a", "b"] * 700 + [str(i) for i in range(100)]))
    assert exact.distinct == "102"
    assert look.distinct == f"about {float(f'{look.n_distinct:.1e}'):,.0f}" != f"about {look.n_distinct:,}"


def test_a_sample_of_values_does_not_tell_that_all_differ(folder, monkeypatch):
    monkeypatch.setattr(column_profiles, "VALUES", 0)
    (use,) = (use for use in check(str(folder / "messy.csv")).uses if use.column.name == "record_id")
    assert use.reason == "an identifier: nearly all rows differ"


@pytest.mark.parametrize(("width", "values"), [(80, False), (120, True)])
def test_a_narrow_terminal_shows_what_columns_are_for(folder, width, values, monkeypatch):
    monkeypatch.setattr(console, "_width", width)
    printed = invoke("check", folder / "messy.csv").output
    lines = [line for line in printed.splitlines() if line[:1] in "│|┃"]
    assert {len(line) for line in lines} == {len(lines[0])} and len(lines[0]) <= width  # with their right edge
    assert "indicators" in printed and ("whole number" in printed) == values


def test_arrays_and_sparse_text(tmp_path):
    X, y = load_wine(return_X_y=True)
    dump_svmlight_file(X, y, str(tmp_path / "wine.libsvm"), zero_based=False)
    ingest(tmp_path / "wine.libsvm", tmp_path / "wine.zarr", dtype="float64")
    lists = pa.table({"id": np.arange(len(y)), "x": list(X), "label": y})
    pq.write_table(lists, tmp_path / "wine.parquet", row_group_size=50)
    for name, layout in (("wine.libsvm", "text"), ("wine.zarr", "Crc32c"), ("wine.parquet", "50 rows (4), SNAPPY")):
        checked = check(str(tmp_path / name))
        assert layout in checked.layout
        assert (checked.n_rows, checked.n_features, checked.refused) == (178, 13, [])
        assert checked.classes == {str(k): n for k, n in Counter(y.tolist()).items()}
        np.testing.assert_allclose(checked.squares, X.var(axis=0) * len(X), rtol=1e-9)
        content = yaml.safe_load(suggested_yaml(checked))
        assert content["standardize"] is True  # proline holds nearly all of the scatter
        assert content["dataset"].get("features") == ("x" if name.endswith("parquet") else None)


def test_all_that_is_refused_is_told_at_once(tmp_path):
    table = tmp_path / "bad.csv"
    table.write_text("a,a,b\n1,1,only\n1,1,only\n")
    checked = check(str(table))
    assert ["No column is left" in text or "labels" in text for text in checked.refused] == [True, True]
    assert "numbered" in checked.notes[0]
    result = invoke("check", table, "-o", tmp_path / "bad.yaml")
    assert isinstance(result, InputError) and all(text in str(result) for text in checked.refused)
    assert not (tmp_path / "bad.yaml").exists()
    with pytest.raises(InputError, match="Did you mean 'b'"):
        check(str(table), "bb")
    table.write_text("a,price\n" + "\n".join(f"{i**0.5},{(7 * i % 50) ** 0.5}" for i in range(50)))
    content = yaml.safe_load(suggested_yaml(check(str(table), "price")))  # numbers to predict
    assert content["dataset"]["target"] == "price" and "lasso" in content["methods"]
    table.write_text("colour,size,label\n" + "".join(f"{'rgb'[i % 3]},{i % 2},{i % 5}\n" for i in range(60)))
    content = yaml.safe_load(suggested_yaml(check(str(table))))
    assert "m-pca2" not in content["methods"]  # every row has a row of another class that equals it


NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name not in ("__index_level_", "n", "label"))


@given(st.lists(NAMES, min_size=2, max_size=4, unique=True))
@example(["a\n- b", "c: d", "e # f", "\u2028", "null", "\x85", "- "])
@settings(max_examples=examples(10), deadline=None)
def test_hostile_names_stay_names(tmp_path_factory, names):
    """Names with ends of lines, colons or marks of comments come back as they are, and add no settings."""
    folder = tmp_path_factory.mktemp("names")
    columns = {name: [f"{name}{i}" for i in range(30)] for name in names}
    pq.write_table(pa.table({**columns, "label": ["a", "b"] * 15, "n": np.arange(30.0) ** 2}), folder / "t.parquet")
    text = suggested_yaml(check(str(folder / "t.parquet")))
    (folder / "t.yaml").write_text(text, encoding="utf-8")
    assert set(load_config(folder / "t.yaml").dataset.drop) == columns.keys()


def test_many_indicators_many_classes_and_totals_are_named(tmp_path):
    n = 12_000
    table = pd.DataFrame({"a": np.arange(n) % 97 / 7, "city": [f"c{i % 61}" for i in range(n)]})
    table["y"] = [f"k{i % 6000}" for i in range(n)]
    table.to_parquet(tmp_path / "t.parquet")
    checked = check(str(tmp_path / "t.parquet"))
    many = "Columns of text that make more than 50 indicators each: city (61). Leave out those that are no features."
    assert many in checked.notes
    assert any(note.startswith("'y' has about ") and "classes, of which a sample" in note for note in checked.notes)
    table = table.assign(y=np.resize(["p", "q"], n))
    table.iloc[:600].to_parquet(tmp_path / "t.parquet")
    (tmp_path / "draft.yaml").write_text(suggested_yaml(check(str(tmp_path / "t.parquet"))))
    config = load_config(tmp_path / "draft.yaml", {"output": str(tmp_path / "run"), "methods": ["pca"]})
    assert many in run(config)["count"]["notes"]
    for name in ("city", "y"):
        table.iloc[:600].assign(**{name: lambda t, name=name: [*t[name][:599], "Grand total"]}).to_csv(
            tmp_path / "t.csv", index=False)  # fmt: skip
        assert check(str(tmp_path / "t.csv")).refused == [
            f"There seem to be rows of totals: leave them out. See '{name}'."
        ]


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.timestamp("ms"), pa.time32("s"), pa.duration("s"), pa.list_(pa.int32())]
)
def test_labels_that_a_run_refuses_are_refused(kind, tmp_path):
    of_lists = pa.types.is_list(kind)
    values = pa.array([[i % 3] if of_lists else i % 3 for i in range(30)], kind if of_lists else pa.int32())
    values = values if of_lists else values.cast(pa.int64() if kind.bit_width > 32 else pa.int32()).cast(kind)
    pq.write_table(pa.table({"a": np.arange(30.0), "y": values}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"'y' holds type .*, and labels are text or numbers"):
        check(str(tmp_path / "t.parquet"), "y")


def test_labels_of_bytes_are_shown_as_a_run_reads_them_and_no_columns_are_refused(tmp_path):
    pq.write_table(pa.table({"a": np.arange(30.0), "y": [b"no", b"yes", b"so"] * 10}), tmp_path / "t.parquet")
    assert check(str(tmp_path / "t.parquet"), "y").classes == {"no": 10, "yes": 10, "so": 10}
    pd.DataFrame(index=range(5)).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="has no columns"):
        check(str(tmp_path / "t.parquet"))


def test_numbers_in_text_are_numbers_to_predict_and_truths_may_tell_the_classes(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=200), "price": rng.normal(size=200).round(4).astype(str)})
    table.loc[[3, 9], "price"] = "?"
    for kind in ("csv", "parquet"):
        table.to_csv(tmp_path / "t.csv", index=False) if kind == "csv" else table.to_parquet(tmp_path / "t.parquet")
        checked = check(str(tmp_path / f"t.{kind}"), "price", missing_values=["?"])
        assert (checked.predicts, checked.n_unlabelled, checked.classes) == (True, 2, {})
    labels = rng.choice(["p", "q"], 200)
    pd.DataFrame({"a": rng.normal(size=200), "is_p": labels == "p", "y": labels}).to_parquet(tmp_path / "t.parquet")
    assert any("'is_p' nearly tells the classes apart" in note for note in check(str(tmp_path / "t.parquet")).notes)


@pytest.mark.e2e
def test_network_connections(real_path, tmp_path, no_report):
    """Of 494,021 connections in 23 classes, without names of columns; against pandas and NumPy in double."""
    path = real_path("kddcup99_10_percent.csv.gz")
    table, checked = pd.read_csv(path, header=None), check(str(path))
    labels = table.pop(41)
    assert (checked.n_rows, checked.label, checked.refused) == (len(table), "41", [])
    assert checked.classes == labels.value_counts().to_dict() and len(checked.classes) == 23
    dropped = [j for j in table if table[j].nunique() == 1]
    assert [use.column.name for use in checked.of_use(LEFT_OUT)] == [*map(str, dropped)]

    texts = table[[1, 2, 3]].apply(lambda text: text.where(text.map(text.value_counts()) >= len(text) / 1000, "(rare)"))
    columns = pd.concat(
        [table.drop(columns=[1, 2, 3, *dropped]), pd.get_dummies(texts, prefix=["1", "2", "3"])], axis=1
    )
    config = parse_config({**yaml.safe_load(suggested_yaml(checked)), "output": str(tmp_path / "run")}, "the draft")
    result = run(config)
    assert checked.n_features == columns.shape[1] == 58
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(columns.to_numpy(np.float64).T))[::-1]
    np.testing.assert_allclose(result.model("pca").eigenvalues_[:3], eigenvalues[:3], rtol=1e-5)
    errors = evaluate(config).errors
    assert set(errors["method"]) == {"pca", "m-pca0", "m-pca1a", "fisher", "all-columns"}
    assert errors["mean"].min() < 1 < 3 < errors["mean"].max()  # percent; the largest class: 43
