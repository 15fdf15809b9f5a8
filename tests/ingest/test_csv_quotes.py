"""Quoted cells of CSV: they may hold ends of lines, and one that is not closed swallows no rows."""

import csv
import itertools

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from helpers import each
from helpers.ingested import ingest

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError

NAMES = ["x", '5" pipe', '3"', '"a, b"', '"two\nlines"', '"say ""no"""', '"n\n""m""\n"""', '"a" b', "'", '"x"']
CELLS = [*NAMES, '""', "", '"\n"', '"""\n"', '"\n""\n"""', '","']


def test_cells_are_those_that_the_module_csv_reads(tmp_path, limits):
    """Quotes around cells, doubled within them, and as characters of cells that are not quoted."""
    for seed, folder in each(range(40), tmp_path):
        compare_with_csv(seed, folder, limits)


def compare_with_csv(seed, tmp_path, limits):
    rng = np.random.default_rng(seed)
    limits.text_block_bytes, limits.text_block_lines = int(rng.choice([1, 20, 100, 1 << 20])), 0
    delimiter, end, mark = str(rng.choice([",", ";", "\t"])), str(rng.choice(["\n", "\r\n"])), "\ufeff" * (seed % 2)
    names, cells = (
        [cell for cell in rng.permutation(kinds)[: rng.integers(1, len(kinds))] if delimiter not in cell]
        for kinds in (NAMES, CELLS)
    )
    lines = [delimiter.join([*rng.choice([*names, "z"], 2), rng.choice([*cells, "z"]), str(i)]) for i in range(30)]
    written = mark + end.join([delimiter.join(["p", "q", "other", "b"]), *lines]) + end
    (tmp_path / "a.csv").write_text(written, encoding="utf-8", newline="")
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8-sig") as file:
        expected = list(csv.DictReader(file, delimiter=delimiter))
    ingest(tmp_path / "a.csv", tmp_path / "made.zarr", label="p", keep=["q"], drop=["other"])
    made = open_dataset(tmp_path / "made.zarr")
    assert made.read_rows(0, 30)[:, 0].tolist() == list(range(30))
    for dataset, name in ((made, "p"), (open_dataset(tmp_path / "made.zarr", label="q"), "q")):
        assert dataset.read_labels(0, 30).tolist() == [row[name].strip() for row in expected]


def test_a_quote_that_is_not_closed_beside_quotes_that_are_characters(tmp_path):
    """However many quotes there are in all, and in its line."""
    lines = ['1,2,5" pipe', '5",4,p', '5" pipe,4,"p"', '1,"2",p', '"",1,""']
    open_lines = ['1,2,"p', '5" pipe,2,"p', '5",2,"p', '"1",2,"p', '"a""b",1,"p']
    for line, open_line, after in itertools.product(lines, open_lines, (0, 3, 50_000)):
        (tmp_path / "a.csv").write_text("\n".join(["a,b,y", line, open_line, *["1,2,q"] * after]) + "\n")
        with pytest.raises(InputError, match=r"A quote that is opened in line 3 of .* is not closed\."):
            ingest(tmp_path / "a.csv", tmp_path / "made.zarr", drop=["a"])


def test_lines_are_counted_through_cells_of_several(tmp_path):
    rows = ["a,b,y", '0,"1",z', "", '1,2,"two\nlines"', '"3","4","p\n\n"', "x,5,q", "6,7,z"]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError, match=r"Column 'a' of .*: text: 'x' in row 3 \(line 9\)\."):
        ingest(tmp_path / "a.csv", tmp_path / "made.zarr")


def test_a_decimal_comma_is_named(tmp_path):
    (tmp_path / "a.csv").write_text('a,b,y\n"1,5",2,p\n3,4,q\n')
    with pytest.raises(InputError, match=r"text: '1,5' in row 0 \(line 2\), .* need a point.*: --decimal ,"):
        ingest(tmp_path / "a.csv", tmp_path / "made.zarr")


def test_a_first_column_without_a_name_is_left_out_aloud(tmp_path):
    (tmp_path / "a.csv").write_text(",a,b,y\n5.5,1,2,p\n1.5,3,4,q\n")
    notes: list[str] = []
    ingest(tmp_path / "a.csv", tmp_path / "made.zarr", label="y", note=notes.append)
    (note,) = notes
    assert note == f"The first column of {tmp_path}/a.csv has no name: it is taken for row numbers and left out."


CELLS_BY_KIND = {
    "null": ["", "NA"], "whole": ["1", "-2", ""], "real": ["1", "2.5", "1e3", "nan"], "truth": ["true", "FALSE", ""],
    "zero": ["0", "1", "true"], "day": ["2024-01-01", ""], "time": ["2024-01-01", "2024-01-02 10:00:00"],
    "fine": ["2024-01-01", "2024-01-02 10:00:00.5"], "zone": ["2024-01-01T10:00:00Z", "2024-01-01T10:00:00.5+02:00"],
    "both": ["2024-01-01", "2024-01-01T10:00:00Z"], "clock": ["10:00:00", "11:30"], "mixed": ["2024-01-01", "7", "x"],
    "text": ["a", '"b, c"', '"two\nlines"', "NULL"], "large": ["99999999999999999999", "1"], "code": ["007", "x7"],
}  # fmt: skip


@pytest.mark.parametrize("block", [1, 60, 200, 1 << 20])
def test_types_do_not_depend_on_blocks(block, tmp_path, limits):
    """They are those of pyarrow for the whole file, but for words alone as booleans, and digits that doubles lose."""
    limits.text_block_bytes, limits.text_block_lines = block, 0
    rng = np.random.default_rng(block)
    columns = [rng.choice(cells, 80) for cells in CELLS_BY_KIND.values()]
    lines = [",".join(CELLS_BY_KIND), *(",".join(row) for row in zip(*columns, strict=True))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    ingest(tmp_path / "a.csv", tmp_path / "a.parquet")
    words = {
        "true_values": ["true"],
        "false_values": ["FALSE"],
        "strings_can_be_null": True,
        "column_types": {"large": pyarrow.string()},
    }
    whole = pyarrow.csv.read_csv(
        tmp_path / "a.csv", parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(**words),
    )  # fmt: skip
    whole = whole.set_column(0, "null", whole.column(0).cast(pyarrow.float64()))
    pyarrow.parquet.write_table(whole, tmp_path / "whole.parquet")
    found, expected = (pyarrow.parquet.read_table(tmp_path / f"{name}.parquet") for name in ("a", "whole"))
    assert found.schema == expected.schema
    for name in found.column_names:
        a, b = (table.column(name).to_pylist() for table in (found, expected))
        np.testing.assert_array_equal(np.asarray(a, object), np.asarray(b, object), name)
