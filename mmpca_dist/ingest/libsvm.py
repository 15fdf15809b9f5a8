"""Read LIBSVM text in blocks of whole lines with scikit-learn."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError
from mmpca_dist.ingest.group_writer import csr_bytes
from mmpca_dist.ingest.row_source import LABELS, Codes, RowBlock, Text, encode_block
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.number_texts import as_number

FORM = "LIBSVM text is 'label index:value ...'."
SPARSE_SHARE = 0.25
"""Rows are taken as sparse where that takes at most this share of the bytes of dense ones: about a value in eight.
Text then shrinks by orders of magnitude, while images and measurements stay dense, which is read faster."""
MAX_DIGITS = 18
"""Digits of an index; Python refuses to read numbers of thousands of digits."""


ZERO = re.compile(rb"\s0+:")


class LibsvmRows(Text):
    """LIBSVM text, ``label index:value ...`` with indices from 1, or from 0 where that occurs.

    Opening it reads it once, to find the number of rows, of values, and the largest index. A model knows the number of
    columns ``n_features`` and the ``first_index``: columns that no line has are 0. ``numbers`` says that labels are
    numbers to predict, as ``fractions`` tells that some must be. Blocks are CSR rows by
    default where these take at most a quarter of the bytes of dense ones. An error names the number of a line that is
    not of this form.
    """

    def __init__(
        self, uri: str, dtype: np.dtype, sparse: bool | None = None, *, numbers: bool = False,
        n_features: int = 0, first_index: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(uri, dtype)
        self.numbers, self.fractions, self.first_index = numbers, False, 1 if first_index is None else first_index
        self.n_features = self.nnz = n_rows = 0
        with self._open() as (_, text):
            for number, line in enumerate(self._lines(text), 1):
                content = line.partition(b"#")[0]
                if b"_" in content:  # Python, and scikit-learn with it, takes 1_0 for 10
                    self._explain(line, number)
                self.nnz += content.count(b":")
                if ZERO.search(content):
                    self.first_index = 0
                tokens = content.rsplit(None, 1)
                label = as_number(tokens[0].partition(b" ")[0].decode("utf-8", "replace")) if tokens else None
                self.fractions = self.fractions or (label or 0) % 1 != 0
                if len(tokens) == 2 and not tokens[1].startswith(b"qid:"):
                    index = tokens[1].partition(b":")[0]
                    if not index.isdigit():
                        self._explain(line, number)
                    self.n_features = max(self.n_features, _index(index))
                n_rows += bool(tokens)
        max_index = np.iinfo(np.int32).max
        if self.n_features > max_index:
            raise InputError(f"{uri} has the index {self.n_features}; there are {max_index} columns at most.")
        self.n_features = max(self.n_features + (1 - self.first_index) * bool(self.nnz), n_features)
        if not self.n_features:
            raise InputError(f"{uri} has no 'index:value' in any line; there are no features to read.")
        self.n_rows = n_rows
        dense = n_rows * self.n_features * dtype.itemsize
        is_light = csr_bytes(n_rows, self.nnz, self.n_features, dtype) <= SPARSE_SHARE * dense
        self.sparse = is_light if sparse is None else sparse
        if not self.sparse:
            refuse_larger(self.n_features * dtype.itemsize, f"A dense row of {uri}", "Write sparse rows (--sparse)")

    def blocks(self) -> Iterator[RowBlock]:
        row_bytes = 8 if self.sparse else self.n_features * self.dtype.itemsize
        limit = max(1, LIMITS.chunk_bytes // row_bytes)
        lines: list[bytes] = []
        self.first_row, n_bytes, first = 0, 0, 1
        with self._open() as (raw, text):
            for line in self._lines(text):
                lines.append(line)
                n_bytes += len(line)
                if len(lines) == limit or n_bytes >= LIMITS.text_block_bytes:
                    yield from self._block(lines, first, raw.tell())
                    first += len(lines)
                    lines, n_bytes = [], 0
            yield from self._block(lines, first, raw.tell())

    def _block(self, lines: list[bytes], first: int, done: int) -> Iterator[RowBlock]:
        from sklearn.datasets import load_svmlight_file

        if not any(map(self._is_row, lines)):
            return
        last = first + len(lines) - 1
        try:
            rows, labels = load_svmlight_file(
                io.BytesIO(b"".join(lines)), n_features=self.n_features,
                dtype=np.float64 if self.numbers else self.dtype, zero_based=self.first_index == 0,
            )  # fmt: skip
        except ValueError as error:
            for number, line in enumerate(lines, first):
                self._explain(line, number)
            raise InputError(
                f"{self.uri} is not readable as LIBSVM text between lines {first} and {last}: {str(error).rstrip('.')}."
            ) from error
        codes: Codes = [], labels
        if not self.numbers:
            codes = encode_block(labels, f"lines {first} to {last} of {self.uri}")
        rows = rows.astype(self.dtype, copy=False)
        self._piece = lines, first
        yield RowBlock(csr_array(rows) if self.sparse else rows.toarray(), {LABELS: codes}, done)
        self.first_row += len(labels)

    def _is_row(self, line: bytes) -> bool:
        return bool(line.partition(b"#")[0].strip())

    def where(self, row: int) -> str:
        lines, first = self._piece
        numbers = [number for number, line in enumerate(lines, first) if self._is_row(line)]
        return f"row {row} (line {numbers[row - self.first_row]})"

    def _explain(self, line: bytes, number: int) -> None:
        """Raise an error that names what is wrong with a line, if anything is."""
        label, *pairs = line.partition(b"#")[0].decode("utf-8", "replace").split() or ["0"]
        where = f"line {number} of {self.uri}"
        if as_number(label) is None:
            raise InputError(f"The label {label!r} in {where} is not a number. {FORM}")
        before = self.first_index - 1
        for token in pairs:
            index, colon, value = token.partition(":")
            if index == "qid":
                continue
            if not colon or not (index.isascii() and index.isdecimal()) or as_number(value) is None:
                raise InputError(f"{token!r} in {where} is not 'index:value'. {FORM}")
            if _index(index) <= before:
                problem = f"it follows {before}, and indices must increase"
                raise InputError(f"{token!r} in {where} has the index {index}; {problem}. Correct the line.")
            before = _index(index)


def _index(digits: bytes | str) -> int:
    """Return an index; one with more digits than any index has becomes a number beyond all."""
    return int(digits) if len(digits) <= MAX_DIGITS else 10**MAX_DIGITS
