"""CSV as programs of other places write it, compared with what pandas reads when it is told how."""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.ingested import ingest

from mmpca_dist.errors import InputError
from mmpca_dist.runs.check import check

N = 120


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 3)).round(5), columns=["a", "b", "c"])
    return frame.assign(d=rng.integers(0, 99, N), y=rng.choice(["café", "sí", "né"], N))


def read(path, notes=None, **options):
    made = path.with_suffix(".made.parquet")
    ingest(path, made, overwrite=True, note=(notes if notes is not None else []).append, **options)
    return pq.read_table(made).to_pandas()


FORMS = {
    "spaces": ({"sep": " "}, "", "utf-8"),
    "CR of Excel": ({"lineterminator": "\r", "sep": ";", "decimal": ","}, "", "utf-8-sig"),
    "comments of percent": ({"sep": ";"}, "% one\n", "utf-8"),
    "sep and bar": ({"sep": "|"}, "sep=|\n", "utf-8-sig"),
    "UTF-16 without a mark": ({"sep": "\t"}, "", "utf-16-le"),
    "UTF-16 of Macs": ({"lineterminator": "\r\n"}, "", "utf-16-be"),
}


def zipped(text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", text)
    return file.getvalue()


def by_zstd(text):
    file = pa.BufferOutputStream()
    with pa.CompressedOutputStream(file, "zstd") as stream:
        stream.write(text)
    return file.getvalue().to_pybytes()


NAMES = {"t.csv": bytes, "t.csv.gz": gzip.compress, "t.csv.zst": by_zstd, "t.csv.zip": zipped, "t.data": bytes}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_forms_are_read_as_they_are_meant(form, name, tmp_path):
    options, before, encoding = FORMS[form]
    path = tmp_path / name
    text = (before + table().to_csv(index=False, **options)).encode(encoding)
    path.write_bytes(NAMES[name](text))
    pd.testing.assert_frame_equal(read(path), table(), check_dtype=False)
    checked = check(str(path))
    assert (checked.refused, checked.n_rows, checked.n_features) == ([], N, 4)


def test_names_of_rows_as_r_writes_them(tmp_path):
    for sep in (",", "\t", " ", ";"):
        names, _, rows = table().to_csv(sep=sep, quoting=2).partition("\n")
        (tmp_path / "t.csv").write_text(names.removeprefix(f'""{sep}') + "\n" + rows)
        notes = []
        pd.testing.assert_frame_equal(read(tmp_path / "t.csv", notes), table(), check_dtype=False)
        assert "no name" in notes[0]


@pytest.mark.parametrize("mark", ["#", "%"])
@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_a_first_column_that_is_called_by_a_mark_of_comments_is_one(mark, sep, tmp_path):
    table().to_csv(tmp_path / "t.csv", index_label=mark, sep=sep)
    assert next(iter(read(tmp_path / "t.csv"))) == mark
    assert check(str(tmp_path / "t.csv"), "y").n_features == 4


def test_row_numbers_of_pandas_are_no_feature(tmp_path):
    table().to_csv(tmp_path / "t.csv", index_label="Unnamed: 0")
    manifest = ingest(tmp_path / "t.csv", tmp_path / "t.zarr", label="y")
    assert manifest["columns"] == 4
    read(tmp_path / "t.csv").to_parquet(tmp_path / "u.parquet", index=False)
    for name in ("t.csv", "u.parquet"):
        assert check(str(tmp_path / name), "y").n_features == 4


@pytest.mark.parametrize(("cell", "value"), [(" ", None), (" NA ", None), ("  41 ", 41), ("None", None), ("\t", None)])
def test_cells_are_trimmed_before_types_are_decided(cell, value, tmp_path):
    ages = [cell if i % 30 == 7 else str(20 + i % 50) for i in range(300)]
    (tmp_path / "t.csv").write_text("age,y\n" + "\n".join(f"{age},{i % 2}" for i, age in enumerate(ages)) + "\n")
    found = read(tmp_path / "t.csv")["age"]
    assert found.dtype.kind in "if"
    assert found.isna().sum() == (10 if value is None else 0)
    assert value is None or found[7] == value
    assert check(str(tmp_path / "t.csv")).n_gaps == (10 if value is None else 0)


def test_cells_of_blanks_in_a_later_block_are_gaps_too(tmp_path, monkeypatch):
    from mmpca_dist.ingest import csv

    monkeypatch.setattr(csv, "MAX_BLOCK_BYTES", 400)
    lines = [f"{i},2026-01-{1 + i % 28:02},true,u" for i in range(100)] + [" , , , "] * 2 + ["7,2026-02-01,false,v"]
    (tmp_path / "t.csv").write_text("n,day,flag,y\n" + "\n".join(lines) + "\n")
    read(tmp_path / "t.csv")
    found = pq.read_table(tmp_path / "t.made.parquet")
    assert [str(kind) for kind in found.schema.types] == ["int64", "date32[day]", "bool", "string"]
    assert [column.null_count for column in found.columns] == [2, 2, 2, 2]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_decimal_comma_that_nothing_tells_is_named_and_can_be_set(kind, tmp_path):
    text = table().assign(**{name: table()[name].map(lambda v: f"{v:.5f}".replace(".", ",")) for name in "abc"})
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        text.to_csv(path, index=False)
    else:
        text.to_parquet(path)
    checked = check(str(path))
    assert (checked.n_features, checked.decimal, checked.refused) == (4, ",", [])
    if kind == "csv":
        pd.testing.assert_frame_equal(read(path, decimal=","), table(), check_dtype=False)


def test_a_thousands_sign_is_no_decimal_comma(tmp_path):
    """In a table of tabs, 5,000 is five thousand: it is named, and not read as 5."""
    table().assign(d=[f"{5000 + 7 * i:,}" for i in range(N)]).to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    checked = check(str(tmp_path / "t.tsv"))
    assert (checked.decimal, checked.n_features) == (None, 3)
    assert any("thousands sign" in note for note in checked.notes)


@pytest.mark.parametrize(("first", "rows", "names"), [
    ("rain,hot,yes", ["sun,cold,no", "rain,cold,yes", "sun,hot,no"], None),
    ("outlook,heat,play", ["sun,cold,no", "rain,cold,yes", "sun,hot,no"], ["outlook", "heat", "play"]),
    ("?,hot,yes", ["3,cold,no", "4,hot,yes", "5,hot,no"], None),
    ("a,b,c", ["1.5,2.5,c", "2.5,1.5,a", "0.5,1,b"], ["a", "b", "c"]),
    ("0,1,2", ["0.5,2,0", "1.5,3,1"], ["0", "1", "2"]),
    ("0,1", ["0.25,3.5", "0.5,4.5"], ["0", "1"]),
    ("0,1", ["5,1", "6,0"], None),
    (",0,1,2", ["0,7,8,a", "1,8,9,b"], ["0", "1", "2"]),
    ("Unnamed: 0,0,1,2", ["0,7,8,1", "1,8,9,0"], ["Unnamed: 0", "0", "1", "2"]),
    ("red,blue", ["blue,red", "green,blue"], None),
])  # fmt: skip
def test_the_first_line_of_words_and_of_counts(first, rows, names, tmp_path):
    (tmp_path / "t.csv").write_text("\n".join([first, *rows]) + "\n")
    found = read(tmp_path / "t.csv")
    assert len(found) == len(rows) + (names is None)
    assert names is None or list(found.columns) == names


def test_names_of_columns_of_words_may_repeat(tmp_path):
    frame = pd.DataFrame({"q": np.resize(["u", "v", "w"], N), "r": np.resize(["s", "t"], N), "y": table()["y"]})
    (tmp_path / "t.csv").write_text("q,q,y\n" + frame.to_csv(index=False, header=False))
    made = read(tmp_path / "t.csv")
    assert [*made] == ["q", "q.1", "y"]
    np.testing.assert_array_equal(made, frame)


def test_names_of_columns_may_have_ends_of_lines_and_marks(tmp_path):
    frame = table().rename(columns={"a": "a\n(mm)", "b": 'b 5" "'})
    frame.to_csv(tmp_path / "t.csv", index=False)
    made = read(tmp_path / "t.csv")
    assert [*made] == [*frame]
    np.testing.assert_array_equal(made, frame)
    (tmp_path / "t.csv").write_text('a,5" pipe,y\n' + frame[["d", "c", "y"]].to_csv(index=False, header=False))
    assert [*read(tmp_path / "t.csv")] == ["a", '5" pipe', "y"]
    (tmp_path / "t.csv").write_text('"a,b,y\n' + frame.to_csv(index=False, header=False))
    with pytest.raises(InputError, match=r"A quote that is opened in line 1 of .* is not closed"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize("again", ["a,b,c,d,y", '"a","b","c","d","y"', "a, b, c, d, y", "a ,b,c,d,y\r"])
def test_a_line_of_names_that_occurs_again_is_no_row(again, tmp_path):
    lines, notes = table().to_csv(index=False).splitlines(), []
    (tmp_path / "t.csv").write_bytes("\n".join([*lines[:60], again, *lines[60:], again, ""]).encode())
    np.testing.assert_array_equal(read(tmp_path / "t.csv", notes), table())
    assert any("occurs again, as 2 lines" in note for note in notes)
