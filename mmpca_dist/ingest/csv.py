"""Read CSV in blocks of whole lines with pyarrow."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import lzma
import re
import shlex
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import fsspec.compression
import numpy as np
import pyarrow as pa
import pyarrow.csv
from fsspec.utils import infer_compression
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.ingest.csv_syntax import (
    as_number,
    chosen_positions,
    dropped_positions,
    is_header,
    kept_positions,
    label_position,
    whole_numbers,
    with_quotes_closed,
)
from mmpca_dist.ingest.row_source import LABELS, Block, Codes, RowSource
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.column_faults import ColumnFault, refusal
from mmpca_dist.tables.labels import distinct_labels, text_array
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.readers.named_columns import LABEL_NAMES

CSV_SUFFIXES = (".csv", ".tsv")
MAX_BLOCK_BYTES = 32 << 20
COLUMN_BYTES = 9 << 10
"""What pyarrow takes for each column of a block, however few rows it has: measured with 20,000 and 100,000 columns."""

ARROW_FAULT = re.compile(
    r"(?:In CSV column #(?P<column>\d+): )?(?:CSV parse error: )?(?:Row #(?P<row>\d+): )(?P<what>.*)", re.DOTALL
)
DECIMAL_COMMA = re.compile(r"[+-]?[\d.]*,\d+")


class Text(RowSource):
    """A text file, perhaps compressed, whose progress is counted in bytes of the file."""

    first_row = 0
    """The number of the first row of the piece that was read last."""

    def __init__(self, uri: str, dtype: np.dtype) -> None:
        self.uri, self.dtype = uri, dtype
        with storage.reached(uri) as (fs, path):
            self.total = int(fs.size(path) or 0)

    @contextmanager
    def _open(self) -> Iterator[tuple[Any, Any]]:
        """Open the file; yield it and the text within it (the same, unless compressed)."""
        with storage.reached(self.uri) as (fs, path):
            raw = fs.open(path, "rb")
        with raw:
            compression = infer_compression(path)
            # Files of object stores read line by line in Python, unless they are buffered.
            text = raw if storage.is_local(self.uri) else io.BufferedReader(raw, LIMITS.text_block_bytes)
            try:
                yield raw, fsspec.compression.compr[compression](raw, mode="rb") if compression else text
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                if compression is None:
                    raise
                raise InputError(
                    f"{self.uri} cannot be decompressed: {str(error).rstrip('.')}. It is damaged or cut short: "
                    "copy it again."
                ) from error

    def _line(self, text: Any, number: int) -> bytes:
        """Return the next line, which has this number in the file."""
        limit = LIMITS.text_line_bytes
        line = text.readline(limit + 1)
        if len(line) > limit:
            raise InputError(f"Line {number} of {self.uri} is longer than {limit >> 20} MiB: this is no table.")
        return line

    def _lines(self, text: Any) -> Iterator[bytes]:
        """Yield all lines."""
        for number in itertools.count(1):
            if not (line := self._line(text, number)):
                return
            yield line


@dataclass
class _NameColumn:
    """A column of names: what messages call it, and whether all values were whole numbers so far."""

    position: int
    what: str = "label"
    all_numbers: bool = True


class CsvRows(Text):
    """Comma-separated values (or semicolons, or tabs), with or without a line of names.

    ``label``, ``drop``, ``keep`` and ``chosen`` are names or numbers of columns; negative numbers count from the end.
    Unless ``labelled`` is false, the label is by default ``label``, ``y`` or the last column. Columns to keep are read
    as labels are, all others, or those that are ``chosen``, become features of type ``dtype``.
    """

    notes: list[str]

    def __init__(
        self,
        uri: str,
        label: str | int | None,
        dtype: np.dtype,
        drop: Sequence[str] = (),
        keep: Sequence[str] = (),
        labelled: bool = True,
        chosen: Sequence[str | int] | None = None,
    ) -> None:
        super().__init__(uri, dtype)
        first, second, blank = self._head()
        self.delimiter = max(",;\t", key=first.count)
        cells, following = self._split(first), self._split(second)
        if len(cells) < 1 + labelled:
            raise InputError(
                f"{uri} has one column in line {blank + 1}; a table has features and a label, separated by commas."
            )
        self._header = is_header(cells, following, label, [*drop, *keep, *map(str, chosen or ())])
        self._skip = blank + self._header
        self._n_columns = len(cells)
        names = [cell.strip() for cell in cells] if self._header else []
        dropped = dropped_positions(names, len(cells), drop, uri)
        kept = kept_positions(names, len(cells), keep, dropped, uri)
        options = {"--drop": dropped, "--keep": set(kept.values())}
        self.beside = {name: _NameColumn(position, f"value of {name!r}") for name, position in kept.items()}
        if labelled:
            self.beside[LABELS] = _NameColumn(label_position(names, len(cells), label, options, uri))
        dropped.update(column.position for column in self.beside.values())
        self.notes = []
        if names and not names[0] and 0 not in dropped:
            self.notes.append(f"The first column of {uri} has no name: it is taken for row numbers and left out.")
            dropped.add(0)
        self.features = [i for i in range(len(cells)) if i not in dropped]
        if chosen is not None:
            self.features = chosen_positions(names, len(cells), chosen, dropped, uri)
        if not self.features:
            label_and = "the label and " if labelled else ""
            raise InputError(f"{uri} has no columns other than {label_and}those dropped or kept.")
        self.n_features = len(self.features)
        if names:
            self.feature_names = [names[i] or f"column {i}" for i in self.features]
        else:
            self.notes.append(f"The first line of {uri} is read as a row, since it has no names of columns.")
        self._names = names
        if labelled:
            self.labels = self._called(self.beside[LABELS].position, guessed=label is None)
        lines_bytes = LIMITS.text_block_lines * max(len(first), len(second))
        self._block_bytes = min(max(LIMITS.text_block_bytes, lines_bytes), MAX_BLOCK_BYTES)

    def _called(self, position: int, guessed: bool) -> str:
        """Return what messages call the column of the labels."""
        name = self._names[position] if self._names else position
        is_last = guessed and name not in LABEL_NAMES and position == self._n_columns - 1
        return f"column {name!r}{', the last one' if is_last else ''}"

    def _head(self) -> tuple[str, str, int]:
        """Return the first two lines that are not blank, and the number of blank ones before them."""
        contents: list[str] = []
        blank = 0
        with self._open() as (_, text):
            for line in self._lines(text):
                try:
                    content = line.decode("utf-8" if contents else "utf-8-sig").strip("\r\n")
                except UnicodeDecodeError as error:
                    raise InputError(f"{self.uri} is not UTF-8 text: {error}. Convert it first.") from error
                if "\r" in content:
                    raise InputError(
                        f"The lines of {self.uri} end with carriage returns alone. Convert them, with: "
                        f"tr '\\r' '\\n' < {shlex.quote(self.uri)} > DEST.csv"
                    )
                if content:
                    contents.append(content)
                elif not contents:
                    blank += 1
                if len(contents) == 2:
                    break
        if not contents:
            raise InputError(f"{self.uri} is empty; there are no rows to read.")
        return contents[0], contents[1] if len(contents) > 1 else "", blank

    def _split(self, line: str) -> list[str]:
        n_columns = line.count(self.delimiter) + 1
        refuse_larger(n_columns * COLUMN_BYTES, f"A line of {n_columns:,} columns in {self.uri}", "Write it as Parquet")
        try:
            return next(csv.reader([line], delimiter=self.delimiter), [])
        except csv.Error as error:
            raise InputError(f"The first lines of {self.uri} are not readable as CSV: {error}.") from error

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, with NaN where a cell is empty."""
        for data, done in self.pieces():
            try:
                table = self.parse(data)
            except pa.ArrowInvalid:
                self.explain(data)
            yield Block(self.matrix(table), {name: self.codes(name, table) for name in self.beside}, done)
            self.first_row += len(table)

    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield whole lines, and how far the file has been read; the caller advances ``first_row``."""
        self.first_row, line = 0, self._skip + 1
        with self._open() as (raw, text):
            for number in range(self._skip):
                self._line(text, number + 1)
            # pyarrow's own reader of streams holds 32 blocks that it has read ahead.
            while data := text.read(self._block_bytes):
                data += self._line(text, line + data.count(b"\n"))
                if line == 1:
                    data = data.removeprefix(codecs.BOM_UTF8)  # which would hide a quote behind it
                data = with_quotes_closed(data, text, self.delimiter, line, self.uri)
                if data.strip(b"\r\n"):
                    self._piece = data, line
                    yield data, raw.tell()
                line += data.count(b"\n")

    def parse(self, data: bytes, *, use_threads: bool = True, as_text: bool = False) -> pa.Table:
        """Return the features of whole lines, as strings if asked for, and then the other columns that are kept."""
        keys = [str(i) for i in range(self._n_columns)]
        kind = pa.string() if as_text else pa.from_numpy_dtype(self.dtype)
        types: dict[str, pa.DataType] = dict.fromkeys(keys, kind)
        others = [column.position for column in self.beside.values()]
        types.update((keys[i], pa.dictionary(pa.int32(), pa.string())) for i in others)
        included = [keys[i] for i in [*self.features, *others]]
        return pa.csv.read_csv(
            pa.BufferReader(data),
            pa.csv.ReadOptions(use_threads=use_threads, block_size=len(data) + 1, column_names=keys),
            pa.csv.ParseOptions(delimiter=self.delimiter),
            pa.csv.ConvertOptions(column_types=types, include_columns=included, strings_can_be_null=as_text),
        ).combine_chunks()

    def matrix(self, table: pa.Table) -> NDArray:
        """Return the features of a table, with NaN where a cell is empty."""
        (batch,) = table.to_batches()
        return batch.select(list(range(self.n_features))).to_tensor(null_to_nan=True, row_major=True).to_numpy()

    def codes(self, name: str, table: pa.Table) -> Codes:
        """Return a column of names of a table."""
        (batch,) = table.to_batches()
        column, cells = self.beside[name], batch.column(self.n_features + list(self.beside).index(name))
        values = [value.strip() for value in cells.dictionary.to_pylist()]
        codes = cells.indices.to_numpy()
        numbers = [as_number(value) for value in values]
        for k, value in enumerate(values):
            if not value or (column.all_numbers and None not in numbers and numbers[k] % 1):  # type: ignore[operator]
                where = self.where(self.first_row + int(np.argmax(codes == k)))
                fault = f"{value}, which is not a whole number" if value else "empty"
                problem = f"the {column.what} in {where} is {fault}"
                raise refusal(self.uri, [ColumnFault(self.name_of(column.position), problem, "names")])
        column.all_numbers = column.all_numbers and None not in numbers
        return values, codes

    def leave_out(self, features: Collection[int]) -> None:
        """Stop parsing these features."""
        self.features = [position for position in self.features if position not in features]
        self.n_features = len(self.features)

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

    def where(self, row: int) -> str:
        """Say where a row of the piece read last is; quoted cells may hold line ends, so its lines are counted."""
        data, line = self._piece
        lines = (text.decode("utf-8", "replace") for text in data.splitlines(keepends=True))
        cells, begin, seen = csv.reader(lines, delimiter=self.delimiter), 0, self.first_row - 1
        try:
            while seen < row:
                begin = cells.line_num
                seen += bool(next(cells))
        except (csv.Error, StopIteration):  # of a cell that is too long for Python's reader
            return f"row {row}"
        return f"row {row} (line {line + begin})"

    def explain(self, data: bytes) -> NoReturn:
        """Refuse lines that cannot be parsed."""
        try:
            self.parse(data, use_threads=False)  # only then do errors name the row
            message = "it is parsed at the second attempt"
        except pa.ArrowInvalid as error:
            message = str(error)
        match = ARROW_FAULT.search(message)
        if match is None:
            raise InputError(f"{self.uri} is not readable as CSV from row {self.first_row} on: {message.rstrip('.')}.")
        where, what = self.where(self.first_row + int(match["row"]) - 1), match["what"]
        if match["column"] is None:
            ragged = re.match(r"Expected (\d+) columns, got (\d+)", what)
            fault = f"has {ragged[2]} cells where {ragged[1]} belong" if ragged else what
            raise InputError(f"{upper(where)} of {self.uri} {fault}. Every line needs the same columns.")
        column = int(match["column"])
        name = f"{column} ({self._names[column]!r})" if self._names else str(column)
        if "invalid UTF8" in what:
            raise InputError(
                f"Column {name} of {self.uri} is not UTF-8 text in {where}. Convert the file first, such as with: "
                f"iconv -f latin1 -t utf8 {shlex.quote(self.uri)} > DEST.csv"
            )
        value = re.search(r"invalid value '(.*)'", what, re.DOTALL)
        fault = ColumnFault(self.name_of(column), f"{what} in {where}")
        raise refusal(self.uri, [self.text_fault(column, value[1], where) if value else fault])

    def text_fault(self, position: int, value: str, where: str) -> ColumnFault:
        """Return what is wrong with a feature that holds text."""
        shown = repr(value if len(value) <= 40 else f"{value[:40]}...")
        hint = ", whose decimals need a point" if DECIMAL_COMMA.fullmatch(value.strip()) else ""
        return ColumnFault(self.name_of(position), f"text: {shown} in {where}{hint}")


def upper(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
