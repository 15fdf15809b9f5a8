"""Read CSV in blocks of whole rows with pyarrow."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.faults import Fault
from mmpca_dist.ingest.csv_syntax import (
    SEPARATOR,
    column_uses,
    delimiter_of,
    has_decimal_commas,
    is_header,
    open_quote,
    rows_of,
    whole_numbers,
)
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.ingest.row_source import LABELS, RowBlock, Text
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores.compression import HEAD_BYTES
from mmpca_dist.tables.column_faults import refusal
from mmpca_dist.tables.column_names import is_index, note_on_numbered, numbered
from mmpca_dist.tables.labels import distinct_labels, text_array
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.number_texts import MISSING, NOTATIONS, as_number, numbers_in, without_words
from mmpca_dist.tables.readers.column_choice import LABEL_NAMES
from mmpca_dist.tables.readers.formats import COMMENT

MAX_BLOCK_BYTES = 32 << 20
CELL_BYTES = 1 << 20
"""A quoted cell that is longer, ends of lines and all, is taken for one that is not closed."""
COLUMN_BYTES = 9 << 10
"""Bytes that pyarrow takes for each column of a block of any length: measured with 20,000 and 100,000 columns."""
WORDS = {"true_values": ["true", "True", "TRUE"], "false_values": ["false", "False", "FALSE"]}
"""Booleans; pyarrow takes 0 and 1 too."""
HEAD_LINES = 200
"""Lines at the beginning, at most, that tell of separators and names."""


class CsvRows(Text):
    """Comma-separated values (or semicolons, or tabs), with or without a line of names.

    ``label``, ``drop`` and ``keep`` of the selection are names or numbers of columns; negative numbers count from the
    end. Unless it is ``unlabelled``, the label is by default ``label``, ``y`` or the last column. Columns to keep are
    read as labels are, all others become features of type ``dtype``.
    """

    notes: list[str]

    def __init__(self, uri: str, dtype: np.dtype, selection: IngestConfig, *, typed: bool = False) -> None:
        super().__init__(uri, dtype)
        label, labelled = selection.label, not selection.unlabelled
        self._largest, self.notes = float(np.finfo(dtype).max), []
        lines, blank, delimiter = self._head()
        first, second = (*lines, "")[:2]
        self.delimiter = delimiter or delimiter_of(first, second)
        cells = [cell.strip() for cell in self._split(first)]
        again = (rb'[ \t]*"?%b"?[ \t]*' % re.escape(cell.encode()) for cell in cells)
        self._header = re.compile(rb"(?m)^%b(?=\r?$)" % re.escape(self.delimiter.encode()).join(again))
        options: dict[str, Sequence[str | int]] = {"--drop": selection.drop, "--keep": selection.keep}
        options["--label"] = [] if label is None else [label]
        chosen = [(option, name) for option, columns in options.items() for name in columns]
        below = rows_of(lines[1:], self.delimiter)
        if len(cells) < 1 + labelled or (len(cells) == 1 and any(len(row) > 1 for row in below)):
            raise self._of_one_column(lines, blank)
        self.decimal = selection.decimal or "."
        if selection.decimal is None and self.delimiter != "," and has_decimal_commas(below):
            self.decimal = ","
            self.notes.append(f"Numbers of {uri} have a decimal comma.")
        header, certain = is_header(cells, below, [str(name) for _, name in chosen], self.decimal)
        if header and below and all(len(row) == len(cells) + 1 for row in below):
            cells = ["", *cells]  # R's names of rows have none
        self._skip, self._n_columns = blank + header * (first.count("\n") + 1), len(cells)
        self._words = sorted(selection.missing_values)
        if header and not certain:
            self.notes.append(f"The first line of {uri} is read as names: if it is a row, put names before it.")
        self._names = cells if header else []
        uses = column_uses(self._names, len(cells), chosen, labelled, uri)
        self.beside = {
            LABELS if option == "--label" else str(name): i for i, (option, name) in uses.items() if option != "--drop"
        }
        if header and 0 not in uses and (not cells[0] or (is_index(cells[0]) and not typed)):
            named = f"is called {cells[0]!r}" if cells[0] else "has no name"
            self.notes.append(f"The first column of {uri} {named}: it is taken for row numbers and left out.")
            uses[0] = "--drop", 0
        self.notes += filter(None, [note_on_numbered(self._names, uri)])
        self._names = numbered(self._names)
        self.features = [i for i in range(len(cells)) if i not in uses]
        self.n_features = len(self.features)
        if header:
            self.feature_names = [self._names[i] or f"column {i}" for i in self.features]
        else:
            self.notes.append(
                f"The first line of {uri} is read as a row. If it holds names, begin them with letters (x400 for 400)."
            )
        if labelled:
            position = self.beside[LABELS]
            name = cells[position] if header else position
            is_last = label is None and name not in LABEL_NAMES and position == len(cells) - 1
            self.labels = f"column {name!r}{', the last one' if is_last else ''}"
        lines_bytes = LIMITS.text_block_lines * max(len(first), len(second))
        self._block_bytes = min(max(LIMITS.text_block_bytes, lines_bytes), MAX_BLOCK_BYTES)

    @classmethod
    def of_table(cls, uri: str, missing_values: Sequence[str], decimal: str | None) -> Self:
        """Return all columns as features, of the types that they have."""
        selection = IngestConfig(
            source=uri, destination="", unlabelled=True, missing_values=missing_values, decimal=decimal
        )
        return cls(uri, np.dtype(np.float64), selection, typed=True)

    def _head(self) -> tuple[list[str], int, str | None]:
        """Return the first lines that are neither blank nor comments, how many such precede, and Excel's separator."""
        lines: list[str] = []
        blank = size = n_comments = 0
        delimiter = None
        with self._open() as (_, text):
            for number, line in enumerate(self._lines(text), 1):
                if lines and (len(lines) >= HEAD_LINES or size > HEAD_BYTES):
                    break
                content = self._decoded(line.removeprefix(codecs.BOM_UTF8), number).strip("\r\n")
                says = None if lines or delimiter else SEPARATOR.fullmatch(content)
                comment = not lines and bool(COMMENT.match(content))
                delimiter = says[1] if says else delimiter
                blank += not lines and (not content or bool(says) or comment)
                n_comments += comment
                size += len(content)
                if len(lines) == 1 and open_quote(lines[0].encode(), ",;\t|") is not None:
                    lines[-1] += f"\n{content}"
                elif content and not says and not comment:
                    lines.append(content)
        if not lines:
            raise InputError(f"{self.uri} is empty; there are no rows to read.")
        if open_quote(lines[0].encode(), ",;\t|") is not None:
            raise InputError(f"A quote that is opened in line {blank + 1} of {self.uri} is not closed. Close it.")
        if n_comments:
            self.notes.append(f"{n_comments} lines of comments at the beginning of {self.uri} are left out.")
        return lines, blank, delimiter

    def _of_one_column(self, lines: list[str], blank: int) -> InputError:
        """Return the error for a first line of one cell, which may be a title above the table."""
        problem = (
            f"{self.uri} has one column in line {blank + 1}; a table has features and a label, with commas between"
        )
        marks = [max(",;\t|", key=line.count) for line in lines]
        several = next((i for i, (line, mark) in enumerate(zip(lines, marks, strict=True)) if mark in line), None)
        if several is None:
            return InputError(f"{problem}.")
        cut = f"tail -n +{blank + several + 1} {shlex.quote(self.uri)} > DEST.csv"
        return InputError(f"{problem}. If it is a title, leave it out: {cut}.")

    def _split(self, line: str) -> list[str]:
        n_columns = line.count(self.delimiter) + 1
        refuse_larger(n_columns * COLUMN_BYTES, f"A line of {n_columns:,} columns in {self.uri}", "Write it as Parquet")
        with instead_of(csv.Error, InputError, f"The first line of {self.uri} is not readable as CSV: {{reason}}."):
            return next(csv.reader([line], delimiter=self.delimiter), [])

    def _decoded(self, data: bytes, line: int) -> str:
        """Return the text of whole lines, the first of which has this number."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            number = line + data.count(b"\n", 0, error.start)
            raise InputError(
                f"Line {number} of {self.uri} is not UTF-8 text. Convert the file first: "
                f"iconv -f cp1252 -t utf8 {shlex.quote(self.uri)} > DEST.csv does so for that of Windows and Latin-1."
            ) from error

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows, with NaN where a cell is empty."""
        number, name = pa.from_numpy_dtype(self.dtype), pa.dictionary(pa.int32(), pa.string())
        kinds = dict.fromkeys(self.features, number) | dict.fromkeys(self.beside.values(), name)
        first, words = 0, set[str]()
        for table, done in self.tables(kinds, self.features):
            (batch,) = table.to_batches()
            rows = batch.select(range(self.n_features)).to_tensor(null_to_nan=True, row_major=True).to_numpy()
            names = {}
            for k, (key, position) in enumerate(self.beside.items(), self.n_features):
                values = [value.strip() for value in batch.column(k).dictionary.to_pylist()]
                codes = batch.column(k).indices.to_numpy()
                numbers = [as_number(value, self.decimal) for value in values]
                words.update([key] if None in numbers else [])
                fraction = next((i for i, number in enumerate(numbers) if number is not None and number % 1), None)
                if fraction is not None and key not in words:
                    problem = f"{values[fraction]} in row {first + np.argmax(codes == fraction)} is not a whole number"
                    raise refusal(self.uri, [self._fault(position, problem, "names")])
                if not MISSING.union(self._words).isdisjoint(values):
                    raise self.refusal()
                names[key] = values, codes
            yield RowBlock(rows, names, done)
            first += len(rows)

    def tables(self, kinds: Mapping[int, pa.DataType], numbers: Sequence[int] = ()) -> Iterator[tuple[pa.Table, int]]:
        """Yield some rows of the columns ``kinds`` at a time, and how far the file has been read.

        Without ``kinds`` features have the types that pyarrow sees in these rows. Raises an ``InputError`` for lines
        that cannot be parsed, which names all columns of ``numbers`` with other cells.
        """
        for data, _, done in self._pieces():
            try:
                try:
                    table = self._parsed(data, kinds, not numbers)
                except pa.ArrowInvalid:
                    if numbers or not kinds:
                        raise
                    table = self._parsed(data, dict.fromkeys(kinds, pa.string()))  # cells of blanks are no numbers
                if not kinds:
                    table = self._with_digits(table, data)
                if not numbers:
                    columns = zip(table.columns, kinds.values() or [None] * table.num_columns, strict=True)
                    table = pa.table([self._trimmed(*each) for each in columns], table.column_names)
            except pa.ArrowInvalid as error:
                typed = [i for i, kind in kinds.items() if pa.types.is_floating(kind)]
                raise self.refusal(numbers or typed, str(error)) from error
            yield table.combine_chunks(), done

    def _parsed(self, data: Any, kinds: Mapping[int, pa.DataType], nulls: bool = True) -> pa.Table:
        """Return some lines as a table of the columns ``kinds``, by default of the features."""
        keys = [str(i) for i in range(self._n_columns)]
        types = {keys[i]: kind for i, kind in kinds.items()}
        chosen = [keys[i] for i in kinds or self.features]
        parsing = pa.csv.ParseOptions(delimiter=self.delimiter)
        return self._read(data, keys, parsing, column_types=types, include_columns=chosen, strings_can_be_null=nulls)

    def _read(self, data: Any, names: list[str], parsing: pa.csv.ParseOptions, **conversion: Any) -> pa.Table:
        words = [*self._words, *(f"{number:.1f}" for number in numbers_in(self._words) if number % 1 == 0)]
        missing = sorted(MISSING.union(words))
        return pa.csv.read_csv(
            pa.BufferReader(data), pa.csv.ReadOptions(block_size=len(data) + 1, column_names=names), parsing,
            pa.csv.ConvertOptions(null_values=missing, decimal_point=self.decimal, **WORDS, **conversion),
        )  # fmt: skip

    def _with_digits(self, table: pa.Table, data: Any) -> pa.Table:
        """Return lines with whole numbers of more than 63 bits as text, which keeps digits that doubles lose."""
        large = [
            i for i, column in zip(self.features, table.columns, strict=True)
            if pa.types.is_floating(column.type) and (pc.max(pc.abs(column)).as_py() or 0) >= 2**63
        ]  # fmt: skip
        texts = self._parsed(data, dict.fromkeys(large, pa.string())) if large else table.select([])
        for name, text in zip(texts.column_names, texts.columns, strict=True):
            if pc.all(pc.match_substring_regex(text, r"^\s*[+-]?\d+\s*$")).as_py():
                table = table.set_column(table.column_names.index(name), name, text)
        return table

    def _trimmed(self, column: pa.ChunkedArray, kind: pa.DataType | None) -> pa.ChunkedArray:
        """Return text without blanks around cells, in the type ``kind``, or in that which pyarrow sees then."""
        if column.type != pa.string():
            return column
        trimmed = without_words(pc.utf8_trim_whitespace(column), self._words)
        if kind == pa.string() or (kind is None and trimmed.equals(column)):
            return trimmed
        lines = io.BytesIO()
        how = pa.csv.WriteOptions(include_header=False, quoting_style="all_valid")
        pa.csv.write_csv(pa.table([trimmed], [""]), lines, how)
        parsing = pa.csv.ParseOptions(ignore_empty_lines=False, newlines_in_values=True)
        types = {} if kind is None else {"0": kind}
        return self._read(lines.getvalue(), ["0"], parsing, column_types=types, strings_can_be_null=True).column(0)

    def _pieces(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield whole rows, the number of their first line, and how far the file has been read."""
        line, n_again = self._skip + 1, 0
        with self._open() as (raw, text):
            for number in range(self._skip):
                self._line(text, number + 1)
            while data := self._whole_lines(text, line):
                if line == 1:
                    data = data.removeprefix(codecs.BOM_UTF8)  # which would hide a quote behind it
                while (opened := open_quote(data, self.delimiter)) is not None:
                    more = self._whole_lines(text, line + data.count(b"\n"))
                    if not more or len(data) - opened > CELL_BYTES:
                        number = line + data.count(b"\n", 0, opened)
                        raise InputError(
                            f"A quote that is opened in line {number} of {self.uri} is not closed. Close it."
                        )
                    data += more
                if self._names:
                    data, again = self._header.subn(b"", data)
                    n_again += again
                if data.strip(b"\r\n"):
                    yield data, line, raw.tell()
                line += data.count(b"\n")
        note = f"The line of names of {self.uri} occurs again, as {n_again:,} lines, which are left out."
        self.notes += [note] if n_again and note not in self.notes else []

    def _whole_lines(self, text: Any, line: int) -> bytes:
        data = text.read(self._block_bytes)
        return data + self._line(text, line + data.count(b"\n")) if data else b""

    def refusal(
        self, numbers: Sequence[int] | None = None, reason: str = "pyarrow refuses it, and its cells show no fault"
    ) -> InputError:
        """Return the error that names all columns of ``numbers`` with other cells, found slowly, or a ``reason``."""
        faults: dict[int, Fault] = {}
        gaps: dict[int, tuple[int, str]] = {}
        row = 0
        for data, line, _ in self._pieces():
            reader, begin = csv.reader(io.StringIO(self._decoded(data, line), newline=""), delimiter=self.delimiter), 0
            try:
                for cells in reader:
                    if cells:
                        where = f"row {row} (line {line + begin})"
                        self._look(cells, where, self.features if numbers is None else numbers, faults, gaps)
                        row += 1
                    begin = reader.line_num
            except csv.Error as error:
                raise InputError(f"Line {line + begin} of {self.uri} is not readable as CSV: {error}.") from error
        for position, (count, where) in gaps.items():
            what = f"{count:,} value{'s' * (count > 1)} missing, infinite or too large, the first in {where}"
            faults.setdefault(position, self._fault(position, what, "gap"))
        if faults:
            command = f"mmpca ingest {shlex.quote(self.uri)} DEST.parquet"
            remedy = f"write Parquet, which keeps text, dates and gaps: {command}"
            return refusal(self.uri, [faults[position] for position in sorted(faults)], remedy=remedy)
        return InputError(f"{self.uri} is not readable as CSV: {reason.rstrip('.')}.")

    def _look(
        self, cells: list[str], where: str, numbers: Sequence[int], faults: dict[int, Fault],
        gaps: dict[int, tuple[int, str]],
    ) -> None:  # fmt: skip
        """Record what is wrong with the cells of a row, of which each column tells once."""
        if len(cells) != self._n_columns:
            raise InputError(
                f"{where.capitalize()} of {self.uri} has {len(cells)} cells where {self._n_columns} belong. Every line "
                "needs the same columns."
            )
        for position in numbers:
            text = cells[position].strip()
            number = math.nan if text in MISSING or text in self._words else as_number(text, self.decimal)
            if number is None and position not in faults:
                shown = repr(text if len(text) <= 40 else f"{text[:40]}...")
                notations = [name for name in ("a decimal comma",) if NOTATIONS[name].fullmatch(text)]
                hint = ", whose decimals need a point" * len(notations)
                faults[position] = self._fault(position, f"text: {shown} in {where}{hint}", "text", notations)
            elif number is not None and not abs(number) <= self._largest:
                count, first = gaps.get(position, (0, where))
                gaps[position] = count + 1, first
        for position in self.beside.values():
            if cells[position].strip() in MISSING.union(self._words) and position not in faults:
                faults[position] = self._fault(position, f"the value in {where} is empty", "names")

    def _fault(self, position: int, problem: str, kind: str, notations: Sequence[str] = ()) -> Fault:
        return Fault(problem, {"name": self.name_of(position), "notations": notations}, kind)

    def name_of(self, position: int) -> str:
        """Return the name of a column, or its number where it has none."""
        return (self._names[position] if self._names else "") or str(position)

    def label_values(self, values: list[Any]) -> NDArray:
        """Return the distinct labels as integers, where all of them are, or as strings."""
        numbers = whole_numbers(values)
        labels = None if numbers is None else distinct_labels(numbers)
        if labels is None or labels.dtype.kind not in "iu":  # numbers of things, too large for 64 bits
            return text_array(values, f"The distinct labels of {self.uri}")
        return labels
