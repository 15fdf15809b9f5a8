"""Read CSV in blocks of whole rows with pyarrow."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import lzma
import math
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import fsspec.compression
import numpy as np
import pyarrow as pa
import pyarrow.csv
from fsspec.utils import infer_compression
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.faults import Fault
from mmpca_dist.ingest.csv_syntax import (
    MISSING,
    as_number,
    column_uses,
    delimiter_of,
    is_header,
    open_quote,
    whole_numbers,
)
from mmpca_dist.ingest.row_source import LABELS, RowBlock, RowSource, Selection
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.column_faults import refusal
from mmpca_dist.tables.labels import distinct_labels, text_array
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.readers.named_columns import LABEL_NAMES

CSV_SUFFIXES = (".csv", ".tsv")
ALL_COLUMNS = Selection(unlabelled=True)
"""All columns are features."""
MAX_BLOCK_BYTES = 32 << 20
CELL_BYTES = 1 << 20
"""A quoted cell that is longer, ends of lines and all, is taken for one that is not closed."""
COLUMN_BYTES = 9 << 10
"""Bytes that pyarrow takes for each column of a block of any length: measured with 20,000 and 100,000 columns."""
WORDS = {"true_values": ["true", "True", "TRUE"], "false_values": ["false", "False", "FALSE"]}
"""Booleans; pyarrow takes 0 and 1 too."""
DECIMAL_COMMA = re.compile(r"[+-]?[\d.]*,\d+")


class Text(RowSource):
    """A text file, perhaps compressed, whose progress is counted in bytes of the file."""

    def __init__(self, uri: str, dtype: np.dtype) -> None:
        self.uri, self.dtype = uri, dtype
        storage.require(uri)
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
            damages = (OSError, EOFError, zlib.error, lzma.LZMAError) if compression else ()
            cut = f"{self.uri} cannot be decompressed: {{reason}}. It is damaged or cut short: copy it again."
            with instead_of(damages, InputError, cut):
                yield raw, fsspec.compression.compr[compression](raw, mode="rb") if compression else text

    def _line(self, text: Any, number: int) -> bytes:
        """Return the next line, which has this number in the file."""
        limit = LIMITS.text_line_bytes
        line = text.readline(limit + 1)
        if len(line) > limit:
            raise InputError(f"Line {number} of {self.uri} is longer than {limit >> 20} MiB: this is no table.")
        return line

    def _lines(self, text: Any) -> Iterator[bytes]:
        for number in itertools.count(1):
            if not (line := self._line(text, number)):
                return
            yield line


class CsvRows(Text):
    """Comma-separated values (or semicolons, or tabs), with or without a line of names.

    ``label``, ``drop`` and ``keep`` of the selection are names or numbers of columns; negative numbers count from the
    end. Unless it is ``unlabelled``, the label is by default ``label``, ``y`` or the last column. Columns to keep are
    read as labels are, all others become features of type ``dtype``.
    """

    def __init__(self, uri: str, dtype: np.dtype, selection: Selection = ALL_COLUMNS) -> None:
        super().__init__(uri, dtype)
        label, labelled = selection.label, not selection.unlabelled
        self._largest = float(np.finfo(dtype).max)
        first, second, blank = self._head()
        self.delimiter = delimiter_of(first, second)
        cells = [cell.strip() for cell in self._split(first)]
        if len(cells) < 1 + labelled:
            raise InputError(
                f"{uri} has one column in line {blank + 1}; a table has features and a label, separated by commas."
            )
        options = {"--drop": selection.drop, "--keep": selection.keep, "--label": [] if label is None else [label]}
        chosen = [(option, name) for option, columns in options.items() for name in columns]
        below = [cell.strip() for cell in self._split(second)]
        header = is_header(cells, below, [str(name) for _, name in chosen])
        self._skip, self._n_columns = blank + header, len(cells)
        self._names = cells if header else []
        uses = column_uses(self._names, len(cells), chosen, labelled, uri)
        self.beside = {
            LABELS if option == "--label" else str(name): i for i, (option, name) in uses.items() if option != "--drop"
        }
        self.notes = []
        if header and not cells[0] and 0 not in uses:
            self.notes.append(f"The first column of {uri} has no name: it is taken for row numbers and left out.")
            uses[0] = "--drop", 0
        self.features = [i for i in range(len(cells)) if i not in uses]
        self.n_features = len(self.features)
        if header:
            self.feature_names = [cells[i] or f"column {i}" for i in self.features]
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

    def _head(self) -> tuple[str, str, int]:
        """Return the first two lines that are not blank, and the number of blank ones before them."""
        contents: list[str] = []
        blank = 0
        with self._open() as (_, text):
            for number, line in enumerate(self._lines(text), 1):
                content = self._decoded(line.removeprefix(codecs.BOM_UTF8), number).strip("\r\n")
                blank += not (content or contents)
                contents += [content] if content else []
                if len(contents) == 2:
                    break
        if not contents:
            raise InputError(f"{self.uri} is empty; there are no rows to read.")
        return contents[0], contents[1] if len(contents) > 1 else "", blank

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
                f"iconv -f latin1 -t utf8 {shlex.quote(self.uri)} > DEST.csv does so for Latin-1."
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
                numbers = [as_number(value) for value in values]
                words.update([key] if None in numbers else [])
                fraction = next((i for i, number in enumerate(numbers) if number is not None and number % 1), None)
                if fraction is not None and key not in words:
                    problem = f"{values[fraction]} in row {first + np.argmax(codes == fraction)} is not a whole number"
                    raise refusal(self.uri, [self._fault(position, problem, "names")])
                if "" in values:
                    raise self.refusal()
                names[key] = values, codes
            yield RowBlock(rows, names, done)
            first += len(rows)

    def tables(self, kinds: Mapping[int, pa.DataType], numbers: Sequence[int] = ()) -> Iterator[tuple[pa.Table, int]]:
        """Yield some rows of the columns ``kinds`` at a time, and how far the file has been read.

        Without ``kinds`` features have the types that pyarrow sees in these rows. Raises an ``InputError`` for lines
        that cannot be parsed, which names all columns of ``numbers`` with other cells.
        """
        keys = [str(i) for i in range(self._n_columns)]
        types = {keys[i]: kind for i, kind in kinds.items()}
        convert = pa.csv.ConvertOptions(
            column_types=types, include_columns=[keys[i] for i in kinds or self.features],
            strings_can_be_null=not numbers, **WORDS,
        )  # fmt: skip
        for data, _, done in self._pieces():
            try:
                table = pa.csv.read_csv(
                    pa.BufferReader(data),
                    pa.csv.ReadOptions(block_size=len(data) + 1, column_names=keys),
                    pa.csv.ParseOptions(delimiter=self.delimiter),
                    convert,
                )
            except pa.ArrowInvalid as error:
                raise self.refusal(numbers, str(error)) from error
            yield table.combine_chunks(), done

    def _pieces(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield whole rows, the number of their first line, and how far the file has been read."""
        line = self._skip + 1
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
                if data.strip(b"\r\n"):
                    yield data, line, raw.tell()
                line += data.count(b"\n")

    def _whole_lines(self, text: Any, line: int) -> bytes:
        data = text.read(self._block_bytes)
        return data + self._line(text, line + data.count(b"\n")) if data else b""

    def refusal(
        self, numbers: Sequence[int] | None = None, reason: str = "pyarrow refuses it, and its cells show no fault"
    ) -> InputError:
        """Return the error for what is in the file, or for ``reason`` if a slow look at every cell finds nothing.

        It names all columns of ``numbers``, by default the features, with other cells, and labels that are empty.
        """
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
            number = math.nan if text in MISSING else as_number(text)
            if number is None and position not in faults:
                shown = repr(text if len(text) <= 40 else f"{text[:40]}...")
                hint = ", whose decimals need a point" if DECIMAL_COMMA.fullmatch(text) else ""
                faults[position] = self._fault(position, f"text: {shown} in {where}{hint}", "text")
            elif number is not None and not abs(number) <= self._largest:
                count, first = gaps.get(position, (0, where))
                gaps[position] = count + 1, first
        for position in self.beside.values():
            if not cells[position].strip() and position not in faults:
                faults[position] = self._fault(position, f"the value in {where} is empty", "names")

    def _fault(self, position: int, problem: str, kind: str) -> Fault:
        return Fault(problem, {"name": self.name_of(position)}, kind)

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
