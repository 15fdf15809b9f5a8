"""Text that is compressed, or in another encoding: recognised by its first bytes, and read piece by piece."""

from __future__ import annotations

import codecs
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec.compression
import pyarrow as pa

from mmpca_dist.errors import InputError, instead_of, some_names
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage

DAMAGES = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
HEADS = {"gzip": rb"\x1f\x8b\x08", "bz2": rb"BZh[1-9]1AY", "xz": rb"\xfd7zXZ\0", "zstd": rb"\x28\xb5\x2f\xfd",
         "zip": rb"PK\x03\x04"}  # fmt: skip
HEAD_BYTES = 1 << 20
"""Bytes at the beginning of text that tell of its encoding, ends of lines, separators and names."""


class Recoded(io.RawIOBase):
    """A binary file whose text is in another encoding, or whose lines end with CR, as UTF-8 with LF."""

    def __init__(self, raw: Any, encoding: str, into: str) -> None:
        self._text, self._into = io.TextIOWrapper(raw, encoding), into

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._text.read(max(len(buffer) // 4, 1)).encode(self._into)
        buffer[: len(data)] = data
        return len(data)


def recoding(begin: bytes) -> tuple[str, str] | None:
    """Return the encodings from and into which text is converted, by its first bytes; None where it stays as it is."""
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", "utf-8"
    if b"\0" in begin[:2] and len(begin) > 3:
        return ("utf-16-be", "utf-8") if begin[0] == 0 else ("utf-16-le", "utf-8")
    return ("latin-1", "latin-1") if b"\r" in begin and b"\n" not in begin else None


@contextmanager
def opened_text(uri: str) -> Iterator[tuple[Any, Any]]:
    """Open a file; yield it and the text in it, as UTF-8 (the same, unless it is compressed or in another encoding)."""
    with storage.reached(uri) as (fs, path):
        storage.refuse_pipe(uri)
        raw = fs.open(path, "rb")
    with raw:
        head = raw.read(8)
        raw.seek(0)
        form = next((form for form, begin in HEADS.items() if re.match(begin, head)), None)
        cut = f"{uri} cannot be decompressed: {{reason}}. It is damaged or cut short: copy it again."
        with instead_of(DAMAGES if form else (), InputError, cut):
            text = _unpacked(raw, form, uri) if form else raw
            if not (form or storage.is_local(uri)):  # files of object stores read line by line in Python
                text = io.BufferedReader(raw, LIMITS.text_block_bytes)
            begin = text.read(HEAD_BYTES) if text.seekable() else text.peek()
            if text.seekable():
                text.seek(0)
            into = recoding(begin)
            yield raw, io.BufferedReader(Recoded(text, *into), LIMITS.text_block_bytes) if into else text


def _unpacked(raw: Any, form: str, uri: str) -> Any:
    if form == "zstd":
        return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"), HEAD_BYTES)
    if form != "zip":
        return fsspec.compression.compr[form](raw, mode="rb")
    archive = zipfile.ZipFile(raw)
    names = [name for name in archive.namelist() if name[-1] != "/" and not name.startswith("__MACOSX/")]
    if len(names) != 1:
        remedy = "Save its sheet as CSV" if "[Content_Types].xml" in names else "Unpack it first"
        raise InputError(f"{uri} is an archive of {some_names(names) or 'nothing'}, not of one table. {remedy}.")
    return archive.open(names[0])
