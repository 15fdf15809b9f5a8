"""Formats of data sets: their registry, and how a data set is opened by its address."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mmpca_dist.errors import InputError, did_you_mean, instead_of, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.registry import Registry
from mmpca_dist.stores import storage
from mmpca_dist.stores.compression import opened_text
from mmpca_dist.tables.chosen_columns import Columns, with_columns
from mmpca_dist.tables.levels import Levels
from mmpca_dist.tables.readers.listing import head_of, is_hidden, matching
from mmpca_dist.tables.source import Source


@dataclass(frozen=True)
class Request:
    """A request to open a table, as for ``open_dataset``."""

    uri: str
    typed: str
    """The address as the user typed it."""
    features: str | None = None
    label: str | None = None
    label_required: bool = True
    """Whether labels must be there; rows to be transformed need none."""
    names: list[str] | None = None
    """Columns to take by name, in this order, of formats whose columns have names."""
    drop: Sequence[str] = ()
    beside: Mapping[str, Setting | str] = field(default_factory=dict)
    missing_chunks: str | None = None
    missing: str = "refuse"
    encode: bool = False
    levels: Sequence[Levels] | None = None
    """Those of the columns of text that a model was fitted to; None where rows tell them."""
    unlabelled: str = "refuse"
    columns: Columns | None = None
    missing_values: Sequence[str] = ()
    """Words for missing values, besides those that pandas knows."""
    decimal: str | None = None
    """The decimal mark of numbers in text."""
    by_columns: bool = False
    """Whether sparse rows may be stored by columns (CSC) even if each band of them costs a pass."""


@dataclass(frozen=True)
class Format:
    """A format of data sets."""

    name: str
    title: str
    """In messages: ``"a Zarr group"``."""
    open: Callable[[Request], Source]
    """Opens a request; reads only metadata."""
    scheme: str = ""
    """How addresses of this format begin, such as ``"synthetic:"``; empty where suffixes tell."""
    suffixes: tuple[str, ...] = ()
    """How addresses of this format end."""
    magic: bytes | None = None
    """How files of this format begin."""
    holds: Callable[[str, Sequence[str]], bool] | None = None
    """Tells whether a folder whose address has no known suffix is in this format, also by the names in it."""
    columns: bool = False
    """Whether its columns have names, so that some can be left out."""
    alone: bool = True
    """Whether an address alone names labelled rows; a folder of new data sets may then hold such files."""

    def is_named_by(self, uri: str) -> bool:
        """Tell whether the beginning or the end of an address names this format."""
        return (bool(self.scheme) and uri.startswith(self.scheme)) or uri.lower().endswith(self.suffixes)


ONE_TEXT = "Write each file as Parquet into one folder, with mmpca ingest FILE.csv FOLDER/FILE.parquet, and name that."
ZARR = frozenset({"zarr.json", ".zgroup", ".zmetadata"})
FORMATS = Registry(Format, "mmpca_dist.tables.readers", group="mmpca_dist.formats")


def format_of(uri: str) -> Format:
    """Return the format of a data set, by its address, or the content of its file or folder.

    Raises InputError for a file or a folder of another format.
    """
    named = next((format for format in FORMATS.values() if format.is_named_by(uri)), None)
    if named is not None and named is not TEXT:
        return named
    if files := matching(uri):
        if named is TEXT:
            raise InputError(f"{uri} names several files of text. {ONE_TEXT}")
        return format_of(files[0])
    if named is TEXT:
        return (_of_head(head_of(uri)) if storage.is_file(uri) else None) or TEXT
    storage.require(uri)
    if held := _by_content(uri):
        return held
    if any(TEXT.is_named_by(name) for name in storage.names_in(uri)):
        raise InputError(f"{uri} is a folder of text. {ONE_TEXT}")
    raise InputError(f"{uri} is a folder in which there is no Zarr group, nor files of another format. {_known()}")


def _by_content(uri: str) -> Format | None:
    with storage.reached(uri) as (fs, path):
        is_folder = bool(fs.isdir(path))
    if not is_folder:
        return _of_file(uri)
    names = [name for name in storage.names_in(uri) if name]
    holding = (format for format in FORMATS.values() if format.holds is not None and format.holds(uri, names))
    if format := next(holding, None) or (FORMATS["zarr"] if ZARR.intersection(names) else None):
        return format
    heads = (head_of(storage.join(uri, name)) for name in names if not is_hidden(name))
    return next((format for head in heads if (format := _of_head(head))), None)


def _of_head(head: bytes) -> Format | None:
    formats = FORMATS.values()
    return next((format for format in formats if format.magic and head.startswith(format.magic)), None)


def _of_file(uri: str) -> Format:
    if format := _of_head(head_of(uri)) or (TEXT if text_form(uri) else None):
        return format
    raise InputError(f"{uri} is in no format that is read here, by its name or its first bytes. {_known()}")


def _known() -> str:
    """Return a sentence on the formats that are read."""
    suffixes = {format.title: format.suffixes for format in FORMATS.values() if format.suffixes}
    listed = (f"{title} ({', '.join(TEXT_SUFFIXES if title == TEXT.title else of)})" for title, of in suffixes.items())
    return f"These are: {'; '.join(listed)}; folders of .parquet, .arrow, .h5ad or .npy files."


def is_table(uri: str) -> bool:
    """Tell whether an address names a table, by its beginning or end, or by what is in the folder."""
    if TEXT.is_named_by(uri.lower()) or any(format.is_named_by(uri) for format in FORMATS.values()):
        return True
    return Path(uri).is_dir() and _by_content(uri) is not None


def open_source(request: Request) -> Source:
    """Open a table; reads only metadata."""
    format = format_of(request.uri)
    source = with_columns(format.open(request), request.columns)
    if request.drop and not format.columns:
        raise InputError(
            f"{{drop}} is {list(request.drop)}, but {source.uri} is {format.title}: its columns have no names to leave "
            "them out by.",
            drop=Setting("drop"),
        )
    return source


def refuse_missing_names(uri: str, stored: Collection[str], names: list[str]) -> None:
    """Refuse features that lack some of the ``names`` that a model was fitted to."""
    stored = set(stored)
    missing = [name for name in names if name not in stored]
    if missing:
        raise InputError(
            f"{uri} lacks {len(missing)} of the {len(names)} features that the model was fitted to: "
            f"{some_names(missing)}.{did_you_mean(missing[0], stored.difference(names))}"
        )


@contextmanager
def reading_with(extra: str, what: str, failure: str, remedy: str) -> Iterator[None]:
    """Turn what a library of an optional dependency raises, of many types, into one sentence on the data."""
    absent = f"{what}. Install 'mmpca-dist[{extra}]' to read it ({{reason}})."
    failed = f"{failure}: {{reason}}. {remedy}"
    with instead_of(Exception, InputError, failed), instead_of(ImportError, InputError, absent):
        yield


TEXT_HEAD = 64 << 10
"""Bytes of text that tell its form."""
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
CSV_SUFFIXES, LIBSVM_SUFFIXES = (".csv", ".tsv", ".tab"), (".libsvm", ".svm", ".svmlight")
TEXT_SUFFIXES = (*CSV_SUFFIXES, *LIBSVM_SUFFIXES, ".txt")
COMMENT = re.compile(r"(#|%|//)(?![,;\t|])")
LIBSVM_LINE = re.compile(r"\s*[^\s:]+(\s+[^\s:]+:[^\s:]+)+\s*(#.*)?")


def stem_of(uri: str) -> str:
    """Return an address in lower case without the suffix of a compression."""
    stem = uri.lower()
    for suffix in COMPRESSED:
        stem = stem.removesuffix(suffix)
    return stem


def text_form(uri: str) -> str:
    """Return ``csv`` or ``libsvm`` for text, by the end of its address or its first line; nothing for all else."""
    stem = stem_of(uri)
    if stem.endswith(CSV_SUFFIXES) or stem.endswith(LIBSVM_SUFFIXES):
        if matching(uri) or (storage.is_file(uri) and _of_head(head_of(uri))):
            return ""
        return "csv" if stem.endswith(CSV_SUFFIXES) else "libsvm"
    others = (format for format in FORMATS.values() if format is not TEXT)
    if any(format.is_named_by(uri) for format in others) or not storage.is_file(uri):
        return "libsvm" * stem.endswith(".txt")
    head = b""
    with suppress(UnicodeError), opened_text(uri) as (_, text):
        head = text.read(TEXT_HEAD)
    lines = [line for line in head.decode(errors="replace").splitlines() if line.strip() and not COMMENT.match(line)]
    if _of_head(head) or b"\0" in head or not lines or lines[0].lstrip()[0] in "{[<@":  # JSON, XML, ARFF
        return ""
    return "libsvm" if LIBSVM_LINE.fullmatch(lines[0]) else "csv"


def _refuse_text(request: Request) -> Source:
    unlabelled = "" if request.label_required else " (with --unlabelled, if it is CSV without labels)"
    raise InputError(
        f"{request.uri} is text: turn it into Zarr first, with: mmpca ingest {request.typed} DEST.zarr{unlabelled}"
    )


TEXT = Format(
    "text", "text", _refuse_text, alone=False,
    suffixes=tuple(name + packed for name in TEXT_SUFFIXES for packed in ("", *COMPRESSED)),
)  # fmt: skip
"""Text is ingested before it is read."""
