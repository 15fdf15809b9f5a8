"""CSV in made-up dialects: the rows that DuckDB reads when told the dialect, or a refusal with line and column."""

import csv
import io

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.ingested import ingest

from mmpca_dist.errors import InputError

N = 40
NAMES = ["a", "n", "s", "day", "y"]
CALM = ["café", "sí", "x y", "ångström"]
HARD = ["plain", "a, b; c|d\te", 'say ""no""', "two\nlines", '""', '5" pipe', "'", "\\", "a\\b", '"""', "  padded "]


def cells(texts=CALM, decimal="."):
    rng = np.random.default_rng(0)
    numbers = [f"{value:.5g}".replace(".", decimal) for value in rng.normal(size=N)]
    days = [f"2026-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N)]
    return [[numbers[i], str(rng.integers(99)), texts[i % len(texts)], days[i], "pq"[i % 2]] for i in range(N)]


def text(rows=None, header=NAMES, delimiter=",", end="\n", quoting=csv.QUOTE_MINIMAL):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([*([header] if header else []), *(cells() if rows is None else rows)])
    return file.getvalue()


def with_row(line, at=20, **how):
    lines = text(**how).splitlines()
    return "\n".join([*lines[:at], line, *lines[at:], ""])


def without(value, column=0):
    return text([[value if (i % 7, j) == (3, column) else cell for j, cell in enumerate(row)]
                 for i, row in enumerate(cells())])  # fmt: skip


DIALECTS = {
    f"{mark!r}, {end!r}, quoting {quoting}": (
        text(cells(CALM if end == "\r" else HARD), delimiter=mark, end=end, quoting=quoting), {"delim": mark},
    )
    for mark in ",;\t| " for end in ("\n", "\r\n", "\r") for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
}  # fmt: skip
DIALECTS |= {f"decimal commas, {mark!r}": (text(cells(decimal=","), delimiter=mark), {"delim": mark, "decimal": ","})
             for mark in ";\t|"}  # fmt: skip
DIALECTS |= {f"missing: {word!r}": (without(word), {}) for word in ("", "NA", "null", "NaN", "#N/A", " ", "None")}
DIALECTS |= {f"a cell {cell!r}": (without(cell), {}) for cell in ("+7", "-1e-3", "inf", " 8 ", ".5", "1e400")}
DIALECTS |= {
    "no names": (text(header=None), {"header": False}),
    "names quoted": (text(quoting=csv.QUOTE_ALL), {}),
    "names with ends of lines": (text(header=["a\n(mm)", *NAMES[1:]]), {}),
    "numbers for names": (text([[*row[:2], row[4]] for row in cells()], header=["400", "402", "label"]), {}),
    "a mark of byte order": ("\ufeff" + text(), {}),
    "such a mark before a quote": ("\ufeff" + text([["a,", *row[1:]] for row in cells()], quoting=csv.QUOTE_ALL), {}),
    "UTF-16": (text().encode("utf-16"), {"encoding": "utf-16"}),
    "comments before": ("# by hand\n% two\n\n" + text(), {"skip": 3}),
    "sep=": ("sep=;\r\n" + text(delimiter=";", end="\r\n"), {"delim": ";", "skip": 1}),
    "empty lines": (with_row("\n\n") + "\n\n", {}),
    "no end of the last line": (text().removesuffix("\n"), {}),
    "one row": (text(cells()[:1]), {}),
    "a long cell": (text(cells(["x" * 900])), {}),
    "a quote within a cell": (with_row('1,2,5" pipe,2026-01-01,p'), {"strict_mode": False}),
    "quoted numbers": (with_row('"1.5","2","x","2026-01-01","p"'), {}),
    "text among dates": (with_row("1,2,x,soon,p"), {}),
    "times among dates": (with_row("1,2,x,2026-01-01 10:00:00,p"), {}),
    "whole numbers beyond 64 bits": (text([[str(10**24 + i), "1", "p"] for i in range(N)], NAMES[:3]), {}),
}  # fmt: skip
REFUSED = {
    "a short row": (with_row("1,2,x"), r"Row 19 \(line 21\) .* has 3 cells where 5 belong"),
    "a long row": (with_row("1,2,x,2026-01-01,p,7"), r"Row 19 \(line 21\) .* has 6 cells where 5 belong"),
    "a short row below cells of two lines": (
        with_row("1,2,x", 21, rows=cells(["two\nlines"])), r"Row 10 \(line 22\) .* has 3 cells where 5 belong",
    ),
    "an open quote": (with_row('1,2,"x,2026-01-01,p'), r"line 21 .* is not closed"),
    "Latin-1": (text().encode("latin-1"), r"Line 2 of .* is not UTF-8 .* iconv -f cp1252"),
    "a title": ("Prices\n\n" + text(), r"one column in line 1.*tail -n \+2"),
    "nothing": ("", r"is empty"),
    "a number in another base": (without("0x10"), r"Column 'a' .* text: '0x10' in row 3 \(line 5\)"),
    "escapes by a mark": (with_row(r'1,2,"a\",b",2026-01-01,p'), r"Row 19 \(line 21\)"),
}  # fmt: skip


def read(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    ingest(path, path.with_suffix(".parquet"))
    return pq.read_table(path.with_suffix(".parquet"))


def alike(value, cell, decimal):
    """Tell whether a value is what the text of a cell says."""
    cell = None if cell is None or cell.strip() in ("", "NA", "null", "NaN", "#N/A", "None") else cell.strip()
    if value is None or cell is None:
        return value is cell
    if isinstance(value, int | float):
        return float(cell.replace(decimal, ".")) == value
    return str(value).removesuffix(" 00:00:00") == cell


@pytest.mark.parametrize("block", [16, 1 << 20])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_rows_are_those_of_duckdb(dialect, block, tmp_path, limits):
    limits.text_block_bytes, limits.text_block_lines = block, 0
    content, how = DIALECTS[dialect]
    found = read(tmp_path / "t.csv", content)
    how = {"header": True, "delim": ",", "quote": '"', "escape": '"', "comment": "", **how}
    decimal = how.pop("decimal", ".")
    options = ", ".join(f"{name}={value!r}" for name, value in how.items())
    relation = duckdb.sql(f"from read_csv('{tmp_path}/t.csv', all_varchar=true, {options})")
    expected = relation.fetchall()
    assert found.num_rows == len(expected)
    if how["header"]:
        assert found.column_names == relation.columns
    for row, other in zip(zip(*(column.to_pylist() for column in found.columns), strict=True), expected, strict=True):
        assert all(alike(*pair, decimal) for pair in zip(row, other, strict=True)), (row, other)


@pytest.mark.parametrize("dialect", REFUSED)
def test_what_is_refused_names_the_place(dialect, tmp_path, limits):
    limits.text_block_bytes, limits.text_block_lines = 16, 0
    content, message = REFUSED[dialect]
    with pytest.raises(InputError, match=message):
        read(tmp_path / "t.csv", content)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
